"""Many machines that differ from one GPU, each shape tuned once on each; and a shortlist of schedules that says quickly
what a machine is worth at least.

The shortlist begins with the best schedules of the GPU as it is; whatever is tuned joins it. Its best is never faster
than the whole space's.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...binding import bind
from ...content.gpu import GpuFile
from ...errors import UserError
from ...fitting import fitting
from ...job import as_float32
from ...platform import usable_cores
from ...progress import Progress, Snapshot, reporter
from ...question import Question
from ...schedule_set import ScheduleSet, listed
from ...space import Space
from ...tuning import tune
from .improvable import Knob

SHORTLIST = 20_000  # schedules
LEAST_SHORTLIST = 200  # for one shape of a list
MANY_SMS = 2**20
Point = tuple[Knob, int]  # a knob and a place in its factors


@dataclass(frozen=True, eq=False)
class Tuned:
    """All shapes tuned on one machine: float64[shapes] latencies, int64[shapes] indices in their spaces, schedules."""

    latency_s: np.ndarray
    index: np.ndarray
    schedules: tuple[Mapping[str, int], ...]
    total_s: float


class Machines:
    """The shapes on every machine of a search, each tuned once.

    Args:
        questions: the shapes on the GPU as it is.
        weights: how much each latency counts.
        space_of: the space of a question.
        changed: the GPU file with changes.
        knobs: all that will be asked for: they decide which schedules may fit.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        weights: Sequence[float],
        space_of: Callable[[Question], Space],
        changed: Callable[[Mapping[str, str]], GpuFile],
        knobs: Sequence[Knob],
        progress: Progress = None,
    ) -> None:
        self.questions, self.weights = list(questions), np.asarray(weights, np.float64)
        self.changed, self.report = changed, reporter(progress)
        self.evaluations = 0
        self.pool = ThreadPoolExecutor(usable_cores())
        self._began = time.perf_counter()
        self._gpus: dict[tuple[tuple[str, ...], int], GpuFile] = {}
        self._tuned: dict[tuple[tuple[str, ...], int], Tuned] = {}
        kinds = [(at.family, at.problem.dtype, at.accumulator) for at in self.questions]
        self._parts = [
            _Part([place for place, other in enumerate(kinds) if other == kind], self, space_of, knobs)
            for kind in dict.fromkeys(kinds)
        ]

    @property
    def spaces(self) -> dict[str, tuple[int, int]]:
        """Name -> (declared schedules, those that fit) of every space."""
        return {f"{p.space.name} {p.space.dtype}": (p.space.size, len(p.sets[False])) for p in self._parts}

    def gpu(self, point: Point) -> GpuFile:
        """The GPU file of a machine."""
        key = (point[0].fields, point[1])
        if key not in self._gpus:
            self._gpus[key] = self.changed(point[0].overrides(point[1]) if point[1] else {})
        return self._gpus[key]

    def bound(self, point: Point, place: int) -> Any:
        """The model's record of a machine for one of the shapes."""
        at = self.questions[place]
        return bind(self.gpu(point), at.problem, at.accumulator, at.family, at.clock)

    def tune(self, points: Iterable[Point]) -> list[Tuned]:
        """Every shape tuned over the whole space on these machines; their schedules join the shortlists."""
        asked = list(points)
        fresh = {key: point for point in asked if (key := _key(point)) not in self._tuned}
        if fresh:
            found = {
                key: ([0.0] * len(self.questions), [0] * len(self.questions), [{}] * len(self.questions))
                for key in fresh
            }
            for part in self._parts:
                part.tune(fresh, found)
            for key, (latency, index, schedules) in found.items():
                latency_s = np.array(latency, np.float64)
                total_s = float(latency_s @ self.weights)
                self._tuned[key] = Tuned(latency_s, np.array(index, np.int64), tuple(schedules), total_s)
        return [self._tuned[_key(point)] for point in asked]

    def shortlist_s(self, point: Point) -> float:
        """The weighted sum of the shortlists' fastest: never faster than tuned."""
        return float(sum(part.shortlist_s(point) for part in self._parts))

    def shown(self, snapshot: Snapshot) -> None:
        """Shows where tuning stands, all rounds together."""
        done, total = self.evaluations + snapshot.done, self.evaluations + snapshot.total
        seconds = time.perf_counter() - self._began
        self.report(replace(snapshot, done=done, total=total, seconds=seconds, finished=False))

    def finished(self) -> None:
        """Shows that all is done, and ends the threads."""
        seconds = time.perf_counter() - self._began
        done = self.evaluations
        self.report(Snapshot(done, done, seconds, done / max(seconds, 1e-9), None, "latency_s", None, finished=True))
        self.pool.shutdown()

    def tuned_places(self, knob: Knob) -> tuple[int, ...]:
        """Places of a knob that were tuned, ascending; without the GPU as it is."""
        return tuple(sorted(place for fields, place in self._tuned if fields == knob.fields and place))


def _key(point: Point) -> tuple[tuple[str, ...], int]:
    return (point[0].fields if point[1] else (), point[1])


class _Part:
    """The shapes of one instruction family and type."""

    def __init__(
        self, places: list[int], machines: Machines, space_of: Callable[[Question], Space], knobs: Sequence[Knob]
    ) -> None:
        self.places, self.machines = places, machines
        own = [machines.questions[place] for place in places]
        self.space = space_of(own[0])
        self.problems = [at.problem for at in own]
        self.records = [as_float32(problem.arrays()) for problem in self.problems]
        base = own[0].bound
        self.sets: dict[bool, ScheduleSet] = {False: fitting(self.space, self.problems, [_any_sms(base)])}
        wide = [knob for knob in knobs if knob.widens]
        if wide:
            ends = [machines.bound((knob, len(knob.factors) - 1), places[0]) for knob in wide]
            self.sets[True] = fitting(self.space, self.problems, [_any_sms(_roomiest([base, *ends]))])
        self.columns = self._first_shortlist(base)
        self.chosen = listed(self.columns, self.space.kernel)

    def tune(self, points: Mapping[Any, Point], found: Mapping[Any, tuple[list, list, list]]) -> None:
        for wide in (False, True):
            keys = [key for key, point in points.items() if (point[0].widens and point[1] > 0) == wide]
            if not keys:
                continue
            schedules = self.sets[wide]
            rows = [
                (problem, self.machines.bound(points[key], place))
                for key in keys
                for problem, place in zip(self.problems, self.places, strict=True)
            ]
            tuned = tune(schedules, rows, self.machines.shown)
            self.machines.evaluations += tuned.evaluations
            fields = schedules.fields(tuned.place)
            self._join(fields)
            for row, (latency_s, index) in enumerate(zip(tuned.latency_s, tuned.index, strict=True)):
                key, place = keys[row // len(self.places)], self.places[row % len(self.places)]
                latency, indices, schedule = found[key]
                latency[place], indices[place] = float(latency_s), int(index)
                schedule[place] = {name: int(values[row]) for name, values in fields.items()}

    def shortlist_s(self, point: Point) -> float:
        gpus = [as_float32(self.machines.bound(point, place)) for place in self.places]
        fastest = self.machines.pool.map(self._fastest, self.records, gpus)
        return sum(least * self.machines.weights[place] for least, place in zip(fastest, self.places, strict=True))

    def _fastest(self, record: Any, gpu: Any) -> float:
        return min(float(np.asarray(value).min()) for _, (value,) in self.chosen.chunks(record, gpu))

    def _first_shortlist(self, base: Any) -> dict[str, np.ndarray]:
        schedules, gpu = self.sets[False], as_float32(base)
        most = max(SHORTLIST // len(self.records), LEAST_SHORTLIST)
        places = []
        for record in self.records:
            latency_s = schedules.values(record, gpu)[0]
            self.machines.evaluations += len(latency_s)
            places.append(
                np.argpartition(latency_s, most)[:most] if len(latency_s) > most else np.arange(len(latency_s))
            )
        return schedules.fields(np.unique(np.concatenate(places)))

    def _join(self, fields: Mapping[str, np.ndarray]) -> None:
        self.columns = {name: np.concatenate([values, fields[name]]) for name, values in self.columns.items()}
        self.chosen = listed(self.columns, self.space.kernel)


def _any_sms(gpu: Any) -> Any:
    """A machine with so many SMs that no schedule is left out for their number."""
    usable = np.where(np.asarray(gpu.cluster_sms) > 0, MANY_SMS, 0).astype(np.float32)
    return replace(gpu, sm_count=np.float32(MANY_SMS), cluster_sms=usable)


def _roomiest(gpus: Sequence[Any]) -> Any:
    """A machine with as much room as any of these has."""
    names = (
        *("smem_per_sm_bytes", "smem_per_cta_max_bytes", "registers_per_sm", "threads_per_sm", "warps_per_sm"),
        *("ctas_per_sm", "tmem_columns"),
    )
    return replace(gpus[0], **{name: np.max([getattr(gpu, name) for gpu in gpus]) for name in names})


def check_runs(machines: Machines, knob: Knob) -> Tuned:
    """The GPU as it is, tuned.

    Raises:
        UserError: no schedule can run a shape.
    """
    now = machines.tune([(knob, 0)])[0]
    for question, index in zip(machines.questions, now.index, strict=True):
        if index < 0:
            raise UserError(
                f"no schedule of the space can run {question.problem.shape} on {question.gpu.name}: widen the space or "
                "its preset, or leave the shape out"
            )
    return now
