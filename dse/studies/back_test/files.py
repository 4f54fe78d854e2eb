"""A back-test's folder: every shape as Parquet, the figure, the errors as JSON, the study."""

import json
from collections.abc import Sequence
from pathlib import Path

from ...content.study import Study, study_text
from ...run_files import ANSWER_FILE
from ...validation.speedup import SpeedUp
from ..answer_folder import cleared, study_provenance, write_table, write_text
from .speedups import COLUMNS, as_table, draw_back_test


def write_back_test(
    study: Study, results: Sequence[SpeedUp], folder: Path, command_line: str, figure: bool = True
) -> None:
    """Writes everything, in the place of an older answer.

    Raises:
        UserError: a file cannot be written.
    """
    cleared(folder)
    made = study_provenance(study, command_line, kind="back_test")
    write_table(folder / "table.parquet", as_table(results), COLUMNS.__getitem__, made)
    said = {"speedups": [result.to_dict() for result in results], "provenance": made}
    write_text(folder / ANSWER_FILE, json.dumps(said, indent=1))
    write_text(folder / "study.toml", study_text(study))
    for name in ("figure.svg", "figure.png") if figure else ():
        draw_back_test(results, folder / name)
