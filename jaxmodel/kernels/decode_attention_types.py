"""Records of decode attention: the problem, an implementation's numbers, the schedule."""

from typing import Any

from .._pytree import pytree
from ..types import Array

SCHEDULER_GRID = 0  # a CTA a tile, replaced by the next one as it finishes
SCHEDULER_PERSISTENT = 1  # CTAs take their next tile themselves: its first loads run under this tile's last block
SCHEDULER_STREAM = 2  # the key blocks of all tiles are dealt evenly to the CTAs, whatever tile they belong to

COMBINE_LAUNCH = 0  # a second kernel adds the parts of a split tile up
COMBINE_IN_KERNEL = 1  # the last CTA of a tile does, once a counter says that the others are through


@pytree
class DecodeNumbers:
    """What a library's kernel adds to the GPU: named, and none of them the GPU's own.

    The first ones are fitted. Those from `split_blocks` on say what the library launches at all: a schedule that it
    would not launch has the reason LIBRARY. The defaults are those of a bare ideal kernel that launches anything.
    """

    framework_s: Array = 0.0  # a call beyond the launch of one kernel: helper kernels without their bytes
    tile_setup_s: Array = 0.0  # of a tile, beyond its launch, loads, first block and store
    wide_tile_setup_s: Array = 0.0  # the same of the kernel for head dims above 128
    row_s: Array = 0.0  # of a tile, for each of its query rows
    step_s: Array = 0.0  # of a block of keys: barriers, page-table arithmetic
    combine_scale: Array = 1.0  # launch of the combine kernel over the GPU's dependent launch
    read_scale: Array = 1.0  # rate of a stream of keys and values from DDR over the GPU's DDR rate
    shared_read_scale: Array = 1.0  # L2's rate for keys that several tiles read at once, over L2's rate
    cache_share: Array = 1.0  # of the effective L2 that keys and values of an earlier call keep
    overhead_loss: Array = 0.0  # share of the tiles' own overheads that other tiles' streaming does not hide
    helper_q: Array = 0.0  # bytes that helpers move before or after the kernel, over the bytes of Q and O
    helper_kv: Array = 0.0  # the same over the bytes of K and V
    sequence_s: Array = 0.0  # of a sequence, one after the other: the tile scheduler's walk over the batch
    long_batch_sequence_s: Array = 0.0  # the same in batches above `long_batch`
    long_batch: Array = 0.0  # sequences from which another scheduler is used; 0: never
    split_blocks: Array = 1.0  # tiles of so many key blocks or fewer are not split
    split_cap: Array = 4096.0  # splits at most
    combine_always: Array = 0.0  # 1: the combine kernel is launched wherever tiles could be split
    ctas_per_sm: Array = 0.0  # CTAs that it lets run on an SM at once, at most; 0: as many as fit
    tile_rows: Array = 0.0  # rows of a tile; 0: any
    wide_tile_rows: Array = 0.0  # the same with head dims above 128
    tile_n: Array = 0.0  # keys a block; 0: any
    wide_tile_n: Array = 0.0  # the same with head dims above 128
    swapped_rows: Array = 0.0  # up to so many rows of a KV head the operands are swapped, above they are not; 0: either
    unpacked_rows: Array = 0.0  # above so many query heads a KV head these are not packed, else they are; 0: either


@pytree
class DecodeAttention:
    """softmax(scale Q K^T) V for `batch` sequences of a few queries each over long, paged keys and values.

    The queries are the last `q_tokens` of a sequence of `kv_tokens`; with `causal` each sees the keys up to its own.
    Dimensions are whole numbers below 2^24.
    """

    batch: Array
    q_tokens: Array  # a sequence: 1, more in speculative decoding and chunked prefill
    kv_tokens: Array  # a sequence, mean
    context_spread: Array  # standard deviation of the sequences' kv_tokens over their mean
    heads: Array  # of Q and O
    kv_heads: Array  # of K and V; divides `heads`
    head_dim: Array  # of Q and K
    v_dim: Array  # of V and O
    shared_kv: Array  # 1: V is the first `v_dim` numbers of K (MLA's latent)
    causal: Array
    window: Array  # keys that a query sees at most; 0: all
    q_bytes: Array  # an element of Q, and of what the tensor cores multiply
    kv_bytes: Array  # below q_bytes: widened by CUDA cores before they are multiplied
    out_bytes: Array
    page_tokens: Array  # tokens of a page of the cache; 0: contiguous
    kv_warm: Array  # 1: keys and values are in L2 at the start, as far as they fit
    numbers: Any  # DecodeNumbers


@pytree
class DecodeAttentionSchedule:
    """One way to run decode attention. A tile is a group of query rows of one KV head or head; flags 0 or 1."""

    tile_rows: Array  # query rows a tile: (head, token) pairs of a KV head where packed
    tile_n: Array  # keys a block
    stages: Array  # blocks of K and of V that the ring buffers hold
    warps: Array  # that multiply and do softmax
    pack_gqa: Array  # 1: the query heads of a KV head share tiles
    swap_ab: Array  # 1: keys run along the instruction's long side, query rows along its short one
    overlap: Array  # 1: the next block's Q K^T runs under this block's softmax (two sets of scores)
    splits: Array  # parts that a tile's keys are cut into
    scheduler: Array  # SCHEDULER_*
    combine: Array  # COMBINE_*
    registers_measured: Array  # a thread; 0: estimate
    smem_measured_bytes: Array  # a CTA; 0: estimate
