"""Studies of layouts: run, written to a folder, printed. No command of its own: `dse study`, `dse whatif sharding`."""

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..text import table
from .options import progress_of
from .serving_progress import one_progress

if TYPE_CHECKING:
    from ..content.layout_study import LayoutStudy
    from ..studies.layouts.study import LayoutAnswer, ServiceAnswer

NOTHING = 5e-4  # a relative change that is none


def answer_layouts(arguments: argparse.Namespace, study: "LayoutStudy") -> int:
    """Runs a study, writes its folder and prints what was found."""
    from dataclasses import replace

    from ..studies.answer_folder import free_folder, new_folder, without_litter
    from ..studies.layouts.study import run_layout_study
    from ..studies.layouts.study_files import FILES, answer_as_dict, write_layout_answer
    from .interrupt import stoppable
    from .show import print_json

    if arguments.no_figure:
        study = replace(study, figures=False)
    folder = new_folder(Path(arguments.out or free_folder(study.name)), arguments.overwrite, FILES)
    with without_litter([folder]), stoppable(), one_progress(progress_of(arguments)) as progress:
        found = run_layout_study(study, progress)
    write_layout_answer(found, folder, shlex.join(["dse", *arguments.words]))
    if arguments.json:
        print_json(answer_as_dict(found) | {"folder": str(folder)})
        return 0
    print(answer_text(found))
    drawn = ", figure.svg" if study.figures else ""
    print(f"written to {folder} (table.parquet, fronts.parquet{drawn}, study.toml to edit and run again)")
    return 0


def answer_text(answer: "LayoutAnswer") -> str:
    """The question, then every service: a table a level, and what is best bought in words."""
    from ..serving.asked import service_changes, service_title, workload_text
    from ..text import what_if_lines

    study = answer.study
    lines = [text for text in (study.title, study.question) if text]
    for one in answer.services:
        lines += ["", service_title(one.baseline), workload_text(one.baseline.workload)]
        lines += what_if_lines(service_changes(one.baseline), one.baseline.clock)
        lines.append(
            f"{one.results[0].layouts:,} layouts on each of {len(one.machines)} machines, {one.kernel_problems:,} "
            f"distinct kernel problems tuned over {one.schedules:,} schedules"
        )
        lines += _levels(answer, one)
    lines += ["", f"layouts chosen and kernels tuned anew for every machine; {answer.seconds:.1f} s"]
    lines.append("kept: the GPUs shared as now, batch and chunk chosen anew")
    return "\n".join(lines)


def _levels(answer: "LayoutAnswer", one: "ServiceAnswer") -> list[str]:
    from ..studies.layouts.study_figure import level_text

    lines: list[str] = []
    own = answer.table[answer.table["service"] == one.title]
    for level in dict.fromkeys(own["level"].tolist()):
        records = own[own["level"] == level].to_dict("records")
        lines += ["", level_text(level), table([_cells(row) for row in records], left=("machine", "layout"))]
        lines.append(_headline(records))
    return lines


def _cells(row: dict[Any, Any]) -> dict[str, str]:
    runs = row["layout"] != ""
    return {
        "machine": row["label"],
        "tokens/s a GPU": f"{row['tokens_per_s_per_gpu']:,.1f}" if runs else "none runs",
        "a user": f"{row['tokens_per_s_per_user']:.1f}" if runs else "",
        "TTFT ms": f"{row['ttft_s'] * 1e3:.1f}" if runs else "",
        "gain": _gain(row["gain"]),
        "kept": _gain(row["kept_gain"]),
        "layout": row["layout"],
    }


def _gain(value: float) -> str:
    return f"{value:.3f}x" if value == value else ""


def _way(layout: str) -> str:
    """How a layout in words shares the GPUs, without what a step holds."""
    from ..studies.layouts.points import OF_A_STEP

    return " ".join(word for word in layout.split() if word.partition("=")[0] not in OF_A_STEP)


def _headline(rows: list[dict[Any, Any]]) -> str:
    changed = [row for row in rows if row["machine"] and row["gain"] == row["gain"]]
    if not changed:
        return "no layout gives this on any other machine, or none does now"
    best = max(changed, key=lambda row: row["gain"])
    if best["gain"] < 1 + NOTHING:
        worst = min(changed, key=lambda row: row["gain"])
        if worst["gain"] > 1 - NOTHING:
            return "nothing changes"
        return f"no machine is better; {worst['label']} costs {100 * (1 - worst['gain']):.1f} %"
    before, after = next(row["layout"] for row in rows if not row["machine"]), best["layout"]
    same = _way(before) == _way(after)
    way = "the GPUs are shared as now" if same else f"then {_way(after)} wins in place of {_way(before)}"
    kept = best["kept_gain"]
    said = f", {100 * (kept - 1):.1f} % with the GPUs shared as now" if kept == kept and not same else ""
    return f"{best['label']} buys {100 * (best['gain'] - 1):.1f} %{said}; {way}"
