"""Collectives over sizes, numbers of GPUs and fabrics.

from dse import collectives
table = collectives("all_reduce", sizes=[1e6, 64e6], ranks=[2, 4, 8], fabrics=["nvlink4_x8", "nvlink5_x8"])
"""

import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .compiled import jit
from .content.fabric import Fabric, FabricLevel, changed_fabric, load_fabric
from .errors import UserError, unknown

if TYPE_CHECKING:
    import pandas as pd

MOST_BYTES = 2.0**50


def collectives(
    collective: str,
    sizes: "Sequence[float] | np.ndarray",
    ranks: "Sequence[int] | np.ndarray",
    fabrics: Sequence[str | Fabric] = ("nvlink4_x8",),
    rule: str = "nccl",
    overrides: Mapping[str, str | float] | None = None,
) -> "pd.DataFrame":
    """What a collective costs, a row a (fabric, ranks, size).

    Args:
        collective: one of `jaxmodel.network.COLLECTIVES`.
        sizes: bytes, from 1 to 2^50, as `jaxmodel.network.steps` counts them for the collective.
        ranks: GPUs that take part; at most what the fabric joins.
        fabrics: names, paths or loaded ones.
        rule: "nccl": what the library chooses; "engine": kernels of inference engines as well; "best": all algorithms.
            Over nodes all that `jaxmodel.network.nested_ways` has are considered, whatever the rule.
        overrides: what-if changes of every fabric (`load_fabric`).

    Returns:
        A table: fabric, ranks, bytes, latency_s, algorithm, protocol, chunks, wire_bytes (on a GPU's link inside; NaN
        over nodes), network_bytes (on its link to the network), algorithm_bytes_per_s (bytes a second of the message)
        and bus_bytes_per_s (what nccl-tests calls bus bandwidth).

    Raises:
        UserError: an unknown collective, rule or fabric, a size or a number of ranks that cannot be, a fabric without
            the protocols that the collective needs.
    """
    import pandas as pd

    from jaxmodel.network import COLLECTIVES, RULES

    if collective not in COLLECTIVES:
        raise unknown("collective", collective, COLLECTIVES)
    if rule not in RULES:
        raise unknown("rule", rule, RULES)
    asked = _checked_sizes(sizes)
    if isinstance(fabrics, (str, os.PathLike, Fabric)) or not len(fabrics):
        raise UserError(f"fabrics = {fabrics!r} is not allowed: a list of at least one, e.g. ['nvlink4_x8']")
    tables = []
    for given in fabrics:
        fabric = changed_fabric(given, overrides) if isinstance(given, Fabric) else load_fabric(given, overrides)
        for count in _checked_ranks(ranks, fabric):
            tables.append(_rows(collective, rule, asked, count, fabric))
    return pd.concat(tables, ignore_index=True)


def _rows(collective: str, rule: str, sizes: np.ndarray, ranks: int, fabric: Fabric) -> "pd.DataFrame":
    """One (fabric, ranks): inside the innermost level where that joins them, else over nodes of it."""
    import pandas as pd

    inner, *outer = fabric.levels
    if ranks <= inner["ranks_max"]:
        found = _inside(collective, rule, sizes, ranks, inner)
    else:
        found = _over_nodes(collective, sizes, ranks, fabric.name, inner, outer[0])
    latency = found["latency_s"].astype(float)
    if not np.isfinite(latency).all():
        raise UserError(_no_way(collective, rule, fabric, ranks > inner["ranks_max"]))
    return pd.DataFrame(
        {
            "fabric": fabric.name,
            "ranks": np.int32(ranks),
            "bytes": sizes,
            **found,
            "algorithm_bytes_per_s": sizes / latency,
            "bus_bytes_per_s": _bus_factor(collective, ranks) * sizes / latency,
        }
    )


def _inside(collective: str, rule: str, sizes: np.ndarray, ranks: int, level: FabricLevel) -> dict[str, Any]:
    from jaxmodel.network import ways

    cost = _COST(collective, rule, sizes.astype(np.float32), np.float32(ranks), level.bind())
    latency, way, wire = map(np.asarray, cost)
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
    cost = _NESTED_COST(collective, sizes.astype(np.float32), np.float32(gpus), nodes, inner.bind(), outer.bind())
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


def _no_way(collective: str, rule: str, fabric: Fabric, over_nodes: bool) -> str:
    from jaxmodel.network import nested_ways, ways

    able = nested_ways(collective) if over_nodes else ways(collective, rule)
    needed = ", ".join(dict.fromkeys(way.protocol for way in able))
    levels = fabric.levels if over_nodes else fabric.levels[:1]
    tables = [(level.name, [table for table in level.values if table != "level"]) for level in levels]
    has = "; ".join(f"{name} has {', '.join(own)}" for name, own in tables)
    which = "over nodes, both levels," if over_nodes else f"by the rule {rule}"
    return f"{collective} {which} needs one of the protocols {needed}: {has}; choose another fabric, or add a table"


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


def _checked_sizes(sizes: Any) -> np.ndarray:
    for size in _listed("sizes", sizes):
        if not _is_number(size) or not 1 <= size <= MOST_BYTES:
            raise UserError(f"bytes = {size!r} is not allowed: at least 1, at most 2^50")
    return np.asarray(sizes, float)


def _checked_ranks(ranks: Any, fabric: Fabric) -> list[int]:
    """The numbers of ranks; raises where a fabric does not join so many."""
    for one in _listed("ranks", ranks):
        if not _is_number(one) or one != int(one) or not 2 <= one <= fabric.ranks_max:
            raise UserError(
                f"ranks = {one!r} is not allowed: a whole number from 2 to {fabric.ranks_max} on {fabric.name}"
            )
    return [int(one) for one in ranks]


def _listed(name: str, values: Any) -> Any:
    if isinstance(values, str) or not hasattr(values, "__len__") or not len(values):
        raise UserError(f"{name} = {values!r} is not allowed: a list of at least one number")
    return values


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and math.isfinite(value)
