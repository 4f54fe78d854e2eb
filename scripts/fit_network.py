"""Fits the numbers of hardware/fabrics/roce_400.toml to published tables of collectives over nodes, and judges them.

    python scripts/fit_network.py            # fits on the rows not judged, then the other way round

Three numbers: the start of a collective over nodes in LL and in Simple, and the rate of a GPU's link. LL moves a
quarter of it, and steps over the network take what NCCL's own tables say. The nodes' numbers are those of their files.
Least robust log error over the tables with `fitted = true` of studies/measured/collectives_over_nodes.toml.
"""

import os
import sys
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
    "ll.start_s": (15e-6, 3e-6, 90e-6),
    "simple.start_s": (40e-6, 5e-6, 200e-6),
    "simple.bytes_per_s": (47e9, 30e9, 50e9),
}
LL_RATE = 0.25  # of the bulk rate


def network_of(given: Level, values: np.ndarray) -> Level:
    """The level with the numbers in the order of `NUMBERS`."""
    ll_start_s, start_s, rate = values
    return replace(
        given,
        ll=replace(given.ll, start_s=ll_start_s, bytes_per_s=LL_RATE * rate),
        simple=replace(given.simple, start_s=start_s, bytes_per_s=rate),
    )


def _cost(collective: str, size: Any, gpus: Any, nodes: Any, inner: Level, outer: Level) -> Any:
    return nested_cost(collective, size, gpus, nodes, inner, outer).latency_s


_COST = jax.jit(_cost, static_argnums=0)


def main() -> None:
    """Fits on one half and prints the errors of both; then the other way round."""
    tables = [entry for entry in entries() if entry["fitted"]]
    levels = [[level.bind(np.float64) for level in load_fabric(entry["fabric"]).levels] for entry in tables]
    measured = np.concatenate([np.array(entry["rows"], float)[:, 1] for entry in tables]) * 1e-6
    judged = np.concatenate([np.arange(len(entry["rows"])) % 2 == 0 for entry in tables])

    def log_errors(values: np.ndarray) -> np.ndarray:
        found = []
        for entry, (inner, outer) in zip(tables, levels, strict=True):
            sizes, gpus = np.array(entry["rows"], float)[:, 0], float(entry["gpus_per_node"])
            nodes, network = entry["ranks"] / gpus, network_of(outer, values)
            found.append(_COST(entry["collective"], sizes, gpus, nodes, inner, network))
        return np.log(np.concatenate(found) / measured)

    guess, low, high = (np.log([about[place] for about in NUMBERS.values()]) for place in range(3))
    for held, name in ((judged, "fitted on the rows not judged"), (~judged, "the other way round")):
        best = None
        for scale in (1.0, 0.5, 2.0):
            begin = np.clip(guess + np.log([scale, scale, 1.0]), low + 0.01, high - 0.01)
            found = least_squares(
                lambda logs: log_errors(np.exp(logs))[~held],  # noqa: B023
                begin, bounds=(low, high), loss="soft_l1", f_scale=0.1,
            )  # fmt: skip
            best = found if best is None or found.cost < best.cost else best
        assert best is not None
        errors = 100 * np.abs(np.expm1(log_errors(np.exp(best.x))))
        numbers = {number: float(f"{value:.4g}") for number, value in zip(NUMBERS, np.exp(best.x), strict=True)}
        print(f"{name}: {numbers}; held {errors[held].mean():.1f} %, fitted {errors[~held].mean():.1f} %")


if __name__ == "__main__":
    main()
