"""GEMM cost of the model less that of its scalar twin, field by field, on drawn candidates."""

from dataclasses import fields
from typing import Any

import jax
import numpy as np

from jaxmodel.kernels import gemm as model
from jaxmodel.types import Cost

from . import gemm as twin
from .cost_fields import cost_fields, entry, flat
from .gemm_fit import WHOLE_BELOW
from .quick_compile import QUICK

WHOLE_FIELDS = (
    "reason", "bound", "ctas_per_sm", "occupancy_limiter", "registers_per_thread", "smem_bytes", "threads", "sms_used",
)  # fmt: skip


def model_fields(draw: Any, float_dtype: type, cost_of: Any = model.cost) -> dict[str, np.ndarray]:
    """Every field of a model's cost, computed under `jit` in the given precision; `pipeline_s` one entry each."""
    options = {} if float_dtype is np.float32 else QUICK
    with jax.enable_x64(float_dtype is np.float64):
        arguments = jax.tree.map(lambda leaf: np.asarray(leaf, float_dtype), draw)
        cost = jax.jit(cost_of, compiler_options=options)(*arguments)
        assert cost.latency_s.dtype == float_dtype
        return cost_fields(cost, len(draw.schedule.tile_m))


def twin_fields(draw: Any, twin: Any = twin) -> dict[str, np.ndarray]:
    """The same from a scalar twin, a module with `costs` and `Candidate`."""
    rows = twin.costs([twin.Candidate(*entry(tuple(draw), i)) for i in range(len(draw.schedule.tile_m))])
    found = [flat({name: row[name] for name in (*(field.name for field in fields(Cost)), "tiles")}) for row in rows]
    return {name: np.array([row[name] for row in found], float) for name in found[0]}


def differences(draw: Any, of_model: dict[str, np.ndarray], of_twin: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Relative difference of every field, and 0 or 1 (equal or not) of whole numbers and codes.

    What is a difference of larger numbers is compared with at least a hundredth of those: a part of the latency with
    the latency, a share with 1, what misses all caches with all that is requested. Launches of 2^24 tiles or more are
    refused, not exact, and not compared.
    """
    requested = of_twin["l15_bytes"]
    whole = dict.fromkeys(("prologue_s", "steady_s", "epilogue_s", "tail_s"), of_twin["latency_s"])
    whole |= dict.fromkeys(("l15_hit", "l2_hit"), np.ones_like(requested))
    whole |= dict.fromkeys(("ddr_read_bytes", "ddr_bytes"), requested)
    whole |= {"pipeline_s.ddr": requested / draw.gpu.ddr_bytes_per_s}
    difference = {
        name: of_model[name] != of_twin[name]
        if name in WHOLE_FIELDS
        else _relative(of_model[name], of_twin[name], 0.01 * whole.get(name, 0.0))
        for name in of_model
    }
    counted = of_twin["tiles"] < WHOLE_BELOW
    return {name: np.where(counted, value, 0.0) for name, value in difference.items()}


def _relative(value: np.ndarray, exact: np.ndarray, least_scale: np.ndarray | float) -> np.ndarray:
    scale = np.maximum(np.abs(exact), least_scale)
    return np.abs(value - exact) / np.where(scale == 0, 1.0, scale)
