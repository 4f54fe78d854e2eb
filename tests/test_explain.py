"""Explanations: they add up, they name the bottleneck, they say why a schedule cannot run."""

import numpy as np
import pytest

from dse import explain, load_gpu, load_space
from dse.about_schedule import About
from dse.advice import what_binds, what_to_change
from dse.explain import costs_of, explain_schedule
from dse.infeasible import why_not
from dse.job import SweepJob
from dse.kernels.gemm import gemm_problem
from dse.roofline import roofline
from dse.schedule_text import FIELDS
from jaxmodel.reasons import Reason
from jaxmodel.types import BOUNDS

SHAPE = "8192x8192x8192"
GOOD = "tile=128x256x64 stages=4 warps=8 cluster=2x1 raster=along_m:8 launch=persistent"


def test_phases_add_up_and_pipelines_are_lower_bounds():
    at = explain(GOOD, shape=SHAPE)
    assert at.feasible
    assert sum(at.phases.values()) == pytest.approx(at.latency_s, rel=1e-5)
    assert max(at.pipelines.values()) <= at.latency_s * (1 + 1e-5)
    assert 0 < at.roof_share <= 1
    assert at.roof.roof == "tensor peak"
    assert "tensor cores" in at.binds


def test_roofline_counts_each_operand_once():
    gpu = load_gpu("h200_sxm").bind("bf16")
    cold = roofline(gemm_problem("4096x2048x1024", cache="cold", beta=True), gpu)
    assert cold.flop == 2 * 4096 * 2048 * 1024
    assert cold.compulsory_bytes == 2 * (4096 * 1024 + 2048 * 1024 + 2 * 4096 * 2048)
    warm = roofline(gemm_problem("4096x2048x1024", cache="warm", beta=True), gpu)
    assert warm.compulsory_bytes == 2 * 2 * 4096 * 2048
    assert cold.peak_flop_per_s == pytest.approx(load_gpu("h200_sxm").peak_flop_per_s("bf16"), rel=1e-6)


def test_the_sustained_share_of_the_peak_and_the_power_limit_are_said():
    at = explain(GOOD, shape=SHAPE)
    share = load_gpu("h200_sxm")["tensor_efficiency"]
    assert at.roof.sustained_tensor_s == pytest.approx(at.roof.tensor_s / share)
    assert f"at the {100 * share:.1f} % a long main loop sustains (tensor_efficiency)" in str(at)
    assert at.notes == ()
    weak = explain(GOOD, shape=SHAPE, overrides={"tdp_w": 200.0})
    assert weak.gpu_changes == ("tdp_w: 700 -> 200 (200)",)
    assert weak.throttled_s > 2 * at.throttled_s > 0.01 * at.latency_s
    assert weak.latency_s - weak.throttled_s == pytest.approx(at.latency_s - at.throttled_s, rel=1e-5)
    share = weak.throttled_s / weak.latency_s
    assert f"the 200 W limit lowers the clock: {share:.1%} of the latency" in str(weak)
    assert weak.advice[0].endswith("is the power limit: a narrower type or a higher limit helps, a schedule hardly")
    assert not any("beyond the MMAs" in text for text in weak.advice)
    assert weak.to_dict()["throttled_s"] == weak.throttled_s
    unlimited = explain(GOOD, shape=SHAPE, overrides={"tdp_w": 200.0, "power_time_s": 0.0})
    assert unlimited.throttled_s == 0
    assert "above the 200 W limit, which so short a kernel feels in part: many in a row are slower" in str(unlimited)
    held = explain(GOOD, shape=SHAPE, clock="sustained")
    assert held.throttled_s == 0
    assert "lowers the clock" not in str(held)


def test_a_skinny_problem_hangs_on_ddr():
    at = explain("tile=64x64x128 stages=8 split_k=1", shape="64x8192x8192", cache="cold")
    assert at.roof.roof == "DDR bandwidth"
    assert at.roof.intensity < at.roof.ridge


@pytest.mark.parametrize(
    ("words", "family", "text"),
    [
        (
            "tile=256x256x128 stages=4",
            "wgmma",
            "SMEM: needs 524352 B of shared memory, 232448 B available: fewer stages",
        ),
        ("tile=128x100x64 stages=4", "wgmma", "MMA_SHAPE: the tile 128x100x64 is not a whole number of 64x8x16 instr"),
        ("tile=64x128x64 stages=4 warps=8x1", "wgmma", "WARP_TILE: the tile 64x128x64 does not divide over 8x1 warps"),
        (
            "tile=256x256x32 stages=2 warps=4x1",
            "wgmma",
            "REGISTERS: needs 552 registers a thread, 255 allowed, and spilling is not modelled: a small",
        ),
        ("tile=128x128x64 stages=4 cluster=8x4", "wgmma", "CLUSTER: a cluster of 32 CTAs, this GPU places 1, 2, 4, 8"),
        (
            "tile=128x128x64 stages=4 launch=split_k:200",
            "wgmma",
            "SPLIT_K: split_k 200 of 128 K-steps: a smaller split_k",
        ),
        ("tile=128x128x64 stages=4 launch=persistent:free132", "wgmma", "SMS_FREE: sms_free 132 of 132 SMs leaves"),
        (
            "tile=128x128x64 stages=4 cluster=pair:2x1",
            "wgmma",
            "CTA_PAIR: a 2-CTA pair with tile_m 128 and cluster_m 2",
        ),
        ("tile=128x128x64 stages=4 launch=data_parallel:overlapped", "wgmma", "EPILOGUE: an overlapped epilogue needs"),
        (
            "tile=256x256x16 stages=2 warps=8x8",
            "mma_sync",
            "THREADS: needs 2048 threads, a CTA may have 1024: fewer wa",
        ),
    ],
)
def test_why_a_schedule_cannot_run(words, family, text):
    at = explain(words, shape=SHAPE, family=family)
    assert not at.feasible
    assert at.why_not.startswith(text), at.why_not
    assert at.to_dict()["latency_s"] is None


def test_tmem_is_counted_twice_for_an_overlapped_epilogue():
    words = "tile=128x512x32 stages=2 launch=persistent:overlapped"
    at = explain(words, shape=SHAPE, gpu="b200_sxm")
    assert at.why_not.startswith(
        "TMEM: accumulators of 512 columns, twice for the overlapped epilogue, an SM has 512: "
    )


def test_alignment_is_named_with_its_bytes():
    at = explain(GOOD, shape="4096x4096x4095")
    assert at.why_not.startswith("ALIGNMENT: rows of A start on 2 B, of B on 2 B, TMA needs 16 B: pad the leading dim")


def test_every_reason_that_the_spaces_meet_has_a_sentence():
    met = set()
    for gpu_name, family in (("h200_sxm", "wgmma"), ("h200_sxm", "mma_sync"), ("b200_sxm", "tcgen05")):
        space = load_space("gemm", family, "bf16")
        problem = gemm_problem("1000x3000x512")
        gpu = load_gpu(gpu_name).bind("bf16", family=family)
        drawn = np.random.default_rng(1).integers(0, space.size, 1000)
        schedules = [space.schedule(int(index)) for index in drawn]
        for schedule, cost in zip(schedules, costs_of(SweepJob(space, problem, gpu), schedules), strict=True):
            reason = Reason(cost["reason"])
            sentence = why_not(problem, schedule, cost, gpu)
            assert sentence == "fits" if reason is Reason.OK else sentence.startswith(f"{reason.name}: ")
            met.add(reason)
    assert {Reason.OK, Reason.SMEM, Reason.REGISTERS, Reason.SPLIT_K, Reason.WARP_TILE} <= met


def test_every_bottleneck_has_words():
    at = explain(GOOD, shape=SHAPE)
    for bound in BOUNDS:
        cost = {**at.cost, "bound_name": bound}
        assert what_binds(cost, at.roof)
        assert all(isinstance(text, str) for text in what_to_change(About("gemm", at.schedule, cost, at.roof)))


def test_clusters_are_advised_only_where_there_are_any():
    words = "tile=64x64x32 stages=4 warps=4"
    hopper, ampere = (
        explain(words, shape=SHAPE, gpu=gpu, family=family)
        for gpu, family in (("h200_sxm", "wgmma"), ("a100_sxm", None))
    )
    assert any("multicast" in text for text in hopper.advice)
    assert ampere.advice
    assert not any("multicast" in text for text in ampere.advice)


def test_padding_and_tail_are_seen():
    at = explain("tile=128x256x64 stages=4 warps=8", shape="4100x4100x4096")
    assert any("padding" in text for text in at.advice)
    even = explain("tile=128x256x64 stages=4 warps=8", shape="4096x4096x4096")
    assert not any("padding" in text for text in even.advice)


def test_a_renamed_raster_is_noted():
    at = explain("tile=128x128x64 stages=4 raster=along_n:8", shape="256x8192x4096")
    assert at.feasible
    assert at.notes == ("raster along_n:8 is as wide as the grid: the launch order is that of along_m:1",)


def test_measured_registers_change_the_occupancy():
    problem, gpu = gemm_problem(SHAPE), load_gpu("a100_sxm").bind("bf16")
    base = dict.fromkeys(FIELDS, 0) | {
        "tile_m": 64,
        "tile_n": 64,
        "tile_k": 32,
        "stages": 2,
        "warps_m": 2,
        "warps_n": 2,
    }
    base |= {"cluster_m": 1, "cluster_n": 1, "swizzle": 1, "split_k": 1, "epilogue": 1}
    estimated = explain_schedule(problem, base, gpu, "mma_sync")
    heavy = explain_schedule(problem, base | {"registers_measured": 255}, gpu, "mma_sync")
    assert heavy.cost["registers_per_thread"] == 255
    assert heavy.cost["ctas_per_sm"] < estimated.cost["ctas_per_sm"]
    assert heavy.cost["occupancy_limiter_name"] == "registers"
