"""The toy's model: bytes over bandwidth, a launch, and a wave for every tile of rows that no SM is left for."""

from typing import Any

import jax.numpy as jnp

from jaxmodel._pytree import pytree
from jaxmodel.reasons import Reason
from jaxmodel.types import PIPELINES, Cost

ROW_SMEM_BYTES = 4096


@pytree
class Toy:
    """Rows, bytes of one, and what an implementation adds."""

    rows: Any
    row_bytes: Any
    framework_s: Any
    slowdown: Any


@pytree
class ToySchedule:
    """Rows of a CTA, buffers, and in which order."""

    tile_rows: Any
    stages: Any
    order: Any


def cost(problem: Any, schedule: Any, gpu: Any) -> Cost:
    """DDR binds; stages beyond one hide nothing, they only take shared memory."""
    smem = schedule.tile_rows * schedule.stages * ROW_SMEM_BYTES
    moved = 2.0 * problem.rows * problem.row_bytes
    busy = moved / gpu.ddr_bytes_per_s
    waves = problem.rows / (schedule.tile_rows * gpu.sm_count)
    steady = busy * problem.slowdown
    tail = jnp.where(waves < 1.0, busy * (1.0 - waves), 0.0) + schedule.order * 1e-7
    launch = gpu.launch_overhead_s + problem.framework_s
    reason = jnp.where(smem > gpu.smem_per_cta_max_bytes, float(Reason.SMEM), 0.0)
    none = jnp.zeros_like(smem)
    pipelines = dict.fromkeys(PIPELINES, none) | {"ddr": busy + none}
    return Cost(
        latency_s=steady + tail + launch,
        reason=reason,
        bound=none + PIPELINES.index("ddr"),
        pipeline_s=tuple(pipelines[name] for name in PIPELINES),
        prologue_s=none,
        steady_s=steady + none,
        epilogue_s=none,
        tail_s=tail,
        reduction_s=none,
        launch_s=launch + none,
        helpers_s=none,
        flop=problem.rows * problem.row_bytes / 2.0 + none,
        l15_bytes=moved + none,
        l2_bytes=moved + none,
        ddr_read_bytes=moved / 2.0 + none,
        ddr_write_bytes=moved / 2.0 + none,
        ddr_bytes=moved + none,
        l15_hit=none,
        l2_hit=none,
        waves=waves,
        ctas_per_sm=none + 1.0,
        occupancy_limiter=none,
        registers_per_thread=none + 32.0,
        smem_bytes=smem,
        threads=none + 128.0,
        workspace_bytes=none,
        sms_used=jnp.minimum(waves * gpu.sm_count, gpu.sm_count),
        energy_j=none,
    )


def remarks(about: Any) -> dict[str, tuple[float, str]]:
    """One of its own, and the tail's in place of the common one."""
    tail = f"is the tail: tile_rows below {int(about.schedule['tile_rows'])}"
    return {"tail": (about.share("tail_s"), tail), "buffers": (0.06, "may be buffers")}
