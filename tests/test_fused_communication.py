"""GEMMs that communicate as users ask for them: choices, fabrics, spaces, commands, and how chunks and links matter."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from cli_run import answer, json_answer
from oracles.fused_draws import KERNELS
from oracles.quick_compile import QUICK

from dse.content import load_gpu
from dse.content.space import list_spaces, load_space, schedule_fields
from dse.errors import UserError
from dse.kernels.fused_communication import AllGatherGemm, GemmAllReduce, GemmReduceScatter
from dse.kernels.registry import get_kernel
from jaxmodel.kernels import ag_gemm, gemm, gemm_ar, gemm_rs
from jaxmodel.kernels.fused_gemm import gemm_schedule
from jaxmodel.kernels.fused_gemm_types import APART, COPY_ENGINES, ONE_SHOT, RASTER, SMS, SWITCH, FusedGemmSchedule
from jaxmodel.kernels.gemm_rs import sum_seconds
from jaxmodel.network.collective import Way, way_seconds
from jaxmodel.network.level import Level, Protocol
from jaxmodel.network.steps import direct_pass, switch_all_reduce, two_shot_all_reduce
from jaxmodel.reasons import Reason

COSTS = {"ag_gemm": ag_gemm.cost, "gemm_rs": gemm_rs.cost, "gemm_ar": gemm_ar.cost}
PROBLEMS = {"ag_gemm": AllGatherGemm, "gemm_rs": GemmReduceScatter, "gemm_ar": GemmAllReduce}
TILE = {
    "tile_m": 128, "tile_n": 256, "tile_k": 64, "stages": 4, "warps_m": 8, "warps_n": 1, "cluster_m": 2, "cluster_n": 1,
    "cta_pair": 0, "swizzle": 1, "persistent": 1, "epilogue": 1, "chunks": 1, "comm_sms": 0, "transport": COPY_ENGINES,
    "order": 0, "queue": 1,
}  # fmt: skip
COMPILED = {name: jax.jit(cost, compiler_options=QUICK) for name, cost in COSTS.items()}
PLAIN = jax.jit(gemm.cost, compiler_options=QUICK)


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def _gpu(name: str = "h100_sxm"):
    return jax.tree.map(
        lambda leaf: np.asarray(leaf, np.float64),
        dataclasses.replace(load_gpu(name).bind("bf16"), power_time_s=np.float64(0.0)),
    )


def _problem(kernel: str, shape: str = "8192x8192x8192", ranks: int = 8, scale: tuple[float, float] = (1.0, 1.0)):
    record = PROBLEMS[kernel].from_shape(shape, ranks=ranks).on(load_gpu("h100_sxm")).arrays(np.float64)
    return dataclasses.replace(record, link=record.link.scaled(*scale))


def _cost(kernel: str, problem=None, **fields):
    columns = np.broadcast_arrays(*(np.asarray(value, np.float64) for value in (TILE | fields).values()))
    schedule = FusedGemmSchedule(**dict(zip(TILE | fields, columns, strict=True)))
    return COMPILED[kernel](_problem(kernel) if problem is None else problem, schedule, _gpu())


def _seconds(kernel: str, problem=None, **fields) -> float:
    cost = _cost(kernel, problem, **fields)
    assert float(cost.reason) == 0.0
    return float(cost.latency_s)


def _level(**protocols: Protocol) -> Level:
    none = Protocol(start_s=0.0, hop_s=0.0, peer_s=0.0, bytes_per_s=0.0)
    return Level(
        **dict.fromkeys(("ll", "ll128", "simple", "exchange_ll", "exchange", "direct", "multicast", "multimem"), none)
        | protocols,
        exchange_ll_max_bytes=0.0, multicast_ranks_min=2.0, copy_bytes_per_s=np.inf,
    )  # fmt: skip


APARTS = [  # kernel, transport, bytes of the collective (of m n k), its steps, prices of the fabric
    ("ag_gemm", SMS, lambda m, n, k: 2 * m * k, direct_pass),
    ("gemm_rs", SMS, lambda m, n, k: 2 * m * n, direct_pass),
    ("gemm_ar", SMS, lambda m, n, k: 2 * m * n, two_shot_all_reduce),
    ("gemm_ar", SWITCH, lambda m, n, k: 2 * m * n, switch_all_reduce),
]


@pytest.mark.parametrize(("kernel", "transport", "bytes_of", "steps"), APARTS)
def test_apart_takes_what_the_collective_and_the_gemm_take(kernel, transport, bytes_of, steps) -> None:
    problem, gpu = _problem(kernel), _gpu()
    link = problem.link
    switched = transport == SWITCH
    price = Protocol(
        start_s=link.switch_start_s if switched else link.start_s,
        hop_s=0.0 * link.hop_s if switched else link.hop_s,
        peer_s=link.flag_s,
        bytes_per_s=link.switch_bytes_per_s if switched else link.remote_bytes_per_s,
    )
    name = "multimem" if switched else "direct"
    way = Way("as published", name, (), steps)
    m, n, k = 8192.0, 8192.0, 8192.0
    collective_s = float(way_seconds(way, bytes_of(m, n, k), 8.0, _level(**{name: price})))
    if switched:
        collective_s += 6 * float(link.flag_s)  # a flag each for the peers beyond the first, which its steps count none
    elif kernel != "ag_gemm":  # partial results are added up from memory, which the collective's rate has in it
        share = m / 8 * n * 2
        moved = {"gemm_rs": (9 * share, share), "gemm_ar": (9 * share, share)}[kernel]
        collective_s += float(sum_seconds(*moved, 0.0, gpu))
    schedule = FusedGemmSchedule(**{name: np.float64(value) for name, value in (TILE | {"order": APART}).items()})
    own = dataclasses.replace(gemm_schedule(schedule), **{name: np.float64(v) for name, v in FREE.items()})
    gemm_s = float(PLAIN(problem.gemm, own, gpu).latency_s)
    assert _seconds(kernel, problem, order=APART, transport=transport) == pytest.approx(collective_s + gemm_s, rel=1e-9)


FREE = {
    "swap_ab": 0, "raster_along_n": 1, "split_k": 1, "stream_k": 0, "registers_measured": 0, "smem_measured_bytes": 0,
}  # fmt: skip
WAYS = [
    ("ag_gemm", {"transport": COPY_ENGINES, "chunks": 4}),
    ("ag_gemm", {"transport": SMS, "comm_sms": 16, "chunks": 4}),
    ("ag_gemm", {"transport": SWITCH, "comm_sms": 8, "chunks": 2}),
    ("gemm_rs", {"transport": COPY_ENGINES, "comm_sms": 8, "chunks": 4}),
    ("gemm_rs", {"transport": SMS, "comm_sms": 8, "chunks": 4}),
    ("gemm_rs", {"transport": SWITCH, "comm_sms": 8, "chunks": 4}),
    ("gemm_ar", {"transport": SMS, "comm_sms": 16, "chunks": 4}),
    ("gemm_ar", {"transport": SWITCH, "comm_sms": 16, "chunks": 4}),
    ("gemm_ar", {"transport": ONE_SHOT, "comm_sms": 16, "chunks": 2}),
]


@pytest.mark.parametrize(("kernel", "way"), WAYS)
def test_links_ten_times_faster_or_slower_leave_one_side_alone(kernel: str, way: dict) -> None:
    """Fast: tiles on the SMs that are left, with the transfers' traffic beside theirs, and adding up; links ten times
    as fast again change nothing. Slow: all bytes over the links and what lies before and after them: ten times slower
    adds ten times their time and nothing else."""
    fast, faster = (_cost(kernel, _problem(kernel, scale=(by, 1 / by)), **way) for by in (1e8, 1e9))
    schedule = FusedGemmSchedule(**{name: np.float64(value) for name, value in (TILE | way).items()})
    left = dataclasses.replace(gemm_schedule(schedule), **{name: np.float64(v) for name, v in FREE.items()})
    assert float(fast.latency_s) >= float(PLAIN(_problem(kernel).gemm, left, _gpu()).latency_s) * (1 - 1e-12)
    assert float(fast.latency_s) == pytest.approx(float(faster.latency_s), rel=1e-6)
    if kernel == "ag_gemm" or way["transport"] == SWITCH:  # else adding up may last longer than the tiles
        assert float(fast.communication_s) < 1e-7 * float(fast.latency_s)
    slow = [_cost(kernel, _problem(kernel, scale=(1 / factor, factor)), **way) for factor in (100.0, 1000.0, 10000.0)]
    seconds = [float(cost.latency_s) for cost in slow]
    assert seconds[2] - seconds[1] == pytest.approx(10 * (seconds[1] - seconds[0]), rel=1e-9)
    moved_s = float(slow[2].pipeline_s[-1])
    assert moved_s < seconds[2] < 1.1 * moved_s + 10000 * 1e-3


@pytest.mark.parametrize(
    ("kernel", "way"),
    [("ag_gemm", {"transport": COPY_ENGINES}), ("gemm_rs", {"transport": COPY_ENGINES, "comm_sms": 8})],
)
def test_the_best_number_of_chunks_falls_with_what_a_chunk_costs_and_rises_with_what_it_hides(kernel, way) -> None:
    shape = {"ag_gemm": "32768x16384x2048", "gemm_rs": "16384x8192x4096"}[kernel]
    counts = np.array([1.0, 2.0, 4.0, 8.0])

    def best(rates: float, latencies: float) -> float:
        cost = _cost(kernel, _problem(kernel, shape, scale=(rates, latencies)), chunks=counts, **way)
        assert np.all(np.asarray(cost.reason) == 0)
        return counts[int(np.argmin(np.asarray(cost.latency_s)))]

    dearer = [best(1.0, latencies) for latencies in (0.01, 1.0, 3.0, 30.0)]
    assert dearer == sorted(dearer, reverse=True)
    assert dearer[0] > dearer[-1]
    faster = [best(rates, 3.0) for rates in (0.25, 0.5, 1.0, 8.0)]
    assert faster == sorted(faster, reverse=True)


@pytest.mark.parametrize(("kernel", "transport"), [("ag_gemm", COPY_ENGINES), ("gemm_rs", SMS)])
def test_tiles_by_row_are_never_faster_than_by_arrival(kernel: str, transport: int) -> None:
    problem = _problem(kernel, {"ag_gemm": "8192x28672x8192", "gemm_rs": "8192x4096x8192"}[kernel])
    by_row, by_arrival = (_seconds(kernel, problem, transport=transport, order=order) for order in (RASTER, 0))
    assert by_row > 1.1 * by_arrival


def test_a_deeper_queue_takes_shared_memory_and_hides_a_round_trip() -> None:
    problem = _problem("gemm_rs", "8192x2048x2048", scale=(20.0, 40.0))
    fields = {"transport": SMS, "tile_n": 128, "stages": 3}
    one, two = (_cost("gemm_rs", problem, queue=queue, **fields) for queue in (1, 2))
    assert float(two.smem_bytes) == float(one.smem_bytes) + 128 * 128 * 2
    assert float(two.latency_s) <= float(one.latency_s)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_fabric_without_a_switch_is_why_nothing_runs_in_it_whatever_the_chunks(kernel: str) -> None:
    problem = _problem(kernel)
    plain = dataclasses.replace(problem, link=dataclasses.replace(problem.link, switch_bytes_per_s=np.float64(0.0)))
    for chunks, reason in ((1, Reason.OK), (64, Reason.CHUNKS)):
        assert int(_cost(kernel, transport=SWITCH, comm_sms=8, chunks=chunks).reason) == reason
        assert int(_cost(kernel, plain, transport=SWITCH, comm_sms=8, chunks=chunks).reason) == Reason.TRANSPORT


@pytest.mark.parametrize("kernel", KERNELS)
def test_fields_of_the_spaces_are_those_of_the_schedule(kernel: str) -> None:
    assert tuple(schedule_fields(kernel)) == get_kernel(kernel).schedule_fields
    families = [entry.family for entry in list_spaces() if entry.kernel == kernel]
    assert sorted(families) == ["mma_sync", "tcgen05", "wgmma"]
    for family in families:
        space = load_space(kernel, family)
        assert space.size >= 100_000
        assert all(load_space(kernel, family, preset=preset).size >= 500 for preset in space.presets)


def test_a_rank_computes_its_part() -> None:
    gathered, scattered = AllGatherGemm.from_shape("512x1024x256", ranks=4), GemmAllReduce.from_shape("512x1024x256")
    assert gathered.product.shape == "512x256x256"
    assert scattered.product.shape == "512x1024x32"
    assert gathered.flop == 2 * 512 * 256 * 256
    assert "4 ranks" in gathered.title
    placed = gathered.on(load_gpu("h100_sxm"))
    assert dict(placed.fabric_numbers)["remote_bytes_per_s"] == pytest.approx(332.6e9)
    assert dict(gathered.on(load_gpu("b200_sxm")).fabric_numbers)["remote_bytes_per_s"] == pytest.approx(625.5e9)
    changed = gathered.on(load_gpu("h100_sxm"), {"fabric.link": "2x", "fabric.latency": "0.5x"})
    before, after = dict(placed.fabric_numbers), dict(changed.fabric_numbers)
    assert after["copy_bytes_per_s"] == 2 * before["copy_bytes_per_s"]
    assert after["sm_bytes_per_s"] == before["sm_bytes_per_s"]  # of an SM, whatever the links
    assert after["hop_s"] == 0.5 * before["hop_s"]


@pytest.mark.parametrize(
    ("shape", "choices", "gpu", "message"),
    [
        ("64x100x64", {}, "h100_sxm", "n = 100 in shape '64x100x64' is not shared evenly by 8 ranks: pad it to a mult"),
        ("64x64x64", {"ranks": 16}, "h100_sxm", "--ranks 16: nvlink4_x8 joins at most 8 GPUs; fewer ranks, or another"),
        ("64x64x64", {"ranks": 1}, "h100_sxm", "--ranks = 1 is not allowed: a whole number from 2 to 65536"),
        (
            "64x64x64",
            {"fabric": "nvlink4_x8+infiniband_ndr"},
            "h100_sxm",
            "ag_gemm runs on one level of a fabric; name",
        ),
        ("64x64x64", {"fabric": "nvlink9"}, "h100_sxm", "unknown fabric 'nvlink9'"),
    ],
)
def test_what_makes_no_sense_is_refused(shape: str, choices: dict, gpu: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        AllGatherGemm.from_shape(shape, **choices).on(load_gpu(gpu))
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("link", "0x", "--set fabric.link = '0x'; allowed: a number at least 1, at most 1e+18 (bytes a second)"),
        ("latency", "1e-6", "--set fabric.latency = '1e-6': latency stands for numbers that differ; write a change"),
        ("1:link", "2x", "--set fabric.1:link: '1' is not a level; nvlink4_x8 has levels 0 to 0"),
    ],
)
def test_a_wrong_change_of_the_fabric_is_named_as_it_was_written(name: str, change: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        AllGatherGemm.from_shape("64x64x64").on(load_gpu("h100_sxm"), {f"fabric.{name}": change})
    assert message in str(refused.value)


def test_a_fabric_that_goes_by_the_gpu_is_unknown_without_one() -> None:
    with pytest.raises(UserError, match=r"the fabric goes by the GPU: take problem\.on"):
        AllGatherGemm.from_shape("64x64x64").arrays()
    assert AllGatherGemm.from_shape("64x64x64", fabric="pcie5_x8").arrays().link.ranks == 8


def test_they_are_swept_explained_and_ranked(capsys, tmp_path) -> None:
    asked = ("--shape", "4096x8192x4096", "--gpu", "h100_sxm", "--ranks", "4", "--fabric", "nvlink4_x8")
    words = ("--preset", "flux", "--axis", "tile_n=128,256", "--axis", "stages=3,4", "--out", str(tmp_path / "run"))
    found = json_answer(capsys, "sweep", "ag_gemm", *asked, *words, "--quiet")
    assert found["kernel"] == "ag_gemm"
    assert found["feasible"] > 100
    code, said, errors = answer(capsys, "explain", str(tmp_path / "run"), "0")
    assert code == 0, errors
    assert "communication" in said
    assert "network" in said
    listed = tmp_path / "mine.json"
    listed.write_text(json.dumps([TILE | {"chunks": 2}, TILE | {"order": "apart"}]))
    code, said, errors = answer(capsys, "rank", "--kernel", "ag_gemm", *asked, str(listed))
    assert code == 0, errors
    assert "apart" in said


def test_faster_links_are_a_what_if_and_an_axis_of_studies(capsys, tmp_path) -> None:
    asked = ("--shape", "4096x8192x4096", "--gpu", "h100_sxm")
    schedule = "tile_m=128 tile_n=256 tile_k=64 stages=4 warps_m=8 warps_n=1 cluster_m=2 cluster_n=1 swizzle=1 "
    schedule += "persistent=1 epilogue=staged transport=switch comm_sms=8 chunks=2"
    words = ("explain", "--kernel", "gemm_ar", *asked, "--schedule", schedule, "--json")
    now = json_answer(capsys, *words[:-1])
    faster = json_answer(capsys, *words[:-1], "--set", "fabric.link=2x")
    assert faster["latency_s"] < now["latency_s"]
    assert faster["phases_s"]["communication"] < now["phases_s"]["communication"]
    vary = ("--vary", "fabric.link=0.5x,2x", "--preset", "in_switch", "--axis", "tile_n=256", "--axis", "stages=4")
    found = json_answer(
        capsys, "whatif", "gemm_ar", *asked, *vary, "--axis", "chunks=2", "--no-figure", "--quiet",
        "--out", str(tmp_path / "study"),
    )  # fmt: skip
    today_s, slower_s, faster_s = (row["latency_s"] for row in found["totals"])
    assert faster_s < today_s < slower_s


def test_a_batch_of_another_fabric_is_refused(capsys, tmp_path) -> None:
    words = ("batch", "ag_gemm", "--shape", "2048x8192x2048", "--gpu", "h100_sxm", "--preset", "triton_distributed")
    words += ("--axis", "stages=3", "--axis", "tile_n=256", "--out", str(tmp_path / "batch"), "--quiet")
    code, _, errors = answer(capsys, *words)
    assert code == 0, errors
    code, _, errors = answer(capsys, *words, "--set", "fabric.link=2x")
    assert code == 2
    assert "the fabrics' numbers changed" in errors


def test_a_fabric_is_refused_where_there_is_none(capsys) -> None:
    code, _, errors = answer(capsys, "sweep", "gemm", "--shape", "64x64x64", "--set", "fabric.link=2x")
    assert code == 2
    assert "--set fabric.link: gemm runs on one GPU and has no fabric; kernels with --ranks do" in errors
    code, _, errors = answer(
        capsys, "whatif", "gemm_ar", "--shape", "64x64x64", "--gpu", "h100_sxm", "--vary", "fabric.link=1e9,2e9"
    )
    assert code == 2
    assert "numbers of a fabric are varied by factors: write fabric.link=0.5x,2x" in errors
