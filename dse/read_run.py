"""A run folder, opened for reading: the tables of the best and of the front, and the numbers beside them."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .content.files import home_expanded
from .errors import UserError
from .run_files import ANSWER_FILE, SUMMARY_FILE, read_json, refuse_batch, refuse_layouts
from .store import read_rows
from .trust import TrustLabel

if TYPE_CHECKING:
    import pandas as pd

SHOWN_RUNS = 12
SUMMARY_KEYS = ("evaluated", "feasible", "reasons", "histogram", "top_rows", "top_ties_dropped", "front_points",
                "front_rows", "front_ties_dropped", "incomplete", "provenance")  # fmt: skip
PROVENANCE_KEYS = ("gpu", "gpu_hash", "model_hash", "objectives", "problem", "problem_name", "space", "space_hash")


@dataclass(frozen=True)
class Run:
    """What a run folder holds.

    Attributes:
        path: the folder.
        top, front: the tables as `SweepResult` has them.
        summary: counts, histogram, ties, `incomplete`, and `provenance`.
    """

    path: Path
    top: "pd.DataFrame"
    front: "pd.DataFrame"
    summary: dict[str, Any]

    @property
    def trust(self) -> TrustLabel | None:
        """The label of the tables' intervals; None where they have none."""
        label = self.summary["provenance"].get("trust")  # older runs have none
        return TrustLabel.from_dict(label) if label else None


def read_run(path: str | os.PathLike[str]) -> Run:
    """The results in a run folder.

    Raises:
        UserError: there are none, or a file is damaged.
    """
    path = home_expanded(path)
    refuse_batch(path)
    refuse_layouts(path)
    if not (path / SUMMARY_FILE).exists():
        runs = sorted(file.parent.name for file in path.glob(f"*/{SUMMARY_FILE}"))
        if runs:
            raise UserError(_holds_runs(path, runs))
        if (path / ANSWER_FILE).exists():
            raise UserError(
                f"{path} holds the answer of a what-if or a study, no run: read {ANSWER_FILE}, figure.svg, or ask dse "
                f"query {path}"
            )
        raise UserError(f"{path} holds no finished run (no {SUMMARY_FILE}): run dse sweep with --out {path} first")
    summary = read_json(path / SUMMARY_FILE)
    _check_summary(path / SUMMARY_FILE, summary)
    tables = {name: _table(path, name, summary) for name in ("top", "front")}
    return Run(path, tables["top"], tables["front"], summary)


def _check_summary(file: Path, summary: dict[str, Any]) -> None:
    made = summary.get("provenance")
    missing = [name for name in SUMMARY_KEYS if name not in summary]
    if not isinstance(made, dict):
        missing = missing or ["provenance"]
    else:
        missing += [f"provenance.{name}" for name in PROVENANCE_KEYS if name not in made]
    if missing:
        raise UserError(f"{file} is damaged (no {', '.join(missing)}): start anew with --overwrite")


def _table(path: Path, name: str, summary: dict[str, Any]) -> "pd.DataFrame":
    file = path / f"{name}.parquet"
    table = read_rows(file).to_pandas()
    missing = [column for column in ("index", *summary["provenance"]["objectives"]) if column not in table]
    if missing or len(table) != summary[f"{name}_rows"]:
        what = f"no column {missing[0]}" if missing else f"{len(table)} rows, not {summary[f'{name}_rows']}"
        raise UserError(f"{file} is not the table that {SUMMARY_FILE} speaks of ({what}): start anew with --overwrite")
    return table


def _holds_runs(path: Path, runs: list[str]) -> str:
    shown = [str(path / name) for name in runs[:SHOWN_RUNS]]
    more = [f"{len(runs) - SHOWN_RUNS} more"] if len(runs) > SHOWN_RUNS else []
    return (
        f"{path} holds {len(runs)} run{'s' if len(runs) > 1 else ''}: {', '.join([*shown, *more])}; "
        f"give one of these folders in place of {path}, e.g. dse top {shlex.quote(shown[0])}"
    )
