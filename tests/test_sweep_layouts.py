"""Sweeps of layouts: the best and the front are those of brute force, in whatever blocks; all layouts are counted."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from serving_cases import DENSE, ENGINE, EXPERTS, FABRIC, GPU, small_spaces  # noqa: F401

from dse.content.fabric import load_fabric
from dse.content.space import load_space
from dse.errors import UserError
from dse.serving import serve
from dse.serving.enumerate_layouts import enumerate_layouts
from dse.serving.kernel_times import KernelTimes
from dse.serving.layouts import FIELDS, layouts_of
from dse.serving.outcomes import COLUMNS, evaluate_layouts
from dse.serving.serve import OBJECTIVES, LayoutResult, Service, one_layout, sweep_layouts
from dse.serving.workload import Workload
from dse.space import Space

pytestmark = pytest.mark.usefixtures("small_spaces")
ASKED = Workload(input_tokens=1024, output_tokens=128)
KEPT = {
    "tp": [1, 4],
    "hidden_split": 1,
    "kv_split": 1,
    "cp": 1,
    "dp": [1, 4],
    "experts_tp": [1, 4],
    "pp": [1, 2],
    "placement": [0, 4],
    "exchange": [0, 1],
    "sequence_parallel": [0, 1],
    "overlap": [0, 1],
    "micro_batches": [1, 2],
    "batch": [8, 64, 4096],
    "chunk": [0, 512],
}
KERNELS = KernelTimes(GPU, ENGINE)  # tuned once for all of this file
COLUMNS_OF_TABLES = ["index", *FIELDS, *COLUMNS]


def service_of(model=EXPERTS, workload=ASKED, gpus=16, **changes) -> Service:
    return Service(model, GPU, gpus, FABRIC, ENGINE, workload, **changes)


def small_layouts(**kept) -> Space:
    return load_space("sharding", "serving", axes=KEPT | kept)


def brute_force(service: Service, space: Space) -> pd.DataFrame:
    """Every layout of the space that runs."""
    index = np.arange(space.size)
    layouts = layouts_of(space.rows(index), index, service.node)
    found = evaluate_layouts(layouts, service.workload, service.steps(KERNELS), service.gpus)
    table = pd.DataFrame({"index": index, **{name: layouts[name] for name in FIELDS}, **found.columns})
    return table[found.runs]


def front_of(table: pd.DataFrame, objectives: tuple[str, ...]) -> pd.DataFrame:
    """What nothing beats: compared with every other layout, one by one, as float32."""
    values = np.stack([(-1 if name.startswith("tokens") else 1) * table[name] for name in objectives], axis=1)
    values = values.astype(np.float32)
    beaten = [
        bool(((values <= own).all(axis=1) & (values < own).any(axis=1)).any()) for own in values
    ]  # by one that is nowhere worse and somewhere better
    return table[~np.array(beaten)]


def check(found: LayoutResult, table: pd.DataFrame, objectives: tuple[str, ...], top: int) -> None:
    expected = front_of(table, objectives)
    assert found.front_layouts == len(expected)
    assert list(found.front.columns) == COLUMNS_OF_TABLES
    kept = expected[expected["index"].isin(found.front["index"])]
    pd.testing.assert_frame_equal(by_index(found.front), by_index(kept), check_dtype=False)
    vectors = expected[list(objectives)].astype(np.float32)
    ties = expected.groupby([vectors[name] for name in objectives])["index"]
    lowest = sorted(index for own in ties for index in sorted(own[1])[: serve.TIES])
    assert sorted(found.front["index"]) == lowest
    best = table.sort_values(["tokens_per_s_per_gpu", "index"], ascending=[False, True]).head(top)
    pd.testing.assert_frame_equal(found.best, best.reset_index(drop=True)[COLUMNS_OF_TABLES], check_dtype=False)


def by_index(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values("index", ignore_index=True)[COLUMNS_OF_TABLES]


@pytest.mark.parametrize("phase", ["serve", "decode", "prefill"])
@pytest.mark.parametrize("model", [DENSE, EXPERTS], ids=["dense", "experts"])
def test_best_and_front_are_those_of_brute_force(model, phase: str) -> None:
    service, space = service_of(model, replace(ASKED, phase=phase)), small_layouts()
    table = brute_force(service, space)
    assert len(table) > 20
    found = sweep_layouts(service, space, kernels=KERNELS)
    assert found.objectives == OBJECTIVES[phase]
    check(found, table, OBJECTIVES[phase], 10)
    assert (found.layouts, sum(found.reasons.values())) == (space.size, space.size)
    assert found.reasons["runs"] == len(table)
    first, last = (found.front[found.objectives[-1]].iloc[at] for at in (0, -1))
    assert first <= last if phase == "prefill" else first >= last  # the fastest for a user first


def test_other_objectives_and_numbers_of_the_best() -> None:
    service, space = service_of(), small_layouts()
    table = brute_force(service, space)
    for objectives, top in ((("ttft_s", "tpot_s", "tokens_per_s"), 3), (("weights_bytes", "tpot_s"), 500)):
        check(sweep_layouts(service, space, objectives=objectives, top=top, kernels=KERNELS), table, objectives, top)


@pytest.mark.parametrize("block", [7, 100, 4096])
def test_blocks_of_another_size_find_the_same(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    service, space = service_of(), small_layouts()
    whole = sweep_layouts(service, space, kernels=KERNELS)
    monkeypatch.setattr(serve, "BLOCK", block)
    parts = sweep_layouts(service, space, kernels=KERNELS)
    pd.testing.assert_frame_equal(whole.best, parts.best)
    pd.testing.assert_frame_equal(whole.front, parts.front)
    assert (whole.reasons, whole.front_layouts, whole.layouts) == (parts.reasons, parts.front_layouts, parts.layouts)


def test_kernels_that_were_tuned_before_are_not_tuned_again() -> None:
    service, space = service_of(DENSE), small_layouts(tp=[1, 4], batch=[8, 64], chunk=0, sequence_parallel=0)
    fresh = sweep_layouts(service, space)
    kernels = KernelTimes(GPU, ENGINE)
    first = sweep_layouts(service, space, kernels=kernels)
    assert fresh.kernel_problems == first.kernel_problems == kernels.problems > 10
    assert fresh.schedules == kernels.evaluations
    again = sweep_layouts(service, space, kernels=kernels)
    assert again.kernel_problems == first.kernel_problems
    pd.testing.assert_frame_equal(fresh.front, again.front)
    every = sweep_layouts(service, space, kernels=KernelTimes(GPU, ENGINE, once=False))
    pd.testing.assert_frame_equal(fresh.front, every.front)
    pd.testing.assert_frame_equal(fresh.best, every.best)
    assert every.kernel_problems > 2 * fresh.kernel_problems


def test_nothing_runs_where_nothing_fits() -> None:
    found = sweep_layouts(service_of(), small_layouts(batch=[4096], tp=1, pp=1, dp=1, chunk=512), kernels=KERNELS)
    assert "runs" not in found.reasons
    assert (len(found.best), len(found.front), found.front_layouts) == (0, 0, 0)
    assert list(found.best.columns) == COLUMNS_OF_TABLES


def test_an_unknown_objective_has_a_suggestion() -> None:
    with pytest.raises(UserError, match=r"unknown objective 'tpot'; known: .*tpot_s.*did you mean"):
        sweep_layouts(service_of(), small_layouts(), objectives=["tpot"], kernels=KERNELS)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"gpus": 0},
            r"gpus = 0 is not allowed: 1 to \d+ on nvlink4_x8\+infiniband_ndr; nodes on a network are written",
        ),
        ({"gpus": 10**6}, r"gpus = 1000000 is not allowed"),
        ({"gpus_per_node": 9}, "gpus_per_node = 9 is not allowed: 1 to the 8 that nvlink4_x8 joins, or 0 for so many"),
        ({"gpus_per_node": -1}, "gpus_per_node = -1 is not allowed"),
    ],
)
def test_machines_that_there_are_not_are_said(changes: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        service_of(**changes)


def test_a_node_holds_no_more_gpus_than_there_are() -> None:
    assert service_of(gpus=64).node == 8
    assert service_of(gpus=64, gpus_per_node=4).node == 4
    assert service_of(gpus=6).node == 6
    space = load_space("sharding", "serving", axes={"pp": [1, 3], "tp": 2, "dp": 1, "batch": 1, "chunk": 0})
    found = enumerate_layouts(space, DENSE, 6, service_of(gpus=6).node)
    assert set(found.layouts["pp"]) == {1, 3}  # six GPUs of a node, though eight would hold groups unevenly


def test_one_layout_by_its_degrees() -> None:
    layout = one_layout(service_of(), tp=4, batch=32, placement="pp.tp.cp.dp", exchange="all_to_all")
    told = {name: int(values[0]) for name, values in layout.columns.items() if values[0] > 1 or name == "exchange"}
    assert told == {"tp": 4, "batch": 32, "placement": 4, "exchange": 1}
    assert (len(layout), layout.gpus_per_node, int(layout["chunk"][0])) == (1, 8, 0)
    alone = Service(DENSE, GPU, 4, load_fabric("nvlink4_x8"), ENGINE)
    assert one_layout(alone).gpus_per_node == 4


@pytest.mark.parametrize(
    ("degrees", "said"),
    [
        ({"tq": 4}, "unknown degree of a layout 'tq'; known: batch, .*did you mean 'tp'"),
        ({"tp": 0}, "tp = 0 is not allowed: a whole number from 1"),
        ({"tp": True}, "tp = True is not allowed"),
        ({"batch": 1.5}, "batch = 1.5 is not allowed"),
        ({"chunk": -1}, "chunk = -1 is not allowed: a whole number from 0"),
        ({"placement": 6}, "placement = 6 is not allowed: one of tp.cp.dp.pp, "),
        ({"overlap": "twobatches"}, "unknown overlap 'twobatches'; .*did you mean 'two_batches'"),
        ({"tp": "2,4"}, "tp = '2,4' is not allowed: one value, a layout has one"),
    ],
)
def test_a_wrong_degree_is_said(degrees: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        one_layout(service_of(), **degrees)
