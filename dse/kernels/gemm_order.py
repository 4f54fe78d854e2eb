"""The one name of a GEMM's launch order on a small grid; see `dse.any_order`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..schedule_text import distinct_raster, raster_label


@dataclass(frozen=True)
class GemmOrder:
    """See `dse.any_order.OneOrder`; the panel walk's, so of every kernel with its schedule fields and an m and n."""

    def schedule(self, schedule: Mapping[str, int], problem: Any) -> dict[str, int]:
        """`dse.schedule_text.distinct_raster`."""
        return distinct_raster(schedule, problem.m, problem.n)

    def arrays(self, schedule: Any, problem: Any) -> Any:
        """Its array twin."""
        import jax.numpy as jnp

        swapped = schedule.swap_ab > 0
        rows_of = jnp.where(swapped, problem.n, problem.m)
        cols_of = jnp.where(swapped, problem.m, problem.n)
        row, col = schedule.tile_m * schedule.cluster_m, schedule.tile_n * schedule.cluster_n
        along_n, swizzle = schedule.raster_along_n, schedule.swizzle
        one_line = (rows_of <= row) | (cols_of <= col)
        # ceil(size / part) <= swizzle, without a division
        wide = jnp.where(along_n > 0, rows_of <= swizzle * row, cols_of <= swizzle * col) & (swizzle > 1)
        return replace(
            schedule,
            raster_along_n=jnp.where(one_line, 0.0, jnp.where(wide, 1.0 - along_n, along_n)),
            swizzle=jnp.where(one_line | wide, 1.0, swizzle),
        )

    def note(self, written: Mapping[str, int], kept: Mapping[str, int]) -> str:
        """Both names."""
        return (
            f"raster {raster_label(written)} is as wide as the grid: the launch order is that of {raster_label(kept)}"
        )


ORDER_OF_GEMM = GemmOrder()
