"""The machines of a study: a GPU, and what it becomes along hardware axes; or several GPUs side by side."""

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...content.gpu import GpuFile, load_gpu
from ...content.gpu_fields import FIELDS
from ...content.hardware_axis import HardwareAxis, current_value, full_name
from ...content.overrides import CLOCK, is_of_problem, split_overrides
from ...errors import UserError, unknown
from ...text import quantity_text

COMBINE = ("each", "grid")
MOST_MACHINES = 100_000


@dataclass(frozen=True)
class Machine:
    """One machine.

    Attributes:
        label: for tables and figures, e.g. "l2_capacity_bytes 100 MB"; "now" for the baseline.
        gpu: with what was changed.
        axis: title of the axis that was moved; "" for the baseline, for a grid and for GPUs side by side.
        values: field -> the number that the GPU has now, of every axis that was moved.
        factors: field -> what it was multiplied by.
        of_problem: what is changed of the problem on it: numbers of an implementation, of a fabric.
    """

    label: str
    gpu: GpuFile
    axis: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    factors: Mapping[str, float] = field(default_factory=dict)
    of_problem: Mapping[str, str | float] = field(default_factory=dict)

    @property
    def is_baseline(self) -> bool:
        """Whether it is what the others are compared with."""
        return self.label == "now"


def varied_machines(
    gpu: str | os.PathLike[str],
    axes: Sequence[HardwareAxis],
    overrides: Mapping[str, str | float] | None = None,
    combine: str = "each",
) -> list[Machine]:
    """The baseline, then what it becomes.

    Args:
        gpu: name or path of a GPU file.
        axes: what is varied; entries that are one number once rounded to a whole one (2x, 264) make one machine.
        overrides: what the baseline itself changes of the file; factors of axes refer to the file as changed.
        combine: "each": one axis after the other, the others at the baseline; "grid": every combination.

    Raises:
        UserError: an unknown GPU or `combine`, two axes of one field, a field that is both set and varied, a value that
            the field does not allow, or more than 100,000 machines.
    """
    if combine not in COMBINE:
        raise unknown("combine", combine, COMBINE)
    own, of_gpu = split_overrides(overrides)
    base = load_gpu(gpu, of_gpu)
    _check_fields(axes, overrides or {}, combine)
    count = sum(len(axis.entries) for axis in axes) if combine == "each" else math.prod(len(a.entries) for a in axes)
    if count > MOST_MACHINES:
        raise UserError(f"{count:,} machines are too many: at most {MOST_MACHINES:,}; fewer values, or combine = each")
    machines = [Machine("now", base, of_problem=own)]
    groups = [(axis,) for axis in axes] if combine == "each" else [tuple(axes)] if axes else []
    for group in groups:
        for entries in itertools.product(*(_distinct(axis, base) for axis in group)):
            machines.append(_varied(gpu, base, overrides or {}, group, entries, combine))
    return machines


def listed_machines(gpus: Sequence[str | os.PathLike[str]], overrides: Mapping[str, str | float]) -> list[Machine]:
    """GPUs side by side, the first one the baseline.

    Raises:
        UserError: fewer than two, or an unknown one.
    """
    if len(gpus) < 2:
        raise UserError("GPUs side by side are at least two: gpus = ['h100_sxm', 'h200_sxm']")
    check_names(gpus)
    own, of_gpu = split_overrides(overrides)
    loaded = [load_gpu(name, of_gpu) for name in gpus]
    return [Machine("now" if not place else gpu.name, gpu, of_problem=own) for place, gpu in enumerate(loaded)]


def check_names(gpus: Sequence[str | os.PathLike[str]]) -> None:
    """Raises UserError where two GPU files have one name, which tables and folders could not tell apart."""
    names = [Path(gpu).stem for gpu in gpus]
    repeated = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if repeated is not None:
        raise UserError(f"gpus: {repeated!r} is there twice: leave one out, or give one of the files another name")


def _check_fields(axes: Sequence[HardwareAxis], overrides: Mapping[str, str | float], combine: str) -> None:
    fields = ["boost_hz" if axis.field == CLOCK else axis.field for axis in axes]
    titles = [axis.title for axis in axes]
    written = {_field(str(name)) for name in overrides}
    for place, axis in enumerate(axes):
        if combine == "grid" and fields[place] in fields[:place]:
            raise UserError(f"two axes vary {axis.field}: a grid varies a field once")
        if axis.title in titles[:place]:
            raise UserError(f"two axes are called {axis.title!r}: give one of them a name")
        if fields[place] in written:
            raise UserError(f"GPU field {axis.field} is both set and varied: do one of the two")


def _field(written: str) -> str:
    """The field that an override moves; tensor rates by their own name, `load_gpu` has said what is unknown."""
    named = written.startswith("tensor.") or is_of_problem(written)
    name = written if named else full_name(written.strip())
    return "boost_hz" if name == CLOCK else name


def _distinct(axis: HardwareAxis, base: GpuFile) -> list[float | str]:
    """The entries, without those that are the number of an earlier one; what follows is moved by each factor."""
    if axis.field not in FIELDS or not FIELDS[axis.field].whole or axis.follow:
        return list(axis.entries)
    now = current_value(base, axis.field)
    first: dict[int, float | str] = {}
    for entry, factor in zip(axis.entries, axis.factors(base), strict=True):
        first.setdefault(round(now * factor if isinstance(entry, str) else entry), entry)
    return list(first.values())


def _varied(
    gpu: str | os.PathLike[str],
    base: GpuFile,
    overrides: Mapping[str, str | float],
    axes: tuple[HardwareAxis, ...],
    entries: tuple[float | str, ...],
    combine: str,
) -> Machine:
    changes: dict[str, str | float] = {}
    for axis, entry in zip(axes, entries, strict=True):
        own = axis.overrides(entry, base)
        repeated = next((name for name in own if name in changes or name in overrides), None)
        if repeated:
            raise UserError(f"axis {axis.title}: {repeated} is changed twice, by it and by another axis or by set")
        changes |= own
    own, of_gpu = split_overrides({**overrides, **changes})
    try:
        changed = load_gpu(gpu, of_gpu)
    except UserError as error:
        moved = ", ".join(f"{axis.title} = {entry}" for axis, entry in zip(axes, entries, strict=True))
        raise UserError(f"{moved}: {error}") from None
    values = {axis.field: _value(changed, base, axis, entry) for axis, entry in zip(axes, entries, strict=True)}
    now = {axis.field: current_value(base, axis.field) for axis in axes}
    factors = {name: value / now[name] if now[name] else math.nan for name, value in values.items()}
    label = ", ".join(f"{axis.title} {quantity_text(values[axis.field], axis.unit)}" for axis in axes)
    return Machine(label, changed, axes[0].title if combine == "each" else "", values, factors, own)


def _value(changed: GpuFile, base: GpuFile, axis: HardwareAxis, entry: float | str) -> float:
    if axis.field in changed.values or axis.field == "clock_hz":
        return current_value(changed, axis.field)
    return axis.factors(base)[axis.entries.index(entry)]
