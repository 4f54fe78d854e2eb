"""GEMMs that communicate against a twin whose transfers are played tile by tile, written from
docs/fused-communication.md."""

import dataclasses

import numpy as np
import pytest
from oracles import fused_communication as twin
from oracles.cost_fields import entry
from oracles.fused_draws import KERNELS, FusedDraw, draw_fused
from oracles.gemm_compare import model_fields
from oracles.gemm_draws import FAMILIES

from jaxmodel.kernels import ag_gemm, gemm_ar, gemm_rs
from jaxmodel.types import PIPELINES

COSTS = {"ag_gemm": ag_gemm.cost, "gemm_rs": gemm_rs.cost, "gemm_ar": gemm_ar.cost}
MOST_TILES = 6000  # that are played
FIELDS = (
    "latency_s", "prologue_s", "steady_s", "epilogue_s", "tail_s", "reduction_s", "ddr_bytes", "l2_bytes",
    "ddr_read_bytes", "energy_j", "pipeline_s.net", "pipeline_s.l2", "pipeline_s.ddr", "bound", "smem_bytes", "waves",
)  # fmt: skip


@pytest.fixture(scope="module", params=[(kernel, family) for kernel in KERNELS for family in FAMILIES])
def drawn(request: pytest.FixtureRequest) -> tuple[str, FusedDraw, list[int], list[dict]]:
    kernel, family = request.param
    draw = draw_fused(1200, 7, family, kernel)
    cost = model_fields(draw, np.float64, COSTS[kernel])
    tiles = cost["waves"] * cost["ctas_per_sm"] * np.maximum(cost["sms_used"], 1.0)
    places = np.flatnonzero((cost["reason"] == 0) & (tiles < MOST_TILES))[:60]
    assert len(places) > 25
    return kernel, draw, places.tolist(), twin.costs(draw, kernel, places.tolist(), entry)


@pytest.mark.parametrize(("float_dtype", "within"), [(np.float32, 2e-3), (np.float64, 1e-9)])
def test_the_cost_is_that_of_the_played_transfers(drawn: tuple, float_dtype: type, within: float) -> None:
    kernel, draw, places, exact = drawn
    found = model_fields(draw, float_dtype, COSTS[kernel])
    for name in FIELDS:
        expected = np.array([row[name] if "." not in name else _pipeline(row, name) for row in exact], float)
        scale = np.maximum(np.abs(expected), 0.01 * np.array([row["latency_s"] for row in exact]))
        if not (name.endswith("_s") or name.startswith("pipeline")):
            of_all = "ddr" in name  # what misses all caches is a difference of what is requested
            scale = np.maximum(
                np.abs(expected), 0.01 * np.array([row["l15_bytes"] if of_all else 1.0 for row in exact])
            )
        differs = np.abs(found[name][places] - expected) / scale
        if name == "bound":
            assert float_dtype is np.float32 or differs.max() == 0.0
        else:
            assert differs.max() < within, (name, int(np.argmax(differs)))


def test_the_draw_reaches_every_way_and_hides_some_communication_but_not_all(drawn: tuple) -> None:
    kernel, draw, places, exact = drawn
    at = {name: np.asarray(getattr(draw.schedule, name))[places] for name in ("transport", "order", "chunks", "queue")}
    assert {*at["transport"]} >= {"ag_gemm": {0, 1, 2}, "gemm_rs": {0, 1, 2}, "gemm_ar": {1, 2, 3}}[kernel]
    assert {*at["order"]} >= {0, 2}
    assert at["chunks"].max() > 2
    exposed = np.array([row["communication_s"] for row in exact])
    moved = np.array([row["pipeline_s"][-1] for row in exact])
    assert np.any(exposed < 0.5 * moved)
    assert np.any(exposed > 0.0)


def test_a_wrong_equation_would_be_found(drawn: tuple) -> None:
    """Links that are one per cent slower."""
    kernel, draw, places, exact = drawn
    slower = dataclasses.replace(draw.problem, link=draw.problem.link.scaled(0.99))
    found = model_fields(draw._replace(problem=slower), np.float64, COSTS[kernel])["latency_s"][places]
    assert np.max(found / [row["latency_s"] for row in exact] - 1.0) > 1e-3


def _pipeline(row: dict, name: str) -> float:
    return row["pipeline_s"][PIPELINES.index(name.partition(".")[2])]
