"""Studies of layouts: what-ifs of which every machine gets its own best way to share a model over GPUs.

title = "Faster links"
question = "What would faster links buy?"
kernel = "sharding"
preset = "plain"                       # of the space of layouts
users = [20, 50]                       # tokens/s a user at which throughput is compared, beside the most of all

[[service]]
model = "llama3_405b"
gpu = "h100_sxm"
gpus = 64
dtype = "fp8"

[[axis]]
field = "fabric.link"                  # of the fabric, of the engine (engine.step_s), or of the GPU (l2_capacity)
values = ["0.5x", "1x", "2x", "4x"]
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .hardware_axis import HardwareAxis, read_hardware_axes
from .toml import Problems, did_you_mean, is_number
from .toml_text import axis_lines, toml_table, toml_value

SHARDING = "sharding"
TEXTS = ("title", "question", "combine", "space", "preset")
KEYS = ("kernel", *TEXTS, "service", "axis", "set", "restrict", "users", "figures")
SERVICE_KEYS: dict[str, type | tuple[type, ...]] = {  # as `dse.serving.asked.ask_service` takes them, and a name
    **dict.fromkeys(("name", "model", "gpu", "fabric", "engine", "dtype", "experts_dtype", "kv_dtype"), str),
    **dict.fromkeys(("clock", "phase"), str),
    **dict.fromkeys(("gpus", "gpus_per_node", "input_tokens", "output_tokens", "cached_tokens", "draft_tokens"), int),
    **dict.fromkeys(("quantise_a", "graphs"), bool),
    **dict.fromkeys(("acceptance", "draft_layers", "ttft_max_s", "tpot_max_s"), (int, float)),
}
NEEDED = ("model", "gpu", "gpus")


@dataclass(frozen=True)
class LayoutStudy:
    """What is asked.

    Attributes:
        name: of the file, without ending.
        services: what is served on what, each with keys of `SERVICE_KEYS`.
        axes: what is varied of every one of them.
        title, question: in words.
        combine: "each" or "grid", as for kernels.
        overrides: what the baseline changes of its GPU, fabric and engine.
        space, preset, restrict: which layouts are chosen from.
        users: tokens a second for a user at which throughput is compared too.
        figures: whether figures are drawn.
    """

    name: str
    services: tuple[Mapping[str, Any], ...]
    axes: tuple[HardwareAxis, ...]
    title: str = ""
    question: str = ""
    combine: str = "each"
    overrides: Mapping[str, str | float] = field(default_factory=dict)
    space: str | None = None
    preset: str | None = None
    restrict: Mapping[str, Any] = field(default_factory=dict)
    users: tuple[float, ...] = ()
    figures: bool = True


def read_layout_study(path: Path, content: Mapping[str, Any]) -> LayoutStudy:
    """A study from what its file holds.

    Raises:
        UserError: everything that is wrong with the file.
    """
    problems = Problems(str(path))
    for key in content:
        if key not in KEYS:
            problems.add(key, f"is not a key of a study of layouts{did_you_mean(key, KEYS)}; known: {', '.join(KEYS)}")
    for key in TEXTS:
        if not isinstance(content.get(key, ""), str):
            problems.add(key, f"{content[key]!r} is not a text")
    if not isinstance(content.get("figures", True), bool):
        problems.add("figures", f"{content['figures']!r} is neither true nor false")
    tables = {key: content.get(key, {}) for key in ("set", "restrict")}
    for key, table in tables.items():
        if not isinstance(table, dict):
            problems.add(key, f"must be a table, [{key}]")
    users = content.get("users", [])
    if not isinstance(users, list) or not all(is_number(value) and value > 0 for value in users):
        problems.add("users", f"{users!r} is not a list of tokens a second for a user, e.g. [20, 50]")
    services = _services(content.get("service"), problems)
    axes = read_hardware_axes(content, problems)
    if not content.get("axis"):
        problems.add("axis", "nothing is varied: write [[axis]] with a field, e.g. fabric.link")
    problems.raise_if_any()
    return LayoutStudy(
        name=path.stem,
        services=services,
        axes=axes,
        overrides=_flat(tables["set"]),
        restrict=tables["restrict"],
        users=tuple(float(value) for value in users),
        figures=content.get("figures", True),
        **{name: content[name] for name in TEXTS if name in content},
    )


def layout_study_text(study: LayoutStudy) -> str:
    """The study as a TOML file that reads to the same study."""
    lines = [f"{name} = {toml_value(getattr(study, name))}" for name in ("title", "question") if getattr(study, name)]
    lines += [f"kernel = {toml_value(SHARDING)}", f"combine = {toml_value(study.combine)}"]
    lines += [f"{name} = {toml_value(getattr(study, name))}" for name in ("space", "preset") if getattr(study, name)]
    lines += [f"users = {toml_value(study.users)}"] if study.users else []
    lines += [] if study.figures else ["figures = false"]
    lines += [*toml_table("[set]", study.overrides), *toml_table("[restrict]", study.restrict)]
    for service in study.services:
        lines += toml_table("[[service]]", service)
    for axis in study.axes:
        lines += axis_lines(axis)
    return "\n".join(lines) + "\n"


def _services(tables: Any, problems: Problems) -> tuple[dict[str, Any], ...]:
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        problems.add("service", 'is missing: write [[service]] with model = "llama3_405b", gpu and gpus')
        return ()
    for place, table in enumerate(tables):
        where = f"service {place + 1}"
        for key in NEEDED:
            if key not in table:
                problems.add(f"{where}.{key}", "is missing")
        for key, value in table.items():
            kind = SERVICE_KEYS.get(key)
            if kind is None:
                known = ", ".join(SERVICE_KEYS)
                problems.add(f"{where}.{key}", f"is not known{did_you_mean(key, SERVICE_KEYS)}; known: {known}")
            elif not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
                names = {str: "a text", int: "a whole number", bool: "true or false"}
                problems.add(f"{where}.{key}", f"{value!r} is not {names.get(kind, 'a number')}")  # type: ignore[arg-type]
    return tuple(tables)


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`fabric.link = "2x"`, which TOML reads as a table in a table, as one name."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found
