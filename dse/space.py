"""A schedule space: an ordered list of axes whose combinations are numbered by one mixed-radix index."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .axis import Axis
from .errors import UserError, unknown
from .restrict import Restrictions, code_value, restrict_axes

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, repr=False)
class Space:
    """All combinations of the axes' entries, each met exactly once.

    A schedule's index is the mixed-radix number of its digits, the outermost axis first and the last axis fastest. The
    size has no limit: indices are Python integers, and under `jit` a chunk starts at digits, not at an index.

    Attributes:
        name: what messages and result files call the space, e.g. "gemm/wgmma".
        kernel: which cost model the schedules are for, e.g. "gemm".
        family: instruction family, e.g. "wgmma".
        dtype: element type for which depths given in bytes were converted to elements.
        axes: outermost first.
        fixed: schedule fields that have one value in the whole space.
        codes: field -> the names of its values 0, 1, ... (for labels, restrictions and messages).
        presets: name -> restriction, ready-made sub-spaces.

    Raises:
        UserError: where two axes have one name or set the same field.
    """

    name: str
    kernel: str
    family: str
    dtype: str
    axes: tuple[Axis, ...]
    fixed: Mapping[str, int] = field(default_factory=dict)
    codes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    presets: Mapping[str, Restrictions] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [axis.name for axis in self.axes]
        fields = [name for axis in self.axes for name in axis.fields] + list(self.fixed)
        for kind, entries in (("axis", names), ("schedule field", fields)):
            for entry in entries:
                if entries.count(entry) > 1:
                    raise UserError(f"the space {self.name} sets the {kind} {entry!r} twice: set it once")

    def __repr__(self) -> str:
        return f"<Space {self.name} {self.dtype}: {' x '.join(map(str, self.radices))} = {self.size:,} schedules>"

    def __hash__(self) -> int:
        return hash(self.hash)  # mappings have no hash of their own; a space may be a static argument of `jit`

    @cached_property
    def radices(self) -> tuple[int, ...]:
        """Entries of each axis."""
        return tuple(axis.radix for axis in self.axes)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """How far the index moves when an axis's digit moves by one; a block of constant outer digits is this long."""
        return tuple(math.prod(self.radices[place + 1 :]) for place in range(len(self.axes)))

    @cached_property
    def size(self) -> int:
        """Number of schedules."""
        return math.prod(self.radices)

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """Every schedule field that the space sets, in axis order, the fixed ones last."""
        return (*(name for axis in self.axes for name in axis.fields), *self.fixed)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of what decides which schedule an index means: kernel, family, fields and values in order.

        Names of axes, labels and presets are left out: wording may change without making old result files unreadable.
        """
        content = {
            "kernel": self.kernel,
            "family": self.family,
            "axes": [[list(axis.fields), [list(entry) for entry in axis.values]] for axis in self.axes],
            "fixed": sorted(self.fixed.items()),
        }
        return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()

    def axis(self, name: str) -> Axis:
        """The axis of this name, or the axis that sets the schedule field of this name."""
        for axis in self.axes:
            if axis.name == name or name in axis.fields:
                return axis
        raise unknown("axis", name, {axis.name for axis in self.axes} | set(self.fields), f"of the space {self.name}")

    def restrict(self, restrictions: Restrictions) -> "Space":
        """The sub-space in which every axis or field named keeps only what is listed for it.

        Keys are axes or schedule fields inside axes; what is listed are numbers, labels, names of codes or `Between`,
        one or a sequence: `space.restrict({"tile_m": [64, 128], "raster": "along_m:4", "split_k": [1, 2]})`.

        Raises:
            UserError: an unknown name, a value that is not there, or nothing left of an axis.
        """
        return replace(self, axes=restrict_axes(self.axes, restrictions, self.fixed, self.codes, self.name))

    def split(self, names: Sequence[str]) -> "tuple[tuple[int, Space], ...]":
        """The space as consecutive parts in each of which these fields have one value, as far as its outermost axis
        decides them.

        Returns:
            (index at which the part starts, the part as a space of its own) in order; one part where the outermost
            axis sets none of the fields.
        """
        place = next((at for at, radix in enumerate(self.radices) if radix > 1), 0)
        axis = self.axes[place]
        columns = [axis.column(name) for name in names if name in axis.fields]
        kinds = list(zip(*columns, strict=True)) if columns else [()] * axis.radix
        parts, first = [], 0
        for digit in range(1, axis.radix + 1):
            if digit == axis.radix or kinds[digit] != kinds[first]:
                kept = replace(axis, values=axis.values[first:digit], labels=axis.labels[first:digit])
                axes = (*self.axes[:place], kept, *self.axes[place + 1 :])
                parts.append((first * self.strides[place], replace(self, axes=axes)))
                first = digit
        return tuple(parts)

    def digits(self, index: int) -> tuple[int, ...]:
        """An index's digits, an axis each.

        Raises:
            UserError: an index below 0 or past the end.
        """
        index = self._checked(index)
        return tuple(index // stride % radix for stride, radix in zip(self.strides, self.radices, strict=True))

    def index_of(self, digits: Sequence[int]) -> int:
        """The index of digits, an axis each; the inverse of `digits`."""
        if len(digits) != len(self.axes):
            raise UserError(f"the space {self.name} has {len(self.axes)} axes, but {len(digits)} digits were given")
        for axis, digit in zip(self.axes, digits, strict=True):
            if not 0 <= digit < axis.radix:
                raise UserError(f"digit {digit} of axis {axis.name!r} is not allowed: 0 to {axis.radix - 1}")
        return sum(int(digit) * stride for digit, stride in zip(digits, self.strides, strict=True))

    def schedule(self, index: int) -> dict[str, int]:
        """The schedule of an index: field -> number."""
        chosen = {
            name: value
            for axis, digit in zip(self.axes, self.digits(index), strict=True)
            for name, value in zip(axis.fields, axis.values[digit], strict=True)
        }
        return chosen | dict(self.fixed)

    def labels(self, index: int) -> dict[str, str]:
        """The schedule of an index in words: axis -> label."""
        return {axis.name: axis.labels[digit] for axis, digit in zip(self.axes, self.digits(index), strict=True)}

    def index_of_schedule(self, schedule: Mapping[str, Any]) -> int:
        """The index of a schedule given as field -> number (or the name of a code); the inverse of `schedule`.

        A field may be left out where the space has only one value for it.

        Raises:
            UserError: an unknown field, a missing one, or a combination that the space does not hold.
        """
        for name in schedule:
            if name not in self.fields:
                raise unknown("schedule field", name, self.fields, f"of the space {self.name}")
        wanted = {name: code_value(name, value, self.codes) for name, value in schedule.items()}
        for name, value in self.fixed.items():
            if wanted.get(name, value) != value:
                raise UserError(f"{name} = {schedule[name]} is not in the space {self.name}; allowed: {value}")
        return self.index_of([self._digit_of(axis, wanted) for axis in self.axes])

    def rows(self, indices: Sequence[int] | np.ndarray) -> dict[str, np.ndarray]:
        """The schedules of many indices on the host: field -> int64[len(indices)].

        Raises:
            UserError: an index below 0 or past the end.
        """
        at = np.asarray(indices, dtype=object if self.size >= 2**63 else None).reshape(-1)
        if len(at):
            self._checked(int(at.min()))
            self._checked(int(at.max()))
        at = at.astype(np.int64 if self.size < 2**63 else object)
        columns = {}
        for axis, stride in zip(self.axes, self.strides, strict=True):
            digit = (at // stride % axis.radix).astype(np.int64)
            columns |= dict(zip(axis.fields, axis.table()[:, digit], strict=True))
        return columns | {name: np.full(len(at), value, dtype=np.int64) for name, value in self.fixed.items()}

    def start_digits(self, start: int) -> np.ndarray:
        """The digits at which a chunk starts, int32[axes]: the argument of `dse.decode.decode`."""
        return np.array(self.digits(start), dtype=np.int32)

    def _checked(self, index: int) -> int:
        if not 0 <= index < self.size:
            raise UserError(f"index {index} is not in the space {self.name}: 0 to {self.size - 1}")
        return int(index)

    def _digit_of(self, axis: Axis, wanted: Mapping[str, Any]) -> int:
        given = [name for name in axis.fields if name in wanted]
        columns = [axis.column(name) for name in given]
        agree = [
            digit
            for digit in range(axis.radix)
            if all(column[digit] == wanted[name] for name, column in zip(given, columns, strict=True))
        ]
        text = ", ".join(f"{name} = {wanted[name]}" for name in given)
        if not agree:
            raise UserError(f"{text} is not in the space {self.name}; axis {axis.name!r} has: {', '.join(axis.labels)}")
        if len(agree) > 1:
            missing = [name for name in axis.fields if name not in wanted]
            raise UserError(f"the schedule leaves out {', '.join(missing)}, which the space {self.name} varies: add it")
        return agree[0]
