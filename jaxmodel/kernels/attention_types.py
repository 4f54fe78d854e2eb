"""Records of attention: the problem, its sequences of unequal length, an implementation's numbers, the schedule.

Prefill (`attention`) and decode (`decode_attention`) share the problem's record; what an implementation's numbers are
called differs, so `Attention.numbers` is whichever record the kernel reads.
"""

from typing import Any

from .._pytree import pytree
from ..types import Array

ORDER_SERIAL = (
    0  # a warpgroup multiplies, then does its softmax, then multiplies; warpgroups do not wait for each other
)
ORDER_PIPELINED = 1  # as serial, and the next block's Q K^T is issued before this block's softmax (two sets of scores)
ORDER_PING_PONG = 2  # warpgroups take turns at the tensor cores: one multiplies while the others do their softmax
ORDER_BOTH = 3  # ping-pong between warpgroups and pipelining within each, as FlashAttention-3


@pytree
class SequenceClass:
    """`batch` further sequences of one length, for batches of unequal sequences."""

    batch: Array
    q_tokens: Array
    kv_tokens: Array


@pytree
class AttentionNumbers:
    """What a library's prefill kernel adds to the GPU: fitted, named, and none of them the GPU's own.

    The defaults are those of a bare ideal kernel.
    """

    framework_s: Array = 0.0  # a call beyond the launch of one kernel: host graph, helper kernels without their bytes
    other_dims_s: Array = 0.0  # a call of a head dim other than 128, more: another path of the library
    helper_q: Array = 0.0  # bytes that helpers move before or after the kernel, over the bytes of Q and O
    helper_kv: Array = 0.0  # the same over the bytes of K and V (append to the cache, layout, quantisation)
    tensor_efficiency: Array = 1.0  # share of the GPU's sustained tensor rate that the kernel's instructions reach
    softmax_scale: Array = 1.0  # issue slots a score over the ideal count
    handover_s: Array = 0.0  # from one warpgroup's arrival at a barrier to the other's first instruction
    tile_setup_s: Array = 0.0  # of a tile, beyond launch, loads, first and last block and store
    imbalance: Array = 0.0  # of the longest tile: how much later the last one ends than its launch order says
    combine_s: Array = 0.0  # of the combine kernel of KV splits, beyond its launch and bytes
    power_scale: Array = 1.0  # dynamic energy over what the GPU's joules say


@pytree
class Attention:
    """softmax(scale Q K^T + mask) V for `batch` sequences of `q_tokens` queries over `kv_tokens` keys.

    Queries are the last `q_tokens` of the sequence: with `causal`, query i sees keys up to kv_tokens - q_tokens + i.
    Dimensions are whole numbers below 2^24. A warm operand is in L2 when the kernel starts, as far as it fits.
    """

    batch: Array
    q_tokens: Array
    kv_tokens: Array
    heads: Array  # of Q and O
    kv_heads: Array  # of K and V; divides `heads`
    head_dim: Array  # of Q and K
    v_dim: Array  # of V and O
    causal: Array  # 1: masked above the diagonal
    window: Array  # keys that a query sees at most, itself included; 0: all
    q_bytes: Array  # an element
    kv_bytes: Array
    out_bytes: Array
    kv_page_tokens: Array  # tokens of a page of the KV cache; 0: contiguous
    kv_warm: Array  # 1: K and V are in L2 at the start, as far as they fit
    q_warm: Array
    numbers: Any  # of the implementation: `AttentionNumbers`, or the record that another kernel reads
    more: tuple[SequenceClass, ...] = ()  # further sequences of other lengths in the same launch


@pytree
class AttentionSchedule:
    """One way to run attention forward. `tile_m` is what ONE CTA computes: rows are queries, or (query, head) pairs
    of one KV head where `pack_gqa` is set. Codes are whole numbers, flags 0 or 1."""

    tile_m: Array  # rows of Q a CTA
    tile_n: Array  # keys a block
    stages: Array  # blocks of K and of V that the ring buffers hold
    warpgroups: Array  # that multiply and do softmax: groups of 4 warps
    order: Array  # ORDER_*
    pack_gqa: Array  # 1: the query heads of a KV head share tiles
    splits: Array  # parts that the keys are cut into, combined by a second kernel; 1: none
    persistent: Array  # 1: CTAs take their next tile themselves
    longest_first: Array  # 1: tiles with most keys are launched first; 0: in order of their queries
    q_in_registers: Array  # 1: Q's fragments stay in registers; 0: in SMEM
    p_in_smem: Array  # 1: probabilities go to P V through SMEM; 0: registers (TMEM with tcgen05)
    head_section: Array  # KV heads of a sequence whose tiles are launched together; 0: as many as L2 holds
    registers_measured: Array  # a thread; 0: estimate
    smem_measured_bytes: Array  # a CTA; 0: estimate
