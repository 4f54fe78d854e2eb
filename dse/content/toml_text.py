"""Values as TOML text: what studies are written back with."""

import json
import re
from collections.abc import Mapping
from typing import Any

from .toml import is_number


def toml_value(value: Any) -> str:
    """A text, number, truth value or list of these."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(toml_value(entry) for entry in value)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_number(value):
        return repr(value)
    # JSON's escapes are TOML's but for characters past 16 bits, which stand as they are, and DEL, which may not
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_key(name: str) -> str:
    """A key, quoted where it is no bare one."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def toml_table(head: str, table: Mapping[str, Any]) -> list[str]:
    """Lines of a table under its head, an empty one before them; none where it is empty."""
    if not table:
        return []
    return ["", head, *(f"{toml_key(key)} = {toml_value(value)}" for key, value in table.items())]


def axis_lines(axis: Any) -> list[str]:
    """An [[axis]] of a study (`dse.content.hardware_axis.HardwareAxis`)."""
    lines = ["", "[[axis]]", *([f"name = {toml_value(axis.name)}"] if axis.name else [])]
    lines += [f"field = {toml_value(axis.field)}", f"values = {toml_value(axis.entries)}"]
    if axis.follow:
        powers = ", ".join(f"{key} = {toml_value(power)}" for key, power in axis.follow.items())
        lines.append(f"follow = {{ {powers} }}")
    return lines
