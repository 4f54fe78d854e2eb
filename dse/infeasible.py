"""Why a schedule cannot run, with its numbers: what it needs, what there is, what to change."""

from collections.abc import Mapping
from typing import Any

from jaxmodel.occupancy import THREADS_PER_CTA_MAX
from jaxmodel.reasons import ADVICE, Reason

from .kernels.entry import attribute
from .kernels.registry import get_kernel, kernel_of

# what helps, for kernels whose schedules have no tile_m, tile_n, tile_k
PLAIN_FIXES = {
    Reason.SMEM: "fewer stages or smaller tiles",
    Reason.REGISTERS: "smaller tiles, less unrolling or more threads",
    Reason.REGISTER_FILE: "smaller tiles or fewer threads",
    Reason.TMEM: "narrower tiles",
}


def advice_of(reason: Reason, kernel: str) -> str:
    """`jaxmodel.reasons.ADVICE` in words that the kernel's schedules have."""
    text = ADVICE[reason]
    if reason not in PLAIN_FIXES or "tile_k" in get_kernel(kernel).schedule_fields:
        return text
    return f"{text.partition(': ')[0]}: {PLAIN_FIXES[reason]}"


def why_not(problem: Any, schedule: Mapping[str, Any], cost: Mapping[str, Any], gpu: Any) -> str:
    """A sentence such as `SMEM: needs 262144 B of shared memory, 232448 B available: fewer stages or a smaller tile_k`.

    Reasons whose numbers stand in every cost get them here, those of a kernel's own from its `Kernel.reason_numbers`;
    of any other the sentence says what `jaxmodel.reasons.ADVICE` says.

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
    what, _, fix = advice_of(reason, problem.kernel).partition(": ")
    own = kernel_of(problem).reason_numbers
    numbers = _numbers(reason, cost, gpu) or (attribute(own)(reason, problem, schedule, cost, gpu) if own else "")
    return f"{reason.name}: {numbers or what}" + (f": {fix}" if fix else "")


def _numbers(reason: Reason, cost: Mapping[str, Any], gpu: Any) -> str:
    need = {name: round(float(cost[name])) for name in ("smem_bytes", "threads", "registers_per_thread")}
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
    return ""
