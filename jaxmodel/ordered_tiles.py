"""How long tiles of different lengths take on slots that each take the next tile when they are done with one.

Tiles of a class are equally long; those of causal attention are `causal_tiles`. Nothing here loops over tiles.

The makespan depends on the launch order:

* LONGEST_FIRST, all heads' longest tiles first. Levels of one tile a slot come in pairs: the second level's longest
  tile joins the first level's shortest, so after each pair all slots are about equally far, W(2kP) / P, and the next
  tile ends its own length later. The answer is the latest of such ends in the last levels.
* SHORTEST_FIRST, exact: slots come free in the order in which they were taken, so tile j follows tile j - P and the
  makespan is the sum of every P-th tile, counted from the longest.
* HEAD_LONGEST_FIRST and HEAD_SHORTEST_FIRST, head after head: up to two waves the x-th tile of the second wave follows
  the x-th shortest of the first; later a tile finds the next free slot a mean residual E[tau^2] / (2 E[tau]) before
  the mean of all, as far as the slots have fallen out of step.

Mean (99 %) of the errors against the schedule made tile by tile, over 6,000 drawn launches of which half have more
tiles than slots: 0.17 % (2 %), 0.05 % (0.7 %), 0.40 % (4 %), 0.40 % (7 %); `scripts/check_tile_times.py` has them by
waves. The largest, 14 to 22 %, are launches of 1 to 3 waves of tiles of a few blocks.
"""

import jax.numpy as jnp

from ._exact import ceil_div, floor_div, power_of_two_gcd
from ._pytree import pytree
from .causal_tiles import ROUNDING, CausalLaunch
from .causal_tiles import CausalTiles as CausalTiles
from .types import Array, Floats

LONGEST_FIRST, SHORTEST_FIRST, HEAD_LONGEST_FIRST, HEAD_SHORTEST_FIRST = range(4)
WAVES_ONE_BY_ONE = 8
OUT_OF_STEP = 12.0  # how fast slots fall out of step, by tau's squared variation and the waves; by the twin


@pytree
class TileTimes:
    """What all tiles take together."""

    makespan_s: Array
    work_s: Array  # the tiles' times added up
    mean_blocks: Array  # of a tile


def causal_times(tiles: CausalTiles, slots: Floats, order: int | Array) -> TileTimes:
    """Makespan, work and mean blocks of causal attention's tiles.

    Args:
        tiles: the launch.
        slots: P, tiles that run at the same time; whole, at least 1.
        order: LONGEST_FIRST, ... ; a Python int costs one order's formula, an array one code a candidate all four.

    Returns:
        makespan between max(longest tile, work / P) and work / P + longest tile. Raises nothing.
    """
    run = CausalLaunch(tiles)
    work_s = tiles.copies * run.head_s
    longest_s = run.tile_s(0.0)
    low_s, high_s = jnp.maximum(work_s / slots, longest_s), work_s / slots + longest_s
    forms = dict(enumerate((_longest_first_s, _shortest_first_s, _head_longest_first_s, _head_shortest_first_s)))
    makespan_s = 0.0
    for code, form in forms.items() if not isinstance(order, int) else [(order, forms[order])]:
        makespan_s = jnp.where(order == code, form(run, slots), makespan_s)
    return TileTimes(
        makespan_s=jnp.where(run.count > slots, jnp.clip(makespan_s, low_s, high_s), longest_s),
        work_s=work_s,
        mean_blocks=run.blocks_before(tiles.classes) / tiles.classes,
    )


def makespan(counts: tuple[Floats, ...], tile_s: tuple[Floats, ...], slots: Floats) -> Floats:
    """Makespan of a short list of classes, launched in this order, the longest first.

    With N_i and W_i the tiles and the work up to class i: the most of ceil(N_i / P) tau_i, W_i / P and, where a wave
    begins with tile j of class i, W(j) / P + tau_i.

    Args:
        counts: tiles of each class; whole, 0 where a class is empty.
        tile_s: seconds of one, not increasing.
        slots: P, whole, at least 1.

    Returns:
        seconds, between the bounds of `causal_times`; 1.3 % off in the mean of drawn lists, 2.5 % for 1 to 4 waves.
    """
    total, work_s, longest_s = 0.0, 0.0, 0.0
    for count, seconds in zip(counts, tile_s, strict=True):
        before, total = total, total + count
        work_s = work_s + count * seconds
        waves = ceil_div(total, slots)
        begin = (waves - 1.0) * slots
        balanced_s = (work_s - (total - begin) * seconds) / slots + seconds
        longest_s = jnp.maximum(longest_s, jnp.where(count > 0, waves * seconds, 0.0))
        longest_s = jnp.maximum(longest_s, jnp.where((count > 0) & (begin >= before), balanced_s, 0.0))
    return jnp.maximum(longest_s, work_s / slots)


def _longest_first_s(run: CausalLaunch, slots: Floats) -> Array:
    """The last pair of levels begins with tile `pair`, all slots free; a third level may have begun after it."""
    level = floor_div(run.count - 1.0, slots)
    third = level - 2.0 * jnp.floor(0.5 * level) < 0.5
    pair = jnp.maximum(level - jnp.where(third, 2.0, 1.0), 0.0) * slots
    start_s = run.work_s(pair) / slots
    middle = pair + slots
    last = jnp.minimum(middle + slots, run.count)
    place, last_place = floor_div(middle, run.copies), run.tiles.classes - 1.0
    joined_s = 0.0
    for beyond in (0.0, 1.0, 2.0, jnp.floor(0.5 * (last_place - place)), last_place - place):
        below = jnp.minimum((place + beyond + 1.0) * run.copies, last) - 1.0  # the last tile of its class joins
        above = jnp.clip(2.0 * middle - below - 1.0, pair, middle)  # this one of the level before
        joined_s = jnp.maximum(joined_s, run.tile_s(jnp.maximum(below, middle)) + run.tile_s(above))
    ends_s = start_s + jnp.maximum(run.tile_s(pair), joined_s)
    after = jnp.minimum(pair + 2.0 * slots, run.count - 1.0)
    least_s = start_s + run.tile_s(pair) + run.tile_s(after - 1.0)
    third_s = jnp.minimum(run.work_s(after) / slots, least_s) + run.tile_s(after)
    ends_s = jnp.where(third, jnp.maximum(ends_s, third_s), ends_s)
    return ends_s


def _shortest_first_s(run: CausalLaunch, slots: Floats) -> Array:
    """Every P-th tile: the first ones one by one, the rest as a progression."""
    waves = ceil_div(run.count, slots)
    blocks = 0.0
    for wave in range(WAVES_ONE_BY_ONE):
        one = run.blocks(floor_div(jnp.minimum(wave * slots, run.count - 1.0), run.copies))
        blocks = blocks + jnp.where(wave < waves, one, 0.0)
    rest = jnp.maximum(waves - WAVES_ONE_BY_ONE, 0.0)
    capped = jnp.clip(jnp.ceil(run.capped * run.copies / slots - ROUNDING) - WAVES_ONE_BY_ONE, 0.0, rest)
    sloping = rest - capped
    step = slots / run.copies
    within = 0.5 * (1.0 - power_of_two_gcd(slots, run.copies) / run.copies)  # mean of what floor takes off a place
    place = (WAVES_ONE_BY_ONE + capped + 0.5 * (sloping - 1.0)) * step - within
    mean = run.top + run.rounded_up - run.slope * place
    blocks = blocks + capped * run.tiles.cap_blocks + sloping * mean
    return waves * run.tiles.fixed_s + blocks * run.tiles.block_s


def _head_longest_first_s(run: CausalLaunch, slots: Floats) -> Array:
    last_head, last_place = run.count - run.tiles.classes, run.tiles.classes - 1.0
    place = jnp.maximum(run.capped - 1.0, 0.0)  # the last of its longest
    second = jnp.clip(slots - last_head, place, last_place)  # of the second wave
    two_s = _second_wave_s(run, slots, last_head + second, second)
    two_s = jnp.maximum(two_s, _second_wave_s(run, slots, run.count - 1.0, last_place))
    left_s = run.head_s - run.tiles.fixed_s * place - run.tiles.block_s * run.blocks_before(place)
    later_s = _later_s(run, slots, last_head + place, place, left_s)
    last_s = run.tile_s(run.count - 1.0)
    later_s = jnp.maximum(later_s, _later_s(run, slots, run.count - 1.0, last_place, last_s))
    alone_s = _longest_first_s(CausalLaunch(run.tiles, copies=1.0), slots)
    return _head_after_head_s(run, slots, two_s, later_s, alone_s, 2.0 * slots)


def _head_shortest_first_s(run: CausalLaunch, slots: Floats) -> Array:
    two_s = _second_wave_s(run, slots, run.count - 1.0, 0.0)
    later_s = _later_s(run, slots, run.count - 1.0, 0.0, run.tile_s(0.0))
    alone_s = _shortest_first_s(CausalLaunch(run.tiles, copies=1.0), slots)
    return _head_after_head_s(run, slots, two_s, later_s, alone_s, slots)


def _head_after_head_s(
    run: CausalLaunch, slots: Floats, two_s: Array, later_s: Array, alone_s: Array, many: Floats
) -> Array:
    """Up to two waves, later, or a head on its own: the only one, or one of `many` tiles, most of them unlike."""
    tiles = run.tiles
    mixed_s = jnp.where(run.count > 2.0 * slots, later_s, two_s)
    own_s = (tiles.copies - 1.0) * run.head_s / slots + alone_s
    alone = (tiles.copies < 2.0) | ((tiles.classes >= many) & (2.0 * run.capped < tiles.classes))
    return jnp.where(alone, own_s, mixed_s)


def _second_wave_s(run: CausalLaunch, slots: Floats, index: Floats, place: Floats) -> Array:
    """End of tile `index` of the second wave, of the class at `place`: it follows as many of the first's shortest."""
    shorter = jnp.floor(jnp.clip((index - slots) / slots, 0.0, 1.0) * run.tiles.classes)
    before = jnp.maximum(run.tiles.classes - 1.0 - shorter, 0.0)
    return 2.0 * run.tiles.fixed_s + run.tiles.block_s * (run.blocks(before) + run.blocks(place))


def _later_s(run: CausalLaunch, slots: Floats, index: Floats, place: Floats, left_s: Floats) -> Array:
    """End of tile `index` of a later wave, of the class at `place`; `left_s` of work are left when it begins."""
    tiles = run.tiles
    by_classes = 1.0 / tiles.classes
    mean_s = run.head_s * by_classes
    blocks = run.blocks_before(tiles.classes) * by_classes
    variance = tiles.block_s * tiles.block_s * jnp.maximum(run.squares() * by_classes - blocks * blocks, 0.0)
    spread = variance / (mean_s * mean_s)
    apart = 1.0 - jnp.exp(-OUT_OF_STEP * spread * run.count / slots)
    free_s = (tiles.copies * run.head_s - left_s) / slots - 0.5 * mean_s * (1.0 + spread)
    in_step_s = floor_div(index, slots) * mean_s
    return in_step_s + apart * (free_s - in_step_s) + tiles.fixed_s + tiles.block_s * run.blocks(place)
