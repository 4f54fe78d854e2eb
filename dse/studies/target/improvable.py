"""The numbers of a GPU that a designer can better, each with the way that is better and how far it can go."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...content.gpu import GpuFile, load_gpu
from ...content.gpu_fields import FIELDS
from ...content.hardware_axis import current_value, full_name
from ...content.overrides import CLOCK, TENSOR_RATE
from ...errors import UserError

# more is better: rates, capacities, shares
MORE = (
    *(TENSOR_RATE, "tensor_efficiency", "boost_hz", "cuda_flop_per_clock_sm", "smem_bytes_per_clock_sm"),
    *("tmem_bytes_per_clock_sm", "sm_port_bytes_per_clock", "l15_capacity_bytes", "l15_bytes_per_clock_group"),
    *("l2_capacity_bytes", "l2_effective_ratio", "l2_retention", "l2_bytes_per_s", "ddr_bytes_per_s"),
    *("quantise_bytes_per_s", "tdp_w"),
)
# less is better: latencies, losses, energies
LESS = (
    *("overlap_loss", "ddr_write_cost", "store_exposure", "l2_latency_s", "ddr_latency_s", "mma_latency_s"),
    *("step_overhead_s", "cta_launch_s", "launch_overhead_s", "dependent_launch_s", "fixup_latency_s"),
    *("quantise_launch_s", "static_w", "joule_per_tensor_flop", "joule_per_smem_byte", "joule_per_l2_byte"),
    "joule_per_ddr_byte",
)
# more may also be worse: they decide how work is divided (waves, CTAs on an SM) and which lines share a set
COUNTS = (
    *("sm_count", "smem_per_sm_bytes", "registers_per_sm", "warps_per_sm", "ctas_per_sm", "tmem_columns", "l2_ways"),
    "l15_ways",
)
FITTING = ("smem_per_sm_bytes", "registers_per_sm", "warps_per_sm", "ctas_per_sm", "tmem_columns")
MOST = 1e6  # larger factors than this are no design, and leave float32
HALVINGS = 30
NO_ROOM = 1e-6


@dataclass(frozen=True)
class Knob:
    """Fields that are improved together, by one factor.

    Attributes:
        fields: full names.
        factors: 1, then ascending to the limit: what a field of `MORE` or `COUNTS` is multiplied by and one of `LESS`
            divided by. Neighbours are different machines.
    """

    fields: tuple[str, ...]
    factors: tuple[float, ...]

    @property
    def name(self) -> str:
        """The fields, joined by a plus."""
        return " + ".join(self.fields)

    @property
    def counted(self) -> bool:
        """Whether more may be slower, so that the smallest change has to be looked for value by value."""
        return any(field in COUNTS for field in self.fields)

    @property
    def widens(self) -> bool:
        """Whether more schedules may fit."""
        return any(field in FITTING for field in self.fields)

    def overrides(self, place: int) -> dict[str, str]:
        """What `load_gpu` changes for `factors[place]`."""
        return _overrides(self.fields, self.factors[place])


def knobs_of(
    gpu: str | os.PathLike[str],
    overrides: Mapping[str, str | float] | None = None,
    groups: Sequence[str | Sequence[str]] | None = None,
    limit: float = 16.0,
    resolution: float = 0.005,
) -> list[Knob]:
    """What can be improved of a GPU.

    Args:
        gpu: name or path of a GPU file.
        overrides: what is changed of it before.
        groups: fields that are improved together, names as in `--set`; None: every field of `MORE`, `LESS` and
            `COUNTS` by itself, without those that the GPU does not have or that are at their limit.
        limit: the largest factor; a field that reaches a bound of its own before (a share of 1) ends there.
        resolution: relative difference of neighbouring factors, 0.005 for 0.5 %.

    Raises:
        UserError: an unknown field, one that is not to be improved, is given twice, is not there or at its limit.
    """
    if isinstance(limit, str) or not 1 < limit <= MOST:
        shown = limit if isinstance(limit, str) else f"{limit:g}"
        raise UserError(f"limit = {shown} is not allowed: a factor above 1, at most {MOST:g}, e.g. 16")
    if not 1e-4 <= resolution < 1:
        raise UserError(f"resolution = {resolution:g} is not allowed: from 0.0001 to below 1, e.g. 0.005 for 0.5 %")
    base = load_gpu(gpu, overrides)
    if groups is None:
        alone = [
            (field,) for field in (*COUNTS, *MORE, *LESS) if current_value(base, field) and field not in _set(overrides)
        ]
        found = [_knob(gpu, base, overrides or {}, fields, limit, resolution) for fields in alone]
        return [knob for knob in found if len(knob.factors) > 1]
    lists = [[names] if isinstance(names, str) else list(names) for names in groups]
    if not lists or not all(lists):
        raise UserError("no field is given to improve: name at least one in each group, e.g. [['l2_bytes_per_s']]")
    knobs = [_asked(gpu, base, overrides or {}, names, limit, resolution) for names in lists]
    repeated = next((knob for place, knob in enumerate(knobs) if knob in knobs[:place]), None)
    if repeated is not None:
        raise UserError(f"the fields {repeated.name} are given twice: give them once")
    return knobs


def _set(overrides: Mapping[str, str | float] | None) -> set[str]:
    return {full_name(str(name)) for name in overrides or {} if not str(name).startswith("tensor.")}


def _asked(
    gpu: str | os.PathLike[str],
    base: GpuFile,
    overrides: Mapping[str, str | float],
    names: Sequence[str],
    limit: float,
    resolution: float,
) -> Knob:
    fields = tuple("boost_hz" if (field := full_name(name)) == CLOCK else field for name in names)
    known = (*COUNTS, *MORE, *LESS)
    for place, field in enumerate(fields):
        if field not in known:
            raise UserError(f"GPU field {field} is not one that a target improves; those are {', '.join(known)}")
        if field in fields[:place]:
            raise UserError(f"GPU field {field} is given twice: give it once")
        if field in _set(overrides):
            raise UserError(f"GPU field {field} is both set and to be improved: do one of the two")
        if not current_value(base, field):
            raise UserError(f"GPU field {field} is 0 on {base.name}: there is nothing to improve by a factor")
    knob = _knob(gpu, base, overrides, fields, limit, resolution)
    if len(knob.factors) < 2:
        raise UserError(f"{knob.name} is at its limit on {base.name}: {_limits(base, fields)}")
    return knob


def _limits(base: GpuFile, fields: Sequence[str]) -> str:
    return "; ".join(
        f"{field} is {current_value(base, field):g}, allowed: {FIELDS[field].allowed()}"
        for field in fields
        if field in FIELDS
    )


def _knob(
    gpu: str | os.PathLike[str],
    base: GpuFile,
    overrides: Mapping[str, str | float],
    fields: tuple[str, ...],
    limit: float,
    resolution: float,
) -> Knob:
    end = _end(gpu, overrides, fields, limit)
    count = math.ceil(math.log(end) / math.log1p(resolution) - 1e-9) if end > 1 + NO_ROOM else 0
    factors, last = [1.0], _numbers(base, fields, 1.0)
    for step in range(1, count + 1):
        factor = min((1 + resolution) ** step, end)
        numbers = _numbers(base, fields, factor)
        if numbers != last:
            factors.append(factor)
            last = numbers
    return Knob(fields, tuple(factors))


def _end(
    gpu: str | os.PathLike[str], overrides: Mapping[str, str | float], fields: tuple[str, ...], limit: float
) -> float:
    """The largest factor up to `limit` that the GPU file allows."""

    def allowed(factor: float) -> bool:
        try:
            load_gpu(gpu, {**overrides, **_overrides(fields, factor)})
        except UserError:
            return False
        return True

    if allowed(limit):
        return limit
    low, high = 1.0, limit
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low


def _overrides(fields: tuple[str, ...], factor: float) -> dict[str, str]:
    return {field: f"{1 / factor if field in LESS else factor!r}x" for field in fields}


def _numbers(base: GpuFile, fields: tuple[str, ...], factor: float) -> tuple[float, ...]:
    """The values a factor makes: whole numbers rounded, as `load_gpu` does."""
    numbers = []
    for field in fields:
        value = current_value(base, field) * (1 / factor if field in LESS else factor)
        numbers.append(float(round(value)) if field in FIELDS and FIELDS[field].whole else value)
    return tuple(numbers)
