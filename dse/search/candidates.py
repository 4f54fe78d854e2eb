"""What a search chooses: digits of a schedule space and numbers of the GPU; and how a searcher is asked and told."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..errors import UserError, unknown
from ..space import Space


@dataclass(frozen=True)
class GpuAxis:
    """A number of the GPU that the search may choose.

    Attributes:
        name: field of the model's GPU record, e.g. "l2_capacity_bytes", or whatever the search's `make_gpu` takes.
        low, high: the range, both included; None where `values` are given.
        log: whether the range is searched on a logarithmic scale.
        values: the choices, where there is no range.
    """

    name: str
    low: float | None = None
    high: float | None = None
    log: bool = False
    values: tuple[float, ...] = ()


@dataclass(frozen=True)
class SearchSpace:
    """Everything a search chooses.

    Attributes:
        schedules: the schedule space; None where schedules are not chosen, because each GPU's are swept.
        gpu: the GPU's numbers, none where the GPU is given.
    """

    schedules: Space | None
    gpu: tuple[GpuAxis, ...] = ()

    @property
    def radices(self) -> tuple[int, ...]:
        """Entries of each axis of the schedule space."""
        return self.schedules.radices if self.schedules else ()


@dataclass(frozen=True)
class Candidates:
    """A batch of choices.

    Attributes:
        digits: int64[n, axes], of the schedule space; no axes where schedules are not chosen.
        gpu: name of a GPU axis -> float64[n].
    """

    digits: np.ndarray
    gpu: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.digits)

    @property
    def numbers(self) -> np.ndarray:
        """The GPU's numbers as float64[n, GPU axes]."""
        return np.stack([*self.gpu.values()], axis=1) if self.gpu else np.zeros((len(self), 0))


class Searcher(Protocol):
    """A strategy: it proposes candidates in batches and learns what they cost."""

    def ask(self, count: int) -> Candidates:
        """The next candidates, `count` of them."""
        ...

    def tell(self, values: np.ndarray, violations: np.ndarray) -> None:
        """What the candidates of the last `ask` cost.

        Args:
            values: float64[n, objectives], all minimised; not finite where a candidate failed.
            violations: float64[n, constraints], above 0 where a constraint is broken; the first says whether the
                schedule can run (0 or 1), the others by how much of its limit a quantity is above it.
        """
        ...


def joined(space: SearchSpace, digits: np.ndarray, numbers: np.ndarray) -> Candidates:
    """Candidates from int64[n, axes] and float64[n, GPU axes]."""
    return Candidates(
        np.asarray(digits, np.int64).reshape(len(numbers), len(space.radices)),
        {axis.name: np.asarray(numbers[:, place], float) for place, axis in enumerate(space.gpu)},
    )


def search_space(space: Space, gpu: Mapping[str, Any] | None = None, known: Sequence[str] | None = None) -> SearchSpace:
    """A search space from a schedule space and the user's ranges of GPU numbers.

    Args:
        space: the schedules.
        gpu: name -> (low, high), (low, high, "log"), or a list of choices: `{"l2_capacity_bytes": (50e6, 200e6)}`.
        known: names that are allowed; None: any.

    Raises:
        UserError: an unknown name, an empty list, or a range that is none.
    """
    axes = []
    for name, wanted in (gpu or {}).items():
        if known is not None and name not in known:
            raise unknown("GPU field", name, known)
        axes.append(_gpu_axis(name, wanted))
    return SearchSpace(space, tuple(axes))


def gpu_fields(gpu: Any) -> list[str]:
    """The scalar fields of a GPU record: those that a search may choose directly."""
    return [
        field.name
        for field in dataclasses.fields(gpu)
        if np.ndim(getattr(gpu, field.name, ())) == 0 and not dataclasses.is_dataclass(getattr(gpu, field.name))
    ]


def _gpu_axis(name: str, wanted: Any) -> GpuAxis:
    form = "write (low, high), (low, high, 'log') or a list of values"
    if isinstance(wanted, list):
        if not wanted or not all(_is_number(value) for value in wanted):
            raise UserError(f"GPU field {name}: {wanted!r} is not a list of numbers; {form}")
        if len(wanted) == 1:
            raise UserError(
                f"GPU field {name}: one value, {wanted[0]:g}, is no choice: fix it with --set, or give more"
            )
        repeated = next((value for place, value in enumerate(wanted) if value in wanted[:place]), None)
        if repeated is not None:
            raise UserError(f"GPU field {name}: the value {repeated:g} is there twice: keep one")
        return GpuAxis(name, values=tuple(float(value) for value in wanted))
    if not isinstance(wanted, tuple) or len(wanted) not in (2, 3) or not all(map(_is_number, wanted[:2])):
        raise UserError(f"GPU field {name}: {wanted!r} is no range; {form}")
    if len(wanted) == 3 and wanted[2] != "log":
        raise UserError(f"GPU field {name}: the scale {wanted[2]!r} is unknown; {form}")
    low, high, log = float(wanted[0]), float(wanted[1]), len(wanted) == 3
    if low == high:
        raise UserError(f"GPU field {name}: the range {low:g} to {high:g} is one value: fix it with --set instead")
    if not low < high:
        raise UserError(f"GPU field {name}: the range {low:g} to {high:g} is empty; give the lower bound first")
    if log and low <= 0:
        raise UserError(f"GPU field {name}: a logarithmic range cannot start at {low:g}; give a lower bound above 0")
    return GpuAxis(name, low, high, log)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)
