"""What a batch found: its best schedules as a table, and how long each step takes on each GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..batch_files import part_path, read_question
from ..content.files import home_expanded
from ..errors import UserError
from ..run_files import BATCH_FILE
from ..store import count_rows, read_rows
from .rows import BatchRow, Step

if TYPE_CHECKING:
    import pandas as pd

Place = tuple[int, str]  # row of the question, GPU


@dataclass(frozen=True)
class BatchResult:
    """A batch's folder, read.

    Attributes:
        folder: where it stands.
        question: what was asked, as `batch.json` has it.
        rows: the problems that were asked.
        steps: for every step and GPU, in order: the attributes of `dse.batch.rows.Step`, `gpu`, `seconds` (the sum of
            count times latency; None where a problem has no schedule or is not evaluated yet), `problems`, and how many
            of them have none, `missing`.
        none_fits: `name`, `kernel`, `shape` and `gpu` of problems that no schedule of their space can run.
        pending: rows times GPUs that are not evaluated yet: 0 of a finished batch.
        run: of the call that wrote it: problems, candidates, seconds; empty where a folder was opened.
    """

    folder: Path
    question: Mapping[str, Any]
    rows: tuple[BatchRow, ...]
    steps: list[dict[str, Any]]
    none_fits: list[dict[str, str]]
    pending: int
    run: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def best(self) -> "pd.DataFrame":
        """Every row of `best/`, with the columns `gpu` and `kernel`, in the order of the question, then of the GPUs,
        then of the rank; fields that a row's kernel does not have are missing."""
        import pandas as pd

        tables = []
        for name in self.question["parts"]:
            path = part_path(self.folder, name)
            if count_rows(path):
                tables.append(read_rows(path).to_pandas().assign(gpu=name["gpu"], kernel=name["kernel"]))
        if not tables:
            return pd.DataFrame(columns=["row", "name", "gpu", "kernel", "rank", "latency_s"])
        joined = pd.concat(tables, ignore_index=True)
        place = {name: at for at, name in enumerate(self.question["gpus"])}
        order = joined.assign(gpu=joined["gpu"].map(place)).sort_values(["row", "gpu", "rank"], kind="stable").index
        return joined.loc[order].reset_index(drop=True)


def read_batch(folder: str | Path) -> BatchResult:
    """Opens the folder of a batch, finished or not.

    Raises:
        UserError: it holds no batch, or a file of it is damaged.
    """
    path = home_expanded(folder)
    question = read_question(path)
    rows = tuple(_row(path, content) for content in question["rows"])
    latency: dict[Place, float] = {}
    pending: set[Place] = set()
    for name in question["parts"]:
        file = part_path(path, name)
        if count_rows(file) is None:
            pending |= {(place, name["gpu"]) for place in name["rows"]}
        else:
            latency |= _best_latency(file, name["gpu"])
    gpus = list(question["gpus"])
    none_fits = [
        {"name": row.name, "kernel": row.kernel, "shape": row.shape, "gpu": gpu}
        for gpu in gpus
        for place, row in enumerate(rows)
        if (place, gpu) not in latency and (place, gpu) not in pending
    ]
    return BatchResult(path, question, rows, _steps(rows, gpus, latency), none_fits, len(pending))


def _row(path: Path, content: Mapping[str, Any]) -> BatchRow:
    try:
        return BatchRow(**{**content, "choices": tuple((name, text) for name, text in content["choices"])})
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path / BATCH_FILE} is damaged ({error}): start anew with --overwrite") from error


def _best_latency(file: Path, gpu: str) -> dict[Place, float]:
    table = read_rows(file)
    if not table.num_rows:
        return {}
    row, rank, latency_s = (table[name].to_pylist() for name in ("row", "rank", "latency_s"))
    return {(row[at], gpu): latency_s[at] for at in range(table.num_rows) if rank[at] == 0}


def _steps(rows: Sequence[BatchRow], gpus: Sequence[str], latency: Mapping[Place, float]) -> list[dict[str, Any]]:
    places: dict[Step, list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault(row.step, []).append(place)
    found = []
    for step, of_step in places.items():
        about = {at.name: getattr(step, at.name) for at in fields(step)}
        for gpu in gpus:
            missing = sum((place, gpu) not in latency for place in of_step)
            total = None if missing else sum(rows[place].count * latency[place, gpu] for place in of_step)
            found.append({**about, "gpu": gpu, "seconds": total, "problems": len(of_step), "missing": missing})
    return found
