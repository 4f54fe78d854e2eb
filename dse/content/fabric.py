"""Fabrics: what joins GPUs, from TOML files to the records the network model computes with.

from dse import load_fabric
fabric = load_fabric("nvlink4_x8+infiniband_ndr", {"link": "2x"})
fabric.levels[0].bind()  # jaxmodel.network.Level

A file of `hardware/fabrics/` describes one level. Levels are joined by `+`, the innermost first: 8 GPUs on NVLink, such
nodes on InfiniBand.
"""

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserError, unknown
from .datum import Datum, parse_datum, read_sources
from .fabric_fields import PROTOCOL, PROTOCOLS, TABLES
from .files import content_files, find_content
from .overrides import factor_of
from .toml import Problems, did_you_mean, read_toml

if TYPE_CHECKING:  # `dse --help` must not import jax
    from jaxmodel.network import Level

FOLDER = "hardware/fabrics"
JOINED = "+"
_ADVICE = "or give the path of your own TOML file, see docs/collectives.md"
_OWN_KEYS = ("title", "sources", "base")
LINK = "link_bytes_per_s"
SHORT = {  # what-if names for numbers that change together
    "link": (LINK, "bytes_per_s", "peer_bytes_per_s"),
    "latency": ("start_s", "hop_s", "peer_s"),
}


@dataclass(frozen=True)
class FabricLevel:
    """One level, every number with its unit, kind and source.

    Attributes:
        name: of the file, without ending.
        title: as people say it.
        values: table -> number -> datum; the tables are "level" and those protocols that it has.
        changes: what overrides did, a line a number.
        path: of the file.
    """

    name: str
    title: str
    values: Mapping[str, Mapping[str, Datum]]
    changes: tuple[str, ...] = ()
    path: str = ""

    def __getitem__(self, name: str) -> float:
        """A number by its dotted name, `level["simple.hop_s"]`, or one of [level] by its own, `level["ranks_max"]`."""
        table, _, field = name.rpartition(".")
        return self.values[table or "level"][field].number

    def bind(self, float_dtype: Any = "float32") -> "Level":
        """The model's record. A protocol that the file leaves out has rate 0."""
        import numpy as np  # here, so that `dse --help` stays fast

        from jaxmodel.network import Level, Protocol

        def leaf(value: float) -> Any:
            return np.asarray(value, float_dtype)

        def protocol(table: str) -> Protocol:
            own = self.values.get(table, {})
            numbers = {name: own[name].number if name in own else 0.0 for name in PROTOCOL[table]}
            numbers["peer_bytes_per_s"] = numbers["peer_bytes_per_s"] or math.inf
            return Protocol(**{name: leaf(value) for name, value in numbers.items()})

        numbers = {
            name: leaf(d.number) for name, d in self.values["level"].items() if name in Level.__dataclass_fields__
        }
        numbers["leaf_ranks"] = leaf(self["leaf_ranks"] or math.inf)
        return Level(**{table: protocol(table) for table in PROTOCOLS}, **numbers)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON and provenance."""
        values = {table: {name: d.to_dict() for name, d in own.items()} for table, own in self.values.items()}
        return {"name": self.name, "title": self.title, "changes": list(self.changes), "values": values}


@dataclass(frozen=True)
class Fabric:
    """Levels joined into one fabric, the innermost first."""

    name: str
    levels: tuple[FabricLevel, ...]

    @property
    def hash(self) -> str:
        """16 hexadecimal digits of all values, whatever their sources."""
        numbers = [
            {t: {n: d.value for n, d in own.items()} for t, own in level.values.items()} for level in self.levels
        ]
        return hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def ranks_max(self) -> int:
        """The most GPUs that the fabric joins."""
        return math.prod(int(level["ranks_max"]) for level in self.levels)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON and provenance."""
        return {"name": self.name, "hash": self.hash, "levels": [level.to_dict() for level in self.levels]}


def load_fabric(
    name: str | os.PathLike[str], overrides: Mapping[str, str | float] | None = None, option: str = "--fabric-set "
) -> Fabric:
    """A fabric by the names of its levels, or their paths, joined by "+": "nvlink4_x8+infiniband_ndr".

    Args:
        name: innermost level first.
        overrides: what-if changes, "TABLE.NUMBER" -> "2x", "+10%" or a number in its unit; "link" means every rate of
            the level, "latency" every start and step: by a factor, as they differ. A name holds for every level;
            "0:link" for the innermost alone.
        option: what errors of an override put before its name, as users wrote it.

    Raises:
        UserError: an unknown name, an unreadable file, or all problems of a file or of the overrides in one message.
    """
    if not isinstance(name, (str, os.PathLike)):
        raise UserError(f"a fabric is the name or the path of a file, not {name!r}")
    text = os.fspath(name)
    parts = [part.strip() for part in text.split(JOINED)]
    if len(parts) > 1 and not all(parts):
        raise UserError(f"the fabric {text!r} has a level without a name: write A+B, e.g. nvlink4_x8+infiniband_ndr")
    levels = [_load_level(part) for part in parts]
    if len(levels) > 2:
        raise UserError(f"the fabric {text} has {len(levels)} levels: two are modelled, nodes and what joins them")
    return changed_fabric(Fabric(text, tuple(levels)), overrides, option)


def changed_fabric(
    fabric: Fabric, overrides: Mapping[str, str | float] | None, option: str = "--fabric-set "
) -> Fabric:
    """The fabric with what-if changes, as `load_fabric` takes them."""
    levels = list(fabric.levels)
    for written, change in (overrides or {}).items():
        which, _, target = str(written).rpartition(":")
        if which and which not in map(str, range(len(levels))):
            raise UserError(
                f"{option}{written}: {which!r} is not a level; {fabric.name} has levels 0 to {len(levels) - 1}"
            )
        chosen = [int(which)] if which else range(len(levels))
        for index in chosen:
            levels[index] = _changed(levels[index], target, change, option)
    return replace(fabric, levels=tuple(levels))


def list_fabrics() -> tuple[str, ...]:
    """Names of all levels: the user's own (folders in `DSE_PATH`) and the packaged ones."""
    return tuple(content_files(FOLDER))


def _load_level(name: str) -> FabricLevel:
    path = find_content("fabric", FOLDER, name, fix=_ADVICE)
    problems = Problems(str(path))
    title, values = _read(path, (), problems)
    if "level" not in values:
        problems.add("level", "is missing")
    if not any(table in values for table in PROTOCOLS):
        problems.add("protocols", f"are missing: at least one of {', '.join(PROTOCOLS)}")
    for table, own in values.items():
        for field_name, field in TABLES[table].items():
            if field_name in own:
                continue
            if field.default is None:
                problems.add(f"{table}.{field_name}", f"is missing: {field.allowed()}")
            else:
                text = "left out of the file: the effect is not modelled"
                own[field_name] = Datum(field.default, field.unit, "assumed", text)
    problems.raise_if_any()
    ordered = {table: {name: values[table][name] for name in TABLES[table]} for table in TABLES if table in values}
    return FabricLevel(path.stem, title, ordered, path=str(path))


def _read(path: Path, chain: tuple[Path, ...], problems: Problems) -> tuple[str, dict[str, dict[str, Any]]]:
    """Title and data of a file and of those it is based on; what stands in the file replaces the base's. A datum that
    is wrong is None. A base must be right by itself."""
    if path.resolve() in chain:
        loop = " -> ".join(one.stem for one in (*chain, path))
        raise UserError(f"{chain[0]}: bases go in a circle: {loop}; remove one `base`")
    raw = read_toml(path)
    sources = read_sources(raw.get("sources", {}), problems)
    title, values = raw.get("title", path.stem), {}
    own: dict[str, dict[str, Datum | None]] = {}
    for key in ("title", "base"):
        if not isinstance(raw.get(key, ""), str):
            problems.add(key, f"must be a text, not {raw[key]!r}")
    if isinstance(raw.get("base"), str):
        base = find_content("fabric", FOLDER, raw["base"], fix=f"in `base` of {path}", skip=path)
        of_base = Problems(str(base))
        values = _read(base, (*chain, path.resolve()), of_base)[1]
        of_base.raise_if_any()
    for key, table in raw.items():
        if key in _OWN_KEYS:
            continue
        if key in TABLES and not isinstance(table, dict):
            problems.add(key, f"must be a table of {', '.join(TABLES[key])}, not {table!r}")
            continue
        if key not in TABLES:
            problems.add(key, f"is not a table of a fabric{did_you_mean(key, TABLES)}; known: {', '.join(TABLES)}")
            continue
        own[key] = _table(key, table, TABLES[key], sources, problems)
    return title, _over_base(values, own)


def _over_base(
    base: dict[str, dict[str, Any]], own: dict[str, dict[str, Datum | None]]
) -> dict[str, dict[str, Datum | None]]:
    """The base's numbers under a file's own; where that has other links, rates that it does not give go with them."""
    old, new = (values.get("level", {}).get(LINK) for values in (base, own))
    if old is not None and new is not None and new.number != old.number:
        ratio = new.number / old.number
        text = f"the base's, times {ratio:g} as its links"
        base = {
            table: {
                name: replace(datum, value=datum.number * ratio, kind="derived", source=text)
                if name in SHORT["link"] and datum is not None
                else datum
                for name, datum in numbers.items()
            }
            for table, numbers in base.items()
        }
    return {table: base.get(table, {}) | own.get(table, {}) for table in {**base, **own}}


def _table(key: str, table: dict, fields: Mapping, sources: dict, problems: Problems) -> dict[str, Datum | None]:
    found: dict[str, Datum | None] = {}
    for name, raw in table.items():
        where = f"{key}.{name}"
        if name in fields:
            found[name] = parse_datum(raw, where, fields[name], sources, problems)
        else:
            problems.add(where, f"is not a number of [{key}]{did_you_mean(name, fields)}; known: {', '.join(fields)}")
    return found


def _changed(level: FabricLevel, target: str, change: str | float, option: str) -> FabricLevel:
    """The level with one number, or the numbers that a short name stands for, changed. The links' rate takes the
    protocols' rates with it."""
    if target in (LINK, f"level.{LINK}") and TABLES["level"][LINK].accepts(_number(change)):
        target, change = "link", f"{_number(change) / level[LINK]!r}x"
    elif target in (LINK, f"level.{LINK}") and isinstance(change, str) and factor_of(change) is not None:
        target = "link"
    chosen = _targets(level, target)
    factor = factor_of(change) if isinstance(change, str) else None
    if factor is None and target in SHORT:
        raise UserError(
            f"{option}{target} = {change!r}: {target} stands for numbers that differ; write a change such as 2x or"
            " +10%, or TABLE.NUMBER=VALUE"
        )
    values = {table: dict(own) for table, own in level.values.items()}
    said = list(level.changes)
    for table, name in chosen:
        old = values[table][name]
        number = old.number * factor if factor is not None else _number(change)
        field = TABLES[table][name]
        if not field.accepts(number):
            raise UserError(
                f"{option}{target} = {change!r}; allowed: {field.allowed()}, or a change such as 2x or +10%"
            )
        number = int(number) if field.whole else number
        values[table][name] = replace(old, value=number, kind="assumed", source=f"what if, {change}")
        said.append(f"{level.name}: {table}.{name}: {old.number:g} -> {number:g}")
    return replace(level, values=values, changes=tuple(said))


def _number(change: str | float) -> float:
    try:
        return float(change)
    except (TypeError, ValueError):
        return math.nan


def _targets(level: FabricLevel, target: str) -> list[tuple[str, str]]:
    """(table, number) pairs that a name means; numbers of 0, which stand for none, are left alone by short names."""
    every = [(table, name) for table, own in level.values.items() for name in own]
    if target in SHORT:
        return [(table, name) for table, name in every if name in SHORT[target] and level.values[table][name].number]
    table, _, name = target.rpartition(".")
    pair = (table or "level", name)
    if pair not in every:
        known = [*SHORT, *(f"{table}.{name}" for table, name in every)]
        raise unknown(f"number of the fabric {level.name}", target, known)
    return [pair]
