"""The report of prefill and decode on GPUs of their own."""

import os
from typing import TYPE_CHECKING, Any

from .. import drawing
from ..blocks import Facts, Figure, Notice, Paragraph, Section, Table, number, words
from ..report import Report, save_report
from .report import machine_section, provenance_section, reason_table

if TYPE_CHECKING:
    from ...studies.layouts.disaggregated_files import DisaggregatedRun


def make_disaggregated_report(
    run: "DisaggregatedRun",
    output: str | os.PathLike[str] | None = None,
    figures: str | os.PathLike[str] | None = None,
) -> Report:
    """Writes the report; arguments and errors as `dse.report.layouts.report.make_layout_report`."""
    summary = run.summary
    title = f"{summary['title']}, prefill and decode apart"
    sections = [_answer(run)]
    if len(run.front):
        sections.append(_front(run))
    sections += [_sides(run), machine_section(summary)]
    evaluated = tuple(
        (
            side,
            f"{own['layouts']:,} layouts",
            f"{own['kernel_problems']:,} distinct kernel problems tuned over {own['schedules']:,} schedules",
        )
        for side, own in summary["sides"].items()
    )
    sections.append(provenance_section(summary, evaluated))
    return save_report(run.path, title, tuple(sections), output, figures)


def _answer(run: "DisaggregatedRun") -> Section:
    summary = run.summary
    intro = [Paragraph(f"{summary['title']}; {summary['workload_text']}. Prefill and decode have GPUs of their own.")]
    changed = [Notice(f"What if: {'; '.join(summary['changes'])}.")] if summary["changes"] else []
    if not len(run.front):
        return Section("answer", "The answer", (*intro, *changed, Notice("No pair of layouts keeps the limits.")))
    rows: list[Any] = run.front.to_dict("records")
    best = max(rows, key=lambda row: row["tokens_per_s_per_gpu"])
    entries = (
        ("tokens/s a GPU at most", f"{best['tokens_per_s_per_gpu']:,.1f}", _pair(best)),
        ("tokens/s a user at most", f"{rows[0]['tokens_per_s_per_user']:.1f}", _pair(rows[0])),
    )
    return Section("answer", "The answer", (*intro, *changed, Facts(entries, large=True)))


def _pair(row: Any) -> str:
    sides = (f"{row[f'{side}_instances']} x {row[f'{side}_layout']}" for side in ("prefill", "decode"))
    return " prefill, ".join(sides) + " decode"


def _front(run: "DisaggregatedRun") -> Section:
    rows: list[Any] = run.front.to_dict("records")
    first, last = rows[0], rows[-1]
    message = (
        f"From {first['tokens_per_s_per_user']:.1f} tokens/s a user at {first['tokens_per_s_per_gpu']:,.1f} a GPU "
        f"({_pair(first)}) to {last['tokens_per_s_per_gpu']:,.1f} a GPU at {last['tokens_per_s_per_user']:.1f} a user "
        f"({_pair(last)})."
    )
    cells = tuple(
        (
            words(_pair(row)),
            number(row["gpus_used"], f"{row['gpus_used']:.0f}"),
            number(row["ttft_s"], f"{row['ttft_s'] * 1e3:.1f}"),
            number(row["transfer_s"], f"{row['transfer_s'] * 1e3:.2f}"),
            number(row["tokens_per_s_per_user"], f"{row['tokens_per_s_per_user']:.1f}"),
            number(row["tokens_per_s_per_gpu"], f"{row['tokens_per_s_per_gpu']:,.1f}"),
        )
        for row in rows
    )
    head = ("instances", "GPUs", "TTFT, ms", "of it the cache's way, ms", "tokens/s a user", "tokens/s a GPU")
    table = Table("The front, the fastest for a user first", head, cells, frozenset(range(1, len(head))))
    figure = Figure(
        "pair-front", "Throughput against what one user sees", message, lambda canvas: _draw(canvas, rows), table
    )
    text = f"{len(rows):,} ways to share {run.summary['gpus']} GPUs lie on the front: no other is better in both."
    return Section("front", "The front", (Paragraph(text), figure))


def _draw(canvas: Any, rows: list[Any]) -> None:
    axes = canvas.subplots()
    x, y = [row["tokens_per_s_per_user"] for row in rows], [row["tokens_per_s_per_gpu"] for row in rows]
    axes.plot(x, y, color=drawing.BLUE, linewidth=0.8, marker="o", markersize=4)
    axes.set_ylim(0, max(y) * 1.12)
    axes.set_xlabel("tokens/s a user")
    axes.set_ylabel("tokens/s a GPU")
    axes.grid(visible=True)
    axes.tick_params(length=0)


def _sides(run: "DisaggregatedRun") -> Section:
    tables = tuple(
        reason_table(f"Layouts that {side}, by reason", own["layouts"], own["reasons"])
        for side, own in run.summary["sides"].items()
    )
    return Section("space", "The space", tables)
