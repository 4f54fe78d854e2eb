"""Collectives over sizes, numbers of GPUs and fabrics in one evaluation.

from dse import collectives
table = collectives("all_reduce", sizes=[1e6, 64e6], ranks=[2, 4, 8], fabrics=["nvlink4_x8", "nvlink5_x8"])
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .compiled import jit
from .content.fabric import Fabric, FabricLevel, load_fabric
from .errors import UserError, unknown

if TYPE_CHECKING:
    import pandas as pd

MOST_BYTES = 2.0**50
MEANING = {
    "all_gather": "all that is gathered",
    "reduce_scatter": "the vector that each rank contributes",
    "all_reduce": "the vector",
    "all_to_all": "what a rank sends, its own piece included",
    "broadcast": "the message",
    "send": "the message",
}


def collectives(
    collective: str,
    sizes: Sequence[float],
    ranks: Sequence[int],
    fabrics: Sequence[str | Fabric] = ("nvlink4_x8",),
    rule: str = "nccl",
    overrides: Mapping[str, str | float] | None = None,
) -> "pd.DataFrame":
    """What a collective costs, a row a (fabric, ranks, size).

    Args:
        collective: one of `jaxmodel.network.COLLECTIVES`; what its bytes are says `MEANING`.
        sizes: bytes, above 0.
        ranks: GPUs that take part; at most what the fabric joins.
        fabrics: names, paths or loaded ones.
        rule: "nccl": what the library chooses; "engine": kernels of inference engines as well; "best": all algorithms.
        overrides: what-if changes of every fabric (`load_fabric`).

    Returns:
        A table: fabric, ranks, bytes, latency_s, algorithm, protocol, chunks, wire_bytes (on a GPU's link inside; NaN
        over nodes), network_bytes (on its link to the network), algorithm_bytes_per_s (bytes a second of the message)
        and bus_bytes_per_s (what nccl-tests calls bus bandwidth).

    Raises:
        UserError: an unknown collective, rule or fabric, a size or a number of ranks that cannot be.
    """
    import pandas as pd

    from jaxmodel.network import COLLECTIVES, RULES

    if collective not in COLLECTIVES:
        raise unknown("collective", collective, COLLECTIVES)
    if rule not in RULES:
        raise unknown("rule", rule, RULES)
    _check_sizes(sizes)
    tables = []
    for given in fabrics:
        fabric = given if isinstance(given, Fabric) else load_fabric(given, overrides)
        check_ranks(ranks, fabric)
        for count in ranks:
            tables.append(_rows(collective, rule, np.asarray(sizes, np.float32), int(count), fabric))
    return pd.concat(tables, ignore_index=True)


def _rows(collective: str, rule: str, sizes: np.ndarray, ranks: int, fabric: Fabric) -> "pd.DataFrame":
    """One (fabric, ranks): inside the innermost level where that joins them, else over nodes of it."""
    import pandas as pd

    inner, *outer = fabric.levels
    if ranks <= inner["ranks_max"]:
        found = _inside(collective, rule, sizes, ranks, inner)
    else:
        found = _over_nodes(collective, sizes, ranks, fabric.name, inner, outer[0])
    latency = found["latency_s"]
    return pd.DataFrame(
        {
            "fabric": fabric.name,
            "ranks": np.int32(ranks),
            "bytes": sizes.astype(float),
            **found,
            "algorithm_bytes_per_s": sizes / latency,
            "bus_bytes_per_s": _bus_factor(collective, ranks) * sizes / latency,
        }
    )


def _inside(collective: str, rule: str, sizes: np.ndarray, ranks: int, level: FabricLevel) -> dict[str, Any]:
    from jaxmodel.network import ways

    latency, way, wire = map(np.asarray, _COST(collective, rule, sizes, np.float32(ranks), level.bind()))
    chosen = [ways(collective, rule)[int(at)] for at in way]
    return {
        "latency_s": latency,
        "algorithm": [one.algorithm for one in chosen],
        "protocol": [one.protocol for one in chosen],
        "chunks": 1,
        "wire_bytes": wire,
        "network_bytes": 0.0,
    }


def _over_nodes(
    collective: str, sizes: np.ndarray, ranks: int, name: str, inner: FabricLevel, outer: FabricLevel
) -> dict[str, Any]:
    from jaxmodel.network import NESTED, nested_ways

    if collective not in NESTED:
        raise UserError(f"{collective} over the nodes of {name} is not modelled; modelled: {', '.join(NESTED)}")
    gpus = int(inner["ranks_max"])
    if ranks % gpus:
        raise UserError(f"ranks = {ranks} is not allowed on {name}: at most {gpus}, or whole nodes of {gpus}")
    nodes = np.float32(ranks // gpus)
    cost = _NESTED_COST(collective, sizes, np.float32(gpus), nodes, inner.bind(), outer.bind())
    latency, way, chunks, network = map(np.asarray, cost)
    chosen = [nested_ways(collective)[int(at)] for at in way]
    return {
        "latency_s": latency,
        "algorithm": [one.algorithm for one in chosen],
        "protocol": [one.protocol for one in chosen],
        "chunks": chunks.astype(np.int32),
        "wire_bytes": np.nan,
        "network_bytes": network,
    }


def _cost(collective: str, rule: str, size: Any, ranks: Any, level: Any) -> tuple:
    from jaxmodel.network import collective_cost

    cost = collective_cost(collective, size, ranks, level, rule)
    return cost.latency_s, cost.way, cost.wire_bytes


def _nested_cost(collective: str, size: Any, gpus: Any, nodes: Any, inner: Any, outer: Any) -> tuple:
    from jaxmodel.network import nested_cost

    cost = nested_cost(collective, size, gpus, nodes, inner, outer)
    return cost.latency_s, cost.way, cost.chunks, cost.network_bytes


_COST = jit(_cost, static_argnums=(0, 1))
_NESTED_COST = jit(_nested_cost, static_argnums=(0,))


def _bus_factor(collective: str, ranks: int) -> float:
    """Bytes over a link over bytes of the message, as nccl-tests has it (doc/PERFORMANCE.md)."""
    others = (ranks - 1) / ranks
    if collective == "all_reduce":
        return 2 * others
    return others if collective in ("all_gather", "reduce_scatter", "all_to_all") else 1.0


def _check_sizes(sizes: Sequence[float]) -> None:
    wrong = next((size for size in sizes if not 0 < size <= MOST_BYTES), None)
    if wrong is not None:
        raise UserError(f"bytes = {wrong!r} is not allowed: above 0, at most 2^50")
    if not len(sizes):
        raise UserError("no size is given: at least one")


def check_ranks(ranks: Sequence[int], fabric: Fabric) -> None:
    """Raises where a fabric does not join so many."""
    wrong = next((one for one in ranks if one != int(one) or not 2 <= one <= fabric.ranks_max), None)
    if wrong is not None:
        raise UserError(
            f"ranks = {wrong!r} is not allowed: a whole number from 2 to {fabric.ranks_max} on {fabric.name}"
        )
    if not len(ranks):
        raise UserError("no number of ranks is given: at least one")
