"""One axis of a schedule space: an ordered list of values, each of which sets one or several schedule fields."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .errors import UserError

LARGEST_VALUE = 2**24  # float32 holds whole numbers up to here exactly


@dataclass(frozen=True)
class Axis:
    """A choice: `fields` are set together to one of `values`.

    A compound axis (several fields) lists only the combinations that make sense, so that neither duplicates nor
    contradictions can be formed by combining axes.

    Attributes:
        name: what a user calls the axis, e.g. "launch".
        fields: names of the schedule fields that the axis sets.
        values: one tuple an entry, one whole number (0 to 2^24) a field, all different.
        labels: one short text an entry without commas or spaces, all different, e.g. "split_k:4".

    Raises:
        UserError: where there is no entry, two are equal, a number is not whole or too large, or a tuple is too long
            or too short.
    """

    name: str
    fields: tuple[str, ...]
    values: tuple[tuple[int, ...], ...]
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.fields or len(set(self.fields)) != len(self.fields):
            raise UserError(f"axis {self.name!r}: fields {list(self.fields)} must be one or more different names")
        if not self.values:
            raise UserError(f"axis {self.name!r}: no values: list at least one")
        if len(self.labels) != len(self.values):
            raise UserError(f"axis {self.name!r}: {len(self.values)} values but {len(self.labels)} labels")
        for entry, label in zip(self.values, self.labels, strict=True):
            if len(entry) != len(self.fields):
                raise UserError(f"axis {self.name!r}: {label!r} must set {', '.join(self.fields)}, but sets {entry}")
            for field, value in zip(self.fields, entry, strict=True):
                if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST_VALUE:
                    raise UserError(
                        f"axis {self.name!r}: {field} = {value!r} is not allowed: a whole number from 0 to 2^24"
                    )
        for kind, entries in (("label", self.labels), ("value", self.values)):
            repeated = _first_repeated(entries)
            if repeated is not None:
                raise UserError(f"axis {self.name!r}: the {kind} {repeated!r} is listed twice: keep it once")

    @classmethod
    def of(cls, name: str, values: Sequence[int]) -> "Axis":
        """An axis that sets the one field of its own name, e.g. `Axis.of("stages", range(2, 9))`."""
        return cls(name, (name,), tuple((value,) for value in values), tuple(str(value) for value in values))

    @property
    def radix(self) -> int:
        """Number of entries."""
        return len(self.values)

    def column(self, field: str) -> tuple[int, ...]:
        """The values of one of the axis's fields, an entry each."""
        place = self.fields.index(field)
        return tuple(entry[place] for entry in self.values)

    def table(self) -> np.ndarray:
        """All values as int64[fields, entries]."""
        return np.array(self.values, dtype=np.int64).T

    def keep(self, digits: Sequence[int]) -> "Axis":
        """The axis with only the given entries, in the given order."""
        return Axis(
            self.name, self.fields, tuple(self.values[d] for d in digits), tuple(self.labels[d] for d in digits)
        )


def _first_repeated(entries: Sequence) -> object | None:
    seen = set()
    for entry in entries:
        if entry in seen:
            return entry
        seen.add(entry)
    return None
