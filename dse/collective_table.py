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
    gpus_per_node: int | None = None,
) -> "pd.DataFrame":
    """What a collective costs, a row a (fabric, ranks, size).

    Args:
        collective: one of `jaxmodel.network.COLLECTIVES`.
        sizes: bytes, from 1 to 2^50, as `jaxmodel.network.steps` counts them for the collective.
        ranks: GPUs that take part; at most what the fabric joins.
        fabrics: names, paths or loaded ones.
        rule: "nccl": what the library chooses; "engine": kernels of inference engines as well; "best": all algorithms.
            Over nodes "engine" is as "nccl".
        overrides: what-if changes of every fabric (`load_fabric`).
        gpus_per_node: of those that take part, in each node; None: whole nodes, and one node where it holds all ranks.

    Returns:
        A table: fabric, ranks, gpus_per_node, bytes, latency_s, algorithm, protocol, chunks, wire_bytes (on a GPU's
        link inside; NaN over nodes), network_bytes (on its link to the network), sms (that the collective occupies on
        each GPU while it runs, at most), algorithm_bytes_per_s (bytes a second of the message) and bus_bytes_per_s
        (what nccl-tests calls bus bandwidth).

    Raises:
        UserError: an unknown collective, rule or fabric, a size, a number of ranks or of GPUs a node that cannot be, a
            fabric without the protocols that the collective needs.
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
            tables.append(_rows(collective, rule, asked, count, _checked_node(count, gpus_per_node, fabric), fabric))
    return pd.concat(tables, ignore_index=True)


def _rows(collective: str, rule: str, sizes: np.ndarray, ranks: int, gpus: int, fabric: Fabric) -> "pd.DataFrame":
    """One (fabric, ranks), `gpus` of them in each node."""
    import pandas as pd

    from jaxmodel.network import NESTED

    inner, *outer = fabric.levels
    if gpus == ranks:
        found, used = _inside(collective, rule, sizes, ranks, inner), [inner]
    elif collective in NESTED:
        found, used = _over_nodes(collective, rule, sizes, ranks, gpus, inner, outer[0]), [inner, outer[0]]
    else:  # a message goes over the network alone
        found, used = _inside(collective, rule, sizes, ranks // gpus, outer[0]), [outer[0]]
        found |= {"wire_bytes": np.nan, "network_bytes": found["wire_bytes"]}
    latency = found["latency_s"].astype(float)
    if not np.isfinite(latency).all():
        raise UserError(_no_way(collective, rule, used))
    return pd.DataFrame(
        {
            "fabric": fabric.name,
            "ranks": np.int32(ranks),
            "gpus_per_node": np.int32(gpus),
            "bytes": sizes,
            **found,
            "algorithm_bytes_per_s": sizes / latency,
            "bus_bytes_per_s": _bus_factor(collective, ranks) * sizes / latency,
        }
    )


def _inside(collective: str, rule: str, sizes: np.ndarray, ranks: int, level: FabricLevel) -> dict[str, Any]:
    from jaxmodel.network import ways

    cost = _COST(collective, rule, sizes.astype(np.float32), np.float32(ranks), level.bind())
    latency, way, wire, sms = map(np.asarray, cost)
    chosen = [ways(collective, rule)[int(at)] for at in way]
    return {
        "latency_s": latency,
        "algorithm": [one.algorithm for one in chosen],
        "protocol": [one.protocol for one in chosen],
        "chunks": 1,
        "wire_bytes": wire,
        "network_bytes": 0.0,
        "sms": sms,
    }


def _over_nodes(
    collective: str, rule: str, sizes: np.ndarray, ranks: int, gpus: int, inner: FabricLevel, outer: FabricLevel
) -> dict[str, Any]:
    from jaxmodel.network import nested_ways

    levels = inner.bind(), outer.bind()
    given = sizes.astype(np.float32), np.float32(gpus), np.float32(ranks // gpus)
    latency, way, chunks, network, sms = map(np.asarray, _NESTED_COST(collective, rule, *given, *levels))
    chosen = [nested_ways(collective, rule)[int(at)] for at in way]
    over = {
        "latency_s": latency,
        "algorithm": [one.algorithm for one in chosen],
        "protocol": [one.protocol for one in chosen],
        "chunks": chunks.astype(np.int32),
        "wire_bytes": np.nan,
        "network_bytes": network,
        "sms": sms,
    }
    if gpus > 1:
        return over
    alone = _inside(collective, rule, sizes, ranks, outer)  # as `jaxmodel.network.group_cost`: the better of the two
    alone |= {"wire_bytes": np.nan, "network_bytes": alone["wire_bytes"]}
    better = latency < alone["latency_s"]
    return {name: np.where(better, over[name], alone[name]) for name in over}


def _no_way(collective: str, rule: str, levels: Sequence[FabricLevel]) -> str:
    from jaxmodel.network import nested_ways, ways

    over_nodes = len(levels) > 1
    able = nested_ways(collective, rule) if over_nodes else ways(collective, rule)
    needed = ", ".join(dict.fromkeys(way.protocol for way in able))
    tables = [(level.name, [table for table in level.values if table != "level"]) for level in levels]
    has = "; ".join(f"{name} has {', '.join(own)}" for name, own in tables)
    which = "over nodes, both levels," if over_nodes else f"by the rule {rule}"
    return f"{collective} {which} needs one of the protocols {needed}: {has}; choose another fabric, or add a table"


def _cost(collective: str, rule: str, size: Any, ranks: Any, level: Any) -> tuple:
    from jaxmodel.network import collective_cost

    cost = collective_cost(collective, size, ranks, level, rule)
    return _of_size(size, (cost.latency_s, cost.way, cost.wire_bytes, cost.sms))


def _nested_cost(collective: str, rule: str, size: Any, gpus: Any, nodes: Any, inner: Any, outer: Any) -> tuple:
    from jaxmodel.network import nested_cost

    cost = nested_cost(collective, size, gpus, nodes, inner, outer, rule)
    return _of_size(size, (cost.latency_s, cost.way, cost.chunks, cost.network_bytes, cost.sms))


def _of_size(size: Any, fields: tuple) -> tuple:
    import jax.numpy as jnp

    return tuple(jnp.broadcast_to(field, size.shape) for field in fields)


_COST = jit(_cost, static_argnums=(0, 1))
_NESTED_COST = jit(_nested_cost, static_argnums=(0, 1))


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


def _checked_node(ranks: int, gpus: Any, fabric: Fabric) -> int:
    """GPUs of the collective in each node: as given, else all in one node if it holds them, else whole nodes."""
    most = int(fabric.levels[0]["ranks_max"])
    if gpus is None:
        gpus = min(ranks, most)
        if ranks % gpus:
            raise UserError(
                f"ranks = {ranks} is not allowed on {fabric.name}: at most {most}, or whole nodes of {most}; parts of"
                " nodes: say how many GPUs of each (--gpus-per-node)"
            )
        return gpus
    if not _is_number(gpus) or gpus != int(gpus) or not 1 <= gpus <= most:
        raise UserError(
            f"gpus_per_node = {gpus!r} is not allowed: a whole number from 1 to {most}, the GPUs of a node of"
            f" {fabric.name}"
        )
    if ranks % int(gpus):
        raise UserError(f"ranks = {ranks} is not allowed: a multiple of gpus_per_node = {int(gpus)}")
    nodes = ranks // int(gpus)
    if nodes > 1 and len(fabric.levels) == 1:
        raise UserError(
            f"{ranks} GPUs, {int(gpus)} in each node, need a network: {fabric.name} is one node; write"
            f" {fabric.name}+infiniband_ndr"
        )
    if nodes > 1 and nodes > fabric.levels[1]["ranks_max"]:
        raise UserError(f"{nodes} nodes are not allowed: {fabric.name} joins {fabric.levels[1]['ranks_max']:g}")
    return int(gpus)


def _listed(name: str, values: Any) -> Any:
    if isinstance(values, str) or not hasattr(values, "__len__") or not len(values):
        raise UserError(f"{name} = {values!r} is not allowed: a list of at least one number")
    return values


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and math.isfinite(value)
