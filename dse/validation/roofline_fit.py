"""The baseline to beat: a roofline with three constants fitted to the same data."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class FittedRoofline:
    """latency = overhead_s + max(FLOP / flop_per_s, bytes / bytes_per_s), every operand's bytes counted once.

    Three constants are fitted; `operand_bytes` is the size of an element of A and B, an output element has 2 bytes.
    """

    overhead_s: float
    flop_per_s: float
    bytes_per_s: float
    operand_bytes: float = 2.0

    def latency_s(self, m: np.ndarray, n: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Predicted seconds of GEMMs with bf16 outputs."""
        compute = 2.0 * m * n * k / self.flop_per_s
        memory = _bytes(m, n, k, self.operand_bytes) / self.bytes_per_s
        return self.overhead_s + np.maximum(compute, memory)


def fit_roofline(rows: "pd.DataFrame", operand_bytes: float = 2.0) -> FittedRoofline:
    """Fits the three constants to least mean absolute relative error, from several starts (Nelder-Mead).

    Args:
        rows: columns m, n, k, latency_us.
        operand_bytes: size of an element of A and B, e.g. 1 for fp8.
    """
    from scipy.optimize import minimize

    m, n, k = (rows[name].to_numpy(float) for name in ("m", "n", "k"))
    measured = rows["latency_us"].to_numpy(float) * 1e-6
    flop_per_s = np.quantile(2.0 * m * n * k / measured, [0.9, 0.98])
    bytes_per_s = np.quantile(_bytes(m, n, k, operand_bytes) / measured, [0.8, 0.95])

    def made(logs: np.ndarray) -> FittedRoofline:
        return FittedRoofline(*(float(value) for value in np.exp(logs)), operand_bytes=operand_bytes)

    def error(logs: np.ndarray) -> float:
        return float(np.mean(np.abs(made(logs).latency_s(m, n, k) / measured - 1.0)))

    starts = [np.log([measured.min(), f, b]) for f in flop_per_s for b in bytes_per_s]
    options = {"maxiter": 4000, "xatol": 1e-4, "fatol": 1e-7}
    fits = [minimize(error, start, method="Nelder-Mead", options=options) for start in starts]
    best = min(fits, key=lambda fit: fit.fun)
    return made(best.x)


def _bytes(m: np.ndarray, n: np.ndarray, k: np.ndarray, operand_bytes: float) -> np.ndarray:
    return operand_bytes * (m * k + n * k) + 2.0 * m * n
