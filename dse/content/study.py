"""Studies as TOML files: what is asked of which machines, kernels and shapes. Packaged ones by name, your own by path.

title = "A bigger L2"
question = "What would more L2 buy for Llama-3-70B prefill?"
gpu = "h200_sxm"
shapes = "llama3_70b_prefill"          # a list by name or path, or ["8192x8192x8192", ...]
preset = "cutlass"

[[axis]]
field = "l2_capacity_bytes"
from = 16e6
to = 512e6
count = 16
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .files import content_files, find_content
from .hardware_axis import HardwareAxis, read_hardware_axes
from .layout_study import SHARDING, LayoutStudy, layout_study_text, read_layout_study
from .toml import Problems, did_you_mean, read_toml
from .toml_text import axis_lines, toml_key, toml_value

FOLDER = "studies"
REFINEMENTS = ("family", "accumulator", "clock", "out_dtype", "layout", "beta", "cache", "align_bytes", "quantise_a")
TEXTS = ("title", "question", "kernel", "gpu", "dtype", "space", "preset", "combine")
WORDS = ("family", "accumulator", "clock", "out_dtype", "layout", "cache")
SWITCHES = ("beta", "quantise_a", "figures")
KEYS = (*TEXTS, "gpus", "shapes", "restrict", "set", "choices", "axis", "front", "figures", "measured", *REFINEMENTS)
BESIDE_MEASURED = ("title", "question", "gpus", "figures", "measured")
MEASURED_KEYS = ("part", "preset", "table", "source")


@dataclass(frozen=True)
class Study:
    """What is asked.

    Attributes:
        name: of the file, without ending.
        title, question: in words.
        kernel: name of the kernel.
        gpus: names or paths; with axes each is varied by itself, without they are compared, the first the baseline.
        dtype: input type of shapes that do not say their own.
        shapes: name or path of a shape list, or shapes as texts.
        axes: what is varied.
        combine: "each" or "grid", see `dse.studies.what_if.machines.varied_machines`.
        overrides: what the baseline changes of its file.
        space, preset, restrict: which schedules are tuned over, as in `dse.api.sweep`.
        refinements: further choices of `dse.question.ask`; those of kernels other than GEMM stand in a table [choices].
        front: quantities of the totals that machines are compared by; empty: no front.
        figures: whether figures are drawn.
        measured: for a comparison with measurements: part, preset, table and source of `dse.validation.speedup`; None:
            there is none.
    """

    name: str
    gpus: tuple[str, ...]
    shapes: str | tuple[str, ...] = ()
    axes: tuple[HardwareAxis, ...] = ()
    title: str = ""
    question: str = ""
    kernel: str = "gemm"
    dtype: str = "bf16"
    combine: str = "each"
    overrides: Mapping[str, str | float] = field(default_factory=dict)
    space: str | None = None
    preset: str | None = None
    restrict: Mapping[str, Any] = field(default_factory=dict)
    refinements: Mapping[str, Any] = field(default_factory=dict)
    front: tuple[str, ...] = ()
    figures: bool = True
    measured: Mapping[str, str] | None = None


def list_studies() -> dict[str, Path]:
    """Every study file that `load_study` finds by name."""
    return content_files(FOLDER)


def load_study(name_or_path: str | os.PathLike[str]) -> "Study | LayoutStudy":
    """A study by name (`list_studies()`) or by the path of a TOML file; one of layouts has kernel = "sharding".

    Raises:
        UserError: no such study, or everything that is wrong with the file.
    """
    path = find_content(
        "study", FOLDER, name_or_path, fix="or give the path of your own .toml file, see docs/what-if.md"
    )
    content = read_toml(path)
    if content.get("kernel") == SHARDING:
        return read_layout_study(path, content)
    problems = Problems(str(path))
    for key in content:
        if key not in KEYS:
            problems.add(key, f"is not a key of a study{did_you_mean(key, KEYS)}; known: {', '.join(KEYS)}")
    for key in (*TEXTS, *WORDS):
        if not isinstance(content.get(key, ""), str):
            problems.add(key, f"{content[key]!r} is not a text")
    for key in SWITCHES:
        if not isinstance(content.get(key, False), bool):
            problems.add(key, f"{content[key]!r} is neither true nor false")
    align = content.get("align_bytes", 1)
    if not isinstance(align, int) or isinstance(align, bool):
        problems.add("align_bytes", f"{align!r} is not a whole number of bytes, e.g. 16")
    gpus = _gpus(content, problems)
    shapes = _shapes(content, path, problems)
    axes = read_hardware_axes(content, problems)
    overrides = _overrides(_table(content, "set", problems))
    restrict = _table(content, "restrict", problems)
    choices = _table(content, "choices", problems)
    measured = _measured(content, gpus, problems)
    if measured is None and not content.get("axis") and len(gpus) == 1:
        problems.add("axis", "nothing is varied: write [[axis]] with a field, or several gpus")
    if measured is None and not shapes:
        problems.add("shapes", 'is missing: the name or path of a list, or shapes such as ["8192x8192x8192"]')
    front = content.get("front", [])
    if not isinstance(front, list) or not all(isinstance(name, str) for name in front):
        problems.add("front", f'{front!r} is not a list of names, e.g. ["latency_s", "area_mm2"]')
    problems.raise_if_any()
    return Study(
        name=path.stem,
        gpus=gpus,
        shapes=shapes,
        axes=axes,
        overrides=overrides,
        restrict=restrict,
        refinements={name: content[name] for name in REFINEMENTS if name in content} | choices,
        front=tuple(front),
        figures=content.get("figures", True),
        measured=measured,
        **{name: content[name] for name in TEXTS if name in content and name != "gpu"},
    )


def study_text(study: "Study | LayoutStudy") -> str:
    """The study as a TOML file that `load_study` reads to the same study."""
    if isinstance(study, LayoutStudy):
        return layout_study_text(study)
    lines = [f"{name} = {toml_value(getattr(study, name))}" for name in ("title", "question") if getattr(study, name)]
    lines += [] if study.measured is not None else [f"kernel = {toml_value(study.kernel)}"]
    lines.append(f"gpu = {toml_value(study.gpus[0])}" if len(study.gpus) == 1 else f"gpus = {toml_value(study.gpus)}")
    every = () if study.measured is not None else ("shapes", "dtype", "combine")
    lines += [f"{name} = {toml_value(getattr(study, name))}" for name in every]
    for name in ("space", "preset", "front"):
        lines += [f"{name} = {toml_value(getattr(study, name))}"] if getattr(study, name) else []
    lines += [] if study.figures else ["figures = false"]
    said = {name: value for name, value in study.refinements.items() if value is not None}
    lines += [
        f"{name} = {toml_value(value)}" for name, value in said.items() if name in REFINEMENTS and value is not False
    ]
    tables: tuple[tuple[str, Any], ...] = (
        ("set", study.overrides),
        ("restrict", study.restrict),
        ("choices", {name: value for name, value in said.items() if name not in REFINEMENTS}),
        ("measured", study.measured),
    )
    for name, table in tables:
        lines += (
            ["", f"[{name}]", *(f"{toml_key(key)} = {toml_value(value)}" for key, value in table.items())]
            if table or (name == "measured" and table is not None)
            else []
        )
    for axis in study.axes:
        lines += axis_lines(axis)
    return "\n".join(lines) + "\n"


def _gpus(content: Mapping[str, Any], problems: Problems) -> tuple[str, ...]:
    if ("gpu" in content) == ("gpus" in content):
        problems.add("gpu", 'give one of gpu = "h200_sxm" and gpus = ["h100_sxm", "h200_sxm"]')
        return ("",)
    gpus = content.get("gpus", [content.get("gpu")])
    if not isinstance(gpus, list) or not gpus or not all(isinstance(name, str) for name in gpus):
        problems.add("gpus", f"{gpus!r} is not a list of names or paths")
        return ("",)
    return tuple(gpus)


def _shapes(content: Mapping[str, Any], path: Path, problems: Problems) -> str | tuple[str, ...]:
    shapes = content.get("shapes", ())
    if isinstance(shapes, str):
        beside = path.parent / shapes
        return str(beside) if shapes.endswith(".csv") and beside.is_file() else shapes
    if not isinstance(shapes, (list, tuple)) or not all(isinstance(shape, str) for shape in shapes):
        problems.add("shapes", f'{shapes!r} is neither the name of a list nor ["MxNxK", ...]')
        return ()
    return tuple(shapes)


def _table(content: Mapping[str, Any], key: str, problems: Problems) -> dict[str, Any]:
    table = content.get(key, {})
    if not isinstance(table, dict):
        problems.add(key, f"must be a table, [{key}]")
        return {}
    return table


def _overrides(table: Mapping[str, Any]) -> dict[str, Any]:
    """`tensor.wgmma.bf16_fp32 = "2x"`, which TOML reads as tables in tables, as one name."""
    flat = {name: value for name, value in table.items() if not (name == "tensor" and isinstance(value, dict))}
    families = table["tensor"] if isinstance(table.get("tensor"), dict) else {}
    for family, rates in families.items():
        for pair, value in rates.items() if isinstance(rates, dict) else [("", rates)]:
            flat[f"tensor.{family}.{pair}"] = value
    return flat


def _measured(content: Mapping[str, Any], gpus: tuple[str, ...], problems: Problems) -> dict[str, str] | None:
    if "measured" not in content:
        return None
    table = _table(content, "measured", problems)
    for key in table:
        if key not in MEASURED_KEYS:
            problems.add(
                f"measured.{key}", f"is not known{did_you_mean(key, MEASURED_KEYS)}; known: {', '.join(MEASURED_KEYS)}"
            )
    if len(gpus) < 2:
        problems.add("measured", "compares GPUs with their measurements: give gpus, the first the baseline")
    for key in content:
        if key in KEYS and key not in (*BESIDE_MEASURED, "gpu"):
            problems.add(key, f"says nothing beside [measured], whose GPUs are compared as they were: leave {key} out")
    return {key: str(value) for key, value in table.items()}
