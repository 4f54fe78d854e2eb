"""Layouts exported: degrees as YAML and JSON, command lines of frameworks, what they cannot express."""

import json
from pathlib import Path

import pytest
from cli_run import answer
from layout_runs import layout_sweep

from dse.export.layouts.launch import Launch
from dse.export.layouts.plain import yaml_text
from dse.export.layouts.run import LAUNCHES, TARGETS, export_layouts
from dse.serving.layouts import FIELDS
from dse.serving.outcomes import COLUMNS
from dse.studies.layouts.files import open_layouts


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return layout_sweep(tmp_path_factory.mktemp("layouts") / "run")


@pytest.fixture(scope="module")
def run(folder):
    return open_layouts(folder)


@pytest.mark.parametrize("target", TARGETS)
def test_exports_hold_the_degrees(capsys, folder, target: str, tmp_path) -> None:
    code, out, err = answer(capsys, "export", str(folder), "--to", target)
    assert code == 0, err
    code, nothing, _ = answer(capsys, "export", str(folder), "--to", target, "-o", str(tmp_path / "file"))
    assert (code, nothing) == (0, "")
    assert (tmp_path / "file").read_text() == out
    command = {"vllm": "vllm serve", "sglang": "python -m sglang.launch_server", "trtllm": "trtllm-serve"}.get(target)
    if command:
        assert command in out
        assert "mistralai/Mixtral-8x7B-v0.1" in out
        assert out.startswith("# tilesweep, Mixtral 8x7B")
    if target == "json":
        content = json.loads(out)
        assert content["checkpoint"] == "mistralai/Mixtral-8x7B-v0.1"
        assert all(set(FIELDS) <= set(layout["degrees"]) for layout in content["layouts"])


def _row(**changed: int) -> dict:
    plain = {
        name: int(name not in ("placement", "sequence_parallel", "exchange", "overlap", "chunk")) for name in FIELDS
    }
    return {**plain, **dict.fromkeys(COLUMNS, 1.0), **changed}


def _facts(run, **changed) -> dict:
    return {**run.summary, "gpus_per_node": 8, "gpus": 8, **changed}


@pytest.mark.parametrize(
    ("target", "row", "words"),
    [
        ("vllm", {"tp": 2, "dp": 4, "gpus": 8, "batch": 64}, "--data-parallel-size 4|--enable-expert-parallel|seqs 16"),
        ("vllm", {"tp": 8, "experts_tp": 8, "gpus": 8, "batch": 64, "chunk": 1024}, "--tensor-parallel-size 8|1088"),
        ("vllm", {"tp": 8, "kv_split": 4, "experts_tp": 8, "gpus": 8}, "--decode-context-parallel-size 4"),
        ("sglang", {"tp": 2, "dp": 4, "experts_tp": 2, "gpus": 8, "batch": 64}, "--tp-size 8|--dp-size 4|--ep-size 4"),
        ("sglang", {"dp": 8, "exchange": 1, "overlap": 1, "gpus": 8, "batch": 64, "chunk": 512},
         "--moe-a2a-backend deepep|--enable-two-batch-overlap|--chunked-prefill-size 4096"),
        ("trtllm", {"tp": 8, "experts_tp": 4, "gpus": 8, "batch": 64},
         "tensor_parallel_size: 8|moe_tensor_parallel_size: 4|moe_expert_parallel_size: 2|enable_attention_dp: false"),
        ("trtllm", {"dp": 8, "gpus": 8, "batch": 64}, "enable_attention_dp: true|max_batch_size: 8"),
    ],
)  # fmt: skip
def test_what_frameworks_are_told(run, target: str, row: dict, words: str) -> None:
    launch = Launch(_facts(run), _row(**row))
    text = LAUNCHES[target](launch)
    assert not launch.refused
    for word in words.split("|"):
        assert word in text


@pytest.mark.parametrize(
    ("target", "row", "said"),
    [
        ("vllm", {"tp": 8, "experts_tp": 2}, "experts_tp = 2: experts are shared whole by all tp x dp GPUs"),
        ("vllm", {"tp": 2, "pp": 2, "experts_tp": 2}, "micro_batches = 1: it keeps a batch in flight a stage, 2"),
        ("vllm", {"cp": 2, "experts_tp": 2}, "cp = 2: groups that hold the same weights"),
        ("vllm", {"dp": 2, "overlap": 1}, "two_batches: only with data and expert parallel and exchange=all_to_all"),
        (
            "vllm",
            {"tp": 8, "dp": 2, "pp": 2, "gpus": 32, "micro_batches": 2},
            "placement tp.dp.pp: its ranks are numbered",
        ),
        ("sglang", {"kv_split": 2, "tp": 2}, "kv_split = 2: keys of the same heads on several GPUs"),
        ("sglang", {"tp": 2, "sequence_parallel": 1, "overlap": 2}, "overlap = fused: products and collectives"),
        ("trtllm", {"tp": 2, "dp": 2}, "tp = 2 with dp = 2: attention data parallel has one GPU a group"),
        ("trtllm", {"dp": 2, "overlap": 1}, "overlap = two_batches: neither two halves"),
    ],
)
def test_what_frameworks_cannot_express_is_said(run, target: str, row: dict, said: str) -> None:
    launch = Launch(_facts(run, gpus=32), _row(**{"batch": 8, "gpus": 4, **row}))
    assert LAUNCHES[target](launch) == ""
    assert any(text.startswith(said) for text in launch.refused), launch.refused


def test_layouts_passed_over_are_counted(run) -> None:
    exported = export_layouts(run, "vllm")
    assert exported.written == 1
    assert exported.summary.startswith("1 layout as vllm")
    every = export_layouts(run, "vllm", "front", 1000)
    assert every.written < len(run.front)
    assert every.refused
    assert "that it cannot express passed over" in every.summary


def test_yaml_is_what_json_holds() -> None:
    content = {"a": 1, "b": {"c": None, "d": [1, {"e": "x: y", "f": True}]}, "g": []}
    assert yaml_text(content) == 'a: 1\nb:\n  c: null\n  d:\n    - 1\n    - e: "x: y"\n      f: true\ng: []\n'


def test_vllm_starts_with_whole_prompts_only_where_a_step_holds_the_longest_sequence(run) -> None:
    launch = Launch(_facts(run), _row(tp=8, experts_tp=8, gpus=8, batch=8))
    words = LAUNCHES["vllm"](launch).replace("\\", " ").split()
    assert "--no-enable-chunked-prefill" in words
    assert words[words.index("--max-num-batched-tokens") + 1] == str(launch.longest)
    assert launch.longest > launch.step_tokens


def test_numbers_of_another_engine_are_said(run) -> None:
    def about(target: str) -> str:
        return export_layouts(run, target).text

    assert "predicted with engine vllm; for its own: dse sweep sharding ... --engine sglang" in about("sglang")
    assert "predicted with engine" not in about("vllm")
