"""Made-up residuals, and a table of them, for tests of intervals."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from dse.content import load_gpu
from dse.latency_bucket import latency_bucket
from dse.shape_class import shape_classes
from dse.validation.residual_table import build_residuals

GPUS = ("a100_sxm", "h100_sxm", "h200_sxm")
FILES = {name: load_gpu(name) for name in GPUS}
BIAS = {"a100_sxm": 0.06, "h100_sxm": 0.0, "h200_sxm": -0.03}


def residuals(
    pairs: int = 60, seed: int = 0, gpus=GPUS, spread: float = 0.08, bias=BIAS, dtype: str = "bf16"
) -> pd.DataFrame:
    """Rows as `dse.validation.residual_table.residual_rows` gives them; rows of a pair share half of their variance."""
    rng = np.random.default_rng(seed)
    sides = 2 ** rng.integers(7, 15, (pairs, 2))
    shift = rng.normal(0.0, spread / np.sqrt(2), pairs)
    frames = []
    for gpu in gpus:
        m = 2 ** rng.integers(0, 14, (pairs, 6))
        n, k = (np.broadcast_to(sides[:, [at]], m.shape) for at in (0, 1))
        predicted = 3.0 + 2.0 * m * n * k / 6e8 + (n * k + m * k + m * n) / 1e6
        ratio = bias[gpu] + shift[:, None] + rng.normal(0.0, spread / np.sqrt(2), m.shape)
        columns = {"m": m, "n": n, "k": k, "model_us": predicted, "log_ratio": ratio}
        columns["latency_us"] = predicted * np.exp(ratio)
        frames.append(pd.DataFrame({name: values.ravel() for name, values in columns.items()}).assign(system=gpu))
    rows = pd.concat(frames, ignore_index=True).assign(dtype=dtype, part="check")
    shape = (rows[side].to_numpy() for side in ("m", "n", "k"))
    return rows.assign(shape_class=shape_classes(*shape), bucket=latency_bucket(rows["model_us"].to_numpy()))


def unfitted(pairs: int = 60, seed: int = 1, **more) -> pd.DataFrame:
    """Rows predicted without a fit: other biases, more scatter."""
    return residuals(pairs, seed, spread=0.15, bias={"a100_sxm": 0.2, "h100_sxm": -0.1, "h200_sxm": 0.0}, **more)


def residual_table(**more):
    """A table of three validated GPUs."""
    return build_residuals(residuals(**more), unfitted(**more), FILES, {"parts": ["check"]})


def packaged(folder: Path, monkeypatch) -> Path:
    """Puts a table where `dse` looks first; the user's own content folder."""
    path = folder / "content/studies/measured/residuals.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(residual_table().to_dict()))
    monkeypatch.setenv("DSE_PATH", str(folder / "content"))
    return path
