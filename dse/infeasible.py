"""Why a schedule cannot run, with its numbers: what it needs, what there is, what to change."""

from collections.abc import Mapping
from typing import Any

from jaxmodel.kernels.gemm_footprint import THREADS_PER_CTA_MAX, TMA_ALIGN_BYTES
from jaxmodel.reasons import ADVICE, Reason


def why_not(problem: Any, schedule: Mapping[str, Any], cost: Mapping[str, Any], gpu: Any) -> str:
    """A sentence such as `SMEM: needs 262144 B of shared memory, 232448 B available: fewer stages or a smaller tile_k`.

    Args:
        problem: the user's problem.
        schedule: field -> number.
        cost: cost field -> number, one schedule's.
        gpu: the model's record of the GPU (`jaxmodel.machine.Gpu`).

    Returns:
        The sentence; "fits" where the schedule can run.
    """
    reason = Reason(int(cost["reason"]))
    if reason is Reason.OK:
        return ADVICE[reason]
    what, _, fix = ADVICE[reason].partition(": ")
    numbers = _numbers(reason, problem, schedule, cost, gpu)
    return f"{reason.name}: {numbers or what}" + (f": {fix}" if fix else "")


def _numbers(reason: Reason, problem: Any, at: Mapping[str, Any], cost: Mapping[str, Any], gpu: Any) -> str:
    need, mma = _Whole(cost), gpu.mma
    ctas = int(at["cluster_m"] * at["cluster_n"])
    if reason is Reason.SMEM:
        limit = int(gpu.smem_per_cta_max_bytes)
        if need["smem_bytes"] <= limit:
            return f"needs {need['smem_bytes']} B of shared memory and {need['threads']} threads, no CTA fits on an SM"
        return f"needs {need['smem_bytes']} B of shared memory, {limit} B available"
    if reason is Reason.REGISTERS:
        allowed = f"{int(gpu.registers_per_thread_max)} allowed, and spilling is not modelled"
        return f"needs {need['registers_per_thread']} registers a thread, {allowed}"
    if reason is Reason.REGISTER_FILE:
        used = f"{need['threads']} threads with up to {need['registers_per_thread']} registers"
        return f"a CTA has {used}, an SM has {int(gpu.registers_per_sm)} registers"
    if reason is Reason.THREADS:
        return f"needs {need['threads']} threads, a CTA may have {THREADS_PER_CTA_MAX:.0f}"
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


class _Whole:
    def __init__(self, cost: Mapping[str, Any]) -> None:
        self._cost = cost

    def __getitem__(self, name: str) -> int:
        return round(float(self._cost[name]))


def _tile(at: Mapping[str, Any]) -> str:
    return f"{int(at['tile_m'])}x{int(at['tile_n'])}x{int(at['tile_k'])}"


def _depth(problem: Any, gpu: Any) -> int:
    record = problem.arrays()
    return int(float(gpu.mma.k_bytes) / min(float(record.a_bytes), float(record.b_bytes)))
