"""Attention: predicted latencies of libraries' prefill kernels beside measured ones, and published throughputs."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiled import jit
from ..content.gpu import GpuFile, load_gpu
from ..content.implementation import load_implementation
from ..content.space import load_space
from ..errors import UserError, unknown
from ..kernels.attention import AttentionProblem
from .attention_rows import COMBINATION, IMPLEMENTATIONS, load_measured_attention
from .latency_errors import Errors, errors

if TYPE_CHECKING:
    import pandas as pd

BUCKETS_US = {"< 30": (0.0, 30.0), "30-300": (30.0, 300.0), "> 300": (300.0, np.inf)}
FAMILIES = {"a100_sxm": "mma_sync", "h100_sxm": "wgmma", "h200_sxm": "wgmma", "b200_sxm": "tcgen05"}
CHUNK_ROWS = 256  # rows that one call predicts
SIZES = ("batch", "q_tokens", "kv_tokens", "heads", "kv_heads")
_FA3 = {64: "fa3_d64", 128: "fa3_d128", 192: "fa3_d192", 256: "fa3_d256"}
_TRTLLM_GEN = {64: "trtllm_gen_d64", 128: "trtllm_gen_d128", 256: "trtllm_gen_d256"}
PRESETS: Mapping[tuple[str, str], Mapping[int, str]] = {  # (family, implementation) -> head dim -> its kernels
    ("mma_sync", "flash_attention"): {128: "fa2_packed_d128"},
    ("mma_sync", "vllm_flash_attn"): {128: "fa2_d128"},
    ("mma_sync", "torch_flow"): {128: "trtllm_fmha_d128"},
    ("wgmma", "fa3"): _FA3,
    ("wgmma", "vllm_flash_attn_fa3"): _FA3,
    ("wgmma", "torch_flow"): dict.fromkeys((64, 128, 192, 256), "trtllm_fmha"),
    ("tcgen05", "trtllm_mha"): _TRTLLM_GEN,
    ("tcgen05", "vllm_flashinfer_trtllmprefill"): _TRTLLM_GEN,
    ("tcgen05", "vllm_flashinfer"): _TRTLLM_GEN,
    ("tcgen05", "torch_flow"): _TRTLLM_GEN,
}


@dataclass(frozen=True)
class AttentionValidation:
    """One implementation on one GPU.

    Attributes:
        gpu: of the table.
        gpu_file: name of the GPU file that the model was given.
        implementation: whose numbers and presets.
        errors: of all judged rows, with intervals that resample (heads, KV heads, head dim).
        by_latency: the same in the buckets of measured latency, where there are rows.
        by_head_dim: the same by head dim.
        rows: the table's rows with `model_us` and the winning schedule's `splits`.
    """

    gpu: str
    gpu_file: str
    implementation: str
    errors: Errors
    by_latency: Mapping[str, Errors]
    by_head_dim: Mapping[int, Errors]
    rows: "pd.DataFrame"

    def to_dict(self) -> dict[str, Any]:
        """Numbers only, for JSON: no rows."""
        return {
            "gpu": self.gpu,
            "gpu_file": self.gpu_file,
            "implementation": self.implementation,
            "errors": self.errors.to_dict(),
            "by_latency": {name: found.to_dict() for name, found in self.by_latency.items()},
            "by_head_dim": {str(dim): found.to_dict() for dim, found in self.by_head_dim.items()},
        }


def validate_attention(
    gpus: Mapping[str, str | GpuFile] | Sequence[str] | None = None,
    table: str | os.PathLike[str] | None = None,
    part: str = "report",
    implementations: Sequence[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[AttentionValidation]:
    """Compares the best predicted latency over each implementation's presets with measured prefill latencies.

    Args:
        gpus: names in the table, or name -> the GPU file that stands for it; None: all.
        table, part: see `load_measured_attention`.
        implementations: only these; None: all.
        progress: called with a line of text before each.

    Raises:
        UserError: a GPU or an implementation that is not in the table, or what reading it raises.
    """
    rows = load_measured_attention(table, part)
    for name in gpus or ():
        if name not in IMPLEMENTATIONS:
            raise unknown("GPU in the measured table", name, list(IMPLEMENTATIONS))
    known = sorted({one for names in IMPLEMENTATIONS.values() for one in names})
    for name in implementations or ():
        if name not in known:
            raise unknown("implementation in the measured table", name, known)
    files = dict(gpus) if isinstance(gpus, Mapping) else {name: name for name in gpus or IMPLEMENTATIONS}
    results = []
    for name, file in files.items():
        for implementation in IMPLEMENTATIONS[name]:
            own = rows[(rows["system"] == name) & (rows["implementation"] == implementation)]
            if own.empty or implementation not in (implementations or [implementation]):
                continue
            if progress is not None:
                progress(f"{name} {implementation}: {len(own)} shapes")
            gpu = file if isinstance(file, GpuFile) else load_gpu(file)
            results.append(_validated(name, gpu, implementation, own))
    return results


def all_rows(results: Sequence[AttentionValidation]) -> "pd.DataFrame":
    """The judged rows of all results in one table."""
    import pandas as pd

    return pd.concat([result.rows for result in results], ignore_index=True)


def errors_of(rows: "pd.DataFrame") -> Errors:
    """Errors of rows that have `model_us`."""
    groups = rows[COMBINATION].astype(str).agg("/".join, axis=1)
    return errors(rows["model_us"].to_numpy(), rows["latency_us"].to_numpy(), groups.to_numpy())


def bucket_errors(rows: "pd.DataFrame") -> dict[str, Errors]:
    """Errors in each bucket of measured latency that has rows."""
    found = {}
    for name, (low, high) in BUCKETS_US.items():
        inside = rows[(rows["latency_us"] >= low) & (rows["latency_us"] < high)]
        if len(inside):
            found[name] = errors_of(inside)
    return found


def _validated(name: str, gpu: GpuFile, implementation: str, rows: "pd.DataFrame") -> AttentionValidation:
    numbers = load_implementation("attention", implementation, (gpu.name, *gpu.bases))
    parts = []
    for dim, own in rows.groupby("head_dim"):
        best = Prefill(gpu, FAMILIES[name], implementation, int(str(dim)), own)
        parts.append(own.assign(model_us=1e6 * best.latency_s(numbers), splits=best.splits(numbers)))
    import pandas as pd

    rows = pd.concat(parts).sort_index()
    return AttentionValidation(
        gpu=name,
        gpu_file=gpu.name,
        implementation=implementation,
        errors=errors_of(rows),
        by_latency=bucket_errors(rows),
        by_head_dim={int(str(dim)): errors_of(own) for dim, own in rows.groupby("head_dim")},
        rows=rows.reset_index(drop=True),
    )


class Prefill:
    """Causal prefill shapes of one head dim over the preset of an implementation: the best predicted latency of each
    as a function of the implementation's numbers. Compiled once for all GPUs, head dims and implementations whose
    presets have as many schedules."""

    def __init__(self, gpu: GpuFile, family: str, implementation: str, head_dim: int, rows: "pd.DataFrame") -> None:
        from jaxmodel.kernels.attention_types import AttentionSchedule

        preset = PRESETS.get((family, implementation), {}).get(head_dim)
        if preset is None:
            raise UserError(f"no preset says what kernels {implementation} has for head dim {head_dim} on {gpu.name}")
        space = load_space("attention", family=family, preset=preset)
        self.columns = space.rows(np.arange(space.size))
        self.gpu = gpu.bind("bf16", family=family)
        columns = {name: np.asarray(values, np.float32)[None, :] for name, values in self.columns.items()}
        self.schedule = AttentionSchedule(**columns)
        self.rows = len(rows)
        padded = rows.iloc[np.arange(-(-self.rows // CHUNK_ROWS) * CHUNK_ROWS) % self.rows]
        tokens = _column(padded, "tokens")
        self.problem = replace(
            AttentionProblem.from_shape(f"1x1x1x{head_dim}").arrays(),
            batch=_column(padded, "batch"),
            q_tokens=tokens,
            kv_tokens=tokens,
            heads=_column(padded, "heads"),
            kv_heads=_column(padded, "kv_heads"),
        )

    def latency_s(self, numbers: Mapping[str, float]) -> np.ndarray:
        """Seconds of the best schedule, float64[rows]."""
        return self._found(numbers)[0]

    def splits(self, numbers: Mapping[str, float]) -> np.ndarray:
        """Splits of the keys in the best schedule, int[rows]."""
        return self.columns["splits"][self._found(numbers)[1]]

    def _found(self, numbers: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
        from jaxmodel.kernels.attention_types import AttentionNumbers

        record = AttentionNumbers(**{name: np.float32(value) for name, value in numbers.items()})
        best_s, index = [], []
        for start in range(0, len(self.problem.batch), CHUNK_ROWS):
            chunk = slice(start, start + CHUNK_ROWS)
            sizes = {name: getattr(self.problem, name)[chunk] for name in SIZES}
            problem = replace(self.problem, numbers=record, **sizes)
            found_s, found = _best()(problem, self.schedule, self.gpu)
            best_s.append(np.asarray(found_s, float))
            index.append(np.asarray(found))
        return np.concatenate(best_s)[: self.rows], np.concatenate(index)[: self.rows]


def _column(rows: "pd.DataFrame", name: str) -> np.ndarray:
    return rows[name].to_numpy(np.float32)[:, None]


@lru_cache(maxsize=1)
def _best() -> Callable[..., tuple[Any, Any]]:
    import jax.numpy as jnp

    from jaxmodel.kernels.attention import cost

    def best(problem: Any, schedule: Any, gpu: Any) -> tuple[Any, Any]:
        found = cost(problem, schedule, gpu)
        latency_s = jnp.where(found.reason > 0, jnp.inf, found.latency_s)
        return jnp.min(latency_s, axis=1), jnp.argmin(latency_s, axis=1)

    return jit(best)


@dataclass(frozen=True)
class Published:
    """A published throughput beside the model's, for each order of the warpgroups.

    Attributes:
        what: which measurement.
        tflops: as published.
        by_order: order -> the model's.
    """

    what: str
    tflops: float
    by_order: Mapping[str, float]


FIGURE5 = "arXiv 2407.08608 Fig. 5, H100, head dim 128, hidden 2048, 16k tokens"
TABLE2 = "arXiv 2407.08608 Table 2, H100, 4 x 16 heads x 8448 x 128"
FA3_PUBLISHED = (  # what, shape, causal, preset, TFLOP/s
    (f"{FIGURE5}, full", "1x16x16384x128", False, "fa3_d128_full", 649.0),
    (f"{FIGURE5}, causal", "1x16x16384x128", True, "fa3_d128", 616.0),
    (f"{TABLE2}, full", "4x16x8448x128", False, "fa3_d128_full", 661.0),
)
ORDERS = ("serial", "pipelined", "ping_pong", "both")


@lru_cache(maxsize=4)
def published_fa3(implementation: str = "fa3") -> tuple[Published, ...]:
    """FlashAttention-3's published throughputs beside the model's, whose numbers are the implementation's without what
    its framework adds: the paper times the kernel."""
    from jaxmodel.kernels.attention import cost
    from jaxmodel.kernels.attention_types import AttentionSchedule

    gpu = load_gpu("h100_sxm")
    bare = {"framework_s": 0.0, "helper_q": 0.0, "helper_kv": 0.0}
    found = []
    for what, shape, causal, preset, tflops in FA3_PUBLISHED:
        space = load_space("attention", family="wgmma", preset=preset)
        columns = space.rows([0])
        asked = AttentionProblem.from_shape(shape, causal=causal, implementation=implementation)
        problem = asked.on(gpu, bare)
        by_order = {}
        for code, order in enumerate(ORDERS):
            columns["order"] = np.full(1, code)
            schedule = AttentionSchedule(**{name: np.asarray(values, np.float32) for name, values in columns.items()})
            latency_s = cost(problem.arrays(), schedule, gpu.bind("bf16", family="wgmma")).latency_s
            by_order[order] = float(problem.flop / np.asarray(latency_s)[0] / 1e12)
        found.append(Published(what, tflops, by_order))
    return tuple(found)
