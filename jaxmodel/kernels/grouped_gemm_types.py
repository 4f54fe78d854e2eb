"""Records of grouped GEMMs and fused MoE layers: who computes how many rows, a library's numbers, the schedules."""

from .._pytree import pytree
from ..types import Array, Scaling


@pytree
class ExpertClass:
    """Experts (groups) that get the same number of rows. A class of no experts costs nothing."""

    rows: Array  # of one expert; a whole number, at least 1
    experts: Array  # experts of the class; real where it is a mean over routings


@pytree
class GroupedNumbers:
    """What a library's grouped kernel adds to the GPU: fitted, named, and none of them the GPU's own.

    The defaults are those of a bare ideal kernel. Where 0 is the default, 0 means the GPU's own number.
    """

    tensor_efficiency: Array = 1.0  # over the GPU's sustained rate of wgmma or tcgen05
    mma_sync_efficiency: Array = 1.0  # the same of mma.sync
    ddr_efficiency: Array = 1.0  # over the GPU's sustained memory rate
    ddr_run_bytes: Array = 0.0  # of memory time that every contiguous run of a loaded tile costs more
    l2_efficiency: Array = 1.0  # over the GPU's L2 rate
    step_overhead_s: Array = 0.0  # of a K-step, in place of the GPU's
    tile_setup_s: Array = 0.0  # from a free slot to a tile's first load, in place of the GPU's CTA launch
    load_latency_s: Array = 0.0  # of a load beyond its cache's latency, in place of the GPU's mma_latency_s


@pytree
class GroupedGemm:
    """out[e] (rows_e x n) = A[rows of e] (rows_e x k) B[e] (k x n) for every expert e that gets rows.

    A has `tokens` rows, each of which goes to one or more experts; B is cold, and only the B of experts with rows is
    read. Dimensions are whole numbers below 2^24.
    """

    tokens: Array  # rows of A that differ; at most the experts' rows
    n: Array
    k: Array
    classes: tuple[ExpertClass, ...]
    a_bytes: Array  # an element
    b_bytes: Array
    out_bytes: Array
    a_align_bytes: Array  # as in `jaxmodel.types.Gemm`; A and B are contiguous along k
    b_align_bytes: Array
    out_align_bytes: Array
    a_warm: Array  # 1: A is in L2 when the kernel starts, as far as it fits
    numbers: GroupedNumbers
    scaling: Scaling | None = None  # of narrow types; its quantisation is not counted here


@pytree
class GroupedGemmSchedule:
    """One way to run a grouped GEMM; fields as in `jaxmodel.types.GemmSchedule`.

    With `swap_ab` the tile's rows run along n and its columns along an expert's rows. `producers` is 1 where warps of
    their own load (TMA), 0 where the warps that compute also copy, as Triton's kernels that gather rows do.
    """

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
