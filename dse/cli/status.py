"""How far a run is: what it is, how much is done, the best so far, whether a process writes into it, how to go on.

  dse status runs/mine
  dse status runs                             every run in the folder, a line each

It reads the folder's files only: a run that goes on at this moment is not disturbed, and what it shows is its last
checkpoint (the first after a second, then so often that they take 1 % of the time). Exit code 1 where a folder is
damaged.
"""

import argparse
import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..run_status import RunStatus

SHOWN_RANGES = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("folder", metavar="FOLDER", help="of a run, or one that holds runs")
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Prints the status; exit code 1 where a run is damaged."""
    from ..run_status import run_status
    from .show import print_json

    found = run_status(arguments.folder)
    if arguments.json:
        print_json({"runs": [as_dict(status) for status in found]})
    elif len(found) == 1:
        print(status_text(found[0]))
    else:
        print(_table(found))
    return int(any(status.stage == "damaged" for status in found))


def as_dict(status: "RunStatus") -> dict[str, Any]:
    """A status as plain values, for JSON; indices as text, for they may pass 2^53."""
    return {
        "folder": str(status.path),
        "stage": status.stage,
        **status.what,
        "candidates": status.candidates,
        "done": status.done,
        "share": status.share,
        "missing": [[str(start), str(stop)] for start, stop in status.missing],
        "best": status.best,
        "rank_by": status.rank_by,
        "front_points": status.front_points,
        "parts": status.parts,
        "machines": list(status.machines),
        "written": status.written.isoformat(timespec="seconds") if status.written else None,
        "writer": status.writer,
        "command_line": status.command_line,
        "how_to_go_on": how_to_go_on(status),
        "problems": list(status.problems),
    }


def how_to_go_on(status: "RunStatus") -> str | None:
    """The command that goes on with an unfinished run; None where there is none."""
    if status.stage != "unfinished" or not status.command_line:
        return None
    words = shlex.split(status.command_line)
    return status.command_line if "--out" in words else shlex.join([*words, "--out", str(status.path)])


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
    return "\n".join(lines)


def _table(found: "list[RunStatus]") -> str:
    from ..progress import format_quantity
    from .show import table

    rows = [
        {
            "folder": str(status.path),
            "stage": status.stage,
            "done": _percent(status),
            "points": f"{status.candidates:,}" if status.candidates else "",
            "best": format_quantity(status.rank_by, status.best) if status.best is not None else "",
            "written": f"{_ago(status.written)} ago" if status.written else "",
        }
        for status in found
    ]
    stages = [status.stage for status in found]
    count = ", ".join(f"{stages.count(stage)} {stage}" for stage in dict.fromkeys(stages))
    problems = [f"{status.path}: {text}" for status in found for text in status.problems]
    return "\n".join([table(rows, left=("folder", "stage", "best")), "", f"{len(found)} runs: {count}", *problems])


def _percent(status: "RunStatus") -> str:
    share = status.share
    if share is None:
        return "?"
    return "100 %" if not status.missing else f"{min(99.9, 100 * share):.1f} %"


def _ago(then: datetime) -> str:
    seconds = max(0.0, (datetime.now(UTC) - then).total_seconds())
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
