"""Launch orders that have another name on a small grid, taken as what they are there.

A compiled kernel is launched with some raster and swizzle on every shape. On a grid narrower than a panel that order is
another one's, which a space holds under that name only (`Reason.SAME_ORDER`); a kernel that is given it runs all the
same, if nothing else stops it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .job import CostModel
from .kernels.entry import attribute
from .kernels.registry import kernel_of


class OneOrder(Protocol):
    """What `Kernel.one_order` names: a launch order's one name on a problem's grid, for one schedule and for arrays."""

    def schedule(self, schedule: Mapping[str, int], problem: Any) -> dict[str, int]:
        """The schedule (field -> number) for the user's problem."""
        ...

    def arrays(self, schedule: Any, problem: Any) -> Any:
        """The model's schedule record for the model's problem."""
        ...

    def note(self, written: Mapping[str, int], kept: Mapping[str, int]) -> str:
        """What to say where they differ."""
        ...


@dataclass(frozen=True)
class AnyOrder:
    """A cost model that gives every launch order its one name before it is evaluated, where the kernel has such names.

    Attributes:
        model: the cost model itself.
    """

    model: CostModel

    @property
    def name(self) -> str:
        """The model's."""
        return self.model.name

    @property
    def schedule_fields(self) -> tuple[str, ...]:
        """The model's."""
        return self.model.schedule_fields

    def schedule(self, columns: Mapping[str, Any]) -> Any:
        """The schedule record from one array a field."""
        return self.model.schedule(columns)

    def cost(self, problem: Any, schedule: Any, gpu: Any) -> Any:
        """The model's cost; no reason is SAME_ORDER."""
        own = getattr(self.model, "one_order", "")
        return self.model.cost(problem, attribute(own).arrays(schedule, problem) if own else schedule, gpu)


def one_order(schedule: Mapping[str, int], problem: Any) -> tuple[dict[str, int], str]:
    """A user's schedule with its launch order named as a space names it on this problem's grid, and a note if that is
    another name than was written.

    Args:
        schedule: complete, field -> number.
        problem: the user's.
    """
    own = kernel_of(problem).one_order
    if not own:
        return dict(schedule), ""
    orders: OneOrder = attribute(own)
    kept = orders.schedule(schedule, problem)
    return kept, orders.note(schedule, kept) if kept != dict(schedule) else ""
