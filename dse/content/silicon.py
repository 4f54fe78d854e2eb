"""What a GPU is made of, first order: the area of blocks, the density of processes, what each die holds.

Content of `hardware/silicon/*.toml`: [block] (once), [node.NAME], [die.NAME] with the GPU files that use it. All of it
is assumed, for what-ifs; `dse.studies.area_power` computes with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import UserError
from .datum import Datum, parse_datum, read_sources
from .files import content_files, content_roots
from .gpu import GpuFile
from .gpu_fields import Field
from .toml import Problems, did_you_mean, read_toml

FOLDER = "hardware/silicon"
_SECTIONS = ("sources", "block", "node", "die")


def _table(kind: str, *fields: tuple[str, str, str], **more: Any) -> dict[str, Field]:
    return {name: Field(name, kind, unit, meaning, **more) for name, unit, meaning in fields}


_OFF = {"positive": False}
BLOCK_FIELDS: dict[str, Field] = _table(
    "block",
    ("tensor_transistors_per_fma", "transistors", "a 16-bit FMA a clock of a tensor core, with all that belongs to it"),
    ("fp32_transistors", "transistors", "a lane"),
    ("int32_transistors", "transistors", "a lane"),
    ("fp64_transistors", "transistors", "a lane"),
    ("sm_other_transistors", "transistors per SM", "schedulers, instruction caches, load and store, texture"),
    ("crossbar_transistors_per_sm", "transistors per SM", "on-chip interconnect"),
    ("l2_slice_transistors_per_byte_per_clock", "transistors", "of L2 beside its SRAM"),
    ("other_transistors", "transistors per die", "front end, video, management"),
    ("hbm_phy_mm2", "mm2 per stack", "PHY, the same in every process"),
    ("hbm_control_transistors", "transistors per stack", "memory controller"),
    ("gddr_phy_mm2", "mm2 per 32 bits", "PHY, the same in every process"),
    ("gddr_control_transistors", "transistors per 32 bits", "memory controller"),
) | _table(
    "block",
    ("register_file_efficiency", "share", "bit cells' share of the area of a register file"),
    ("smem_efficiency", "share", "bit cells' share of shared memory and L1"),
    ("l2_efficiency", "share", "bit cells' share of the SRAM of L2"),
    high=1.0,
)
NODE_FIELDS: dict[str, Field] = _table(
    "node",
    ("logic_transistors_per_mm2", "transistors per mm2", "logic as it is laid out"),
    ("sram_bitcell_um2", "um2", "the high-density six-transistor cell"),
)
DIE_FIELDS: dict[str, Field] = (
    _table("die", ("published_mm2", "mm2", "area of all dies of a GPU, as published or reported"))
    | _table(
        "die",
        ("dies", "dies per GPU", "how many make a GPU"),
        ("sm_count", "SMs", "built, of all dies"),
        ("tensor_fma_per_clock", "FMA per clock and SM", "16-bit, dense"),
        ("register_bytes", "bytes per SM", "register file"),
        ("smem_l1_bytes", "bytes per SM", "shared memory and L1"),
        ("l2_bytes", "bytes", "built, of all dies"),
        whole=True,
    )
    | _table("die", ("l2_bytes_per_clock", "bytes per clock", "of all slices built"))
    | _table(
        "die",
        ("fp32_lanes", "lanes per SM", "CUDA cores"),
        ("int32_lanes", "lanes per SM", "integer units"),
        ("fp64_lanes", "lanes per SM", "double-precision units"),
        ("tmem_bytes", "bytes per SM", "tensor memory; 0: none"),
        ("hbm_stacks", "stacks", "PHYs built; 0: none"),
        ("gddr_channels", "channels of 32 bits", "PHYs built; 0: none"),
        whole=True,
        **_OFF,
    )
    | _table(
        "die",
        ("link_phy_mm2", "mm2", "PHYs of NVLink and PCIe"),
        ("link_control_transistors", "transistors", "their controllers"),
        **_OFF,
    )
)


@dataclass(frozen=True)
class Node:
    """A process: `values` by the names of `NODE_FIELDS`."""

    name: str
    title: str
    values: Mapping[str, Datum]


@dataclass(frozen=True)
class Die:
    """A die (or the dies that make one GPU): `values` by the names of `DIE_FIELDS`, and the GPU files that use it."""

    name: str
    title: str
    node: str
    gpus: tuple[str, ...]
    values: Mapping[str, Datum]


@dataclass(frozen=True)
class Silicon:
    """All of `hardware/silicon`: blocks by the names of `BLOCK_FIELDS`, nodes and dies by name."""

    blocks: Mapping[str, Datum]
    nodes: Mapping[str, Node]
    dies: Mapping[str, Die]

    def found(self, gpu: GpuFile) -> tuple[str, Die] | None:
        """The GPU file that stands for `gpu` (itself, else the nearest of its bases) and its die; None if none has."""
        for name in (gpu.name, *gpu.bases):
            for die in self.dies.values():
                if name in die.gpus:
                    return name, die
        return None

    def die_of(self, gpu: GpuFile) -> tuple[str, Die]:
        """As `found`.

        Raises:
            UserError: no die is known for the GPU or for a file it is based on.
        """
        found = self.found(gpu)
        if found is None:
            known = sorted(name for die in self.dies.values() for name in die.gpus)
            raise UserError(
                f"no die is known for the GPU {gpu.name!r}; known: {', '.join(known)}; base your file on one of these, "
                f"or describe its die in {FOLDER}/NAME.toml of a folder in DSE_PATH, see docs/area-and-power.md"
            )
        return found


def load_silicon() -> Silicon:
    """Everything in `hardware/silicon`, the user's folders (`DSE_PATH`) included.

    Raises:
        UserError: one message with every problem of a file, or a name that stands in two files.
    """
    return _load(content_roots())


@lru_cache(maxsize=8)
def _load(roots: tuple[Path, ...]) -> Silicon:
    blocks: dict[str, Datum] = {}
    nodes: dict[str, Node] = {}
    dies: dict[str, Die] = {}
    where: dict[str, Path] = {}
    problems = Problems(FOLDER)
    for path in content_files(FOLDER).values():
        own = _read(path)
        blocks |= own.blocks
        nodes |= own.nodes
        dies |= own.dies
        held = [*(f"node.{name}" for name in own.nodes), *(f"die.{name}" for name in own.dies)]
        for key in [*held, *(["block"] if own.blocks else [])]:
            if key in where:
                problems.add(key, f"stands in {where[key]} and in {path}: keep one")
            where[key] = path
    if not blocks:
        problems.add("block", "is missing: one file holds [block]")
    for die in dies.values():
        if die.node not in nodes:
            hint = did_you_mean(die.node, nodes)
            problems.add(f"die.{die.name}.node", f"unknown node {die.node!r}; known: {', '.join(sorted(nodes))}{hint}")
    problems.raise_if_any()
    return Silicon(blocks, nodes, dies)


def _read(path: Path) -> Silicon:
    raw = read_toml(path)
    problems = Problems(str(path))
    for key in raw:
        if key not in _SECTIONS:
            problems.add(key, f"unknown; known: {', '.join(_SECTIONS)}{did_you_mean(key, _SECTIONS)}")
    sources = read_sources(raw.get("sources", {}), problems)
    blocks = _data("block", raw["block"], BLOCK_FIELDS, (), sources, problems) if "block" in raw else {}
    nodes, dies = {}, {}
    for name, table in _named("node", raw.get("node", {}), problems):
        values = _data(f"node.{name}", table, NODE_FIELDS, ("title",), sources, problems)
        nodes[name] = Node(name, _text(f"node.{name}", table, "title", problems), values)
    for name, table in _named("die", raw.get("die", {}), problems):
        where = f"die.{name}"
        values = _data(where, table, DIE_FIELDS, ("title", "node", "gpus"), sources, problems)
        title, node = _text(where, table, "title", problems), _text(where, table, "node", problems)
        dies[name] = Die(name, title, node, _gpus(where, table, problems), values)
    problems.raise_if_any()
    return Silicon(blocks, nodes, dies)


def _named(kind: str, raw: Any, problems: Problems) -> list[tuple[str, dict[str, Any]]]:
    if not isinstance(raw, dict):
        problems.add(kind, f"must hold tables [{kind}.NAME], not {raw!r}")
        return []
    for name, table in raw.items():
        if not isinstance(table, dict):
            problems.add(f"{kind}.{name}", f"must be a table [{kind}.{name}], not {table!r}")
    return [(name, table) for name, table in raw.items() if isinstance(table, dict)]


def _data(
    where: str, raw: Any, fields: Mapping[str, Field], texts: tuple[str, ...], sources: Any, problems: Problems
) -> dict[str, Datum]:
    if not isinstance(raw, dict):
        problems.add(where, f"must be a table [{where}], not {raw!r}")
        return {}
    data: dict[str, Datum] = {}
    for name, value in raw.items():
        if name in texts:
            continue
        if name not in fields:
            known = ", ".join((*texts, *fields))
            problems.add(f"{where}.{name}", f"unknown; known: {known}{did_you_mean(name, (*texts, *fields))}")
        elif (datum := parse_datum(value, f"{where}.{name}", fields[name], sources, problems)) is not None:
            data[name] = datum
    for name, field in fields.items():
        if name not in raw:
            problems.add(f"{where}.{name}", f"is missing: {field.meaning}, {field.allowed()}")
    return data


def _text(where: str, raw: dict[str, Any], key: str, problems: Problems) -> str:
    text = raw.get(key)
    if isinstance(text, str) and text.strip():
        return text
    problems.add(f"{where}.{key}", "is missing: text" if key not in raw else f"must be text, not {text!r}")
    return ""


def _gpus(where: str, raw: dict[str, Any], problems: Problems) -> tuple[str, ...]:
    names = raw.get("gpus")
    if isinstance(names, list) and names and all(isinstance(name, str) and name for name in names):
        return tuple(names)
    problems.add(f"{where}.gpus", f'must list the names of GPU files, e.g. ["h100_sxm"], not {names!r}')
    return ()
