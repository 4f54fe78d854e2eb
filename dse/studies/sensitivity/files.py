"""A sensitivity as a file: tidy Parquet with units and provenance, CSV, or plain values for JSON."""

import os
from pathlib import Path
from typing import Any

from ...content.files import home_expanded
from ...errors import UserError
from ...provenance import how_made, model_hash, record_hash
from ...schedule_words import words_of
from ..answer_folder import write_table
from .elasticities import COLUMNS
from .sensitivity import CASE_COLUMNS, Sensitivity

ENDINGS = (".parquet", ".csv")


def check_table_path(path: str | os.PathLike[str]) -> Path:
    """The path, once a table can be written there.

    Raises:
        UserError: another ending than .parquet or .csv, or no such folder.
    """
    target = home_expanded(path)
    if target.suffix.lower() not in ENDINGS:
        raise UserError(f"a table ends in {' or '.join(ENDINGS)}, not {target.suffix or 'nothing'!r}: {path}")
    if not target.absolute().parent.is_dir():
        raise UserError(f"no folder {target.absolute().parent} for the table; make it first")
    return target


def write_sensitivity(found: Sensitivity, path: str | os.PathLike[str], command_line: str = "") -> None:
    """Writes one row a (case, number).

    Raises:
        UserError: what `check_table_path` raises, or a file that cannot be written.
    """
    target = check_table_path(path)
    if target.suffix.lower() == ".csv":
        try:
            found.table.to_csv(target, index=False)
        except OSError as error:
            raise UserError(f"cannot write {target}: {error.strerror or error}; choose another path") from None
        return
    made = {
        "schema_version": 1,
        "kind": "sensitivity",
        "model_hash": model_hash(),
        "gpu_hashes": sorted({record_hash(case.job.gpu) for case in found.cases}),
        "gpu_changes": list(found.cases[0].job.gpu_changes),
        "clock": found.cases[0].job.clock,
        "seed": None,
        **how_made(command_line),
    }
    write_table(target, found.table, lambda name: (CASE_COLUMNS | COLUMNS)[name], made)


def as_dict(found: Sensitivity) -> dict[str, Any]:
    """Everything as plain values and pandas tables, for JSON."""
    cases = [
        {
            "case": case.name,
            "shape": case.job.problem_name,
            "gpu": case.job.gpu_name,
            "gpu_changes": list(case.job.gpu_changes),
            "clock": case.job.clock,
            "schedule": words_of(case.job.space.kernel).format(entry.schedule),
            "tuned": case.tuned,
            "share": float(share),
            "latency_s": entry.latency_s,
            "bound": entry.bound,
            "table": entry.table,
        }
        for case, entry, share in zip(found.cases, found.found, found.shares, strict=True)
    ]
    return {"cases": cases, "whole": found.whole}
