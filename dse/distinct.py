"""The best schedule of each group: of those that agree in some words, such as the tile, only the first is kept."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .errors import unknown
from .schedule_words import words_of

if TYPE_CHECKING:
    import pandas as pd


def distinct_fields(words: str, kernel: str = "gemm") -> tuple[str, ...]:
    """The schedule fields that words name: "tile,stages" -> tile_m, tile_n, tile_k, stages.

    Args:
        words: groups of the kernel's words (`dse.schedule_words.Words.groups`), or names of schedule fields, separated
            by commas.
        kernel: whose schedules.

    Raises:
        UserError: an unknown word, or none.
    """
    known = words_of(kernel)
    found: list[str] = []
    for word in (word.strip() for word in words.split(",")):
        if word not in known.groups and word not in known.fields:
            example = ",".join(list(known.groups or known.fields)[:2])
            names = {*known.groups, *known.fields}
            raise unknown("word to tell schedules apart by", word, names, f"e.g. {example}")
        found += known.groups.get(word, (word,))
    return tuple(dict.fromkeys(found))


def group_of(schedule: Mapping[Any, Any], fields: tuple[str, ...]) -> tuple[int, ...]:
    """What tells a schedule's group: its numbers in these fields."""
    return tuple(int(schedule[name]) for name in fields)


def distinct_rows(table: "pd.DataFrame", words: str, kernel: str = "gemm") -> "pd.DataFrame":
    """The first row of each group of a table of schedules: of one that is sorted by latency, the fastest.

    Schedules that differ in other fields only (for "tile": in stages, warps, cluster, raster, launch, epilogue) are one
    group, however far their latencies lie apart.

    Args:
        table: with a column a schedule field, e.g. `SweepResult.top`.
        words: see `distinct_fields`.
        kernel: whose schedules.

    Raises:
        UserError: an unknown word.
    """
    return table.drop_duplicates(list(distinct_fields(words, kernel))).reset_index(drop=True)
