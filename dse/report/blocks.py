"""What a report is made of: sections of paragraphs, notices, facts, tables and figures. Values only, no HTML."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes:
        text: what is shown.
        key: what the column is sorted by; None: the text.
    """

    text: str
    key: float | None = None


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        caption: what its rows are.
        head: names of the columns, units included.
        rows: cells, a column each.
        numeric: places of the columns that hold numbers: flush right.
        sortable: whether a reader may sort it.
        more: what the rows leave out; "": nothing.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numeric: frozenset[int] = frozenset()
    sortable: bool = True
    more: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure with what it says in words and numbers.

    Attributes:
        name: its file name without ending, and its anchor in the page.
        title: one line.
        message: what it shows, with the numbers; its text alternative.
        draw: draws it into an empty matplotlib figure.
        data: what is drawn.
        size_in: width and height in inches.
    """

    name: str
    title: str
    message: str
    draw: Callable[[Any], None]
    data: Table
    size_in: tuple[float, float] = (7.4, 3.6)


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: str


@dataclass(frozen=True)
class Notice:
    """What a reader must know first: a run that is not complete, a number that is extrapolated."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of remarks, with what they are about in front."""

    about: str
    items: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """Named values, the value first: (name, value, what it rests on; may be "").

    Attributes:
        entries: of the list.
        large: shown as figures at the head of the page.
    """

    entries: tuple[tuple[str, str, str], ...]
    large: bool = False


@dataclass(frozen=True)
class Folded:
    """Blocks that a reader opens: long tables.

    Attributes:
        summary: the line that opens them.
        blocks: what is behind it.
        printed: whether they are open on paper.
    """

    summary: str
    blocks: "tuple[Block, ...]"
    printed: bool = True


Block: TypeAlias = Paragraph | Notice | Bullets | Facts | Table | Figure | Folded


@dataclass(frozen=True)
class Section:
    """A section of the page.

    Attributes:
        anchor: its id.
        title: its heading.
        blocks: what it shows, in order.
    """

    anchor: str
    title: str
    blocks: tuple[Block, ...]


def figures_of(sections: Sequence[Section]) -> list[Figure]:
    """All figures, in the order in which they stand in the page."""

    def inside(blocks: Sequence[Block]) -> list[Figure]:
        found: list[Figure] = []
        for block in blocks:
            if isinstance(block, Figure):
                found.append(block)
            elif isinstance(block, Folded):
                found += inside(block.blocks)
        return found

    return [figure for section in sections for figure in inside(section.blocks)]


def number(value: float, text: str) -> Cell:
    """A cell that shows `text` and sorts by `value`."""
    return Cell(text, float(value))


def words(text: Any) -> Cell:
    """A cell of text."""
    return Cell(str(text))
