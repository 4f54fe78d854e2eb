"""The standard streams of a command, however it was started: closed ones (`2>&-`) lead nowhere, and what their encoding
lacks (a path in the C locale) is written as an escape."""

import io
import os
import sys


def make_usable() -> None:
    """Makes those of this process so. A closed one would give its number to the next file that is opened, and all that
    libraries of C write there would go into that file; `print` would turn to standard output in its place."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
