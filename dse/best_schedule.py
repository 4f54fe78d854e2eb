"""The best predicted latency of many problems over one space on one GPU."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .content.gpu import GpuFile
from .content.space import list_spaces
from .errors import UserError
from .fitting import fitting
from .kernels.gemm import GemmProblem
from .space import Space
from .tuning import tune


@dataclass(frozen=True)
class BestSchedules:
    """One entry a problem.

    Attributes:
        latency_s: predicted latency of the best schedule.
        index: its index in the space.
    """

    latency_s: np.ndarray
    index: np.ndarray


def best_schedules(problems: Sequence[GemmProblem], space: Space, gpu: GpuFile) -> BestSchedules:
    """Sweeps `space` exhaustively for every problem and keeps the fastest schedule of each.

    Args:
        problems: of the space's kernel and data type.
        space: of any size.
        gpu: bound to the space's data type and family.

    Raises:
        UserError: no schedule of the space fits at all, or none fits a problem.
    """
    bound = gpu.bind(space.dtype, family=space.family)
    found = tune(fitting(space, problems, [bound], any_order=True), [(problem, bound) for problem in problems])
    lost = [problem.shape for problem, place in zip(problems, found.index, strict=True) if place < 0]
    if lost:
        raise UserError(f"no schedule of space {space.name} fits {lost[0]} on {gpu.name}; widen the space")
    return BestSchedules(latency_s=found.latency_s, index=found.index)


def preset_of(family: str, dtype: str, preset: str) -> str:
    """The preset of a family's space that stands for `preset` with this type: "library_nvfp4" for "library" and nvfp4,
    where the space has one."""
    presets = {entry.family: entry.presets for entry in list_spaces() if entry.kernel == "gemm"}.get(family, {})
    return f"{preset}_{dtype}" if f"{preset}_{dtype}" in presets else preset
