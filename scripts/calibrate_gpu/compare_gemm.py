"""Joins measured schedules with what the model predicts of them, row by row, and says how well they agree.

    python scripts/calibrate_gpu/compare_gemm.py measured.csv --gpu h200_sxm -o compared.csv

Predicted latency is that of cold weights and warm activations, as measure_gemm runs them. L2 hits and DRAM bytes, where
ncu counted them, were taken from cold caches and are compared with a prediction from cold caches.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dse.content.gpu import GpuFile, load_gpu
from dse.errors import UserError
from dse.kernels.gemm import GemmProblem
from dse.rank import rank_candidates
from scripts.calibrate_gpu.agreement import agreement
from scripts.calibrate_gpu.schedules import OPTIONS

if TYPE_CHECKING:
    import pandas as pd

NEEDED = ("m", "n", "k", "dtype", "family", *OPTIONS, "latency_s", "correct")
COUNTERS = ("l2_hit", "ddr_read_bytes", "ddr_write_bytes")


def read_measured(path: str | Path) -> "pd.DataFrame":
    """The rows of measure_gemm's table.

    Raises:
        UserError: an unreadable file, or one that lacks columns.
    """
    import pandas as pd

    try:
        rows = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not a readable CSV table ({error}); give what measure_gemm.py wrote") from None
    missing = [name for name in NEEDED if name not in rows.columns]
    if missing:
        raise UserError(f"{path} has no column {', '.join(missing)}; give what measure_gemm.py wrote")
    return rows


def compare(measured: "pd.DataFrame", gpu: GpuFile, clock: str = "boost") -> "pd.DataFrame":
    """One row a schedule that ran and was right, with its prediction.

    Args:
        measured: as `read_measured` gives it. Rows of the library, rows that failed and rows whose result was wrong are
            left out.
        gpu: what to predict with.
        clock: "boost" or "sustained".

    Returns:
        The measured columns (latency_s and the counters as measured_...), predicted_latency_s, why the model says that
        a schedule cannot run (else empty), and the predicted counters from cold caches.

    Raises:
        UserError: no such row, or a type that the GPU lacks.
    """
    import pandas as pd

    ran = measured[(measured["family"] != "library") & (measured["correct"] == 1) & (measured["latency_s"] > 0)]
    if ran.empty:
        raise UserError("no row of the table ran and was right: nothing can be compared")
    parts = []
    for problem, rows in _by_shape(ran):
        warm = _predicted(rows, problem, gpu, clock)
        cold = _predicted(rows, replace(problem, cache="cold"), gpu, clock)
        own = rows.rename(columns={name: f"measured_{name}" for name in ("latency_s", *COUNTERS)}).reset_index(
            drop=True
        )
        own["predicted_latency_s"] = [entry.latency_s for entry in warm]
        own["cannot_run"] = [entry.why_not for entry in warm]
        for name in COUNTERS:
            own[f"predicted_{name}"] = [float(entry.cost[name]) if entry.feasible else float("nan") for entry in cold]
        parts.append(own)
    return pd.concat(parts, ignore_index=True)


def summarize(compared: "pd.DataFrame") -> list[dict[str, Any]]:
    """The agreement of each shape, then of all pooled: what `Agreement` holds, the difference of L2 hit shares and the
    ratio of DRAM bytes (medians, where they were counted), and how many the model says cannot run."""
    shapes = [(f"{problem.shape} {problem.dtype}", rows) for problem, rows in _by_shape(compared)]
    return [_summary(name, rows) for name, rows in shapes] + ([_pooled(shapes)] if len(shapes) > 1 else [])


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the arguments, prints the agreement, writes the joined table; 2 on bad input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", help="CSV that measure_gemm.py wrote")
    parser.add_argument("--gpu", required=True, help="name or TOML file to predict with")
    parser.add_argument("--clock", default="boost", help="boost (default) or sustained")
    parser.add_argument("-o", "--output", metavar="FILE", help="the joined rows as CSV")
    options = parser.parse_args(arguments)
    try:
        compared = compare(read_measured(options.measured), load_gpu(options.gpu), options.clock)
        print(_text(summarize(compared)))
        if options.output:
            _write(compared, options.output)
    except UserError as error:
        print(f"compare_gemm: {error}", file=sys.stderr)
        return 2
    return 0


def _by_shape(rows: "pd.DataFrame") -> list[tuple[GemmProblem, "pd.DataFrame"]]:
    """The rows of each shape and type, in the order of their first rows."""
    places: dict[GemmProblem, list[int]] = {}
    for at, row in enumerate(rows[["m", "n", "k", "dtype"]].to_dict("records")):
        problem = GemmProblem(m=int(row["m"]), n=int(row["n"]), k=int(row["k"]), dtype=str(row["dtype"])).checked()
        places.setdefault(problem, []).append(at)
    return [(problem, rows.iloc[own]) for problem, own in places.items()]


def _predicted(rows: "pd.DataFrame", problem: GemmProblem, gpu: GpuFile, clock: str) -> list[Any]:
    """The model's answers in the rows' order."""
    configs = [
        {name: int(row[name]) for name in OPTIONS if name != "NUM_SMS" or row[name]} for row in rows.to_dict("records")
    ]
    ranked = rank_candidates(configs, problem, gpu, clock=clock)
    place = {entry.candidate.name: entry for entry in ranked}
    return [place[f"candidates[{at}]"] for at in range(len(configs))]


def _summary(name: str, rows: "pd.DataFrame") -> dict[str, Any]:
    able = rows[rows["cannot_run"] == ""]
    found: dict[str, Any] = {"shape": name, "refused": len(rows) - len(able)}
    if not able.empty:
        found |= asdict(agreement(able["predicted_latency_s"].to_numpy(), able["measured_latency_s"].to_numpy()))
    if "measured_l2_hit" in able and able["measured_l2_hit"].notna().any():
        found["l2_hit_difference"] = float((able["predicted_l2_hit"] - able["measured_l2_hit"]).median())
        found["ddr_read_ratio"] = float((able["predicted_ddr_read_bytes"] / able["measured_ddr_read_bytes"]).median())
    return found


def _pooled(shapes: Sequence[tuple[str, "pd.DataFrame"]]) -> dict[str, Any]:
    """Errors over all rows; order and regret are means over the shapes, since schedules compete within one."""
    import pandas as pd

    each = [_summary(name, rows) for name, rows in shapes]
    pooled = _summary("all", pd.concat([rows for _, rows in shapes]))
    for name in ("spearman", "top1_regret", "retained"):
        told = [one[name] for one in each if name in one and not math.isnan(one[name])]
        pooled[name] = sum(told) / len(told) if told else math.nan
    return pooled


def _text(summaries: Sequence[dict[str, Any]]) -> str:
    names = ("n", "MAPE", "bias", "Spearman", "regret", "top 10 %", "L2 hit", "DDR", "refused")
    words = dict(zip(names, (4, 7, 7, 9, 7, 9, 7, 6, 8), strict=True))
    head = " ".join([f"{'shape':28}", *(f"{word:>{width}}" for word, width in words.items())])
    lines = [head]
    for one in summaries:
        numbers = [_percent(one, name, 7) for name in ("mape", "bias")]
        numbers += [f"{one['spearman']:9.3f}" if "spearman" in one else f"{'-':>9}"]
        numbers += [
            _percent(one, "top1_regret", 7),
            _percent(one, "retained", 9),
            _percent(one, "l2_hit_difference", 7),
        ]
        numbers += [f"{one['ddr_read_ratio']:6.2f}" if "ddr_read_ratio" in one else f"{'-':>6}"]
        lines.append(f"{one['shape']:28} {one.get('count', 0):4} {' '.join(numbers)} {one['refused']:8}")
    return "\n".join(lines)


def _percent(one: dict[str, Any], name: str, width: int) -> str:
    return f"{100 * one[name]:{width - 2}.1f} %" if name in one else f"{'-':>{width}}"


def _write(compared: "pd.DataFrame", path: str) -> None:
    try:
        compared.to_csv(path, index=False)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; choose another with -o") from None


if __name__ == "__main__":
    sys.exit(main())
