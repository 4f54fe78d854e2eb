"""Triton's autotune configs and schedules, in both directions.

What a config says and what the compiler decides by itself (stated here because no config shows it):

* BLOCK_M, BLOCK_N, BLOCK_K are the tile of the program, num_stages the K-steps in shared memory, GROUP_M a raster panel
  of that many tile rows walked along n; without it programs run row by row. SPLIT_K is a split of K, NUM_SMS a
  persistent grid of that many programs.
* On Hopper a dot with BLOCK_M of at least 64 and a multiple of 4 warps becomes wgmma, on Blackwell data-centre parts
  tcgen05, everything else mma.sync. Warps are laid out as `dse.schedule_text.default_warps` says.
* num_ctas programs of a cluster share the block: it is cut along m down to 128 rows, then along n; two CTAs on tcgen05
  are a pair.
* Results reach memory through shared memory (a staged epilogue).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import UserError
from .schedule_text import FIELDS, default_warps, distinct_raster, parse_schedule

NAMES: dict[str, tuple[str, ...]] = {  # what it is -> how kernels call it
    "block_m": ("block_m", "block_size_m", "bm", "block_m_size"),
    "block_n": ("block_n", "block_size_n", "bn", "block_n_size"),
    "block_k": ("block_k", "block_size_k", "bk", "block_k_size"),
    "group_m": ("group_m", "group_size_m", "group_size"),
    "split_k": ("split_k", "splitk"),
    "num_sms": ("num_sms",),
    "num_warps": ("num_warps",),
    "num_stages": ("num_stages",),
    "num_ctas": ("num_ctas",),
    "registers": ("registers", "n_regs", "num_regs"),
    "smem_bytes": ("smem_bytes", "shared", "shared_memory"),
}
_MEANING = {name: meaning for meaning, names in NAMES.items() for name in names}
DEFAULTS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "group_m": 1, "split_k": 1}


@dataclass(frozen=True)
class TritonGpu:
    """What decides how Triton compiles a dot: the GPU's families for the type, and its SMs."""

    families: tuple[str, ...]
    sm_count: int


@dataclass(frozen=True)
class TritonConfig:
    """A `triton.Config`: keyword arguments of the kernel and launch options."""

    kwargs: Mapping[str, int]
    num_warps: int = DEFAULTS["num_warps"]
    num_stages: int = DEFAULTS["num_stages"]
    num_ctas: int = DEFAULTS["num_ctas"]
    unused: tuple[str, ...] = field(default=(), compare=False)

    def options(self) -> dict[str, int]:
        """All of it by what it means, lower case."""
        launch = {"num_warps": self.num_warps, "num_stages": self.num_stages, "num_ctas": self.num_ctas}
        return launch | {_MEANING[name.lower()]: int(value) for name, value in self.kwargs.items()}


def is_triton(names: Iterable[str]) -> bool:
    """Whether these are names of a Triton config's fields, not of a schedule's."""
    return any(_MEANING.get(str(name).lower()) == "block_m" for name in names)


def config_from(fields: Mapping[str, Any], where: str) -> TritonConfig:
    """A config from names and numbers, in whatever spelling of `NAMES`.

    Names that mean nothing to the model (EVEN_K, waves_per_eu) are kept in `unused`.

    Raises:
        UserError: a value that is not a whole number, or a missing block.
    """
    known: dict[str, int] = {}
    unused = []
    for name, value in fields.items():
        meaning = _MEANING.get(str(name).lower())
        if meaning is None:
            unused.append(str(name))
        elif value is not None and str(value).strip() not in ("", "nan"):
            known[meaning] = _whole(name, value, where)
    missing = [name.upper() for name in ("block_m", "block_n", "block_k") if name not in known]
    if missing:
        raise UserError(
            f"{where} lacks {', '.join(missing)} (or {', '.join(n.replace('_', '_SIZE_') for n in missing)})"
        )
    launch = {name: known.pop(name, DEFAULTS[name]) for name in ("num_warps", "num_stages", "num_ctas")}
    return TritonConfig(known, unused=tuple(unused), **launch)


def schedule_of(config: TritonConfig, problem: Any, gpu: TritonGpu) -> tuple[str, dict[str, int]]:
    """The family that Triton compiles to and the schedule that comes of it.

    Args:
        config: what the user gives to the autotuner.
        problem: the user's problem; decides where GROUP_M is wider than the grid.
        gpu: families and SMs.

    Raises:
        UserError: a number that no schedule can have (0, or more SMs than the GPU has).
    """
    at = {**DEFAULTS, **config.options()}
    for name, value in at.items():
        if value < 1 and name not in ("registers", "smem_bytes"):
            raise UserError(f"{name.upper()} = {value} is not allowed: at least 1")
    rows = max(1, min(at["num_ctas"], at["block_m"] // 128))
    cols = max(1, at["num_ctas"] // rows)
    tile_m, tile_n = max(1, at["block_m"] // rows), max(1, at["block_n"] // cols)
    family = _family(gpu, tile_m, at["num_warps"])
    warps_m, warps_n = default_warps(family, tile_m, tile_n, at["num_warps"])
    sms = at.get("num_sms", 0)
    if sms > gpu.sm_count:
        raise UserError(f"NUM_SMS = {sms} is not allowed: the GPU has {gpu.sm_count} SMs")
    schedule = parse_schedule(
        {
            "tile_m": tile_m,
            "tile_n": tile_n,
            "tile_k": at["block_k"],
            "stages": at["num_stages"],
            "warps_m": warps_m,
            "warps_n": warps_n,
            "cluster_m": rows,
            "cluster_n": cols,
            "cta_pair": int(family == "tcgen05" and rows == 2 and tile_m == 128),
            "raster_along_n": 1,
            "swizzle": at["group_m"],
            "persistent": int(sms > 0),
            "sms_free": gpu.sm_count - sms if sms else 0,
            "split_k": at["split_k"],
            "registers": at.get("registers", 0),
            "smem_bytes": at.get("smem_bytes", 0),
        },
        family,
    )
    return family, distinct_raster(schedule, problem.m, problem.n)


def config_of(schedule: Mapping[str, int], family: str, problem: Any, gpu: TritonGpu) -> TritonConfig | str:
    """The config that Triton compiles to this schedule, or why there is none.

    What is returned reads back, through `schedule_of`, to the same schedule.
    """
    at = {name: int(schedule[name]) for name in FIELDS}
    rows, cols = at["cluster_m"], at["cluster_n"]
    block_m, block_n = at["tile_m"] * rows, at["tile_n"] * cols
    obstacles = (
        (at["swap_ab"], "swapped operands"),
        (any(size & (size - 1) for size in (block_m, block_n, at["tile_k"])), "a tile side that is no power of two"),
        (min(block_m, block_n, at["tile_k"]) < 16, "a tile side below 16"),
        (at["stream_k"], "stream-K"),
        (at["epilogue"] == 0, "a direct epilogue"),
        (at["epilogue"] == 2, "an overlapped epilogue"),
        (rows * cols > 1 and not at["cta_pair"], "a cluster that is no 2-CTA pair"),
        (not at["raster_along_n"] and at["swizzle"] > 1, "panels of tile columns (raster along_m)"),
        (at["split_k"] > 1 and at["persistent"], "split-K on a persistent grid"),
    )
    for met, what in obstacles:
        if met:
            return what
    grid_rows = -(-problem.m // block_m)
    kwargs = {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": at["tile_k"]}
    kwargs["GROUP_M"] = at["swizzle"] if at["raster_along_n"] else grid_rows
    if at["split_k"] > 1:
        kwargs["SPLIT_K"] = at["split_k"]
    if at["persistent"]:
        kwargs["NUM_SMS"] = gpu.sm_count - at["sms_free"]
    config = TritonConfig(kwargs, at["warps_m"] * at["warps_n"], at["stages"], rows * cols)
    read = {**at, "registers_measured": 0, "smem_measured_bytes": 0}
    compiled, back = schedule_of(config, problem, gpu)
    if compiled != family:
        return f"a tile that Triton gives to {compiled}, not {family}"
    return (
        config if back == distinct_raster(read, problem.m, problem.n) else "a warp layout that Triton does not choose"
    )


def _family(gpu: TritonGpu, tile_m: int, warps: int) -> str:
    for family in ("tcgen05", "wgmma"):
        if family in gpu.families and tile_m >= 64 and warps % 4 == 0:
            return family
    return "mma_sync" if "mma_sync" in gpu.families else gpu.families[0]


def _whole(name: str, value: Any, where: str) -> int:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not math.isfinite(number) or number != int(number):
        raise UserError(f"{where}: {name} = {value!r} is not a whole number")
    return int(number)
