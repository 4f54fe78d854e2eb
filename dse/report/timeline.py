"""When one SM loads, multiplies and stores: the recurrence of the model's envelope, step by step.

    load_i = max(load_{i-1}, comp_{i-s}) + m
    comp_i = max(load_i + L, comp_{i-1} + (M - c)) + c

(docs/how-the-model-works.md, section 6), with M the pace of loads and MMAs together: with no overlap loss M = max(m, c)
and this is the recurrence of `jaxmodel.envelope`; a loss keeps the tensor cores waiting M - c between two steps. r
tiles of an SM take turns: step j is tile j mod r, and they have r s buffers. Its last step ends when the closed form
says.
"""

from dataclasses import dataclass
from math import floor

from .tile_program import TileProgram


@dataclass(frozen=True)
class Step:
    """One K-step of one tile on the SM; seconds from the launch of the wave's CTAs.

    Attributes:
        place: its number among the K-steps of all tiles of the SM.
        tile, iteration: which tile of the SM, and which of its K-steps.
        buffer: which buffer it is loaded into, of those of all tiles.
        load_start_s, load_end_s: the load engines serve it.
        ready_s: its last byte has arrived: `load_end_s` and the latency.
        mma_start_s, mma_end_s: the tensor cores (or what else computes) serve it; then the buffer is free.
    """

    place: int
    tile: int
    iteration: int
    buffer: int
    load_start_s: float
    load_end_s: float
    ready_s: float
    mma_start_s: float
    mma_end_s: float


@dataclass(frozen=True)
class Store:
    """One tile's epilogue; seconds from the launch of the wave's CTAs."""

    tile: int
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Timeline:
    """One SM during a wave whose tiles run in step.

    Attributes:
        program: the times that it is made of.
        steps: all K-steps of the SM's tiles, in the order in which they are computed.
        stores: the tiles' epilogues.
        pace_s: of the main loop: the program's, or longer where an engine's whole demand takes longer than the loop.
    """

    program: TileProgram
    steps: tuple[Step, ...]
    stores: tuple[Store, ...]
    pace_s: float

    @property
    def end_s(self) -> float:
        """The last store's end: fill, main loop and stores of the model."""
        return self.stores[-1].end_s


def timeline(program: TileProgram) -> Timeline:
    """The K-steps and stores of one SM during the wave in step."""
    m, c, latency_s = program.load_s, program.compute_s, program.latency_s_of_load
    tiles, count = program.resident, program.resident * program.iterations
    buffers = program.resident * program.stages
    pace_s = effective_pace(count, buffers, program)
    steps: list[Step] = []
    for place in range(count):
        before = steps[place - 1] if place else None
        freed_s = steps[place - buffers].mma_end_s if place >= buffers else program.cta_launch_s
        load_start_s = max(before.load_end_s if before else program.cta_launch_s, freed_s)
        load_end_s = load_start_s + m
        ready_s = load_end_s + latency_s
        mma_start_s = max(ready_s, before.mma_end_s + pace_s - c) if before else ready_s
        steps.append(
            Step(
                place, place % tiles, place // tiles, place % buffers,
                load_start_s, load_end_s, ready_s, mma_start_s, mma_start_s + c,
            )
        )  # fmt: skip
    return Timeline(program, tuple(steps), _stores(program, steps[-1].mma_end_s, count), pace_s)


def effective_pace(count: int, buffers: int, program: TileProgram) -> float:
    """The pace at which the loop takes what the model says: (n - 1) M + floor((n - 1) / S) max(0, F - S M), solved
    for M.

    The model's loop is at least as long as the busiest engine needs for the whole wave; where that is longer, every
    step waits for its share.

    Args:
        count: K-steps n of all tiles of the SM.
        buffers: of all of them, S.
        program: its fill without the launch is F.
    """
    rest, first_s = count - 1, program.load_s + program.latency_s_of_load + program.compute_s
    if rest < 1:
        return program.pace_s
    refills = floor(rest / buffers)
    refill_s = max(0.0, first_s - buffers * program.pace_s)
    loop_s = rest * program.pace_s + refills * refill_s
    if program.loop_s <= loop_s * (1.0 + 1e-5):  # float32's rounding
        return program.pace_s
    even_s = program.loop_s / rest
    if buffers * even_s >= first_s:
        return even_s
    return (program.loop_s - refills * first_s) / (rest - refills * buffers)


def _stores(program: TileProgram, loops_end_s: float, count: int) -> tuple[Store, ...]:
    """Loops end a pace apart and one engine stores: st + (r - 1) max(0, st - M) after the last. A single K-step has no
    loop in which to wait for a busy engine: its stores wait."""
    waits_s = program.loop_s if count == 1 else 0.0
    last = program.resident - 1
    stores: list[Store] = []
    for tile in range(program.resident):
        ends_s = loops_end_s + waits_s - (last - tile) * program.pace_s
        start_s = max(ends_s, stores[-1].end_s if stores else ends_s)
        stores.append(Store(tile, start_s, start_s + program.store_s))
    return tuple(stores)
