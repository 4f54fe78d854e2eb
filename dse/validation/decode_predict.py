"""Predicted latencies of many measured decode calls: the best over a sub-space, for any implementation's numbers."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiled import jit
from ..content.dtypes import DTYPE_BYTES
from ..content.gpu import load_gpu
from ..content.implementation import load_implementation
from ..content.space import load_space
from .decode_measured import DecodeFamily

if TYPE_CHECKING:
    import pandas as pd

KERNEL = "decode_attention"
CANDIDATES = 2**19  # costed at a time: calls x schedules
NEVER_S = 1.0  # of a schedule that does not fit


class DecodePredictor:
    """Some calls of one kernel on one GPU, ready to be predicted again and again.

    Args:
        rows: with the columns of `dse.validation.decode_measured.COLUMNS`.
        system: the GPU file's name.
        family: which kernel they are of.
    """

    def __init__(self, rows: "pd.DataFrame", system: str, family: DecodeFamily) -> None:
        narrow = str(rows["kv_dtype"].iloc[0])
        self.dtype = narrow if family.native else "bf16"
        self.gpu = load_gpu(system).bind(self.dtype, family=family.family)
        self.space = load_space(KERNEL, family.family, self.dtype, preset=family.preset)
        self.rows, self.narrow = rows, narrow
        self.index = np.arange(self.space.size)

    def narrowed(self, numbers: Mapping[str, float]) -> "DecodePredictor":
        """Itself, from now on with those schedules only that some call can run."""
        reasons = self._costs(numbers)[1]
        self.index = self.index[(reasons == 0).any(axis=0)]
        return self

    def predict(self, numbers: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
        """(latency of the best schedule in us, its index in the space), one a row."""
        latency_s, reasons = self._costs(numbers)
        latency_s = np.where(reasons == 0, latency_s, NEVER_S)
        return latency_s.min(axis=1) * 1e6, self.index[latency_s.argmin(axis=1)]

    def _costs(self, numbers: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
        from jaxmodel.kernels.decode_attention_types import DecodeAttentionSchedule

        columns = self.space.rows(self.index)
        schedule = DecodeAttentionSchedule(**{name: _row(values) for name, values in columns.items()})
        length = max(CANDIDATES // max(len(self.index), 1), 1)
        found = []
        for start in range(0, len(self.rows), length):
            part = self.rows.iloc[start : start + length]
            found.append(_evaluate()(self._problem(part, numbers), schedule, self.gpu))
        latency_s, reasons = (np.concatenate([np.asarray(one[at], float) for one in found]) for at in (0, 1))
        return latency_s, reasons

    def _problem(self, rows: "pd.DataFrame", numbers: Mapping[str, float]) -> Any:
        from jaxmodel.kernels.decode_attention_types import DecodeAttention, DecodeNumbers

        sizes = ("batch", "kv_tokens", "heads", "kv_heads", "head_dim", "v_dim")
        given = {name: np.asarray(rows[name], np.float32)[:, None] for name in sizes}
        shared = (rows["v_dim"] < rows["head_dim"]).to_numpy(np.float32)[:, None]
        plain = {
            "q_tokens": 1.0,
            "context_spread": 0.0,
            "causal": 1.0,
            "window": 0.0,
            "q_bytes": DTYPE_BYTES[self.dtype],
            "kv_bytes": DTYPE_BYTES[self.dtype],  # one that is widened is widened before the kernel
            "out_bytes": DTYPE_BYTES["bf16"],
            "page_tokens": 16.0,
            "kv_warm": 1.0,
        }
        own = DecodeNumbers(**{name: np.float32(value) for name, value in numbers.items()})
        return DecodeAttention(
            **given, shared_kv=shared, **{name: np.float32(value) for name, value in plain.items()}, numbers=own
        )


def numbers_of(family: DecodeFamily, system: str) -> dict[str, float]:
    """The numbers of the family's implementation on a GPU."""
    return load_implementation(KERNEL, family.kernel, system)


def _row(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, np.float32)[None, :]


@cache
def _evaluate() -> Any:
    import jax.numpy as jnp

    from jaxmodel.kernels.decode_attention import cost

    def evaluate(problem: Any, schedule: Any, gpu: Any) -> tuple[Any, Any]:
        found = cost(problem, schedule, gpu)
        return jnp.broadcast_arrays(found.latency_s, found.reason)  # type: ignore[return-value]

    return jit(evaluate)
