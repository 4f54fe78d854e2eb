"""Fits the numbers of libraries' prefill kernels to the part `fit` of measured latencies.

    python scripts/fit_attention.py --table ../shared/data/measured/attention_context.parquet
    python scripts/fit_attention.py --implementation fa3 --two-fold      # a form is judged inside the part `fit`
    python scripts/fit_attention.py --table FILE --write                 # puts the numbers into the files

Robust least squares on the logarithm of predicted over measured: soft L1 beyond 5 %, bounds, the best of two starts.
The GPU's own numbers stay as they are: run it again when they change. Without --table the packaged sample is used.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dse.content.gpu import load_gpu
from dse.content.implementation import implementation_defaults, list_implementations, read_implementation
from dse.platform import configure_jax
from dse.validation.attention import FAMILIES
from dse.validation.attention_predict import Prefill
from dse.validation.attention_rows import COMBINATION, IMPLEMENTATIONS, combination_hash, load_measured_attention

ROOT = Path(__file__).resolve().parents[1]
BOUNDS: dict[str, tuple[float, float]] = {
    "framework_s": (0.0, 4e-5), "other_dims_s": (0.0, 6e-6), "helper_q": (0.0, 8.0), "helper_kv": (0.0, 12.0),
    "tensor_efficiency": (0.3, 1.0), "softmax_scale": (0.8, 4.0), "handover_s": (0.0, 1e-6),
    "tile_setup_s": (-2e-6, 6e-6), "imbalance": (0.0, 1.5), "combine_s": (1e-7, 1e-5), "power_scale": (0.0, 3.0),
}  # fmt: skip
FIRST = {
    "framework_s": 6e-6, "other_dims_s": 1e-6, "helper_q": 1.0, "helper_kv": 2.0, "tensor_efficiency": 0.9,
    "softmax_scale": 1.1, "handover_s": 1e-7, "tile_setup_s": 1e-7, "imbalance": 0.1, "combine_s": 2e-6,
    "power_scale": 1.0,
}  # fmt: skip
STARTS: tuple[dict[str, float], ...] = (  # what differs from FIRST; the best end is taken
    {},
    {"framework_s": 1e-5, "helper_q": 3.0, "tensor_efficiency": 0.98, "softmax_scale": 0.95, "tile_setup_s": 1e-6},
)
ONLY = {  # numbers that only some have: those that split the keys, those with another path for other head dims
    "combine_s": (("fa3", "wgmma"), ("vllm_flash_attn_fa3", "wgmma")),
    "other_dims_s": (("torch_flow", "wgmma"),),
}
HIDDEN_SOFTMAX = 0.4  # least softmax_scale where warps issue their own products: the compiler interleaves the two
SOFT = 0.05  # errors beyond it count linearly
EVALUATIONS = 40  # of the errors and their slopes, from each start

Residuals = Callable[[np.ndarray], np.ndarray]


def main() -> None:
    """Fits every GPU and implementation asked for; prints a line each; writes the files if told to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", help="measured latencies; default: the packaged sample")
    parser.add_argument("--gpu", action="append", help="only this GPU (may be repeated)")
    parser.add_argument("--implementation", action="append", help="only this one (may be repeated)")
    parser.add_argument("--two-fold", action="store_true", help="also fit on each half of the part and judge the other")
    parser.add_argument("--write", action="store_true", help="write hardware/implementations/attention")
    arguments = parser.parse_args()
    configure_jax()
    table = load_measured_attention(arguments.table, "fit")
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, implementations in IMPLEMENTATIONS.items():
        for implementation in implementations:
            if name not in (arguments.gpu or [name]) or implementation not in (
                arguments.implementation or [implementation]
            ):
                continue
            rows = table[(table["system"] == name) & (table["implementation"] == implementation)]
            values = fitted(name, implementation, rows)
            error = errors(name, implementation, rows, values)
            line = f"{name} {implementation}: {len(rows)} rows, fit {error:.2f} %"
            if arguments.two_fold:
                line += f", two-fold {two_fold(name, implementation, rows):.2f} %"
            print(line + ": " + ", ".join(f"{key} {value:.4g}" for key, value in values.items()), flush=True)
            found.setdefault(implementation, {})[name] = values
    if arguments.write:
        for implementation, tables in found.items():
            write(implementation, tables)


def fitted(name: str, implementation: str, rows: Any) -> dict[str, float]:
    """The fitted numbers of one implementation on a GPU."""
    parts = predictors(name, implementation, rows)
    gpu = load_gpu(name).bind("bf16", family=FAMILIES[name])
    free = [key for key in FIRST if key not in ONLY or (implementation, FAMILIES[name]) in ONLY[key]]
    bounds = dict(BOUNDS)
    bounds["tensor_efficiency"] = (0.3, 1.0 / float(np.asarray(gpu.tensor_efficiency)))  # at most the peak
    if FAMILIES[name] == "mma_sync":
        bounds["softmax_scale"] = (HIDDEN_SOFTMAX, 4.0)
    low, high = np.array([bounds[key] for key in free]).T

    def residuals(at: np.ndarray) -> np.ndarray:
        return logarithms(parts, dict(zip(free, low + at * (high - low), strict=True)))

    def start(changes: Mapping[str, float]) -> np.ndarray:
        first = np.array([(FIRST | dict(changes))[key] for key in free])
        return (np.clip(first, low + 1e-3 * (high - low), high - 1e-3 * (high - low)) - low) / (high - low)

    best, _ = min((robust_least_squares(residuals, start(changes)) for changes in STARTS), key=lambda end: end[1])
    return dict(zip(free, (low + best * (high - low)).tolist(), strict=True))


def errors(name: str, implementation: str, rows: Any, values: Mapping[str, float]) -> float:
    """Mean absolute error of `values` on rows, per cent."""
    return 100.0 * float(np.abs(np.exp(logarithms(predictors(name, implementation, rows), values)) - 1.0).mean())


def two_fold(name: str, implementation: str, rows: Any) -> float:
    """Mean absolute error of each half of the rows' combinations, fitted on the other half, per cent."""
    halves = [combination_hash(*one) // 128 % 2 for one in rows[COMBINATION].itertuples(index=False)]
    total = 0.0
    for half in (0, 1):
        inside = np.array(halves) == half
        values = fitted(name, implementation, rows[inside])
        total += (~inside).sum() * errors(name, implementation, rows[~inside], values)
    return total / len(rows)


def predictors(name: str, implementation: str, rows: Any) -> list[tuple[Prefill, np.ndarray]]:
    """One predictor a head dim, with the measured seconds of its rows."""
    gpu = load_gpu(name)
    return [
        (Prefill(gpu, FAMILIES[name], implementation, int(dim), own), 1e-6 * own["latency_us"].to_numpy(float))
        for dim, own in rows.groupby("head_dim")
    ]


def logarithms(parts: list[tuple[Prefill, np.ndarray]], values: Mapping[str, float]) -> np.ndarray:
    """Logarithm of predicted over measured, all rows."""
    numbers = implementation_defaults("attention") | dict(values)
    return np.concatenate([np.log(prefill.latency_s(numbers) / measured_s) for prefill, measured_s in parts])


def robust_least_squares(residuals: Residuals, start: np.ndarray) -> tuple[np.ndarray, float]:
    """The end of a search within [0, 1] from one start, and its loss: soft L1, squares below SOFT."""
    found = least_squares(
        residuals, start, bounds=(0.0, 1.0), loss="soft_l1", f_scale=SOFT, diff_step=1e-3, max_nfev=EVALUATIONS
    )
    return found.x, float(found.cost)


TEXTS = {
    "flash_attention": "FlashAttention-2 as sglang calls it",
    "vllm_flash_attn": "FlashAttention-2 as vLLM calls it; fitted above 300 us only",
    "torch_flow": "TensorRT-LLM's attention, with its preprocessing of Q, K and V",
    "fa3": "FlashAttention-3 as sglang calls it; head dims 128 and 256",
    "vllm_flash_attn_fa3": "FlashAttention-3 as vLLM calls it",
    "trtllm_mha": "trtllm-gen's prefill kernel as sglang calls it",
    "vllm_flashinfer_trtllmprefill": "trtllm-gen's prefill kernel as vLLM calls it",
    "vllm_flashinfer": "FlashInfer's prefill kernel as vLLM calls it; latencies are quantised in steps of 2 us",
}


def write(implementation: str, tables: Mapping[str, Mapping[str, float]]) -> None:
    """Writes the file of an implementation, a table a GPU; GPUs that were not fitted now keep theirs."""
    path = ROOT / "hardware/implementations/attention" / f"{implementation}.toml"
    if implementation in list_implementations("attention"):
        before = read_implementation("attention", implementation).gpus
        kept = {gpu: {key: datum.number for key, datum in numbers.items()} for gpu, numbers in before.items()}
        tables = kept | dict(tables)
    lines = [f'text = "{TEXTS[implementation]}"', "", "[sources]"]
    lines += ['measured = "scripts/fit_attention.py on the part `fit` of attention_context (AIConfigurator data)"']
    for gpu, values in tables.items():
        lines += ["", f"[{gpu}]"]
        lines += [
            f'{key} = {{ value = {value:.4g}, kind = "fitted", source = "measured" }}' for key, value in values.items()
        ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
