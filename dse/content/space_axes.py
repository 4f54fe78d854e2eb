"""One `[[axis]]` table of a space file -> `Axis`.

Three ways to say what an axis holds: `values = [...]` or `range = { from, to, step }` for an axis that sets the one
field of its own name (`bytes = [...]` where the field is a depth), and `groups = [{ label, field = value or list }]`
for a compound axis: a group stands for all combinations of its lists, or ranges, the last one fastest. `defaults =
{ .. }` holds what a group does not say itself.
"""

import itertools
from collections.abc import Mapping
from typing import Any, TypeAlias

from ..axis import Axis
from ..errors import UserError
from ..restrict import code_value
from .toml import Problems, did_you_mean

Codes: TypeAlias = Mapping[str, tuple[str, ...]]
WAYS = ("values", "range", "bytes", "groups")
KEYS = ("name", "extend", "defaults", *WAYS)


def read_axis(
    table: Any,
    where: str,
    base: Mapping[str, Axis],
    known: Mapping[str, Any],
    codes: Codes,
    element_bytes: float,
    problems: Problems,
) -> Axis | None:
    """Read one axis.

    Args:
        table: the parsed `[[axis]]`.
        where: what to call it in problems until its name is known.
        base: axes that exist already; one of the same name is replaced, or continued with `extend = true`.
        known: the kernel's schedule fields.
        codes: field -> the names of its values 0, 1, ...
        element_bytes: bytes of an element, for `bytes`.
        problems: collects what is wrong.

    Returns:
        The axis, or None where something is wrong with it.
    """
    if not isinstance(table, dict) or not isinstance(table.get("name"), str):
        problems.add(where, 'must be a table with a name, e.g. [[axis]] name = "stages"')
        return None
    name = table["name"]
    where = f"axis {name!r}"
    before = len(problems.lines)
    for key in table:
        if key not in KEYS:
            problems.add(where, f"{key!r} is not a key of an axis{did_you_mean(key, KEYS)}; known: {', '.join(KEYS)}")
    ways = [way for way in WAYS if way in table]
    if len(ways) != 1:
        problems.add(where, f"needs exactly one of {', '.join(WAYS)}; it has {', '.join(ways) or 'none'}")
    if "defaults" in table and ways != ["groups"]:
        problems.add(where, "defaults go with groups only")
    if table.get("extend") and name not in base:
        problems.add(where, f"cannot be extended: the base has no such axis{did_you_mean(name, base)}")
    if len(problems.lines) > before:
        return None
    try:
        axis = (
            _read_groups(name, table, known, codes)
            if ways == ["groups"]
            else _read_list(name, ways[0], table[ways[0]], known, element_bytes)
        )
        return _continued(base[name], axis) if table.get("extend") else axis
    except UserError as error:
        problems.add(where, str(error).removeprefix(f"{where}: "))
        return None


def _read_list(name: str, way: str, content: Any, known: Mapping[str, Any], element_bytes: float) -> Axis:
    if name not in known:
        raise UserError(
            f"is not a schedule field{did_you_mean(name, known)}; name the axis after its field, or use groups"
        )
    if way == "range":
        return Axis.of(name, _read_range(content))
    if not isinstance(content, list):
        raise UserError(f"{way} must be a list, not {content!r}")
    if way == "values":
        return Axis.of(name, content)
    if not known[name].get("in_bytes"):
        raise UserError("is not given in bytes: use values")
    for depth in content:
        if not isinstance(depth, int) or isinstance(depth, bool) or depth <= 0 or depth / element_bytes % 1:
            raise UserError(f"bytes = {depth!r} is not a whole number of elements of {element_bytes} bytes")
    return Axis.of(name, [int(depth / element_bytes) for depth in content])


def _read_range(content: Any) -> range:
    if not isinstance(content, dict) or set(content) != {"from", "to", "step"}:
        raise UserError(f"range must be {{ from = .., to = .., step = .. }}, not {content!r}")
    first, last, step = content["from"], content["to"], content["step"]
    if not all(isinstance(part, int) and not isinstance(part, bool) for part in (first, last, step)) or step <= 0:
        raise UserError(f"range must hold whole numbers and a step above 0, not {content!r}")
    return range(first, last + 1, step)


def _read_groups(name: str, table: Mapping[str, Any], known: Mapping[str, Any], codes: Codes) -> Axis:
    groups, defaults = table["groups"], table.get("defaults", {})
    if not isinstance(groups, list) or not groups or not all(isinstance(group, dict) for group in groups):
        raise UserError("groups must be a list of tables { label = .., FIELD = VALUE or LIST, .. }")
    if not isinstance(defaults, dict):
        raise UserError(f"defaults must be a table {{ FIELD = VALUE, .. }}, not {defaults!r}")
    groups = [defaults | group for group in groups]
    fields = tuple(field for field in groups[0] if field != "label")
    values: list[tuple[int, ...]] = []
    labels = []
    for group in groups:
        for field in group:
            if field != "label" and field not in known:
                raise UserError(f"{field!r} is not a schedule field{did_you_mean(field, known)}")
        if set(group) - {"label"} != set(fields):
            raise UserError(f"every group must set the same fields: {', '.join(fields)}; one sets {', '.join(group)}")
        lists = [_entries(group[field]) for field in fields]
        for entry in itertools.product(*lists):
            values.append(tuple(_number(field, value, codes) for field, value in zip(fields, entry, strict=True)))
            labels.append(_label(group.get("label"), dict(zip(fields, entry, strict=True))))
    return Axis(name, fields, tuple(values), tuple(labels))


def _entries(content: Any) -> Any:
    if isinstance(content, dict):
        return _read_range(content)
    return content if isinstance(content, list) else [content]


def _number(field: str, value: Any, codes: Codes) -> int:
    number = code_value(field, value, codes)
    if isinstance(number, str):
        names = f"; allowed: {', '.join(codes[field])}" if field in codes else ": a whole number"
        raise UserError(f"{field} = {value!r} is not allowed{names}")
    return number  # type: ignore[return-value]


def _label(template: Any, entry: Mapping[str, Any]) -> str:
    if template is None:
        return "/".join(str(value) for value in entry.values())
    try:
        label = str(template).format_map(entry)
    except (KeyError, IndexError, ValueError) as error:
        raise UserError(f"label {template!r} cannot be filled in: use {{FIELD}} with {', '.join(entry)}") from error
    if not label or "," in label or " " in label:
        raise UserError(f"label {label!r} must have no commas and no spaces: it is typed on the command line")
    return label


def _continued(axis: Axis, more: Axis) -> Axis:
    if set(more.fields) != set(axis.fields):
        raise UserError(f"extends an axis that sets {', '.join(axis.fields)}, but sets {', '.join(more.fields)}")
    order = [more.fields.index(field) for field in axis.fields]
    values = tuple(tuple(entry[place] for place in order) for entry in more.values)
    return Axis(axis.name, axis.fields, (*axis.values, *values), (*axis.labels, *more.labels))
