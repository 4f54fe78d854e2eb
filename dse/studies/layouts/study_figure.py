"""The figure of a study of layouts: what each machine buys at every level, and the fronts of all machines."""

import os
from typing import Any

from ...figure_file import COLOURS, drawn
from .study import MOST, LayoutAnswer, ServiceAnswer


def draw_layout_study(answer: LayoutAnswer, path: str | os.PathLike[str]) -> None:
    """Writes the figure: a row a service; left the gains, right the fronts.

    Args:
        answer: of a study.
        path: .png, .svg or .pdf. The same answer gives the same file.

    Raises:
        UserError: what `dse.figure_file.check_figure_path` raises.
    """
    count = len(answer.services)
    with drawn(path, 10.8, 3.5 * count + 0.5) as figure:
        panels = figure.subplots(count, 2, squeeze=False)
        for (gains, fronts), one in zip(panels, answer.services, strict=True):
            draw_gains(gains, answer, one)
            draw_fronts(fronts, answer, one)
        figure.suptitle(answer.study.title or "layouts, chosen anew for every machine", parse_math=False)


def level_text(level: float) -> str:
    """A level in words."""
    return "the most of all" if level == MOST else f"at {level:g} tokens/s a user"


def draw_gains(panel: Any, answer: LayoutAnswer, one: ServiceAnswer) -> None:
    """Tokens/s a GPU over the baseline's, by machine; dashed with the baseline's way to share the GPUs."""
    own = answer.table[answer.table["service"] == one.title]
    along = len({axis for axis in own["axis"] if axis}) <= 1 and not any("," in label for label in own["label"])
    for place, level in enumerate(dict.fromkeys(own["level"].tolist())):
        rows = own[own["level"] == level]
        rows = rows.sort_values("factor") if along else rows
        x = rows["factor"] if along else range(len(rows))
        colour = COLOURS[place % len(COLOURS)]
        panel.plot(x, rows["kept_gain"], color=colour, linestyle="--", linewidth=1.2, zorder=2)
        panel.plot(x, rows["gain"], color=colour, marker="o", markersize=3, label=level_text(level), zorder=3)
    panel.plot([], [], color="#555555", linestyle="--", linewidth=1.2, label="GPUs shared as now")
    if along and (own["factor"] > 0).all():
        ticks = sorted(set(own["factor"]))
        panel.set_xscale("log")
        panel.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
        panel.minorticks_off()
        panel.set_xlabel(next((axis for axis in own["axis"] if axis), ""), parse_math=False)
    else:
        labels = list(dict.fromkeys(own["label"]))
        panel.set_xticks(range(len(labels)), labels, rotation=30, ha="right", fontsize=7)
    panel.set_ylabel("tokens/s a GPU, over now")
    panel.set_title(one.title, fontsize=9, parse_math=False)
    panel.grid(alpha=0.25)
    panel.legend(fontsize=7)


def draw_fronts(panel: Any, answer: LayoutAnswer, one: ServiceAnswer) -> None:
    """Throughput a GPU against what a user sees, a line a machine."""
    own = answer.fronts[answer.fronts["service"] == one.title]
    of_user = "tokens_per_s_per_user" if own["tokens_per_s_per_user"].max() > 0 else "ttft_s"
    for place, (_, rows) in enumerate(own.groupby("machine", sort=False)):
        colour, style = COLOURS[place % len(COLOURS)], "-" if place < len(COLOURS) else ":"
        panel.plot(
            rows[of_user], rows["tokens_per_s_per_gpu"], color=colour, linestyle=style, linewidth=1.2,
            label=str(rows["label"].iloc[0]),
        )  # fmt: skip
    panel.set_xlabel("tokens/s a user" if of_user != "ttft_s" else "time to the first token, s")
    panel.set_ylabel("tokens/s a GPU")
    panel.grid(alpha=0.25)
    if len(own):  # else no layout runs anywhere
        panel.legend(fontsize=7)
