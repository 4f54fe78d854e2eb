"""TileLang's autotune configs and schedules, in both directions.

The names are those of the parameters of TileLang's own autotuned GEMMs (examples/gemm/example_gemm_autotune.py,
benchmark/matmul, docs/programming_guides/autotuning.md): block_M, block_N, block_K, num_stages, thread_num (or
threads), policy, enable_rasteration (TileLang spells it so; enable_rasterization is read too). TileLang's kernels fix
the width of panels to 10 rows of tiles; here it is a parameter too, `panel_size`, with the `order` of `T.use_swizzle`.

What a config says and what TileLang decides by itself:

* block_* are the tile, num_stages the K-steps in shared memory (0 and 1: one).
* thread_num threads multiply; on Hopper TileLang adds the warps that load. With block_M of at least 64 and a multiple
  of 4 warps a Hopper dot becomes wgmma, everything else mma.sync. Blackwell's tcgen05 needs another kernel, with an
  accumulator in tensor memory, and is none of these.
* Warps are laid out by `policy` (GemmWarpPolicy.compute_warp_partition of TileLang 0.1.15): Square, FullRow, FullCol.
* The grid's first dimension is n, so without rasterization CTAs run along n. With it: order "row" walks panels of
  `panel_size` rows of tiles along n (Triton's GROUP_M), "column" panels of columns along m. TileLang walks every other
  panel backwards, which the model does not tell apart.
* Results reach memory through shared memory (C_shared).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from .errors import UserError, unknown
from .schedule_text import FIELDS, distinct_raster
from .triton_config import TritonGpu

POLICIES = ("Square", "FullRow", "FullCol")  # in the order of the numbers of T.GemmWarpPolicy
ORDERS = ("row", "column")
DEFAULT_PANEL = 10  # rows of tiles, in TileLang's own kernels
NAMES = {  # what it is -> how kernels call it, first the name that is written
    "block_m": ("block_M",),
    "block_n": ("block_N",),
    "block_k": ("block_K",),
    "num_stages": ("num_stages",),
    "threads": ("thread_num", "threads", "num_threads"),
    "policy": ("policy",),
    "rasterize": ("enable_rasteration", "enable_rasterization"),
    "panel_size": ("panel_size",),
    "order": ("order",),
}
_MEANING = {name: meaning for meaning, names in NAMES.items() for name in names}
_ROWS, _COLUMNS, _GROUP = 16, 8, 4  # of a warp's mma; warps of a warpgroup


@dataclass(frozen=True)
class TileLangConfig:
    """One dictionary of `tilelang.autotune(configs=...)`.

    Attributes:
        block: block_M, block_N, block_K.
        num_stages: 0 or 1: no pipelining.
        threads: thread_num.
        policy: one of `POLICIES`.
        panel_size: tiles; 0: no rasterization.
        order: "row" or "column".
        unused: names that mean nothing to the model.
    """

    block: tuple[int, int, int]
    num_stages: int
    threads: int
    policy: str = "Square"
    panel_size: int = 0
    order: str = "row"
    unused: tuple[str, ...] = field(default=(), compare=False)

    def items(self) -> dict[str, Any]:
        """Parameter -> value, the policy by its name."""
        return dict(zip(("block_M", "block_N", "block_K"), self.block, strict=True)) | {
            "num_stages": self.num_stages,
            "thread_num": self.threads,
            "policy": self.policy,
            "enable_rasteration": self.panel_size > 0,
            "panel_size": max(1, self.panel_size),
            "order": self.order,
        }


def is_tilelang(names: Iterable[Any]) -> bool:
    """Whether these are names of a TileLang config's fields: a block_M and a number of threads, not of warps."""
    found = {_MEANING.get(str(name)) for name in names}
    return {"block_m", "threads"} <= found


def tilelang_from(fields: Mapping[str, Any], where: str) -> TileLangConfig:
    """A config from names and values, as a Python file, JSON or CSV has them.

    Raises:
        UserError: a missing parameter, a number that is not whole, threads that are no whole number of warps, or an
            unknown policy or order.
    """
    known = {_MEANING[name]: value for name, value in fields.items() if name in _MEANING and value not in ("", None)}
    missing = [
        NAMES[name][0] for name in ("block_m", "block_n", "block_k", "num_stages", "threads") if name not in known
    ]
    if missing:
        raise UserError(f"{where} lacks {', '.join(missing)}")
    block = tuple(_whole(known, name, where, 1) for name in ("block_m", "block_n", "block_k"))
    threads = _whole(known, "threads", where, 32)
    if threads % 32:
        raise UserError(f"{where}: thread_num = {threads} is not a whole number of warps of 32")
    panel = _whole(known, "panel_size", where, 1) if "panel_size" in known else DEFAULT_PANEL
    order = str(known.get("order", "row"))
    if order not in ORDERS:
        raise unknown(f"order in {where}:", order, ORDERS)
    return TileLangConfig(
        (block[0], block[1], block[2]),
        _whole(known, "num_stages", where, 0),
        threads,
        _policy(known.get("policy", 0), where),
        panel if _truth(known.get("rasterize", False), where) else 0,
        order,
        tuple(name for name in fields if name not in _MEANING),
    )


def schedule_of(
    config: TileLangConfig, problem: Any, gpu: TritonGpu, where: str = "config"
) -> tuple[str, dict[str, int]]:
    """The family that TileLang compiles to and the schedule that comes of it.

    Args:
        config: what the user gives to the autotuner.
        problem: the user's problem; decides where a panel is wider than the grid.
        gpu: families of the GPU.
        where: for messages.

    Raises:
        UserError: a policy that cannot lay out so many warps on the tile.
    """
    tile_m, tile_n, tile_k = config.block
    warps = config.threads // 32
    family = _family(gpu, tile_m, warps)
    layout = warp_layout(config.policy, tile_m, tile_n, warps, family)
    if layout is None:
        raise UserError(
            f"{where}: policy {config.policy} cannot lay out {warps} warps on a tile of {tile_m}x{tile_n}: fewer "
            "threads or another policy"
        )
    swizzle, along_n = (config.panel_size, config.order == "row") if config.panel_size else (1, True)
    schedule = dict.fromkeys(FIELDS, 0) | {
        "tile_m": tile_m,
        "tile_n": tile_n,
        "tile_k": tile_k,
        "stages": max(1, config.num_stages),
        "warps_m": layout[0],
        "warps_n": layout[1],
        "cluster_m": 1,
        "cluster_n": 1,
        "raster_along_n": int(along_n),
        "swizzle": swizzle,
        "split_k": 1,
        "epilogue": 1,
    }
    return family, distinct_raster(schedule, problem.m, problem.n)


def config_of(schedule: Mapping[str, int], family: str, problem: Any, gpu: TritonGpu) -> TileLangConfig | str:
    """The config that TileLang compiles to this schedule, or why there is none.

    What is returned reads back, through `schedule_of`, to the same schedule.
    """
    at = distinct_raster({name: int(schedule[name]) for name in FIELDS}, problem.m, problem.n)
    tile_m, tile_n, warps = at["tile_m"], at["tile_n"], at["warps_m"] * at["warps_n"]
    obstacles = (
        (family == "tcgen05", "tcgen05 (a TileLang kernel of its own, with its accumulator in tensor memory)"),
        (at["swap_ab"], "swapped operands"),
        (at["cluster_m"] * at["cluster_n"] > 1, "a cluster"),
        (at["persistent"], "a persistent or stream-K grid"),
        (at["split_k"] > 1, "split-K"),
        (at["epilogue"] != 1, "an epilogue that does not go through shared memory"),
        (tile_m % _ROWS or tile_n % _COLUMNS, "a tile that is no whole number of 16x8 instructions"),
    )
    for met, what in obstacles:
        if met:
            return what
    compiled = _family(gpu, tile_m, warps)
    if compiled != family:
        return f"a tile that TileLang gives to {compiled}, not {family}"
    layout = (at["warps_m"], at["warps_n"])
    policy = next((name for name in POLICIES if warp_layout(name, tile_m, tile_n, warps, family) == layout), None)
    if policy is None:
        return "a warp layout that no policy of TileLang chooses"
    plain = at["raster_along_n"] and at["swizzle"] == 1
    return TileLangConfig(
        (tile_m, tile_n, at["tile_k"]),
        at["stages"] if at["stages"] > 1 else 0,
        32 * warps,
        policy,
        0 if plain else at["swizzle"],
        "row" if at["raster_along_n"] else "column",
    )


def warp_layout(policy: str, tile_m: int, tile_n: int, warps: int, family: str) -> tuple[int, int] | None:
    """Warps along m and n; None where no layout covers the tile evenly, which TileLang refuses.

    A layout covers evenly where each warp owns a multiple of 16 rows and 8 columns; wgmma moves whole warpgroups of
    four along m. Of those, FullRow takes the one with most warps along m, FullCol with most along n, Square the one
    whose share of the tile, counted in instructions, has most nearly the tile's proportions (of equal ones the first).
    """
    step = _GROUP if family == "wgmma" else 1
    even = [
        along_m
        for along_m in range(step, warps + 1, step)
        if warps % along_m == 0 and tile_m % (_ROWS * along_m) == 0 and tile_n % (_COLUMNS * (warps // along_m)) == 0
    ]
    if not even:
        return None
    along_m = {"FullRow": even[-1], "FullCol": even[0]}.get(policy) or min(
        even, key=lambda m: abs(Fraction(tile_m * _COLUMNS * warps, tile_n * _ROWS * m * m) - Fraction(tile_m, tile_n))
    )
    return along_m, warps // along_m


def _family(gpu: TritonGpu, tile_m: int, warps: int) -> str:
    if "wgmma" in gpu.families and tile_m >= 64 and warps % _GROUP == 0:
        return "wgmma"
    return "mma_sync" if "mma_sync" in gpu.families else gpu.families[0]


def _policy(given: Any, where: str) -> str:
    name = getattr(given, "name", None) or getattr(given, "__name__", None) or str(given)
    name = str(name).rpartition(".")[2]
    if name.isdecimal() and int(name) < len(POLICIES):
        return POLICIES[int(name)]
    if name not in POLICIES:
        raise unknown(f"policy in {where}:", name, POLICIES)
    return name


def _truth(given: Any, where: str) -> bool:
    words = {"true": True, "false": False, "1": True, "0": False}
    if str(given).lower() not in words:
        raise UserError(f"{where}: enable_rasteration = {given!r} is neither True nor False")
    return words[str(given).lower()]


def _whole(known: Mapping[str, Any], name: str, where: str, low: int) -> int:
    try:
        number = float(known[name])
    except (TypeError, ValueError):
        number = float("nan")
    if not number >= low or number != int(number):
        raise UserError(f"{where}: {NAMES[name][0]} = {known[name]!r} is not a whole number from {low}")
    return int(number)
