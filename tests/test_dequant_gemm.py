"""The dequantised GEMM as users ask for it: shapes, choices, spaces, commands and published measurements."""

import dataclasses
import json

import numpy as np
import pytest
from cli_run import answer, json_answer

from dse.content.space import list_spaces, load_space, schedule_fields
from dse.errors import UserError
from dse.kernels.dequant_gemm import WEIGHTS, DequantGemmProblem
from dse.kernels.registry import get_kernel

FAMILIES = ("mma_sync", "tcgen05", "wgmma")
QUESTION = ("--shape", "16x4096x4096", "--dtype", "fp16", "--gpu", "a100_sxm", "--family", "mma_sync")
SCHEDULE = (
    "tile_m=16 tile_n=256 tile_k=64 stages=4 warps_m=1 warps_n=8 cluster_m=1 cluster_n=1 raster_along_n=0 swizzle=1 "
    "persistent=1 sms_free=0 split_k=1 stream_k=1 epilogue=staged converted_in=registers"
)


def asked(**choices: object) -> DequantGemmProblem:
    return DequantGemmProblem.from_shape("16x4096x8192", **choices)


def test_weights_bring_bytes_scales_and_slots() -> None:
    for name, bytes_a_weight, slots in (
        ("int4", 0.5 + 2 / 128, 1.875),
        ("int8", 1 + 2 / 8192, 2.5),
        ("mxfp4", 0.5 + 1 / 32, 2.375),
        ("wide", 2, 0),
    ):
        problem = asked(weights=name)
        record = problem.arrays(np.float64)
        assert record.gemm.b_bytes + record.gemm.scaling.b_scale_bytes == pytest.approx(bytes_a_weight), name
        assert record.dequant_slots == pytest.approx(slots), name
    with_zeros = asked(weights="int4", group=64, zeros=True, dtype="fp16")
    assert with_zeros.overhead_bytes == pytest.approx(2.5 / 64)
    assert with_zeros.slots == pytest.approx(1.875)
    assert asked(dequant_slots=4).slots == 4.0


def test_compulsory_bytes_are_those_of_narrow_weights() -> None:
    from dse.content.gpu import load_gpu

    gpu = load_gpu("a100_sxm").bind(dtype="fp16", family="mma_sync")
    cold = asked(cache="cold", dtype="fp16").compulsory_bytes(gpu)
    assert cold == pytest.approx(16 * 8192 * 2 + 8192 * 4096 * (0.5 + 2 / 128) + 16 * 4096 * 2)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"dtype": "fp8"}, "dtype fp8: activations of a dequantised GEMM are bf16 or fp16"),
        ({"weights": "mxfp4", "group": 64}, "group = 64: mxfp4 has blocks of 32; leave it"),
        ({"weights": "wide", "group": 64}, "group = 64: wide weights have no scales; leave it"),
        ({"weights": "fp8", "zeros": True}, "zeros with fp8 weights: zero points are of int4, int8"),
        ({"weights": "int3"}, "unknown weight type 'int3'"),
        ({"dequant_slots": -1}, "--dequant-slots = -1 is not allowed: a number from 0 to 1000"),
    ],
)
def test_choices_that_make_no_sense_are_refused(choices: dict, message: str) -> None:
    with pytest.raises(UserError) as refused:
        asked(**choices)
    assert message in str(refused.value)


def test_a_shape_has_three_numbers() -> None:
    with pytest.raises(UserError, match="shape '16x4096' has 2 number"):
        DequantGemmProblem.from_shape("16x4096")


def test_fields_of_the_spaces_are_those_of_the_schedule() -> None:
    assert tuple(schedule_fields("dequant_gemm")) == get_kernel("dequant_gemm").schedule_fields


def test_spaces_are_large_and_their_presets_hold_schedules() -> None:
    entries = {entry.family: entry for entry in list_spaces() if entry.kernel == "dequant_gemm"}
    assert tuple(sorted(entries)) == FAMILIES
    for family, entry in entries.items():
        assert load_space("dequant_gemm", family).size >= 100_000
        for preset in entry.presets:
            assert load_space("dequant_gemm", family, preset=preset).size > 50, preset


def test_every_type_of_weights_states_its_slots() -> None:
    for name, stored in WEIGHTS.items():
        assert set(stored.slots) == {"bf16", "fp16"}, name
        assert bool(stored.zero_bytes) == bool(stored.zero_slots), name


def test_a_sweep_finds_schedules_that_convert_in_registers(capsys, tmp_path) -> None:
    found = json_answer(
        capsys, "sweep", "dequant_gemm", *QUESTION, "--preset", "marlin", "--out", str(tmp_path / "run"), "--quiet"
    )
    assert found["kernel"] == "dequant_gemm"
    assert found["space"] == "dequant_gemm/mma_sync"
    assert found["feasible"] == 96
    assert found["top"][0]["latency_s"] < 20e-6
    assert found["top"][0]["converted_in"] in (0, "registers")


def test_explain_and_rank_take_schedules_by_their_fields(capsys, tmp_path) -> None:
    code, said, errors = answer(capsys, "explain", "--kernel", "dequant_gemm", *QUESTION, "--schedule", SCHEDULE)
    assert code == 0, errors
    assert "dequantised GEMM 16x4096x4096" in said
    fields = dict(word.split("=") for word in SCHEDULE.split())
    mine = [
        {name: value if name in ("epilogue", "converted_in") else int(value) for name, value in fields.items()}
        | {"converted_in": place}
        for place in ("registers", "smem")
    ]
    listed = tmp_path / "mine.json"
    listed.write_text(json.dumps(mine))
    code, said, errors = answer(capsys, "rank", "--kernel", "dequant_gemm", *QUESTION, str(listed))
    assert code == 0, errors
    assert "converted_in" in said


def test_a_place_where_weights_cannot_be_converted_is_named(capsys) -> None:
    wrong = SCHEDULE.replace("converted_in=registers", "converted_in=tmem")
    code, said, errors = answer(capsys, "explain", "--kernel", "dequant_gemm", *QUESTION, "--schedule", wrong)
    assert "CONVERSION" in said + errors
    assert "TMEM (swapped tcgen05)" in said + errors
    assert code == 1


def test_published_measurements_stand_beside_predictions(capsys) -> None:
    rows = json_answer(capsys, "validate", "dequant_gemm")
    assert len(rows) == 16
    few = [row for row in rows if row["m"] <= 16 and row["measured_s"]]
    assert max(abs(row["error"]) for row in few) < 0.15
    ideal = [row for row in rows if row["measured_s"] is None]
    assert max(abs(row["speedup_error"]) for row in ideal) < 0.05
    assert all(row["source"] for row in rows)
    code, said, _ = answer(capsys, "validate", "dequant_gemm")
    assert code == 0
    assert "Marlin, the matrix made for an A10" in said


def test_problems_are_plain_values() -> None:
    problem = asked(group=64)
    assert problem == DequantGemmProblem(**dataclasses.asdict(problem))
    assert problem.title == "dequantised GEMM 16x4096x8192 bf16, group 64"
