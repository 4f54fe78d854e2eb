"""In words: what holds a schedule back, and what to change. Each remark states the number it rests on.

What can be said from a cost alone is said here, for every kernel. A kernel's own module (`Kernel.advice`) may hold
`BINDS`, bound -> words in place of those below, and `remarks(about) -> {key: (share of the latency, text)}`, which
stand in place of the remarks of the same key, or beside them.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from .about_schedule import GOOD_TRAFFIC, About, Remarks
from .kernels.registry import get_kernel
from .roofline import Roofline

WORTH_SAYING = 0.05  # share of the latency below which a loss is not mentioned
SATURATED = 0.6  # share of the latency from which the busiest pipeline is said to bind
BINDS = {
    "latency": "load latency: the loads in flight do not cover the way to memory and back",
    "tensor": "the tensor cores",
    "l2": "L2 bandwidth",
    "l15": "the SMs' way to L1.5 and L2",
    "smem": "shared memory bandwidth",
    "tmem": "TMEM bandwidth",
    "cuda": "the CUDA cores",
    "sfu": "the special function units",
    "net": "the network",
}


def what_binds(cost: Mapping[str, Any], roof: Roofline, kernel: str = "gemm") -> str:
    """One sentence on the bottleneck.

    Args:
        cost: cost column -> number, one schedule's; `bound_name` says what binds.
        roof: the problem's roofline on this GPU.
        kernel: name of the kernel.
    """
    bound, latency_s = str(cost["bound_name"]), float(cost["latency_s"])
    if bound == "launch":
        lost = float(cost["launch_s"]) + float(cost["reduction_s"])
        return f"launch and reduction take {lost / latency_s:.0%} of the latency; the work itself is too short"
    if bound == "epilogue":
        return f"writing the results takes {float(cost['epilogue_s']) / latency_s:.0%} of the latency, in the open"
    texts = BINDS | dict(getattr(_own(kernel), "BINDS", {}))
    if bound == "latency":
        return texts[bound]
    share = float(cost[f"pipeline_{bound}_s"]) / latency_s
    traffic = About(kernel, {}, cost, roof).traffic
    text = f"DRAM, which moves {traffic:.2f} times the compulsory bytes" if bound == "ddr" else texts[bound]
    if share < SATURATED:
        return f"nothing is saturated; busiest, for {share:.0%} of the latency: {text}"
    return f"{text}, busy for {share:.0%} of the latency"


def what_to_change(about: About) -> list[str]:
    """Remarks in the order of what they may win, the largest first; empty where nothing stands out."""
    own = getattr(_own(about.kernel), "remarks", None)
    remarks = {**_remarks(about), **(own(about) if own else {})}
    said = sorted((at for at in remarks.values() if at[0] >= WORTH_SAYING), key=lambda remark: -remark[0])
    return [text if share >= 1.0 else f"{share:.0%} {text}" for share, text in said]


def _remarks(about: About) -> Remarks:
    cost, bound, share = about.cost, about.bound, about.share
    tail_help = "other tiles" if about.schedule.get("persistent") else "other tiles, or a persistent grid"
    return {
        "bound": (1.0 if _bound_text(about) else 0.0, _bound_text(about)),
        "padding": (about.padding, "of the tensor work is padding: choose tiles that divide the problem's sizes"),
        "tail": (
            share("tail_s"),
            f"is the tail of {float(cost['waves']):.2f} waves: {tail_help}",
        ),
        "prologue": (share("prologue_s"), "is filling the pipeline: fewer stages, or more work a CTA"),
        "epilogue": (share("epilogue_s") if bound != "epilogue" else 0.0, "is writing results that nothing hides"),
        "reduction": (share("reduction_s"), "is adding up what was split: fewer splits"),
        "launch": (share("launch_s") if bound != "launch" else 0.0, "is kernel launch: fuse it with its neighbours"),
        "helpers": (share("helpers_s"), "is kernels before or after it: fuse them, or leave their work to others"),
        "power": (
            about.throttled_s / float(cost["latency_s"]),
            "is the power limit: a narrower type or a higher limit helps, a schedule hardly",
        ),
    }


def _bound_text(about: About) -> str:
    cost = about.cost
    if about.bound == "ddr":
        if about.traffic <= GOOD_TRAFFIC:
            return "DRAM moves hardly more than it must: narrower types, fusion or more bandwidth help, tiles do not"
        return (
            f"raise L2 reuse (DRAM moves {about.traffic:.2f} times the compulsory bytes): larger tiles, another order"
        )
    texts = {
        "l2": "raise reuse before L2: larger tiles",
        "l15": "fewer bytes through the SM's port: larger tiles",
        "smem": "fewer bytes through shared memory: operands in registers, or a larger tile a warp",
        "latency": f"cover the latency: more bytes in flight a CTA, or more CTAs an SM (now "
        f"{float(cost['ctas_per_sm']):.0f}, limited by {cost['occupancy_limiter_name']})",
        "epilogue": "hide the writing of results under other work",
        "launch": "do more a launch: batch it, fuse it with its neighbours, or launch from a graph",
        "tmem": "fewer bytes through TMEM: narrower accumulator tiles",
        "cuda": "fewer instructions beside the tensor cores, or overlap them with other work",
        "sfu": "fewer exponentials and reciprocals, part of them by polynomials on the CUDA cores, or overlap them",
    }
    return texts.get(about.bound, "")


def _own(kernel: str) -> Any:
    module = get_kernel(kernel).advice
    return import_module(module) if module else None
