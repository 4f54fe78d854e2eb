"""The folder of a sweep of layouts: Parquet tables with units and meanings, and a summary; written and read again."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...content.files import home_expanded
from ...content.space import schedule_fields
from ...content.toml import read_toml
from ...errors import UserError
from ...provenance import how_made, step_model_hash
from ...serving.asked import service_changes, service_title, workload_text
from ...serving.layout_words import layout_text
from ...serving.layouts import FIELDS, REASONS
from ...serving.outcomes import COLUMNS
from ...serving.serve import LayoutResult, Service
from ...space import Space
from ..answer_folder import new_folder, write_table, write_text
from .points import PART_COLUMNS

if TYPE_CHECKING:
    import pandas as pd

KIND = "layouts"
SUMMARY = "summary.json"
OWN = {"index": ("1", "place of the layout in the space"), "layout": ("text", "the layout in words")}
FILES = ("front.parquet", "best.parquet", "parts.parquet", SUMMARY, "report.html")


@dataclass(frozen=True)
class LayoutRun:
    """A folder, opened.

    Attributes:
        path: of the folder.
        summary: what `write_layouts` wrote.
        front, best, parts: the tables.
    """

    path: Path
    summary: Mapping[str, Any]
    front: "pd.DataFrame"
    best: "pd.DataFrame"
    parts: "pd.DataFrame"


def service_facts(service: Service) -> dict[str, Any]:
    """What was asked, as plain values."""
    workload = {name: _finite(value) for name, value in vars(service.workload).items()}
    return {
        "title": service_title(service),
        "workload_text": workload_text(service.workload),
        "model": service.model.name,
        "checkpoint": checkpoint(service),
        "gpu": service.gpu.name,
        "gpu_hash": service.gpu.hash,
        "memory_bytes": service.gpu["ddr_capacity_bytes"],
        "gpus": service.gpus,
        "gpus_per_node": service.node,
        "fabric": service.fabric.name,
        "fabric_hash": service.fabric.hash,
        "engine": service.engine.name,
        "engine_numbers": {name: datum.number for name, datum in service.engine.values.items()},
        "types": vars(service.types),
        "weights": service.model.weights,
        "workload": workload,
        "graphs": service.graphs,
        "clock": service.clock,
        "changes": list(service_changes(service)),
        "experts": service.model.moe.experts if service.model.moe else 0,
    }


def checkpoint(service: Service) -> str:
    """Name of the published weights, from the sources in the model's file ("config.json of ..., OWNER/NAME"); the
    model's own name where none is of that form."""
    for text in read_toml(service.model.path).get("sources", {}).values():
        last = str(text).rpartition(", ")[2].strip()
        if last.count("/") == 1 and " " not in last:
            return last
    return service.model.name


def write_layouts(
    result: LayoutResult, space: Space, parts: "pd.DataFrame", folder: Path, command_line: str
) -> dict[str, Any]:
    """Writes everything; returns the summary.

    Raises:
        UserError: a file cannot be written.
    """
    summary = {
        "kind": KIND,
        **service_facts(result.service),
        "space": space.name,
        "space_hash": space.hash,
        "layouts": result.layouts,
        "reasons": dict(result.reasons),
        "objectives": list(result.objectives),
        "front_layouts": result.front_layouts,
        "kernel_problems": result.kernel_problems,
        "schedules": result.schedules,
        "collectives": result.collectives,
        "seconds": result.seconds,
    }
    made = {"schema_version": 1, **summary, "model_hash": step_model_hash(), "seed": None, **how_made(command_line)}
    write_table(folder / "front.parquet", with_words(result.front), described, made)
    write_table(folder / "best.parquet", with_words(result.best), described, made)
    write_table(folder / "parts.parquet", parts, described, made)
    write_text(folder / SUMMARY, json.dumps(summary | {"provenance": how_made(command_line)}, indent=1))
    return summary


def with_words(frame: "pd.DataFrame", prefix: str = "") -> "pd.DataFrame":
    """The table with a first column, each layout in words; its fields' names begin with `prefix`."""
    rows = frame[[f"{prefix}{name}" for name in FIELDS]].to_numpy(int)
    said = [layout_text(dict(zip(FIELDS, row, strict=True))) for row in rows]
    whole = frame.copy()
    whole.insert(0, f"{prefix}layout", said)
    return whole


def described(name: str) -> tuple[str, str]:
    """(unit, meaning) of a column."""
    if name in OWN:
        return OWN[name]
    if name in COLUMNS:
        return COLUMNS[name]
    if name in PART_COLUMNS:
        return PART_COLUMNS[name]
    about = schedule_fields("sharding")[name]
    names = about.get("names")
    return ("code", f"{about['text']}: {', '.join(map(str, names))}") if names else ("1", str(about["text"]))


def layout_folder(path: str | os.PathLike[str], overwrite: bool = False) -> Path:
    """The folder for a sweep's files; raises as `dse.studies.answer_folder.new_folder`."""
    return new_folder(path, overwrite, FILES)


def is_layout_run(path: str | os.PathLike[str]) -> bool:
    """Whether a folder holds a sweep of layouts."""
    return read_summary(home_expanded(path)).get("kind") == KIND


def open_layouts(path: str | os.PathLike[str]) -> LayoutRun:
    """Opens a folder.

    Raises:
        UserError: it holds no sweep of layouts, or a damaged one.
    """
    import pandas as pd

    folder = home_expanded(path)
    summary = read_summary(folder)
    if summary.get("kind") != KIND:
        raise UserError(f"{folder} holds no sweep of layouts: give a folder that dse sweep sharding --out wrote")
    try:
        front, best, parts = (pd.read_parquet(folder / f"{name}.parquet") for name in ("front", "best", "parts"))
    except (OSError, ValueError) as error:
        raise UserError(f"{folder} is damaged ({error}): run the sweep again with --overwrite") from None
    wanted = {*FIELDS, *COLUMNS}
    lacking = [name for name in wanted if name not in front or name not in best]
    if lacking or not set(summary["reasons"]) <= set(REASONS):
        raise UserError(f"{folder} was written by another version of tilesweep: run the sweep again with --overwrite")
    return LayoutRun(folder, summary, front, best, parts)


def read_summary(folder: Path) -> dict[str, Any]:
    """The summary in a folder; empty where there is none, or a damaged one."""
    try:
        content = json.loads((folder / SUMMARY).read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and value == float("inf") else value
