"""Fits the numbers of MoE implementations to the part `fit` of the packaged moe sample.

    python scripts/fit_moe.py                     # prints what it found, with the error on `fit`
    python scripts/fit_moe.py --write             # and writes hardware/implementations/moe/*.toml
    python scripts/fit_moe.py --table all.parquet # a larger table of the same form, scripts/make_moe_sample.py --all

All numbers of the GPU files stay as they are. Gradients of the mean relative error, in logarithms of the numbers;
where a library's autotuner chose the schedules, they are chosen anew every few steps.
"""

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import jax
import jax.numpy as jnp

from dse.content.gpu import GpuFile, load_gpu
from dse.platform import configure_jax
from dse.validation.moe import PRESETS, SMALL_TILE, bound, library_schedules, schedule_record
from dse.validation.moe_table import TUNED, load_measured_moe, problem_of_row, stacked_problems, triton_schedule
from jaxmodel.kernels import moe
from jaxmodel.kernels.grouped_gemm_types import GroupedNumbers
from jaxmodel.kernels.moe_types import MoeNumbers

ROOT = Path(__file__).resolve().parents[1]
ROWS = 200  # a GPU and implementation
FREE = {  # number -> least, most, where the search starts; what is a rate is capped by the datasheet
    "tensor_efficiency": (0.3, 1.2, 0.8),  # of mma.sync on a part that has nothing else
    "ddr_efficiency": (0.5, 1.3, 0.9),
    "ddr_run_bytes": (0.1, 100.0, 10.0),
    "l2_efficiency": (0.3, 1.2, 0.8),
    "step_overhead_s": (1e-10, 3e-7, 8e-8),
    "tile_setup_s": (1e-8, 4e-6, 1e-6),
    "load_latency_s": (1e-8, 2e-6, 3e-7),
    "framework_s": (1e-8, 8e-5, 5e-6),
    "helper_scale": (0.3, 8.0, 1.3),
}
FACTS = {  # numbers that are not fitted
    "trtllm_cutlass": {"permutes": 1.0},
    "trtllm_deepgemm": {"permutes": 1.0},
    "flashinfer_cutlass_fp8": {"permutes": 1.0},
    "vllm_triton": {"all_rows": 1.0},
    "vllm_triton_fp8": {"all_rows": 1.0},
    "sglang_triton": {"all_rows": 1.0},
    "sglang_triton_fp8": {"all_rows": 1.0},
}
TEXT = {
    "trtllm_cutlass": "TensorRT-LLM's fused MoE on CUTLASS grouped kernels, bf16, tuned by its autotuner",
    "trtllm_deepgemm": "TensorRT-LLM's fused MoE on Hopper with fp8 block scales (DeepGEMM's grouped kernels)",
    "flashinfer_cutlass_fp8": "FlashInfer's CUTLASS fused MoE with fp8 block scales, as vLLM calls it",
    "vllm_triton": "vLLM's Triton fused MoE, bf16",
    "vllm_triton_fp8": "vLLM's Triton fused MoE, fp8 block scales",
    "sglang_triton": "SGLang's Triton fused MoE, bf16",
    "sglang_triton_fp8": "SGLang's Triton fused MoE, fp8 block scales",
}
SOURCES = {
    "moe-sample": "scripts/fit_moe.py on the part `fit` of studies/measured/moe.parquet",
    "collector": "ai-dynamo/aiconfigurator, collector/, and the frameworks' sources: which kernels a layer runs",
}
STARTS = (8e-8, 2e-9)  # of step_overhead_s
CHOOSE_EVERY = 40  # steps
CANDIDATES = 2**16  # at once: what stays in cache is twice as fast


def main() -> None:
    """Fits every (GPU, implementation) asked for; prints a line each; writes the files if told to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", help="default: the packaged sample")
    parser.add_argument("--gpu", action="append", help="only this GPU (may be repeated)")
    parser.add_argument("--implementation", action="append", help="only this one (may be repeated)")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows to fit on, each (default: {ROWS})")
    parser.add_argument("--steps", type=int, default=240, help="of the descent (default: 240)")
    parser.add_argument("--write", action="store_true", help="write hardware/implementations/moe")
    arguments = parser.parse_args()
    configure_jax()
    table = load_measured_moe(arguments.table, "fit")
    for (name, implementation), rows in table.groupby(["system", "implementation"]):
        if name in (arguments.gpu or [name]) and implementation in (arguments.implementation or [implementation]):
            drawn = rows.sample(min(len(rows), arguments.rows), random_state=1)
            values, error = fitted(load_gpu(str(name)), str(implementation), drawn, arguments.steps)
            if arguments.write:
                write(str(implementation), {str(name): values})
            numbers = ", ".join(f"{key} {value:.4g}" for key, value in values.items())
            print(f"{name} {implementation}: {len(drawn)} rows, {100 * error:.2f} %: {numbers}", flush=True)


def fitted(file: GpuFile, implementation: str, rows: Any, steps: int) -> tuple[dict[str, float], float]:
    """The fitted numbers of one implementation on a GPU, and their mean relative error on `rows`."""
    dtype = str(rows["dtype"].iloc[0])
    measured = jnp.asarray(rows["latency_us"].to_numpy(np.float32) * 1e-6)
    problem = stacked_problems([problem_of_row(row) for row in rows.itertuples()])
    names = list(FREE)
    low, high, first = np.array([_range(name, file, dtype) for name in names]).T
    facts = FACTS.get(implementation, {})
    only_mma_sync = file.families("bf16")[0] == "mma_sync"

    def numbered(point: Any) -> Any:
        values = dict(zip(names, jnp.exp(point), strict=True)) | facts
        values |= {"mma_sync_efficiency": values["tensor_efficiency"]} if only_mma_sync else {}
        of_kernel = {key: values.pop(key) for key in list(values) if key in GroupedNumbers.__dataclass_fields__}
        return MoeNumbers(kernel=GroupedNumbers(**of_kernel), **values)

    choose, latency = _model(problem, rows, file, dtype, implementation, numbered)

    def loss(point: Any, chosen: Any) -> Any:
        relative = latency(point, chosen) / measured - 1.0
        return jnp.mean(jnp.sqrt(relative * relative + 1e-4))

    step = jax.jit(jax.value_and_grad(loss))
    best = (np.inf, np.log(first))
    for overhead_s in STARTS:  # a K-step's overhead does nothing where another engine is the slower one
        start = np.log([overhead_s if name == "step_overhead_s" else at for name, at in zip(names, first, strict=True)])
        found = _descended(step, choose, start, np.log(low), np.log(high), steps)
        best = found if found[0] < best[0] else best
    point = best[1].astype(np.float32)
    error = float(np.mean(np.abs(np.asarray(latency(point, choose(point)) / measured - 1.0))))
    values = {name: float(np.exp(value)) for name, value in zip(names, point, strict=True)}
    if only_mma_sync:
        values["mma_sync_efficiency"] = values.pop("tensor_efficiency")
    return values | facts, error


def _descended(
    step: Any, choose: Any, point: np.ndarray, low: np.ndarray, high: np.ndarray, steps: int
) -> tuple[float, np.ndarray]:
    """The smallest loss of a descent (Adam) and where it was."""
    mean, square = np.zeros_like(point), np.zeros_like(point)
    chosen, best = choose(point), (np.inf, point)
    for number in range(1, steps + 1):
        if number % CHOOSE_EVERY == 0:
            chosen, best = choose(best[1]), (np.inf, best[1])
        value, gradient = (np.asarray(entry, np.float64) for entry in step(point.astype(np.float32), chosen))
        if value < best[0]:
            best = (float(value), point)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient * gradient
        slope = mean / (1.0 - 0.9**number) / (np.sqrt(square / (1.0 - 0.99**number)) + 1e-9)
        rate = 0.05 * (0.52 + 0.48 * np.cos(np.pi * number / steps))
        point = np.clip(point - rate * slope, low, high)
    return best


def write(implementation: str, tables: dict[str, dict[str, float]]) -> None:
    """Writes the file of an implementation, a table a GPU; GPUs that were not fitted now keep theirs."""
    path = ROOT / "hardware/implementations/moe" / f"{implementation}.toml"
    kept = path.read_text(encoding="utf-8").split("\n\n")[2:] if path.is_file() else []
    blocks = {block.partition("]")[0].lstrip("[\n"): block.strip("\n") for block in kept}
    for gpu, values in tables.items():
        fitted_lines = [f'{name} = {{ value = {value:.4g}, kind = "fitted", source = "moe-sample" }}'
                        for name, value in values.items() if name not in FACTS[implementation]]  # fmt: skip
        fact_lines = [f'{name} = {{ value = {value:g}, kind = "derived", source = "collector" }}'
                      for name, value in FACTS[implementation].items()]  # fmt: skip
        blocks[gpu] = "\n".join([f"[{gpu}]", *fitted_lines, *fact_lines])
    sources = "\n".join(["[sources]", *(f'{name} = "{text}"' for name, text in SOURCES.items())])
    parts = [f'text = "{TEXT[implementation]}"', sources, *(blocks[gpu] for gpu in sorted(blocks))]
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _model(problem: Any, rows: Any, file: GpuFile, dtype: str, implementation: str, numbered: Any) -> tuple[Any, Any]:
    """(point -> the schedules of the rows, (point, schedules) -> latencies)."""
    wide = bound(file, dtype, True)

    def with_numbers(point: Any) -> Any:
        return dataclasses.replace(problem, numbers=numbered(point))

    if (rows["config"] == TUNED).all():
        columns = schedule_record(library_schedules(file, dtype, PRESETS[implementation]))
        size = max(CANDIDATES // len(columns.tile_m), 1)

        @jax.jit
        def best(part: Any) -> Any:
            cost = moe.cost(jax.tree.map(lambda leaf: leaf[:, None], part), columns, wide)
            return jnp.argmin(jnp.where(cost.reason == 0, cost.latency_s, jnp.inf), axis=1)

        def choose(point: Any) -> Any:
            numbered_rows = jax.tree.map(lambda leaf: np.broadcast_to(leaf, len(rows)), with_numbers(point))
            places = [np.minimum(np.arange(at, at + size), len(rows) - 1) for at in range(0, len(rows), size)]
            found = [best(jax.tree.map(lambda leaf, place=place: leaf[place], numbered_rows)) for place in places]
            return jax.tree.map(lambda leaf: leaf[np.concatenate(found)[: len(rows)]], columns)

        return choose, jax.jit(lambda point, chosen: moe.cost(with_numbers(point), chosen, wide).latency_s)
    small_gpu = bound(file, dtype, False)
    small, large = (schedule_record(triton_schedule(rows, wide_tiles)) for wide_tiles in (False, True))
    is_small = rows["tile_m"].to_numpy() < SMALL_TILE
    if file.families("bf16")[0] == "mma_sync":
        is_small = np.ones_like(is_small)

    def latency(point: Any, _: Any) -> Any:
        numbered_problem = with_numbers(point)
        by_mma_sync = moe.cost(numbered_problem, small, small_gpu).latency_s
        if is_small.all():
            return by_mma_sync
        return jnp.where(is_small, by_mma_sync, moe.cost(numbered_problem, large, wide).latency_s)

    return lambda point: None, jax.jit(latency)


def _range(name: str, file: GpuFile, dtype: str) -> tuple[float, float, float]:
    """Least, most and first of a number; no rate above the datasheet's."""
    low, high, first = FREE[name]
    if name == "tensor_efficiency":
        own = file.by_dtype.get(dtype, {}).get("tensor_efficiency", file.values["tensor_efficiency"])
        high = 1.0 / own.number
    elif name == "ddr_efficiency":
        high = file["ddr_peak_bytes_per_s"] / file["ddr_bytes_per_s"]
    return low, high, min(first, high)


if __name__ == "__main__":
    main()
