"""GPUs of groups counted node by node: every rank of every instance is written down, nothing is calculated.

Written from `jaxmodel.sharding.placement` (GPUs numbered through node after node, nested axes) and from
`spaces/sharding/_fields.toml`, not from the code.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import gcd

AXES = ("tp", "cp", "dp", "pp")


def groups_along(stride: int, degree: int, gpus_per_node: int) -> Iterator[list[int]]:
    """Every group along an axis, over so many GPUs that groups begin at every place of a node that they can."""
    span = stride * degree
    for first in range(gpus_per_node // gcd(span, gpus_per_node)):
        for inner in range(stride):
            yield [first * span + inner + step * stride for step in range(degree)]


def counts_on_nodes(group: Sequence[int], gpus_per_node: int) -> list[int]:
    """GPUs of a group in each node that has some, node after node."""
    counted = Counter(rank // gpus_per_node for rank in group)
    return [counted[node] for node in sorted(counted)]


def lies_evenly(groups: Iterator[list[int]], gpus_per_node: int) -> bool:
    """Whether all nodes of all groups have as many GPUs of a group."""
    return len({count for group in groups for count in counts_on_nodes(group, gpus_per_node)}) == 1


def instance_ranks(order: Sequence[str], degrees: Mapping[str, int]) -> dict[tuple[int, ...], int]:
    """Place along (tp, cp, dp, pp) -> number of the GPU, the axes nested in this order, the innermost first."""
    found = {}
    for number, places in enumerate(product(*(range(degrees[axis]) for axis in reversed(order)))):
        at = dict(zip(reversed(order), places, strict=True))
        found[tuple(at[axis] for axis in AXES)] = number
    return found


def groups_of(order: Sequence[str], degrees: Mapping[str, int], joined: Sequence[str], gpus: int) -> list[list[int]]:
    """The groups of all instances on `gpus` GPUs whose ranks differ along the joined axes alone.

    Beside the four axes there are parts of tp: "hidden_split" and "kv_split" are its neighbours, "inter_split" those
    that lie hidden_split apart. `degrees` has hidden_split and kv_split too.
    """
    ranks = instance_ranks(order, degrees)
    found: dict[tuple, list[int]] = {}
    for instance in range(gpus // len(ranks)):
        for place, number in ranks.items():
            found.setdefault((instance, *_apart(place, degrees, joined)), []).append(instance * len(ranks) + number)
    return list(found.values())


def _apart(place: tuple[int, ...], degrees: Mapping[str, int], joined: Sequence[str]) -> tuple:
    tp, *others = place
    elsewhere = tuple(value for axis, value in zip(AXES[1:], others, strict=True) if axis not in joined)
    for part, of_tp in (
        ("tp", None),
        ("hidden_split", tp // degrees["hidden_split"]),
        ("kv_split", tp // degrees["kv_split"]),
        ("inter_split", tp % degrees["hidden_split"]),
    ):
        if part in joined:
            return (*elsewhere, of_tp)
    return (*elsewhere, tp)
