"""What `explain` says of an attention schedule beside what every kernel's cost says; see `dse.advice`."""

from collections.abc import Mapping
from typing import Any

from ..about_schedule import About, Remarks

ORDER_BOTH = 3
BINDS = {
    "cuda": "the CUDA cores: maxima, sums and conversions of the softmax",
    "sfu": "the special function units: the softmax's exponentials",
}
BUSY = 0.75  # share of the latency from which tensor cores leave no softmax to hide


def remarks(about: About) -> Remarks:
    """Key -> share of the latency and remark."""
    at, cost = about.schedule, about.cost
    latency_s, steady_s = float(cost["latency_s"]), float(cost["steady_s"])
    busiest_s = max(float(cost[f"pipeline_{name}_s"]) for name in ("tensor", "cuda", "sfu", "smem"))
    shown = max(steady_s - busiest_s, 0.0) / latency_s if busiest_s < BUSY * latency_s else 0.0
    found: dict[str, tuple[float, str]] = {
        "bound": (0.0, ""),
        "overlap": (shown, _overlap_text(at)),
        "padding": (
            about.padding,
            "of the tensor work is masked or padding: diagonal blocks are done whole: smaller tiles, smaller blocks",
        ),
        "prologue": (
            about.share("prologue_s"),
            "is tiles' first loads and first blocks: smaller tiles in blocks of fewer keys, or persistent",
        ),
        "tail": (about.share("tail_s"), _tail_text(at)),
        "reduction": (about.share("reduction_s"), f"is combining {int(at['splits'])} splits of the keys: fewer splits"),
        "helpers": (
            about.share("helpers_s"),
            "is the library's other kernels around it (KV append, layout): fuse them, or take another library",
        ),
    }
    if about.bound in ("sfu", "cuda"):
        found["bound"] = (1.0, "a larger head dim does more products for each exponential; the softmax binds this one")
    return found


def _overlap_text(at: Mapping[str, Any]) -> str:
    if int(at["order"]) == ORDER_BOTH or int(at["warpgroups"]) < 2:
        return "is softmax that no product hides, and hand-overs: more warpgroups, or blocks of more keys"
    return "is softmax that no product hides: order=both with two or more warpgroups"


def _tail_text(at: Mapping[str, Any]) -> str:
    if int(at["longest_first"]):
        return "is SMs that wait for the last tiles: larger sections of heads, smaller tiles, or splits of the keys"
    return "is SMs that wait for the last tiles: longest_first=1, smaller tiles, or splits of the keys"
