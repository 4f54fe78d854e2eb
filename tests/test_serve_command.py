"""`dse serve`: the table, where the time goes, why layouts cannot run, errors in one line, JSON, Python."""

import dataclasses
import json
import math

import pytest
from cli_run import answer, json_answer

import dse
from dse.errors import UserError
from dse.serving.layout_words import layout_text, read_values
from dse.serving.layouts import FIELDS
from dse.serving.outcomes import COLUMNS

SMALL = ("serve", "--model", "llama3_8b", "--gpu", "h100_sxm", "--quiet")


@pytest.fixture(scope="module")
def served():
    return dse.serve("llama3_8b", "h100_sxm", 8, tp=[1, 8], batch=[1, 64], pp=[1, 2])


def test_a_row_a_combination_and_the_degrees_that_are_given(served) -> None:
    assert len(served.table) == 8
    assert list(served.table.columns) == [*FIELDS, *COLUMNS, "reason", "why"]
    assert [layout_text(row) for row in served.table.to_dict("records")][:3] == [
        "tp=1 batch=1", "tp=1 batch=64", "tp=1 pp=2 batch=1",
    ]  # fmt: skip
    assert (served.table["why"] == "").equals(served.table["reason"] == "runs")
    micro = served.table[(served.table["pp"] == 2) & (served.table["batch"] == 64)]["micro_batches"]
    assert set(micro) == {2}  # as many as stages, where that divides the batch


def test_rates_belong_together(served) -> None:
    for row in served.runs.to_dict("records"):
        assert math.isclose(row["tokens_per_s"], row["batch"] / row["tpot_s"], rel_tol=1e-12)
        assert math.isclose(row["tokens_per_s_per_gpu"], row["tokens_per_s"] / row["gpus"], rel_tol=1e-12)
        assert math.isclose(row["tokens_per_s_per_user"] * row["tpot_s"], 1.0, rel_tol=1e-12)


def test_parts_of_a_step_add_up_to_what_the_layout_takes(served) -> None:
    for place in served.runs.index:
        row = served.table.iloc[place]
        phases = {phase.name: phase for phase in served.phases(place)}
        assert set(phases) == {"decode", "prefill"}
        for phase in phases.values():
            assert math.isclose(sum(part.seconds for part in phase.parts), phase.seconds, rel_tol=1e-9)
            assert math.isclose(sum(phase.by_kind().values()), phase.seconds, rel_tol=1e-9)
        if row["pp"] == 1:
            assert math.isclose(phases["decode"].seconds, row["decode_s"], rel_tol=1e-5)
            host_s = served.service.engine["step_s"]
            assert math.isclose(phases["prefill"].seconds, row["prefill_s"] + host_s, rel_tol=1e-5)
        sent = phases["decode"].by_kind().get("collective", 0.0)
        assert math.isclose(sent, row["exchange_s"], rel_tol=1e-5, abs_tol=1e-12)


def test_every_kernel_names_its_sizes_and_schedule(served) -> None:
    (decode, _) = served.phases(0)
    parts = {part.name: part for part in decode.parts if part.kind == "kernel"}
    assert parts["gate_up"].what == "gemm"
    assert parts["gate_up"].detail.startswith("batch=1 m=1 n=28672 k=4096: tile=")
    assert parts["gate_up"].runs == 32
    assert parts["lm_head"].runs == 1


def test_a_layout_without_room_says_bytes_and_the_batch_that_fits() -> None:
    asked = {"tp": 1, "gpus": 8}
    result = dse.serve("llama3_8b", "h100_sxm", batch=4096, **asked)
    assert list(result.table["reason"]) == ["kv_cache"]
    why = result.table["why"].iloc[0]
    assert "69 GB usable of 80 GB (0.9 of it, less 3 GB that the engine keeps)" in why
    assert "KV cache 1.37 TB" in why
    most = int(why.partition("a batch of at most ")[2].split(",")[0])
    fits = dse.serve("llama3_8b", "h100_sxm", batch=[most, most + 1], **asked)
    assert list(fits.table["reason"]) == ["runs", "kv_cache"]


@pytest.mark.parametrize(
    ("words", "reason", "said"),
    [
        (["--tp", "3"], "tensor_parallel", "llama3_8b has 32 heads, 8 KV heads, 14,336 columns"),
        (["--tp", "4", "--gpus", "6"], "gpus", "4 x 1 x 1 x 1 = 4 of 6; instances of 1, 2, 3, 6 do, or give --gpus 4"),
        (["--pp", "64"], "stages", "pp = 64, llama3_8b has 32 layers"),
        (["--dp", "2"], "no_experts", "dp or experts_tp above 1 without experts"),
        (["--pp", "2", "--micro-batches", "2", "--batch", "3"], "batch", "batch = 3; multiples of 2 do"),
        (["--tp", "1", "--chunk", "4096"], "chunk", "chunk = 4096, of a prompt 2048 tokens are new; at most that"),
        (["--tp", "1", "--batch", "64", "--tpot-max", "0.001"], "limit", "at most 0.001 s was asked for"),
        (
            ["--tp", "1", "--batch", "128", "--chunk", "512", "--output", "16"],
            "chunk",
            "8 prompts of 2048 new tokens come in a step; a smaller batch",
        ),
        (
            ["--tp", "1", "--batch", "128", "--chunk", "512", "--output", "300"],
            "chunk",
            "0.427 prompts of 2048 new tokens come in a step; a chunk of at least 1024, or a smaller batch",
        ),
        (["--tp", "1", "--phase", "decode", "--chunk", "512"], "chunk", "the phase is decode; chunk 0, or --phase"),
        (
            ["--tp", "1", "--set", "engine.reserved_bytes=1e15"],
            "weights",
            "0 B usable of 80 GB (0.9 of it, less 1000 TB that the engine keeps); the engine leaves nothing: a larger",
        ),
    ],
)  # fmt: skip
def test_why_a_layout_cannot_run(capsys, words: list[str], reason: str, said: str) -> None:
    found = json_answer(capsys, *SMALL, *words)
    (row,) = found["rows"]
    assert row["reason"] == reason
    assert said in row["why"]
    code, out, _ = answer(capsys, *SMALL, *words)
    assert code == 1
    assert row["why"] in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["serve"], "no model is given: say which with --model, e.g. --model llama3_70b"),
        ([*SMALL, "--tp", "0"], "tp = 0 is not allowed: a whole number from 1"),
        ([*SMALL, "--tp", "two"], "tp = 'two' is not allowed: a whole number from 1"),
        ([*SMALL, "--exchange", "all"], "unknown exchange 'all'"),
        ([*SMALL, "--tp", "2", "--ep", "4"], "ep = 4 does not divide tp x cp x dp = 2"),
        ([*SMALL, "--ep", "2", "--experts-tp", "1"], "ep and experts_tp say the same"),
        ([*SMALL, "--dtype", "fp6"], "unknown dtype 'fp6'"),
        ([*SMALL, "--phase", "train"], "unknown phase 'train'"),
        ([*SMALL, "--engine", "vlm"], "unknown engine 'vlm'"),
        ([*SMALL, "--acceptance", "0.5"], "acceptance = 0.5 needs draft_tokens"),
        ([*SMALL, "--cached", "4096"], "cached_tokens = 4096 is not allowed: fewer than the 2048 input_tokens"),
        ([*SMALL, "--set", "engine.step=0"], "unknown number of an engine 'step'"),
        ([*SMALL, "--set", "engine.memory_share=2"], "engine.memory_share=2: not allowed; a number above 0, at most 1"),
        ([*SMALL, "--set", "engine.exchange_sms=500"], "engine.exchange_sms = 500 is not allowed: at most the 132 SMs"),
        ([*SMALL, "--set", "fabric.link=0x"], "--set fabric.link = '0x'; allowed: a number at least 1"),
        ([*SMALL, "--experts-dtype", "fp8"], "experts_dtype = fp8 is not for llama3_8b, which has no experts"),
        ([*SMALL, "--set", "implementation.x=2x"], "an engine runs many kernels' implementations"),
        ([*SMALL, "--set", "fabric.links=2x"], "unknown number of the fabric nvlink4_x8 'links'"),
        ([*SMALL, "--tp", "16", "--fabric", "nvlink4_x8"], "gpus = 16 is not allowed: 1 to 8 on nvlink4_x8"),
        ([*SMALL, "--tp", "1", "--row", "first"], "--row 'first' is not allowed: a row of the table (0, 1, ...)"),
        ([*SMALL, "--tp", "1", "--row", "7"], "row 7 is not there: the table has 1 rows"),
        ([*SMALL, "--input", "0"], "'0' is not a whole number from 1"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(capsys, words: list[str], said: str) -> None:
    code, out, err = answer(capsys, *words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_without_degrees_the_best_plain_layout_is_chosen(capsys) -> None:
    words = (*SMALL, "--gpus", "2", "--batch", "16,64", "--phase", "decode")
    found = json_answer(capsys, *words)
    (row,) = found["rows"]
    every = dse.serve(
        "llama3_8b", "h100_sxm", 2, tp=[1, 2], pp=[1, 2], batch=[16, 64], micro_batches=[1, 2], phase="decode"
    )
    assert math.isclose(row["tokens_per_s_per_gpu"], every.runs["tokens_per_s_per_gpu"].max(), rel_tol=1e-12)
    assert found["chosen_from"]["layouts"] == sum(found["chosen_from"]["reasons"].values())
    assert "no degrees are given" in answer(capsys, *words)[1]


def test_what_ifs_move_gpu_fabric_and_engine(capsys) -> None:
    asked = ("--tp", "8", "--batch", "64", "--phase", "decode")
    plain = json_answer(capsys, *SMALL, *asked)
    faster = json_answer(capsys, *SMALL, *asked, "--set", "fabric.link=2x", "--set", "engine.step_s=0")
    assert "engine.step_s: 0.001 -> 0" in faster["changes"]
    assert any(change.startswith("fabric nvlink4_x8: ") for change in faster["changes"])
    (before,), (after,) = plain["rows"], faster["rows"]
    assert after["exchange_s"] < before["exchange_s"]
    gained = before["tpot_s"] - after["tpot_s"]
    assert math.isclose(gained, 1e-3 + before["exchange_s"] - after["exchange_s"], rel_tol=1e-4)


def test_fabrics_follow_gpu_and_number() -> None:
    from dse.content.default_fabric import default_fabric
    from dse.content.gpu import load_gpu

    assert default_fabric(load_gpu("h200_sxm"), 8) == "nvlink4_x8"
    assert default_fabric(load_gpu("b200_sxm"), 16) == "nvlink5_x8+infiniband_ndr"
    assert default_fabric(load_gpu("a100_sxm"), 9) == "nvlink3_x8+infiniband_hdr"
    assert default_fabric(load_gpu("h100_pcie")) == "pcie5_x8"
    unknown = dataclasses.replace(load_gpu("a100_sxm"), name="mine", bases=())
    assert default_fabric(dataclasses.replace(unknown, bases=("h100_sxm",))) == "nvlink4_x8"
    with pytest.raises(UserError, match="no fabric is known for the GPU mine: say what joins them with --fabric"):
        default_fabric(unknown)


def test_values_are_read_as_numbers_names_and_lists() -> None:
    assert read_values("tp", "1,2, 8") == (1, 2, 8)
    assert read_values("exchange", "all_to_all") == (1,)
    assert read_values("placement", ["tp.cp.dp.pp", 1]) == (0, 1)
    assert read_values("sequence_parallel", True) == (1,)
    with pytest.raises(UserError, match=r"batch = 1\.5 is not allowed: a whole number from 1"):
        read_values("batch", 1.5)


def test_json_is_one_document_with_units(capsys) -> None:
    code, out, _ = answer(capsys, *SMALL, "--tp", "1", "--json")
    found = json.loads(out)
    assert code == 0
    assert set(found["columns"]) == set(COLUMNS)
    assert {part["kind"] for phase in found["phases"] for part in phase["parts"]} == {"kernel", "host"}


def test_drafts_need_the_chance_that_they_are_right(capsys) -> None:
    code, _, err = answer(capsys, "serve", "--model", "llama3_8b", "--tp", "1", "--draft-tokens", "3")
    assert code == 2
    assert "--draft-tokens 3 needs --acceptance: the chance, 0 to 1, that a drafted token is right" in err


def test_answers_say_how_near_such_answers_were_and_which_weights_are_published(capsys) -> None:
    words = ("serve", "--model", "deepseek_v3", "--gpu", "h200_sxm", "--tp", "1", "--batch", "1", "--dtype", "fp8")
    code, out, _ = answer(capsys, *words)
    assert code == 1  # it does not fit
    assert "fp8 weights, where fp8_block is published (--dtype fp8_block)" in out
    assert "trust: no interval; published rates were 14 % off in the mean" in out
