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
        schedules: the schedule space.
        gpu: the GPU's numbers, none where the GPU is given.
    """

    schedules: Space
    gpu: tuple[GpuAxis, ...] = ()


@dataclass(frozen=True)
class Candidates:
    """A batch of choices.

    Attributes:
        digits: int64[n, axes], of the schedule space.
        gpu: name of a GPU axis -> float64[n].
    """

    digits: np.ndarray
    gpu: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.digits)


class Searcher(Protocol):
    """A strategy: it proposes candidates in batches and learns what they cost."""

    def ask(self, count: int) -> Candidates:
        """The next candidates, `count` of them."""
        ...

    def tell(self, values: np.ndarray, feasible: np.ndarray) -> None:
        """What the candidates of the last `ask` cost: float64[n, objectives], and bool[n]. Values that are not finite
        belong to candidates that failed."""
        ...


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
        return GpuAxis(name, values=tuple(float(value) for value in wanted))
    if not isinstance(wanted, tuple) or len(wanted) not in (2, 3) or not all(map(_is_number, wanted[:2])):
        raise UserError(f"GPU field {name}: {wanted!r} is no range; {form}")
    if len(wanted) == 3 and wanted[2] != "log":
        raise UserError(f"GPU field {name}: the scale {wanted[2]!r} is unknown; {form}")
    low, high, log = float(wanted[0]), float(wanted[1]), len(wanted) == 3
    if not low < high:
        raise UserError(f"GPU field {name}: the range {low:g} to {high:g} is empty; give the lower bound first")
    if log and low <= 0:
        raise UserError(f"GPU field {name}: a logarithmic range cannot start at {low:g}; give a lower bound above 0")
    return GpuAxis(name, low, high, log)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)
