"""A what-if's folder: tidy Parquet with units, the figure, the answer as JSON, and the study to run or edit again."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...columns import describe
from ...content.study import study_text
from ...run_files import ANSWER_FILE
from ..answer_folder import cleared, records, study_provenance, write_table, write_text
from .figure import draw_what_if
from .study import Answer
from .table import TABLE
from .totals import described


def write_answer(answer: Answer, folder: Path, command_line: str) -> None:
    """Writes everything, in the place of an older answer.

    Raises:
        UserError: a file cannot be written.
    """
    found = answer.found
    cleared(folder)
    made = study_provenance(
        answer.study,
        command_line,
        kind="what_if",
        gpu_hashes={f"{number} {at.label}": at.gpu.hash for number, at in enumerate(found.machines)},
        spaces={name: list(sizes) for name, sizes in found.spaces.items()},
        evaluations=found.evaluations,
    )
    write_table(folder / "table.parquet", found.table, _describe, made)
    write_table(folder / "totals.parquet", found.totals, described, made)
    write_text(folder / ANSWER_FILE, json.dumps(as_dict(answer) | {"provenance": made}, indent=1))
    write_text(folder / "study.toml", study_text(answer.study))
    for name in ("figure.svg", "figure.png") if answer.curves and answer.study.figures else ():
        draw_what_if(answer, folder / name)


def as_dict(answer: Answer) -> dict[str, Any]:
    """The answer as plain values, for JSON."""
    found = answer.found
    return {
        "title": answer.study.title,
        "question": answer.study.question,
        "gpu": answer.baseline.gpu.name,
        "gpu_changes": list(answer.baseline.gpu.changes),
        "spaces": {name: {"declared": sizes[0], "fit": sizes[1]} for name, sizes in found.spaces.items()},
        "totals": records(found.totals),
        "table": records(found.table),
        "axes": [
            {
                "field": curve.axis.field,
                "name": curve.axis.title,
                "unit": curve.axis.unit,
                "now": curve.now,
                "bound_moves": [asdict(move) for move in curve.moves],
                "doubling_buys_less_than_1_percent_from": curve.enough,
            }
            for curve in answer.curves
        ],
        "evaluations": found.evaluations,
        "seconds": found.seconds,
    }


def _describe(name: str) -> tuple[str, str]:
    if name in TABLE:
        return TABLE[name]
    if name.startswith("factor."):
        return "1", f"what {name.removeprefix('factor.')} was multiplied by"
    return describe(name)
