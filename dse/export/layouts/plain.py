"""Layouts as JSON and YAML: degrees by name, instances, what is predicted, how it was asked."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...serving.layout_words import layout_text, value_text
from ...serving.layouts import FIELDS
from ...serving.outcomes import COLUMNS
from .launch import Launch

ASKED = ("model", "checkpoint", "gpu", "gpus", "gpus_per_node", "fabric", "engine", "types", "workload", "graphs")
ASKED_MORE = ("clock", "changes")


def layouts_as_dict(facts: Mapping[str, Any], rows: Sequence[Mapping[Any, Any]]) -> dict[str, Any]:
    """What the files hold."""
    units = {name: unit for name, (unit, _) in COLUMNS.items()}
    return {**asked_as_dict(facts), "units": units, "layouts": [layout_as_dict(facts, row) for row in rows]}


def asked_as_dict(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked."""
    return {"tool": "tilesweep", **{name: facts[name] for name in (*ASKED, *ASKED_MORE)}}


def json_text(content: Mapping[str, Any]) -> str:
    """As JSON, indented."""
    return json.dumps(content, indent=1) + "\n"


def yaml_text(content: Mapping[str, Any]) -> str:
    """As YAML 1.2: block mappings and sequences, texts quoted as JSON has them where a plain word would not do."""
    return "\n".join(yaml_lines(content)) + "\n"


def yaml_lines(content: Any, indent: str = "") -> Iterator[str]:
    """Lines of a mapping or of a sequence."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            if _nested(value):
                yield f"{indent}{key}:"
                yield from yaml_lines(value, f"{indent}  ")
            else:
                yield f"{indent}{key}: {_scalar(value)}"
        return
    for entry in content:
        if not _nested(entry):
            yield f"{indent}- {_scalar(entry)}"
            continue
        first, *others = yaml_lines(entry, f"{indent}  ")
        yield f"{indent}- {first.strip()}"
        yield from others


def layout_as_dict(facts: Mapping[str, Any], row: Mapping[Any, Any]) -> dict[str, Any]:
    """One layout: in words, degrees, instances, what is predicted."""
    gpus = int(row["gpus"])
    degrees: dict[str, Any] = {}
    for name in FIELDS:
        said = value_text(name, int(row[name]))
        degrees[name] = int(said) if said.isdecimal() else said
    degrees["ep"] = Launch(facts, row).ep
    return {
        "layout": layout_text(row),
        "instances": int(facts["gpus"]) // gpus,
        "gpus_per_instance": gpus,
        "degrees": degrees,
        "predicted": {name: float(row[name]) for name in COLUMNS if name != "gpus"},
    }


def _nested(value: Any) -> bool:
    return isinstance(value, (Mapping, list, tuple)) and bool(value)


def _scalar(value: Any) -> str:
    if isinstance(value, (Mapping, list, tuple)):
        return "{}" if isinstance(value, Mapping) else "[]"
    return json.dumps(value)  # JSON's scalars are YAML's
