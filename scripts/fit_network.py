"""Fits numbers of hardware/fabrics/roce_400.toml and efa_400.toml to published tables over nodes, and judges them.

    python scripts/fit_network.py            # fits on the rows not judged, then the other way round

The starts of a collective over nodes in LL and in Simple and, on RoCE, the rate of a GPU's link (on EFA no table has
it: two nodes are as fast as their switches). LL moves a quarter of it, and steps over the network take what NCCL's own
tables say. The nodes' numbers are those of their files. Least robust log error over the tables with `fitted = true` of
studies/measured/collectives_over_nodes.toml.
"""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["JAX_ENABLE_X64"] = "1"

import jax
import numpy as np
from scipy.optimize import least_squares

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from dse.content.fabric import load_fabric  # noqa: E402
from dse.validation.collectives_published import entries  # noqa: E402
from jaxmodel.network import Level, nested_cost  # noqa: E402

NUMBERS = {  # number -> (first guess, least, most)
    "ll.start_s": (25e-6, 3e-6, 200e-6),
    "simple.start_s": (60e-6, 5e-6, 400e-6),
    "simple.bytes_per_s": (47e9, 30e9, 50e9),
}
NETWORKS = {"roce_400": 3, "efa_400": 2}  # how many of them are fitted
LL_RATE = 0.25  # of the bulk rate


def network_of(given: Level, values: np.ndarray) -> Level:
    """The level with the numbers in the order of `NUMBERS`; of those left out its own."""
    ll_start_s, start_s, rate = (*values, given.simple.bytes_per_s)[:3]
    return replace(
        given,
        ll=replace(given.ll, start_s=ll_start_s, bytes_per_s=LL_RATE * rate),
        simple=replace(given.simple, start_s=start_s, bytes_per_s=rate),
    )


def _cost(collective: str, size: Any, gpus: Any, nodes: Any, inner: Level, outer: Level) -> Any:
    return nested_cost(collective, size, gpus, nodes, inner, outer).latency_s


_COST = jax.jit(_cost, static_argnums=0)


def main() -> None:
    """Fits each network on one half and prints the errors of both; then the other way round."""
    for network, count in NETWORKS.items():
        for held, numbers, errors in fits(network, count):
            print(f"{network}: {numbers}; held {errors[held].mean():.1f} %, fitted {errors[~held].mean():.1f} %")


def fits(network: str, count: int) -> Iterator[tuple[np.ndarray, dict[str, float], np.ndarray]]:
    """(which rows were held, the first `count` of `NUMBERS` fitted on the others, per cent of error of all rows)."""
    tables = [entry for entry in entries() if entry["fitted"] and entry["fabric"].endswith(network)]
    levels = [[level.bind(np.float64) for level in load_fabric(entry["fabric"]).levels] for entry in tables]
    measured = np.concatenate([np.array(entry["rows"], float)[:, 1] for entry in tables]) * 1e-6
    judged = np.concatenate([np.arange(len(entry["rows"])) % 2 == 0 for entry in tables])

    def log_errors(logs: np.ndarray) -> np.ndarray:
        found = []
        for entry, (inner, outer) in zip(tables, levels, strict=True):
            sizes, gpus = np.array(entry["rows"], float)[:, 0], float(entry["gpus_per_node"])
            prices = network_of(outer, np.exp(logs))
            found.append(_COST(entry["collective"], sizes, gpus, entry["ranks"] / gpus, inner, prices))
        return np.log(np.concatenate(found) / measured)

    names = list(NUMBERS)[:count]
    guess, low, high = (np.log([NUMBERS[name][place] for name in names]) for place in range(3))
    for held in (judged, ~judged):
        best = None
        for scale in (1.0, 0.5, 2.0):
            scales = np.log([1.0 if "bytes" in name else scale for name in names])
            begin = np.clip(guess + scales, low + 0.01, high - 0.01)
            found = least_squares(_kept(log_errors, ~held), begin, bounds=(low, high), loss="soft_l1", f_scale=0.1)
            best = found if best is None or found.cost < best.cost else best
        assert best is not None
        numbers = {name: float(f"{value:.4g}") for name, value in zip(names, np.exp(best.x), strict=True)}
        yield held, numbers, 100 * np.abs(np.expm1(log_errors(best.x)))


def _kept(errors: Callable[[np.ndarray], np.ndarray], rows: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda logs: errors(logs)[rows]


if __name__ == "__main__":
    main()
