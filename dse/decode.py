"""From consecutive indices to schedule fields, under `jit` and without 64-bit integers."""

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .axis import Axis
from .space import Space

# Neighbouring axes share one table whose entries pack several fields into one uint32. The GEMM spaces (15 or 16 varying
# fields) then decode in 1.7 ns a candidate on one core (65,536 lanes, EPYC with AVX-512), against 2.8 to 3.7 with a
# table an axis, 4.6 with a gather a field and 5.8 with where-chains. Tables above 1,024 entries gain nothing.
TABLE_ENTRIES = 1024
WORD_BITS = 32


@dataclass(frozen=True)
class _Table:
    axes: tuple[int, ...]  # places of the axes in the space
    radices: tuple[int, ...]
    words: tuple[np.ndarray, ...]  # each uint32[entries]
    fields: tuple[tuple[str, int, int, int], ...]  # name, word, shift, bits

    @property
    def entries(self) -> int:
        return math.prod(self.radices)


def decode(
    space: Space, start_digits: jax.typing.ArrayLike, lanes: int, dtype: Any = "float32"
) -> dict[str, jax.Array]:
    """The schedules of `lanes` consecutive indices, for use under `jit`.

    Lane i stands for the index `start + i`. The space's radices and values are constants of the compiled function;
    only the start is an argument, so one compiled function serves the whole space, whatever its size.

    Args:
        space: the space.
        start_digits: int32[axes], from `space.start_digits(start)`; may be traced.
        lanes: how many, at most 2^31.
        dtype: floating type of the result (float64 needs jax's x64 mode).

    Returns:
        Field -> array[lanes], or a scalar for a field that has one value in the whole space. Lanes past the end of the
        space wrap to its beginning: the caller masks them.
    """
    constants, tables = _tables(space)
    start = jnp.asarray(start_digits).astype(jnp.uint32)
    values = {name: jnp.asarray(value, dtype) for name, value in constants.items()}
    carry = lax.iota(jnp.uint32, lanes)
    for table in reversed(tables):
        position = carry + _start_of(table, start)
        carry = position // np.uint32(table.entries)
        entry = position - carry * np.uint32(table.entries)
        values |= _read(table, entry, dtype)
    return {name: values[name] for name in space.fields}


def _start_of(table: _Table, start: jax.Array) -> jax.Array:
    position = jnp.uint32(0)
    for place, radix in zip(table.axes, table.radices, strict=True):
        position = position * np.uint32(radix) + start[place]
    return position


def _read(table: _Table, entry: jax.Array, dtype: Any) -> dict[str, jax.Array]:
    words = [jnp.asarray(word).at[entry].get(mode="promise_in_bounds") for word in table.words]
    return {
        name: ((words[word] >> np.uint32(shift)) & np.uint32(2**bits - 1)).astype(jnp.int32).astype(dtype)
        for name, word, shift, bits in table.fields
    }


def _tables(space: Space) -> tuple[dict[str, int], list[_Table]]:
    """Fields with one value, and tables of neighbouring axes, outermost first."""
    constants = dict(space.fixed)
    for axis in space.axes:  # also a field that only shares an axis with others that vary
        constants |= {name: axis.column(name)[0] for name in axis.fields if len(set(axis.column(name))) == 1}
    groups: list[list[int]] = []
    for place, axis in reversed(list(enumerate(space.axes))):
        if axis.radix == 1:
            continue
        if groups and _fits_one_word([space.axes[at] for at in (place, *groups[0])]):
            groups[0].insert(0, place)
        else:
            groups.insert(0, [place])
    return constants, [_build(space.axes, tuple(group)) for group in groups]


def _fits_one_word(axes: list[Axis]) -> bool:
    bits = sum(_bits(axis.column(name)) for axis in axes for name in axis.fields)
    return math.prod(axis.radix for axis in axes) <= TABLE_ENTRIES and bits <= WORD_BITS


def _bits(values: tuple[int, ...]) -> int:
    return max(1, max(values).bit_length())


def _build(axes: tuple[Axis, ...], places: tuple[int, ...]) -> _Table:
    radices = tuple(axes[place].radix for place in places)
    digits = np.indices(radices).reshape(len(radices), -1)
    words = [np.zeros(digits.shape[1], np.uint32)]
    fields = []
    used = 0
    for place, digit in zip(places, digits, strict=True):
        for name in axes[place].fields:
            column = axes[place].column(name)
            if len(set(column)) == 1:
                continue
            bits = _bits(column)
            if used + bits > WORD_BITS:
                words.append(np.zeros_like(words[0]))
                used = 0
            words[-1] |= np.array(column, np.uint32)[digit] << np.uint32(used)
            fields.append((name, len(words) - 1, used, bits))
            used += bits
    return _Table(places, radices, tuple(words), tuple(fields))
