"""Schedule spaces from TOML: the packaged ones by kernel and family, the user's own by path, sub-spaces of both."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import UserError, unknown
from ..restrict import Restrictions
from ..space import Space
from .dtypes import DTYPE_BYTES
from .files import content_files, content_roots, find_content, home_expanded
from .space_axes import read_axis
from .toml import Problems, did_you_mean, read_toml

KEYS = ("kernel", "family", "text", "base", "name", "preset", "fixed", "axis", "restrict", "presets")


@dataclass(frozen=True)
class SpaceEntry:
    """One packaged or user-installed space file, as `dse spaces` lists it.

    Attributes:
        name: "kernel/family".
        kernel: e.g. "gemm".
        family: e.g. "wgmma".
        text: what the space is, one line.
        presets: name -> what it is, one line.
        path: the file.
    """

    name: str
    kernel: str
    family: str
    text: str
    presets: Mapping[str, str]
    path: Path


def load_space(
    kernel: str | os.PathLike[str] = "gemm",
    family: str = "wgmma",
    dtype: str = "bf16",
    preset: str | None = None,
    axes: Restrictions | None = None,
) -> Space:
    """A schedule space from its TOML file, as a whole or restricted.

    Args:
        kernel: name of a kernel ("gemm"), "kernel/family", or the path of the user's own TOML file (then `family` is
            not used).
        family: instruction family: which of the kernel's spaces.
        dtype: element type of the operands; depths that a file gives in bytes become elements of it.
        preset: a ready-made sub-space of the file ("triton", "cutlass", "library", "quick").
        axes: what to keep further, axis or schedule field -> values (see `Space.restrict`); a depth may be given in
            bytes as "128B".

    Raises:
        UserError: unknown kernel, family, dtype, preset or axis; a value that is not there; a file that is wrong (all
            its problems in one message).

    Example:
        space = load_space("gemm", "wgmma", "bf16", preset="cutlass", axes={"tile_m": [64, 128], "split_k": 1})
    """
    if dtype not in DTYPE_BYTES:
        raise unknown("dtype", dtype, DTYPE_BYTES)
    space = _load_file(_path_of(kernel, family), dtype, ())
    if preset is None:
        return _restrict(space, axes or {})
    space = _restrict_to_preset(space, preset)
    try:
        return _restrict(space, axes or {})
    except UserError as error:
        raise UserError(f"{error} (of what the preset {preset} keeps of the space)") from None


def list_spaces() -> tuple[SpaceEntry, ...]:
    """Every space that `load_space` finds by name: the packaged ones and those in the folders of `DSE_PATH`."""
    entries = []
    for kernel in space_kernels():
        for family, path in _family_files(kernel).items():
            content = read_toml(path)
            presets = {name: str(preset.get("text", "")) for name, preset in content.get("presets", {}).items()}
            entries.append(
                SpaceEntry(f"{kernel}/{family}", kernel, family, str(content.get("text", "")), presets, path)
            )
    return tuple(entries)


def space_families(kernel: str) -> tuple[str, ...]:
    """The families for which a kernel has space files, sorted; none of a kernel that has no spaces."""
    return tuple(_family_files(kernel))


def schedule_fields(kernel: str) -> dict[str, dict[str, Any]]:
    """What `spaces/<kernel>/_fields.toml` says of every schedule field, in its order: text, and where they apply unit,
    default, names of the values 0, 1, ..., and in_bytes. A file that holds `base = "KERNEL"` alone means that one's.

    Raises:
        UserError: no such kernel, or it has no such file; bases that lead back to the kernel itself.
    """
    seen: list[str] = []
    while True:
        files = content_files(f"spaces/{kernel}")
        if "_fields" not in files:
            if kernel in space_kernels():
                raise UserError(
                    f"spaces/{kernel} has no file _fields.toml: declare every field of the kernel's schedule there, as "
                    "docs/add-a-kernel.md shows"
                )
            raise unknown("kernel", kernel, space_kernels(), "a kernel's spaces need a file _fields.toml beside them")
        content = _fields_in(files["_fields"], files["_fields"].stat().st_mtime_ns)
        if set(content) != {"base"}:
            return content
        seen.append(kernel)
        kernel = str(content["base"])
        if kernel in seen:
            raise UserError(f"{files['_fields']}: base leads back to {kernel} itself")


@lru_cache(maxsize=64)
def _fields_in(path: Path, _changed_ns: int) -> dict[str, dict[str, Any]]:
    return read_toml(path)


def space_kernels() -> list[str]:
    """Names of the kernels that have a space, packaged or in a folder of `DSE_PATH`."""
    folders = [root / "spaces" for root in content_roots()]
    return sorted({child.name for folder in folders if folder.is_dir() for child in folder.iterdir() if child.is_dir()})


def _family_files(kernel: str) -> dict[str, Path]:
    return {name: path for name, path in content_files(f"spaces/{kernel}").items() if not name.startswith("_")}


def _path_of(kernel: str | os.PathLike[str], family: str) -> Path:
    text = os.fspath(kernel)
    if text.endswith(".toml") or os.path.isdir(text):
        return find_content("space", "spaces", text)
    if "/" in text:
        text, _, family = text.partition("/")
    if text not in space_kernels():
        raise unknown("kernel", text, space_kernels(), "or give the path of your own .toml file")
    files = _family_files(text)
    if not files:
        raise UserError(f"the kernel {text} has no space: add spaces/{text}/FAMILY.toml, as docs/add-a-kernel.md shows")
    if family not in files:
        raise unknown(f"{text} space", family, files, "or give the path of your own .toml file")
    return files[family]


def _load_file(path: Path, dtype: str, below: tuple[Path, ...]) -> Space:
    if path.resolve() in below:
        raise UserError(f"{path}: base leads back to the file itself")
    content = read_toml(path)
    problems = Problems(str(path))
    for key in content:
        if key not in KEYS:
            problems.add(key, f"is not a key of a space file{did_you_mean(key, KEYS)}; known: {', '.join(KEYS)}")
    for key in ("fixed", "restrict", "presets"):
        if not isinstance(content.get(key, {}), dict):
            problems.add(key, f"must be a table, [{key}]")
            content[key] = {}
    for name, preset in content.get("presets", {}).items():
        if not isinstance(preset, dict):
            problems.add(f"presets.{name}", f"must be a table, [presets.{name}]")
    if not isinstance(content.get("axis", []), list):
        problems.add("axis", "must be a list of tables, [[axis]]")
    for key in ("kernel", "family", "base", "name", "preset", "text"):
        if not isinstance(content.get(key, ""), str):
            problems.add(key, f"must be text, not {content[key]!r}")
    if "base" not in content:
        for key in ("kernel", "family"):
            if key not in content:
                problems.add(key, 'is missing: name it, or start from a space with base = "gemm/wgmma"')
    problems.raise_if_any()

    base = None
    if "base" in content:
        named = content["base"]
        where = path.parent / home_expanded(named) if named.endswith(".toml") else named
        base = _load_file(_path_of(where, ""), dtype, (*below, path.resolve()))
    space = _merge(content, path, base, dtype, problems)
    if "preset" in content:
        space = _restrict_to_preset(space, content["preset"])
    return _restrict(space, content.get("restrict", {}))


def _merge(content: dict[str, Any], path: Path, base: Space | None, dtype: str, problems: Problems) -> Space:
    kernel = content.get("kernel", base.kernel if base else "")
    family = base.family if base else content["family"]
    known = schedule_fields(kernel)
    codes = {field: tuple(about["names"]) for field, about in known.items() if "names" in about}
    axes = {axis.name: axis for axis in base.axes} if base else {}
    for place, table in enumerate(content.get("axis", [])):
        axis = read_axis(table, f"axis[{place}]", axes, known, codes, DTYPE_BYTES[dtype], problems)
        if axis is not None:
            axes[axis.name] = axis
    fixed = dict(content.get("fixed", {}))
    for field in fixed:
        if field not in known:
            problems.add(f"fixed.{field}", f"is not a schedule field{did_you_mean(field, known)}")
        elif not isinstance(fixed[field], int) or isinstance(fixed[field], bool) or fixed[field] < 0:
            problems.add(f"fixed.{field}", f"must be a whole number from 0, not {fixed[field]!r}")
    varied = {field for axis in axes.values() for field in axis.fields}
    inherited = {field: value for field, value in (base.fixed if base else {}).items() if field not in varied}
    fixed = inherited | fixed
    for field, about in known.items():
        if field not in varied and field not in fixed:
            if "default" in about:
                fixed[field] = about["default"]
            elif not problems.lines:
                problems.add(field, "is set by no axis: add an [[axis]] that sets it, or a value under [fixed]")
    presets = dict(base.presets if base else {})
    for name, preset in content.get("presets", {}).items():
        presets[name] = {key: value for key, value in preset.items() if key != "text"}
    problems.raise_if_any()
    name = content.get("name", f"{kernel}/{family}" if "kernel" in content else path.stem)
    return Space(name, kernel, family, dtype, tuple(axes.values()), fixed, codes, presets)


def _restrict_to_preset(space: Space, preset: str) -> Space:
    if preset not in space.presets:
        raise unknown(f"preset of the space {space.name}", preset, space.presets)
    return _restrict(space, space.presets[preset])


def _restrict(space: Space, restrictions: Restrictions) -> Space:
    if not restrictions:
        return space
    in_bytes = {field for field, about in schedule_fields(space.kernel).items() if about.get("in_bytes")}
    size = DTYPE_BYTES[space.dtype]
    return space.restrict(
        {name: _in_elements(wanted, size) if name in in_bytes else wanted for name, wanted in restrictions.items()}
    )


def _in_elements(wanted: Any, element_bytes: float) -> Any:
    """128B becomes the number of elements that fill 128 bytes; anything else stays."""
    if isinstance(wanted, str):
        digits = wanted.removesuffix("B")
        return int(int(digits) / element_bytes) if wanted.endswith("B") and digits.isdecimal() else wanted
    if isinstance(wanted, (list, tuple)):
        return [_in_elements(entry, element_bytes) for entry in wanted]
    return wanted
