"""Published measurements beside predictions: what the commands that validate against papers print, told once.

A publication measured several problems. Its rows are a dataclass each, with `what` naming the publication's table and
properties for the errors; each command says how a table of its rows looks.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, ClassVar, Protocol, TypeVar


class Published(Protocol):
    """A row: one published measurement and the prediction of it, a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def what(self) -> str:
        """What was measured; rows that agree in it stand in one table."""
        ...


Row = TypeVar("Row", bound=Published)


def show_published(
    rows: Sequence[Row],
    as_json: bool,
    errors: Sequence[str],
    table_of: Callable[[list[Row]], str],
    below: Callable[[Sequence[Row]], Sequence[str]] = lambda rows: (),
) -> int:
    """Prints the rows, as one JSON document or as a table for each thing that was measured.

    Args:
        rows: in the order of the publications.
        as_json: every row with its errors.
        errors: names of the rows' properties that JSON holds beside their fields.
        table_of: the table of rows that agree in `what`, with its head.
        below: paragraphs about all rows.

    Returns:
        The command's exit code.
    """
    from .show import print_json

    if as_json:
        print_json([asdict(row) | {name: getattr(row, name) for name in errors} for row in rows])
        return 0
    tables = [table_of([row for row in rows if row.what == what]) for what in dict.fromkeys(row.what for row in rows)]
    print("\n\n".join([*tables, *below(rows)]))
    return 0
