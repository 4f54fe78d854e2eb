"""Records of a fused MoE layer: the problem on one rank, a library's numbers, the schedule."""

from .._pytree import pytree
from ..types import Array, Scaling
from .grouped_gemm_types import ExpertClass, GroupedNumbers


@pytree
class MoeNumbers:
    """What a library's fused MoE layer adds to its two grouped kernels; the defaults are a bare ideal layer's."""

    kernel: GroupedNumbers
    framework_s: Array = 0.0  # a layer beyond its kernels' launches and bytes: routing, sorting, gaps, small kernels
    helper_scale: Array = 1.0  # time of the kernels that only move rows, over that of their bytes at full rate
    permutes: Array = 0.0  # 1: rows are copied for each of their experts before the first kernel
    all_rows: Array = 0.0  # 1: activation and sum run over the rows of experts elsewhere too


@pytree
class Moe:
    """One rank's part of a fused MoE layer: gate/up product, activation, down product, weighted sum over experts.

    out[t] = sum over t's experts e of weight (act(x[t] W1[e]) W2[e]), W1 hidden x inter (2 inter if gated), W2
    inter x hidden.
    """

    tokens: Array  # rows that the rank is given
    routed_everywhere: Array  # tokens x experts a token, on all ranks
    hidden: Array
    inter: Array  # of this rank
    gated: Array  # 1: SiLU(gate) up, W1 has 2 inter columns; 0: one product
    classes: tuple[ExpertClass, ...]  # of this rank's experts
    weight_bytes: Array  # an element of the tensor instruction's operands
    wide_bytes: Array  # an element of activations as layers pass them on
    align_bytes: Array
    numbers: MoeNumbers
    scaling: Scaling | None = None  # of narrow types: activations are quantised before both products


@pytree
class MoeSchedule:
    """One way to run both grouped kernels; fields as in `GroupedGemmSchedule`. `down_*` is the second kernel's, 0: as
    the first's; what has no field of its own is the same for both."""

    tile_m: Array
    tile_n: Array
    tile_k: Array
    stages: Array
    warps_m: Array
    warps_n: Array
    swap_ab: Array
    raster_along_n: Array
    swizzle: Array
    persistent: Array
    epilogue: Array
    producers: Array
    cta_pair: Array
    down_tile_m: Array
    down_tile_n: Array
    down_depth: Array  # the second kernel's tile_k over the first's; 1: the same
    down_stages: Array
    down_warps_m: Array
