"""Outcomes of many layouts at once: each as added up by itself in plain numbers, layer by layer."""

from dataclasses import replace

import numpy as np
import pytest
from oracles.served_layout import Machine, served
from serving_cases import DENSE, ENGINE, EXPERTS, GPU, PLAIN, layouts_of_rows, small_spaces, steps_of  # noqa: F401

from dse.content.model import load_model
from dse.serving.kernel_times import KernelTimes
from dse.serving.layouts import CODES, REASONS, layout_reasons
from dse.serving.outcomes import COLUMNS, evaluate_layouts
from dse.serving.step_times import StepModel
from dse.serving.workload import Workload
from dse.step_operators import Types

pytestmark = pytest.mark.usefixtures("small_spaces")
GPUS = 16
ASKED = Workload(input_tokens=2048, output_tokens=256)
WORKLOADS = {
    "serve": ASKED,
    "cached": replace(ASKED, cached_tokens=512),
    "decode": replace(ASKED, phase="decode"),
    "prefill": replace(ASKED, phase="prefill"),
    "drafts": replace(ASKED, draft_tokens=3, acceptance=0.7, draft_layers=2.0),
    "limits": replace(ASKED, ttft_max_s=0.011, tpot_max_s=0.003),
}
DENSE_ROWS = [
    {"tp": 1, "batch": 8},
    {"tp": 4, "batch": 32},
    {"tp": 4, "batch": 32, "chunk": 512},
    {"tp": 4, "batch": 64, "sequence_parallel": 1, "overlap": 1},
    {"tp": 4, "batch": 16, "hidden_split": 2},
    {"tp": 8, "batch": 48, "kv_split": 4, "chunk": 1024},
    {"tp": 2, "cp": 2, "batch": 12},
    {"tp": 2, "cp": 2, "kv_split": 2, "pp": 2, "micro_batches": 2, "batch": 12, "chunk": 512},
    {"tp": 2, "pp": 4, "micro_batches": 2, "batch": 40},
    {"tp": 2, "pp": 4, "micro_batches": 4, "batch": 64, "chunk": 256, "placement": 4},
    {"tp": 1, "pp": 2, "micro_batches": 1, "batch": 600},
    {"tp": 16, "batch": 128},
    {"tp": 4, "batch": 8, "chunk": 4096},
    {"tp": 1, "batch": 16384},
]
EXPERT_ROWS = [
    {"tp": 1, "batch": 16},
    {"tp": 4, "experts_tp": 4, "batch": 32},
    {"tp": 2, "dp": 2, "batch": 32},
    {"tp": 2, "dp": 4, "batch": 64, "exchange": 1},
    {"tp": 2, "dp": 4, "batch": 64, "exchange": 1, "overlap": 1, "chunk": 512},
    {"tp": 2, "dp": 4, "pp": 2, "batch": 64, "micro_batches": 2, "experts_tp": 2},
    {"tp": 2, "dp": 8, "batch": 64, "exchange": 1, "placement": 5},
    {"cp": 2, "dp": 2, "batch": 16, "chunk": 1024},
    {"tp": 2, "dp": 2, "sequence_parallel": 1, "batch": 32},
]
KNOWN_FIRST = ("gpus", "weights_bytes", "kv_cache_bytes", "activation_bytes")
SHARED = KernelTimes(GPU, ENGINE)  # kernels tuned once for all of this file


@pytest.fixture(scope="module")
def alone() -> KernelTimes:
    """Prices the kernels of one layout, one by one; nothing of it is known to what is tested."""
    return KernelTimes(GPU, ENGINE)


def machine_of(steps: StepModel, kernels: KernelTimes) -> Machine:
    engine = steps.engine
    return Machine(
        kernel_s=lambda operator: float(kernels.seconds([operator], 1)[0][0]),
        exchange_s=lambda exchange: float(steps.collectives.seconds([exchange], 1)[0][0]),
        memory_bytes=GPU["ddr_capacity_bytes"],
        memory_share=engine["memory_share"],
        reserved_bytes=engine["reserved_bytes"],
        activation_tokens=int(engine["activation_tokens"]),
        step_s=engine["step_s"],
        graph_tokens_max=int(engine["graph_tokens_max"]),
        launch_s=GPU["host_launch_overhead_s"],
        graphs=steps.graphs,
    )


def check(model, rows, asked: Workload, alone: KernelTimes, types: Types | None = None, graphs=True) -> set[str]:
    """Reasons that came up."""
    types = types or Types()
    steps = replace(steps_of(model, types, kernels=SHARED), graphs=graphs)
    machine = machine_of(replace(steps_of(model, types), graphs=graphs), alone)
    layouts = layouts_of_rows(rows)
    assert (layout_reasons(layouts, model, GPUS) == 0).all()
    found = evaluate_layouts(layouts, asked, steps, GPUS)
    told = set()
    for place, row in enumerate(rows):
        reason, columns = served(model, types, asked, PLAIN | row, layouts_of_rows([row]), machine)
        assert list(REASONS)[found.reason[place]] == reason, row
        assert (set(columns) == set(COLUMNS)) == (reason in ("runs", "limit"))
        told.add(reason)
        for name, value in columns.items():
            if reason in ("runs", "limit") or name in KNOWN_FIRST:
                assert found.columns[name][place] == pytest.approx(value, rel=2e-6), (name, row)
    return told


@pytest.mark.parametrize("workload", WORKLOADS)
def test_layouts_of_a_dense_model(workload: str, alone: KernelTimes) -> None:
    told = check(DENSE, DENSE_ROWS, WORKLOADS[workload], alone)
    assert {"runs", "kv_cache"} <= told
    assert ("limit" in told) == (workload == "limits")


@pytest.mark.parametrize("workload", ["serve", "decode", "prefill"])
def test_layouts_of_a_model_of_experts(workload: str, alone: KernelTimes) -> None:
    assert "runs" in check(EXPERTS, EXPERT_ROWS, WORKLOADS[workload], alone)


def test_launches_by_the_host_and_a_narrow_cache(alone: KernelTimes) -> None:
    check(DENSE, DENSE_ROWS[:6], WORKLOADS["serve"], alone, graphs=False)
    check(DENSE, DENSE_ROWS[:4], WORKLOADS["decode"], alone, Types(kv_dtype="fp8"))


def test_a_packaged_model(alone: KernelTimes) -> None:
    in_stages = {"tp": 4, "pp": 2, "micro_batches": 2, "batch": 128, "chunk": 512}
    told = check(load_model("llama3_8b"), [{"tp": 2, "batch": 64}, in_stages, {"batch": 900}], ASKED, alone)
    assert told == {"runs", "kv_cache"}


def test_layouts_that_sizes_rule_out_have_no_values() -> None:
    layouts = layouts_of_rows([{"tp": 3, "batch": 8}, {"tp": 2, "batch": 8}, {"tp": 2, "dp": 2, "batch": 8}])
    found = evaluate_layouts(layouts, ASKED, steps_of(DENSE, kernels=SHARED), GPUS)
    assert found.reason.tolist() == [CODES["tensor_parallel"], 0, CODES["no_experts"]]
    for name, values in found.columns.items():
        assert np.isnan(values[[0, 2]]).all() == (name != "gpus")
        assert np.isfinite(values[1])
