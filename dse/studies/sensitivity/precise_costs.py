"""The model in float64, with the derivative of the latency along a direction of the GPU's numbers.

Sweeps run in float32, where a change of a millionth of a number is lost in rounding. Here rows of (problem, schedule,
GPU) are evaluated in double precision, so that small changes of a GPU, and differences of two schedules, are exact to
about fourteen digits. The switch is local to the calling thread and to the call: everything else stays float32.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ...columns import cost_columns, in_order
from ...compiled import jit
from ...kernels.entry import Kernel
from ...kernels.registry import get_kernel
from ...platform import configure_jax

LANES = 1024  # one compiled shape
PAIRED = ("mma", "cluster_sms")  # fields of a GPU's record that are not one number


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of (problem, schedule, GPU), each with its own of all three.

    Attributes:
        problem: the model's record, float64 leaves [rows].
        schedule: every schedule field -> float64[rows].
        gpu: the model's record, float64 leaves [rows] (`cluster_sms`: [rows, 5]).
        kernel: name of the cost model.
    """

    problem: Any
    schedule: Mapping[str, np.ndarray]
    gpu: Any
    kernel: str = "gemm"

    def __len__(self) -> int:
        return len(next(iter(self.schedule.values())))

    def take(self, at: np.ndarray) -> "Rows":
        """The rows at these places, in this order."""
        import jax

        problem, gpu = (jax.tree.map(lambda leaf: leaf[at], record) for record in (self.problem, self.gpu))
        return Rows(problem, {name: values[at] for name, values in self.schedule.items()}, gpu, self.kernel)


def make_rows(
    problems: Sequence[Any], schedules: Sequence[Mapping[str, float]], gpus: Sequence[Any], kernel: str = "gemm"
) -> Rows:
    """Rows from the user's problems, complete schedules and the model's records of GPUs, one of each a row.

    Args:
        problems: anything with `arrays(float_dtype)`; all with scales of narrow types, or all without.
        schedules: every schedule field -> number.
        gpus: `GpuFile.bind(...)` or the record of an opened run; float32 leaves are taken as they are.
        kernel: name of the cost model.
    """
    names = get_kernel(kernel).schedule_fields
    return Rows(
        _stacked([problem.arrays(np.float64) for problem in problems]),
        {name: np.array([schedule[name] for schedule in schedules], np.float64) for name in names},
        _stacked(gpus),
        kernel,
    )


def number_names(gpu: Any) -> tuple[str, ...]:
    """Names of the fields of a GPU's record that hold one number, in the record's order."""
    return tuple(f.name for f in fields(gpu) if f.name not in PAIRED and getattr(gpu, f.name) is not None)


def precise_costs(rows: Rows) -> dict[str, np.ndarray]:
    """The whole breakdown of every row: cost column (`dse.columns.COST_COLUMNS`) -> float64[rows].

    Where `reason` is not 0 the numbers are finite; they are the model's of a schedule that cannot run.
    """
    return in_order(_in_blocks(_compiled_costs(get_kernel(rows.kernel)), rows, {}))


def latency_slopes(rows: Rows, along: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
    """Latency of every row and its derivative along a direction of the GPU's numbers.

    Args:
        rows: any number.
        along: number of the GPU (`number_names`) -> float64[rows], the direction; what is left out does not move.

    Returns:
        `latency_s`, `bound`, `reason` as in the cost; `slope_s`, seconds per unit of the direction, by forward-mode
        differentiation (`jax.jvp`: what `jax.grad` gives, times the direction). float64[rows] each.
    """
    direction = {name: np.zeros(len(rows)) for name in number_names(rows.gpu)}
    direction |= {name: np.asarray(values, np.float64) for name, values in (along or {}).items()}
    return _in_blocks(_compiled_slopes(get_kernel(rows.kernel)), rows, direction)


def frozen_latencies(rows: Rows) -> dict[str, np.ndarray]:
    """`latency_s`, `bound` and `reason` of compiled kernels on machines they were not chosen for.

    A launch that has nothing to do there runs all the same (`as_it_runs` of what-ifs): stream-K with nothing to share
    is a persistent grid, SMs that cannot be left free are not left.
    """
    from jaxmodel.reasons import Reason

    found = latency_slopes(rows)
    idle = {Reason.STREAM_K: {"stream_k": 0.0, "persistent": 1.0}, Reason.SMS_FREE: {"sms_free": 0.0}}
    for reason, changes in idle.items():
        places = np.flatnonzero(found["reason"] == reason)
        if not len(places):
            continue
        part = rows.take(places)
        schedule = {
            name: np.full(len(places), changes[name]) if name in changes else v for name, v in part.schedule.items()
        }
        again = latency_slopes(replace(part, schedule=schedule))
        for name, values in found.items():
            values[places] = again[name]
    return found


def _in_blocks(evaluate: Any, rows: Rows, along: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    import jax

    configure_jax()
    blocks = []
    with jax.enable_x64(True):
        for start in range(0, len(rows), LANES):
            at = np.minimum(np.arange(start, start + LANES), len(rows) - 1)
            part, used = rows.take(at), min(LANES, len(rows) - start)
            found = evaluate(part.problem, part.schedule, part.gpu, {name: v[at] for name, v in along.items()})
            blocks.append({name: np.broadcast_to(values, (LANES,))[:used] for name, values in found.items()})
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def _stacked(records: Sequence[Any]) -> Any:
    import jax

    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf, np.float64) for leaf in leaves]), *records)


@lru_cache(maxsize=4)
def _compiled_costs(kernel: Kernel) -> Any:

    def evaluate(problem: Any, schedule: dict[str, Any], gpu: Any, along: dict[str, Any]) -> dict[str, Any]:
        return cost_columns(kernel.cost(problem, kernel.schedule(schedule), gpu))

    return jit(evaluate)


@lru_cache(maxsize=4)
def _compiled_slopes(kernel: Kernel) -> Any:
    import jax

    def evaluate(problem: Any, schedule: dict[str, Any], gpu: Any, along: dict[str, Any]) -> dict[str, Any]:
        def latency(numbers: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            cost = kernel.cost(problem, kernel.schedule(schedule), replace(gpu, **numbers))
            return cost.latency_s, {"latency_s": cost.latency_s, "bound": cost.bound, "reason": cost.reason}

        numbers = {name: getattr(gpu, name) for name in along}
        _, slope_s, found = jax.jvp(latency, (numbers,), (along,), has_aux=True)
        return {**found, "slope_s": slope_s}

    return jit(evaluate)
