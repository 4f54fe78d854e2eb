"""The numbers of reasons that are GEMM's own; see `dse.infeasible`."""

from collections.abc import Mapping
from typing import Any

from jaxmodel.kernels.gemm_footprint import TMA_ALIGN_BYTES
from jaxmodel.reasons import Reason


def reason_numbers(reason: Reason, problem: Any, at: Mapping[str, Any], cost: Mapping[str, Any], gpu: Any) -> str:
    """What the schedule `at` needs and what there is; "" where a reason has no numbers."""
    mma, ctas = gpu.mma, int(at["cluster_m"] * at["cluster_n"])
    if reason is Reason.MMA_SHAPE:
        depth = _depth(problem, gpu)
        shape = f"{int(mma.m)}x{int(mma.n)}x{depth}"
        return f"the tile {_tile(at)} is not a whole number of {shape} instructions"
    if reason is Reason.WARP_TILE:
        warps = f"{int(at['warps_m'])}x{int(at['warps_n'])} warps"
        return f"the tile {_tile(at)} does not divide over {warps} of {int(mma.m)}x{int(mma.n)} instructions"
    if reason is Reason.CTA_PAIR:
        return f"a 2-CTA pair with tile_m {int(at['tile_m'])} and cluster_m {int(at['cluster_m'])}"
    if reason is Reason.ALIGNMENT:
        record = problem.arrays()
        have = f"rows of A start on {float(record.a_align_bytes):g} B, of B on {float(record.b_align_bytes):g} B"
        return f"{have}, TMA needs {TMA_ALIGN_BYTES:.0f} B"
    if reason is Reason.CLUSTER:
        sizes = [str(2**i) for i, sms in enumerate(gpu.cluster_sms) if sms >= 2**i]
        return f"a cluster of {ctas} CTAs, this GPU places {', '.join(sizes)}"
    if reason is Reason.TMEM:
        doubled = ", twice for the overlapped epilogue" if at["epilogue"] == 2 else ""
        return f"accumulators of {int(at['tile_n'])} columns{doubled}, an SM has {int(gpu.tmem_columns)}"
    if reason is Reason.SMS_FREE:
        free = f"sms_free {int(at['sms_free'])} of {int(gpu.sm_count)} SMs"
        if int(gpu.sm_count) - int(at["sms_free"]) < ctas:
            return f"{free} leaves no room for a cluster of {ctas}"
        return f"{free} frees none that clusters of {ctas} could use"
    if reason is Reason.SPLIT_K:
        steps = -(-problem.k // int(at["tile_k"]))
        return f"split_k {int(at['split_k'])} of {steps} K-steps"
    if reason is Reason.STREAM_K:
        return f"{float(cost['waves']):.6g} waves of tiles"
    if reason is Reason.SAME_ORDER:
        axis = "n" if at["raster_along_n"] else "m"
        return f"raster along_{axis}:{int(at['swizzle'])} is the launch order of another raster"
    return ""


def _tile(at: Mapping[str, Any]) -> str:
    return f"{int(at['tile_m'])}x{int(at['tile_n'])}x{int(at['tile_k'])}"


def _depth(problem: Any, gpu: Any) -> int:
    record = problem.arrays()
    return int(float(gpu.mma.k_bytes) / min(float(record.a_bytes), float(record.b_bytes)))
