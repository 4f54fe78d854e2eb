"""The figure of a portfolio: regret against the number of kernels, with the bound and the knee."""

import os
from collections.abc import Sequence

import numpy as np

from ...figure_file import COLOURS, drawn
from .choice import value_of
from .study import Portfolio


def knee(counts: Sequence[int], regrets: Sequence[float]) -> int | None:
    """The number of kernels at which the curve bends most: farthest below the straight line between its ends.

    None where there are fewer than three points, or none is below the line. Infinite regrets are passed over.
    """
    finite = [(count, regret) for count, regret in zip(counts, regrets, strict=True) if np.isfinite(regret)]
    counts, regrets = [count for count, _ in finite], [regret for _, regret in finite]
    if len(counts) < 3 or regrets[0] <= regrets[-1]:
        return None
    along = (np.asarray(counts, float) - counts[0]) / (counts[-1] - counts[0])
    down = (regrets[0] - np.asarray(regrets, float)) / (regrets[0] - regrets[-1])
    place = int(np.argmax(down - along))
    return int(counts[place]) if down[place] > along[place] else None


def draw_portfolio(found: Portfolio, path: str | os.PathLike[str]) -> None:
    """Writes the figure.

    Args:
        found: the portfolio, with its curve.
        path: .png, .svg or .pdf. The same portfolio gives the same file.

    Raises:
        UserError: what `dse.figure_file.check_figure_path` raises.
    """
    counts = [choice.count for choice in found.curve]
    regrets = [value_of(choice, found.regret) for choice in found.curve]
    with drawn(path, 5.6, 3.8) as figure:
        panel = figure.subplots()
        style = {"color": COLOURS[0], "marker": "o", "markersize": 4, "linewidth": 1.8, "zorder": 3}
        panel.plot(counts, [100 * value for value in regrets], label=f"{found.regret} regret", **style)
        unproven = [choice for choice in found.curve if not choice.proven]
        if unproven:
            places, bounds = [at.count for at in unproven], [100 * at.bound for at in unproven]
            panel.plot(places, bounds, "_", color=COLOURS[1], markersize=10, label="no choice is below")
        bend = knee(counts, regrets)
        if bend is not None:
            panel.axvline(bend, color=COLOURS[2], linewidth=1, linestyle="--", label=f"knee: {bend} kernels")
        taken = found.choice
        mark = {"marker": "o", "markersize": 9, "markerfacecolor": "none", "color": COLOURS[4], "linestyle": "none"}
        words = f"taken: {taken.count}, {100 * value_of(taken, found.regret):.2g} %"
        panel.plot([taken.count], [100 * value_of(taken, found.regret)], label=words, zorder=4, **mark)
        panel.set_xticks(counts if len(counts) <= 20 else counts[:: -(-len(counts) // 20)])
        panel.set_ylim(bottom=0)
        panel.set_xlabel(found.counted)
        panel.set_ylabel("slower than each shape's fastest, %")
        panel.set_title(f"{len(found.names)} shapes on {found.questions[0].gpu.name}, {found.source}", fontsize=9)
        panel.grid(alpha=0.25)
        panel.legend()
