"""Why a layout cannot run, with the numbers, and what to change."""

from collections.abc import Callable, Mapping
from math import ceil, floor, gcd
from typing import Any

import numpy as np

from ..content.model import GroupedAttention
from ..text import byte_text
from .layouts import FIELDS, REASONS, TWO_BATCHES, layouts_of
from .outcomes import memory_held
from .serve import Service

TRIED = (1, 2, 4, 8, 16, 32, 64)  # degrees that are named as alternatives
SHOWN = 8


def why_not(reason: str, row: Mapping[Any, Any], service: Service, usable_bytes: float) -> str:
    """What keeps a layout from running.

    Args:
        reason: a name of `dse.serving.layouts.REASONS`.
        row: fields and columns of the layout (`dse.serving.layouts.FIELDS`, `dse.serving.outcomes.COLUMNS`).
        service: what was asked.
        usable_bytes: of a GPU's memory, what weights, cache and activations may have.

    Returns:
        "" where it runs, else the reason in words, the numbers behind it, and a fix.
    """
    if reason == "runs":
        return ""
    more = _MORE.get(reason)
    said = more(row, service, usable_bytes) if more else ""
    return REASONS[reason] + (f": {said}" if said else "")


def _memory(row: Mapping[Any, Any], service: Service, usable_bytes: float) -> str:
    engine, capacity = service.engine, service.gpu["ddr_capacity_bytes"]
    parts = [("weights", row["weights_bytes"]), ("activations", row["activation_bytes"])]
    parts.append(("KV cache", row["kv_cache_bytes"]))
    needed = sum(value for _, value in parts)
    said = " + ".join(f"{name} {byte_text(value)}" for name, value in parts)
    usable = byte_text(max(usable_bytes, 0.0))
    return (
        f"{said} = {byte_text(needed)} on the fullest GPU, {usable} usable of {byte_text(capacity)} "
        f"({engine['memory_share']:g} of it, less {byte_text(engine['reserved_bytes'])} that the engine keeps)"
    )


def _weights(row: Mapping[Any, Any], service: Service, usable_bytes: float) -> str:
    if usable_bytes <= 0:
        return (
            f"{_memory(row, service, usable_bytes)}; the engine leaves nothing: a larger memory_share, or fewer "
            "reserved_bytes (--set engine.reserved_bytes=3e9)"
        )
    times = row["weights_bytes"] / usable_bytes
    return (
        f"{_memory(row, service, usable_bytes)}; share them over {times:.3g} times as many GPUs (tp, pp{_ep(service)})"
        + (", or take narrower weights (--dtype fp8)" if service.types.dtype in ("bf16", "fp16", "fp32") else "")
    )


def _activations(row: Mapping[Any, Any], service: Service, usable_bytes: float) -> str:
    return f"{_memory(row, service, usable_bytes)}; a larger tp, chunked prefill (--chunk 2048), or more stages"


def _kv_cache(row: Mapping[Any, Any], service: Service, usable_bytes: float) -> str:
    step = _batch_step(row)
    batches = np.arange(step, int(row["batch"]) + 1, step)
    columns = {name: np.full(len(batches), int(row[name])) for name in FIELDS} | {"batch": batches}
    held = memory_held(layouts_of(columns, batches, service.node), service.workload, service.steps())
    fits = batches[held.weights + held.activations + held.kv_cache <= usable_bytes]
    narrow = "" if service.types.kv_dtype else ", or --kv-dtype fp8"
    if not len(fits):
        return f"{_memory(row, service, usable_bytes)}; no batch fits: share it over more GPUs (tp, pp){narrow}"
    return f"{_memory(row, service, usable_bytes)}; a batch of at most {fits[-1]}{narrow}"


def _batch_step(row: Mapping[Any, Any]) -> int:
    """What a batch must be a multiple of."""
    return int(row["dp"] * row["micro_batches"] * (2 if row["overlap"] == TWO_BATCHES else 1))


def _ep(service: Service) -> str:
    return "" if service.model.moe is None else ", ep"


def _tensor_parallel(row: Mapping[Any, Any], service: Service, usable_bytes: float) -> str:
    at, model = service.model.attention, service.model
    sizes = {"heads": at.heads}
    if isinstance(at, GroupedAttention):
        sizes["KV heads"] = at.kv_heads
    if model.ffn:
        sizes["columns of the feed-forward layers"] = model.ffn.inter
    if model.moe and model.moe.shared_experts:
        sizes["columns of the shared experts"] = model.moe.shared_experts * model.moe.inter
    every = [value for name, value in sizes.items() if name != "KV heads"]
    divisor = gcd(*every)
    fits = [tp for tp in TRIED if divisor % tp == 0]
    said = ", ".join(f"{value:,} {name}" for name, value in sizes.items())
    return f"tp = {row['tp']}, {model.name} has {said}; possible are {', '.join(map(str, fits))}"


def _gpus(row: Mapping[Any, Any], service: Service, usable_bytes: float) -> str:
    sizes = [size for size in range(1, service.gpus + 1) if service.gpus % size == 0]
    shown = ", ".join(map(str, sizes[:SHOWN])) + (", ..." if len(sizes) > SHOWN else "")
    return (
        f"{row['tp']} x {row['cp']} x {row['dp']} x {row['pp']} = {row['gpus']:.0f} of {service.gpus}; instances of "
        f"{shown} do, or give --gpus {row['gpus']:.0f}"
    )


def _stages(row: Mapping[Any, Any], service: Service, usable_bytes: float) -> str:
    return f"pp = {row['pp']}, {service.model.name} has {service.model.layers} layers"


def _experts(row: Mapping[Any, Any], service: Service, usable_bytes: float) -> str:
    moe, block = service.model.moe, row["tp"] * row["cp"] * row["dp"]
    if moe is None:
        return ""
    fits = [
        share
        for share in TRIED
        if block % share == 0 and moe.inter % share == 0 and moe.experts % (block // share) == 0
    ]
    possible = f"experts_tp may be {', '.join(map(str, fits))}" if fits else "no experts_tp does: another tp or dp"
    return f"experts_tp = {row['experts_tp']}, tp x cp x dp = {block}, {moe.experts} experts of {moe.inter}; {possible}"


def _uneven(row: Mapping[Any, Any], service: Service, usable_bytes: float) -> str:
    node = service.node
    return (
        f"{row['tp']} x {row['cp']} x {row['dp']} x {row['pp']} GPUs on nodes of {node}; an axis with those inside it "
        f"should divide {node} or be a multiple of it; or take another placement"
    )


def _batch(row: Mapping[Any, Any], service: Service, usable_bytes: float) -> str:
    return f"batch = {row['batch']}; multiples of {_batch_step(row)} do"


def _micro_batches(row: Mapping[Any, Any], service: Service, usable_bytes: float) -> str:
    return f"micro_batches = {row['micro_batches']}, pp = {row['pp']}; 1 to {row['pp']} are allowed"


def _fabric(row: Mapping[Any, Any], service: Service, usable_bytes: float) -> str:
    return (
        f"{row['gpus']:.0f} GPUs on {service.fabric.name}, which joins {service.fabric.ranks_max}; nodes on a network "
        "are written A+B (--fabric nvlink4_x8+infiniband_ndr)"
    )


def _chunk(row: Mapping[Any, Any], service: Service, usable_bytes: float) -> str:
    asked = service.workload
    new_tokens = asked.new_tokens
    if asked.phase != "serve":
        return f"chunk = {row['chunk']}, and the phase is {asked.phase}; chunk 0, or --phase serve"
    if row["chunk"] > new_tokens:
        return f"chunk = {row['chunk']}, of a prompt {new_tokens} tokens are new; at most that"
    arriving = row["batch"] / row["dp"] / row["micro_batches"] / asked.output_tokens * asked.tokens_a_step
    said = f"chunk = {row['chunk']}, and {arriving:.3g} prompts of {new_tokens} new tokens come in a step"
    most = floor(1 / arriving + 1e-9)  # chunks that a prompt may be cut into
    return f"{said}; " + (f"a chunk of at least {ceil(new_tokens / most)}, or " if most else "") + "a smaller batch"


def _limit(row: Mapping[Any, Any], service: Service, usable_bytes: float) -> str:
    asked = service.workload
    late = [
        f"{name} {value:.4g} s, at most {most:g} s was asked for"
        for name, value, most in (
            ("TTFT", row["ttft_s"], asked.ttft_max_s),
            ("TPOT", row["tpot_s"], asked.tpot_max_s),
        )
        if value > most
    ]
    return f"{' and '.join(late)}; a smaller batch or a larger tp is sooner"


_MORE: dict[str, Callable[[Mapping[Any, Any], Service, float], str]] = {
    "tensor_parallel": _tensor_parallel,
    "gpus": _gpus,
    "stages": _stages,
    "experts": _experts,
    "uneven_placement": _uneven,
    "batch": _batch,
    "micro_batches": _micro_batches,
    "fabric": _fabric,
    "chunk": _chunk,
    "weights": _weights,
    "activations": _activations,
    "kv_cache": _kv_cache,
    "limit": _limit,
}
