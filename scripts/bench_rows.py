"""Measures how many rows a second `--keep all` writes, beside the same sweep without rows in the same run.

python scripts/bench_rows.py [--rows 16777216] [--repeats 2] [--workers N] [--folder DIR] [--json]

Three sweeps of the same range of the Hopper GEMM space, each the fastest of --repeats after one that compiles: nothing
but the best and the front; every row with 20 columns (`TWENTY`: texts, whole numbers, floats, the interval); every row
with all columns. Seconds are of the whole call and end when the system has put the files on the disk (`os.sync`).
Core-seconds are processor time of this process, of all its threads: on a machine that does other work too, they say
what seconds would be without it, and the bar, two million rows a second with 20 columns on two cores, is held against
twice the rows of a core-second; the rate by the clock stands beside. One part of each run is read by duckdb, pandas and
pyarrow and compared, value by value and type by type.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

SHAPE, GPU = "4096x4096x4096", "h200_sxm"
BAR_ROWS_PER_S, BAR_CORES = 2e6, 2
TWENTY = (
    *("index", "launch", "cluster", "raster", "tile_m", "tile_n", "tile_k", "stages", "latency_s", "reason"),
    *("waves", "l2_hit", "ddr_bytes", "smem_bytes", "registers_per_thread", "energy_j", "reason_name", "bound_name"),
    *("latency_low_s", "latency_high_s"),
)
WARM_ROWS = 2**18


class Written(NamedTuple):
    """One kind of sweep: columns written (0: no rows), seconds, core-seconds, bytes on disk, whether readers agree."""

    columns: int
    rows: int
    seconds: float
    core_s: float
    size_bytes: int
    read_alike: bool | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with rates."""
        rates = {"rows_per_s": self.rows / self.seconds, "rows_per_core_s": self.rows / self.core_s}
        return {**self._asdict(), **rates, "bytes_per_row": self.size_bytes / self.rows}


def measure(job: Any, columns: tuple[str, ...] | None, where: Path, arguments: argparse.Namespace) -> Written:
    """The fastest of a few sweeps; `columns` empty: without rows; None: with all columns."""
    from dse.row_layout import chosen_columns
    from dse.sweep import run_sweep

    keep = "best" if columns == () else "all"
    job = replace(job, row_columns=chosen_columns(job, columns) if columns else None)
    best: Written | None = None
    for rows in (WARM_ROWS, *[arguments.rows] * arguments.repeats):
        shutil.rmtree(where, ignore_errors=True)
        began, used = time.perf_counter(), time.process_time()
        part = replace(job, stop=job.start + rows)
        run_sweep(part, "serial", workers=arguments.workers, out=where if keep == "all" else None, keep=keep)
        if keep == "all":
            os.sync()
        seconds, core_s = time.perf_counter() - began, time.process_time() - used
        files = sorted(where.glob("rows-*.parquet")) if keep == "all" else []
        size = sum(file.stat().st_size for file in files)
        alike, count = (read_alike(files[-1]) if files else (None, 0)) if rows > WARM_ROWS else (None, 0)
        found = Written(count, rows, seconds, core_s, size, alike)
        if rows > WARM_ROWS and (best is None or found.seconds < best.seconds):
            best = found
    assert best is not None
    return best


def read_alike(file: Path) -> tuple[bool, int]:
    """Whether duckdb, pandas and pyarrow read the same frame from a file, and how many columns it has."""
    import duckdb
    import pandas as pd
    import pyarrow.parquet as pq

    by_arrow = pq.read_table(file).to_pandas()
    by_pandas = pd.read_parquet(file)
    by_duckdb = duckdb.from_parquet(str(file)).to_arrow_table().to_pandas()
    alike = by_arrow.equals(by_pandas) and by_arrow.equals(by_duckdb)
    return bool(alike and (by_arrow.dtypes == by_duckdb.dtypes).all()), by_arrow.shape[1]


def main() -> int:
    """Measures and prints; exit code 1 where the bar is missed or the readers differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2**24)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--folder", help="on the disk that is measured (default: a temporary one)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    from dse.api import make_job
    from dse.question import ask

    job = make_job(ask(SHAPE, gpu=GPU), None)
    job = replace(job, start=job.space.size // 4)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        where = Path(folder) / "run"
        kinds = {"no rows": (), "20 columns": TWENTY, "all columns": None}
        found = {name: measure(job, columns, where, arguments) for name, columns in kinds.items()}
    bare = found["no rows"]
    twenty = found["20 columns"]
    two_cores = BAR_CORES * twenty.rows / twenty.core_s
    met = two_cores >= BAR_ROWS_PER_S
    agree = all(at.read_alike is not False for at in found.values())
    if arguments.json:
        print(json.dumps({name: at.to_dict() for name, at in found.items()} | {"bar_met": met, "read_alike": agree}))
        return int(not (met and agree))
    print(f"{bare.rows:,} rows of GEMM {SHAPE} on {GPU}; seconds against the sweep without rows")
    for name, at in found.items():
        print(
            f"{name:12}{at.columns:4} columns  {at.rows / at.seconds / 1e6:6.2f} M rows/s "
            f"{at.rows / at.core_s / 1e6:6.2f} M a core-s  {1e9 * at.core_s / at.rows:6.0f} core-ns a row "
            f"{at.size_bytes / at.rows:6.2f} B a row  {at.size_bytes / at.seconds / 1e6:5.0f} MB/s "
            f"{at.seconds / bare.seconds:5.1f} x" + ("" if at.read_alike is not False else "  READERS DIFFER")
        )
    print(
        f"2 M rows/s with 20 columns on two cores: {'met' if met else 'MISSED'}, {two_cores / 1e6:.1f} M by processor "
        f"time, {twenty.rows / twenty.seconds / 1e6:.1f} M by the clock of this machine; readers agree: {agree}"
    )
    return int(not (met and agree))


if __name__ == "__main__":
    sys.exit(main())
