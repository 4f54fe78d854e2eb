"""A finished run as one HTML file, with its figures and its trace beside it where they are asked for."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from ..content.files import home_expanded
from ..errors import UserError, unknown
from ..kernels.registry import check_served
from ..progress import Progress
from ..runs import OpenRun, open_run
from ..schedule_text import format_schedule
from .blocks import Section, figures_of
from .drawing import save_figure
from .facts import RunFacts, run_facts
from .page import page
from .sections.answer import answer_section
from .sections.front import front_section
from .sections.machine import machine_section
from .sections.provenance import provenance_section, trust_section
from .sections.roofline import roofline_section
from .sections.sensitivity import sensitivity_section
from .sections.space import space_section
from .sections.timeline import best_timeline, timeline_section
from .sections.top import top_section
from .sections.what_if import SPACES, what_if_section
from .timeline import Timeline
from .trace import trace, trace_text

PAGE_FILE = "report.html"


@dataclass(frozen=True)
class Report:
    """What was made.

    Attributes:
        page: the HTML file.
        figures: PNG and SVG files of the figures; empty where none were asked for.
        trace: the trace file; None where none was asked for.
        title: the page's.
        sections: what the page shows.
    """

    page: Path
    figures: tuple[Path, ...]
    trace: Path | None
    title: str
    sections: tuple[Section, ...]


def make_report(
    run: str | os.PathLike[str] | OpenRun,
    output: str | os.PathLike[str] | None = None,
    *,
    figures: str | os.PathLike[str] | None = None,
    trace_file: str | os.PathLike[str] | None = None,
    what_if: str = "auto",
    progress: Progress = None,
) -> Report:
    """Writes the report of a finished run. The same run gives the same bytes.

    Args:
        run: its folder, or the opened run.
        output: the HTML file; None: `report.html` in the run's folder.
        figures: a folder for PNG and SVG files of every figure; made where it does not exist.
        trace_file: a JSON file for the timeline of the best schedule, see `dse.report.trace`.
        what_if: over which space the what-if curves are tuned: "whole", the run's; "quick", a coarse preset; "auto":
            whole up to 12 million schedules; "none": no curves.
        progress: of the what-if, as in `dse.sweep.run_sweep`.

    Raises:
        UserError: no finished run, one of a kernel other than GEMM, an unknown `what_if`, a file that cannot be
            written, or a trace of a run in which nothing fits.
    """
    if what_if not in SPACES:
        raise unknown("what-if space", what_if, SPACES)
    opened = run if isinstance(run, OpenRun) else open_run(run)
    check_served(opened.job.space.kernel, "dse report")
    facts = run_facts(opened)
    line = best_timeline(facts)
    if trace_file is not None and line is None:
        raise UserError(f"no schedule of {opened.path} can run: there is nothing to trace; leave --trace out")
    sections = make_sections(facts, line, what_if, progress)
    made = save_report(opened.path, facts.title, sections, output, figures)
    traced = home_expanded(trace_file) if trace_file is not None else None
    if traced is not None and line is not None:
        _write(traced, trace_text(trace(line, _about(facts))), "--trace")
    return replace(made, trace=traced)


def save_report(
    folder: Path,
    title: str,
    sections: tuple[Section, ...],
    output: str | os.PathLike[str] | None,
    figures: str | os.PathLike[str] | None,
) -> Report:
    """Writes the page, and the figures where a folder for them is named.

    Args:
        folder: of the run; the page goes there where `output` is None.
        title: of the page.
        sections: all of them, in order.
        output: the HTML file.
        figures: a folder for PNG and SVG files of every figure; made where it does not exist.

    Raises:
        UserError: a file that cannot be written.
    """
    target = home_expanded(output) if output is not None else folder / PAGE_FILE
    _write(target, page(title, sections), "-o")
    made = _figures(sections, home_expanded(figures)) if figures is not None else ()
    return Report(target, made, None, title, sections)


def make_sections(
    facts: RunFacts, line: Timeline | None, what_if: str = "auto", progress: Progress = None
) -> tuple[Section, ...]:
    """All sections of a run's report, in order; without the ones about schedules where none can run."""
    found = [answer_section(facts)]
    if line is not None:
        found += [top_section(facts), roofline_section(facts), front_section(facts), timeline_section(facts, line)]
        varied = what_if_section(facts, what_if, progress)
        found += [*([varied] if varied else []), sensitivity_section(facts)]
    found += [space_section(facts), machine_section(facts), trust_section(facts), provenance_section(facts)]
    return tuple(found)


def _about(facts: RunFacts) -> dict[str, str]:
    assert facts.best is not None
    return {"title": facts.title, "schedule": format_schedule(facts.best.schedule), "run": facts.run.path.name}


def _figures(sections: tuple[Section, ...], folder: Path) -> tuple[Path, ...]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {folder}: {error.strerror}; choose another with --figures") from None
    return tuple(path for figure in figures_of(sections) for path in save_figure(figure, folder))


def _write(path: Path, text: str, option: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; choose another with {option}") from None
