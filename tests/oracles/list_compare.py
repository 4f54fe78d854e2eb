"""How far the closed forms of ordered tiles are off the exact list schedule, over drawn launches."""

import math
import random

import jax.numpy as jnp
import numpy as np

from jaxmodel.ordered_tiles import CausalTiles, causal_times, makespan

from . import list_schedule as twin
from .list_schedule import Causal

ORDERS = ("longest_first", "shortest_first", "head_longest_first", "head_shortest_first")  # by their codes
MOST_TILES = 30_000


def draw_launches(count: int, seed: int) -> tuple[list[Causal], np.ndarray]:
    """Launches of 16 to 23,000 queries and as many or more keys, a quarter of them with a window; slots."""
    draw, launches = random.Random(seed), []
    while len(launches) < count:
        queries = int(2.0 ** draw.uniform(4.0, 14.5))
        queries = draw.choice([queries, 2 ** int(math.log2(queries))])
        launch = Causal(
            copies=draw.choice([1, 2, 4, 8, 16, 32, draw.randint(1, 64)])
            * draw.choice([1, 1, 2, 4, draw.randint(1, 32)]),
            bm=draw.choice([64, 128, 128, 192, 256]),
            bn=draw.choice([64, 80, 112, 128, 128, 176]),
            packed=draw.choice([1, 1, 1, 2, 3, 4, 8]),
            queries=queries,
            keys=queries + draw.choice([0, 0, 0, int(2.0 ** draw.uniform(4.0, 14.0))]),
            window=draw.choice([0, 0, 0, 0, 0, 0, 128, 512, 1024, 4096]),
            fixed_s=draw.choice([0.1, 0.5, 1.0, 2.0, 3.0, 5.0]),
            block_s=1.0,
        )
        if launch.copies * launch.classes <= MOST_TILES:
            launches.append(launch)
    slots = np.array([draw.choice([64, 72, 108, 120, 132, 148, 216, 264]) for _ in launches], float)
    return launches, slots


def as_tiles(launches: list[Causal]) -> CausalTiles:
    """The same launches for the model."""

    def each(number) -> jnp.ndarray:
        return jnp.array([float(number(launch)) for launch in launches])

    return CausalTiles(
        copies=each(lambda c: c.copies),
        classes=each(lambda c: c.classes),
        top_rows=each(lambda c: c.keys - c.queries + c.classes * c.bm / c.packed),
        step_rows=each(lambda c: c.bm / c.packed),
        block_rows=each(lambda c: c.bn),
        cap_blocks=each(lambda c: c.cap_blocks),
        fixed_s=each(lambda c: c.fixed_s),
        block_s=each(lambda c: c.block_s),
    )


def makespan_errors(launches: list[Causal], slots: np.ndarray, order: str) -> np.ndarray:
    """Relative, positive where the closed form is too slow."""
    closed = causal_times(as_tiles(launches), jnp.asarray(slots), ORDERS.index(order)).makespan_s
    exact = [twin.makespan(launch.tiles_s(order), int(p)) for launch, p in zip(launches, slots, strict=True)]
    return np.asarray(closed) / np.array(exact) - 1.0


def waves(launches: list[Causal], slots: np.ndarray) -> np.ndarray:
    return np.array([launch.copies * launch.classes for launch in launches]) / slots


def class_errors(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The same of `makespan` for 1 to 16 classes of 1 to 500 tiles, up to 12 times as long as others; and the waves."""
    draw = random.Random(seed)
    errors, all_waves = [], []
    for _ in range(count):
        slots, spread = draw.choice([108, 132, 148, 264]), draw.choice([0.3, 1.0, 2.5])
        lengths = sorted((math.exp(draw.uniform(0.0, spread)) for _ in range(draw.randint(1, 16))), reverse=True)
        counts = [int(2.0 ** draw.uniform(0.0, 9.0)) for _ in lengths]
        tiles_s = [seconds for seconds, n in zip(lengths, counts, strict=True) for _ in range(n)]
        padding = [0.0] * (16 - len(counts))
        closed = makespan((*map(float, counts), *padding), (*lengths, *padding), float(slots))
        errors.append(float(closed) / twin.makespan(tiles_s, slots) - 1.0)
        all_waves.append(len(tiles_s) / slots)
    return np.array(errors), np.array(all_waves)
