"""What `dse sweep` prints, in words and as JSON: the best schedules, the front and why others do not fit."""

import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from ..result import SweepResult

SHOWN_ROWS = 20  # of the best, however many are kept


def result_text(title: str, result: "SweepResult") -> str:
    """Everything a sweep found, in words: the space, the best, the front, where the files are."""
    from ..kernels.registry import without_interval
    from ..machines import mixed_text
    from ..text import what_if_lines
    from .show import schedule_rows

    job = result.job
    lines = [title, *what_if_lines(job.gpu_changes, job.clock), "", *_space_lines(result), ""]
    if len(result.machines) > 1:
        lines += [mixed_text(result.machines), ""]
    if result.incomplete:
        lines += [f"interrupted: {result.evaluated:,} of {job.candidates:,} points evaluated", ""]
    if not len(result.top):
        lines.append("no schedule fits: see the reasons above" if not result.incomplete else "nothing that fits so far")
        return "\n".join(lines)
    kept = min(len(result.top), max(job.top, 1))
    shown = result.top.head(min(kept, SHOWN_ROWS))
    lines += [
        f"the best {len(shown)}{f' of {kept:,} kept' if kept > len(shown) else ''} by {job.rank_by}",
        schedule_rows(shown, trust=result.trust, kernel=job.space.kernel),
        *([] if result.trust else [without_interval(job.space.kernel)]),
        "",
    ]
    ties = len(result.top) - kept + result.top_ties_dropped
    if ties:
        lines.append(f"{ties:,} more tie with the last of them")
    lines.append(f"front over {', '.join(job.objectives)}: {result.front_points:,} points")
    if result.front_ties_dropped:
        lines.append(
            f"  of which {result.front_ties_dropped:,} equal to others in all objectives are counted, not listed"
        )
    lines.append(f"{result.seconds:.2f} s, {result.rate / 1e6:.1f} M points/s ({result.executor})")
    if result.folder:
        folder = shlex.quote(result.folder)
        lines += [f"written to {result.folder} (Parquet)", _next(folder, job.space.kernel)]
    return "\n".join(lines)


def summary_text(summary: "pd.DataFrame", kernel: str) -> str:
    """The table of a sweep over many shapes, and under it which of them extrapolate or have no schedule that fits."""
    from ..schedule_words import words_of
    from .show import interval_text, table

    rows, words = [], words_of(kernel)
    for row in summary.to_dict("records"):
        fits = row.get("latency_s") is not None and row["latency_s"] == row["latency_s"]
        rows.append(
            {
                "name": str(row["name"]),
                "shape": str(row["shape"]),
                "latency us": f"{row['latency_s'] * 1e6:.2f}" if fits else "none fits",
                "interval us": interval_text(row) if fits else "",
                "TFLOP/s": f"{row['tflop_per_s']:.1f}" if fits else "",
                "binds": str(row["bound_name"]) if fits else "",
                words.tile_name: words.tile(row) if fits else "",
                "front": str(row["front"]),
            }
        )
    lines = [table(rows, left=("name", "shape", "binds", "schedule"))]
    outside: dict[str, list[str]] = {}
    for row in summary.to_dict("records"):
        for text in filter(None, str(row.get("extrapolates") or "").split("; ")):
            outside.setdefault(text, []).append(str(row["name"]))
    lines += [f"extrapolates ({', '.join(names)}): {text}" for text, names in outside.items()]
    none_fits = [(row["name"], row["none_fits"]) for row in summary.to_dict("records") if row["none_fits"]]
    lines += [f"\n{name}: no schedule fits, mostly for {why}" for name, why in none_fits]
    return "\n".join(lines)


def as_dict(result: "SweepResult") -> dict[str, Any]:
    """A result as plain values, for JSON."""
    from ..machines import MIX_TOLERANCE
    from .show import about_job

    return about_job(result.job) | {
        "trust": result.trust.to_dict() if result.trust else None,
        "objectives": list(result.job.objectives),
        "declared": result.declared,
        "evaluated": result.evaluated,
        "skipped": result.skipped,
        "feasible": result.feasible,
        "reasons": result.reasons,
        "histogram": [{"from_s": low, "to_s": high, "points": n} for low, high, n in result.histogram.nonempty()],
        "top": result.top,
        "top_ties": result.top_ties,
        "top_ties_dropped": result.top_ties_dropped,
        "front": result.front,
        "front_points": result.front_points,
        "front_ties_dropped": result.front_ties_dropped,
        "seconds": result.seconds,
        "points_per_s": result.rate,
        "executor": result.executor,
        "machines": [machine.to_dict() for machine in result.machines],
        "tolerance": MIX_TOLERANCE if len(result.machines) > 1 else 0.0,
        "incomplete": result.incomplete,
        "next_index": result.next_index,
        "folder": result.folder,
    }


def _next(folder: str, kernel: str) -> str:
    also = "shortlist, export and report" if kernel == "gemm" else "compare and export"
    return f"next: dse explain {folder} 0; the folder also goes to dse front, sensitivity, {also}"


def _space_lines(result: "SweepResult") -> list[str]:
    from ..summary import advice

    space = result.job.space
    feasible = result.feasible / max(result.evaluated, 1)
    fit = f"{result.feasible:,} fit ({feasible:.1%}); the others:"
    lines = [f"space {space.name}: {result.declared:,} points, {fit}"]
    if result.skipped:
        skipped = result.skipped / max(result.skipped + result.evaluated, 1)
        lines = [
            f"space {space.name}: {result.declared:,} points; {result.skipped:,} ({skipped:.2%}) skipped: by their "
            f"lower bounds none is among the best or on the front, which are those of the whole space",
            f"of the {result.evaluated:,} evaluated {fit}",
        ]
    elif result.job.prune and not result.incomplete:
        why = "; with ddr_bytes among the objectives few can: try --objectives latency_s,smem_bytes"
        lines.insert(
            0,
            "--prune skipped nothing: too few lower bounds say that a block cannot win"
            + (why if "ddr_bytes" in result.job.objectives else ""),
        )
    for name, count in result.reasons.items():
        lines.append(f"  {name:<14}{count:>14,}  {advice(name, space.kernel)}")
    return lines if result.reasons else [line.replace("; the others:", "") for line in lines]
