"""Launch orders that have another name on a small grid, taken as what they are there.

A compiled kernel is launched with some raster and swizzle on every shape. On a grid narrower than a panel that order is
another one's, which a space holds under that name only (`Reason.SAME_ORDER`); a kernel that is given it runs all the
same, if nothing else stops it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .job import CostModel


@dataclass(frozen=True)
class AnyOrder:
    """A cost model of GEMM schedules that gives every launch order its one name before it is evaluated.

    The array twin of `dse.schedule_text.distinct_raster`.

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
        import jax.numpy as jnp

        swapped = schedule.swap_ab > 0
        rows_of = jnp.where(swapped, problem.n, problem.m)
        cols_of = jnp.where(swapped, problem.m, problem.n)
        row, col = schedule.tile_m * schedule.cluster_m, schedule.tile_n * schedule.cluster_n
        along_n, swizzle = schedule.raster_along_n, schedule.swizzle
        one_line = (rows_of <= row) | (cols_of <= col)
        # ceil(size / part) <= swizzle, without a division
        wide = jnp.where(along_n > 0, rows_of <= swizzle * row, cols_of <= swizzle * col) & (swizzle > 1)
        named = replace(
            schedule,
            raster_along_n=jnp.where(one_line, 0.0, jnp.where(wide, 1.0 - along_n, along_n)),
            swizzle=jnp.where(one_line | wide, 1.0, swizzle),
        )
        return self.model.cost(problem, named, gpu)
