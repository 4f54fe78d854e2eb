"""Ends what a local Ray leaves behind when the process that started it is killed.

Ray's servers end with that process, but two helpers of its node wait for a minute for a server that is gone. So a
process of its own, started with a pipe from the sweep's, waits until that pipe is closed and then ends them. It imports
nothing of this package: it shall start at once and take no memory.
"""

import contextlib
import os
import select
import signal
import sys
import time

PAUSE_S = 0.5  # most of them end by themselves
TRIES = 10
LOOK_S = 2.0


def end_processes_of(raylets: list[int]) -> bool:
    """Ends the workers and helpers of these raylets; whether there were any."""
    marks = {f"RAY_RAYLET_PID={pid}".encode() for pid in raylets}
    found = False
    for pid in running():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if marks & set(file.read().split(b"\0")):
                    found = True
                    os.kill(pid, signal.SIGKILL)
        except OSError:
            continue
    return found


def children_of(raylets: list[int]) -> dict[int, str]:
    """Their child processes: number -> when it began. A helper that has renamed itself may have overwritten its
    environment, so that the mark in it is gone."""
    seen = {pid: look(pid) for pid in running()}
    return {pid: about[2] for pid, about in seen.items() if about and about[1] in raylets}


def end(children: dict[int, str]) -> bool:
    """Ends those of the children that are still there; whether there were any."""
    found = False
    for pid, began in children.items():
        about = look(pid)
        if about and about[0] != "Z" and about[2] == began:
            found = True
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    return found


def running() -> list[int]:
    """All processes; none where there is no /proc."""
    return [int(entry) for entry in os.listdir("/proc") if entry.isdecimal()] if os.path.isdir("/proc") else []


def look(pid: int) -> tuple[str, int, str] | None:
    """State, parent and beginning of a process; None where it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[1]), fields[19]


if __name__ == "__main__":
    raylets = [int(pid) for pid in sys.argv[1:]]
    children = children_of(raylets)
    while not select.select([sys.stdin], [], [], LOOK_S)[0]:  # until the pipe is closed
        children |= children_of(raylets)
    children |= children_of(raylets)
    for _ in range(TRIES):
        time.sleep(PAUSE_S)
        marked, others = end_processes_of(raylets), end(children)
        if not (marked or others):
            break
