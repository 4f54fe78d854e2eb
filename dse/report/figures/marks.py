"""What several figures share: tick labels with SI prefixes, and axes without clutter."""

from collections.abc import Callable
from typing import Any

from ..quantities import si


def si_ticks(axis: Any, unit: str, digits: int = 3) -> None:
    """Tick labels with SI prefixes on an axis; none between the major ticks."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: si(value, unit, digits)))
    axis.set_minor_formatter(NullFormatter())


def plain_ticks(axis: Any, text: Callable[[float], str]) -> None:
    """Tick labels of a function's choice; none between the major ticks."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axis.set_minor_formatter(NullFormatter())


def few_log_ticks(axis: Any, low: float, high: float) -> None:
    """Ticks at 1, 2 and 5 of each decade where there are few decades, at decades where there are many."""
    from math import log10

    from matplotlib.ticker import LogLocator, NullLocator

    decades = log10(high / low) if low > 0 and high > low else 1.0
    steps = (1.0, 2.0, 5.0) if decades < 2.5 else (1.0, 3.0) if decades < 4.5 else (1.0,)
    axis.set_major_locator(LogLocator(base=10.0, subs=steps, numticks=12))
    axis.set_minor_locator(NullLocator())


def bare(axes: Any, grid: str = "x") -> None:
    """A grid along one direction and no tick marks."""
    axes.grid(axis=grid)
    axes.tick_params(length=0)
