"""Fits the numbers of hardware/fabrics/nvlink*_x8.toml to measured collectives, and judges them on sizes not fitted.

    python scripts/fit_collectives.py            # fits on `fit`, judges on `report`, and the other way round
    python scripts/fit_collectives.py --toml     # the tables of the files, fitted on `fit`

Nine numbers a fabric for NCCL (seven without in-switch reduction), of least robust log error. H100 and H200 are one.
The ratios in SHARED are the same for all. An engine's all-reduce kernels have numbers of their own.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["JAX_ENABLE_X64"] = "1"

import jax
import numpy as np
import pandas as pd
from scipy.optimize import least_squares

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from jaxmodel.network import Level, Protocol, collective_cost  # noqa: E402

TABLE = ROOT / "studies" / "measured" / "collectives.parquet"
FABRICS = {"nvlink3_x8": ("a100_sxm",), "nvlink4_x8": ("h100_sxm", "h200_sxm"), "nvlink5_x8": ("b200_sxm",)}
SHARED = {  # chosen once on all fabrics
    "ll_rate": 0.112,  # of the bulk rate
    "ll128_start": 1.2,  # of LL's start
    "exchange_start_s": 1.4e-6,  # more than LL's start
    "exchange_peer_s": 0.4e-6,
    "exchange_channel": 1 / 50,  # of the bulk rate: to one peer, in the low-latency protocol
    "exchange_ll_max_bytes": 16384.0,  # NCCL's NCCL_P2P_LL_THRESHOLD
}
NCCL = {  # number -> (first guess, least, most)
    "ll.start_s": (5e-6, 1e-6, 20e-6),
    "ll.hop_s": (0.9e-6, 0.05e-6, 5e-6),
    "ll128.share": (0.5, 0.26, 1.0),
    "simple.start_s": (20e-6, 3e-6, 80e-6),
    "simple.bytes_per_s": (335e9, 80e9, 1e12),
    "level.copy_bytes_per_s": (900e9, 150e9, 6e12),
    "exchange.start_s": (14e-6, 3e-6, 60e-6),
    "multicast.start_s": (75e-6, 20e-6, 300e-6),
    "multicast.bytes_per_s": (300e9, 100e9, 900e9),
}
ENGINE = {
    "direct.start_s": (3e-6, 0.5e-6, 20e-6),
    "direct.hop_s": (1.5e-6, 0.1e-6, 20e-6),
    "direct.peer_s": (0.06e-6, 0.001e-6, 1e-6),
    "direct.bytes_per_s": (260e9, 50e9, 900e9),
    "multimem.start_s": (10e-6, 2e-6, 40e-6),
    "multimem.bytes_per_s": (260e9, 50e9, 900e9),
}


def level_of(numbers: Mapping[str, Any], switch: bool) -> Level:
    """The model's record of fitted numbers; None of an engine's kernels where their numbers are not there."""
    rate = numbers["simple.bytes_per_s"]
    start, hop = numbers["ll.start_s"], numbers["ll.hop_s"]
    none = Protocol(start_s=0.0, hop_s=0.0, peer_s=0.0, bytes_per_s=0.0)

    def chained(start_s: Any, bytes_per_s: Any) -> Protocol:
        return Protocol(start_s=start_s, hop_s=hop, peer_s=0.0, bytes_per_s=bytes_per_s)

    def of(table: str, hop_s: Any = 0.0, peer_s: Any = 0.0) -> Protocol:
        if f"{table}.start_s" not in numbers:
            return none
        return Protocol(
            start_s=numbers[f"{table}.start_s"], hop_s=hop_s, peer_s=peer_s, bytes_per_s=numbers[f"{table}.bytes_per_s"]
        )

    return Level(
        ll=chained(start, SHARED["ll_rate"] * rate),
        ll128=chained(SHARED["ll128_start"] * start, numbers["ll128.share"] * rate),
        simple=chained(numbers["simple.start_s"], rate),
        exchange_ll=Protocol(
            start_s=start + SHARED["exchange_start_s"],
            hop_s=0.0,
            peer_s=SHARED["exchange_peer_s"],
            bytes_per_s=rate,
            peer_bytes_per_s=SHARED["exchange_channel"] * rate,
        ),
        exchange=Protocol(start_s=numbers["exchange.start_s"], hop_s=0.0, peer_s=0.0, bytes_per_s=rate),
        direct=of("direct", numbers.get("direct.hop_s", 0.0), numbers.get("direct.peer_s", 0.0)),
        multicast=of("multicast") if switch else none,
        multimem=of("multimem") if switch else none,
        exchange_ll_max_bytes=SHARED["exchange_ll_max_bytes"],
        multicast_ranks_min=8.0,
        copy_bytes_per_s=numbers["level.copy_bytes_per_s"],
    )


def predicted_s(numbers: Mapping[str, Any], rows: pd.DataFrame, switch: bool, rule: str) -> np.ndarray:
    """Latencies of measured rows."""
    found = np.empty(len(rows))
    for collective in rows["collective"].unique():
        own = (rows["collective"] == collective).to_numpy()
        size, ranks = (rows[name].to_numpy(float)[own] for name in ("bytes", "ranks"))
        found[own] = _COST(collective, rule, switch, numbers, size, ranks)
    return found


def _cost(
    collective: str, rule: str, switch: bool, numbers: Mapping[str, Any], size: np.ndarray, ranks: np.ndarray
) -> Any:
    return collective_cost(collective, size, ranks, level_of(numbers, switch), rule).latency_s


_COST = jax.jit(_cost, static_argnums=(0, 1, 2))


def fit(rows: pd.DataFrame, switch: bool, about: dict, fixed: dict[str, float], rule: str) -> dict[str, float]:
    """The numbers of `about` with the least robust log error; from three starts, as rates and starts trade."""
    guess, low, high = (np.log([entry[place] for entry in about.values()]) for place in range(3))
    measured = rows["latency_us"].to_numpy() * 1e-6

    def errors(logs: np.ndarray) -> np.ndarray:
        numbers = {**fixed, **dict(zip(about, np.exp(logs), strict=True))}
        return np.log(predicted_s(numbers, rows, switch, rule) / measured)

    best = None
    for scale in (1.0, 0.6, 1.7):
        rates = np.array([scale if "bytes_per_s" in name else 1.0 for name in about])
        begin = np.clip(guess + np.log(rates), low + 0.01, high - 0.01)
        found = least_squares(errors, begin, bounds=(low, high), loss="soft_l1", f_scale=0.1)
        best = found if best is None or found.cost < best.cost else best
    assert best is not None
    return dict(zip(about, map(float, np.exp(best.x)), strict=True))


def fit_fabric(rows: pd.DataFrame, switch: bool) -> dict[str, float]:
    """NCCL's numbers, then an engine's where it was measured."""
    nccl = rows["library"].str.startswith("nccl")
    about = {name: at for name, at in NCCL.items() if switch or not name.startswith("multicast")}
    numbers = fit(rows[nccl], switch, about, {}, "nccl")
    if not nccl.all():
        about = {name: at for name, at in ENGINE.items() if switch or not name.startswith("multimem")}
        numbers |= fit(rows[~nccl], switch, about, numbers, "engine")
    return numbers


def toml_lines(numbers: dict[str, float], switch: bool) -> list[str]:
    """The tables of a fabric's file that hold fitted numbers."""
    level = level_of(numbers, switch)
    lines = [_line("copy_bytes_per_s", level.copy_bytes_per_s, "fitted"), ""]
    for table in ("ll", "ll128", "simple", "exchange_ll", "exchange", "direct", "multicast", "multimem"):
        protocol = getattr(level, table)
        if not float(protocol.bytes_per_s):
            continue
        lines.append(f"[{table}]")
        for name in ("start_s", "hop_s", "peer_s", "bytes_per_s", "peer_bytes_per_s"):
            value = float(getattr(protocol, name))
            if np.isfinite(value) and (value or name in ("start_s", "hop_s")):
                fitted = f"{table}.{name}" in numbers or (table, name) == ("ll128", "bytes_per_s")  # by its share
                kind = "fitted" if fitted else "derived" if value else "assumed"
                source = "engine-rows" if table in ("direct", "multimem") else "nccl-rows"
                lines.append(_line(name, value, kind, source))
        lines.append("")
    return lines


def _line(name: str, value: float, kind: str, source: str = "nccl-rows") -> str:
    return f'{name} = {{ value = {float(f"{value:.4g}")!r}, kind = "{kind}", source = "{source}" }}'


def main() -> None:
    """Fits and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--toml", action="store_true")
    arguments = parser.parse_args()
    table = pd.read_parquet(arguments.table)
    judged = []
    for fabric, systems in FABRICS.items():
        rows, switch = table[table["system"].isin(systems)], fabric != "nvlink3_x8"
        for part, other in (("fit", "report"), ("report", "fit")):
            numbers = fit_fabric(rows[rows["part"] == part], switch)
            if part == "fit" and arguments.toml:
                print(f"# {fabric}.toml", *toml_lines(numbers, switch), sep="\n")
            for held in (True, False):
                own = rows[(rows["part"] == other) & (rows["library"].str.startswith("nccl") == held)]
                if len(own):
                    predicted = predicted_s(numbers, own, switch, "nccl" if held else "engine")
                    judged.append(own.assign(error=100 * np.abs(predicted * 1e6 / own["latency_us"] - 1), fitted=part))
    errors = pd.concat(judged)
    nccl = errors["library"].str.startswith("nccl")
    for name, own in (("NCCL", errors[nccl]), ("engine", errors[~nccl])):
        shown = own.groupby(["system", "fitted", "collective"])["error"].mean().unstack().round(1)
        print(name, own.groupby("system")["error"].mean().round(2).to_dict(), shown.to_string(), sep="\n")


if __name__ == "__main__":
    main()
