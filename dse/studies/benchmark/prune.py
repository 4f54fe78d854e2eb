"""Which of a user's own configs to benchmark: the predicted best of them, and what performance they are to keep."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...content.gpu import GpuFile
from ...errors import UserError
from ...latency_bucket import BUCKET_EDGES_US, BUCKETS
from ...rank import Ranked, rank_entries
from ...trust import TrustLabel, packaged_residuals
from ...trust.within_shape import WithinShape, draw_log_latencies, packaged_within_shape

MOST_DRAWS, LEAST_DRAWS, NUMBERS = 4096, 256, 2**24
SURE = 0.9  # of the draws retain at least `Retained.low`
ERRORS_MEASURED = ("gemm",)  # kernels for which `dse.trust.within_shape` says how schedules of one shape err


@dataclass(frozen=True)
class Retained:
    """What a subset is expected to keep of the best measured performance.

    Attributes:
        expected: mean of (best measured latency of all) / (best measured latency of the subset), 1 at most.
        low: what 9 of 10 draws retain at least.
        scale: factor on the errors that schedules of one shape show, where tuned kernels of such shapes err more.
    """

    expected: float
    low: float
    scale: float


@dataclass(frozen=True)
class RankedConfig:
    """One config on one shape.

    Attributes:
        name: where it stands in the file.
        family, schedule: what it runs as.
        latency_s: predicted; infinite where it cannot run.
        why_not: why it cannot run; "" where it can.
    """

    name: str
    family: str
    schedule: Mapping[str, int]
    latency_s: float
    why_not: str

    @property
    def feasible(self) -> bool:
        """Whether it can run."""
        return not self.why_not


@dataclass(frozen=True)
class PrunedShape:
    """One shape's part of a pruning.

    Attributes:
        name, shape: of the problem.
        ranked: all configs, those that can run by predicted latency, equal ones in the order of the file.
        scale: factor on the errors within a shape, see `error_scale`.
        kept: the names of the first so many of them.
        tied: how many others are predicted as fast as the last that is kept.
        retained: by all that is kept for any shape; None where none can run, and of kernels whose schedules' errors
            nobody measured.
    """

    name: str
    shape: str
    ranked: tuple[RankedConfig, ...]
    scale: float
    kept: tuple[str, ...]
    tied: int
    retained: Retained | None = None

    @property
    def runnable(self) -> int:
        """How many configs can run."""
        return sum(entry.feasible for entry in self.ranked)


@dataclass(frozen=True)
class Pruned:
    """A pruned list of configs.

    Attributes:
        names: of all configs, in the order of the file.
        kept: of those that some shape keeps, in the order of the file.
        shapes: one a shape.
    """

    names: tuple[str, ...]
    kept: tuple[str, ...]
    shapes: tuple[PrunedShape, ...]

    @property
    def cannot_run(self) -> dict[str, str]:
        """Name -> why, of the configs that run on no shape (the first shape's reason), in the order of the file."""
        runs = {entry.name for shape in self.shapes for entry in shape.ranked if entry.feasible}
        why = {entry.name: entry.why_not for entry in self.shapes[0].ranked}
        return {name: why[name] for name in self.names if name not in runs}


def prune(
    entries: Sequence[tuple[str, Any]],
    problems: Sequence[tuple[str, Any]],
    gpu: GpuFile,
    keep: str | int = "5%",
    family: str | None = None,
    accumulator: str | None = None,
    clock: str = "boost",
    seed: int = 0,
) -> Pruned:
    """The configs to benchmark: of every shape the predicted best, together one list.

    Args:
        entries: (name, config), `dse.candidate_files.read_entries` or `listed_entries`.
        problems: (name, problem) of the shapes that the configs are for.
        gpu: a loaded GPU file.
        keep: how many a shape keeps: "5%" of all configs, rounded up, or a number of them.
        family, accumulator, clock: as in `dse.rank.rank_candidates`.
        seed: of the draws behind `Retained`.

    Raises:
        UserError: no config, no shape, a config that cannot be read, an odd `keep`, or what the GPU lacks.
    """
    if not entries or not problems:
        raise UserError(f"pruning needs {'configs' if not entries else 'a shape'}: give at least one")
    count = kept_count(keep, len(entries))
    found = [
        _cut(name, problem, rank_entries(entries, problem, gpu, family, accumulator, clock), count)
        for name, problem in problems
    ]
    chosen = {name for shape in found for name in shape.kept}
    names = tuple(name for name, _ in entries)
    if all(problem.kernel in ERRORS_MEASURED for _, problem in problems):
        found = [replace(shape, retained=_retained(shape, chosen, seed)) for shape in found]
    return Pruned(names, tuple(name for name in names if name in chosen), tuple(found))


def kept_count(keep: str | int, configs: int) -> int:
    """How many of so many configs are kept: "5%" of them, rounded up, or the number itself; at least one.

    Raises:
        UserError: neither a percentage above 0 and up to 100 nor a whole number from 1.
    """
    text = str(keep).strip()
    share = text.removesuffix("%").strip()
    try:
        number = float(share)
    except ValueError:
        number = float("nan")
    if text.endswith("%") and 0.0 < number <= 100.0:
        return max(1, int(np.ceil(configs * number / 100.0 - 1e-9)))
    if not text.endswith("%") and 1 <= number < float("inf") and number == int(number):
        return int(number)
    raise UserError(f"keep {text!r} of the configs: write a share such as 5% or a number of configs such as 20")


def expected_retained(
    schedules: Sequence[Mapping[str, Any]],
    predicted_s: Sequence[float] | np.ndarray,
    kept: Sequence[bool] | np.ndarray,
    *,
    scale: float = 1.0,
    noise: bool = True,
    seed: int = 0,
    model: WithinShape | None = None,
) -> Retained:
    """What measuring a part of the schedules of one shape keeps of the best performance, under the error model.

    Latencies are drawn around the predicted ones, with the covariance that measured schedules of one shape show
    (`dse.trust.within_shape`): the error that all share leaves the ratio as it is, near relations (another order of the
    same tile) err alike, others apart. In every draw the kept ones' fastest is held against the fastest of all.

    Args:
        schedules: those that can run, field -> number (and "family").
        predicted_s: seconds, one a schedule.
        kept: which are measured; at least one.
        scale: factor on the errors' standard deviation.
        noise: whether what a measurement adds is drawn too, so that the best is the best measured.
        seed: equal seeds give equal draws.
        model: of the errors; None: the packaged one.

    Raises:
        UserError: nothing kept.
    """
    keep = np.asarray(kept, bool)
    if not keep.any():
        raise UserError("nothing is kept: no performance is retained; keep at least one schedule that can run")
    if keep.all():
        return Retained(1.0, 1.0, scale)
    draws = int(np.clip(NUMBERS // len(keep), LEAST_DRAWS, MOST_DRAWS))
    logs = draw_log_latencies(list(schedules), predicted_s, draws, seed, scale=scale, noise=noise, model=model)
    ratios = np.exp(logs.min(axis=1) - logs[:, keep].min(axis=1))
    return Retained(float(ratios.mean()), float(np.quantile(ratios, 1.0 - SURE)), scale)


def error_scale(label: TrustLabel | None, latency_s: float) -> float:
    """The factor on the errors within a shape where tuned kernels of such shapes err more than where those were
    measured.

    Of a machine that nothing was fitted for, only the nearest validated GPU's own residuals speak: what such a machine
    adds is nearly all common to its schedules.

    Args:
        label: of the shape's predictions; None: there are no residuals, and the factor is 1.
        latency_s: of the fastest schedule.
    """
    table = packaged_residuals()
    own = table.of(label.validated_gpu, label.validated_dtype) if table and label else None
    if own is None or label is None:
        return 1.0
    bucket = BUCKETS[int(np.digitize(latency_s * 1e6, BUCKET_EDGES_US))]
    low, high = own.cells[label.shape_class][bucket].bounds(0.68)
    return packaged_within_shape().scaled_to((high - low) / 2.0)


def _cut(name: str, problem: Any, found: Sequence[Ranked], count: int) -> PrunedShape:
    ranked = tuple(
        RankedConfig(at.candidate.name, at.candidate.family, at.candidate.schedule, at.latency_s, at.why_not)
        for at in found
    )
    runnable = [entry for entry in ranked if entry.feasible]
    kept = runnable[:count]
    tied = sum(entry.latency_s == kept[-1].latency_s for entry in runnable[count:]) if kept else 0
    scale = error_scale(found[0].trust, ranked[0].latency_s) if runnable else 1.0
    return PrunedShape(name, problem.shape, ranked, scale, tuple(entry.name for entry in kept), tied)


def _retained(shape: PrunedShape, chosen: set[str], seed: int) -> Retained | None:
    runnable = [entry for entry in shape.ranked if entry.feasible]
    if not runnable:
        return None
    latency_s = np.array([entry.latency_s for entry in runnable])
    schedules = [{**entry.schedule, "family": entry.family} for entry in runnable]
    return expected_retained(
        schedules, latency_s, [entry.name in chosen for entry in runnable], scale=shape.scale, seed=seed
    )
