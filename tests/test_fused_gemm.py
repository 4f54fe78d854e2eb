"""Fused epilogues and chains as users ask for them: shapes, choices, spaces and commands."""

import json

import numpy as np
import pytest
from cli_run import answer, json_answer

from dse.content.space import list_spaces, load_space, schedule_fields
from dse.errors import UserError
from dse.kernels.gemm_chain import GemmChainProblem
from dse.kernels.gemm_epilogue import GemmEpilogueProblem
from dse.kernels.registry import get_kernel

CHAIN = ("--shape", "8192x64x128x64", "--dtype", "fp16", "--gpu", "a100_sxm", "--family", "mma_sync")
FUSED = "order=recomputed tile_m=64 tile_n=64 tile_l=64 tile_k=32 stages=3 warps=4 intermediate_in=registers"
EPILOGUE = ("--shape", "1024x1024x512", "--gpu", "h100_sxm", "--bias", "--activation", "gelu")


def test_an_epilogue_adds_bytes_slots_and_operations() -> None:
    plain = GemmEpilogueProblem.from_shape("64x256x128")
    rich = GemmEpilogueProblem.from_shape(
        "64x256x128", bias=True, activation="silu", add_residual=True, quantise_out="block"
    )
    record = rich.arrays(np.float64)
    assert (record.slots, record.sfu_op, record.read_bytes, record.column_bytes) == (3 + 1 + 1 + 5, 2, 2, 2)
    assert (record.gemm.out_bytes, record.scale_bytes, record.scale_block) == (1, 4 / 128, 128)
    assert plain.arrays(np.float64).slots == 0
    assert plain.arrays(np.float64).gemm.out_bytes == 2
    gpu = type("Gpu", (), {"l2_capacity_bytes": 0.0, "l2_effective_ratio": 1.0})
    more = rich.compulsory_bytes(gpu) - plain.compulsory_bytes(gpu)
    assert more == pytest.approx(64 * 256 * (2 + 4 / 128 - 1) + 256 * 2)


def test_a_chain_needs_its_intermediate_on_chip_only() -> None:
    problem = GemmChainProblem.from_shape("1024x64x128x32", cache="cold", activation="relu")
    gpu = type("Gpu", (), {"l2_capacity_bytes": 0.0, "l2_effective_ratio": 1.0})
    assert problem.compulsory_bytes(gpu) == 2 * (1024 * 128 + 128 * 64 + 64 * 32 + 1024 * 32)
    assert problem.flop == 2 * 1024 * 64 * (128 + 32)
    first, second = problem.products
    assert (first.shape, second.shape) == ("1024x64x128", "1024x32x64")
    assert problem.arrays(np.float64).slots == 1


@pytest.mark.parametrize(
    ("problem", "shape", "choices", "message"),
    [
        (GemmEpilogueProblem, "64x64x64", {"activation": "mish"}, "unknown activation 'mish'"),
        (
            GemmEpilogueProblem,
            "64x64x64",
            {"quantise_out": "tensor", "out_dtype": "bf16"},
            "quantise_out tensor with out_dtype bf16: results are quantised to fp8; leave out_dtype",
        ),
        (GemmChainProblem, "64x64x64", {}, "shape '64x64x64' has 3 number(s); a GEMM chain is MxNxKxL"),
        (GemmChainProblem, "64x64x64x64", {"dtype": "fp8"}, "dtype fp8: operands of a GEMM chain are bf16 or fp16"),
        (GemmChainProblem, "64x64x64x64", {"cache": "warm"}, "unknown cache state 'warm'"),
    ],
)
def test_what_makes_no_sense_is_refused(problem: type, shape: str, choices: dict, message: str) -> None:
    with pytest.raises(UserError) as refused:
        problem.from_shape(shape, **choices)
    assert message in str(refused.value)


@pytest.mark.parametrize("kernel", ["gemm_epilogue", "gemm_chain"])
def test_fields_of_the_spaces_are_those_of_the_schedule(kernel: str) -> None:
    assert tuple(schedule_fields(kernel)) == get_kernel(kernel).schedule_fields
    families = [entry.family for entry in list_spaces() if entry.kernel == kernel]
    assert sorted(families) == ["mma_sync", "tcgen05", "wgmma"]
    for family in families:
        assert load_space(kernel, family).size >= 100_000
        assert load_space(kernel, family, preset="quick").size >= 1000


def test_epilogues_are_swept_as_gemms_are(capsys, tmp_path) -> None:
    words = ("--preset", "library", "--axis", "tile_m=128", "--axis", "tile_n=128,256", "--out", str(tmp_path / "run"))
    found = json_answer(capsys, "sweep", "gemm_epilogue", *EPILOGUE, *words, "--quiet")
    assert found["kernel"] == "gemm_epilogue"
    assert found["feasible"] > 10
    plain = json_answer(
        capsys, "sweep", "gemm_epilogue", *EPILOGUE[:4], *words[:-1], str(tmp_path / "plain"), "--quiet"
    )
    assert found["top"][0]["latency_s"] >= plain["top"][0]["latency_s"]


def test_chains_are_swept_explained_and_ranked(capsys, tmp_path) -> None:
    found = json_answer(
        capsys, "sweep", "gemm_chain", *CHAIN, "--preset", "quick", "--axis", "tile_m=64,128", "--axis", "tile_l=64",
        "--axis", "warps=4", "--axis", "tile_n=64", "--out", str(tmp_path / "run"), "--quiet",
    )  # fmt: skip
    assert found["kernel"] == "gemm_chain"
    assert found["top"][0]["order"] != 0
    code, said, errors = answer(capsys, "explain", "--kernel", "gemm_chain", *CHAIN, "--schedule", FUSED)
    assert code == 0, errors
    assert "GEMM chain 8192x64x128x64" in said
    fields = {
        name: value if not value.isdigit() else int(value) for name, value in (w.split("=") for w in FUSED.split())
    }
    listed = tmp_path / "mine.json"
    listed.write_text(json.dumps([fields, fields | {"order": "spilled", "intermediate_in": "smem"}]))
    code, said, errors = answer(capsys, "rank", "--kernel", "gemm_chain", *CHAIN, str(listed))
    assert code == 0, errors
    assert "recomputed" in said
    assert "spilled" in said


def test_an_intermediate_that_cannot_be_there_is_named(capsys) -> None:
    wrong = FUSED.replace("intermediate_in=registers", "intermediate_in=tmem")
    code, said, errors = answer(capsys, "explain", "--kernel", "gemm_chain", *CHAIN, "--schedule", wrong)
    assert code == 1
    assert "CHAIN: the intermediate cannot be kept there" in said + errors


def test_published_chains_stand_beside_predictions(capsys) -> None:
    rows = json_answer(capsys, "validate", "gemm_chain")
    assert len(rows) == 2
    for row in rows:
        assert row["speedup"] == pytest.approx(row["published_speedup"], rel=0.1)
        assert row["fused_s"] == pytest.approx(row["published_fused_s"], rel=0.25)


def test_fusing_an_epilogue_saves_its_own_kernel(capsys) -> None:
    rows = json_answer(capsys, "validate", "gemm_epilogue", "--shape", "4096x4096x512", "--gpu", "a100_sxm")
    assert [row["what"] for row in rows] == ["gelu", "residual", "fp8 blocks"]
    assert all(row["speedup"] > 1.2 for row in rows)
