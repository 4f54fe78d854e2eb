"""Records that cross `jit`: problem, schedule, cost. One leaf a quantity; all leaves broadcast against each other."""

from typing import Any, TypeAlias

from jaxtyping import Bool, Float

from ._pytree import pytree

Array: TypeAlias = Any  # a jax or numpy array, or a Python number; fields are documented where they are declared
Floats: TypeAlias = Float[Any, "*#cfg"] | float | int  # floats that broadcast, e.g. one a candidate, or a constant
Bools: TypeAlias = Bool[Any, "*#cfg"] | bool

PIPELINES = ("tensor", "cuda", "sfu", "tmem", "smem", "l15", "l2", "ddr", "net")


@pytree
class Scaling:
    """The scales of a narrow type's operands, and the quantisation of A that goes before the kernel.

    Scale bytes are those of the operand's scales over its elements, e.g. 1/16 for one byte a block of 1 x 16.
    """

    a_scale_bytes: Array  # an element of A
    b_scale_bytes: Array  # an element of B
    promote_k: Array  # depth after which CUDA cores scale and add up an accumulator in registers; 0: never
    quantise_passes: Array  # kernels that read A in its wide type before this one; 0: A arrives quantised
    quantise_source_bytes: Array  # an element of A in its wide type


@pytree
class Gemm:
    """A (batched) GEMM: out[b] (m x n) = A[b] (m x k) B[b] (k x n) + beta C[b]. Dimensions are whole numbers below
    2^24, so that float32 holds them exactly.

    A warm operand is in L2 when the kernel starts, as far as it fits (0: cold, 1: warm).
    """

    m: Array
    n: Array
    k: Array
    batch: Array
    a_bytes: Array  # an element
    b_bytes: Array
    out_bytes: Array
    c_in_bytes: Array  # an element of C read in the epilogue; 0 where beta is 0
    a_k_major: Array  # 1: A's rows are contiguous along k; 0: along m
    b_k_major: Array  # 1: B is contiguous along k ("weights n x k"); 0: along n
    a_align_bytes: Array  # largest power of two (at most 128) that divides every row's start
    b_align_bytes: Array
    out_align_bytes: Array
    a_warm: Array
    b_warm: Array
    scaling: Scaling | None = None  # None, as with zeros: no scales, and a compiled model holds nothing of them


@pytree
class GemmSchedule:
    """One way to run a GEMM. `tile_*` is what ONE CTA computes; with `cta_pair` two CTAs share one tcgen05 instruction
    and the pair's tile is (2 tile_m) x tile_n.

    Codes: `swap_ab`, `raster_along_n`, `persistent`, `stream_k`, `cta_pair` are 0 or 1; `epilogue` is an EPILOGUE_*.
    """

    tile_m: Array
    tile_n: Array
    tile_k: Array
    stages: Array
    warps_m: Array  # warps (mma.sync) or 4 x consumer warpgroups (wgmma) along tile_m; tcgen05: 4 epilogue warps
    warps_n: Array
    cluster_m: Array
    cluster_n: Array
    cta_pair: Array
    swap_ab: Array  # 1: the tile's rows run along the problem's n (the transposed product), for few rows of A
    raster_along_n: Array  # 0: walk along m inside a panel of `swizzle` tile columns; 1: along n, panel of tile rows
    swizzle: Array  # panel width in clusters; CUTLASS swizzle, Triton GROUP_M (along n). None: see `operand_traffic`
    persistent: Array
    sms_free: Array  # SMs a persistent grid leaves to something else
    split_k: Array  # 1: none
    stream_k: Array
    epilogue: Array
    registers_measured: Array  # a thread; 0: estimate
    smem_measured_bytes: Array  # a CTA; 0: estimate


EPILOGUE_DIRECT = 0  # registers straight to global memory
EPILOGUE_STAGED = 1  # through SMEM, written by TMA or in full lines
EPILOGUE_OVERLAPPED = 2  # staged, and under the next tile's main loop (ping-pong, second accumulator); persistent only


@pytree
class Cost:
    """What a candidate costs, as a breakdown. Seconds of the whole kernel unless said otherwise.

    `pipeline_s` is each pipeline's whole demand over its peak (a lower bound each), in the order of `PIPELINES`.
    prologue + steady + epilogue + tail + reduction + launch + helpers = latency. Bytes and energy are the
    kernel's own: those of its helpers are in no field.
    """

    latency_s: Array
    reason: Array  # a `Reason` code; 0: feasible. Where it is not 0 the other fields hold what was computed, not NaN
    bound: Array  # what binds: index into BOUNDS
    pipeline_s: tuple[Array, ...]  # nine
    prologue_s: Array
    steady_s: Array
    epilogue_s: Array
    tail_s: Array
    reduction_s: Array
    launch_s: Array
    helpers_s: Array  # other kernels that it needs: making a narrow A of a wide one, appending to a KV cache
    flop: Array  # useful
    l15_bytes: Array  # requested by the SMs
    l2_bytes: Array
    ddr_read_bytes: Array
    ddr_write_bytes: Array
    ddr_bytes: Array
    l15_hit: Array  # share of all requested bytes
    l2_hit: Array  # share of all requested bytes found in L1.5 or L2: 1 - DDR share
    waves: Array
    ctas_per_sm: Array
    occupancy_limiter: Array  # index into OCCUPANCY_LIMITERS
    registers_per_thread: Array
    smem_bytes: Array  # a CTA
    threads: Array  # a CTA
    workspace_bytes: Array
    sms_used: Array
    energy_j: Array


BOUNDS = (*PIPELINES, "latency", "epilogue", "launch")
OCCUPANCY_LIMITERS = ("SMEM", "registers", "threads", "warps", "CTA slots", "TMEM")
