"""The folder of a sweep of prefill and decode on GPUs of their own: Parquet tables and a summary."""

import json
from pathlib import Path
from typing import Any

from ...provenance import how_made, model_hash
from ...serving.disaggregated import COLUMNS, Disaggregated
from ...serving.serve import LayoutResult, Service
from ..answer_folder import write_table, write_text
from .files import SUMMARY, described, service_facts, with_words

KIND = "disaggregated"
FILES = ("front.parquet", "prefill.parquet", "decode.parquet", SUMMARY)
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
    made = {"schema_version": 1, **summary, "model_hash": model_hash(), "seed": None, **how_made(command_line)}
    front = with_words(with_words(found.front, "decode_"), "prefill_")
    write_table(folder / "front.parquet", front, described_pair, made)
    for name, side in zip(SIDES, (found.prefill, found.decode), strict=True):
        write_table(folder / f"{name}.parquet", with_words(side.front), described, made)
    write_text(folder / SUMMARY, json.dumps(summary | {"provenance": how_made(command_line)}, indent=1))


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
