"""The folder of an answered study of layouts: tables, fronts, figure, answer as JSON, the study to edit."""

import json
from pathlib import Path
from typing import Any

from ...content.study import study_text
from ...provenance import how_made, step_model_hash
from ...run_files import ANSWER_FILE
from ...serving.asked import service_changes, service_title, workload_text
from ..answer_folder import cleared, records, write_table, write_text
from .files import described
from .study import TABLE, LayoutAnswer
from .study_figure import draw_layout_study

FILES = ("table.parquet", "fronts.parquet", ANSWER_FILE, "study.toml", "figure.svg", "figure.png")


def write_layout_answer(answer: LayoutAnswer, folder: Path, command_line: str) -> None:
    """Writes everything, in the place of an older answer.

    Raises:
        UserError: a file cannot be written.
    """
    cleared(folder, FILES)
    text = study_text(answer.study)
    made = {
        "schema_version": 1,
        "kind": "layout_study",
        "study": text,
        "model_hash": step_model_hash(),
        "seed": None,
        "gpu_hashes": {one.title: [at.gpu.hash for at in one.machines] for one in answer.services},
        **how_made(command_line),
    }
    write_table(folder / "table.parquet", answer.table, TABLE.__getitem__, made)
    write_table(folder / "fronts.parquet", answer.fronts, _described, made)
    write_text(folder / ANSWER_FILE, json.dumps(answer_as_dict(answer) | {"provenance": made}, indent=1))
    write_text(folder / "study.toml", text)
    for name in ("figure.svg", "figure.png") if answer.study.figures else ():
        draw_layout_study(answer, folder / name)


def answer_as_dict(answer: LayoutAnswer) -> dict[str, Any]:
    """The answer as plain values, for JSON."""
    return {
        "title": answer.study.title,
        "question": answer.study.question,
        "services": [
            {
                "service": one.title,
                "title": service_title(one.baseline),
                "workload": workload_text(one.baseline.workload),
                "changes": list(service_changes(one.baseline)),
                "layouts": one.results[0].layouts,
                "machines": [machine.label for machine in one.machines],
                "reasons": [dict(result.reasons) for result in one.results],
                "kernel_problems": one.kernel_problems,
                "schedules": one.schedules,
            }
            for one in answer.services
        ],
        "table": records(answer.table),
        "seconds": answer.seconds,
    }


def _described(name: str) -> tuple[str, str]:
    return TABLE[name] if name in ("service", "machine", "label") else described(name)
