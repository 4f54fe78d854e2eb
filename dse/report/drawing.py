"""Figures drawn by matplotlib: as SVG inside the page, and as PNG and SVG files for papers.

Colours are Okabe and Ito's, which readers with any colour vision tell apart; every mark that means something has a
label of its own besides. In the page the colours become CSS variables, so that a dark screen has its own.
"""

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..figure_file import drawn
from .blocks import Figure

INK, MUTED, GRID, PAPER = "#1b1f24", "#5b6570", "#d9dee3", "#fdfdfe"
BLUE, SKY, GREEN, ORANGE, VERMILLION, PURPLE, OLIVE, GREY = (
    "#0072b2", "#56b4e9", "#009e73", "#e69f00", "#d55e00", "#cc79a7", "#a89a2a", "#8a939d",
)  # fmt: skip
VARIABLES = {
    INK: "ink", MUTED: "muted", GRID: "line", PAPER: "paper", BLUE: "blue", SKY: "sky", GREEN: "green",
    ORANGE: "orange", VERMILLION: "vermillion", PURPLE: "purple", OLIVE: "olive", GREY: "grey",
}  # fmt: skip
SVG = "{http://www.w3.org/2000/svg}"
XLINK = "{http://www.w3.org/1999/xlink}href"
SETTINGS: Any = {
    "font.family": ["DejaVu Sans"], "xtick.labelsize": 8, "ytick.labelsize": 8, "legend.fontsize": 8,
    "axes.titlesize": 9, "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.labelsize": 8.5,
    "axes.edgecolor": MUTED, "axes.labelcolor": INK, "axes.titlecolor": INK, "text.color": INK,
    "xtick.color": MUTED, "ytick.color": MUTED, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
    "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.8, "axes.axisbelow": True,
    "grid.color": GRID, "grid.linewidth": 0.7, "figure.facecolor": PAPER, "axes.facecolor": "none",
    "savefig.facecolor": PAPER, "legend.frameon": False, "path.simplify": False,
    "text.parse_math": False,  # names come from files: a `$` in one is a dollar
}  # fmt: skip
PNG_DPI = 220


def inline_svg(figure: Figure) -> str:
    """The figure as an `<svg>` element for a page: ids of its own, text as text, CSS variables for colours, and a
    title and description as its text alternative."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "figure.svg"
        _draw(figure, path)
        root = ET.fromstring(path.read_bytes())
    _own_ids(root, f"{figure.name}-")
    _own_colours(root)
    for parent in list(root.iter()):
        for child in [
            at for at in parent if at.tag in (f"{SVG}metadata", f"{SVG}style")
        ]:  # a rule for `*`: see page.css
            parent.remove(child)
    for name, text in (("desc", figure.message), ("title", figure.title)):
        told = ET.Element(f"{SVG}{name}", {"id": f"{figure.name}-{name}"})
        told.text = text
        root.insert(0, told)
    root.attrib |= {"role": "img", "aria-labelledby": f"{figure.name}-title {figure.name}-desc"}
    return _plain_names(root)


def save_figure(figure: Figure, folder: Path) -> list[Path]:
    """Writes NAME.png and NAME.svg into a folder that exists.

    Raises:
        UserError: a file cannot be written.
    """
    paths = [folder / f"{figure.name}.{ending}" for ending in ("png", "svg")]
    for path in paths:
        _draw(figure, path)
    return paths


def _draw(figure: Figure, path: Path) -> None:
    import matplotlib

    with matplotlib.rc_context(SETTINGS), drawn(path, *figure.size_in) as canvas:
        figure.draw(canvas)


def _own_ids(root: ET.Element, prefix: str) -> None:
    """Ids of several figures must not meet in one page."""
    for at in root.iter():
        for name, value in at.attrib.items():
            if name == "id":
                at.attrib[name] = prefix + value
            elif name in ("href", XLINK) and value.startswith("#"):
                at.attrib[name] = f"#{prefix}{value[1:]}"
            elif "url(#" in value:
                at.attrib[name] = value.replace("url(#", f"url(#{prefix}")


def _own_colours(root: ET.Element) -> None:
    """The page's variables in place of colours: a dark screen has its own."""
    for at in root.iter():
        if "style" in at.attrib:
            at.attrib["style"] = _variables(at.attrib["style"])
        for name in ("fill", "stroke"):
            if name in at.attrib:
                at.attrib["style"] = f"{name}: {_variables(at.attrib.pop(name))}; {at.attrib.get('style', '')}"


def _variables(text: str) -> str:
    return re.sub(r"#[0-9a-f]{6}\b", _variable, text)


def _variable(match: re.Match[str]) -> str:
    name = VARIABLES.get(match[0])
    return f"var(--{name})" if name else match[0]


def _plain_names(root: ET.Element) -> str:
    """As HTML has it: no namespaces, `href` alone."""
    for at in root.iter():
        at.tag = at.tag.removeprefix(SVG)
        if XLINK in at.attrib:
            at.attrib["href"] = at.attrib.pop(XLINK)
    return ET.tostring(root, encoding="unicode")
