"""The best schedule of each group: of those that agree in some words, such as the tile, only the first is kept."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .errors import unknown
from .schedule_text import FIELDS

if TYPE_CHECKING:
    import pandas as pd

WORDS: dict[str, tuple[str, ...]] = {
    "tile": ("tile_m", "tile_n", "tile_k"),
    "stages": ("stages",),
    "warps": ("warps_m", "warps_n"),
    "cluster": ("cluster_m", "cluster_n", "cta_pair"),
    "operands": ("swap_ab",),
    "raster": ("raster_along_n", "swizzle"),
    "launch": ("persistent", "sms_free", "split_k", "stream_k"),
    "epilogue": ("epilogue",),
}


def distinct_fields(words: str) -> tuple[str, ...]:
    """The schedule fields that words name: "tile,stages" -> tile_m, tile_n, tile_k, stages.

    Args:
        words: of `WORDS`, or names of schedule fields, separated by commas.

    Raises:
        UserError: an unknown word, or none.
    """
    found: list[str] = []
    for word in (word.strip() for word in words.split(",")):
        if word not in WORDS and word not in FIELDS:
            raise unknown("word to tell schedules apart by", word, {*WORDS, *FIELDS}, "e.g. tile,stages")
        found += WORDS.get(word, (word,))
    return tuple(dict.fromkeys(found))


def group_of(schedule: Mapping[Any, Any], fields: tuple[str, ...]) -> tuple[int, ...]:
    """What tells a schedule's group: its numbers in these fields."""
    return tuple(int(schedule[name]) for name in fields)


def distinct_rows(table: "pd.DataFrame", words: str) -> "pd.DataFrame":
    """The first row of each group of a table of schedules: of one that is sorted by latency, the fastest.

    Schedules that differ in other fields only (for "tile": in stages, warps, cluster, raster, launch, epilogue) are one
    group, however far their latencies lie apart.

    Args:
        table: with a column a schedule field, e.g. `SweepResult.top`.
        words: see `distinct_fields`.

    Raises:
        UserError: an unknown word.
    """
    return table.drop_duplicates(list(distinct_fields(words))).reset_index(drop=True)
