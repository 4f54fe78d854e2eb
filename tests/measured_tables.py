"""Small measured tables, and predictions without a model, for tests of what is made of predictions."""

import numpy as np
import pandas as pd

from dse.best_schedule import BestSchedules

PEAKS = {"h100_sxm": (8.0e14, 3.0e12), "h200_sxm": (8.0e14, 4.4e12), "a100_sxm": (2.8e14, 1.6e12)}
OVERHEAD_S = 2.5e-6


def latency_s(system: str, m, n, k) -> np.ndarray:
    """A time that grows as a roofline does, smooth so that no roofline fits it exactly."""
    flop_per_s, bytes_per_s = PEAKS[system]
    compute, memory = 2.0 * m * n * k / flop_per_s, 2.0 * (m * n + n * k + m * k) / bytes_per_s
    return OVERHEAD_S + np.hypot(compute, memory)


def measured_table(systems=("h100_sxm", "h200_sxm"), pairs: int = 12, seed: int = 0) -> pd.DataFrame:
    """Rows of every system for the same shapes: half of the pairs in the part fit, half in check."""
    rng = np.random.default_rng(seed)
    sides = np.array([128, 256, 1024, 4096, 8192, 16384])
    weights = rng.permutation([(n, k) for n in sides for k in sides])[:pairs]
    frames = []
    for place, (n, k) in enumerate(weights):
        m = np.array([1.0, 64.0, 1024.0, 4096.0])
        for system in systems:
            noise = np.exp(rng.normal(0.0, 0.05, len(m)))
            columns = {"system": system, "m": m.astype(int), "n": n, "k": k}
            timed = latency_s(system, m, float(n), float(k)) * noise * 1e6
            about = {"spread": 1.05, "n_sources": 2, "part": ("fit", "check")[place % 2]}
            frames.append(pd.DataFrame(columns | {"latency_us": timed} | about))
    return pd.concat(frames, ignore_index=True)


def predicted_best(problems, space, gpu) -> BestSchedules:
    """In place of `best_schedules`: the noiseless time, and any schedules of the space."""
    sides = np.array([(problem.m, problem.n, problem.k) for problem in problems], float).T
    return BestSchedules(latency_s(gpu.name, *sides), np.arange(len(problems)) % space.size)
