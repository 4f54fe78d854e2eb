"""What every executor runs: chunks of a job on one device, and the order in which a sweep's parts are worked off."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..job import SweepJob
from ..machines import Machine
from ..platform import cpu_type, is_accelerator
from ..reduce import (
    Bounds,
    ChunkSpec,
    Evaluated,
    chunk_spec,
    compiled_model,
    compiled_reduction,
    counts_of,
    survivors_of,
)
from ..state import BoundsKeeper, Collector, Range, SweepState
from . import PartSink

CPU_LANES = 2**16  # a few milliseconds a core: the calls cost little, and a stop is heard soon
ACCELERATOR_LANES = 2**20  # enough to fill a GPU
SCOUTS = 8  # chunks, over the whole range: after them few candidates get past the bounds


class ChunkRunner:
    """Evaluates a job's chunks on one device, with one compiled function for each part of the space (`Space.split`).

    Args:
        job: what to sweep.
        device: a jax device; None: jax's default.
        compact: reduce further on the device; None: where the device is an accelerator.
        everything: keep every field of every candidate, for files that hold all rows.
    """

    def __init__(
        self, job: SweepJob, device: Any = None, compact: bool | None = None, everything: bool = False
    ) -> None:
        import jax

        device = device if device is not None else jax.devices()[0]
        compact = is_accelerator(device) if compact is None else compact
        self.lanes = chunk_lanes(job, device)
        self._job = job
        self._fixed = jax.device_put((job.problem_arrays, job.gpu), device)
        parts = job.space.split(getattr(job.model, "compiled_fields", ()))
        self._parts = [_Part(at, chunk_spec(job, self.lanes, compact, everything, space)) for at, space in parts]

    def chunks(self, start: int, stop: int) -> Iterator[Range]:
        """[start, stop) cut into what `run` takes: at most `lanes` indices of one part of the space."""
        for part in self._parts:
            yield from cut(max(start, part.start), min(stop, part.stop), self.lanes, max(start, part.start))

    def compile(self) -> None:
        """Compiles what the first chunk needs; else that happens when it runs."""
        job = self._job
        start, stop = next(self.chunks(job.start, job.end))
        self.run(start, stop, BoundsKeeper(job).bounds, Collector(job))

    def run(self, start: int, stop: int, bounds: Bounds, collector: Collector) -> Evaluated:
        """Evaluates one of `chunks` and adds the outcome to the collector."""
        part = next(part for part in self._parts if part.start <= start < part.stop)
        spec = part.spec
        with contextlib.nullcontext() if part.compiled else part.first_call:  # one compiles, the others wait
            evaluated = compiled_model(spec)(spec.start_digits_of(start - part.start), *self._fixed)
            reduced = compiled_reduction(spec.without_space())(
                evaluated.values, evaluated.reason, np.int32(stop - start), bounds.threshold, bounds.pivots
            )
            part.compiled = True
        lanes, values = survivors_of(spec, evaluated, reduced)
        collector.add(start, stop, counts_of(spec, reduced), lanes + (start - self._job.start), values)
        return evaluated


class _Part:
    """A stretch of the space with a compiled function of its own."""

    def __init__(self, start: int, spec: ChunkSpec) -> None:
        self.start = start
        self.stop = start + spec.space.size
        self.spec = spec
        self.first_call = threading.Lock()
        self.compiled = False


def chunk_lanes(job: SweepJob, device: Any) -> int:
    """Candidates a chunk: the job's own, else what suits the device."""
    if job.chunk_lanes is not None:
        return job.chunk_lanes
    return ACCELERATOR_LANES if is_accelerator(device) else CPU_LANES


def machine_of(job: SweepJob, device: Any) -> Machine:
    """What this process evaluates the job's chunks on."""
    return Machine(cpu_type(), device.device_kind, chunk_lanes(job, device))


def this_machine(job: SweepJob) -> Machine:
    """What this process evaluates the job's chunks on unless it is told a device."""
    import jax

    return machine_of(job, jax.devices()[0])


def cut(start: int, stop: int, length: int, origin: int = 0) -> Iterator[Range]:
    """[start, stop) cut at `origin` plus multiples of `length`."""
    while start < stop:
        end = min(stop, start + length - (start - origin) % length)
        yield start, end
        start = end


def tasks(job: SweepJob, done: SweepState, length: int, lanes: int, scouts: bool = True) -> Iterator[Range]:
    """What is left of a job, each index once.

    First come single chunks spread over the whole range, so that the bounds are tight before the bulk runs; then the
    rest in order, cut at multiples of `length` from the job's start.
    """
    spread: list[Range] = []
    if scouts and not done.ranges:
        chunks = -(-job.candidates // lanes)
        for place in sorted({(2 * i + 1) * chunks // (2 * SCOUTS) for i in range(SCOUTS)}):
            start = job.start + place * lanes
            spread.append((start, min(start + lanes, job.end)))
    yield from spread
    known = SweepState(tuple(sorted((*done.ranges, *spread))), done.counts, done.top, done.front)
    for start, stop in known.missing(job.start, job.end):
        yield from cut(start, stop, length, job.start)


def run_task(
    runner: ChunkRunner,
    task: Range,
    collector: Collector,
    keeper: BoundsKeeper,
    stopped: Callable[[], bool],
    after_chunk: Callable[[Collector], None],
    sink: PartSink | None,
) -> None:
    """Evaluates a task chunk by chunk into the collector.

    Where rows go to a sink, the task counts only as a whole: a stop, or an error, leaves neither a part nor anything
    in the collector. Else `after_chunk` may take what was collected after every chunk.
    """
    chunks = runner.chunks(*task)
    if sink is None:
        for start, stop in chunks:
            if stopped():
                return
            runner.run(start, stop, keeper.bounds, collector)
            after_chunk(collector)
        return
    try:
        with sink.part(task[0]) as part:
            for start, stop in chunks:
                if stopped():
                    raise _StoppedError
                evaluated = runner.run(start, stop, keeper.bounds, collector)
                part.add({name: np.asarray(values)[: stop - start] for name, values in evaluated.everything.items()})
    except _StoppedError:
        collector.take()


def write_again(job: SweepJob, lost: list[Range], sink: PartSink, admit: Callable[[Machine], None]) -> None:
    """Writes parts that got lost after their ranges had been evaluated; nothing is counted twice.

    Raises:
        UserError: this machine is of another kind than the run's, and they are not to be mixed.
    """
    if lost:
        machine = this_machine(job)
        admit(machine)
        runner = ChunkRunner(job, everything=True)
        sink = sink.on(machine)
        for part in lost:
            run_task(runner, part, Collector(job), BoundsKeeper(job), lambda: False, lambda _: None, sink)


class _StoppedError(Exception):
    pass
