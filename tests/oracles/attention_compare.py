"""Drawn attention candidates one by one, for the scalar twin."""

import dataclasses
from typing import Any

import numpy as np

from jaxmodel.types import PIPELINES, Cost

from . import attention as twin
from .attention_draws import Draw


def candidates(draw: Draw) -> list[twin.Candidate]:
    """Records of Python floats, one triple a candidate."""
    return [twin.Candidate(*(_entry(record, i) for record in draw)) for i in range(len(draw.schedule.tile_m))]


def twin_fields(draw: Draw) -> dict[str, np.ndarray]:
    """Every field of the twin's cost; `pipeline_s` one entry each; and `tiles`."""
    rows = twin.costs(candidates(draw))
    names = [f.name for f in dataclasses.fields(Cost) if f.name != "pipeline_s"]
    fields = {name: np.array([row[name] for row in rows], float) for name in [*names, "tiles"]}
    seconds = np.array([row["pipeline_s"] for row in rows])
    return fields | {f"pipeline_s.{name}": seconds[:, place] for place, name in enumerate(PIPELINES)}


def _entry(record: Any, i: int) -> Any:
    if isinstance(record, tuple):
        return tuple(_entry(one, i) for one in record)
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        values = {f.name: _entry(getattr(record, f.name), i) for f in dataclasses.fields(record)}
        return type(record)(**values)
    return np.asarray(record)[i].tolist()
