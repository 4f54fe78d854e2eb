"""SQL over the Parquet files of a batch or of sweeps, by duckdb: read-only, one statement, views by name.

Views, where the folder has their files: `best` (a batch: hive partitions give the columns gpu and kernel); `top`,
`front` and `rows` (a sweep, or a folder of sweeps: then the column run names the folder); `best`, `front` and `parts`
(a sweep of layouts); `answers`, `totals` and `fronts` (tables of a what-if or a study).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .content.files import home_expanded
from .errors import UserError
from .run_files import BATCH_FILE

PATTERNS: Mapping[str, tuple[str, ...]] = {  # view -> patterns of its files, the first that has any counts
    "best": ("best/gpu=*/kernel=*/part-*.parquet", "best.parquet", "*/best.parquet"),
    "top": ("top.parquet", "*/top.parquet"),
    "front": ("front.parquet", "*/front.parquet"),
    "rows": ("rows-*.parquet", "*/rows-*.parquet"),
    "parts": ("parts.parquet", "*/parts.parquet"),
    "answers": ("table.parquet",),
    "totals": ("totals.parquet",),
    "fronts": ("fronts.parquet",),
}
READS = "SELECT"  # the kind of statement, of duckdb's kinds, that changes nothing; DESCRIBE and SUMMARIZE are of it
NEAR = 8  # columns that a message names


@dataclass(frozen=True)
class Answer:
    """What a statement gives.

    Attributes:
        columns: their names, in order.
        rows: their values.
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


@dataclass(frozen=True)
class View:
    """One view of a folder.

    Attributes:
        name: in SQL.
        rows: how many.
        columns: name -> (SQL type, unit, meaning).
    """

    name: str
    rows: int
    columns: Mapping[str, tuple[str, str, str]]


class QueryFolder:
    """A folder opened for queries; close it, or use it in a `with` block.

    Args:
        path: that dse batch or dse sweep wrote, or one that holds such folders of dse sweep.

    Raises:
        UserError: no such folder, none of our files in it, or a file that is damaged.
    """

    def __init__(self, path: str | Path) -> None:
        import duckdb

        self.path = home_expanded(path)
        if not self.path.is_dir():
            raise UserError(f"no folder at {self.path}: give one that dse batch or dse sweep wrote")
        self.files = {name: found for name in PATTERNS if (found := _files(self.path, name))}
        if not self.files:
            raise UserError(
                f"{self.path} holds no results, neither best/gpu=*/kernel=*/ of dse batch nor top.parquet of dse sweep "
                "nor table.parquet of dse whatif"
            )
        self._duckdb = duckdb
        self._connection = duckdb.connect(":memory:", config={"autoinstall_known_extensions": False})
        for name, files in self.files.items():
            self._make_view(name, files)

    def __enter__(self) -> "QueryFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(self, sql: str) -> Answer:
        """The answer of one statement.

        Raises:
            UserError: no statement or several, one that writes, or what duckdb says of it, with what there is.
        """
        try:
            statements = self._connection.extract_statements(sql)
            kinds = [statement.type.name for statement in statements]
            if len(kinds) != 1:
                raise UserError(f"{len(kinds)} statements: write one, such as {EXAMPLES[0][1]!r}")
            if kinds[0] != READS:  # not EXPLAIN either: EXPLAIN ANALYZE COPY writes
                raise UserError(f"{kinds[0]} statements are not allowed: results are only read, write a SELECT")
            cursor = self._connection.execute(statements[0])
            return Answer(tuple(about[0] for about in cursor.description or ()), cursor.fetchall())
        except self._duckdb.Error as error:
            raise UserError(self._said(error)) from error

    @property
    def missing(self) -> str:
        """What a batch's folder lacks of what was asked, in words; "": nothing, or it is no batch's."""
        try:
            parts = len(json.loads((self.path / BATCH_FILE).read_bytes())["parts"])
        except (OSError, ValueError, KeyError, TypeError):  # what is wrong with the file, dse batch says
            return ""
        absent = parts - len(self.files.get("best", ()))
        what = f"{absent} of {parts} parts of this batch are not there, their problems are missing here"
        return f"{what}; the same dse batch goes on" if absent > 0 else ""

    def views(self) -> list[View]:
        """What there is to ask, with the units and meanings that the files hold."""
        import pyarrow.parquet as pq

        found = []
        for name, files in self.files.items():
            about: dict[str, tuple[str, str]] = {"gpu": ("text", "the GPU"), "kernel": ("text", "the kernel")}
            meanings: dict[str, dict[str, list[str]]] = {}  # column -> what it means -> the kernels it means that to
            for kernel, file in _one_a_kind(files).items():
                for field in pq.read_schema(file):
                    held = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
                    about.setdefault(field.name, (held.get("unit", ""), held.get("description", "")))
                    if name == "best" and _has_field(kernel, field.name):
                        meanings.setdefault(field.name, {}).setdefault(held.get("description", ""), []).append(kernel)
            for column, found_of in meanings.items():
                said = [
                    meaning if len(found_of) == 1 else f"{', '.join(own)}: {meaning}"
                    for meaning, own in found_of.items()
                ]
                about[column] = (about[column][0], "; ".join(said))
            described = self._connection.execute(f"describe {name}").fetchall()
            (count,) = self._connection.execute(f"select count(*) from {name}").fetchone() or (0,)
            columns = {
                row[0]: (str(row[1]), *about.get(row[0], ("text", "the folder of the run"))) for row in described
            }
            found.append(View(name, int(count), columns))
        return found

    def _make_view(self, name: str, files: Sequence[Path]) -> None:
        listed = ", ".join(_quoted(str(file.absolute())) for file in files)
        in_hive = files[0].parent.name.startswith("kernel=")
        hive = "true" if in_hive else "false"
        nested = not in_hive and files[0].parent != self.path
        run = ", parse_path(filename)[-2] as run" if nested else ""
        more = f"exclude (filename){run}" if nested else ""
        options = f"hive_partitioning = {hive}, union_by_name = true" + (", filename = true" if nested else "")
        try:
            self._connection.execute(f"create view {name} as select * {more} from read_parquet([{listed}], {options})")
        except self._duckdb.Error as error:
            raise UserError(
                f"the files of {name} in {self.path} cannot be read ({_first_line(error)}): remove those that are "
                "damaged and run the same command again"
            ) from error

    def _said(self, error: Exception) -> str:
        names = []
        for name in self.files:
            columns = [str(row[0]) for row in self._connection.execute(f"describe {name}").fetchall()]
            rest = f", ... ({len(columns)} in all)" if len(columns) > NEAR else ""
            names.append(f"{name} has {', '.join(columns[:NEAR])}{rest}")
        return f"SQL: {_first_line(error)}; {'; '.join(names)}. All columns: dse query {self.path}"


EXAMPLES: tuple[tuple[str, str], ...] = (
    (
        "the best schedule of each shape",
        "select name, shape, gpu, latency_s * 1e6 as us, bound_name from best where rank = 0 order by row, gpu",
    ),
    (
        "time of a step by GPU",
        "select model, phase, tp, tokens, context, gpu, sum(count * latency_s) * 1e3 as ms from best where rank = 0 "
        "group by all order by all",
    ),
    (
        "what takes the time of a step",
        "select gpu, layer, sum(count * latency_s) * 1e3 as ms from best where rank = 0 and phase = 'decode' "
        "group by all order by gpu, ms desc",
    ),
    (
        "one GPU against another",
        "select name, shape, any_value(latency_s) filter (gpu = 'h200_sxm') / any_value(latency_s) filter "
        "(gpu = 'b200_sxm') as speedup from best where rank = 0 group by row, name, shape order by row",
    ),
    (
        "which tiles win",
        "select kernel, gpu, tile_m, tile_n, count(*) as problems from best where rank = 0 group by all "
        "order by problems desc limit 20",
    ),
)


def _files(folder: Path, view: str) -> list[Path]:
    return next((found for pattern in PATTERNS[view] if (found := sorted(folder.glob(pattern)))), [])


def _one_a_kind(files: Sequence[Path]) -> dict[str, Path]:
    """Name of the folder, or of the kernel whose it is -> a file: those of one have the same columns, unless no
    schedule fits."""
    return {file.parent.name.removeprefix("kernel="): file for file in files}


def _has_field(kernel: str, column: str) -> bool:
    from .kernels.registry import get_kernel

    try:
        return column in get_kernel(kernel).schedule_fields
    except UserError:  # a kernel of one's own that is not there any more
        return False


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(line for line in lines if not line.startswith(("LINE", "^")))
