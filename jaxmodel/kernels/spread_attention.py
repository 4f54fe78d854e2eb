"""What Ulysses and ring attention share: launches of attention added up to one cost, with transfers around them."""

import dataclasses
from typing import Any

import jax.numpy as jnp

from ..machine import Gpu
from ..reasons import Reason
from ..types import BOUNDS, PIPELINES, Bools, Cost, Floats
from .fused_gemm_types import FusedCost
from .transport import Way

ADDED = (
    "latency_s", "prologue_s", "steady_s", "epilogue_s", "tail_s", "reduction_s", "launch_s", "helpers_s", "flop",
    "l15_bytes", "l2_bytes", "ddr_read_bytes", "ddr_write_bytes", "ddr_bytes", "waves", "energy_j",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Around:
    """What goes on around the launches of attention.

    Attributes:
        exposed_s: of transfers that no launch hides.
        merge_s: of adding partial results to the sums so far, all launches.
        merge_ddr_s: DDR is busy with it.
        merge_read_bytes, merge_write_bytes: that it moves through DDR.
        kept_bytes: global memory for the sums.
        net_s: of all bytes on the link.
    """

    exposed_s: Floats
    net_s: Floats
    merge_s: Floats = 0.0
    merge_ddr_s: Floats = 0.0
    merge_read_bytes: Floats = 0.0
    merge_write_bytes: Floats = 0.0
    kept_bytes: Floats = 0.0


def sms_left(gpu: Gpu, comm_sms: Floats) -> Gpu:
    """The GPU without the SMs that move data, one at least."""
    return dataclasses.replace(gpu, sm_count=jnp.maximum(gpu.sm_count - comm_sms, 1.0))


def way_checks(way: Way, gpu: Gpu, comm_sms: Floats, chunks_wrong: Bools) -> list[tuple[Bools, Reason]]:
    """Why a way or chunks cannot be: (where it holds, reason)."""
    return [
        (comm_sms > gpu.sm_count - 1.0, Reason.SMS_FREE),
        (way.there < 1, Reason.TRANSPORT),
        (chunks_wrong, Reason.CHUNKS),
    ]


def added_up(launches: list[tuple[Cost, Floats]], around: Around, own_reason: Floats, gpu: Gpu) -> FusedCost:
    """The cost of launches one after the other, each so many times, and of what goes on around them.

    Footprint, registers and residency are those of the last kind of launch, which is the most frequent one.
    """
    last, _ = launches[-1]
    total: dict[str, Any] = {name: sum(getattr(cost, name) * count for cost, count in launches) for name in ADDED}
    requested = total["l15_bytes"]
    hits = {
        name: jnp.clip(sum(getattr(cost, name) * cost.l15_bytes * n for cost, n in launches) / requested, 0.0, 1.0)
        for name in ("l15_hit", "l2_hit")
    }
    merged_bytes = around.merge_read_bytes + around.merge_write_bytes
    total["latency_s"] += around.exposed_s + around.merge_s
    total["reduction_s"] += around.merge_s
    total["ddr_read_bytes"] += around.merge_read_bytes
    total["ddr_write_bytes"] += around.merge_write_bytes
    total["ddr_bytes"] += merged_bytes
    total["energy_j"] += gpu.static_w * (around.exposed_s + around.merge_s) + gpu.joule_per_ddr_byte * merged_bytes
    pipeline_s: list[Any] = [
        sum(cost.pipeline_s[place] * count for cost, count in launches) + jnp.zeros_like(total["latency_s"])
        for place in range(len(PIPELINES))
    ]
    pipeline_s[PIPELINES.index("net")] = around.net_s
    pipeline_s[PIPELINES.index("ddr")] += around.merge_ddr_s
    reason = own_reason
    for cost, _ in launches:
        reason = jnp.where(reason > 0, reason, cost.reason)
    waits = around.exposed_s > 0.5 * total["latency_s"]
    kept = ("occupancy_limiter", "registers_per_thread", "smem_bytes", "threads", "ctas_per_sm", "sms_used")
    return FusedCost(
        **total,
        **{name: getattr(last, name) for name in kept},
        l15_hit=jnp.minimum(hits["l15_hit"], hits["l2_hit"]),
        l2_hit=hits["l2_hit"],
        reason=reason,
        bound=jnp.where(waits, float(BOUNDS.index("net")), last.bound),
        pipeline_s=tuple(pipeline_s),
        workspace_bytes=last.workspace_bytes + around.kept_bytes,
        communication_s=around.exposed_s,
    )
