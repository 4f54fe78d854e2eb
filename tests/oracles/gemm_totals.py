"""The scalar twin's last part: what the whole kernel asks, moves and draws, and what binds it.

Section 8 of docs/how-the-model-works.md, as `gemm.py` uses it. `p`, `s`, `g` are the records of one candidate.
"""

from types import SimpleNamespace
from typing import Any

from jaxmodel.machine import Gpu
from jaxmodel.types import BOUNDS, PIPELINES, Gemm

SHARED = ("l2", "ddr", "net")  # by all SMs


def whole(grid: SimpleNamespace, demand: SimpleNamespace) -> dict[str, float]:
    """What the kernel asks of each pipeline."""
    return {name: grid.k_steps_total * demand.step[name] + grid.tiles * demand.epilogue[name] for name in PIPELINES}


def pipeline_seconds(g: Gpu, whole: dict[str, float], rate: dict[str, float]) -> dict[str, float]:
    at_peak = {name: rate[name] if name in SHARED else rate[name] * g.sm_count for name in PIPELINES}
    return {name: whole[name] / at_peak[name] if at_peak[name] else 0.0 for name in PIPELINES}


def totals(
    p: Gemm, g: Gpu, grid: SimpleNamespace, traffic: SimpleNamespace, demand: SimpleNamespace, whole: dict[str, float],
    workspace: float,
) -> dict[str, float]:  # fmt: skip
    elements = p.m * p.n * p.batch
    spilled = workspace * traffic.workspace_lost
    ddr_read = grid.k_steps_total * demand.step["ddr"] + elements * p.c_in_bytes + spilled
    ddr_write = elements * p.out_bytes + spilled
    joules = (
        grid.k_steps_total * demand.step["tensor"] * g.joule_per_tensor_flop
        + grid.k_steps_total * demand.step["smem"] * g.joule_per_smem_byte
        + whole["l2"] * g.joule_per_l2_byte
        + (ddr_read + ddr_write) * g.joule_per_ddr_byte
    )
    return {
        "l15_bytes": whole["l15"],
        "l2_bytes": whole["l2"],
        "ddr_read_bytes": ddr_read,
        "ddr_write_bytes": ddr_write,
        "ddr_bytes": ddr_read + ddr_write,
        "workspace_bytes": workspace,
        "boost_joules": joules,
    }


def power(g: Gpu, latency_s: float, pipeline_s: dict[str, float], joules: float) -> tuple[float, float]:
    """Seconds that the power limit adds, and the kernel's energy."""
    slower = max(1.0, joules / latency_s / (g.tdp_w - g.static_w)) ** 0.5
    reached = latency_s / (latency_s + g.power_time_s) if g.power_time_s else 0.0
    throttle_s = (slower - 1) * reached * max(pipeline_s["tensor"], pipeline_s["smem"])
    return throttle_s, joules * (1 - reached + reached / slower) + (latency_s + throttle_s) * g.static_w


def bound(time: dict[str, Any], pipeline_s: dict[str, float]) -> int:
    half = 0.5 * time["latency_s"]
    if time["launch_s"] + time["reduction_s"] >= half:
        name = "launch"
    elif time["epilogue_s"] >= half:
        name = "epilogue"
    elif time["starved"]:
        name = "latency"
    else:
        name = max(PIPELINES, key=lambda pipeline: pipeline_s[pipeline])
    return BOUNDS.index(name)
