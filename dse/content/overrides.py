"""What-if changes of a GPU's numbers: `--set l2_capacity=2x --set sm_count=1.5x --set ddr_bytes_per_s=6e12`.

A name is a field's full name or a beginning that means one field only (`l2_capacity`, `tdp`). A value is a number in
the field's unit, a factor (`2x`) or a change in per cent (`+10%`). Numbers that belong together move together: see
`FOLLOWERS`.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from .datum import Datum
from .gpu_fields import FIELDS, TENSOR, Field
from .gpu_parse import GpuTables, gpc_layout, inconsistencies, moves_peaks
from .toml import Problems, did_you_mean

TENSOR_RATE = "tensor_flop_per_clock_sm"
CLOCK = "clock_hz"
# before the name of a number that is the problem's, or an engine's of a whole model, no GPU's
IMPLEMENTATION, FABRIC, ENGINE = "implementation.", "fabric.", "engine."
_NAMES = (*FIELDS, TENSOR_RATE, CLOCK)
_FACTOR = re.compile(r"^\s*(?:([0-9_.]+(?:[eE][+-]?[0-9]+)?)\s*[xX×]|([+-][0-9_.]+)\s*%)\s*$")
_UNITS = (
    *("b", "bytes", "kb", "kib", "mb", "mib", "gb", "gib", "tb", "tib", "hz", "khz", "mhz", "ghz", "s", "ms", "us"),
    *("ns", "w", "kw", "gbs", "gbps", "tbs", "tbps", "mbps", "pj", "nj", "percent", "pct"),
)


@dataclass(frozen=True)
class Change:
    """A new value: `factor` times the old one, or `value` itself."""

    text: str
    factor: float | None
    value: float | None

    def of(self, old: float) -> float:
        """The new value."""
        return old * self.factor if self.factor is not None else float(self.value or 0.0)


def is_of_problem(name: object) -> bool:
    """Whether an override changes a number that is not the GPU's: an implementation's, a fabric's, an engine's."""
    return str(name).startswith((IMPLEMENTATION, FABRIC, ENGINE))


def split_overrides(overrides: Mapping[str, str | float] | None) -> tuple[dict, dict]:
    """(those of the problem, those of the GPU)."""
    given = overrides or {}
    own = {name: value for name, value in given.items() if is_of_problem(name)}
    return own, {name: value for name, value in given.items() if name not in own}


def apply_overrides(tables: GpuTables, overrides: Mapping[str, str | float], name: str) -> tuple[str, ...]:
    """Changes `tables` in place.

    Args:
        tables: a whole GPU.
        overrides: name -> "2x", "+10%", "6e12" or a number.
        name: of the GPU, for messages.

    Returns:
        One line a changed number, e.g. "sm_count: 132 -> 145 (1.1x, rounded to whole SMs)".

    Raises:
        UserError: all that is wrong with the overrides, in one message.
    """
    problems = Problems(f"--set on {name}")
    wanted: dict[str, Change] = {}
    for written, value in overrides.items():
        target = _target(str(written), tables, problems)
        change = _change(str(written), value, problems)
        if target in wanted:
            problems.add(str(written), f"{target} is set twice")
        elif target is not None and change is not None:
            wanted[target] = change
    said: list[str] = []
    for target, change in wanted.items():
        _apply(target, change, tables, frozenset(wanted), said, problems)
    if not problems.lines:
        for line in inconsistencies(tables.values):
            problems.add(*line)
    problems.raise_if_any()
    if moves_peaks(wanted):
        tables.peaks = {}
    return tuple(said)


def _target(written: str, tables: GpuTables, problems: Problems) -> str | None:
    if written.startswith("tensor."):
        family, _, pair = written.removeprefix("tensor.").partition(".")
        if pair in tables.tensor.get(family, {}):
            return written
        known = [f"tensor.{f}.{p}" for f, rates in tables.tensor.items() for p in rates]
        problems.add(written, f"no such tensor rate; this GPU has {', '.join(known)}{did_you_mean(written, known)}")
        return None
    plain = plain_name(written)
    if plain in _NAMES:
        return plain
    meant = [name for name in _NAMES if name.startswith(f"{plain}_")]
    if len(meant) == 1:
        return meant[0]
    if meant:
        problems.add(written, f"may mean {', '.join(meant)}; write one of them")
        return None
    stem, _, last = plain.rpartition("_")
    by_stem = [name for name in _NAMES if stem and (name == stem or name.startswith(f"{stem}_"))]
    if last in _UNITS and len(by_stem) == 1:
        field = _field(by_stem[0])
        problems.add(written, f"wrong unit: the field is {by_stem[0]}, in {field.unit}; or write a factor, {stem}=2x")
    else:
        problems.add(written, f"unknown field{did_you_mean(plain, _NAMES)}; known: {', '.join(_NAMES)}")
    return None


def plain_name(written: str) -> str:
    """A field's name, or its beginning, from what people write: `ddr-bandwidth`, `hbm_bandwidth` -> `ddr_bytes_per`."""
    plain = written.strip().lower().replace("-", "_").replace("bandwidth", "bytes_per")
    return f"ddr{plain.removeprefix('hbm')}" if plain.startswith("hbm") else plain


def _field(name: str) -> Field:
    if name in FIELDS:
        return FIELDS[name]
    return FIELDS["boost_hz"] if name == CLOCK else TENSOR


def _change(written: str, value: str | float, problems: Problems) -> Change | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Change(f"{value:g}", None, float(value))
    text = str(value).strip()
    try:
        return Change(text, None, float(text))
    except ValueError:
        pass
    factor = factor_of(text)
    if factor is None:
        problems.add(written, f"{text!r} is not a value: write a number in the field's unit, a factor (2x) or +10%")
        return None
    return Change(text, factor, None)


def factor_of(text: str) -> float | None:
    """The factor that "2x" or "+10%" means; None where the text is neither."""
    match = _FACTOR.match(text)
    try:
        factor = float(match[1]) if match and match[1] else 1.0 + float(match[2]) / 100 if match else math.nan
    except ValueError:
        return None
    return None if math.isnan(factor) else factor


def _apply(
    target: str, change: Change, tables: GpuTables, wanted: frozenset[str], said: list[str], problems: Problems
) -> None:
    if target == TENSOR_RATE or target.startswith("tensor."):
        _apply_tensor(target, change, tables, said, problems)
        return
    if target == CLOCK:
        if {"boost_hz", "sustained_hz"} & wanted:
            problems.add(CLOCK, "scales boost_hz and sustained_hz; do not set these as well")
            return
        target = "boost_hz"
    field, old = FIELDS[target], tables.values[target]
    if field.listed:
        problems.add(target, f"is a list: write your own file with base = and [{field.table}] {target}")
        return
    if not old.number and change.factor is not None:
        problems.add(target, f"is 0 on this GPU, so {change.text} changes nothing; give {field.allowed()}")
        return
    new = _checked(target, field, change, old.number, problems)
    if new is None:
        return
    rounded = field.whole and change.of(old.number) != new
    _put(tables, target, new, f"--set {target}={change.text}, was {old.number:g}")
    how = f"{change.text}, rounded to a whole number" if rounded else change.text
    said.append(f"{target}: {_shown(old.number)} -> {_shown(new)} ({how})")
    for dtype, own in tables.by_dtype.items():
        if target in own:
            moved = _checked(target, field, change, own[target].number, problems)
            if moved is not None:
                said.append(f"{target} ({dtype}): {own[target].number:g} -> {moved:g} ({change.text})")
                own[target] = Datum(moved, field.unit, "assumed", f"--set {target}={change.text}")
    follow = FOLLOWERS.get(target)
    if follow is not None and old.number:
        for name, value in follow(tables.values, old.number, float(new)).items():
            if name not in wanted:
                _put(tables, name, value, f"follows {target}={change.text}")
                said.append(f"{name}: {_shown(value)} (follows {target})")


def _apply_tensor(target: str, change: Change, tables: GpuTables, said: list[str], problems: Problems) -> None:
    if target == TENSOR_RATE and change.factor is None:
        one = next(f"tensor.{family}.{pair}" for family, rates in tables.tensor.items() for pair in rates)
        problems.add(target, f"give a factor for all tensor rates ({target}=2x), or name one ({one}={change.text})")
        return
    for family, rates in tables.tensor.items():
        for pair, old in rates.items():
            name = f"tensor.{family}.{pair}"
            if target in (TENSOR_RATE, name):
                new = _checked(name, TENSOR, change, old.number, problems)
                if new is None:
                    return
                source = f"--set {target}={change.text}, was {old.number:g}"
                rates[pair] = replace(old, value=new, kind="assumed", source=source)
                said.append(f"{name}: {old.number:g} -> {new:g} ({change.text})")


def _checked(name: str, field: Field, change: Change, old: float, problems: Problems) -> float | None:
    new = change.of(old)
    if field.whole and change.factor is not None and math.isfinite(new):
        new = float(round(new))
    if not field.accepts(new):
        shown = f"{change.text}" if change.factor is None else f"{change.text} (from {old:g} to {new:g})"
        problems.add(name, f"{shown} is out of range; allowed: {field.allowed()}")
        return None
    return int(new) if field.whole else new


def _put(tables: GpuTables, name: str, value: float | tuple[int, ...], source: str) -> None:
    tables.values[name] = Datum(value, FIELDS[name].unit, "assumed", source)


def _shown(value: float | tuple[int, ...]) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value) if isinstance(value, int) else f"{value:.6g}"


_Values = dict[str, Datum]


def _follow_sm_count(values: _Values, old: float, new: float) -> dict[str, tuple[int, ...]]:
    return {"gpc_sms": gpc_layout(values["gpc_sms"].value, int(new))}  # type: ignore[arg-type]


def _follow_boost(values: _Values, old: float, new: float) -> dict[str, float]:
    return {"sustained_hz": values["sustained_hz"].number * new / old}


def _follow_smem(values: _Values, old: float, new: float) -> dict[str, int]:
    most = int(values["smem_per_cta_max_bytes"].number + new - old)
    return {"smem_per_cta_max_bytes": max(most, 1)}


def _follow_threads(values: _Values, old: float, new: float) -> dict[str, int]:
    return {"warps_per_sm": int(new) // 32}


def _follow_warps(values: _Values, old: float, new: float) -> dict[str, int]:
    return {"threads_per_sm": int(new) * 32}


# what moves along: SMs are added with their engines (rates are per SM and clock) in GPCs of the same sizes, L1.5
# groups follow from the SM count; a CTA may use what an SM gained; effective L2 is a share of the nominal capacity
FOLLOWERS: dict[str, Callable[[_Values, float, float], Mapping[str, float | tuple[int, ...]]]] = {
    "sm_count": _follow_sm_count,
    "boost_hz": _follow_boost,
    "smem_per_sm_bytes": _follow_smem,
    "threads_per_sm": _follow_threads,
    "warps_per_sm": _follow_warps,
}
