"""A GPU file's tables, checked: inheritance resolved, every problem in one message."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import UserError
from .datum import Datum, parse_datum, read_sources
from .dtypes import ACCUMULATORS, BLOCK_SCALED, DTYPE_BYTES
from .files import find_content
from .gpu_fields import FIELDS, PEAK, TABLES, TENSOR, Field
from .mma import FAMILIES
from .toml import Problems, did_you_mean, read_toml

FOLDER = "hardware/gpus"
RATED = tuple(name for name in DTYPE_BYTES if name not in BLOCK_SCALED)  # the others run on one of these
BY_DTYPE = ("engine", "latency", "power")  # tables whose numbers may differ from one input type to the next
_TEXTS = ("title", "compute_capability", "base")


@dataclass
class GpuTables:
    """What a file and its bases say: data by field name, tensor rates by family and "dtype_accumulator"."""

    title: str = ""
    compute_capability: str = ""
    values: dict[str, Datum] = field(default_factory=dict)
    tensor: dict[str, dict[str, Datum]] = field(default_factory=dict)
    by_dtype: dict[str, dict[str, Datum]] = field(default_factory=dict)
    peaks: dict[str, Datum] = field(default_factory=dict)
    bases: tuple[str, ...] = ()


def parse_gpu(path: Path) -> GpuTables:
    """Reads a GPU file with all it inherits.

    Raises:
        UserError: one message with every problem of the file (not of its base, which must be right by itself).
    """
    tables = _read(path, ())
    problems = Problems(str(path))
    _complete(tables, problems)
    for line in inconsistencies(tables.values):
        problems.add(*line)
    problems.raise_if_any()
    return tables


def inconsistencies(values: dict[str, Datum]) -> list[tuple[str, str]]:
    """Numbers that contradict each other, as (place, text)."""
    got = {name: datum.value for name, datum in values.items()}
    found: list[tuple[str, str]] = []

    def check(names: tuple[str, ...], holds: Any, text: str) -> None:
        if all(name in got for name in names) and not holds(*(got[name] for name in names)):
            shown = ", ".join(f"{name} is {_shown(got[name])}" for name in names)
            found.append((names[0], f"{text}, but {shown}"))

    check(("gpc_sms", "sm_count"), lambda gpcs, sms: sum(gpcs) == sms, "the GPCs' SMs must sum to sm_count")
    check(
        ("smem_per_cta_max_bytes", "smem_per_sm_bytes", "smem_reserve_bytes"),
        lambda cta, sm, reserve: cta + reserve <= sm,
        "a CTA's shared memory and reserve must fit in an SM",
    )
    check(("sustained_hz", "boost_hz"), lambda low, high: low <= high, "the sustained clock cannot exceed boost")
    check(("l2_latency_s", "ddr_latency_s"), lambda l2, ddr: l2 <= ddr, "memory cannot answer before L2")
    check(("threads_per_sm", "warps_per_sm"), lambda t, w: t == 32 * w, "a warp has 32 threads")
    check(("static_w", "tdp_w"), lambda static, tdp: static < tdp, "static power must be below the power limit")
    check(
        ("l15_bytes_per_clock_group", "l15_capacity_bytes"),
        lambda rate, capacity: (rate > 0) == (capacity > 0),
        "an L1.5 has both a rate and a capacity, or neither",
    )
    check(
        ("tmem_bytes_per_clock_sm", "tmem_columns"),
        lambda rate, columns: (rate > 0) == (columns > 0),
        "TMEM has both a rate and columns, or neither",
    )
    return found


def moves_peaks(names: Iterable[str]) -> bool:
    """True if changing these fields makes a datasheet's stated peaks wrong: they are not inherited then."""
    return any(
        name in ("sm_count", "boost_hz", "clock_hz") or name.startswith(("tensor.", "tensor_flop")) for name in names
    )


def gpc_layout(gpc_sms: tuple[int, ...], sm_count: int) -> tuple[int, ...]:
    """The GPCs of a chip with another number of SMs: further GPCs of the same sizes, in the same order; the last may
    be cut short."""
    layout: list[int] = []
    while sum(layout) < sm_count:
        layout.append(min(gpc_sms[len(layout) % len(gpc_sms)], sm_count - sum(layout)))
    return tuple(layout)


def _read(path: Path, chain: tuple[Path, ...]) -> GpuTables:
    where = path.resolve()
    if where in chain:
        loop = " -> ".join(p.stem for p in (*chain, where))
        raise UserError(f"{chain[0]}: bases go in a circle: {loop}; remove one `base`")
    raw = read_toml(path)
    problems = Problems(str(path))
    tables = _base(raw, path, (*chain, where), problems)
    if moves_peaks(name for table in raw.values() if isinstance(table, dict) for name in table) or "tensor" in raw:
        tables.peaks = {}
    own = _tables(raw, tables, problems)
    if "sm_count" in own and "gpc_sms" not in own and "gpc_sms" in tables.values:
        old = tables.values["gpc_sms"]
        layout = gpc_layout(old.value, int(own["sm_count"].number))  # type: ignore[arg-type]
        tables.values["gpc_sms"] = Datum(layout, old.unit, "derived", "the base's GPC sizes, for this SM count")
    problems.raise_if_any()
    return tables


def _base(raw: dict[str, Any], path: Path, chain: tuple[Path, ...], problems: Problems) -> GpuTables:
    base = raw.get("base")
    if base is None:
        return GpuTables()
    if not isinstance(base, str):
        problems.add("base", f"must be the name or path of a GPU file, not {base!r}")
        return GpuTables()
    is_path = "/" in base or base.endswith(".toml")
    try:
        found = find_content("GPU", FOLDER, path.parent / base if is_path else base, skip=path)
    except UserError as error:
        problems.add("base", str(error))
        return GpuTables()
    tables = _read(found, chain)
    tables.title = f"{tables.title}, changed by {path.stem}"
    tables.bases = (found.stem, *tables.bases)
    return tables


def _tables(raw: dict[str, Any], into: GpuTables, problems: Problems) -> dict[str, Datum]:
    sources = read_sources(raw.get("sources", {}), problems)
    own: dict[str, Datum] = {}
    own_by_dtype: dict[str, dict[str, Datum]] = {}
    for key, value in raw.items():
        if key in _TEXTS:
            _text(key, value, into, problems)
        elif key == "tensor":
            _tensor(value, into, sources, problems)
        elif key == "by_dtype":
            own_by_dtype = _by_dtype(value, sources, problems)
        elif key in TABLES:
            own |= _table(key, value, into, sources, problems)
        elif key != "sources":
            known = (*_TEXTS, "sources", *TABLES, "tensor", "by_dtype")
            hint = f"; it belongs in [{FIELDS[key].table}]" if key in FIELDS else did_you_mean(key, known)
            problems.add(key, f"unknown; known: {', '.join(known)}{hint}")
    into.values.update(own)
    for numbers in into.by_dtype.values():  # what a file says of all types replaces what its base says of one
        for name in own:
            numbers.pop(name, None)
    for dtype, numbers in own_by_dtype.items():
        into.by_dtype[dtype] = {**into.by_dtype.get(dtype, {}), **numbers}
    return own


def _text(key: str, value: Any, into: GpuTables, problems: Problems) -> None:
    if not isinstance(value, str) or not value.strip():
        problems.add(key, f"must be text, not {value!r}")
    elif key != "base":
        setattr(into, key, value)


def _table(table: str, raw: Any, into: GpuTables, sources: dict[str, str], problems: Problems) -> dict[str, Datum]:
    own: dict[str, Datum] = {}
    if not isinstance(raw, dict):
        problems.add(table, f"must be a table [{table}], not {raw!r}")
        return own
    for name, value in raw.items():
        where = f"{table}.{name}"
        if table == "nominal" and name == "peak_flop_per_s":
            into.peaks |= _rates(where, value, PEAK, sources, problems)
        elif name not in FIELDS:
            known = [f"{f.name} ({f.unit})" for f in FIELDS.values() if f.table == table]
            problems.add(where, f"unknown; [{table}] holds {', '.join(known)}{did_you_mean(name, FIELDS)}")
        elif FIELDS[name].table != table:
            problems.add(where, f"belongs in [{FIELDS[name].table}]")
        elif (datum := parse_datum(value, where, FIELDS[name], sources, problems)) is not None:
            own[name] = datum
    return own


def _by_dtype(raw: Any, sources: dict[str, str], problems: Problems) -> dict[str, dict[str, Datum]]:
    found: dict[str, dict[str, Datum]] = {}
    if not isinstance(raw, dict):
        problems.add("by_dtype", f"must hold tables [by_dtype.<dtype>], not {raw!r}")
        return found
    allowed = [name for name, item in FIELDS.items() if item.table in BY_DTYPE and name != "sm_count"]
    for dtype, numbers in raw.items():
        where = f"by_dtype.{dtype}"
        if dtype not in DTYPE_BYTES:
            problems.add(where, f"unknown dtype; known: {', '.join(DTYPE_BYTES)}{did_you_mean(dtype, DTYPE_BYTES)}")
        elif not isinstance(numbers, dict):
            problems.add(where, f"must be a table of numbers, not {numbers!r}")
        else:
            for name, value in numbers.items():
                if name not in allowed:
                    hint = did_you_mean(name, allowed)
                    problems.add(f"{where}.{name}", f"cannot differ by dtype; allowed: {', '.join(allowed)}{hint}")
                elif (datum := parse_datum(value, f"{where}.{name}", FIELDS[name], sources, problems)) is not None:
                    found.setdefault(dtype, {})[name] = datum
    return found


def _tensor(raw: Any, into: GpuTables, sources: dict[str, str], problems: Problems) -> None:
    if not isinstance(raw, dict):
        problems.add("tensor", f"must hold tables [tensor.<family>], not {raw!r}")
        return
    for family, rates in raw.items():
        if family not in FAMILIES:
            known = ", ".join(FAMILIES)
            problems.add(f"tensor.{family}", f"unknown family; known: {known}{did_you_mean(family, FAMILIES)}")
        else:
            merged = {**into.tensor.get(family, {}), **_rates(f"tensor.{family}", rates, TENSOR, sources, problems)}
            into.tensor[family] = merged


def _rates(where: str, raw: Any, rate: Field, sources: dict[str, str], problems: Problems) -> dict[str, Datum]:
    if not isinstance(raw, dict):
        problems.add(where, f"must be a table of rates by dtype and accumulator, not {raw!r}")
        return {}
    rates: dict[str, Datum] = {}
    for pair, value in raw.items():
        dtype, _, accumulator = pair.rpartition("_")
        if dtype not in RATED or accumulator not in ACCUMULATORS:
            problems.add(
                f"{where}.{pair}",
                f"must be <dtype>_<accumulator> such as bf16_fp32; dtypes: {', '.join(RATED)}; "
                f"accumulators: {', '.join(ACCUMULATORS)}",
            )
        elif (datum := parse_datum(value, f"{where}.{pair}", rate, sources, problems)) is not None:
            rates[pair] = datum
    return rates


def _complete(tables: GpuTables, problems: Problems) -> None:
    for key in ("title", "compute_capability"):
        if not getattr(tables, key):
            problems.add(key, "is missing: text")
    for item in FIELDS.values():
        if item.name not in tables.values and item.default is not None:
            tables.values[item.name] = Datum(item.default, item.unit, "assumed", "left out: not modelled")
        elif item.name not in tables.values:
            problems.add(f"{item.table}.{item.name}", f"is missing: {item.meaning}, {item.allowed()}")
    if not any(tables.tensor.values()):
        problems.add("tensor", f"no tensor rate: add [tensor.<family>] with family one of {', '.join(FAMILIES)}")


def _shown(value: Any) -> str:
    return f"{list(value)} (sum {sum(value)})" if isinstance(value, tuple) else f"{value:g}"
