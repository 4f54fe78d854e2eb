"""A service as users put it: names of a model, a GPU, a fabric and an engine, and what-if changes of any of them."""

import os
from collections.abc import Mapping
from typing import Any

from ..content.default_fabric import default_fabric
from ..content.dtypes import DTYPE_BYTES
from ..content.engine import load_engine
from ..content.engine_changes import changed_engine
from ..content.fabric import load_fabric
from ..content.gpu import GpuFile, load_gpu
from ..content.model import load_model
from ..content.overrides import ENGINE, FABRIC, IMPLEMENTATION
from ..errors import UserError, unknown
from ..step_operators import Types
from .argument_types import check_types, whole
from .serve import Service
from .workload import PHASES, Workload

GPUS = 8  # where nobody says how many
CLOCKS = ("boost", "sustained")


def ask_service(
    model: str | os.PathLike[str],
    gpu: str | GpuFile = "h200_sxm",
    gpus: int = GPUS,
    *,
    fabric: str | None = None,
    engine: str = "vllm",
    dtype: str | None = None,
    experts_dtype: str | None = None,
    kv_dtype: str | None = None,
    quantise_a: bool = False,
    graphs: bool = True,
    clock: str = "boost",
    gpus_per_node: int = 0,
    overrides: Mapping[str, str | float] | None = None,
    **workload: Any,
) -> Service:
    """Loads everything by its name.

    Args:
        model: name (`dse models`) or path of a TOML file.
        gpu: name (`dse gpus`), path, or a loaded GPU file.
        gpus: how many there are.
        fabric: name (`dse fabrics`) or path, A+B for nodes of A on a network B; None: what such GPUs are sold with.
        engine: name or path, see docs/serving.md.
        dtype: of weights and activations; None: as the weights were published.
        experts_dtype: of routed experts; None: as `dtype`.
        kv_dtype: of the KV cache; None: as attention's.
        quantise_a: whether narrow GEMMs count the kernels that narrow their activations.
        graphs: whether decode steps replay graphs.
        clock: "boost" or "sustained".
        gpus_per_node: 0: as many as the fabric joins.
        overrides: what-if changes: of the GPU by the names of `dse.content.gpu.load_gpu`, of the fabric as
            "fabric.NAME" ("fabric.link", "fabric.0:link"), of the engine as "engine.NAME".
        workload: of `dse.serving.workload.Workload`.

    Raises:
        UserError: whatever of this is wrong, with what is allowed.
    """
    gpus, gpus_per_node = whole(gpus), whole(gpus_per_node)
    workload = {name: whole(value) for name, value in workload.items()}
    machines = {} if isinstance(gpu, GpuFile) else {"gpu": gpu}
    types = {"dtype": dtype, "experts_dtype": experts_dtype, "kv_dtype": kv_dtype, "quantise_a": quantise_a}
    named = {"model": model, **machines, "fabric": fabric, "engine": engine, "clock": clock, "graphs": graphs}
    check_types(named | types | workload)
    for name, value in (("dtype", dtype), ("experts_dtype", experts_dtype), ("kv_dtype", kv_dtype)):
        if value is not None and value not in DTYPE_BYTES:
            raise unknown(name, value, DTYPE_BYTES)
    if clock not in CLOCKS:
        raise unknown("clock", clock, CLOCKS)
    if workload.get("phase", PHASES[0]) not in PHASES:
        raise unknown("phase", workload["phase"], PHASES)
    if isinstance(gpus, bool) or not isinstance(gpus, int) or gpus < 1:
        raise UserError(f"gpus = {gpus!r} is not allowed: a whole number from 1")
    config = load_model(model)
    if experts_dtype is not None and config.moe is None:
        raise UserError(f"experts_dtype = {experts_dtype} is not for {config.name}, which has no experts: leave it out")
    of_gpu, of_fabric, of_engine = split_service_overrides(overrides)
    if isinstance(gpu, GpuFile) and of_gpu:
        raise UserError("overrides apply to a GPU given by name or path: load_gpu(name, overrides) makes one")
    machine = gpu if isinstance(gpu, GpuFile) else load_gpu(gpu, of_gpu)
    joined = load_fabric(fabric or default_fabric(machine, gpus), of_fabric, f"--set {FABRIC}")
    return Service(
        config,
        machine,
        gpus,
        joined,
        changed_engine(load_engine(engine), of_engine),
        Workload(**workload),
        Types(dtype or published_dtype(config.weights), experts_dtype, kv_dtype, quantise_a),
        graphs,
        clock,
        gpus_per_node,
    )


def split_service_overrides(overrides: Mapping[str, str | float] | None) -> tuple[dict, dict, dict]:
    """(those of the GPU, of the fabric, of the engine), the latter two without what stands before their names.

    Raises:
        UserError: one of an implementation: an engine runs several; or no names and values.
    """
    if not isinstance(overrides or {}, Mapping) or not all(isinstance(name, str) for name in overrides or ()):
        raise UserError(f'overrides = {overrides!r} is not allowed: names and values, e.g. {{"fabric.link": "2x"}}')
    found: tuple[dict, dict, dict] = ({}, {}, {})
    for name, value in (overrides or {}).items():
        if name.startswith(IMPLEMENTATION):
            raise UserError(
                f"--set {name}: an engine runs many kernels' implementations; copy and edit their files "
                "(hardware/implementations) and name yours in an engine's file, see docs/serving.md"
            )
        place = 1 if name.startswith(FABRIC) else 2 if name.startswith(ENGINE) else 0
        found[place][name.partition(".")[2] if place else name] = value
    return found


def published_dtype(weights: str) -> str:
    """The type of a model's published weights, as far as it is one of ours; else bf16."""
    return weights if weights in DTYPE_BYTES else "bf16"


def service_changes(service: Service) -> tuple[str, ...]:
    """What was changed of the GPU, of the fabric and of the engine, a line a number."""
    of_fabric = (f"fabric {line}" for level in service.fabric.levels for line in level.changes)
    return (*service.gpu.changes, *of_fabric, *service.engine.changes)


def service_title(service: Service) -> str:
    """One line for heads: model, types, GPUs, fabric, engine."""
    types = service.types
    said = [types.dtype]
    said += [f"experts {types.experts_dtype}"] if types.experts_dtype else []
    said += [f"KV cache {types.kv_dtype}"] if types.kv_dtype else []
    return (
        f"{service.model.title}, {', '.join(said)}, on {service.gpus} x {service.gpu.title} ({service.gpu.name}), "
        f"{service.fabric.name}, engine {service.engine.name}"
    )


def workload_text(workload: Workload) -> str:
    """One line: prompts, answers, drafts, limits."""
    said = {"serve": "prefill and decode", "decode": "decode only", "prefill": "prefill only"}[workload.phase]
    parts = [f"{said}: prompts of {workload.input_tokens:,} tokens"]
    parts += [f"{workload.cached_tokens:,} of them cached"] if workload.cached_tokens else []
    parts += [f"answers of {workload.output_tokens:,}"] if workload.phase != "prefill" else []
    if workload.draft_tokens and workload.phase != "prefill":
        parts.append(f"{workload.draft_tokens} drafted, each accepted with chance {workload.acceptance:g}")
    parts += [f"TTFT at most {workload.ttft_max_s:g} s"] if workload.ttft_max_s < float("inf") else []
    parts += [f"TPOT at most {workload.tpot_max_s:g} s"] if workload.tpot_max_s < float("inf") else []
    return ", ".join(parts)
