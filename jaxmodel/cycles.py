"""The cycles of a loop's arcs: for every distance the heaviest, found by eliminating one action after the other.

A path of two arcs through the eliminated action becomes one arc, and of several arcs with the same ends and the same
distance only the heaviest stays. What runs is a few dozen additions and maxima, however many cycles there are: no
loop, no gather. Which actions and distances there are is static; the seconds are arrays.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import jax.numpy as jnp

from .arcs import Arc, cycle_without_distance
from .types import Array, Floats

MOST_CYCLES = 20_000  # walked through at trace time to tell which distances simple cycles have

_Label = tuple[int, tuple[int, ...]]  # a distance: its static part, the indices of the arrays in it
_Graph = dict[str, dict[str, dict[_Label, Array]]]  # source -> target -> distance -> seconds


class Cycle(NamedTuple):
    """The heaviest cycle of one distance: seconds and iterations, arrays or numbers."""

    weight_s: Floats
    distance: Floats | int


def cycles(arcs: Sequence[Arc]) -> tuple[Cycle, ...]:
    """For every distance that a simple cycle of `arcs` has, the heaviest cycle of it; empty without cycles.

    Distances are told apart by their static part and by the array objects in them, so the same capacity should be the
    same object. A weight may be that of a closed walk made of several simple cycles, of which one is as slow.

    Raises:
        ValueError: naming the actions, if the distance of a cycle without arrays is 0 or less: they would wait for
            themselves.
    """
    stuck = cycle_without_distance(arcs)
    if stuck:
        raise ValueError(
            f"the actions {' -> '.join(stuck)} wait for each other within one iteration: the distances of these arcs "
            "add up to 0 or less; give one of them a distance of 1 or more, or order the engine otherwise"
        )
    arrays: list[Array] = []
    labelled = [(arc, _label(arc, arrays)) for arc in arcs if not arc.at_ends]
    simple = _simple_distances(tuple((arc.source, arc.target, label) for arc, label in labelled))
    found: dict[_Label, Array] = {}
    for label, weight_s in _eliminate(_graph(labelled)):
        if simple is None or label in simple:
            _keep_heaviest(found, label, weight_s)
    return tuple(Cycle(found[label], _distance(label, arrays)) for label in sorted(found, key=lambda x: (len(x[1]), x)))


def _label(arc: Arc, arrays: list[Array]) -> _Label:
    if isinstance(arc.distance, int):
        return arc.distance, ()
    for index, known in enumerate(arrays):
        if known is arc.distance:
            return 0, (index,)
    arrays.append(arc.distance)
    return 0, (len(arrays) - 1,)


def _distance(label: _Label, arrays: Sequence[Array]) -> Array:
    static, indices = label
    return sum((arrays[index] for index in indices), static)


def _joined(first: _Label, second: _Label) -> _Label:
    return first[0] + second[0], tuple(sorted(first[1] + second[1]))


def _keep_heaviest(weights: dict[_Label, Array], label: _Label, weight_s: Array) -> None:
    weights[label] = jnp.maximum(weights[label], weight_s) if label in weights else weight_s


def _graph(labelled: Sequence[tuple[Arc, _Label]]) -> _Graph:
    graph: _Graph = {name: {} for arc, _ in labelled for name in (arc.source, arc.target)}
    for arc, label in labelled:
        _keep_heaviest(graph[arc.source].setdefault(arc.target, {}), label, arc.weight_s)
    return graph


def _eliminate(graph: _Graph) -> Iterator[tuple[_Label, Array]]:
    """The cycles through each action among those not yet eliminated, as (distance, weight)."""
    while graph:
        action = min(graph, key=lambda name: _paths_through(graph, name))
        out = graph.pop(action)
        into = {source: targets.pop(action) for source, targets in graph.items() if action in targets}
        yield from out.pop(action, {}).items()
        for source, arriving in into.items():
            for target, leaving in out.items():
                weights = graph[source].setdefault(target, {})
                for first, first_s in arriving.items():
                    for second, second_s in leaving.items():
                        _keep_heaviest(weights, _joined(first, second), first_s + second_s)


def _paths_through(graph: _Graph, action: str) -> int:
    into = sum(len(targets.get(action, ())) for source, targets in graph.items() if source != action)
    return into * sum(len(labels) for target, labels in graph[action].items() if target != action)


@lru_cache(maxsize=256)
def _simple_distances(structure: tuple[tuple[str, str, _Label], ...]) -> frozenset[_Label] | None:
    """The distances of cycles that meet no action twice; None if there are too many cycles to look at."""
    after: dict[str, dict[str, set[_Label]]] = {}
    for source, target, label in structure:
        after.setdefault(source, {}).setdefault(target, set()).add(label)
    found: set[_Label] = set()
    paths = [(start, start, (0, ()), frozenset([start])) for start in after]
    for _ in range(MOST_CYCLES):
        if not paths:
            return frozenset(found)
        start, here, length, met = paths.pop()
        for target, labels in after.get(here, {}).items():
            if target == start:
                found |= {_joined(length, label) for label in labels}
            elif target > start and target not in met:
                paths += [(start, target, _joined(length, label), met | {target}) for label in labels]
    return None
