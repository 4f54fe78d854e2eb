"""Drawn attention candidates one by one, for the scalar twin."""

from dataclasses import fields

import numpy as np

from jaxmodel.types import Cost

from . import attention as twin
from .attention_draws import Draw
from .cost_fields import entry, flat


def candidates(draw: Draw) -> list[twin.Candidate]:
    """Records of Python floats, one triple a candidate."""
    return [twin.Candidate(*entry(tuple(draw), i)) for i in range(len(draw.schedule.tile_m))]


def twin_fields(draw: Draw) -> dict[str, np.ndarray]:
    """Every field of the twin's cost; `pipeline_s` one entry each; and `tiles`."""
    rows = twin.costs(candidates(draw))
    found = [flat({name: row[name] for name in (*(field.name for field in fields(Cost)), "tiles")}) for row in rows]
    return {name: np.array([row[name] for row in found], float) for name in found[0]}
