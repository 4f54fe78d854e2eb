"""Records of kernels that stream rows: elementwise, reductions, norms, softmax, RoPE, cache writes, quantisation."""

from .._pytree import pytree
from ..types import Array


@pytree
class Rows:
    """A kernel that reads a matrix of `rows` x `cols` elements (or several alike) and writes another.

    What makes it a softmax or a norm are the numbers below: bytes and operations an element, and over what is reduced
    before elements can be written.
    """

    rows: Array
    cols: Array
    element_bytes: Array  # of one input: decides how many elements a vector holds
    read_bytes: Array  # an element, all inputs
    write_bytes: Array  # an element, all outputs
    row_read_bytes: Array  # a row, beside its elements: a table of angles, an index
    lookups: Array  # loads, one after the other, that must return before a row's own can start: a position, a page
    row_write_bytes: Array  # a row, beside its elements: a sum, scales
    shared_bytes: Array  # a column, the same for all rows: gains, biases
    run_bytes: Array  # of output that lie one after the other: the whole of it, or a head's part of a page
    cuda_flop: Array  # an element; a fused multiply and add is 2, any other instruction takes its slot and counts 2 too
    sfu_op: Array  # an element
    reductions: Array  # values a row (or a group) is reduced to: 0 elementwise, 1 a sum, 2 maximum and sum
    group_cols: Array  # elements that are reduced together; 0: a whole row, which must be known before it is written
    passes: Array  # over a row's elements, where they are not kept; 1: nothing written waits for a whole row
    first_pass: Array  # 1: a kernel of its own must have read everything before: the scale of a whole tensor
    warm: Array  # 1: the inputs are in L2 when the kernel starts, as far as they fit


@pytree
class RowSchedule:
    """One way to run a row kernel. A CTA works on whole rows (`rows_per_cta`, or a part of one with `splits`), or, if
    no whole row is reduced, on `steps` steps of elements as they lie in memory."""

    cta_threads: Array
    vector_bytes: Array  # a load of one thread
    unroll: Array  # loads of one thread, of each input, that one step issues together
    stages: Array  # steps in flight: 1: the next step's loads wait for this one's arithmetic; 2 and more: prefetched
    steps: Array  # of a CTA over elements in order of memory; 0: a CTA owns rows
    rows_per_cta: Array  # at once, its threads divided among them
    splits: Array  # CTAs that share a row; a second kernel adds up their sums; 1: none
    keep: Array  # KEEP_*: where a row stays between passes
    persistent: Array  # 1: a CTA a slot takes its next rows or steps itself


KEEP_REGISTERS = 0
KEEP_SMEM = 1
KEEP_L2 = 2  # nowhere: read again, from L2 as far as it holds the rows in flight
