"""A cost as one array a field, of a model and of its scalar twin; and one drawn candidate for the twin."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxmodel.types import PIPELINES, Cost


def flat(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a cost, a pipeline each in its own: `pipeline_s.ddr`."""
    pipelines = {f"pipeline_s.{name}": value for name, value in zip(PIPELINES, fields["pipeline_s"], strict=True)}
    return {name: value for name, value in fields.items() if name != "pipeline_s"} | pipelines


def cost_fields(cost: Any, count: int) -> dict[str, np.ndarray]:
    """Every field of a model's cost of `count` candidates, float64[count]."""
    fields = flat({field.name: getattr(cost, field.name) for field in dataclasses.fields(Cost)})
    return {name: np.broadcast_to(np.asarray(value, np.float64), count) for name, value in fields.items()}


def entry(record: Any, at: int) -> Any:
    """Candidate `at` of records of arrays, as records of Python numbers; None stays."""
    if isinstance(record, tuple):
        return tuple(entry(field, at) for field in record)
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return type(record)(**{f.name: entry(getattr(record, f.name), at) for f in dataclasses.fields(record)})
    return None if record is None else np.asarray(record)[at].tolist()


def beyond(differences: Mapping[str, np.ndarray], tolerance: float) -> dict[str, float]:
    """The fields that differ by more than the tolerance somewhere, and by how much at the most."""
    worst = {name: float(np.max(difference)) for name, difference in differences.items()}
    return {name: value for name, value in worst.items() if not value <= tolerance}
