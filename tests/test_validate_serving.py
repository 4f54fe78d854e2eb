"""Published rates of whole models beside predictions: the file, how a figure is put together, the statistic."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dse import serve
from dse.cli import main
from dse.content.engine import load_engine
from dse.content.files import content_files
from dse.content.gpu import load_gpu
from dse.content.model import load_model
from dse.errors import UserError
from dse.validation.serving import JudgedFigure, judged, seconds_of, summed_up, validate_serving
from dse.validation.serving_figures import RATES, ServingFigure, read_serving_figures
from dse.validation.serving_predict import ServingModels, ServingPrediction, engine_of, types_of

ROW = {
    "name": "small", "model": "qwen2_5_7b", "gpu": "a100_sxm", "gpus": 1, "tp": 1, "ep": 1, "dp_attention": 1, "pp": 1,
    "dtype": "bf16", "kv_dtype": "bf16", "phase": "decode", "batch": 1, "input_tokens": 512, "output_tokens": 65,
    "value": 0.012, "unit": "tpot_s", "software": "vLLM 0.6.3", "speculative": 0, "comparable": "yes",
    "source": "own, table 1",
}  # fmt: skip


def figure(**changes) -> ServingFigure:
    return ServingFigure(**(ROW | changes))


def written(tmp_path: Path, *rows: dict, sources: str = '[sources.own]\nwhere = "here"\n') -> Path:
    text = sources
    for row in rows:
        text += "\n[[figure]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in row.items())
    path = tmp_path / "own.toml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def models() -> ServingModels:
    return ServingModels()


def test_the_packaged_figures_are_known_to_the_model() -> None:
    figures = read_serving_figures()
    counted = [one for one in figures if one.comparable == "yes"]
    assert len(counted) > 80
    assert {one.gpu for one in counted} >= {"a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm"}
    assert {one.phase for one in counted} == {"decode", "prefill", "mixed"}
    for engine in {engine_of(one.software) for one in figures}:
        load_engine(engine)
    assert {one.model for one in figures} <= set(content_files("studies/models"))
    assert {one.gpu for one in figures} <= set(content_files("hardware/gpus"))
    kinds = {load_model(name).moe is None for name in {one.model for one in counted}}
    assert kinds == {True, False}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"phase": "prefil"},
            r"1 problem\n  figure\[0\] small.phase: 'prefil' is not allowed: decode, prefill",
        ),
        ({"value": 0}, "value: 0 is not allowed: a number above 0"),
        ({"value": "1"}, "value: '1' is not allowed: a number above 0"),
        ({"batch": -1}, "batch: -1 is not allowed: a whole number from 0"),
        ({"tp": 0}, "tp: 0 is not allowed: a whole number from 1"),
        ({"tp": 1.5}, "tp: 1.5 is not allowed: a whole number from 1"),
        ({"tp": 2}, "gpus: 1 is no multiple of tp x dp_attention x pp"),
        ({"dtype": "fp9"}, "dtype: 'fp9' is not allowed: .*mxfp4"),
        ({"comparable": "maybe"}, "comparable: 'maybe' is not allowed: yes, max-throughput, unsure, calibration"),
        ({"batch": 0}, 'comparable: is "yes", but batch, input_tokens or output_tokens is 0'),
        ({"speculative": 2, "acceptance": 4.0}, "acceptance: 4.0 is not 1 to 3 tokens a step"),
        ({"source": "elsewhere"}, r"source: begins with no key of \[sources\]: 'elsewhere'"),
        ({"software": 3}, "software: must be text, not 3"),
        ({"exchange": "ring"}, "exchange: 'ring' is not allowed: all_gather, all_to_all"),
        ({"batches": 1}, "batches: unknown; known: name, .*did you mean 'batch'"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(tmp_path, changes, said) -> None:
    with pytest.raises(UserError, match=said):
        read_serving_figures(written(tmp_path, ROW | changes))


def test_what_is_wrong_with_a_file_is_said(tmp_path) -> None:
    with pytest.raises(UserError, match=r"no table at .*none.toml; give a TOML file of figures like"):
        read_serving_figures(tmp_path / "none.toml")
    with pytest.raises(UserError, match=r"has no row: add one as \[\[figure\]\]"):
        read_serving_figures(written(tmp_path))
    lacking = {key: value for key, value in ROW.items() if key != "unit"}
    with pytest.raises(UserError, match=r"2 problems\n.*small.value: 0 is not.*\n.*small.unit: is missing"):
        read_serving_figures(written(tmp_path, lacking | {"value": 0}))
    with pytest.raises(UserError, match="two rows are called 'small'"):
        read_serving_figures(written(tmp_path, ROW, ROW))
    path = tmp_path / "odd.toml"
    path.write_text("rows = 3\n")
    with pytest.raises(UserError, match="rows: unknown; known: sources, figure"):
        read_serving_figures(path)


def test_a_software_that_no_engine_stands_for_is_said() -> None:
    with pytest.raises(UserError, match=r"software = 'llama.cpp' has no engine: it must begin with one of SGLang"):
        engine_of("llama.cpp")


@pytest.mark.parametrize(
    ("dtype", "model", "experts", "attention"),
    [
        ("nvfp4", "deepseek_v3", None, "bf16"),
        ("nvfp4", "llama3_70b", None, None),
        ("mxfp4", "gpt_oss_120b", "nvfp4", None),
        ("fp8", "llama3_70b", None, None),
    ],
)
def test_what_a_checkpoint_keeps_wide(dtype, model, experts, attention) -> None:
    types = types_of(figure(dtype=dtype, kv_dtype="fp8"), load_model(model))
    assert (types.experts_dtype, types.attention_dtype, types.kv_dtype) == (experts, attention, "fp8")
    assert types.dtype == ("bf16" if dtype == "mxfp4" else dtype)


def test_rates_as_times() -> None:
    assert seconds_of(figure(), 0.012, 99) == 0.012
    assert seconds_of(figure(unit="output_tokens_per_s"), 800.0, 8) == pytest.approx(0.01)
    assert seconds_of(figure(unit="output_tokens_per_s_per_gpu", gpus=4, tp=4), 200.0, 8) == pytest.approx(0.01)
    assert seconds_of(figure(unit="input_tokens_per_s"), 1024.0, 8) == pytest.approx(8 * 512 / 1024.0)


def _judged(value: float, predicted: float, **changes) -> JudgedFigure:
    found = ServingPrediction(predicted, changes.get("batch", 1), "vllm", 0.0, 0.0, True, {})
    one = figure(value=value, **changes)
    return JudgedFigure(one, load_model(one.model).moe is not None, found)


def test_the_statistic_by_hand() -> None:
    rows = [
        _judged(0.010, 0.012),  # 20 % too slow
        _judged(1000.0, 2000.0, unit="output_tokens_per_s", batch=20),  # 20 ms, predicted 10: 50 % too fast
        _judged(0.030, 0.033, model="mixtral_8x7b", gpu="h100_sxm", phase="mixed", source="other"),
        _judged(0.010, 0.100, comparable="unsure"),
        JudgedFigure(figure(), False, None, "cannot run"),
    ]
    found = summed_up(rows)
    assert found.all is not None
    assert (found.all.count, found.all.mape) == (3, pytest.approx((20 + 50 + 10) / 3))
    assert found.all.bias == pytest.approx((20 - 50 + 10) / 3)
    assert found.all.weighted_mape == pytest.approx(100 * (2 + 10 + 3) / (10 + 20 + 30))
    assert set(found.groups["kind"]) == {"dense", "MoE"}
    assert found.groups["kind"]["dense"].mape == pytest.approx(35.0)
    assert found.groups["gpu"]["h100_sxm"].mape == pytest.approx(10.0)
    assert {name: one.count for name, one in found.groups["phase"].items()} == {"decode": 2, "mixed": 1}
    assert {name: one.count for name, one in found.groups["source"].items()} == {"own": 2, "other": 1}
    assert [row.error for row in rows[:2]] == pytest.approx([20.0, -50.0])
    assert summed_up(rows[3:]).all is None


def test_a_decode_figure_is_a_step_shared_by_the_tokens_that_come_out(models) -> None:
    alone = models.predict(figure())
    assert alone.value == pytest.approx(alone.decode_s)
    assert alone.value == pytest.approx(sum(alone.parts.values()), rel=1e-6)
    rate = models.predict(figure(unit="output_tokens_per_s"))
    assert rate.value == pytest.approx(1.0 / alone.value)
    drafted = models.predict(figure(speculative=2, acceptance=2.0))
    assert drafted.value == pytest.approx(drafted.decode_s / 2.0)
    assert drafted.decode_s > alone.decode_s


def test_prompts_that_come_in_take_their_time(models) -> None:
    decoding, mixed = models.predict(figure()), models.predict(figure(phase="mixed"))
    assert mixed.value == pytest.approx(decoding.decode_s + mixed.prefill_s / 65)
    first = models.predict(figure(phase="prefill", unit="ttft_s"))
    assert first.value == pytest.approx(mixed.prefill_s)


def test_a_static_batch_is_a_prefill_and_then_all_steps(models) -> None:
    static = figure(phase="mixed", software="TensorRT-LLM 0.9.0", unit="output_tokens_per_s_per_gpu", batch=4)
    found = models.predict(static)
    assert found.value == pytest.approx(4 * 65 / (found.prefill_s + 64 * found.decode_s))
    assert models.predict(replace(static, batch=8)).prefill_s > found.prefill_s


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({"phase": "mixed"}, {}),
        (
            {"phase": "decode", "speculative": 2, "acceptance": 1.75},
            {"phase": "decode", "draft_tokens": 2, "acceptance": 0.5},  # 1 + 1 / 2 + 1 / 4 tokens a step
        ),
    ],
)
def test_what_is_judged_is_what_serve_says(models, changes: dict, asked: dict) -> None:
    """Where an engine gives prompts steps of their own; to the rounding of the numbers of layouts in float32."""
    own = figure(software="SGLang 0.4", batch=8, output_tokens=64, **changes)
    lengths = {"input_tokens": own.input_tokens, "output_tokens": own.output_tokens}
    served = serve(own.model, own.gpu, gpus=1, engine="sglang", tp=1, batch=8, **lengths, **asked)
    assert models.predict(own).value == pytest.approx(served.table["tpot_s"].iloc[0], rel=1e-6)


def test_without_a_batch_the_largest_that_fits_counts(models) -> None:
    open_ended = figure(
        phase="mixed", software="TensorRT-LLM 1.0", batch=0, unit="output_tokens_per_s", comparable="max-throughput",
        input_tokens=30000, output_tokens=2000,
    )  # fmt: skip
    found = models.predict(open_ended)
    assert found.fits
    assert not models.predict(replace(open_ended, batch=found.batch + 1)).fits
    model, gpu, engine = load_model("qwen2_5_7b"), load_gpu("a100_sxm"), load_engine("trtllm")
    a_token = model.layers * 2 * 4 * 128 * 2
    room = gpu["ddr_capacity_bytes"] * engine["memory_share"] - engine["reserved_bytes"] - 2 * 7.6e9
    assert found.batch == pytest.approx(room / (a_token * 32000), rel=0.08)


def test_packaged_figures_are_predicted_as_closely_as_is_stated(models) -> None:
    """Of a dense and an MoE model the sources that the page on serving states within 8 %, a third of their rows."""
    own = [row for row in read_serving_figures() if row.comparable == "yes"]
    for source, gpu in (("qwen", "a100_sxm"), ("inferencex", "b200_sxm")):
        rows = [judged(row, models) for row in own if row.source_key == source and row.gpu == gpu][::3]
        assert len(rows) >= 4
        assert np.mean([abs(row.error) for row in rows]) <= 10.0, [(row.figure.name, row.error) for row in rows]


def test_a_figure_that_cannot_be_predicted_says_why(tmp_path) -> None:
    unknown = ROW | {"name": "no lengths", "input_tokens": 0, "comparable": "unsure"}
    strange = ROW | {"name": "strange", "software": "llama.cpp", "comparable": "unsure"}
    found = validate_serving(written(tmp_path, unknown, strange))
    assert found.all is None
    assert [row.prediction for row in found.rows] == [None, None]
    assert "input_tokens or output_tokens is 0" in found.rows[0].why_not
    assert "has no engine" in found.rows[1].why_not
    assert np.isnan(found.rows[0].predicted_s)


def test_filters_name_what_there_is(tmp_path) -> None:
    path = written(tmp_path, ROW)
    with pytest.raises(UserError, match=r"unknown GPU of the table 'h100'.*a100_sxm"):
        validate_serving(path, gpus=["h100"])
    with pytest.raises(UserError, match=r"unknown model of the table 'llama'.*qwen2_5_7b"):
        validate_serving(path, models=["llama"])
    with pytest.raises(UserError, match="no figure of the table is left"):
        validate_serving(path, comparable=["unsure"])


def test_the_command(tmp_path, capsys) -> None:
    path = str(written(tmp_path, ROW, ROW | {"name": "blank", "input_tokens": 0, "comparable": "unsure"}))
    assert main(["validate", "serving", "--table", path, "--parts"]) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("small", "gate_up", "MAPE %", "nothing to predict"))
    assert main(["validate", "serving", "--table", path, "--json", "--gpu", "a100_sxm"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["comparable"]["count"] == 1
    assert found["figures"][0]["prediction"]["engine"] == "vllm_0_6"
    assert found["figures"][0]["error_percent"] == pytest.approx(found["comparable"]["bias"])
    assert found["figures"][1]["prediction"] is None


def test_every_rate_is_a_unit() -> None:
    assert set(RATES) < {one.unit for one in read_serving_figures()}
