"""What `dse sweep sharding` says, as text and as JSON."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..serving.breakdown import KINDS
from ..serving.layout_words import layout_text
from ..serving.layouts import REASONS
from ..serving.outcomes import COLUMNS
from ..serving.serve import LayoutResult
from ..studies.layouts.points import named
from .serve_text import SHORT, head_lines, outcome_table, service_dict
from .show import table

if TYPE_CHECKING:
    import pandas as pd

    from ..space import Space

SHOWN = 16  # layouts of the front; all are in the files and in JSON


def result_text(result: LayoutResult, space: "Space", parts: "pd.DataFrame", folder: Path | None) -> str:
    """Everything that a sweep found, in words."""
    phase = result.service.workload.phase
    lines = [*head_lines(result.service), "", *reason_lines(space.name, result.layouts, result.reasons), ""]
    if not len(result.best):
        return "\n".join(
            [*lines, "no layout can run: see the reasons above; dse serve with its degrees says more of one"]
        )
    lines += [
        f"the best {len(result.best)} by tokens/s a GPU",
        outcome_table(result.best.to_dict("records"), phase=phase),
    ]
    shown = result.front.iloc[thinned(len(result.front), SHOWN)]
    lines += [
        "",
        f"front over {', '.join(result.objectives)}: {result.front_layouts:,} layouts",
        front_table(shown, phase),
    ]
    if len(shown) < len(result.front):
        lines.append(f"{len(shown)} of {len(result.front)} that are kept; all with --out or --json")
    lines += ["", "where the time goes", share_table(result.front, parts), "", counted(result)]
    lines += chunk_lines(space, phase)
    if folder:
        lines += written_lines(folder, ("front", "best", "parts"))
    return "\n".join(lines)


def chunk_lines(space: "Space", phase: str) -> list[str]:
    """A hint where only whole prompts are looked at."""
    chunks = space.axis("chunk").column("chunk") if "chunk" not in space.fixed else (space.fixed["chunk"],)
    if phase != "serve" or any(chunks):
        return []
    return ["", "prompts are prefilled whole; --axis chunk=0,512,2048 looks at chunked prefill too"]


def reason_lines(space: str, layouts: int, reasons: Mapping[str, int]) -> list[str]:
    """How many layouts can run, and why the others cannot."""
    runs = reasons.get("runs", 0)
    others = [(name, count) for name, count in reasons.items() if name != "runs"]
    head = f"space {space}: {layouts:,} layouts, {runs:,} can run ({100 * runs / max(layouts, 1):.2g} %)"
    lines = [f"{head}; the others:" if others else head]
    width = max((len(f"{count:,}") for _, count in others), default=0)
    return lines + [f"  {name:<18}{count:>{width},}  {REASONS[name]}" for name, count in others]


def front_table(rows: "pd.DataFrame", phase: str) -> str:
    """Layouts of a front."""
    return outcome_table(rows.to_dict("records"), numbered=False, phase=phase)


def share_table(front: "pd.DataFrame", parts: "pd.DataFrame") -> str:
    """A row a chosen layout and kind of step: shares of kernels, collectives and the rest."""
    rows = []
    for letter, text, _ in named(front):
        own = parts[parts["point"] == letter]
        for phase, part in own.groupby("phase", sort=False):
            total = part["seconds"].sum()
            kinds = part.groupby("kind", sort=False)["seconds"].sum()
            rows.append(
                {"": letter, "layout": text, "step": str(phase), "ms": f"{total * 1e3:.2f}"}
                | {SHORT.get(kind, KINDS[kind]): f"{100 * kinds.get(kind, 0.0) / total:.1f} %" for kind in KINDS}
            )
    unused = [name for name in (rows[0] if rows else {}) if all(row[name] == "0.0 %" for row in rows)]
    return table(
        [{name: cell for name, cell in row.items() if name not in unused} for row in rows], left=("layout", "step")
    )


def written_lines(folder: Path, tables: Sequence[str]) -> list[str]:
    """Where the answer is, and what reads it."""
    files = ", ".join([*(f"{name}.parquet" for name in tables), "summary.json"])
    name = shlex.quote(str(folder))
    return [
        f"written to {folder} ({files})",
        f"next: dse report {name};  dse export {name} --to vllm;  dse query {name}",
    ]


def counted(result: LayoutResult) -> str:
    """What was evaluated."""
    return (
        f"{result.layouts:,} layouts, {result.kernel_problems:,} distinct kernel problems tuned over "
        f"{result.schedules:,} schedules, {result.collectives:,} distinct collectives, {result.seconds:.1f} s"
    )


def thinned(rows: int, most: int) -> list[int]:
    """Places of at most so many rows, both ends among them."""
    if rows <= most:
        return list(range(rows))
    return sorted({round(at * (rows - 1) / (most - 1)) for at in range(most)})


def as_dict(result: LayoutResult, space: "Space", parts: "pd.DataFrame", folder: Path | None) -> dict[str, Any]:
    """Everything as plain values, for JSON."""
    return {
        **service_dict(result.service),
        "space": space.name,
        "space_hash": space.hash,
        "layouts": result.layouts,
        "reasons": {name: {"layouts": count, "meaning": REASONS[name]} for name, count in result.reasons.items()},
        "objectives": list(result.objectives),
        "best": _rows(result.best),
        "front": _rows(result.front),
        "front_layouts": result.front_layouts,
        "parts": parts,
        "kernel_problems": result.kernel_problems,
        "schedules": result.schedules,
        "collectives": result.collectives,
        "seconds": result.seconds,
        "columns": {name: {"unit": unit, "meaning": meaning} for name, (unit, meaning) in COLUMNS.items()},
        "folder": None if folder is None else str(folder),
    }


def _rows(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    return [{"layout": layout_text(row), **{str(n): v for n, v in row.items()}} for row in frame.to_dict("records")]
