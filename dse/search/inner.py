"""Trials that choose a GPU: its schedules are swept, and the GPU stands for its fastest ones.

A trial's latency is the sum over the problems of the fastest schedule's, of the whole space; other costs are those of
the same schedules. A GPU that breaks a limit on its own quantities is not swept.

With a shortlist (`dse.search.shortlist`) a trial's latency is that of the list's best, which is never faster than the
space's. In the end a few GPUs of the front are swept, and all of the front is told by the longer list.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..columns import in_order
from ..errors import UserError
from ..fitting import DECIDES_WHAT_FITS, fitting
from ..job import SweepJob, as_float32
from ..rows import as_numbers, table
from ..tuning import tune
from .candidates import Candidates, SearchSpace
from .evaluate import Evaluated, compiled_batch
from .goals import PREFIX, SUMS, Goals
from .machines import Machines, stacked
from .moves import ends, place_in
from .shortlist import Shortlist, seed_gpus

if TYPE_CHECKING:
    import pandas as pd

MODES = ("sweep", "shortlist")
MANY_SMS = 2**20
MOST_CORNERS = 64
CONFIRMED = 9  # GPUs of a front that are swept in the end
KEPT = 20_000


class InnerEvaluator:
    """Sweeps the schedules of every candidate's GPU; see `dse.search.evaluate.Evaluator`.

    Args:
        job: the space, and the GPU as it is.
        problems: one or several, and how often each counts.
        weights: how often.
        space: the GPU's numbers that are searched.
        goals: objectives and limits.
        machines: the GPUs.
        shortlist: whether a list of schedules stands for the space; see above.
        more: records of GPUs outside of the ranges whose schedules are swept too.

    Attributes:
        model: the cost model.
        problems, records: the problems, and the model's records of them, float32.
        machines: the GPUs.
        schedules: those that fit some GPU of the ranges, made once.

    Raises:
        UserError: no schedule can run on any of the GPUs.
    """

    def __init__(
        self,
        job: SweepJob,
        problems: Sequence[Any],
        weights: Sequence[float],
        space: SearchSpace,
        goals: Goals,
        machines: Machines,
        shortlist: bool = False,
        more: Sequence[Any] = (),
    ) -> None:
        self._job, self.problems, self._weights = job, list(problems), np.asarray(weights, float)
        self.model = job.model
        self._goals, self.machines = goals, machines
        self.records = [as_float32(problem.arrays()) for problem in problems]
        self.schedules = fitting(job.space, problems, [any_sms(gpu) for gpu in (*corner_gpus(space, machines), *more)])
        self._found: dict[bytes, list[dict[str, int]]] = {}
        self._list = None
        if shortlist:
            seeds = machines.records(seed_gpus(space, self.keeps))
            self._list = Shortlist(self.schedules, self.model, self.records, seeds)

    def __call__(self, candidates: Candidates) -> Evaluated:
        """See `Evaluator`."""
        return self._evaluated(candidates, self._list.tune if self._list else self._tune)

    def confirmed(self, candidates: Candidates) -> Evaluated | None:
        """With a shortlist: what the candidates cost once a few of them, spread over the first objective's order in
        which they come, were swept and their schedules joined the list. None where all were swept before."""
        if self._list is None:
            return None
        gpus = self.machines.records(candidates)
        few = sorted({round(at) for at in np.linspace(0, len(gpus) - 1, min(CONFIRMED, len(gpus)))})
        place, spent = self._tune([gpus[at] for at in few])
        self._list.extend(place, spent)
        return self._evaluated(candidates, self._list.tune)

    def unchanged(self, candidate: Candidates) -> Evaluated:
        """See `Evaluator`: swept whatever its limits; with a shortlist, its schedules join the list."""
        gpus = self.machines.records(candidate)
        place, spent = self._tune(gpus)
        if self._list:
            self._list.extend(place, 0)
        columns = self._costs(place, gpus) | self.machines.quantity_columns(candidate)
        values, broken = self._goals.values(columns), self._goals.violations(columns)
        return Evaluated(columns, values, broken, spent + place.size)

    def notes(self, evaluated: Evaluated) -> list[dict[str, Any]]:
        """See `Evaluator`: the schedules that were found, and what finding them took."""
        names = self._index_names()
        indices = np.stack([evaluated.columns[name] for name in names], axis=1).tolist()
        each = evaluated.evaluations // max(len(indices), 1)
        return [{"index": own, "evaluations": each} for own in indices]

    def recalled(self, candidates: Candidates, notes: Sequence[Mapping[str, Any]]) -> Evaluated:
        """See `Evaluator`."""
        wanted = np.array([note["index"] for note in notes], np.int64).reshape(len(notes), len(self.problems)).T
        place = np.minimum(np.searchsorted(self.schedules.index, wanted), len(self.schedules) - 1)
        columns = self._costs(place, self.machines.records(candidates))
        columns |= self.machines.quantity_columns(candidates)
        values, swept = self._goals.values(columns), self._within(columns, len(candidates))
        values[~swept] = np.inf
        spent = sum(int(note.get("evaluations", 0)) for note in notes)
        return Evaluated(columns, values, self._goals.violations(columns), spent)

    def tuned(self, digits: np.ndarray, numbers: np.ndarray) -> list[dict[str, int]]:
        """The schedules found on a GPU, one a problem; of one that was not swept those of another GPU."""
        known = self._found.get(np.asarray(numbers, float).tobytes())
        if known is not None:
            return known
        if self._found:
            return next(reversed(self._found.values()))
        return [self.schedules.schedules([0])[0] for _ in self.problems]

    def rows(self, candidates: Candidates, columns: Mapping[str, np.ndarray]) -> "pd.DataFrame":
        """See `Evaluator`: of one problem the columns of `dse.rows.evaluate_rows` for the fastest schedule; of several
        the sums, and `index NAME` and `latency_s NAME` of each."""
        import pandas as pd

        own = {name: values for name, values in columns.items() if not name.startswith(PREFIX)}
        if len(self.problems) > 1:
            return pd.DataFrame(own)
        index = own.pop("index")
        return table(self._job.space, [int(at) for at in index], own)

    def _evaluated(self, candidates: Candidates, tuned: Callable[[list[Any]], tuple[np.ndarray, int]]) -> Evaluated:
        columns = self.machines.quantity_columns(candidates)
        swept = self._within(columns, len(candidates))
        gpus = [gpu for gpu, wanted in zip(self.machines.records(candidates), swept, strict=True) if wanted]
        evaluations = self._list.spend() if self._list else 0
        blank = {name: np.zeros(len(candidates), values.dtype) for name, values in self._blank().items()}
        blank["latency_s"][:] = np.inf
        if gpus:
            place, spent = tuned(gpus)
            evaluations += spent + place.size
            self._remember(candidates.numbers[swept], place)
            for name, values in self._costs(place, gpus).items():
                blank[name][swept] = values
        columns = blank | columns
        values = self._goals.values(columns)
        values[~swept] = np.inf
        return Evaluated(columns, values, self._goals.violations(columns), evaluations)

    def _tune(self, gpus: list[Any]) -> tuple[np.ndarray, int]:
        """int64[problems, gpus] places of the fastest schedules, and evaluations."""
        found = tune(self.schedules, [(problem, gpu) for problem in self.problems for gpu in gpus])
        return found.place.reshape(len(self.problems), len(gpus)), found.evaluations

    def _remember(self, numbers: np.ndarray, place: np.ndarray) -> None:
        if len(self._found) > KEPT:
            self._found.clear()
        per_problem = [self.schedules.schedules(own) for own in place]
        for at, row in enumerate(numbers):
            self._found[np.asarray(row, float).tobytes()] = [own[at] for own in per_problem]

    def keeps(self, candidates: Candidates) -> np.ndarray:
        """Whether the candidates' GPUs keep to the limits on their own quantities, bool[n]."""
        return self._within(self.machines.quantity_columns(candidates), len(candidates))

    def _within(self, columns: Mapping[str, np.ndarray], count: int) -> np.ndarray:
        """Whether a GPU keeps to the limits on its own quantities."""
        kept = np.ones(count, bool)
        for limit in self._goals.limits:
            if PREFIX + limit.name in columns:
                kept &= columns[PREFIX + limit.name] <= limit.most
        return kept

    def _blank(self) -> dict[str, np.ndarray]:
        if not hasattr(self, "_kinds"):
            one = self._costs(np.zeros((len(self.problems), 1), np.int64), [self.machines.gpu])
            self._kinds = {name: values[:0] for name, values in one.items()}
        return self._kinds

    def _costs(self, place: np.ndarray, gpus: Sequence[Any]) -> dict[str, np.ndarray]:
        """Columns of the schedules at int64[problems, gpus] places."""
        size = 1 << max(len(gpus) - 1, 0).bit_length()
        machines = stacked(gpus, size)
        per_problem = []
        for record, own in zip(self.records, place, strict=True):
            fields = self.schedules.fields(own)
            padded = {name: np.resize(values.astype(np.float32), size) for name, values in fields.items()}
            costs = in_order(compiled_batch(self.model, True)(padded, record, machines))
            columns = {name: np.asarray(values)[: len(gpus)] for name, values in costs.items()}
            per_problem.append(as_numbers(fields | columns, fields) | {"index": self.schedules.index[own]})
        return per_problem[0] if len(per_problem) == 1 else self._summed(per_problem)

    def _index_names(self) -> list[str]:
        if len(self.problems) == 1:
            return ["index"]
        return [f"index {problem.shape}" for problem in self.problems]

    def _summed(self, per_problem: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
        columns: dict[str, np.ndarray] = {}
        for name in SUMS:
            if name in per_problem[0]:
                columns[name] = sum(  # pyright: ignore[reportArgumentType]
                    weight * own[name].astype(np.float64)
                    for weight, own in zip(self._weights, per_problem, strict=True)
                )
        reasons = np.stack([own["reason"] for own in per_problem])
        columns["reason"] = reasons[(reasons != 0).argmax(axis=0), np.arange(reasons.shape[1])]
        for name, problem, own in zip(self._index_names(), self.problems, per_problem, strict=True):
            columns |= {name: own["index"], f"latency_s {problem.shape}": own["latency_s"]}
        return columns


def corner_gpus(space: SearchSpace, machines: Machines) -> list[Any]:
    """GPUs at the ends of the axes that decide what fits, in every combination: what fits a GPU between fits one."""
    middle = {axis.name: float(place_in(axis, np.array([0.5]))[0]) for axis in space.gpu}
    base = machines.record(middle)
    deciding = [
        axis
        for axis in space.gpu
        if any(_resources(machines.record({**middle, axis.name: end})) != _resources(base) for end in ends(axis))
    ]
    if 2 ** len(deciding) > MOST_CORNERS:
        raise UserError(
            f"{len(deciding)} GPU axes decide what fits: at most {MOST_CORNERS.bit_length() - 1} with --inner"
        )
    corners = itertools.product(*(ends(axis) for axis in deciding))
    names = [axis.name for axis in deciding]
    return [base, *(machines.record({**middle, **dict(zip(names, corner, strict=True))}) for corner in corners)]


def any_sms(gpu: Any) -> Any:
    """A GPU with so many SMs that no schedule is left out for their number."""
    usable = np.where(np.asarray(gpu.cluster_sms) > 0, MANY_SMS, 0).astype(np.float32)
    return replace(gpu, sm_count=np.float32(MANY_SMS), cluster_sms=usable)


def _resources(gpu: Any) -> list[bytes]:
    names = [name for name in DECIDES_WHAT_FITS if name not in ("mma", "sm_count", "cluster_sms")]
    return [np.asarray(getattr(gpu, name), np.float32).tobytes() for name in names]
