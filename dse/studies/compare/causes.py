"""What can differ between two kernels of one problem, in groups that people have a word for: parts of the machine and
parts of the schedule. Mixtures of two kernels take each group whole from one or the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ...schedule_text import EPILOGUES, cluster_label, launch_label, raster_label, warps_label
from ...schedule_words import words_of
from ...text import quantity_text
from ..sensitivity.gpu_numbers import field_of, latencies
from ..sensitivity.precise_costs import Rows, make_rows

MACHINE: dict[str, tuple[str, ...]] = {  # cause -> fields of the GPU's record; `latency` takes all times left over
    "SMs": ("sm_count", "cluster_sms"),
    "clock": ("clock_hz",),
    "tensor cores": ("tensor_flop_per_clock_sm", "tensor_efficiency"),
    "CUDA cores": ("cuda_flop_per_clock_sm", "sfu_op_per_clock_sm"),
    "SMEM and TMEM": ("smem_bytes_per_clock_sm", "tmem_bytes_per_clock_sm"),
    "SM ports and L1.5": (
        *("sm_port_bytes_per_clock", "l15_group_sms", "l15_capacity_bytes"),
        *("l15_bytes_per_clock_group", "l15_ways"),
    ),
    "L2": (
        *("l2_capacity_bytes", "l2_effective_ratio", "l2_ways", "l2_retention", "l2_bytes_per_s"),
        *("drift_skew_steps", "drift_jitter_steps"),
    ),
    "DDR": ("ddr_bytes_per_s", "ddr_write_cost", "ddr_stream_ratio", "store_exposure"),
    "overlap": ("overlap_loss",),
    "quantisation": ("quantise_launch_s", "quantise_bytes_per_s"),
    "SM limits": (
        *("smem_per_sm_bytes", "smem_per_cta_max_bytes", "smem_reserve_bytes", "registers_per_sm"),
        *("register_granularity", "registers_per_thread_max", "threads_per_sm", "warps_per_sm", "ctas_per_sm"),
        "tmem_columns",
    ),
    "power": (
        *("tdp_w", "power_time_s", "static_w", "joule_per_tensor_flop", "joule_per_smem_byte"),
        *("joule_per_l2_byte", "joule_per_ddr_byte"),
    ),
}
LATENCY = "launch and latencies"
SCHEDULE: dict[str, tuple[str, ...]] = {  # GEMM's: cause -> fields of the schedule; of other kernels each field is one
    "tile": ("tile_m", "tile_n", "tile_k"),
    "orientation": ("swap_ab",),
    "stages": ("stages",),
    "warps": ("warps_m", "warps_n"),
    "cluster": ("cluster_m", "cluster_n", "cta_pair"),
    "raster": ("raster_along_n", "swizzle"),
    "launch": ("persistent", "sms_free", "split_k", "stream_k"),
    "epilogue": ("epilogue",),
    "measured footprint": ("registers_measured", "smem_measured_bytes"),
}
WHOLE_SCHEDULE = "schedule"
INSTRUCTION = "schedule and its instruction"
OF_THE_INSTRUCTION = ("tmem_bytes_per_clock_sm", "tmem_columns")  # no tcgen05 without TMEM, and no use of it otherwise


@dataclass(frozen=True)
class Cause:
    """One group of numbers in which two kernels differ.

    Attributes:
        name: in words.
        gpu, schedule: the fields that differ; `mma` among those of the GPU stands for the whole instruction.
        change: what the one has and what the other has, in words.
    """

    name: str
    gpu: tuple[str, ...] = ()
    schedule: tuple[str, ...] = ()
    change: str = ""


def causes_of(
    schedule_a: Mapping[str, int], gpu_a: Any, schedule_b: Mapping[str, int], gpu_b: Any, kernel: str = "gemm"
) -> tuple[Cause, ...]:
    """The groups in which two kernels differ.

    Where the machines differ too, the schedule is one group, together with the instruction where that differs: a
    schedule for one instruction says nothing of another.
    """
    instruction = ("mma", *OF_THE_INSTRUCTION) if _differs(gpu_a.mma, gpu_b.mma) else ()
    machine = _machine_causes(gpu_a, gpu_b, instruction)
    words = _part_words if kernel == "gemm" else words_of(kernel).said
    groups = SCHEDULE if kernel == "gemm" else {name: (name,) for name in schedule_a}
    parts = [
        Cause(name, (), kept, f"{words(name, schedule_a)} -> {words(name, schedule_b)}")
        for name, own in groups.items()
        if (kept := tuple(field for field in own if schedule_a[field] != schedule_b[field]))
    ]
    if not machine and not instruction:
        return tuple(parts)
    if parts or instruction:
        changed = tuple(field for part in parts for field in part.schedule)
        said = ", ".join(f"{part.name} {part.change}" for part in parts)
        name = INSTRUCTION if instruction else WHOLE_SCHEDULE
        machine.append(Cause(name, instruction, changed, said or "the same words"))
    return tuple(machine)


def mixtures(rows_a: Rows, rows_b: Rows, causes: Sequence[Cause]) -> Rows:
    """Every mixture of two kernels: row m has of B the causes whose bit is set in m, of A the others.

    Args:
        rows_a, rows_b: one row each, of one problem.
        causes: from `causes_of`.

    Returns:
        2^causes rows; the first is A, the last B.
    """
    import jax

    count = 2 ** len(causes)
    from_b = (np.arange(count)[:, None] >> np.arange(len(causes))) & 1 == 1
    every = rows_a.take(np.zeros(count, np.int64))
    schedule, machine = dict(every.schedule), {}
    for place, cause in enumerate(causes):
        chosen = from_b[:, place]

        def mixed(ours: Any, theirs: Any, chosen: np.ndarray = chosen) -> Any:
            return np.where(chosen.reshape(-1, *[1] * (np.ndim(theirs) - 1)), theirs, ours)

        schedule |= {name: mixed(schedule[name], rows_b.schedule[name]) for name in cause.schedule}
        for name in cause.gpu:
            machine[name] = jax.tree.map(mixed, getattr(every.gpu, name), getattr(rows_b.gpu, name))
    return replace(every, schedule=schedule, gpu=replace(every.gpu, **machine))


def one_row(problem: Any, schedule: Mapping[str, int], gpu: Any) -> Rows:
    """A kernel as one row whose GPU has drift in any case: none is the same as zero of it."""
    off = {name: np.float64(0.0) for name in ("drift_skew_steps", "drift_jitter_steps") if getattr(gpu, name) is None}
    return make_rows([problem], [schedule], [replace(gpu, **off)], problem.kernel)


def _machine_causes(gpu_a: Any, gpu_b: Any, without: Sequence[str]) -> list[Cause]:
    named = {name for own in MACHINE.values() for name in own}
    groups = {**MACHINE, LATENCY: tuple(name for name in latencies(gpu_a) if name not in named)}
    found = []
    for name, own in groups.items():
        changed = (field for field in own if field not in without)
        kept = tuple(field for field in changed if _differs(getattr(gpu_a, field), getattr(gpu_b, field)))
        if kept:
            words = (f"{field} {_number(gpu_a, field)} -> {_number(gpu_b, field)}" for field in kept)
            found.append(Cause(name, kept, (), ", ".join(words)))
    return found


def _differs(one: Any, other: Any) -> bool:
    if hasattr(one, "__dataclass_fields__"):
        return any(_differs(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    one, other = (np.asarray(0.0 if value is None else value, np.float32) for value in (one, other))
    return not np.array_equal(one, other)


def _number(gpu: Any, name: str) -> str:
    value = getattr(gpu, name)
    if np.ndim(value):
        return "/".join(f"{entry:g}" for entry in np.asarray(value))
    unit = field_of(name).unit
    text = quantity_text(0.0 if value is None else float(value), unit)
    return text if unit in ("bytes", "bytes per second", "hertz", "seconds") else text.removesuffix(f" {unit}")


def _part_words(name: str, at: Mapping[str, int]) -> str:
    words = {
        "tile": lambda: f"{at['tile_m']}x{at['tile_n']}x{at['tile_k']}",
        "orientation": lambda: "swapped" if at["swap_ab"] else "straight",
        "warps": lambda: warps_label(at),
        "cluster": lambda: cluster_label(at),
        "raster": lambda: raster_label(at),
        "launch": lambda: launch_label(at),
        "epilogue": lambda: EPILOGUES[at["epilogue"]],
    }
    return words[name]() if name in words else "/".join(str(at[field]) for field in SCHEDULE[name])
