"""Ends what a local Ray leaves behind when the process that started it is killed.

Ray's servers end with that process, but two helpers of its node wait for a minute for a server that is gone. So a
process of its own, started with a pipe from the sweep's, waits until that pipe is closed and then ends them. It imports
nothing of this package: it shall start at once and take no memory.
"""

import os
import signal
import sys
import time

PAUSE_S = 0.5  # most of them end by themselves
TRIES = 10


def end_processes_of(raylets: list[int]) -> bool:
    """Ends the workers and helpers of these raylets; whether there were any."""
    marks = {f"RAY_RAYLET_PID={pid}".encode() for pid in raylets}
    found = False
    for entry in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else []):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if marks & set(file.read().split(b"\0")):
                    found = True
                    os.kill(int(entry), signal.SIGKILL)
        except OSError:
            continue
    return found


if __name__ == "__main__":
    sys.stdin.read()
    for _ in range(TRIES):
        time.sleep(PAUSE_S)
        if not end_processes_of([int(pid) for pid in sys.argv[1:]]):
            break
