"""Records of kernels that stream rows: elementwise, reductions, norms, softmax, RoPE, cache writes, quantisation."""

from .._pytree import pytree
from ..types import Array


@pytree
class Rows:
    """A kernel that reads a matrix of `rows` x `cols` elements (or several alike) and writes another.

    What makes it a softmax or a norm are the numbers below: bytes and operations an element, and how often a row's
    elements must be known before the next pass over them can start.
    """

    rows: Array
    cols: Array
    element_bytes: Array  # of one input: decides how many elements a vector holds
    read_bytes: Array  # an element, all inputs
    write_bytes: Array  # an element
    row_read_bytes: Array  # a row, beside its elements: a table of angles, an index
    indexed: Array  # 1: where a row is written depends on an index that is read first
    row_write_bytes: Array  # a row, beside its elements: a sum, scales
    shared_bytes: Array  # a column, the same for all rows: gains, biases
    run_bytes: Array  # bytes written one after the other: a whole row, or a head's part of a page
    cuda_flop: Array  # an element; a fused multiply and add is 2, any other instruction takes its slot and counts 2 too
    sfu_op: Array  # an element
    reductions: Array  # over a row, one after the other: 0 elementwise, 1 sum, 2 maximum and sum
    passes: Array  # over a row's elements, where they are not kept: reductions + 1 if elements are written, else 1
    warm: Array  # 1: the inputs are in L2 when the kernel starts, as far as they fit


@pytree
class RowSchedule:
    """One way to run a row kernel. A CTA works on whole rows (`rows_per_cta`, or a part of one with `splits`), or, where
    nothing is reduced, on `steps` steps of elements as they lie in memory."""

    threads: Array  # a CTA
    vector_bytes: Array  # a load of one thread
    unroll: Array  # loads of one thread that are in flight together
    stages: Array  # steps in flight: 1: the next step's loads wait for this one's arithmetic; 2 and more: prefetched
    steps: Array  # of a CTA over elements in order of memory; 0: a CTA owns rows
    rows_per_cta: Array  # at once, its threads divided among them
    splits: Array  # CTAs that share a row; a second kernel adds up their sums; 1: none
    keep: Array  # KEEP_*: where a row stays between passes
    persistent: Array


KEEP_REGISTERS = 0
KEEP_SMEM = 1
KEEP_L2 = 2  # nowhere: read again, from L2 as far as it holds the rows in flight
