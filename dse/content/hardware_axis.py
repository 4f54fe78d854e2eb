"""A number of a GPU that a study varies: the field, the values it takes, and what moves with it.

On the command line `l2_capacity=0.5x,1x,2x`, `sm_count=66,132,264`, or a range of COUNT values,
`l2_capacity=16e6:512e6:64` (each a fixed factor from the last; whole where the field is, each number once) and
`launch_overhead_s=0:4e-6:5:linear`. In a study file a table: field, and values, factors, or from, to and count.

A kernel of several GPUs has a fabric, whose numbers are varied by factors: `fabric.link=1x,2x`, `fabric.latency=0.5x`;
a whole model also an engine: `engine.step_s=0x,1x`.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import UserError
from .gpu import GpuFile
from .gpu_fields import FIELDS
from .overrides import CLOCK, ENGINE, FABRIC, TENSOR_RATE, factor_of, is_of_problem, plain_name, split_overrides
from .toml import Problems, did_you_mean, is_number

KEYS = ("field", "name", "values", "factors", "from", "to", "count", "scale", "follow")
SCALES = ("log", "linear")
MOST_VALUES = 10_000


@dataclasses.dataclass(frozen=True)
class HardwareAxis:
    """What is varied.

    Attributes:
        field: full name, as `dse gpus NAME` lists it, or clock_hz, or tensor_flop_per_clock_sm, or fabric.NAME.
        entries: as written: numbers in the field's unit, or factors of what the GPU has ("2x", "+10%").
        name: what tables and figures call it; "": the field.
        follow: field -> exponent: that field is multiplied by the factor of the axis to this power, e.g.
            {"tdp_w": 1} for a power limit that grows with the SMs.
    """

    field: str
    entries: tuple[float | str, ...]
    name: str = ""
    follow: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def title(self) -> str:
        """`name`, or the field."""
        return self.name or self.field

    @property
    def unit(self) -> str:
        """The field's unit in words."""
        if self.field == CLOCK:
            return "hertz"
        return FIELDS[self.field].unit if self.field in FIELDS else "times today's"

    def factors(self, gpu: GpuFile) -> tuple[float, ...]:
        """What each entry multiplies the GPU's number by; NaN for a number that is 0 on this GPU."""
        now = current_value(gpu, self.field)
        return tuple(_factor(entry, now) for entry in self.entries)

    def overrides(self, entry: float | str, gpu: GpuFile) -> dict[str, float | str]:
        """What `load_gpu` (of a fabric's number the problem) changes for one entry, with what follows.

        Raises:
            UserError: a field that follows the factor of a number which is 0.
        """
        changes: dict[str, float | str] = {self.field: entry}
        if self.follow:
            factor = _factor(entry, current_value(gpu, self.field))
            if not factor > 0:
                raise UserError(f"axis {self.title}: {', '.join(self.follow)} cannot follow the factor {factor:g}")
            changes |= {name: f"{self._power(factor, name)!r}x" for name in self.follow}
        return changes

    def _power(self, factor: float, name: str) -> float:
        power = self.follow[name]
        try:
            return factor**power
        except OverflowError:
            raise UserError(
                f"axis {self.title}: {name} cannot follow, {factor:g} to the power {power:g} is too large"
            ) from None


def current_value(gpu: GpuFile, name: str) -> float:
    """A GPU's number by the name of an axis; 1 for the tensor rates and a fabric's numbers, which are varied by
    factors."""
    if name == TENSOR_RATE or is_of_problem(name):
        return 1.0
    return gpu["boost_hz" if name == CLOCK else name]


def parse_vary(text: str) -> HardwareAxis:
    """An axis as it stands on the command line.

    Raises:
        UserError: an unknown field, no values, a range that is none, more than 10,000 values.
    """
    written, equals, wanted = text.partition("=")
    if not equals or not written.strip() or not wanted.strip():
        raise UserError(f"cannot read {text!r}: write FIELD=VALUE,VALUE or FIELD=FROM:TO:COUNT, e.g. l2_capacity=1x,2x")
    name = full_name(written.strip())
    parts = [part.strip() for part in wanted.split(":")]
    if len(parts) == 1:
        return _checked(HardwareAxis(name, tuple(_entry(name, part) for part in wanted.split(","))))
    if len(parts) == 2 or len(parts) > 4:
        raise UserError(f"{text}: a range is FROM:TO:COUNT, or FROM:TO:COUNT:linear, e.g. l2_capacity=16e6:512e6:64")
    low, high = (_entry(name, part) for part in parts[:2])
    return _checked(HardwareAxis(name, _range(name, low, high, parts[2], parts[3] if len(parts) == 4 else "log")))


def read_hardware_axis(table: Mapping[str, Any]) -> HardwareAxis:
    """An axis from a study file's [[axis]].

    Raises:
        UserError: an unknown key or field, or what `parse_vary` raises.
    """
    for key in table:
        if key not in KEYS:
            raise UserError(f"{key!r} is not a key of an axis{did_you_mean(key, KEYS)}; known: {', '.join(KEYS)}")
    if not isinstance(table.get("field"), str):
        raise UserError('an axis needs the field it varies: field = "l2_capacity_bytes"')
    name = full_name(table["field"])
    ways = [way for way in ("values", "factors", "from") if way in table]
    if len(ways) != 1:
        raise UserError(f"axis {name}: give one of values, factors, or from, to and count")
    if ways[0] == "from":
        missing = [key for key in ("to", "count") if key not in table]
        if missing:
            raise UserError(f"axis {name}: {' and '.join(missing)} missing beside from")
        low, high = (_entry(name, table[key]) for key in ("from", "to"))
        entries = _range(name, low, high, table["count"], str(table.get("scale", "log")))
    else:
        listed = table[ways[0]]
        if not isinstance(listed, list):
            raise UserError(f"axis {name}: {ways[0]} = {listed!r} is not a list")
        factors = ways[0] == "factors"
        entries = tuple(_entry(name, f"{entry!r}x" if factors and is_number(entry) else entry) for entry in listed)
    follow = table.get("follow", {})
    if not isinstance(follow, dict) or not all(is_number(power) and math.isfinite(power) for power in follow.values()):
        raise UserError(f"axis {name}: follow = {follow!r} is not a table of exponents, e.g. {{ tdp_w = 1 }}")
    powers = {full_name(other): float(power) for other, power in follow.items()}
    return _checked(HardwareAxis(name, entries, str(table.get("name", "")), powers))


def read_hardware_axes(content: Mapping[str, Any], problems: Problems) -> tuple[HardwareAxis, ...]:
    """Every [[axis]] of a study file; what is wrong with one goes to `problems`."""
    tables = content.get("axis", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        problems.add("axis", "is not a list of tables: write [[axis]]")
        return ()
    axes = []
    for place, table in enumerate(tables):
        try:
            axes.append(read_hardware_axis(table))
        except UserError as error:
            problems.add(f"axis {place + 1}", str(error))
    return tuple(axes)


def full_name(written: str) -> str:
    """A field's name from its beginning, as in `--set`.

    Raises:
        UserError: unknown, of several meanings, or a list.
    """
    if written.startswith((FABRIC, ENGINE)):
        return written
    known = (*FIELDS, TENSOR_RATE, CLOCK)
    plain = plain_name(written)
    meant = [plain] if plain in known else [name for name in known if name.startswith(f"{plain}_")]
    if len(meant) > 1:
        raise UserError(f"GPU field {written!r} may mean {', '.join(meant)}; write one of them")
    if not meant:
        raise UserError(f"unknown GPU field {written!r}{did_you_mean(plain, known)}; known: {', '.join(known)}")
    if meant[0] in FIELDS and FIELDS[meant[0]].listed:
        raise UserError(f"GPU field {meant[0]} is a list and cannot be varied; vary sm_count, which brings it along")
    return meant[0]


def _entry(name: str, value: Any) -> float | str:
    if is_number(value):
        number = float(value)
    else:
        text = str(value).strip()
        if factor_of(text) is not None:
            return text
        try:
            number = float(text)
        except ValueError:
            number = math.nan
    if not math.isfinite(number):
        raise UserError(f"GPU field {name}: {value!r} is no value: write a number in its unit, a factor (2x) or +10%")
    return number


def _range(name: str, low: float | str, high: float | str, count: Any, scale: str) -> tuple[float | str, ...]:
    if isinstance(low, str) != isinstance(high, str):
        raise UserError(f"axis {name}: from {low} to {high} mixes a factor with a number: write two of one kind")
    digits = str(count).strip()
    if not digits.isdecimal() or len(digits) > 9 or not 2 <= int(digits) <= MOST_VALUES:
        raise UserError(f"axis {name}: count = {count} is not a whole number from 2 to {MOST_VALUES:,}")
    if scale not in SCALES:
        raise UserError(f"axis {name}: scale {scale!r} is unknown; known: {', '.join(SCALES)}")
    ends = [factor_of(end) if isinstance(end, str) else end for end in (low, high)]
    first, last = float(ends[0] or 0.0), float(ends[1] or 0.0)
    if first >= last or (scale == "log" and first <= 0):
        more = "" if first >= last else ", which a log scale cannot begin with: add :linear"
        raise UserError(f"axis {name}: a range runs upwards, not from {low} to {high}{more}")
    steps = [step / (int(count) - 1) for step in range(int(count))]
    values = [first * (last / first) ** at if scale == "log" else first + (last - first) * at for at in steps]
    values = [float(f"{value:.6g}") for value in values]
    if isinstance(low, str):
        return tuple(f"{value!r}x" for value in dict.fromkeys(values))
    whole = name in FIELDS and FIELDS[name].whole
    return tuple(dict.fromkeys(float(round(value)) if whole else value for value in values))


def _checked(axis: HardwareAxis) -> HardwareAxis:
    if not axis.entries:
        raise UserError(f"axis {axis.title}: no values: list at least one")
    if axis.field == TENSOR_RATE and not all(isinstance(entry, str) for entry in axis.entries):
        raise UserError(f"axis {TENSOR_RATE}: tensor rates are varied together by factors: write 0.5x,2x")
    if is_of_problem(axis.field) and not all(isinstance(entry, str) for entry in axis.entries):
        whose = "an engine" if axis.field.startswith(ENGINE) else "a fabric"
        raise UserError(f"axis {axis.title}: numbers of {whose} are varied by factors: write {axis.field}=0.5x,2x")
    if split_overrides(axis.follow)[0]:
        raise UserError(
            f"axis {axis.title}: a fabric's numbers do not follow a GPU's: vary them on an axis of their own"
        )
    whole = axis.field in FIELDS and FIELDS[axis.field].whole
    broken = [entry for entry in axis.entries if whole and not isinstance(entry, str) and entry != round(entry)]
    if broken:
        raise UserError(f"axis {axis.title}: {broken[0]:g} is not a whole number ({FIELDS[axis.field].unit})")
    if axis.field in axis.follow:
        raise UserError(f"axis {axis.title}: {axis.field} is what is varied, it cannot follow itself: leave it out")
    repeated: Sequence[Any] = [entry for at, entry in enumerate(axis.entries) if entry in axis.entries[:at]]
    if repeated:
        raise UserError(f"axis {axis.title}: the value {repeated[0]} is there twice: keep one")
    return axis


def _factor(entry: float | str, now: float) -> float:
    if isinstance(entry, str):
        return float(factor_of(entry) or 0.0)
    return entry / now if now else math.nan
