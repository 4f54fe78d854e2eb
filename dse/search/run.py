"""The search loop: ask a batch, evaluate it in one call, tell; then the best and the front of what was tried."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UserError, unknown
from ..front import non_dominated
from ..job import SweepJob
from ..platform import configure_jax
from ..progress import Progress, Snapshot, reporter
from ..rows import table
from .candidates import Candidates, gpu_fields, search_space
from .evaluate import BatchEvaluator, MakeGpu

if TYPE_CHECKING:
    import pandas as pd

SAMPLERS = ("tpe", "nsga2", "random")
BATCH = 32


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes:
        job: problem, space, objectives.
        trials: every candidate tried, in order: `trial`, a column `gpu.<name>` for each chosen number of the GPU, and
            the columns of `dse.rows.evaluate_rows`. Infeasible ones have a `reason` other than 0.
        best: the feasible trials by `job.rank_by`, at most `job.top`, each choice once.
        front: the feasible trials that no other trial dominates, by the objectives, each choice once.
        study: the searcher's own record; for Optuna's samplers the study.
        sampler, seed: how candidates were drawn.
        feasible: how many trials can run.
        seconds: wall time.
        incomplete: whether Ctrl-C ended the search early.
    """

    job: SweepJob
    trials: "pd.DataFrame"
    best: "pd.DataFrame"
    front: "pd.DataFrame"
    study: Any
    sampler: str
    seed: int
    feasible: int
    seconds: float
    incomplete: bool


def run_search(
    job: SweepJob,
    trials: int,
    sampler: str = "tpe",
    seed: int = 0,
    *,
    gpu: Mapping[str, Any] | None = None,
    make_gpu: MakeGpu | None = None,
    first: Sequence[int] = (),
    batch: int = BATCH,
    progress: Progress = None,
) -> SearchResult:
    """Tries `trials` candidates and returns them with the best and the front among them.

    The same seed, batch and number of trials give the same trials.

    Args:
        job: problem, GPU, space and objectives; its range is not used. With one objective the search minimises it, with
            several it seeks their front.
        trials: the budget.
        sampler: "tpe", "nsga2" or "random".
        seed: of the sampler.
        gpu: numbers of the GPU to choose as well, name -> (low, high), (low, high, "log") or a list of choices. Names
            are fields of the model's GPU record, e.g. "l2_capacity_bytes".
        make_gpu: makes the GPU record of the chosen numbers, where their names are something else (overrides of a GPU
            file, for example); None: they replace fields of the job's GPU.
        first: indices of schedules to try first, e.g. known-good ones.
        batch: candidates asked for and evaluated at once.
        progress: as in `dse.sweep.run_sweep`; counts trials.

    Raises:
        UserError: a budget or batch below 1, a seed out of range, an unknown sampler or GPU field, or a range that is
            none.
    """
    if sampler not in SAMPLERS:
        raise unknown("sampler", sampler, SAMPLERS)
    for name, value in (("trials", trials), ("batch", batch)):
        if value < 1:
            raise UserError(f"{name} = {value} is not allowed: 1 or more")
    if not 0 <= seed < 2**32:
        raise UserError(f"seed = {seed} is not allowed: a whole number from 0 to 2^32 - 1")
    space = search_space(job.space, gpu, None if make_gpu else gpu_fields(job.gpu))
    configure_jax()
    from .optuna import OptunaSearcher

    searcher = OptunaSearcher(space, len(job.objectives), sampler, seed, first)
    evaluate = BatchEvaluator(job, min(batch, trials), make_gpu)
    record = _Record(job, trials)
    report = reporter(progress)
    incomplete = False
    try:
        while record.done < trials:
            candidates = searcher.ask(min(batch, trials - record.done))
            columns = evaluate(candidates)
            values = np.stack([columns[name] for name in job.objectives], axis=1).astype(float)
            searcher.tell(values, columns["reason"] == 0)
            record.add(candidates, columns)
            report(record.snapshot())
    except KeyboardInterrupt:
        incomplete = True
    report(replace(record.snapshot(), finished=True))
    return record.result(searcher.study, sampler, seed, incomplete)


class _Record:
    def __init__(self, job: SweepJob, trials: int) -> None:
        self._job, self._trials = job, trials
        self._began = time.perf_counter()
        self._candidates: list[Candidates] = []
        self._columns: list[dict[str, np.ndarray]] = []
        self.done = 0
        self._best = np.inf

    def add(self, candidates: Candidates, columns: dict[str, np.ndarray]) -> None:
        self._candidates.append(candidates)
        self._columns.append(columns)
        self.done += len(candidates)
        fits = columns["reason"] == 0
        self._best = min(self._best, columns[self._job.rank_by][fits].min(initial=np.inf))

    def snapshot(self) -> Snapshot:
        seconds = time.perf_counter() - self._began
        return Snapshot(
            done=self.done,
            total=self._trials,
            seconds=seconds,
            rate=self.done / max(seconds, 1e-9),
            best=float(self._best) if np.isfinite(self._best) else None,
            best_name=self._job.rank_by,
            front=0,
        )

    def result(self, study: Any, sampler: str, seed: int, incomplete: bool) -> SearchResult:
        job, tried = self._job, self._table()
        choice = ["index", *(name for name in map(str, tried) if name.startswith("gpu."))]
        finite = np.isfinite(tried[list(job.objectives)].to_numpy(float)).all(axis=1)
        usable = tried[(tried["reason"].to_numpy() == 0) & finite].drop_duplicates(choice)
        front = usable[non_dominated(usable[list(job.objectives)].to_numpy(float))]
        return SearchResult(
            job=job,
            trials=tried,
            best=usable.sort_values([job.rank_by, "trial"]).head(job.top).reset_index(drop=True),
            front=front.sort_values([*job.objectives, "trial"]).reset_index(drop=True),
            study=study,
            sampler=sampler,
            seed=seed,
            feasible=int((tried["reason"] == 0).sum()),
            seconds=time.perf_counter() - self._began,
            incomplete=incomplete,
        )

    def _table(self) -> "pd.DataFrame":
        space = self._job.space
        digits = [row for candidates in self._candidates for row in candidates.digits.tolist()]
        columns = _joined(self._columns)
        rows = table(space, [space.index_of(row) for row in digits], columns)
        gpu = _joined([candidates.gpu for candidates in self._candidates])
        for name, values in reversed(gpu.items()):
            rows.insert(0, f"gpu.{name}", values)
        rows.insert(0, "trial", np.arange(len(rows)))
        return rows


def _joined(blocks: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]} if blocks else {}
