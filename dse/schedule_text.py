"""GEMM schedules as people write them: `tile=128x256x64 stages=4 warps=8 cluster=2x1 launch=persistent`.

    tile      MxNxK of one CTA, elements                      stages    K-steps in shared memory
    warps     a number, MxN, or 1wg / 2wg (wgmma)             cluster   MxN CTAs; pair:2x1 is a tcgen05 2-CTA pair
    raster    along_m:W or along_n:W, panels W tiles wide     epilogue  direct, staged, overlapped
    launch    data_parallel, persistent[:freeN], split_k:N, stream_k[:freeN]; an epilogue may follow, :staged
    swap_ab   1: tiles of the transposed product, their rows along the problem's n
    registers, smem_bytes: measured, in place of the model's estimate

Any field of the schedule record may be given by its own name as well (`tile_m=128`).
"""

import re
from collections.abc import Mapping
from typing import Any

from .errors import UserError, unknown
from .split_words import split_words

EPILOGUES = ("direct", "staged", "overlapped")
LAUNCHES = ("data_parallel", "persistent", "split_k", "stream_k")
WORDS = ("tile", "stages", "warps", "cluster", "raster", "launch", "epilogue", "registers", "smem_bytes")
FIELDS = (
    "tile_m",
    "tile_n",
    "tile_k",
    "stages",
    "warps_m",
    "warps_n",
    "cluster_m",
    "cluster_n",
    "cta_pair",
    "swap_ab",
    "raster_along_n",
    "swizzle",
    "persistent",
    "sms_free",
    "split_k",
    "stream_k",
    "epilogue",
    "registers_measured",
    "smem_measured_bytes",
)
EXAMPLE = "tile=128x256x64 stages=4 warps=8 cluster=2x1 raster=along_m:8 launch=persistent"
_DEFAULTS = {
    "cluster_m": 1,
    "cluster_n": 1,
    "cta_pair": 0,
    "swap_ab": 0,
    "raster_along_n": 0,
    "swizzle": 1,
    "persistent": 0,
    "sms_free": 0,
    "split_k": 1,
    "stream_k": 0,
    "epilogue": EPILOGUES.index("staged"),
    "registers_measured": 0,
    "smem_measured_bytes": 0,
}
_NEEDED = ("tile_m", "tile_n", "tile_k", "stages")


def parse_schedule(given: str | Mapping[str, Any], family: str) -> dict[str, int]:
    """A complete schedule from what a user wrote.

    What is left out: one warp layout that the family's libraries use for the tile (see `default_warps`), no cluster,
    raster along_m:1, a data-parallel launch with a staged epilogue. The tile and the stages must be given.

    Args:
        given: words as in the module's text, a JSON object, or a mapping; keys are the words or schedule fields.
        family: instruction family; decides how a bare number of warps is laid out.

    Returns:
        Field -> number, in the order of `jaxmodel.types.GemmSchedule`.

    Raises:
        UserError: a word that is unknown, given twice or not readable, or a missing tile or stages.
    """
    words = (
        split_words(given, lambda: EXAMPLE)
        if isinstance(given, str)
        else {str(key): value for key, value in given.items()}
    )
    fields: dict[str, int] = {}
    for key, value in words.items():
        if key not in WORDS and key not in FIELDS:
            raise unknown("word of a schedule", key, (*WORDS, *FIELDS), f"e.g. {EXAMPLE}")
        for name, number in _read(key, value, family, words).items():
            if name == "epilogue" and key != "epilogue" and "epilogue" in words:
                continue  # the word of its own has the last say over launch=...:staged
            if fields.get(name, number) != number:
                raise UserError(f"the schedule sets {name} to {fields[name]} and to {number}: say it once")
            fields[name] = number
    missing = [name for name in _NEEDED if name not in fields]
    if missing:
        raise UserError(f"the schedule lacks {', '.join(missing)}; write e.g. {EXAMPLE}")
    if "warps_m" not in fields:
        fields["warps_m"], fields["warps_n"] = default_warps(family, fields["tile_m"], fields["tile_n"])
    fields.setdefault("warps_n", 1)
    complete = _DEFAULTS | fields
    return {name: complete[name] for name in FIELDS}


def format_schedule(schedule: Mapping[str, Any]) -> str:
    """The words of a schedule: what `parse_schedule` reads back to the same fields."""
    at = {name: int(schedule[name]) for name in FIELDS}
    words = [
        f"tile={at['tile_m']}x{at['tile_n']}x{at['tile_k']}",
        f"stages={at['stages']}",
        f"warps={at['warps_m']}x{at['warps_n']}",
        f"cluster={cluster_label(at)}",
        f"raster={raster_label(at)}",
        f"launch={launch_label(at)}",
        f"epilogue={EPILOGUES[at['epilogue']]}",
    ]
    if at["swap_ab"]:
        words.append("swap_ab=1")
    if at["registers_measured"]:
        words.append(f"registers={at['registers_measured']}")
    if at["smem_measured_bytes"]:
        words.append(f"smem_bytes={at['smem_measured_bytes']}")
    return " ".join(words)


def cluster_label(at: Mapping[str, Any]) -> str:
    """`2x1`, or `pair:2x1` where two CTAs share an instruction."""
    return f"{'pair:' if at['cta_pair'] else ''}{int(at['cluster_m'])}x{int(at['cluster_n'])}"


def raster_label(at: Mapping[str, Any]) -> str:
    """`along_m:8`."""
    return f"along_{'n' if at['raster_along_n'] else 'm'}:{int(at['swizzle'])}"


def launch_label(at: Mapping[str, Any]) -> str:
    """`persistent`, `persistent:free8`, `split_k:4`, ...; split-K on a persistent grid is `split_k:4:persistent`."""
    free = f":free{int(at['sms_free'])}" if at["sms_free"] else ""
    if at["stream_k"]:
        return f"stream_k{free}"
    if at["split_k"] > 1:
        return f"split_k:{int(at['split_k'])}" + (f":persistent{free}" if at["persistent"] else "")
    return f"persistent{free}" if at["persistent"] else "data_parallel"


def warps_label(at: Mapping[str, Any]) -> str:
    """Warps along m by warps along n, `8x1`."""
    return f"{int(at['warps_m'])}x{int(at['warps_n'])}"


def default_warps(family: str, tile_m: int, tile_n: int, warps: int | None = None) -> tuple[int, int]:
    """Warps along m and n where a user gives none, or only their number.

    wgmma: warps stand along m, a warpgroup for each 64 rows (at most two), any further ones along n. tcgen05: four
    epilogue warps along m, any further ones along n. mma.sync: every doubling goes to the side with more instructions
    left, 16 rows or 8 columns each, and to m where both have the same; that is how Triton lays out its warps.
    """
    if family == "wgmma":
        number = warps or (8 if tile_m % 128 == 0 else 4)
        along_m = 4
        while along_m < number and tile_m >= 32 * along_m:
            along_m *= 2
        along_m = min(along_m, number)
        return along_m, max(1, number // along_m)
    if family == "tcgen05":
        number = warps or 4
        return min(4, number), max(1, number // 4)
    left_m, left_n = max(1, -(-tile_m // 16)), max(1, -(-tile_n // 8))
    along_m, along_n = 1, 1
    while along_m * along_n < (warps or 4):
        if left_m >= left_n:
            along_m, left_m = 2 * along_m, max(1, left_m // 2)
        else:
            along_n, left_n = 2 * along_n, max(1, left_n // 2)
    return along_m, along_n


def distinct_raster(schedule: Mapping[str, int], m: int, n: int) -> dict[str, int]:
    """The schedule with its launch order named the one way in which a space holds it.

    A panel as wide as the grid is the other axis's walk of width 1, and on a grid of one row or column every order is
    the same; a space keeps each order once (Reason.SAME_ORDER), a user's own candidate must not fail for it.
    """
    if schedule["swap_ab"]:
        m, n = n, m
    rows = -(-m // (schedule["tile_m"] * schedule["cluster_m"]))
    cols = -(-n // (schedule["tile_n"] * schedule["cluster_n"]))
    along_n, swizzle = schedule["raster_along_n"], schedule["swizzle"]
    if min(rows, cols) < 2:
        along_n, swizzle = 0, 1
    elif swizzle > 1 and swizzle >= (rows if along_n else cols):
        along_n, swizzle = 1 - along_n, 1
    return {**schedule, "raster_along_n": along_n, "swizzle": swizzle}


def _read(key: str, value: Any, family: str, words: Mapping[str, Any]) -> dict[str, int]:
    text = str(value).strip().lower()
    if key == "epilogue":
        if text in EPILOGUES:
            return {"epilogue": EPILOGUES.index(text)}
        if text not in ("0", "1", "2"):
            raise unknown("epilogue", text, EPILOGUES)
        return {"epilogue": int(text)}
    readers = {"tile": _tile, "cluster": _cluster, "raster": _raster, "launch": _launch}
    if key in readers:
        return readers[key](text)
    if key == "warps":
        return _warps(text, family, words)
    names = {"registers": "registers_measured", "smem_bytes": "smem_measured_bytes"}
    return {names.get(key, key): _whole(key, text, 0 if key not in (*_NEEDED, "split_k", "swizzle") else 1)}


def _tile(text: str) -> dict[str, int]:
    return dict(zip(("tile_m", "tile_n", "tile_k"), _numbers("tile", text, 3, "MxNxK, e.g. 128x256x64"), strict=True))


def _cluster(text: str) -> dict[str, int]:
    pair = text.startswith("pair:")
    along_m, along_n = _numbers("cluster", text.removeprefix("pair:"), 2, "MxN, e.g. 2x1 or pair:2x1")
    return {"cluster_m": along_m, "cluster_n": along_n, "cta_pair": int(pair)}


def _raster(text: str) -> dict[str, int]:
    match = re.fullmatch(r"along_([mn])(?::(\d+))?", text)
    if not match:
        raise UserError(f"raster={text} is not along_m:W or along_n:W, e.g. along_m:8")
    return {"raster_along_n": int(match[1] == "n"), "swizzle": _whole("raster", match[2] or "1", 1)}


def _launch(text: str) -> dict[str, int]:
    name, *rest = text.split(":")
    if name not in LAUNCHES:
        raise unknown("launch", name, LAUNCHES)
    fields = {"persistent": int(name in ("persistent", "stream_k")), "stream_k": int(name == "stream_k")}
    if name == "split_k":
        if not rest:
            raise UserError("launch=split_k lacks the number of splits: write e.g. launch=split_k:4")
        fields["split_k"] = _whole("launch=split_k", rest.pop(0), 1)
    for word in rest:
        if word in EPILOGUES:
            fields["epilogue"] = EPILOGUES.index(word)
        elif word == "persistent":
            fields["persistent"] = 1
        elif word.startswith("free"):
            fields["sms_free"] = _whole("launch", word.removeprefix("free"), 0)
        else:
            raise UserError(f"launch={text}: {word!r} is none of freeN, {', '.join(EPILOGUES)}")
    return fields


def _warps(text: str, family: str, words: Mapping[str, Any]) -> dict[str, int]:
    if re.fullmatch(r"\d+wg", text):
        return {"warps_m": 4 * _whole("warps", text.removesuffix("wg"), 1), "warps_n": 1}
    if "x" in text:
        along_m, along_n = _numbers("warps", text, 2, "a number or MxN, e.g. 8 or 4x2")
        return {"warps_m": along_m, "warps_n": along_n}
    number = _whole("warps", text, 1)
    tile = _tile(str(words["tile"])) if "tile" in words else {k: int(words.get(k, 128)) for k in ("tile_m", "tile_n")}
    along_m, along_n = default_warps(family, tile["tile_m"], tile["tile_n"], number)
    if along_m * along_n != number:
        raise UserError(f"warps={number} cannot be laid out for {family}: use a power of two, or say MxN, e.g. 4x2")
    return {"warps_m": along_m, "warps_n": along_n}


def _numbers(key: str, text: str, count: int, form: str) -> list[int]:
    parts = text.split("x")
    if len(parts) != count:
        raise UserError(f"{key}={text} is not {form}")
    return [_whole(key, part, 1) for part in parts]


def _whole(key: str, text: str, low: int) -> int:
    if not re.fullmatch(r"\d+(\.0*)?", text) or float(text) < low or float(text) > 2**24:
        raise UserError(f"{key}={text} is not allowed: a whole number from {low} to 2^24")
    return int(float(text))
