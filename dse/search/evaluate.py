"""The cost of a batch of candidates, each with its own GPU, in one call of one compiled function."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ..columns import cost_columns, in_order
from ..compiled import jit
from ..job import CostModel, SweepJob
from ..rows import as_numbers
from ..space import Space
from .candidates import Candidates

MakeGpu = Callable[[Mapping[str, float]], Any]


class BatchEvaluator:
    """Evaluates batches of one size.

    Args:
        job: problem, GPU, kernel and space.
        size: candidates a batch; smaller batches are padded.
        make_gpu: chosen numbers of the GPU -> the model's record; None: they replace fields of the job's GPU.
    """

    def __init__(self, job: SweepJob, size: int, make_gpu: MakeGpu | None = None) -> None:
        self._job = job
        self._size = size
        self._make_gpu = make_gpu or (lambda numbers: replaced(job.gpu, numbers))

    def __call__(self, candidates: Candidates) -> dict[str, np.ndarray]:
        """Schedule fields and cost columns of the candidates, in their order."""
        schedules = fields_of(self._job.space, candidates.digits)
        gpus = self._gpus(candidates)
        padded = {name: np.resize(values.astype(np.float32), self._size) for name, values in schedules.items()}
        evaluate = _compiled_batch(self._job.model, bool(candidates.gpu))
        costs = in_order(evaluate(padded, self._job.problem_arrays, gpus))
        return as_numbers(schedules | {name: np.asarray(costs[name])[: len(candidates)] for name in costs}, schedules)

    def _gpus(self, candidates: Candidates) -> Any:
        if not candidates.gpu:
            return self._job.gpu
        import jax

        records = [
            self._make_gpu({name: float(values[row]) for name, values in candidates.gpu.items()})
            for row in range(len(candidates))
        ]
        return jax.tree.map(
            lambda *leaves: np.resize(
                np.stack([np.asarray(leaf, np.float32) for leaf in leaves]), (self._size, *np.shape(leaves[0]))
            ),
            *records,
        )


def fields_of(space: Space, digits: np.ndarray) -> dict[str, np.ndarray]:
    """Schedule fields of rows of digits: field -> int64[n]."""
    columns: dict[str, np.ndarray] = {}
    for place, axis in enumerate(space.axes):
        columns |= dict(zip(axis.fields, axis.table()[:, digits[:, place]], strict=True))
    return columns | {name: np.full(len(digits), value) for name, value in space.fixed.items()}


def replaced(gpu: Any, numbers: Mapping[str, float]) -> Any:
    """A GPU record with some fields replaced; with more or fewer SMs, the SMs that clusters can use scale along."""
    changes: dict[str, Any] = {name: np.float32(value) for name, value in numbers.items()}
    if "sm_count" in changes and hasattr(gpu, "cluster_sms"):
        cluster = 2.0 ** np.arange(np.shape(gpu.cluster_sms)[-1])
        usable = np.asarray(gpu.cluster_sms, float) * float(changes["sm_count"]) / float(gpu.sm_count)
        changes["cluster_sms"] = (np.floor(usable / cluster) * cluster).astype(np.float32)
    return dataclasses.replace(gpu, **changes)


@lru_cache(maxsize=16)
def _compiled_batch(model: CostModel, own_gpus: bool) -> Callable[..., dict[str, Any]]:
    import jax

    def one(schedule: dict[str, Any], problem: Any, gpu: Any) -> dict[str, Any]:
        return cost_columns(model.cost(problem, model.schedule(schedule), gpu))

    return jit(jax.vmap(one, in_axes=(0, None, 0 if own_gpus else None)))
