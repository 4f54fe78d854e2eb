"""Schedules as JSON or CSV: every field of the schedule, with what was predicted of it and why."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from ..schedule_words import words_of
from .choose import choose
from .entry import Entry, Exported
from .text import exported

PREDICTED = ("latency_s", "latency_low_s", "latency_high_s", "tflop_per_s", "bound", "reason")


def export_columns(problem: Any) -> tuple[str, ...]:
    """The names beside a schedule's fields: index, gpu, the problem (of gemm m, n, k, batch and dtype, of other kernels
    shape, dtype and every choice), family, the fields, then what is predicted."""
    return ("index", "gpu", *_about(problem), "family", *words_of(problem.kernel).fields, *PREDICTED)


def export_json(
    entries: Sequence[Entry], problem: Any, family: str, gpu_name: str, *, what_if: Sequence[str] = (), **choice: Any
) -> Exported:
    """A list of objects, one a schedule, with the names of `export_columns`; `dse rank` and `dse prune` read it.

    Args:
        entries: schedules, best first.
        problem: the user's problem.
        family: the schedules' instruction family.
        gpu_name: of the GPU.
        what_if: what was changed of the GPU, behind its name.
        choice: count, fallback, group of `dse.export.choose.choose`.
    """
    rows, made = _rows(entries, problem, family, gpu_name, what_if, **choice)
    text = ",\n".join(f" {json.dumps(row, allow_nan=False)}" for row in rows)
    return exported([f"[\n{text}\n]" if rows else "[]"], made)


def export_csv(
    entries: Sequence[Entry], problem: Any, family: str, gpu_name: str, *, what_if: Sequence[str] = (), **choice: Any
) -> Exported:
    """A table with the columns `export_columns`, as `export_json`; of gemm, with a column latency_us added, it is a
    table of measured schedules as `dse validate schedules` reads it."""
    rows, made = _rows(entries, problem, family, gpu_name, what_if, **choice)
    file = io.StringIO()
    writer = csv.DictWriter(file, export_columns(problem), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return exported([file.getvalue().removesuffix("\n")], made)


def _rows(
    entries: Sequence[Entry],
    problem: Any,
    family: str,
    gpu_name: str,
    what_if: Sequence[str],
    **choice: Any,
) -> tuple[list[dict[str, Any]], Any]:
    gpu = "; ".join([gpu_name, *(" ".join(line.split()) for line in what_if)])
    about, fields = _about(problem), words_of(problem.kernel).fields

    def express(entry: Entry) -> dict[str, Any] | str:
        low, high = entry.interval_s or (None, None)
        return {
            "index": entry.index,
            "gpu": gpu,
            **about,
            "family": family,
            **{name: int(entry.schedule[name]) for name in fields},
            "latency_s": entry.latency_s,
            "latency_low_s": low,
            "latency_high_s": high,
            "tflop_per_s": entry.tflop_per_s,
            "bound": entry.bound,
            "reason": entry.reason,
        }

    chosen = choose(entries, express, **choice)
    return [row for _, row in chosen.made], chosen


def _about(problem: Any) -> dict[str, Any]:
    if problem.kernel == "gemm":
        return {name: getattr(problem, name) for name in ("m", "n", "k", "batch", "dtype")}
    names = [choice.name for choice in problem.CHOICES]
    return {"shape": problem.shape, "dtype": problem.dtype, **{name: getattr(problem, name) for name in names}}
