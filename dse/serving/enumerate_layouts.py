"""The layouts of a space that a model and a number of GPUs allow, found axis by axis: what an axis rules out is never
combined with the axes after it."""

from dataclasses import dataclass

import numpy as np

from ..axis import Axis
from ..content.model import ModelConfig
from ..errors import UserError
from ..space import Space
from .layouts import CHECKS, FIELDS, Layouts

MOST = 2**26  # layouts that are held at once


@dataclass(frozen=True)
class Enumerated:
    """What is left of a space.

    Attributes:
        layouts: those that sizes and the number of GPUs allow, in the order of their index.
        ruled_out: reason -> layouts of the space that it rules out.
    """

    layouts: Layouts
    ruled_out: dict[str, int]


def enumerate_layouts(space: Space, model: ModelConfig, gpus: int, gpus_per_node: int) -> Enumerated:
    """Every layout of a space, those that cannot be counted by the first reason.

    Args:
        space: of the kernel "sharding".
        model: decides what divides.
        gpus: that there are.
        gpus_per_node: on the fabric's inner level.

    Raises:
        UserError: more layouts are left than can be held.
    """
    columns = {name: np.full(1, value, np.int64) for name, value in space.fixed.items()}
    index, left, ruled_out = np.zeros(1, np.int64), space.size, {}
    waiting = list(CHECKS)
    for axis, stride in sorted(zip(space.axes, space.strides, strict=True), key=lambda pair: _place(pair[0])):
        left //= axis.radix
        if len(index) * axis.radix > MOST:
            raise UserError(
                f"the space {space.name} has {space.size:,} layouts, of which too many are possible to hold at once "
                f"({len(index):,} before the axis {axis.name} with {axis.radix}): keep fewer values, e.g. --axis "
                f"{axis.name}={axis.labels[0]}"
            )
        table, digits = axis.table(), np.arange(axis.radix)
        columns = {name: np.repeat(values, axis.radix) for name, values in columns.items()}
        columns |= {name: np.tile(values, len(index)) for name, values in zip(axis.fields, table, strict=True)}
        index = (index[:, None] + digits * stride).reshape(-1)
        while waiting and set(waiting[0][1]) <= set(columns):  # in order, so that the first reason counts
            name, _, check = waiting.pop(0)
            whole = {field: columns.get(field, np.ones(len(index), np.int64)) for field in FIELDS}
            wrong = check(Layouts(whole, index, gpus_per_node), model, gpus)
            ruled_out[name] = ruled_out.get(name, 0) + int(wrong.sum()) * left
            columns, index = {field: values[~wrong] for field, values in columns.items()}, index[~wrong]
    order = np.argsort(index)
    found = Layouts({name: columns[name][order] for name in FIELDS}, index[order], gpus_per_node)
    return Enumerated(found, {name: count for name, count in ruled_out.items() if count})


def _place(axis: Axis) -> int:
    return max(FIELDS.index(name) for name in axis.fields)
