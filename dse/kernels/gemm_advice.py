"""What `explain` says of a GEMM schedule beside what every kernel's cost says; see `dse.advice`."""

from collections.abc import Mapping
from typing import Any

from ..about_schedule import GOOD_TRAFFIC, About, Remarks

BINDS = {
    "latency": "load latency: the K-steps in flight do not cover the way to memory and back",
    "smem": "shared memory, from which the MMAs read their operands",
    "cuda": "the CUDA cores (epilogue arithmetic)",
}


def remarks(about: About) -> Remarks:
    """Key -> share of the latency and remark."""
    at, cost, bound, share = about.schedule, about.cost, about.bound, about.share
    found = {
        "bound": (1.0 if _bound_text(about) else 0.0, _bound_text(about)),
        "padding": (about.padding, "of the MMA work is padding: choose tile_m, tile_n, tile_k that divide m, n and k"),
        "tail": (share("tail_s"), _tail_text(at, cost)),
        "prologue": (share("prologue_s"), _prologue_text(at)),
        "epilogue": (share("epilogue_s") if bound != "epilogue" else 0.0, _epilogue_text(at)),
        "reduction": (share("reduction_s"), _reduction_text(at)),
        "launch": (
            share("launch_s") if bound != "launch" else 0.0,
            "is kernel launch: fuse or batch neighbouring GEMMs",
        ),
        "helpers": (share("helpers_s"), "is quantising A: let the kernel that writes A write it narrow"),
    }
    if bound == "tensor" and float(cost["steady_s"]) > 0:
        busy_s = float(cost["pipeline_tensor_s"]) * (1.0 - share("tail_s"))
        # the power limit is counted with the steady part
        idle_s = max(0.0, float(cost["steady_s"]) - about.throttled_s - busy_s)
        found["step"] = (idle_s / float(cost["latency_s"]), _step_text(at))
    return found


def _bound_text(about: About) -> str:
    at, cost = about.schedule, about.cost
    multicast = ", or a cluster (2x1, 1x2) whose CTAs share one load by multicast" if about.clusters else ""
    texts = {
        "l2": f"raise reuse before L2: a larger, squarer tile{multicast}",
        "l15": f"fewer bytes a FLOP through the SM's port: a larger, squarer tile{multicast}",
        "smem": "fewer operand reads an MMA: a larger tile a warp (fewer warps), wider tile_n, or wgmma where there is",
        "latency": f"cover the latency: more stages (now {int(at['stages'])}), a deeper tile_k "
        f"(now {int(at['tile_k'])}), or more CTAs an SM (now {float(cost['ctas_per_sm']):.0f}, "
        f"limited by {cost['occupancy_limiter_name']})",
        "epilogue": "hide the epilogue: a persistent launch with epilogue=overlapped, or a longer K walk a tile",
        "launch": "do more a launch: batch or fuse neighbouring GEMMs, or launch from a graph",
        "tmem": "a smaller tile_n, so that fewer accumulator columns move",
        "cuda": "a simpler epilogue, or overlap it with the next tile",
    }
    if about.bound != "ddr":
        return texts.get(about.bound, "")
    if about.traffic <= GOOD_TRAFFIC:
        return "DRAM moves hardly more than it must: narrower types, fusion or more bandwidth help, tiles do not"
    axis = "along_m" if at["raster_along_n"] else "along_n"
    return (
        f"raise L2 reuse (DRAM moves {about.traffic:.2f} times the compulsory bytes): a larger tile, a raster panel "
        f"whose rows and columns are about as long (now W={int(at['swizzle'])}), or {axis}"
    )


def _tail_text(at: Mapping[str, Any], cost: Mapping[str, Any]) -> str:
    ways = ["another tile size"]
    if not at["stream_k"] and at["split_k"] < 2:
        ways.append("stream-K or split-K")
    if not at["persistent"]:
        ways.append("a persistent grid")
    return f"is the tail of {float(cost['waves']):.2f} waves: {', or '.join(ways)}"


def _prologue_text(at: Mapping[str, Any]) -> str:
    if at["persistent"]:
        return "is filling the pipeline: fewer stages, or more tiles an SM"
    return "is filling the pipeline: a persistent launch fills it once, a smaller tile_k fills it sooner"


def _epilogue_text(at: Mapping[str, Any]) -> str:
    if at["epilogue"] == 2:
        return "is epilogue that the next main loop does not hide: more tiles an SM"
    return "is epilogue: launch=persistent epilogue=overlapped hides it, staged writes fuller lines than direct"


def _reduction_text(at: Mapping[str, Any]) -> str:
    if at["stream_k"]:
        return "is stream-K's fix-up: a larger tile_k or a persistent launch"
    return f"is split-K's reduction: fewer splits (now {int(at['split_k'])}), or stream-K"


def _step_text(at: Mapping[str, Any]) -> str:
    return (
        f"is main loop beyond the MMAs themselves: barriers and issue of K-steps; a deeper tile_k "
        f"(now {int(at['tile_k'])}) pays them less often"
    )
