"""The schedule of a kernel of CUTLASS's library, from its name and the profiler's arguments.

The other direction, and what CUTLASS does that a call does not show, is in `dse.cutlass_call`.
"""

import re
import shlex
from collections.abc import Mapping
from typing import Any

from .cutlass_call import DIRECT, OVERLAPPED, STAGED, STAGES_TAG, TYPES, CutlassCall, narrowed_panel
from .errors import UserError
from .schedule_text import FIELDS, default_warps

_NAME_3X = re.compile(
    r"cutlass3x_sm(?P<arch>90|100)_tensorop_\w*?gemm_\w+?_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)"
    r"_(?P<cluster_m>\d+)x(?P<cluster_n>\d+)x\d+_\d+_[nt]{3}_align\d+(?P<kind>[\w*]*)"
)
_NAME_2X = re.compile(
    r"cutlass_tensorop_\w*?gemm\w*?_(?P<m>\d+)x(?P<n>\d+)_(?P<k>\d+)x(?P<stages>\d+)_[nt]{2}_align\d+"
)
_KIND_90 = re.compile(
    r"(?P<split>_stream_k)?_warpspecialized(?P<groups>_cooperative|_pingpong)?(_fp8_fastaccum)?(?P<store>_epi_\w+)?"
)
_KIND_100 = re.compile(r"(?P<split>_stream_k)?_(?P<sms>[12])sm[\w*]*")


def schedule_of(call: CutlassCall, problem: Any, where: str) -> tuple[str, dict[str, int]]:
    """The instruction family and the schedule of a profiler call.

    Args:
        call: a kernel's name, or a filter as `call_of` writes it; `stages`, or the tag that `call_of` writes, and what
            else the name leaves open stand among the arguments.
        problem: the user's problem; decides the launch order where CUTLASS does.
        where: for messages.

    Raises:
        UserError: a name that does not state tile and cluster, a kind of kernel that is not known, a missing or odd
            argument, or another type than the problem's.
    """
    given = str(call.arguments.get("A", "")).partition(":")[0]
    if given and given != TYPES[problem.dtype]:
        dtype = next((name for name, element in TYPES.items() if element == given), None)
        fix = f": add --dtype {dtype}" if dtype else ""
        raise UserError(
            f"{where} multiplies {given}, the question is about {TYPES[problem.dtype]} ({problem.dtype}){fix}"
        )
    if match := _NAME_3X.fullmatch(call.kernel):
        family, at = _schedule_3x(match, call, where)
        scheduled = family == "tcgen05" or at["persistent"] or at["split_k"] > 1
        order = launch_order(call.arguments, at, problem, where) if scheduled else (0, 1)
    elif match := _NAME_2X.fullmatch(call.kernel):
        family, at = "mma_sync", _schedule_2x(match, call, where)
        columns = -(-problem.n // at["tile_n"])
        order = (0, narrowed_panel(_whole(call, "swizzle_size", where, 1), columns))
    else:
        raise UserError(
            f"{where}: {call.kernel!r} is no name of a tensor-core GEMM that states its tile, e.g. "
            "cutlass3x_sm90_tensorop_gemm_bf16_bf16_f32_void_bf16_128x256x64_2x1x1_0_tnt_align8_warpspecialized_"
            "cooperative_epi_tma"
        )
    at |= {"raster_along_n": order[0], "swizzle": order[1]}
    return family, {name: at.get(name, 0) for name in FIELDS}


def read_script(text: str) -> list[tuple[int, CutlassCall]]:
    """The profiler calls of a shell script, each with the number of its first line; calls may go on over `\\`.

    Raises:
        UserError: a call with quotes that do not end.
    """
    found: list[tuple[int, CutlassCall]] = []
    first, pending = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if not pending and line.lstrip().startswith("#"):
            continue
        first = first if pending else number
        pending += line.rstrip()
        if pending.endswith("\\"):
            pending = pending[:-1] + " "
            continue
        command, pending = pending, ""
        if "--kernels" not in command:
            continue
        try:
            words = shlex.split(command, comments=True)
        except ValueError as error:
            raise UserError(f"line {first} is no readable profiler call: {error}") from None
        flags = dict(word[2:].split("=", 1) for word in words if word.startswith("--") and "=" in word)
        kernel = flags.pop("kernels", "")
        found.append((first, CutlassCall(kernel, flags)))
    return found


def launch_order(arguments: Mapping[str, Any], at: Mapping[str, int], problem: Any, where: str) -> tuple[int, int]:
    """(raster_along_n, swizzle) of a CUTLASS 3 tile scheduler: panels no wider than the grid allows, and along the
    shorter side where the choice is CUTLASS's (get_log_swizzle_size, get_rasterization_order).

    Raises:
        UserError: a raster order that CUTLASS does not have.
    """
    rows, cols = -(-problem.m // at["tile_m"]), -(-problem.n // at["tile_n"])
    asked = str(arguments.get("raster_order") or "heuristic").lower()
    known = {"along_n": 1, "n": 1, "along_m": 0, "m": 0, "heuristic": int(cols <= rows), "h": int(cols <= rows)}
    if asked not in known:
        raise UserError(f"{where}: raster_order={asked} is none of heuristic, along_m, along_n")
    swizzle = _number(arguments.get("swizzle_size") or 1, "swizzle_size", where)
    return known[asked], narrowed_panel(swizzle, min(rows, cols))


def _schedule_3x(match: re.Match[str], call: CutlassCall, where: str) -> tuple[str, dict[str, int]]:
    kind = (_KIND_90 if match["arch"] == "90" else _KIND_100).fullmatch(match["kind"])
    if not kind:
        kinds = "warp-specialised wgmma (_warpspecialized...)" if match["arch"] == "90" else "_1sm or _2sm"
        raise UserError(
            f"{where}: kernels that end in {match['kind']!r} are not known, of sm{match['arch']} {kinds} are"
        )
    at = {f"tile_{axis}": int(match[axis]) for axis in "mnk"}
    for axis in ("cluster_m", "cluster_n"):  # a cluster chosen at run time is 0 in the name
        at[axis] = int(match[axis]) or _whole(call, axis, where)
    slices = _whole(call, "split_k_slices", where, 1)
    at |= {"stages": _stages(call, where), "split_k": slices, "warps_n": 1}
    if slices > 1 and not kind["split"]:
        raise UserError(f"{where}: split_k_slices={slices} of a kernel without _stream_k, which splits nothing")
    at |= {"persistent": int(slices == 1), "stream_k": int(bool(kind["split"]) and slices == 1)}
    if match["arch"] == "100":
        pair = int(kind["sms"] == "2")
        at["tile_m"] //= 1 + pair  # the name counts a pair's rows
        return "tcgen05", {**at, "warps_m": 4, "cta_pair": pair, "epilogue": OVERLAPPED if slices == 1 else STAGED}
    at["epilogue"] = STAGED if kind["store"] == "_epi_tma" else DIRECT  # without a suffix the builder takes no SMEM
    if kind["groups"] == "_pingpong":
        return "wgmma", {**at, "warps_m": 4, "epilogue": OVERLAPPED}
    if kind["groups"] == "_cooperative":
        return "wgmma", {**at, "warps_m": 8}
    return "wgmma", {**at, "warps_m": 4, "persistent": 0}


def _schedule_2x(match: re.Match[str], call: CutlassCall, where: str) -> dict[str, int]:
    at = {f"tile_{axis}": int(match[axis]) for axis in "mnk"} | {"stages": int(match["stages"])}
    along_m, along_n = default_warps("mma_sync", at["tile_m"], at["tile_n"])
    at |= {"warps_m": _whole(call, "warps_m", where, along_m), "warps_n": _whole(call, "warps_n", where, along_n)}
    return at | {
        "cluster_m": 1,
        "cluster_n": 1,
        "split_k": _whole(call, "split_k_slices", where, 1),
        "epilogue": STAGED,
    }


def _stages(call: CutlassCall, where: str) -> int:
    tags = dict(tag.split(":", 1) for tag in str(call.arguments.get("tags", "")).split(",") if ":" in tag)
    if "stages" not in call.arguments and STAGES_TAG in tags:
        return _number(tags[STAGES_TAG], STAGES_TAG, where)
    return _whole(call, "stages", where)


def _whole(call: CutlassCall, name: str, where: str, default: int | None = None) -> int:
    given = call.arguments.get(name, default)
    if given is None:
        raise UserError(f"{where} does not say {name}: add --{name}=...")
    return _number(given, name, where)


def _number(given: Any, name: str, where: str) -> int:
    if not str(given).isdecimal() or int(given) < 1:
        raise UserError(f"{where}: {name}={given} is not one whole number from 1")
    return int(given)
