"""Serving engines: which kernels they run and what a step costs beside them, as TOML files in `hardware/engines`.

title = "vLLM"
rule = "engine"                # of collectives (jaxmodel.network.RULES)

[sources]
docs = "vLLM documentation, engine arguments"

[numbers]                      # `NUMBERS`, each { value, kind, source }
memory_share = { value = 0.9, kind = "datasheet", source = "docs" }

[[kernel]]                     # the first that matches a problem counts; without a match: every schedule, no numbers
kernel = "attention"
family = "wgmma"               # optional, as are dtypes and head_dims
head_dims = [128]
preset = "fa3_d128"            # optional: the sub-space of which the best is taken
implementation = "fa3"         # optional: fitted numbers, where it has some of the GPU
cache_dtypes = ["fp8"]         # optional, of decode attention: types of the cache it is for
multiplies_cache = true        # optional: tensor cores multiply the cache's type, it is not widened
instructions = "mma_sync"      # optional: the family it runs, where that is not the GPU's fastest
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import UserError
from .datum import Datum, parse_datum, read_sources
from .dtypes import DTYPE_BYTES
from .files import content_files, find_content
from .gpu_fields import Field
from .implementation import read_implementation
from .mma import FAMILIES
from .space import space_kernels
from .toml import Problems, did_you_mean, read_toml

FOLDER = "hardware/engines"
RULES = ("nccl", "engine", "best")
KEYS = ("title", "sources", "rule", "numbers", "kernel")
ENTRY_TEXTS = ("kernel", "family", "preset", "implementation", "instructions")
ENTRY_LISTS = {"dtypes": str, "head_dims": int, "cache_dtypes": str}
ENTRY_KEYS = (*ENTRY_TEXTS, *ENTRY_LISTS, "multiplies_cache")
_LISTED = {str: "texts", int: "whole numbers"}
_SECONDS, _COUNT = {"positive": False, "high": 10.0}, {"positive": False, "whole": True}
_SWITCH = {"positive": False, "high": 1.0, "whole": True, "default": 0.0}
NUMBERS = {
    field.name: field
    for field in (
        Field("step_s", "numbers", "s", "the GPU waits so long a step for the host: scheduling, sampling", **_SECONDS),
        Field(
            "graph_tokens_max", "numbers", "tokens", "decode steps of so many tokens at most replay a graph", **_COUNT
        ),
        Field("memory_share", "numbers", "1", "of the GPU's memory that the engine takes", high=1.0),
        Field("reserved_bytes", "numbers", "bytes", "of it, neither weights, cache nor activations", positive=False),
        Field("activation_tokens", "numbers", "tokens", "most tokens of a step on a GPU", whole=True),
        Field("norm_in_all_reduce", "numbers", "1", "1: one kernel reduces over GPUs and normalises", **_SWITCH),
        *(
            Field(f"quantise_{dtype}", "numbers", "1", f"1: kernels of their own make {dtype} activations", **_SWITCH)
            for dtype in ("fp8", "fp8_block", "nvfp4")
        ),
        Field("gate_and_up_apart", "numbers", "1", "1: gate and up are two products, not one", **_SWITCH),
        Field(
            "exchange_sms",
            "numbers",
            "SMs",
            "that carry prompts' tokens to experts while other kernels run",
            positive=False,
            whole=True,
            default=0.0,
        ),
        Field("shared_experts_beside", "numbers", "1", "1: shared experts run beside the routed ones", **_SWITCH),
        Field(
            "early_start_s",
            "numbers",
            "s",
            "a kernel of a graph starts so long before its predecessor ends",
            high=1e-5,
            positive=False,
            default=0.0,
        ),
    )
}


@dataclass(frozen=True)
class KernelEntry:
    """What an engine runs for some problems of a kernel; empty: any, or none."""

    kernel: str
    family: str = ""
    dtypes: tuple[str, ...] = ()
    head_dims: tuple[int, ...] = ()
    preset: str = ""
    implementation: str = ""
    cache_dtypes: tuple[str, ...] = ()
    multiplies_cache: bool = False
    instructions: str = ""

    def suits(
        self,
        kernel: str,
        family: str,
        dtype: str,
        head_dim: int | None,
        gpu_names: tuple[str, ...],
        cache_dtype: str = "",
    ) -> bool:
        """Whether it is for a problem, and its implementation has numbers of the GPU, or of one it builds on."""
        return (
            self.kernel == kernel
            and self.family in ("", family)
            and (not self.dtypes or dtype in self.dtypes)
            and (not self.head_dims or head_dim in self.head_dims)
            and (not self.cache_dtypes or (cache_dtype or dtype) in self.cache_dtypes)
            and (not self.implementation or bool(set(gpu_names) & _gpus_of(kernel, self.implementation)))
        )


@dataclass(frozen=True)
class Engine:
    """One file.

    Attributes:
        name: of the file, without ending.
        title: in words.
        rule: of collectives.
        values: number -> where it comes from.
        kernels: in the order in which they are tried.
        path: of the file.
        changes: what a what-if did, a line a number.
    """

    name: str
    title: str
    rule: str
    values: Mapping[str, Datum]
    kernels: tuple[KernelEntry, ...]
    path: Path
    changes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> float:
        return self.values[name].number

    def entry(
        self,
        kernel: str,
        family: str,
        dtype: str,
        head_dim: int | None,
        gpu_names: tuple[str, ...],
        cache_dtype: str = "",
    ) -> KernelEntry:
        """What it runs for a problem; `cache_dtype` where it is not `dtype`."""
        problem = (kernel, family, dtype, head_dim, gpu_names, cache_dtype)
        return next((entry for entry in self.kernels if entry.suits(*problem)), KernelEntry(kernel))


def list_engines() -> dict[str, Path]:
    """Every engine that `load_engine` finds by name."""
    return content_files(FOLDER)


def load_engine(name_or_path: str | os.PathLike[str]) -> Engine:
    """An engine by name (`list_engines()`) or by the path of a TOML file.

    Raises:
        UserError: no such engine, or everything that is wrong with the file.
    """
    path = find_content(
        "engine", FOLDER, name_or_path, fix="or give the path of your own .toml file, see docs/serving.md"
    )
    raw = read_toml(path)
    problems = Problems(str(path))
    for key in raw:
        if key not in KEYS:
            problems.add(key, f"unknown; known: {', '.join(KEYS)}{did_you_mean(key, KEYS)}")
    sources = read_sources(raw.get("sources", {}), problems)
    title, rule = raw.get("title", path.stem), raw.get("rule", RULES[0])
    if not isinstance(title, str):
        problems.add("title", f"must be text, not {title!r}")
    if rule not in RULES:
        problems.add("rule", f"{rule!r} is not allowed: {', '.join(RULES)}")
    values = _numbers(raw.get("numbers", {}), sources, problems)
    listed = raw.get("kernel", [])
    if not isinstance(listed, list):
        problems.add("kernel", "must be a list of tables, [[kernel]]")
        listed = []
    entries = [_entry(table, f"kernel[{place}]", problems) for place, table in enumerate(listed)]
    problems.raise_if_any()
    return Engine(path.stem, str(title), str(rule), values, tuple(entries), path)


def _numbers(raw: Any, sources: dict[str, str], problems: Problems) -> dict[str, Datum]:
    if not isinstance(raw, dict):
        problems.add("numbers", "must be a table, [numbers]")
        return {}
    for name in raw:
        if name not in NUMBERS:
            problems.add(f"numbers.{name}", f"unknown; known: {', '.join(NUMBERS)}{did_you_mean(name, NUMBERS)}")
    found: dict[str, Datum] = {}
    for name, field in NUMBERS.items():
        if name not in raw and field.default is not None:
            found[name] = Datum(field.default, field.unit, "assumed", "left out of the file: no such effect")
            continue
        if name not in raw:
            problems.add(f"numbers.{name}", f"is missing: {field.allowed()}")
            continue
        datum = parse_datum(raw[name], f"numbers.{name}", field, sources, problems)
        if datum is not None:
            found[name] = datum
    return found


def _entry(table: Any, where: str, problems: Problems) -> KernelEntry:
    if not isinstance(table, dict):
        problems.add(where, f"must be a table, [[kernel]], not {table!r}")
        return KernelEntry("")
    before = len(problems.lines)
    for key in table:
        if key not in ENTRY_KEYS:
            problems.add(f"{where}.{key}", f"unknown; known: {', '.join(ENTRY_KEYS)}{did_you_mean(key, ENTRY_KEYS)}")
    for key in ENTRY_TEXTS:
        if not isinstance(table.get(key, ""), str):
            problems.add(f"{where}.{key}", f"must be text, not {table[key]!r}")
    if not isinstance(table.get("multiplies_cache", False), bool):
        problems.add(f"{where}.multiplies_cache", f"must be true or false, not {table['multiplies_cache']!r}")
    for key, kind in ENTRY_LISTS.items():
        listed = table.get(key, [])
        if not isinstance(listed, list) or not all(type(entry) is kind for entry in listed):
            problems.add(f"{where}.{key}", f"must be a list of {_LISTED[kind]}, not {listed!r}")
    if not table.get("kernel"):
        problems.add(f"{where}.kernel", "is missing: the kernel's name")
    if len(problems.lines) > before:
        return KernelEntry("")
    for key, names, known in (
        ("kernel", [table["kernel"]], [name for name in space_kernels() if name != "sharding"]),
        ("family", [table["family"]] if table.get("family") else [], FAMILIES),
        ("instructions", [table["instructions"]] if table.get("instructions") else [], FAMILIES),
        ("dtypes", table.get("dtypes", []), DTYPE_BYTES),
        ("cache_dtypes", table.get("cache_dtypes", []), DTYPE_BYTES),
    ):
        for name in names:
            if name not in known:
                said = f"unknown {name!r}; known: {', '.join(known)}{did_you_mean(name, known)}"
                problems.add(f"{where}.{key}", said)
    if table.get("implementation"):
        try:
            read_implementation(table["kernel"], table["implementation"])
        except UserError as error:
            problems.add(f"{where}.implementation", str(error))
    found: dict[str, Any] = {key: table.get(key, "") for key in ENTRY_TEXTS}
    found |= {key: tuple(table.get(key, ())) for key in ENTRY_LISTS}
    return KernelEntry(**found, multiplies_cache=table.get("multiplies_cache", False))


@lru_cache(maxsize=64)
def _gpus_of(kernel: str, implementation: str) -> frozenset[str]:
    return frozenset(read_implementation(kernel, implementation).gpus)
