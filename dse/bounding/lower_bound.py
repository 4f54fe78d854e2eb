"""A cost model that says what no schedule of a block is below: the kernel's own, with the launch order left open.

Why a bound of the hits is one of the time: with more hits a K-step's load time m, its pace M (the soft maximum of m and
of the arithmetic c, M >= m) and its latency L only fall. A wave of r tiles of N steps over s buffers takes
(r N - 1) M + floor((r N - 1) / (r s)) max(0, L + m + c - r s M) + (r - 1) max(0, store - M) and terms that do not fall
with m; its slope in M is at least (r N - 1) mod (r s) - (r - 1) = r ((N - 1) mod s) >= 0. `tests/test_open_order.py`
holds the bound against drawn kernels of all four kinds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import UserError
from ..job import SweepJob
from ..space import Space

SLACK = 1e-4  # of a bound: float32 rounds two compiled forms of one equation differently, by some 1e-6
BYTES_SLACK = 2e-6  # of the requested bytes: DDR bytes are a small difference of large hit shares
BOUNDED = ("latency_s", "ddr_bytes", "l2_bytes", "l15_bytes", "workspace_bytes")  # hits can only lower these
EXACT = ("smem_bytes", "registers_per_thread")  # small whole numbers, the same for every order
MONOTONE_OVERDRAW = 4.0


@dataclass(frozen=True)
class LowerBound:
    """A cost model for sweeps over blocks (`dse.job.CostModel`): its numbers are at most those of any schedule of the
    block, float32 rounding of either included.

    Attributes:
        model: the kernel; it takes None for the fields in `open_fields`.
        open_fields: schedule fields that a block leaves open.
    """

    model: Any
    open_fields: tuple[str, ...]

    @property
    def name(self) -> str:
        """The kernel's."""
        return self.model.name

    @property
    def schedule_fields(self) -> tuple[str, ...]:
        """The kernel's."""
        return self.model.schedule_fields

    @property
    def compiled_fields(self) -> tuple[str, ...]:
        """The kernel's."""
        return self.model.compiled_fields

    def schedule(self, columns: Mapping[str, Any]) -> Any:
        """The schedule record with the open fields None."""
        return self.model.schedule({**columns, **dict.fromkeys(self.open_fields)})

    def cost(self, problem: Any, schedule: Any, gpu: Any) -> Any:
        """The kernel's cost of the best order there could be, less what rounding may be."""
        return lowered(self.model.cost(problem, schedule, gpu))


def lowered(cost: Any) -> Any:
    """A cost less what another compiled form of the same equations may round differently, and more."""
    numbers = {name: getattr(cost, name) * (1.0 - SLACK) for name in BOUNDED}
    for name in ("ddr_bytes", "l2_bytes"):
        numbers[name] = numbers[name] - BYTES_SLACK * cost.l15_bytes
    return replace(cost, **numbers)


@dataclass(frozen=True)
class Blocks:
    """A space cut into blocks of consecutive schedules that differ in the open fields alone.

    Attributes:
        space: the blocks as a space of their own: block i holds the schedules from i x `length` on.
        length: schedules of a block.
    """

    space: Space
    length: int


def blocks_of(space: Space, open_fields: tuple[str, ...]) -> Blocks:
    """The largest blocks whose schedules differ in these fields alone.

    Raises:
        UserError: the space's innermost axis sets other fields too: there are no such blocks.
    """
    axes, length = list(space.axes), 1
    for place in reversed(range(len(axes))):
        axis = axes[place]
        if axis.radix > 1 and not set(axis.fields) <= set(open_fields):
            break
        length *= axis.radix
        axes[place] = replace(axis, values=axis.values[:1], labels=axis.labels[:1])
    if length == 1:
        raise UserError(
            f"--prune: the innermost axis of {space.name} with several values is not one of {', '.join(open_fields)}: "
            "neighbouring schedules have no bound in common; put that axis last, or sweep without --prune"
        )
    return Blocks(replace(space, axes=tuple(axes)), length)


def bounding_job(job: SweepJob) -> tuple[SweepJob, int]:
    """The sweep over a job's blocks with their bounds as costs, and the schedules of a block.

    Raises:
        UserError: the kernel knows no bounds, an objective has none, the space has no blocks, or the job's range cuts
            one.
    """
    model = job.model
    open_fields = getattr(model, "open_fields", ())
    if not open_fields:
        raise UserError(f"--prune: {model.name} has no lower bounds: sweep without it")
    for name in job.columns:
        if name not in (*BOUNDED, *EXACT):
            raise UserError(
                f"--prune: {name} has no lower bound; there are bounds of {', '.join((*BOUNDED, *EXACT))}: choose "
                "--objectives among them, or sweep without --prune"
            )
    blocks = blocks_of(job.space, open_fields)
    if job.start % blocks.length or (job.end % blocks.length and job.end != job.space.size):
        raise UserError(
            f"--prune: the range {job.start} to {job.end} cuts blocks of {blocks.length} schedules: widen it"
        )
    gpu = job.gpu if overdraw(job.gpu) <= MONOTONE_OVERDRAW else replace(job.gpu, power_time_s=np.float32(0.0))
    bounds = replace(
        job,
        space=blocks.space,
        kernel=LowerBound(model, open_fields),
        gpu=gpu,
        start=job.start // blocks.length,
        stop=-(-job.end // blocks.length),
        chunk_lanes=None,
    )
    return bounds, blocks.length


def overdraw(gpu: Any) -> float:
    """The dynamic power that all pipelines draw together at their peaks, over what the board's limit leaves for it.

    Up to 4 the power limit keeps the order of times: l + (sqrt(J / (R l)) - 1) C l / (l + t), what a kernel of l
    seconds at boost clock takes, C <= l of them clocked, rises with l while J / (R l) <= 4; and J / (R l) never exceeds
    this number, as no pipeline does more than its peak in l seconds. So a bound of l and J gives one of the whole.
    Beyond 4 a bound is made without the limit.
    """
    rates = (
        (gpu.tensor_flop_per_clock_sm * gpu.tensor_efficiency * gpu.clock_hz * gpu.sm_count, gpu.joule_per_tensor_flop),
        (gpu.smem_bytes_per_clock_sm * gpu.clock_hz * gpu.sm_count, gpu.joule_per_smem_byte),
        (gpu.l2_bytes_per_s, gpu.joule_per_l2_byte),
        (gpu.ddr_bytes_per_s, gpu.joule_per_ddr_byte),
    )
    room_w = float(gpu.tdp_w - gpu.static_w)
    drawn_w = sum(float(rate) * float(joules) for rate, joules in rates)
    return drawn_w / room_w if room_w > 0 else float("inf")
