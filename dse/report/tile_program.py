"""The times of one schedule's tiles, waves and kernel as the model has them: what a timeline is drawn from.

The model returns sums over the kernel. Here its own parts are called once more for one schedule, and what they say
before it is summed is kept. Nothing is computed in another way: the sums are the model's.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from ..compiled import jit

ROUNDING = 1e-6  # of float32 between two ways to compile the same sum


@dataclass(frozen=True)
class TileProgram:
    """One schedule's times, seconds.

    A wave is what runs at once. `middle_waves` waves take one period each; one more, drawn in detail, has its tiles in
    step: from the first CTA's launch to the last store. Then comes the tail.

    Attributes:
        load_s, latency_s_of_load, compute_s: service time of a K-step's loads, what a load takes beyond it, and service
            time of a K-step's MMAs, on one SM while all SMs of the wave are at work (m, L and c of the model).
        store_s: a tile's epilogue, as far as its CTA waits for it.
        pace_s: m and c together with what does not overlap (M).
        cta_launch_s: from a free slot to the first load.
        resident: tiles an SM in the wave (r).
        iterations: K-steps of a tile (N).
        stages: buffers of a tile (s).
        fill_s, loop_s, stores_s: of the wave in step; they add up to it.
        middle_waves: waves that take a period each, a real number for stream-K.
        period_s: theirs.
        persistent, stream_k: the launch.
        tail_s, reduction_s, launch_s, helpers_s: what else the latency holds.
        throttle_s: what the power limit adds, spread over the main loops.
        latency_s: the model's sum of all this.
    """

    load_s: float
    latency_s_of_load: float
    compute_s: float
    store_s: float
    pace_s: float
    cta_launch_s: float
    resident: int
    iterations: int
    stages: int
    fill_s: float
    loop_s: float
    stores_s: float
    middle_waves: float
    period_s: float
    persistent: bool
    stream_k: bool
    tail_s: float
    reduction_s: float
    launch_s: float
    helpers_s: float
    throttle_s: float
    latency_s: float

    @property
    def wave_s(self) -> float:
        """The wave in step."""
        return self.fill_s + self.loop_s + self.stores_s

    @property
    def parts(self) -> dict[str, float]:
        """What the latency is made of, in the order in which a timeline shows it; parts of 0 are left out."""
        whole = {
            "helper kernels": self.helpers_s,
            "launch": self.launch_s,
            "waves before": self.middle_waves * self.period_s,
            "fill": self.fill_s,
            "main loop": self.loop_s,
            "stores": self.stores_s,
            "tail": self.tail_s,
            "reduction": self.reduction_s,
            "power limit": self.throttle_s,
        }
        return {name: seconds for name, seconds in whole.items() if seconds > 0.0}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def tile_program(problem: Any, schedule: Mapping[str, int], gpu: Any, cost: Mapping[str, Any]) -> TileProgram:
    """The times of one GEMM schedule.

    Args:
        problem: the user's problem (`dse.kernels.gemm.GemmProblem`).
        schedule: a complete schedule that fits, field -> number.
        gpu: the model's record of the GPU.
        cost: the schedule's cost columns, as the model has them (`Explanation.cost`).
    """
    import numpy as np

    from jaxmodel.types import GemmSchedule

    record = GemmSchedule(**{name: np.float32(value) for name, value in schedule.items()})
    found = {name: float(value) for name, value in _compiled()(problem.arrays(), record, gpu).items()}
    resident, iterations = (round(found.pop(name)) for name in ("resident", "iterations"))
    steady_s = found.pop("steady_s")
    throttle_s = float(cost["steady_s"]) - steady_s
    return TileProgram(
        **found,
        **{name: float(cost[name]) for name in ("latency_s", "reduction_s", "launch_s", "helpers_s")},
        resident=resident,
        iterations=iterations,
        stages=int(schedule["stages"]),
        persistent=bool(schedule["persistent"] or schedule["stream_k"]),
        stream_k=bool(schedule["stream_k"]),
        throttle_s=throttle_s if throttle_s > ROUNDING * steady_s else 0.0,
    )


@cache
def _compiled() -> Any:

    return jit(_times)


def _times(problem: Any, schedule: Any, gpu: Any) -> dict[str, Any]:
    """The beginning of `jaxmodel.kernels.gemm.cost`, with what it does not keep."""
    import jax.numpy as jnp

    from jaxmodel._exact import ceil_div
    from jaxmodel.envelope import shared_pace
    from jaxmodel.kernels import gemm
    from jaxmodel.kernels.gemm_footprint import footprint
    from jaxmodel.kernels.gemm_traffic import operand_traffic
    from jaxmodel.occupancy import residency
    from jaxmodel.types import EPILOGUE_OVERLAPPED
    from jaxmodel.waves import wave_times

    seen = gemm.oriented(problem, schedule.swap_ab)
    resident, _ = residency(footprint(seen, schedule, gpu), gpu)
    cut = gemm.grid(seen, schedule, resident, gpu)
    traffic = operand_traffic(seen, schedule, gpu, cut.rows, cut.cols, cut.sms, cut.slots)
    shares_a_tile = (schedule.stream_k > 0) & (cut.tiles < cut.slots)
    steps_a_slot = ceil_div(cut.k_steps * cut.tiles, cut.slots)
    worked = replace(cut, k_steps=jnp.where(shares_a_tile, steps_a_slot, cut.k_steps))
    loop = gemm.loop_demand(seen, schedule, gpu, traffic)
    store = gemm.store_demand(seen, schedule, gpu, cut, traffic)
    miss_latency_s = (gpu.ddr_latency_s - gpu.l2_latency_s) * (1.0 - traffic.l2_hit)
    load_latency_s = gpu.l2_latency_s + miss_latency_s + gpu.mma_latency_s
    times, tile, resident_now = gemm.run_waves(schedule, worked, loop, store, load_latency_s, gpu)
    overlapped = schedule.epilogue >= EPILOGUE_OVERLAPPED
    wave = wave_times(tile, resident_now, worked.k_steps, schedule.stages, overlapped)
    streaming = schedule.stream_k > 0
    whole = jnp.floor(cut.tiles / cut.slots)
    persistent = jnp.maximum(schedule.persistent, schedule.stream_k)
    return {
        "load_s": tile.load_s,
        "latency_s_of_load": tile.latency_s,
        "compute_s": tile.compute_s,
        "store_s": tile.store_s,
        "pace_s": shared_pace(tile.load_s, tile.compute_s, tile.loss),
        "cta_launch_s": tile.launch_s,
        "resident": resident_now,
        "iterations": worked.k_steps,
        "fill_s": wave.fill_s,
        "loop_s": wave.loop_s,
        "stores_s": wave.store_s,
        "middle_waves": jnp.maximum(jnp.where(streaming, cut.tiles / cut.slots, whole), 1.0) - 1.0,
        "period_s": jnp.where(persistent > 0, wave.persistent_period_s, wave.period_s),
        "tail_s": times.tail_s,
        "steady_s": times.steady_s,
    }
