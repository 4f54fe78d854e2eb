"""GEMM's own words for schedules, `dse.schedule_text`, as tables and commands ask for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..schedule_text import (
    EPILOGUES,
    EXAMPLE,
    FIELDS,
    WORDS,
    cluster_label,
    format_schedule,
    launch_label,
    parse_schedule,
    raster_label,
    warps_label,
)


@dataclass(frozen=True)
class GemmWords:
    """See `dse.schedule_words.Words`."""

    fields: tuple[str, ...] = FIELDS
    keys: tuple[str, ...] = (*WORDS, *FIELDS)
    example: str = EXAMPLE
    tile_name: str = "tile"

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """The words of `dse.schedule_text`, and `operands` for swapped ones."""
        return {
            "tile": ("tile_m", "tile_n", "tile_k"),
            "stages": ("stages",),
            "warps": ("warps_m", "warps_n"),
            "cluster": ("cluster_m", "cluster_n", "cta_pair"),
            "operands": ("swap_ab",),
            "raster": ("raster_along_n", "swizzle"),
            "launch": ("persistent", "sms_free", "split_k", "stream_k"),
            "epilogue": ("epilogue",),
        }

    def parse(self, given: str | Mapping[str, Any], family: str) -> dict[str, int]:
        """`dse.schedule_text.parse_schedule`."""
        return parse_schedule(given, family)

    def format(self, schedule: Mapping[str, Any]) -> str:
        """`dse.schedule_text.format_schedule`."""
        return format_schedule(schedule)

    def short(self, schedule: Mapping[str, Any]) -> str:
        """Without a staged epilogue and a cluster of one."""
        return format_schedule(schedule).replace(" epilogue=staged", "").replace(" cluster=1x1", "")

    def said(self, field: str, schedule: Mapping[Any, Any]) -> str:
        """See `Words.said`."""
        number = int(schedule[field])
        return EPILOGUES[number] if field == "epilogue" else str(number)

    def cells(self, rows: Sequence[Mapping[Any, Any]]) -> tuple[list[dict[str, str]], str]:
        """Tile, stages, warps, cluster, raster and launch of each."""
        return [self._cells(row) for row in rows], ""

    def tile(self, row: Mapping[Any, Any]) -> str:
        """`128x256x64`."""
        return f"{row['tile_m']:.0f}x{row['tile_n']:.0f}x{row['tile_k']:.0f}"

    def _cells(self, row: Mapping[Any, Any]) -> dict[str, str]:
        return {
            "tile": f"{self.tile(row)}{' swapped' if row.get('swap_ab') else ''}",
            "stages": f"{row['stages']:.0f}",
            "warps": warps_label(row),
            "cluster": cluster_label(row),
            "raster": raster_label(row),
            "launch": f"{launch_label(row)} {EPILOGUES[int(row['epilogue'])]}",
        }


WORDS_OF_GEMM = GemmWords()
