"""Sections as one HTML file: Jinja2 with autoescape, so that no name from a file becomes markup.

The templates call three values safe: the style and the script of this package, and figures, whose text is escaped where
they are written (`dse.report.drawing`).
"""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from .blocks import Block, Section, figures_of
from .drawing import inline_svg

if TYPE_CHECKING:
    import jinja2

TEMPLATES = Path(__file__).parent / "templates"


def page(title: str, sections: Sequence[Section]) -> str:
    """The whole file: styles, script and figures inside, nothing loaded from elsewhere.

    A content security policy in it forbids every request, and every script but the one that it brings.

    Args:
        title: of the page, as plain text.
        sections: in order; the anchors of sections and the names of figures are all different.
    """
    script, style = _asset("page.js"), _asset("page.css")
    return _environment().get_template("page.html").render(
        title=title,
        sections=sections,
        svg={figure.name: inline_svg(figure) for figure in figures_of(sections)},
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        style=style,
    )  # fmt: skip


@cache
def _environment() -> "jinja2.Environment":
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["kind"] = _kind
    return environment


def _kind(block: Block) -> str:
    return type(block).__name__


def _asset(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
