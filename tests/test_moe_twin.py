"""Grouped GEMMs and MoE layers against scalar float64 twins written from docs/moe.md."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest
from oracles import grouped_gemm as grouped_twin
from oracles import moe as moe_twin
from oracles.gemm_compare import WHOLE_FIELDS
from oracles.gemm_draws import FAMILIES
from oracles.gemm_fit import WHOLE_BELOW
from oracles.grouped_gemm_draws import draw_grouped, draw_moe
from oracles.quick_compile import QUICK

from jaxmodel.kernels import grouped_gemm, moe
from jaxmodel.reasons import Reason
from jaxmodel.types import PIPELINES, Cost

COUNT = 600
TOLERANCE = {np.float32: 1e-4, np.float64: 1e-9}
KERNELS = {"grouped_gemm": (draw_grouped, grouped_gemm, grouped_twin), "moe": (draw_moe, moe, moe_twin)}
CASES = [(kernel, family) for kernel in KERNELS for family in FAMILIES]


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def drawn(request: pytest.FixtureRequest) -> tuple[Any, Any, dict[str, np.ndarray]]:
    kernel, family = request.param
    draw_of, model, twin = KERNELS[kernel]
    draw = draw_of(COUNT, 1, family)
    rows = twin.costs([twin.Candidate(*_entry(tuple(draw), i)) for i in range(COUNT)])
    exact = {name: np.array([row[name] for row in map(_flat, rows)]) for name in _flat(rows[0])}
    return model, draw, exact


@pytest.mark.parametrize("float_dtype", [np.float32, np.float64])
def test_every_field_of_the_cost_agrees_with_the_twin(drawn: tuple, float_dtype: type) -> None:
    model, draw, exact = drawn
    found = _differences(draw, _model_fields(model, draw, float_dtype), exact)
    worst = {name: float(difference.max()) for name, difference in found.items()}
    assert {name: value for name, value in worst.items() if value > TOLERANCE[float_dtype]} == {}


def test_the_draw_reaches_what_it_should(drawn: tuple) -> None:
    _, draw, exact = drawn
    fits = exact["reason"] == Reason.OK
    assert 0.15 < fits.mean() < 0.9
    for name in ("persistent", "swap_ab"):
        assert np.sum(fits & (getattr(draw.schedule, name) > 0)) > 10, name
    assert np.sum(fits & (exact["tail_s"] > 0)) > 10


def test_a_wrong_equation_would_be_found(drawn: tuple) -> None:
    model, draw, exact = drawn
    faster = dataclasses.replace(draw.gpu, ddr_bytes_per_s=draw.gpu.ddr_bytes_per_s * 1.001)
    found = _differences(draw, _model_fields(model, draw._replace(gpu=faster), np.float32), exact)
    assert found["latency_s"].max() > 5e-4


def _model_fields(model: Any, draw: Any, float_dtype: type) -> dict[str, np.ndarray]:
    options = {} if float_dtype is np.float32 else QUICK
    with jax.enable_x64(float_dtype is np.float64):
        arguments = jax.tree.map(lambda leaf: np.asarray(leaf, float_dtype), tuple(draw))
        cost = jax.jit(model.cost, compiler_options=options)(*arguments)
        flat = _flat({field.name: getattr(cost, field.name) for field in dataclasses.fields(Cost)})
    return {name: np.broadcast_to(np.asarray(value, np.float64), COUNT) for name, value in flat.items()}


def _differences(draw: Any, of_model: dict[str, np.ndarray], of_twin: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """As `oracles.gemm_compare.differences`: parts are compared with at least a hundredth of what they are parts of."""
    requested = of_twin["l15_bytes"]
    whole = dict.fromkeys(("prologue_s", "steady_s", "epilogue_s", "tail_s"), of_twin["latency_s"])
    whole |= dict.fromkeys(("l15_hit", "l2_hit"), np.ones_like(requested))
    whole |= dict.fromkeys(("ddr_read_bytes", "ddr_bytes"), requested)
    whole |= {"pipeline_s.ddr": requested / draw.gpu.ddr_bytes_per_s}
    counted = of_twin["tiles"] < WHOLE_BELOW
    found = {}
    for name, value in of_model.items():
        scale = np.maximum(np.abs(of_twin[name]), 0.01 * whole.get(name, 0.0))
        apart = np.abs(value - of_twin[name]) / np.where(scale == 0, 1.0, scale)
        found[name] = np.where(counted, (value != of_twin[name]) if name in WHOLE_FIELDS else apart, 0.0)
    return found


def _flat(fields: dict[str, Any]) -> dict[str, Any]:
    flat = {name: value for name, value in fields.items() if name != "pipeline_s"}
    return flat | {f"pipeline_s.{name}": s for name, s in zip(PIPELINES, fields["pipeline_s"], strict=True)}


def _entry(record: Any, i: int) -> Any:
    if isinstance(record, tuple):
        return tuple(_entry(field, i) for field in record)
    if dataclasses.is_dataclass(record):
        return type(record)(**{f.name: _entry(getattr(record, f.name), i) for f in dataclasses.fields(record)})  # pyright: ignore
    return None if record is None else np.asarray(record)[i].tolist()
