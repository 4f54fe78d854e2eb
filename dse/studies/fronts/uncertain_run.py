"""A run's front under uncertainty: what of it stands when the GPU's numbers are only as good as their sources."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...content.gpu import GpuFile, load_gpu
from ...errors import UserError
from ...fitting import fitting
from ...rows import evaluate_rows
from ...runs import OpenRun
from .gpu_draws import draw_gpus, uncertainties
from .uncertain_front import UncertainFront, uncertain_front

if TYPE_CHECKING:
    import pandas as pd

MOST_DRAWS = 100_000  # the standard error of a share is then 0.2 %; more would take hours
COLUMNS = ("probability", "standard_error", "expected_regret", "regret_95", "worst_regret")


@dataclass(frozen=True)
class UncertainRun:
    """What the draws say of a run.

    Attributes:
        found: the fronts' statistics.
        uncertain: number of the GPU -> relative standard deviation, those that were drawn.
        seed: of the draws.
        table: one row a schedule, those that some front holds and those of the least expected regret: index, `COLUMNS`,
            schedule and cost at the file's own numbers; sorted by falling probability, then by expected regret.
        most_robust, safest: rows of the table: least expected regret, least 95 % regret.
    """

    found: UncertainFront
    uncertain: dict[str, float]
    seed: int
    table: "pd.DataFrame"
    most_robust: int
    safest: int


def uncertain_run(
    run: OpenRun,
    draws: int,
    seed: int = 0,
    given: Mapping[str, float] | None = None,
    gpu: GpuFile | None = None,
    progress: Any = None,
    workers: int | None = None,
) -> UncertainRun:
    """Draws the run's GPU and finds the front of its whole space for every draw.

    Args:
        run: problem, GPU, space and objectives.
        draws, seed: how many draws, and of which random numbers.
        given: number of the GPU -> relative standard deviation, in place of what its file or its kind says.
        gpu: the file that the run's GPU came from; None: the known one of its name.
        progress, workers: as in `dse.studies.fronts.uncertain_front.uncertain_front`.

    Raises:
        UserError: what `uncertainties` and `uncertain_front` raise, draws outside of 1 to 100,000, no GPU file of the
            run's name, or `gpu` of another name.
    """
    job = run.job
    if gpu is not None and gpu.name != job.gpu_name:
        raise UserError(
            f"the run's GPU is {job.gpu_name}, not {gpu.name}: how far its numbers may be off stands in its own file; "
            f"give {job.gpu_name}.toml with --gpu, or leave it out"
        )
    if not 1 <= draws <= MOST_DRAWS:
        raise UserError(f"draws = {draws} is not allowed: 1 to {MOST_DRAWS:,}")
    fixed = tuple(line.partition(":")[0].split(" ")[0] for line in job.gpu_changes)
    uncertain = uncertainties(
        gpu or _file_of(run), job.gpu, job.problem.dtype, job.space.family, run.accumulator, job.clock, given, fixed
    )
    schedules = fitting(job.space, [job.problem], [job.gpu])
    gpus = draw_gpus(job.gpu, uncertain, draws, seed)
    found = uncertain_front(schedules, job.problem, gpus, job.objectives, progress, workers=workers)
    table = evaluate_rows(job, schedules.index[found.places].tolist())
    for at, name in enumerate(COLUMNS, 1):
        table.insert(at, name, getattr(found, name))
    order = np.lexsort((table["index"], found.expected_regret, -found.probability))
    place = np.empty(len(order), int)
    place[order] = np.arange(len(order))
    return UncertainRun(
        found=found,
        uncertain=uncertain,
        seed=seed,
        table=table.iloc[order].reset_index(drop=True),
        most_robust=int(place[found.most_robust]),
        safest=int(place[found.safest]),
    )


def _file_of(run: OpenRun) -> GpuFile:
    try:
        return load_gpu(run.job.gpu_name)
    except UserError as error:
        raise UserError(
            f"the run's GPU {run.job.gpu_name!r} is no known file, so how far its numbers may be off is not known: "
            "give the file with --gpu FILE.toml"
        ) from error
