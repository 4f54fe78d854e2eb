"""What a search minimises and what it must keep to: costs of schedules, quantities of the GPU, and limits on either."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import UserError, unknown
from ..objectives import OBJECTIVES

PREFIX = "gpu."  # of the columns of a GPU's numbers and quantities
SUMS = ("latency_s", "ddr_bytes", "l2_bytes", "energy_j")  # of several kernels, one after the other
RUNS = "infeasible"


@dataclass(frozen=True)
class GpuQuantity:
    """What a GPU costs, beside its numbers.

    Attributes:
        name: e.g. "area_mm2".
        of: chosen numbers of the GPU -> the quantity.
        moved_by: GPU axes that move it; None: any may.
    """

    name: str
    of: Callable[[Mapping[str, float]], float]
    moved_by: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Limit:
    """A quantity that must not be above a number.

    Attributes:
        name: a cost column, or a quantity of the GPU.
        most: the number, in the quantity's unit.
    """

    name: str
    most: float


@dataclass(frozen=True)
class Goals:
    """What is sought.

    Attributes:
        objectives: names of what is minimised, the first of which ranks.
        quantities: of the GPU, that objectives and limits may name.
        limits: what must be kept to.
    """

    objectives: tuple[str, ...]
    quantities: tuple[GpuQuantity, ...] = ()
    limits: tuple[Limit, ...] = ()

    @property
    def constraints(self) -> tuple[str, ...]:
        """Names of the constraints: that the schedule can run, then one a limit."""
        return (RUNS, *(f"{limit.name} <= {limit.most:g}" for limit in self.limits))

    @property
    def used(self) -> tuple[GpuQuantity, ...]:
        """The quantities of the GPU that an objective or a limit names."""
        names = {*self.objectives, *(limit.name for limit in self.limits)}
        return tuple(quantity for quantity in self.quantities if quantity.name in names)

    def columns(self, names: Sequence[str] | None = None) -> list[str]:
        """The columns of the table of trials that hold the objectives, or these."""
        own = {quantity.name for quantity in self.quantities}
        return [PREFIX + name if name in own else name for name in (self.objectives if names is None else names)]

    def values(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """The objectives, float64[n, objectives], from the columns of trials."""
        return np.stack([np.asarray(columns[name], float) for name in self.columns()], axis=1)

    def violations(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """float64[n, constraints], see `dse.search.Searcher.tell`."""
        broken = [(np.asarray(columns["reason"]) != 0).astype(float)]
        for limit, name in zip(self.limits, self.columns([limit.name for limit in self.limits]), strict=True):
            broken.append(np.asarray(columns[name], float) / limit.most - 1.0)
        return np.stack(broken, axis=1)


def make_goals(
    objectives: Sequence[str],
    quantities: Sequence[GpuQuantity],
    limits: Mapping[str, float],
    gpu_axes: Sequence[str],
    shapes: int = 1,
) -> Goals:
    """Checked goals.

    Args:
        objectives: names of costs and of quantities of the GPU.
        quantities: that are known.
        limits: name -> the most it may be.
        gpu_axes: the GPU's numbers that are searched.
        shapes: how many problems a trial runs: of several only what adds up is an objective.

    Raises:
        UserError: an unknown name, one given twice, a quantity that nothing moves, a limit that is no number above 0.
    """
    own = {quantity.name: quantity for quantity in quantities}
    known = (*OBJECTIVES, *own)
    for kind, names in (("objective", objectives), ("limit", limits)):
        for name in names:
            if name not in known:
                raise unknown(kind, name, known)
            if shapes > 1 and name in OBJECTIVES and name not in SUMS:
                raise UserError(f"{kind} {name} does not add up over {shapes} shapes; what does: {', '.join(SUMS)}")
    if not objectives:
        raise UserError(f"no objective: name at least one of {', '.join(known)}")
    if len(set(objectives)) < len(objectives):
        raise UserError(f"objectives {', '.join(objectives)}: name each once")
    for name in (*objectives, *limits):
        if name in own and not _moves(own[name], gpu_axes):
            moved = f" ({', '.join(own[name].moved_by or ())} would)" if own[name].moved_by else ""
            raise UserError(
                f"{name} is the same in every trial: no --gpu-axis moves it{moved}; leave it out, or add one"
            )
    for name, most in limits.items():
        if not isinstance(most, int | float | np.number) or not (np.isfinite(most) and most > 0):
            raise UserError(f"limit {name} = {most} is not allowed: a number above 0")
    return Goals(tuple(objectives), tuple(quantities), tuple(Limit(name, float(most)) for name, most in limits.items()))


def _moves(quantity: GpuQuantity, axes: Sequence[str]) -> bool:
    return bool(axes) if quantity.moved_by is None else any(name in quantity.moved_by for name in axes)
