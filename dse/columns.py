"""Names, units and meanings of the columns that result tables and files have."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from .content.gpu_fields import FIELDS
from .content.space import schedule_fields
from .errors import UserError

# GEMM's; name -> (unit, meaning); "1" is a pure number
SCHEDULE_COLUMNS: dict[str, tuple[str, str]] = {
    "tile_m": ("1", "rows of the output tile of one CTA"),
    "tile_n": ("1", "columns of the output tile of one CTA"),
    "tile_k": ("1", "depth of one K-step, elements"),
    "swap_ab": ("1", "1: the tile's rows run along the problem's n (the transposed product)"),
    "stages": ("1", "K-steps held in shared memory at once"),
    "warps_m": ("1", "warps along tile_m"),
    "warps_n": ("1", "warps along tile_n"),
    "cluster_m": ("1", "CTAs of a cluster along m"),
    "cluster_n": ("1", "CTAs of a cluster along n"),
    "cta_pair": ("1", "1: two CTAs share one tcgen05 instruction"),
    "raster_along_n": ("1", "1: tiles are launched along n inside a panel of tile rows; 0: along m"),
    "swizzle": ("1", "width of a launch panel, clusters"),
    "persistent": ("1", "1: one CTA a slot works through many tiles"),
    "sms_free": ("1", "SMs that a persistent grid leaves free"),
    "split_k": ("1", "parts that the K loop is split into"),
    "stream_k": ("1", "1: the last waves are shared by K-steps"),
    "epilogue": ("code", "0 direct, 1 staged through shared memory, 2 overlapped with the next main loop"),
    "registers_measured": ("1", "measured registers of a thread; 0: estimated"),
    "smem_measured_bytes": ("B", "measured shared memory of a CTA; 0: estimated"),
}
COST_COLUMNS: dict[str, tuple[str, str]] = {
    "latency_s": ("s", "latency of the whole kernel"),
    "reason": ("code", "why the schedule cannot run, jaxmodel.reasons.Reason; 0: it can"),
    "bound": ("code", "what binds, index into jaxmodel.types.BOUNDS"),
    "pipeline_tensor_s": ("s", "the whole demand on the tensor cores over its peak rate"),
    "pipeline_cuda_s": ("s", "the whole demand on the CUDA cores over its peak rate"),
    "pipeline_sfu_s": ("s", "the whole demand on the special function units over its peak rate"),
    "pipeline_tmem_s": ("s", "the whole demand on tensor memory over its peak rate"),
    "pipeline_smem_s": ("s", "the whole demand on shared memory over its peak rate"),
    "pipeline_l15_s": ("s", "the whole demand on the SMs' ports to L1.5 and L2 over its peak rate"),
    "pipeline_l2_s": ("s", "the whole demand on L2 over its peak rate"),
    "pipeline_ddr_s": ("s", "the whole demand on DRAM over its peak rate"),
    "pipeline_net_s": ("s", "the whole demand on the network over its peak rate"),
    "prologue_s": ("s", "filling the pipeline"),
    "steady_s": ("s", "main loop"),
    "epilogue_s": ("s", "writing results that nothing hides"),
    "tail_s": ("s", "last, partly filled wave"),
    "reduction_s": ("s", "adding up split or shared tiles"),
    "launch_s": ("s", "launching the kernel"),
    "helpers_s": ("s", "other kernels that it needs: quantising A, appending to a KV cache, sorting tokens"),
    "communication_s": ("s", "communication between GPUs that no computation hides; of kernels that communicate"),
    "flop": ("FLOP", "useful floating-point operations"),
    "l15_bytes": ("B", "bytes that the SMs request"),
    "l2_bytes": ("B", "bytes through L2"),
    "ddr_read_bytes": ("B", "bytes read from DRAM"),
    "ddr_write_bytes": ("B", "bytes written to DRAM"),
    "ddr_bytes": ("B", "bytes read from and written to DRAM"),
    "l15_hit": ("1", "share of all requested bytes found in L1.5"),
    "l2_hit": ("1", "share of all requested bytes found in L1.5 or L2"),
    "waves": ("1", "waves of CTAs"),
    "ctas_per_sm": ("1", "CTAs resident on an SM"),
    "occupancy_limiter": ("code", "what limits the CTAs on an SM, index into jaxmodel.types.OCCUPANCY_LIMITERS"),
    "registers_per_thread": ("1", "registers of a thread"),
    "smem_bytes": ("B", "shared memory of a CTA"),
    "threads": ("1", "threads of a CTA"),
    "workspace_bytes": ("B", "global memory for partial results"),
    "sms_used": ("1", "SMs that the kernel occupies"),
    "energy_j": ("J", "energy of the whole kernel"),
}
OF_SOME_KERNELS = ("communication_s",)  # cost columns that only kernels that communicate have
TRUST_COLUMNS: dict[str, tuple[str, str]] = {  # beside latency_s where there are residuals, see `dse.trust`
    "latency_low_s": ("s", "lower end of the interval that should hold the measured latency of a tuned kernel"),
    "latency_high_s": ("s", "upper end of the interval that should hold the measured latency of a tuned kernel"),
}
CODES = ("reason", "bound", "occupancy_limiter")  # whole numbers; beside each stands a column of words


def schedule_columns(kernel: str) -> Mapping[str, tuple[str, str]]:
    """Unit and meaning of every schedule field of a kernel, from its `_fields.toml`; none of a kernel without one."""
    if kernel == "gemm":
        return SCHEDULE_COLUMNS
    try:
        about = schedule_fields(kernel)
    except UserError:
        return {}
    return {
        name: (entry.get("unit", "code" if "names" in entry else "1"), _meaning(entry)) for name, entry in about.items()
    }


def describe(name: str, schedule: Mapping[str, tuple[str, str]] | None = None) -> tuple[str, str]:
    """Unit and meaning of a column.

    Args:
        name: of the column.
        schedule: those of the kernel's schedule fields; None: GEMM's.
    """
    if name == "index":
        return "1", "number of the schedule in its space: mixed-radix, the last axis fastest"
    if name.removesuffix("_name") in CODES and name.endswith("_name"):
        return "text", f"{name.removesuffix('_name')} in words"
    if name == "trial":
        return "1", "number of the trial, in the order in which they were tried"
    if name.startswith("gpu."):
        field = FIELDS.get(name.removeprefix("gpu."))
        return (field.unit, field.meaning) if field else ("1", f"{name.removeprefix('gpu.')} of the GPU, as chosen")
    known = {**(SCHEDULE_COLUMNS if schedule is None else schedule), **COST_COLUMNS, **TRUST_COLUMNS}
    return known.get(name, ("text", f"axis {name} of the space"))


def _meaning(entry: Mapping[str, Any]) -> str:
    names = ", ".join(f"{number} {name}" for number, name in enumerate(entry.get("names", ())))
    return f"{entry.get('text', '')}: {names}" if names else str(entry.get("text", ""))


def cost_columns(cost: Any) -> dict[str, Any]:
    """A cost record as one array a column, in the order of `COST_COLUMNS`; `pipeline_s` becomes a column a pipeline."""
    from jaxmodel.types import PIPELINES

    columns: dict[str, Any] = {}
    for f in fields(cost):
        value = getattr(cost, f.name)
        if isinstance(value, tuple):
            columns |= {f"pipeline_{name}_s": entry for name, entry in zip(PIPELINES, value, strict=True)}
        else:
            columns[f.name] = value
    return in_order(columns)


def in_order(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Cost columns in the order of `COST_COLUMNS`, whatever the order they come in (`jit` sorts names)."""
    return {name: columns[name] for name in COST_COLUMNS if name in columns}


def code_words() -> dict[str, tuple[str, ...]]:
    """Column of codes -> the words for 0, 1, ..."""
    from jaxmodel.reasons import Reason
    from jaxmodel.types import BOUNDS, OCCUPANCY_LIMITERS

    reasons = tuple(reason.name for reason in sorted(Reason))
    return {"reason": reasons, "bound": tuple(BOUNDS), "occupancy_limiter": tuple(OCCUPANCY_LIMITERS)}


def code_names(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The columns of words that stand beside the codes among `columns`: `reason_name` and so on."""
    return {
        f"{name}_name": np.array(words, object)[np.clip(np.asarray(columns[name]).astype(int), 0, len(words) - 1)]
        for name, words in code_words().items()
        if name in columns
    }
