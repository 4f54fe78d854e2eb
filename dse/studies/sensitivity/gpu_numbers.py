"""The numbers of a GPU's record, one by one: which way is better, how large a step is, and what moves along.

A record (`jaxmodel.machine.Gpu`) is a GPU file bound to an instruction and a type. Its fields have the names that
`--set` takes, and here they move as `--set` moves them; see `in_the_file` for the few that a file writes differently.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from ...content.gpu_fields import FIELDS, TENSOR, Field
from .precise_costs import Rows

# less of it is better; of every other number more is
LESS_IS_BETTER = frozenset(
    {
        *("overlap_loss", "ddr_write_cost", "store_exposure", "drift_skew_steps", "drift_jitter_steps"),
        *("l2_latency_s", "ddr_latency_s", "mma_latency_s", "step_overhead_s", "cta_launch_s", "launch_overhead_s"),
        *("host_launch_overhead_s", "dependent_launch_s", "fixup_latency_s", "quantise_launch_s"),
        *("smem_reserve_bytes", "register_granularity", "static_w"),
        *("joule_per_tensor_flop", "joule_per_smem_byte", "joule_per_l2_byte", "joule_per_ddr_byte"),
    }
)
# counts that the model takes whole, in waves and residents: no derivative means anything; and their smallest change
STEPS = {
    "sm_count": 1,
    "l15_group_sms": 1,
    "smem_per_sm_bytes": 1024,
    "smem_per_cta_max_bytes": 1024,
    "smem_reserve_bytes": 1024,
    "registers_per_sm": 256,
    "register_granularity": 1,
    "registers_per_thread_max": 1,
    "threads_per_sm": 32,
    "warps_per_sm": 1,
    "ctas_per_sm": 1,
    "tmem_columns": 32,
}
RATES = ("clock_hz", "l2_bytes_per_s", "ddr_bytes_per_s", "quantise_bytes_per_s")  # per second; others are per clock
POWERS = ("tdp_w", "static_w")
MARGIN = 1.001  # by which the power limit stays above static power


def latencies(gpu: Any) -> tuple[str, ...]:
    """Names of the record's times."""
    return tuple(f.name for f in fields(gpu) if f.name.endswith("_s") and f.name not in RATES)


def field_of(name: str) -> Field:
    """Unit, range and meaning of a number of the record."""
    if name == "clock_hz":
        return FIELDS["boost_hz"]
    return TENSOR if name == "tensor_flop_per_clock_sm" else FIELDS[name]


def in_the_file(name: str, clock: str = "boost") -> str:
    """Where a number of the record comes from in a GPU file, e.g. `[l2] l2_capacity_bytes`.

    Args:
        name: of the record.
        clock: that the record is bound to.
    """
    if name == "clock_hz":
        return f"[clock] {clock}_hz"
    if name == "tensor_flop_per_clock_sm":
        return "[tensor.FAMILY] DTYPE_ACCUMULATOR"
    where = f"[{FIELDS[name].table}] {name}"
    return f"{where} x input bytes / 2" if name == "joule_per_tensor_flop" else where


def ranges(gpu: Any, names: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
    """The least and the most that each number may be while all others stay: what a GPU file allows.

    Beside each number's own range: static power stays below the limit, memory does not answer before L2, and a CTA's
    shared memory fits into an SM.

    Args:
        gpu: the model's record, leaves [rows].
        names: of numbers.

    Returns:
        Two arrays float64[rows, names].
    """
    spare = gpu.smem_per_sm_bytes - gpu.smem_per_cta_max_bytes - gpu.smem_reserve_bytes
    low = {
        "tdp_w": gpu.static_w * MARGIN,
        "ddr_latency_s": gpu.l2_latency_s,
        "smem_per_sm_bytes": gpu.smem_per_sm_bytes - gpu.smem_per_cta_max_bytes + 1.0,
    }
    high = {
        "static_w": gpu.tdp_w / MARGIN,
        "l2_latency_s": gpu.ddr_latency_s,
        "smem_per_cta_max_bytes": gpu.smem_per_cta_max_bytes + spare,
        "smem_reserve_bytes": gpu.smem_reserve_bytes + spare,
    }
    every = np.ones(len(gpu.sm_count))
    least = [low[n] if n in low else every * (field_of(n).whole and field_of(n).positive) for n in names]
    most = [np.minimum(high.get(n, every * np.inf), field_of(n).high) for n in names]
    return np.stack(least, axis=1), np.stack(most, axis=1)


def settable(names: np.ndarray, values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Values rounded where the number is whole, and kept in its range. All arguments broadcast."""
    is_whole = np.array([field_of(name).whole for name in names])
    return np.clip(np.where(is_whole, np.round(values), values), low, high)


def ten_percent(names: np.ndarray, values: np.ndarray, sign: float, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Numbers 10 % larger (`sign` 1) or smaller (-1), as a GPU file takes them: a whole number moves by at least one,
    and what stands at the end of its range stays."""
    new = settable(names, values * (1.0 + 0.1 * sign), low, high)
    steps = np.array([STEPS.get(name, 1) if field_of(name).whole else 0 for name in names])
    return np.where(new == values, np.clip(values + sign * steps, low, high), new)


def moved(rows: Rows, names: np.ndarray, values: np.ndarray) -> Rows:
    """The rows, each with one number of its GPU set to another value.

    What `--set` moves along moves here: with `sm_count` the SMs that clusters can use (in proportion, whole clusters),
    with `smem_per_sm_bytes` the most of a CTA, and threads with warps.

    Args:
        rows: any number.
        names: object[rows], the number that changes in each row; "" for none.
        values: float64[rows], its new value.
    """
    changes: dict[str, np.ndarray] = {}
    for name in sorted(set(names) - {""}):
        at = names == name
        for target, new in {name: values[at], **_followers(rows.gpu, name, values[at], at)}.items():
            leaf = changes.get(target)
            leaf = getattr(rows.gpu, target).copy() if leaf is None else leaf
            leaf[at] = new
            changes[target] = leaf
    return replace(rows, gpu=replace(rows.gpu, **changes))


def _followers(gpu: Any, name: str, value: np.ndarray, at: np.ndarray) -> Mapping[str, np.ndarray]:
    old = getattr(gpu, name)[at]
    if name == "sm_count":
        sizes = 2.0 ** np.arange(gpu.cluster_sms.shape[-1])
        usable = np.floor(gpu.cluster_sms[at] * (value / old)[:, None] / sizes + 1e-9) * sizes
        usable[:, 0] = value
        return {"cluster_sms": usable}
    if name == "smem_per_sm_bytes":
        return {"smem_per_cta_max_bytes": np.maximum(gpu.smem_per_cta_max_bytes[at] + value - old, 1.0)}
    if name == "threads_per_sm":
        return {"warps_per_sm": np.floor(value / 32.0)}
    if name == "warps_per_sm":
        return {"threads_per_sm": 32.0 * value}
    return {}
