"""What `dse status` prints: a run, a batch, or a table of many, in words and as plain values for JSON."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..batch_status import BatchStatus

if TYPE_CHECKING:
    from ..run_status import RunStatus

SHOWN_RANGES = 3


def as_dict(status: "RunStatus") -> dict[str, Any]:
    """A status as plain values, for JSON; indices as text, for they may pass 2^53."""
    return {
        "folder": str(status.path),
        "stage": status.stage,
        **status.what,
        "candidates": status.candidates,
        "done": status.done,
        "skipped": status.skipped,
        "share": status.share,
        "missing": [[str(start), str(stop)] for start, stop in status.missing],
        "best": status.best,
        "rank_by": status.rank_by,
        "front_points": status.front_points,
        "parts": status.parts,
        "machines": list(status.machines),
        **_ending(status),
    }


def batch_as_dict(status: BatchStatus) -> dict[str, Any]:
    """A batch's status as plain values, for JSON."""
    return {
        "folder": str(status.path),
        "stage": status.stage,
        "rows": status.rows,
        "gpus": list(status.gpus),
        "kernels": list(status.kernels),
        "top": status.top,
        "parts": status.parts,
        "done": status.done,
        "share": status.share,
        **_ending(status),
    }


def _ending(status: "RunStatus | BatchStatus") -> dict[str, Any]:
    return {
        "written": status.written.isoformat(timespec="seconds") if status.written else None,
        "writer": status.writer,
        "command_line": status.command_line,
        "how_to_go_on": how_to_go_on(status),
        "problems": list(status.problems),
    }


def how_to_go_on(status: "RunStatus | BatchStatus") -> str | None:
    """The command that goes on with an unfinished run or batch; None where there is none."""
    if status.stage != "unfinished" or not status.command_line:
        return None
    words = [word for word in shlex.split(status.command_line) if word != "--overwrite"]
    named = any(word == "--out" or word.startswith("--out=") for word in words)
    return shlex.join(words if named else [*words, "--out", str(status.path)])


def status_text(status: "RunStatus") -> str:
    """One run's status, in words."""
    from ..machines import MIX_TOLERANCE
    from ..progress import format_quantity

    what = status.what
    title = " ".join(str(what[name]) for name in ("kernel", "shape") if name in what)
    on = f" on {what['gpu']}" if what.get("gpu") else ""
    lines = [f"{status.path}: {status.stage}", *([f"{title}{on}, space {what.get('space')}"] if title else [])]
    if status.candidates is not None:
        lines.append(f"done     {status.done:,} of {status.candidates:,} points ({_percent(status)})")
    if status.skipped:
        lines.append(f"skipped  {status.skipped:,} of these: by their lower bounds they cannot win (--prune)")
    if status.missing:
        shown = ", ".join(f"{start:,} to {stop:,}" for start, stop in status.missing[:SHOWN_RANGES])
        more = f" and {len(status.missing) - SHOWN_RANGES:,} more ranges" if len(status.missing) > SHOWN_RANGES else ""
        lines.append(f"missing  {shown}{more}")
    if status.best is not None:
        lines.append(f"best     {format_quantity(status.rank_by, status.best)}; front {status.front_points:,} points")
    if status.parts:
        lines.append(f"rows     {status.parts:,} files")
    if status.machines:
        mixed = f" (values agree to {MIX_TOLERANCE:g} only)" if len(status.machines) > 1 else ""
        lines.append(f"on       {'; '.join(status.machines)}{mixed}")
    return "\n".join(lines + _last_lines(status))


def batch_text(status: BatchStatus) -> str:
    """One batch's status, in words."""
    lines = [f"{status.path}: {status.stage}"]
    if status.parts:
        lines += [
            f"batch of {_problems(status)} on {', '.join(status.gpus)} ({', '.join(status.kernels)})",
            f"done     {status.done:,} of {status.parts:,} parts ({_percent(status)})",
        ]
    return "\n".join(lines + _last_lines(status))


def _last_lines(status: "RunStatus | BatchStatus") -> list[str]:
    lines = []
    if status.written:
        lines.append(f"written  {status.written.astimezone():%Y-%m-%d %H:%M:%S}, {_ago(status.written)} ago")
    if status.writer is not None:
        lines.append(f"a process writes into it now{f' (process {status.writer})' if status.writer else ''}")
    lines += [f"problem  {text}" for text in status.problems]
    command = how_to_go_on(status)
    if command:
        lines += ["to go on:", f"  {command}"]
    elif status.stage == "unfinished":
        lines.append("to go on: the command or call that began it, with the same folder")
    return lines


def table_text(found: "Sequence[RunStatus | BatchStatus]") -> str:
    """Many runs and batches, a line each."""
    from .show import table

    rows = [
        {
            "folder": str(status.path),
            "stage": status.stage,
            "done": _percent(status),
            **_amount(status),
            "written": f"{_ago(status.written)} ago" if status.written else "",
        }
        for status in found
    ]
    stages = [status.stage for status in found]
    batches = sum(isinstance(status, BatchStatus) for status in found)
    kinds = [(len(found) - batches, "run", "runs"), (batches, "batch", "batches")]
    many = " and ".join(f"{count} {one if count == 1 else more}" for count, one, more in kinds if count)
    count = ", ".join(f"{stages.count(stage)} {stage}" for stage in dict.fromkeys(stages))
    problems = [f"{status.path}: {text}" for status in found for text in status.problems]
    return "\n".join([table(rows, left=("folder", "stage", "best")), "", f"{many}: {count}", *problems])


def _amount(status: "RunStatus | BatchStatus") -> dict[str, str]:
    from ..progress import format_quantity

    if isinstance(status, BatchStatus):
        return {"of": f"{status.parts:,} parts" if status.parts else "", "best": f"batch, {_problems(status)}"}
    return {
        "of": f"{status.candidates:,} points" if status.candidates else "",
        "best": format_quantity(status.rank_by, status.best) if status.best is not None else "",
    }


def _problems(status: BatchStatus) -> str:
    return f"{status.rows:,} problem{'' if status.rows == 1 else 's'}"


def _percent(status: "RunStatus | BatchStatus") -> str:
    share = status.share
    return "?" if share is None else "100 %" if share >= 1.0 else f"{min(99.9, 100 * share):.1f} %"


def _ago(then: datetime) -> str:
    seconds = max(0.0, (datetime.now(UTC) - then).total_seconds())
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
