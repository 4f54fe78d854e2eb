"""Predicted prefill latencies of many shapes: the best over what a library has, for any numbers of its kernels."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiled import jit
from ..content.gpu import GpuFile
from ..content.space import load_space
from ..errors import UserError
from ..kernels.attention import AttentionProblem

if TYPE_CHECKING:
    import pandas as pd

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
