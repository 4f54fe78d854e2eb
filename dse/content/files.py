"""Where content lives: in a wheel, in an editable checkout, in the user's own folders, or at a path.

Content is data (`hardware/`, `spaces/`, `studies/`). A wheel carries it inside the package as `dse/_content`; a
checkout has it beside the package. Folders listed in the environment variable `DSE_PATH` (separated like PATH) are
laid out in the same way and come first, so that a user's file may replace a packaged one of the same name.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from ..errors import UserError, unknown

PACKAGE = Path(__file__).resolve().parent.parent
VARIABLE = "DSE_PATH"


def content_roots() -> tuple[Path, ...]:
    """Folders that hold `hardware`, `spaces` and `studies`: the user's (`DSE_PATH`), then the package's own."""
    packaged = PACKAGE / "_content"
    return (*user_roots(), packaged if packaged.is_dir() else PACKAGE.parent)


def user_roots() -> tuple[Path, ...]:
    """The user's own folders among them, as `DSE_PATH` names them."""
    return tuple(home_expanded(part) for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part)


def content_files(folder: str, suffix: str = ".toml", skip: Path | None = None) -> dict[str, Path]:
    """All files of a content folder, by name without suffix, e.g. `content_files("hardware/gpus")["h200_sxm"]`.

    Args:
        folder: below a content root, with forward slashes.
        suffix: the files' ending.
        skip: a file to leave out, so that a user's file may build on the packaged one of the same name.
    """
    found: dict[str, Path] = {}
    for path in _walk(folder, suffix):
        if skip is None or path.resolve() != skip.resolve():
            found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def find_content(
    kind: str,
    folder: str,
    name_or_path: str | os.PathLike[str],
    suffix: str = ".toml",
    fix: str = "",
    skip: Path | None = None,
) -> Path:
    """The file that a name or a path means.

    A name is looked up in `content_files(folder)`. Anything with a folder separator, or that ends in `suffix`, is a
    path.

    Args:
        kind: what the file describes, for messages ("GPU").
        folder: below a content root, e.g. "hardware/gpus".
        name_or_path: e.g. "h200_sxm" or "~/my_gpu.toml".
        suffix: the files' ending.
        fix: what else the user can do, for the message about an unknown name.
        skip: a file that the name does not mean.

    Raises:
        UserError: no such name (with the nearest one), or nothing readable at the path.
    """
    text = os.fspath(name_or_path)
    if os.sep in text or "/" in text or text.endswith(suffix):
        path = home_expanded(text)
        if path.is_dir():
            raise UserError(f"{text} is a folder; a {kind} is one {suffix} file")
        if not path.is_file():
            raise UserError(f"no {kind} file at {text}; give the path of an existing {suffix} file or a known name")
        return path
    known = content_files(folder, suffix, skip)
    if text not in known:
        raise unknown(kind, text, known, fix or f"or give the path of your own {suffix} file")
    return known[text]


def home_expanded(path: str | os.PathLike[str]) -> Path:
    """The path with a leading `~` as the user's folder; an unknown `~user` stays as it is."""
    return Path(os.path.expanduser(path))


def _walk(folder: str, suffix: str) -> Iterator[Path]:
    for root in content_roots():
        where = root / folder
        if where.is_dir():
            yield from sorted(where.glob(f"*{suffix}"))
