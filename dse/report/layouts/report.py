"""A sweep of layouts as one HTML file, like the report of a run."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..blocks import Facts, Folded, Notice, Paragraph, Section, Table, number, words
from ..report import Report, save_report
from .front import front_section
from .memory import memory_section
from .time import time_section

if TYPE_CHECKING:
    from ...studies.layouts.files import LayoutRun


def make_layout_report(
    run: "LayoutRun", output: str | os.PathLike[str] | None = None, figures: str | os.PathLike[str] | None = None
) -> Report:
    """Writes the report. The same folder gives the same bytes.

    Args:
        run: `dse.studies.layouts.files.open_layouts(folder)`.
        output: the HTML file; None: `report.html` in the folder.
        figures: a folder for PNG and SVG files of every figure; made where it does not exist.

    Raises:
        UserError: a file that cannot be written.
    """
    sections = layout_sections(run)
    title = str(run.summary["title"])
    return save_report(run.path, title, sections, output, figures)


def layout_sections(run: "LayoutRun") -> tuple[Section, ...]:
    """All sections, in order; without those about layouts where none can run."""
    found = [_answer(run)]
    if len(run.best):
        found += [front_section(run), time_section(run), memory_section(run), _best(run)]
    return (*found, _reasons(run), machine_section(run.summary), _provenance(run))


def _answer(run: "LayoutRun") -> Section:
    summary = run.summary
    intro = [Paragraph(f"{summary['title']}; {summary['workload_text']}.")]
    changed = [Notice(f"What if: {'; '.join(summary['changes'])}.")] if summary["changes"] else []
    if not len(run.best):
        return Section("answer", "The answer", (*intro, *changed, Notice("No layout can run: see the reasons below.")))
    best, fast = run.best.iloc[0], run.front.iloc[0]
    entries = [("tokens/s a GPU at most", f"{best['tokens_per_s_per_gpu']:,.1f}", str(best["layout"]))]
    if fast["tokens_per_s_per_user"]:
        entries.append(("tokens/s a user at most", f"{fast['tokens_per_s_per_user']:.1f}", str(fast["layout"])))
    if fast["ttft_s"]:
        soonest = run.front.iloc[int(run.front["ttft_s"].to_numpy().argmin())]
        entries.append(("TTFT at least", f"{soonest['ttft_s'] * 1e3:.1f} ms", str(soonest["layout"])))
    runs = summary["reasons"].get("runs", 0)
    entries.append(("layouts that can run", f"{runs:,}", f"of {summary['layouts']:,}"))
    return Section("answer", "The answer", (*intro, *changed, Facts(tuple(entries), large=True)))


def _best(run: "LayoutRun") -> Section:
    return Section("best", "The best by throughput", (outcome_table("Most tokens a second and GPU first", run.best),))


def outcome_table(caption: str, frame: "object") -> Table:
    """Layouts with what they achieve."""
    rows = tuple(
        (
            words(row["layout"]),
            number(row["gpus"], f"{row['gpus']:.0f}"),
            number(row["ttft_s"], f"{row['ttft_s'] * 1e3:.1f}"),
            number(row["tpot_s"], f"{row['tpot_s'] * 1e3:.2f}"),
            number(row["tokens_per_s"], f"{row['tokens_per_s']:,.0f}"),
            number(row["tokens_per_s_per_gpu"], f"{row['tokens_per_s_per_gpu']:,.1f}"),
            number(row["tokens_per_s_per_user"], f"{row['tokens_per_s_per_user']:.1f}"),
        )
        for row in frame.to_dict("records")  # type: ignore[attr-defined]
    )
    head = ("layout", "GPUs", "TTFT, ms", "TPOT, ms", "tokens/s", "a GPU", "a user")
    return Table(caption, head, rows, frozenset(range(1, len(head))))


def _reasons(run: "LayoutRun") -> Section:
    summary = run.summary
    total = summary["layouts"]
    text = (
        f"The space {summary['space']} has {total:,} layouts. Each is counted once, at the first reason that rules it "
        "out; sizes are looked at first, then memory, then time."
    )
    table = reason_table("What can run, and why the rest cannot", total, summary["reasons"])
    return Section("space", "The space", (Paragraph(text), table))


def reason_table(caption: str, total: int, reasons: Mapping[str, int]) -> Table:
    """Layouts by reason."""
    from ...serving.layouts import REASONS

    rows = tuple(
        (words(name), number(count, f"{count:,}"), number(count, f"{100 * count / total:.3g} %"), words(REASONS[name]))
        for name, count in reasons.items()
    )
    return Table(caption, ("reason", "layouts", "share", "what it means"), rows, frozenset({1, 2}))


def machine_section(summary: Mapping[str, Any]) -> Section:
    """GPUs, fabric, engine, types."""
    entries = [
        ("GPU", f"{summary['gpus']} x {summary['gpu']}", f"{summary['gpus_per_node']} a node"),
        ("fabric", str(summary["fabric"]), ""),
        ("engine", str(summary["engine"]), "whose kernels run; its numbers:"),
    ]
    entries += [(f"engine.{name}", f"{value:g}", "") for name, value in summary["engine_numbers"].items()]
    types = ", ".join(f"{name} {value}" for name, value in summary["types"].items() if value)
    entries.append(("types", types, f"published weights: {summary['weights']}"))
    return Section("machine", "The machine", (Facts(tuple(entries)),))


def _provenance(run: "LayoutRun") -> Section:
    summary = run.summary
    counted = (
        f"{summary['kernel_problems']:,} distinct kernel problems tuned over {summary['schedules']:,} schedules, "
        f"{summary['collectives']:,} distinct collectives"
    )
    evaluated = ("evaluated", f"{summary['layouts']:,} layouts in {summary['seconds']:.1f} s", counted)
    return provenance_section(summary, (evaluated, ("space", str(summary["space_hash"]), str(summary["space"]))))


def provenance_section(summary: Mapping[str, Any], entries: tuple[tuple[str, str, str], ...]) -> Section:
    """What is needed to make it again; `entries` say what was evaluated."""
    made = summary["provenance"]
    facts = (
        ("command", str(made.get("command_line") or "not recorded (made from Python)"), ""),
        *entries,
        ("made", str(made.get("created", "")), f"{made.get('platform', '')}, {made.get('cpu', '')}"),
        ("commit", str(made.get("commit") or "not a checkout"), ""),
        ("GPU", str(summary["gpu_hash"]), str(summary["gpu"])),
        ("fabric", str(summary["fabric_hash"]), str(summary["fabric"])),
    )
    versions = tuple((words(name), words(version)) for name, version in made.get("versions", {}).items())
    table = Table("Versions", ("package", "version"), versions, sortable=False)
    return Section("provenance", "Provenance", (Facts(facts), Folded("Versions of packages", (table,))))
