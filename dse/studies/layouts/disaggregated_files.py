"""The folder of a sweep of prefill and decode on GPUs of their own: Parquet tables and a summary."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...content.files import home_expanded
from ...errors import UserError
from ...provenance import how_made, step_model_hash
from ...serving.disaggregated import COLUMNS, Disaggregated
from ...serving.layouts import FIELDS
from ...serving.serve import LayoutResult, Service
from ..answer_folder import write_table, write_text
from .files import SUMMARY, described, read_summary, service_facts, with_words

if TYPE_CHECKING:
    import pandas as pd

KIND = "disaggregated"
FILES = ("front.parquet", "prefill.parquet", "decode.parquet", SUMMARY, "report.html")
SIDES = ("prefill", "decode")


def write_disaggregated(found: Disaggregated, service: Service, folder: Path, command_line: str) -> None:
    """Writes everything.

    Raises:
        UserError: a file cannot be written.
    """
    summary = {
        "kind": KIND,
        **service_facts(service),
        "sides": {"prefill": side_facts(found.prefill), "decode": side_facts(found.decode)},
        "front_points": len(found.front),
        "seconds": found.seconds,
    }
    made = {"schema_version": 1, **summary, "model_hash": step_model_hash(), "seed": None, **how_made(command_line)}
    front = with_words(with_words(found.front, "decode_"), "prefill_")
    write_table(folder / "front.parquet", front, described_pair, made)
    for name, side in zip(SIDES, (found.prefill, found.decode), strict=True):
        write_table(folder / f"{name}.parquet", with_words(side.front), described, made)
    write_text(folder / SUMMARY, json.dumps(summary | {"provenance": how_made(command_line)}, indent=1))


@dataclass(frozen=True)
class DisaggregatedRun:
    """A folder, opened.

    Attributes:
        path: of the folder.
        summary: what `write_disaggregated` wrote.
        front: of pairs of layouts.
        sides: "prefill" and "decode" -> the layouts that pairs are made of.
    """

    path: Path
    summary: Mapping[str, Any]
    front: "pd.DataFrame"
    sides: "Mapping[str, pd.DataFrame]"


def is_disaggregated(path: str | os.PathLike[str]) -> bool:
    """Whether a folder holds such a sweep."""
    return read_summary(home_expanded(path)).get("kind") == KIND


def open_disaggregated(path: str | os.PathLike[str]) -> DisaggregatedRun:
    """Opens a folder.

    Raises:
        UserError: it holds no such sweep, or a damaged one.
    """
    import pandas as pd

    folder = home_expanded(path)
    summary = read_summary(folder)
    if summary.get("kind") != KIND:
        raise UserError(
            f"{folder} holds no sweep of prefill and decode: give one of dse sweep sharding --disaggregated"
        )
    try:
        front, *sides = (pd.read_parquet(folder / f"{name}.parquet") for name in ("front", *SIDES))
    except (OSError, ValueError) as error:
        raise UserError(f"{folder} is damaged ({error}): run the sweep again with --overwrite") from None
    return DisaggregatedRun(folder, summary, front, dict(zip(SIDES, sides, strict=True)))


def side_row(run: DisaggregatedRun, side: str, pair: Mapping[Any, Any]) -> dict[Any, Any]:
    """The layout of one side of a pair, with what it achieves by itself."""
    table = run.sides[side]
    same = (table[list(FIELDS)] == [pair[f"{side}_{name}"] for name in FIELDS]).all(axis=1)
    return table[same].iloc[0].to_dict()


def side_facts(side: LayoutResult) -> dict[str, Any]:
    """What was looked at on one side."""
    return {
        "layouts": side.layouts,
        "reasons": dict(side.reasons),
        "kernel_problems": side.kernel_problems,
        "schedules": side.schedules,
        "front_layouts": side.front_layouts,
    }


def described_pair(name: str) -> tuple[str, str]:
    """(unit, meaning) of a column of the front."""
    if name in COLUMNS:
        return COLUMNS[name]
    side, _, field = name.partition("_")
    unit, meaning = described(field)
    return unit, f"of a {side} instance: {meaning}"
