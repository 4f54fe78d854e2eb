"""Figures as files: the same numbers give the same bytes, and text in an SVG stays text."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .content.files import home_expanded
from .errors import UserError

ENDINGS = (".png", ".svg", ".pdf")
# told apart without colour vision (Okabe and Ito)
COLOURS = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#d55e00",
    "#56b4e9",
    "#555555",
)
_SETTINGS: Any = {"svg.hashsalt": "tilesweep", "svg.fonttype": "none", "font.size": 9}
_NO_STAMP = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def check_figure_path(path: str | os.PathLike[str]) -> Path:
    """The path, once a figure can be written there: known ending, folder present.

    Raises:
        UserError: naming what is missing and the fix.
    """
    target = home_expanded(path)
    if target.suffix.lower() not in ENDINGS:
        raise UserError(f"a figure ends in {', '.join(ENDINGS)}, not {target.suffix or 'nothing'!r}: {path}")
    if not target.absolute().parent.is_dir():
        raise UserError(f"no folder {target.absolute().parent} for the figure; make it first")
    return target


@contextmanager
def drawn(path: str | os.PathLike[str], width_inches: float, height_inches: float) -> Iterator[Any]:
    """A matplotlib `Figure` to draw on, written to `path` where the block ends without an error.

    Args:
        path: ends in .png, .svg or .pdf.
        width_inches, height_inches: of the figure.

    Raises:
        UserError: what `check_figure_path` raises, and a file that cannot be written.
    """
    target = check_figure_path(path)
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(width_inches, height_inches), layout="constrained")
        yield figure
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Glyph")  # a name in a script that the font lacks is shown as boxes
                figure.savefig(target, dpi=150, metadata=_NO_STAMP[target.suffix.lower()])
        except OSError as error:
            raise UserError(f"cannot write {target}: {error.strerror or error}; choose another path") from error
