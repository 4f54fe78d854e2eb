"""The fastest schedule of a preset with some fields as published, for one published figure."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ..compiled import jit
from ..content.gpu import load_gpu
from ..content.space import load_space
from ..errors import UserError
from ..job import as_float32
from ..kernels.registry import get_kernel
from ..schedule_words import words_of
from .fused_communication import Figure, Prediction


def best_of_preset(
    row: Figure,
    problem: Any,
    family: str,
    preset: str,
    fields: Mapping[str, float],
    overrides: Mapping[str, str | float] | None = None,
    dtype: str = "",
) -> Prediction:
    """Evaluates every schedule of the preset, each with `fields` in place of its own, and takes the fastest.

    Args:
        row: gives the time and the GPU.
        problem: of a kernel of several GPUs, not yet placed on the GPU.
        family, preset: of the kernel's spaces.
        fields: schedule fields as they are published; the space need not hold them.
        overrides: what-ifs beside the row's own.
        dtype: of the problem, where the table calls it otherwise.

    Raises:
        UserError: no schedule fits.
    """
    gpu = load_gpu(row.gpu)
    placed = problem.on(gpu, {**row.fabric_overrides, **(overrides or {})})
    dtype = dtype or row.dtype
    space = load_space(problem.kernel, family, dtype, preset)
    columns = space.rows(np.arange(space.size))
    columns |= {name: np.full(space.size, value) for name, value in fields.items()}
    columns = {name: np.asarray(column, np.float32) for name, column in columns.items()}
    bound = gpu.bind(dtype, family=None if family == "simt" else family)
    latency_s, reason = _evaluator(problem.kernel)(as_float32(placed.arrays()), columns, as_float32(bound))
    latency_s = np.where(np.asarray(reason) == 0, np.asarray(latency_s, float), np.inf)
    best = int(np.argmin(latency_s))
    if not np.isfinite(latency_s[best]):
        raise UserError(f"no schedule of {space.name}, preset {preset}, fits {placed.title} on {row.gpu}")
    schedule = {name: float(column[best]) for name, column in columns.items()}
    return Prediction(row.value, float(latency_s[best]), _how(problem.kernel, schedule))


@lru_cache(maxsize=16)
def _evaluator(kernel: str) -> Any:
    entry = get_kernel(kernel)

    def evaluate(problem: Any, columns: Mapping[str, Any], gpu: Any) -> tuple[Any, Any]:
        cost = entry.cost(problem, entry.schedule(columns), gpu)
        return cost.latency_s, cost.reason

    return jit(evaluate)


def _how(kernel: str, schedule: Mapping[str, float]) -> str:
    return words_of(kernel).short({name: int(value) for name, value in schedule.items()})
