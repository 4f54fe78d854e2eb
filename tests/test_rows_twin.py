"""The cost of memory-bound kernels against a scalar float64 twin that shares little with it but the equations."""

from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from oracles import rows as twin
from oracles.cost_fields import beyond, cost_fields, entry, flat
from oracles.quick_compile import QUICK
from oracles.rows_draws import KERNELS, Draw, draw_rows, on_files

from jaxmodel.kernels import rows
from jaxmodel.reasons import Reason

COUNT = 120  # candidates a kernel, and as many on the packaged GPUs
TOLERANCE = {np.float32: 1e-4, np.float64: 1e-9}
CODES = ("bound", "ctas_per_sm", "occupancy_limiter", "threads", "sms_used", "registers_per_thread", "fits", "reason")


@cache
def drawn(kernel: str, packaged: bool) -> tuple[Draw, dict[str, np.ndarray]]:
    draw = draw_rows(COUNT, 1 + packaged, kernel)
    draw = on_files(draw) if packaged else draw
    found = [flat(twin.cost(*entry(tuple(draw), i))) for i in range(COUNT)]
    return draw, {name: np.array([one[name] for one in found], float) for name in found[0]}


@cache
def compiled() -> Any:
    return jax.jit(rows.cost, compiler_options=QUICK)


def model(draw: Draw, float_dtype: type, cost: Any = None) -> dict[str, np.ndarray]:
    with jax.enable_x64(float_dtype is np.float64):
        found = (cost or compiled())(*jax.tree.map(lambda leaf: np.asarray(leaf, float_dtype), draw))
        return cost_fields(found, COUNT)


def differences(ours: dict[str, np.ndarray], exact: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Relative, parts of the latency against a hundredth of it at least; 0 or 1 of codes and counts."""
    own = exact["own_reason"]
    found = {
        "fits": (ours["reason"] == Reason.OK) != ((own == Reason.OK) & (exact["fits"] > 0)),
        "reason": (own != Reason.OK) & (ours["reason"] != own),
    }
    for name in ours.keys() & exact.keys():
        least = 1e-30
        if name.endswith("_s"):
            least = 0.01 * exact["latency_s"]
        elif name.endswith("_hit"):
            least = 0.01
        elif name.startswith("ddr") or name == "pipeline_s.ddr":
            least = 0.01 * exact["l15_bytes"]
        apart = np.abs(ours[name] - exact[name]) / np.maximum(np.abs(exact[name]), least)
        found[name] = ours[name] != exact[name] if name in CODES else apart
    return found


@pytest.mark.parametrize("packaged", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_field_of_the_cost_agrees_with_the_twin(kernel: str, packaged: bool) -> None:
    draw, exact = drawn(kernel, packaged)
    found = differences(model(draw, np.float64), exact)
    assert beyond(found, TOLERANCE[np.float64]) == {}
    assert "latency_s" in found
    assert len(found) > 30


@pytest.mark.parametrize("kernel", KERNELS)
def test_float32_agrees_to_rounding(kernel: str) -> None:
    """A code flips where two numbers are equal to float32 rounding, so codes are compared in float64 alone."""
    draw, exact = drawn(kernel, True)
    found = differences(model(draw, np.float32), exact)
    assert set(beyond(found, TOLERANCE[np.float32])) <= set(CODES)


def test_the_draw_reaches_what_it_should() -> None:
    every = [drawn(kernel, packaged) for kernel in KERNELS for packaged in (False, True)]
    joined = {name: np.concatenate([exact[name] for _, exact in every]) for name in every[0][1]}
    fits = (joined["own_reason"] == Reason.OK) & (joined["fits"] > 0)
    assert set(joined["own_reason"].astype(int)) >= {Reason.VECTOR, Reason.ROW_PARTS, Reason.NOTHING_KEPT}
    assert 0.2 < fits.mean() < 0.8
    for field in ("steps", "persistent", "keep"):
        values = np.concatenate([getattr(draw.schedule, field) for draw, _ in every])
        assert np.sum(fits & (values > 0)) > 20, field
    for name in ("tail_s", "reduction_s", "helpers_s", "workspace_bytes"):
        assert np.sum(fits & (joined[name] > 0)) > 5, name
    for of_problem in ("shared_bytes", "lookups", "group_cols", "warm"):
        values = np.concatenate([getattr(draw.problem, of_problem) for draw, _ in every])
        assert np.sum(fits & (values > 0)) > 5, of_problem


WRONG = {
    "SECTOR_BYTES": 64.0,
    "PARTIAL_BYTES": 8.0,
    "LANE_BYTES": 8.0,
    "BASE_REGISTERS": 25.0,
    "ADDRESS_SLOTS": 3.0,
    "SHUFFLE_CLOCKS": 33.0,
    "BARRIER_CLOCKS": 44.0,
}


@pytest.mark.parametrize("number", WRONG)
def test_a_wrong_equation_would_be_found(number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each constant of the page, changed in the model, moves some field of some kernel well past the tolerance."""
    monkeypatch.setattr(rows, number, WRONG[number])
    other = jax.jit(lambda *records: rows.cost(*records), compiler_options=QUICK)
    most = 0.0
    for kernel in ("reduction", "layernorm", "quantise"):
        draw, exact = drawn(kernel, False)
        most = max(most, *(float(apart.max()) for apart in differences(model(draw, np.float64, other), exact).values()))
    assert most > 1e-6
