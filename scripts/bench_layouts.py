"""Measures sweeps of layouts: Llama-3-405B on 64 H100s and DeepSeek-V3 on 64 H200s, beside evaluating every problem.

python scripts/bench_layouts.py [--only llama3_405b] [--every 300]

Counts possible layouts (sizes divide, GPUs suffice), those that run, distinct kernel problems and schedules evaluated.
The baseline evaluates the kernels of so many layouts without remembering any, and is extrapolated to all of them; where
the two meet, their answers must be the same. Core-seconds are processor time: on a machine that does other work too,
they say what seconds would be without it.
"""

import argparse
import resource
import time
from dataclasses import replace
from typing import Any

import numpy as np

from dse.content.engine import load_engine
from dse.content.fabric import load_fabric
from dse.content.gpu import load_gpu
from dse.content.model import load_model
from dse.content.space import load_space
from dse.platform import configure_jax
from dse.serving.enumerate_layouts import enumerate_layouts
from dse.serving.kernel_times import KernelTimes
from dse.serving.outcomes import evaluate_layouts
from dse.serving.serve import LayoutResult, Service, sweep_layouts
from dse.serving.workload import Workload
from dse.space import Space
from dse.step_operators import Types

GPUS, FABRIC = 64, "nvlink4_x8+infiniband_ndr"
ASKED: dict[str, tuple[str, str, dict[str, Any]]] = {  # model -> (GPU, type, values kept of axes)
    "llama3_405b": ("h100_sxm", "fp8", {}),
    "deepseek_v3": ("h200_sxm", "fp8_block", {"hidden_split": 1, "chunk": [0, 2048]}),
}


def question(model: str) -> tuple[Service, Space]:
    """The service of a bar, and its space."""
    gpu, dtype, kept = ASKED[model]
    fabric, engine = load_fabric(FABRIC), load_engine("vllm")
    service = Service(load_model(model), load_gpu(gpu), GPUS, fabric, engine, Workload(2048, 512), Types(dtype))
    return service, load_space("sharding", "serving", axes=kept)


def swept(service: Service, space: Space) -> tuple[LayoutResult, float]:
    """(the answer, core-seconds)."""
    before = core_seconds()
    return sweep_layouts(service, space), core_seconds() - before


def unremembered(service: Service, space: Space, count: int) -> tuple[float, int]:
    """(core-seconds to evaluate so many layouts with every kernel of every layout tuned, how many of them run); raises
    where an answer differs."""
    found = enumerate_layouts(space, service.model, service.gpus, service.node).layouts
    chosen = found.take(np.sort(np.random.default_rng(0).choice(len(found), min(count, len(found)), replace=False)))
    once = service.steps()
    remembered = evaluate_layouts(chosen, service.workload, once, service.gpus)
    steps = replace(once, kernels=KernelTimes(service.gpu, service.engine, service.clock, once=False))
    before = core_seconds()
    plain = evaluate_layouts(chosen, service.workload, steps, service.gpus)
    spent = core_seconds() - before
    np.testing.assert_array_equal(plain.reason, remembered.reason)
    for name, values in plain.columns.items():
        np.testing.assert_array_equal(values, remembered.columns[name], err_msg=name)
    return spent, int(plain.runs.sum())


def core_seconds() -> float:
    """Processor time of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Prints what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(ASKED), help="one of the two")
    parser.add_argument("--every", type=int, default=300, metavar="N", help="layouts of the baseline (default: 300)")
    arguments = parser.parse_args()
    configure_jax()
    for model in [arguments.only] if arguments.only else ASKED:
        service, space = question(model)
        began = time.perf_counter()
        result, spent = swept(service, space)
        seconds = time.perf_counter() - began
        runs = result.reasons.get("runs", 0)
        memory = {name: result.reasons.get(name, 0) for name in ("weights", "activations", "kv_cache")}
        possible = runs + sum(memory.values()) + result.reasons.get("chunk", 0)
        plain, some = unremembered(service, space, arguments.every)
        more = plain / max(some, 1) * runs / spent
        lines = [
            f"{model} on {GPUS} {service.gpu.name}: {seconds:.1f} s, {spent:.1f} core-seconds",
            f"  {space.size:,} layouts of the space, {possible:,} possible by sizes and GPUs, {runs:,} run",
            "  do not fit: " + ", ".join(f"{name} {count:,}" for name, count in memory.items()),
            f"  {result.kernel_problems:,} kernel problems, {result.schedules:,} schedules for them",
            f"  {result.collectives:,} collectives; front: {len(result.front)} points, {result.front_layouts} layouts",
            f"  without remembering: {plain:.1f} core-seconds for {some} that run, {more:,.0f} times as much for all",
        ]
        print("\n".join(lines))


if __name__ == "__main__":
    main()
