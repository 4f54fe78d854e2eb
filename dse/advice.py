"""In words: what holds a schedule back, and what to change. Each remark states the number it rests on."""

from collections.abc import Mapping
from typing import Any

from .roofline import Roofline

WORTH_SAYING = 0.05  # share of the latency below which a loss is not mentioned
SATURATED = 0.6  # share of the latency from which the busiest pipeline is said to bind
GOOD_TRAFFIC = 1.25  # DRAM bytes over compulsory bytes that need no remark


def what_binds(cost: Mapping[str, Any], roof: Roofline) -> str:
    """One sentence on the bottleneck.

    Args:
        cost: cost column -> number, one schedule's; `bound_name` says what binds.
        roof: the problem's roofline on this GPU.
    """
    bound, latency_s = str(cost["bound_name"]), float(cost["latency_s"])
    if bound == "launch":
        lost = float(cost["launch_s"]) + float(cost["reduction_s"])
        return f"launch and reduction take {lost / latency_s:.0%} of the latency; the work itself is too short"
    if bound == "epilogue":
        return f"writing the results takes {float(cost['epilogue_s']) / latency_s:.0%} of the latency, in the open"
    if bound == "latency":
        return "load latency: the K-steps in flight do not cover the way to memory and back"
    share = float(cost[f"pipeline_{bound}_s"]) / latency_s
    texts = {
        "tensor": "the tensor cores",
        "ddr": f"DRAM, which moves {_traffic(cost, roof):.2f} times the compulsory bytes",
        "l2": "L2 bandwidth",
        "l15": "the SMs' way to L1.5 and L2",
        "smem": "shared memory, from which the MMAs read their operands",
        "tmem": "TMEM bandwidth",
        "cuda": "the CUDA cores (epilogue arithmetic)",
        "sfu": "the special function units",
        "net": "the network",
    }
    if share < SATURATED:
        return f"nothing is saturated; busiest, for {share:.0%} of the latency: {texts[bound]}"
    return f"{texts[bound]}, busy for {share:.0%} of the latency"


def what_to_change(
    schedule: Mapping[str, Any],
    cost: Mapping[str, Any],
    roof: Roofline,
    clusters: bool = True,
    throttled_s: float = 0.0,
) -> list[str]:
    """Remarks in the order of what they may win, the largest first; empty where nothing stands out.

    Args:
        schedule: field -> number.
        cost: cost column -> number, one schedule's.
        roof: the problem's roofline on this GPU.
        clusters: whether the GPU has clusters.
        throttled_s: seconds of the latency that the power limit costs.
    """
    latency_s, bound = float(cost["latency_s"]), str(cost["bound_name"])
    remarks = [
        *_bound_remark(bound, schedule, cost, roof, clusters),
        (_padding(cost, roof), "of the MMA work is padding: choose tile_m, tile_n, tile_k that divide m, n and k"),
        (_share(cost, "tail_s"), _tail_text(schedule, cost)),
        (_share(cost, "prologue_s"), _prologue_text(schedule)),
        (_share(cost, "epilogue_s") if bound != "epilogue" else 0.0, _epilogue_text(schedule)),
        (_share(cost, "reduction_s"), _reduction_text(schedule)),
        (_share(cost, "launch_s") if bound != "launch" else 0.0, "is kernel launch: fuse or batch neighbouring GEMMs"),
    ]
    remarks.append((_share(cost, "helpers_s"), "is quantising A: let the kernel that writes A write it narrow"))
    remarks.append(
        (throttled_s / latency_s, "is the power limit: a narrower type or a higher limit helps, a schedule hardly")
    )
    if bound == "tensor" and float(cost["steady_s"]) > 0:
        busy_s = float(cost["pipeline_tensor_s"]) * (1.0 - _share(cost, "tail_s"))
        idle_s = max(0.0, float(cost["steady_s"]) - throttled_s - busy_s)  # the limit is counted with the steady part
        remarks.append((idle_s / latency_s, _step_text(schedule)))
    said = sorted((remark for remark in remarks if remark[0] >= WORTH_SAYING), key=lambda remark: -remark[0])
    return [text if share >= 1.0 else f"{share:.0%} {text}" for share, text in said]


def _bound_remark(
    bound: str, at: Mapping[str, Any], cost: Mapping[str, Any], roof: Roofline, clusters: bool
) -> list[tuple[float, str]]:
    multicast = ", or a cluster (2x1, 1x2) whose CTAs share one load by multicast" if clusters else ""
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
    if bound == "ddr":
        traffic = _traffic(cost, roof)
        if traffic <= GOOD_TRAFFIC:
            return [
                (
                    1.0,
                    "DRAM moves hardly more than it must: narrower types, fusion or more bandwidth help, tiles do not",
                )
            ]
        axis = "along_m" if at["raster_along_n"] else "along_n"
        return [
            (
                1.0,
                f"raise L2 reuse (DRAM moves {traffic:.2f} times the compulsory bytes): a larger tile, a raster panel "
                f"whose rows and columns are about as long (now W={int(at['swizzle'])}), or {axis}",
            )
        ]
    return [(1.0, texts[bound])] if bound in texts else []


def _traffic(cost: Mapping[str, Any], roof: Roofline) -> float:
    return float(cost["ddr_bytes"]) / roof.compulsory_bytes


def _share(cost: Mapping[str, Any], name: str) -> float:
    return min(float(cost[name]) / float(cost["latency_s"]), 0.999)


def _padding(cost: Mapping[str, Any], roof: Roofline) -> float:
    executed_s = float(cost["pipeline_tensor_s"]) * roof.tensor_efficiency
    return max(0.0, 1.0 - roof.tensor_s / executed_s) if executed_s > 0 else 0.0


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
