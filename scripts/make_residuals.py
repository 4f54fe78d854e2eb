"""Makes studies/measured/residuals.json, the table of residuals that `dse` reads its intervals from.

    python scripts/make_residuals.py --zero-shot h100_sxm=H100.toml --zero-shot h200_sxm=H200.toml ...
    python scripts/make_residuals.py --check

Every packaged table of measured latencies is predicted with the packaged GPU files, and the bf16 sample also with files
that nothing was fitted for on the GPU in question (--zero-shot): what those miss by is what a GPU without measurements
may miss by. Other types have fitted numbers of their own, which such a file inherits, so they say nothing of that.

The parts `fit` and `check` speak, never `report`: together they have almost three times the (n, k) of `check`, and of
these there are few in every cell. Numbers were fitted on `fit`, so its residuals are too small, and are widened to what
`check` says (`without_optimism`).

The file says what it was made from; --check compares that with the checkout, without running anything, and exits with 1
where it is out of date.
"""

import argparse
import hashlib
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pandas as pd

from dse.content import GpuFile, load_gpu
from dse.content.files import content_files
from dse.errors import UserError
from dse.platform import configure_jax
from dse.provenance import model_hash
from dse.trust.residuals import read_residuals
from dse.validation.measured_split import judged_and_fitted
from dse.validation.residual_table import build_residuals, residual_rows

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "studies/measured/residuals.json"
PARTS = ("fit", "check")
PRESET = "library"
BF16 = "gemm_bf16"


@dataclass(frozen=True)
class Residuals:
    """Rows with residuals, and the GPU files that they were predicted with.

    Attributes:
        fitted: predicted with the packaged files.
        unfitted: predicted with files that nothing was fitted for.
        files, unfitted_files: GPU -> file.
    """

    fitted: pd.DataFrame
    unfitted: pd.DataFrame
    files: Mapping[str, GpuFile]
    unfitted_files: Mapping[str, GpuFile]


def main(words: list[str] | None = None) -> int:
    """Makes the table, or checks it.

    Returns:
        0; 1 where --check finds the table out of date or missing; 2 for bad input.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_inputs(parser)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--check", action="store_true", help="only say whether the table is out of date")
    arguments = parser.parse_args(words)
    try:
        if arguments.check:
            return _check(arguments.out)
        configure_jax()
        rows = measured_residuals(zero_shot_files(arguments.zero_shot), PARTS, arguments.rows)
        command = shlex.join(["python", "scripts/make_residuals.py", *(sys.argv[1:] if words is None else words)])
        table = build_residuals(rows.fitted, rows.unfitted, rows.files, made_from(rows, command))
        arguments.out.write_text(json.dumps(table.to_dict(), separators=(",", ":")) + "\n", encoding="utf-8")
    except UserError as error:
        print(f"make_residuals: {error}", file=sys.stderr)
        return 2
    print(f"wrote {arguments.out}: {len(rows.fitted)} rows with a fit, {len(rows.unfitted)} without")
    return 0


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """The options that name files without a fit and where rows are kept."""
    parser.add_argument(
        "--zero-shot", action="append", default=[], metavar="GPU=FILE", help="a file nothing was fitted for; once a GPU"
    )
    parser.add_argument(
        "--rows", type=Path, metavar="FILE", help="Parquet file to keep predicted rows in, for next time"
    )


def zero_shot_files(texts: Sequence[str]) -> dict[str, GpuFile]:
    """GPU -> file.

    Raises:
        UserError: fewer than three GPUs: with one left out, two must remain to say how far GPUs lie apart.
    """
    parted = [text.partition("=") for text in texts]
    files = {name: load_gpu(file) for name, equals, file in parted if equals and file}
    if len(files) < 3 or len(files) < len(texts):
        raise UserError(
            f"--zero-shot GPU=FILE is needed for at least three GPUs, {len(files)} were given: with one of them left "
            "out, two must remain to say how far GPUs lie apart"
        )
    return files


def measured_residuals(unfitted: Mapping[str, GpuFile], parts: Sequence[str], kept: Path | None = None) -> Residuals:
    """Predicts all packaged tables with the packaged files, and the bf16 sample with those without a fit.

    Args:
        unfitted: GPU -> file.
        parts: of the tables.
        kept: Parquet file with rows of an earlier call: what it holds of this very model, files and tables is not
            predicted again, and what is new is written there; None: nothing is kept.
    """
    tables = gemm_tables()
    names = sorted({str(gpu) for table in tables for gpu in judged_and_fitted(table, "check")[0]["system"].unique()})
    files = {name: load_gpu(name) for name in names}
    stamp = json.dumps([hashes(files), {name: file.hash for name, file in unfitted.items()}], sort_keys=True)
    rows = _kept(kept, stamp)
    for part in parts:
        if rows is None or part not in set(rows["part"]):
            new = [
                residual_rows(files, tables, [part], PRESET, print).assign(fitted=True),
                residual_rows(unfitted, [BF16], [part], PRESET, _say_unfitted).assign(fitted=False),
            ]
            rows = pd.concat([*([] if rows is None else [rows]), *new], ignore_index=True)
    assert rows is not None
    if kept is not None:
        rows.attrs = {"made_from": stamp}
        rows.to_parquet(kept, index=False)
    rows = rows[rows["part"].isin(parts)]
    return Residuals(rows[rows["fitted"]], rows[~rows["fitted"]], files, unfitted)


def _kept(path: Path | None, stamp: str) -> pd.DataFrame | None:
    if path is None or not path.is_file():
        return None
    rows = pd.read_parquet(path)
    return rows if rows.attrs.get("made_from") == stamp else None


def _say_unfitted(line: str) -> None:
    print(f"without a fit: {line}")


def gemm_tables() -> list[str]:
    """Names of the packaged tables of measured GEMM latencies."""
    return [name for name in content_files("studies/measured", ".parquet") if "gemm" in name]


def made_from(rows: Residuals, command: str) -> dict[str, object]:
    """What the table depends on."""
    return {
        "command": command,
        "parts": list(PARTS),
        "preset": PRESET,
        "rows": {"fitted": len(rows.fitted), "without a fit": len(rows.unfitted)},
        **hashes(rows.files),
        "without a fit": {name: file.hash for name, file in rows.unfitted_files.items()},
    }


def hashes(files: Mapping[str, GpuFile]) -> dict[str, object]:
    """Hashes of the model's source, the GPU files and the measured tables."""
    tables = content_files("studies/measured", ".parquet")
    return {
        "model": model_hash(),
        "gpus": {name: file.hash for name, file in files.items()},
        "tables": {name: hashlib.sha256(tables[name].read_bytes()).hexdigest()[:16] for name in gemm_tables()},
    }


def _check(path: Path) -> int:
    if not path.is_file():
        print(f"{path} is missing: make it")
        return 1
    then = read_residuals(path).made_from
    now = hashes({name: load_gpu(name) for name in then["gpus"]})
    changed = [name for name, value in now.items() if then.get(name) != value]
    print(f"{path}: {'changed since: ' + ', '.join(changed) if changed else 'up to date'}")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
