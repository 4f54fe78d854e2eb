"""How schedules of any kernel are written and read, and how they stand in tables.

A kernel may bring words of its own (GEMM: `dse.kernels.gemm_words`). Any other is written as `field=value`, with
fields, defaults and names of values from its `spaces/<kernel>/_fields.toml`:

    tile_q=128 tile_kv=64 stages=2 order=pingpong
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .content.space import load_space, schedule_fields, space_families
from .errors import UserError, unknown
from .kernels.entry import attribute
from .kernels.registry import get_kernel
from .split_words import split_words

LARGEST = 2**24
MEASURED = {"registers": "registers_measured", "smem_bytes": "smem_measured_bytes"}  # as candidates' files name them


class Words(Protocol):
    """What is asked of a kernel's words.

    Attributes:
        fields: the schedule's fields, in the order of its record.
        keys: what may stand before `=`: fields, and words for several of them.
        groups: word -> the fields that it stands for, to tell schedules apart by (`dse.distinct`).
        example: a schedule, for messages.
    """

    @property
    def fields(self) -> tuple[str, ...]: ...

    @property
    def keys(self) -> tuple[str, ...]: ...

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]: ...

    @property
    def example(self) -> str: ...

    def parse(self, given: str | Mapping[str, Any], family: str) -> dict[str, int]:
        """A complete schedule from what a user wrote; raises UserError."""
        ...

    def format(self, schedule: Mapping[str, Any]) -> str:
        """The schedule as text that `parse` reads back to the same fields."""
        ...

    def short(self, schedule: Mapping[str, Any]) -> str:
        """The same for narrow tables: what goes without saying is left out."""
        ...

    def said(self, field: str, schedule: Mapping[Any, Any]) -> str:
        """A field's value, by its name where it has one."""
        ...

    def cells(self, rows: Sequence[Mapping[Any, Any]]) -> tuple[list[dict[str, str]], str]:
        """Columns of a table for these schedules, and a line under it for what is the same in all; "" for none."""
        ...

    @property
    def tile_name(self) -> str:
        """The head of the column for `tile`."""
        ...

    def tile(self, row: Mapping[Any, Any]) -> str:
        """The schedule, or what matters most of it, in one cell of a table of different problems."""
        ...


@dataclass(frozen=True)
class FieldWords:
    """`field=value` words from a kernel's `_fields.toml`; see `Words`.

    Attributes:
        kernel: whose schedules.
        fields: in the order of the file, which is that of the schedule's record.
        defaults: field -> value where it is left out.
        names: field -> names of the values 0, 1, ...
        examples: field -> a value for messages.
    """

    kernel: str
    fields: tuple[str, ...]
    defaults: Mapping[str, int]
    names: Mapping[str, tuple[str, ...]]
    examples: Mapping[str, int]

    @property
    def keys(self) -> tuple[str, ...]:
        """Fields, and the names that candidates' files have for measured ones."""
        return (*self.fields, *(word for word, field in MEASURED.items() if field in self.fields))

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """None but the fields themselves."""
        return {}

    @property
    def example(self) -> str:
        """Every field that must be given, as the file says by way of example or as the middle of a space has it."""
        needed = [name for name in self.fields if name not in self.defaults]
        values = self.examples if set(needed) <= set(self.examples) else {**self._from_a_space(), **self.examples}
        return " ".join(f"{name}={self._said(name, values.get(name, 1))}" for name in needed)

    def parse(self, given: str | Mapping[str, Any], family: str) -> dict[str, int]:
        """See `Words.parse`.

        Raises:
            UserError: a word that is unknown, given twice or not readable, or a missing field.
        """
        words = (
            split_words(given, lambda: self.example)
            if isinstance(given, str)
            else {str(k): v for k, v in given.items()}
        )
        found: dict[str, int] = {}
        for key, value in words.items():
            if key not in self.keys:
                raise unknown(f"field of a schedule of {self.kernel}", key, self.keys, f"e.g. {self.example}")
            name = MEASURED.get(key, key)
            number = self._number(name, value)
            if found.get(name, number) != number:
                raise UserError(f"the schedule sets {name} to {found[name]} and to {number}: say it once")
            found[name] = number
        missing = [name for name in self.fields if name not in found and name not in self.defaults]
        if missing:
            raise UserError(f"the schedule lacks {', '.join(missing)}; write e.g. {self.example}")
        return {name: found.get(name, self.defaults.get(name, 0)) for name in self.fields}

    def format(self, schedule: Mapping[str, Any]) -> str:
        """See `Words.format`."""
        return " ".join(f"{name}={self._said(name, schedule[name])}" for name in self.fields)

    def short(self, schedule: Mapping[str, Any]) -> str:
        """See `Words.short`: fields at their defaults are left out."""
        differs = [name for name in self.fields if int(schedule[name]) != self.defaults.get(name)]
        return " ".join(f"{name}={self._said(name, schedule[name])}" for name in differs)

    def said(self, field: str, schedule: Mapping[Any, Any]) -> str:
        """See `Words.said`."""
        return self._said(field, schedule[field])

    def cells(self, rows: Sequence[Mapping[Any, Any]]) -> tuple[list[dict[str, str]], str]:
        """See `Words.cells`: a column for each field that varies."""
        varies = [name for name in self.fields if len({int(row[name]) for row in rows}) > 1]
        same = [name for name in self.fields if name not in varies and not self._is_default(name, rows)]
        cells = [{name: self._said(name, row[name]) for name in varies} for row in rows]
        said = [f"{name}={self._said(name, rows[0][name])}" for name in same if rows]
        return cells, f"all: {' '.join(said)}" if said else ""

    @property
    def tile_name(self) -> str:
        """The whole schedule."""
        return "schedule"

    def tile(self, row: Mapping[Any, Any]) -> str:
        """See `Words.tile`."""
        return self.short(row)

    def _from_a_space(self) -> dict[str, int]:
        families = space_families(self.kernel)
        if not families:
            return {}
        space = load_space(self.kernel, families[-1])
        return {name: int(value) for name, value in space.schedule(space.size // 2).items()}

    def _is_default(self, name: str, rows: Sequence[Mapping[Any, Any]]) -> bool:
        return bool(rows) and int(rows[0][name]) == self.defaults.get(name)

    def _said(self, name: str, value: Any) -> str:
        names, number = self.names.get(name, ()), int(value)
        return names[number] if number < len(names) else str(number)

    def _number(self, name: str, value: Any) -> int:
        text, names = str(value).strip(), self.names.get(name, ())
        if text in names:
            return names.index(text)
        readable = re.fullmatch(r"\d+(\.0*)?", text) and float(text) <= LARGEST
        if not readable or (names and float(text) >= len(names)):
            if names:
                raise unknown(name, text, names)
            raise UserError(f"{name}={text} is not allowed: a whole number from 0 to 2^24")
        return int(float(text))


def words_of(kernel: str) -> Words:
    """The words of a kernel's schedules.

    Raises:
        UserError: an unknown kernel, or one without `_fields.toml`.
    """
    own = get_kernel(kernel).words
    if own:
        return attribute(own)
    about = schedule_fields(kernel)
    return FieldWords(
        kernel,
        tuple(about),
        {name: int(entry["default"]) for name, entry in about.items() if "default" in entry},
        {name: tuple(entry["names"]) for name, entry in about.items() if "names" in entry},
        {name: int(entry["example"]) for name, entry in about.items() if "example" in entry},
    )


def schedule_in(kernel: str, row: Mapping[Any, Any]) -> dict[str, int]:
    """The schedule in a row of a result's table."""
    return {name: int(row[name]) for name in words_of(kernel).fields}
