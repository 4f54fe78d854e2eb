"""Records of two GEMMs in a chain: E (m x l) = f(A (m x k) B (k x n)) D (n x l)."""

from .._pytree import pytree
from ..types import Array

SPILLED = 0  # two kernels: the intermediate goes through L2 and DDR
RECOMPUTED = 1  # one kernel, blocks of the intermediate on chip, made again for every column block of E
KEPT = 2  # one kernel, whole rows of the intermediate in shared memory

IN_REGISTERS = 0
IN_SMEM = 1
IN_TMEM = 2


@pytree
class GemmChain:
    """All operands have one 16-bit type and are contiguous along the dimension that is summed over."""

    m: Array
    n: Array
    k: Array
    l: Array  # noqa: E741 - the field's letter
    element_bytes: Array  # of A, B, D and the intermediate
    out_bytes: Array
    k_align_bytes: Array  # largest power of two (at most 128) that divides every row's start of A and B
    n_align_bytes: Array  # of the intermediate and D
    out_align_bytes: Array
    a_warm: Array  # 1: A is in L2 at the start, as far as it fits
    slots: Array  # CUDA-core instruction slots of f, an element of the intermediate
    sfu_op: Array  # of f, an element


@pytree
class ChainSchedule:
    """One way to run a chain. A tile of the first product is tile_m x tile_n x tile_k, one of the second tile_m x
    tile_l x tile_n (spilled: x tile_k)."""

    order: Array  # SPILLED, RECOMPUTED or KEPT
    tile_m: Array
    tile_n: Array
    tile_l: Array
    tile_k: Array
    stages: Array  # K-steps of the first product's operands in shared memory (kept: of the second's too)
    warps: Array  # along tile_m
    intermediate_in: Array  # IN_REGISTERS, IN_SMEM or IN_TMEM: a block, as the second product reads it
    sets: Array  # blocks of the intermediate: 1: no product runs under the activation
    a_kept: Array  # 1: the tile's rows of A stay in shared memory; 0: they are loaded again for every block
    raster_along_n: Array
    swizzle: Array
    persistent: Array
