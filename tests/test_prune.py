"""Pruning: which configs are kept, what they are expected to keep, and the file they are written to."""

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli_run import answer, json_answer
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.candidate_files import listed_entries, read_entries
from dse.candidates import read_candidates
from dse.content.gpu import load_gpu
from dse.errors import UserError
from dse.kernels.gemm import gemm_problem
from dse.rank import rank_candidates
from dse.studies.benchmark.prune import error_scale, expected_retained, kept_count, prune
from dse.studies.benchmark.subset_file import subset_text
from dse.triton_config import TritonGpu
from dse.trust.within_shape import RATES, WithinShape, covariance, packaged_within_shape

GPU = load_gpu("h200_sxm")
SHAPE = "4096x4096x4096"
PROBLEM = gemm_problem(SHAPE)
APART = WithinShape(0.06, dict.fromkeys(RATES, 50.0), (0.0,), spread=0.05)  # every schedule errs by itself
CONFIGS = """
import itertools
import triton


def warm(*_):
    pass


def make():
    for m, n, k, group, stages in itertools.product([64, 128, 256], [64, 128, 256], [32, 64], [1, 8], [2, 3, 6]):
        yield triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": group, "EVEN_K": True},
                            num_warps=8, num_stages=stages)


configs = list(make())
tall = [triton.Config({"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 64}, num_warps=8, maxnreg=168, pre_hook=warm)]
"""


@pytest.fixture
def configs(tmp_path):
    path = tmp_path / "my_configs.py"
    path.write_text(CONFIGS)
    return path


def test_the_predicted_best_are_kept_in_the_order_of_the_file(configs):
    entries = read_entries(configs)
    assert len(entries) == 109
    pruned = prune(entries, [("square", PROBLEM)], GPU, "10%")
    (shape,) = pruned.shapes
    ranked = rank_candidates(configs, PROBLEM, GPU)
    best = [entry.candidate.name for entry in ranked if entry.feasible][:11]
    assert list(shape.kept) == best  # 10 % of 109, rounded up
    assert pruned.kept == tuple(name for name, _ in entries if name in best)
    assert shape.runnable == sum(entry.feasible for entry in ranked)
    last = next(entry.latency_s for entry in ranked if entry.candidate.name == best[-1])
    assert shape.tied == sum(entry.latency_s == last for entry in ranked if entry.candidate.name not in best)


def test_ties_at_the_edge_are_kept_in_the_order_of_the_file():
    one = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
    entries = listed_entries("c", [{**one, "num_stages": 1}, one, one, one, one])
    pruned = prune(entries, [("", PROBLEM)], GPU, 2)
    assert pruned.kept == ("c[1]", "c[2]")
    assert pruned.shapes[0].tied == 2


def test_what_cannot_run_is_dropped_with_the_reason(configs):
    pruned = prune(read_entries(configs), [("", PROBLEM)], GPU, 200)
    why = {entry.candidate.name: entry.why_not for entry in rank_candidates(configs, PROBLEM, GPU) if entry.why_not}
    assert pruned.cannot_run == why
    assert why
    assert set(pruned.kept) == set(pruned.names) - set(why)
    assert pruned.shapes[0].retained is not None
    assert pruned.shapes[0].retained.expected == 1.0


def test_several_shapes_keep_one_list_together(configs):
    problems = [(text, gemm_problem(text)) for text in (SHAPE, "16x8192x8192", "8192x512x1024")]
    entries = read_entries(configs)
    pruned = prune(entries, problems, GPU, 3)
    alone = [prune(entries, [problem], GPU, 3) for problem in problems]
    for shape, own in zip(pruned.shapes, alone, strict=True):
        assert shape.kept == own.shapes[0].kept
        assert shape.retained is not None
        assert own.shapes[0].retained is not None
        assert shape.retained.expected >= own.shapes[0].retained.expected  # the others' choices help
    assert set(pruned.kept) == {name for own in alone for name in own.kept}
    assert len(pruned.kept) > 3


def test_a_shape_on_which_nothing_runs():
    entries = listed_entries("c", [{"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 128, "num_warps": 4, "num_stages": 4}])
    pruned = prune(entries, [("", PROBLEM)], GPU)
    assert (pruned.kept, pruned.shapes[0].retained) == ((), None)
    assert pruned.cannot_run["c[0]"].startswith("SMEM: needs 524352 B")


@pytest.mark.parametrize(
    ("keep", "configs", "count"),
    [("5%", 100, 5), ("5%", 101, 6), ("5%", 3, 1), ("0.1%", 10, 1), ("100%", 7, 7), ("20", 7, 20), (1, 7, 1)],
)
def test_how_many_are_kept(keep, configs, count):
    assert kept_count(keep, configs) == count


@pytest.mark.parametrize("keep", ["0%", "101%", "0", "-3", "2.5", "few", "%", "nan%"])
def test_odd_counts_are_refused(keep):
    with pytest.raises(UserError, match="write a share such as 5% or a number of configs such as 20"):
        kept_count(keep, 100)


@settings(max_examples=25, deadline=None)
@given(
    st.floats(-0.1, 0.2), st.sampled_from([0, 1, 3]), st.floats(0.0, 0.05), st.sampled_from([1.0, 2.0]),
)  # fmt: skip
def test_two_schedules_retain_what_the_integral_says(gap, octaves, noise, scale):
    """Errors are one number with probability exp(-distance), else two; the ratio's mean is then an integral."""
    model = WithinShape(0.06, dict.fromkeys(RATES, 0.4), (noise,), spread=0.05)
    schedules = [{"tile_m": 64}, {"tile_m": 64 * 2**octaves}]
    together = np.exp(-0.4 * octaves)
    predicted = [1e-3, 1e-3 * np.exp(gap)]

    def mean(variance):
        if variance == 0.0:
            return float(np.exp(min(gap, 0.0)))
        sigma = np.sqrt(variance)
        x = np.linspace(-9.0, 9.0, 20001)
        weight = np.exp(-0.5 * x**2) / np.sqrt(2.0 * np.pi)
        return float(np.trapezoid(weight * np.exp(np.minimum(gap + sigma * x, 0.0)), x))

    expected = together * mean(2 * noise**2) + (1 - together) * mean(2 * (noise**2 + (scale * 0.06) ** 2))
    found = expected_retained(schedules, predicted, [True, False], scale=scale, model=model)
    assert found.expected == pytest.approx(expected, abs=4 * 0.1 * scale / np.sqrt(4096))
    assert found.low <= found.expected + 1e-6 or expected > 0.99


def test_schedules_that_err_apart_retain_what_brute_force_says():
    random = np.random.default_rng(5)
    schedules = [{"tile_m": 16 * (place + 1), "stages": place} for place in range(12)]
    assert np.allclose(covariance(schedules, APART), np.eye(12) * 0.06**2, atol=1e-6)
    predicted = 1e-3 * np.exp(np.sort(random.uniform(0.0, 0.2, 12)))
    kept = np.arange(12) < 3
    total = 0.0
    for _ in range(20000):
        measured = predicted * np.exp(0.06 * random.standard_normal(12))
        total += min(measured) / min(measured[:3])
    found = expected_retained(schedules, predicted, kept, model=APART, noise=False)
    assert found.expected == pytest.approx(total / 20000, abs=0.004)
    with pytest.raises(UserError, match="nothing is kept: no performance is retained; keep at least one schedule"):
        expected_retained(schedules, predicted, kept & False)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_more_kept_retain_more_and_all_retain_all(data):
    count = data.draw(st.integers(2, 12))
    schedules = [
        {"tile_m": data.draw(st.sampled_from([64, 128, 256])), "stages": data.draw(st.integers(2, 4))}
        for _ in range(count)
    ]
    predicted = [1e-3 * (1 + data.draw(st.floats(0, 0.3))) for _ in range(count)]
    order = data.draw(st.permutations(range(count)))
    before = 0.0
    for size in range(1, count + 1):
        kept = [place in order[:size] for place in range(count)]
        found = expected_retained(schedules, predicted, kept)
        assert before <= found.expected <= 1.0
        assert 0.0 < found.low <= 1.0
        before = found.expected
    assert before == 1.0


def test_copies_of_one_schedule_are_worth_one():
    """Nothing is lost by leaving out what errs exactly alike; that is what makes 5 % of a long list enough."""
    schedules = [{"tile_m": 128}] * 5
    model = replace(packaged_within_shape(), noise=(0.0,))
    assert expected_retained(schedules, [1e-3] * 5, [True, *[False] * 4], model=model).expected == 1.0
    with pytest.raises(UserError, match="nothing is kept"):
        expected_retained(schedules, [1e-3] * 5, [False] * 5)


def test_errors_are_scaled_where_tuned_kernels_err_more():
    model = packaged_within_shape()
    ranked = rank_candidates(["tile=128x256x64 stages=3 warps=8x1"], PROBLEM, GPU)
    label = ranked[0].trust
    assert label is not None
    assert error_scale(None, 1e-3) == 1.0
    small = rank_candidates(["tile=64x64x64 stages=3 warps=4x1"], gemm_problem("512x512x512"), GPU)[0]
    scales = [error_scale(label, 2e-4), error_scale(small.trust, small.latency_s)]
    assert scales[0] >= 1.0
    assert scales[1] > 1.0  # short kernels' residuals scatter more
    assert model.scaled_to(0.0) == 1.0


# ---- files


def _same(left, right):
    gpu = TritonGpu(("wgmma", "mma_sync"), 132)
    return [(c.family, dict(c.schedule)) for c in read_candidates(left, PROBLEM, gpu)] == [
        (c.family, dict(c.schedule)) for c in read_candidates(right, PROBLEM, gpu)
    ]


def _part(path, kept, suffix):
    entries = read_entries(path)
    names = {entries[place][0] for place in kept}
    target = path.with_name(f"part{suffix}")
    target.write_text(subset_text(path, entries, names, suffix, "some of them"))
    return target, [entry for name, entry in entries if name in names]


@pytest.mark.parametrize("suffix", [".py", ".json"])
def test_a_part_of_a_python_file(configs, suffix):
    part, entries = _part(configs, [0, 17, 40, 108], suffix)
    assert _same(part, entries)
    if suffix == ".py":
        text = part.read_text()
        assert text.startswith("# some of them\nimport triton\n\nconfigs = [\n")
        assert "tall = [\n    # pre_hook: set again by hand\n" in text
        assert "maxnreg=168" in text
        assert "'EVEN_K': True" in text
    assert "triton" not in sys.modules


TILELANG = """
import tilelang.language as T
configs = [
    dict(block_M=m, block_N=128, block_K=32, num_stages=s, thread_num=256, policy=p, enable_rasteration=True,
         panel_size=4)
    for m in (64, 128) for s in (2, 3) for p in (T.GemmWarpPolicy.Square, T.GemmWarpPolicy.FullRow)
]
"""
SCRIPT = """#!/bin/sh
# built with: cmake ...
# another line of the head
profiler=cutlass_profiler
# first, 100 us
"$profiler" --kernels='cutlass_tensorop_bf16_s16816gemm_bf16_128x128_32x3_tn_align8' --swizzle_size=4
# second, 110 us
"$profiler" --operation=Gemm \\
  --kernels='cutlass_tensorop_bf16_s16816gemm_bf16_128x64_32x3_tn_align8' \\
  --swizzle_size=8
"$profiler" --kernels=cutlass_tensorop_bf16_s16816gemm_bf16_64x64_32x4_tn_align8
echo done
"""
TABLE = 'tile,stages,warps,"note, mine"\n128x128x64,3,8x1,"fast, I think"\n64x128x64,4,4x1,\n"128x256x64",3,8x1,slow\n'


@pytest.mark.parametrize("suffix", [".py", ".json"])
def test_a_part_of_a_tilelang_file(tmp_path, suffix):
    path = tmp_path / "tl.py"
    path.write_text(TILELANG)
    part, entries = _part(path, [0, 3, 6], suffix)
    assert _same(part, entries)
    if suffix == ".py":
        assert "'policy': T.GemmWarpPolicy.FullRow" in part.read_text()


def test_a_part_of_a_table_keeps_its_columns(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(TABLE)
    part, entries = _part(path, [0, 2], ".csv")
    rows = list(csv.reader(part.open()))
    assert rows == [
        ["tile", "stages", "warps", "note, mine"],
        ["128x128x64", "3", "8x1", "fast, I think"],
        ["128x256x64", "3", "8x1", "slow"],
    ]
    assert _same(part, entries)
    assert _same(_part(path, [1], ".json")[0], [entries[0] | {"tile": "64x128x64", "stages": 4, "warps": "4x1"}])


def test_a_part_of_a_list_keeps_its_objects(tmp_path):
    path = tmp_path / "t.json"
    given = [{"tile": "128x128x64", "stages": 3, "mine": {"a": [1]}}, "tile=64x64x64 stages=3", {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}]  # fmt: skip # noqa: E501
    path.write_text(json.dumps(given))
    part, _ = _part(path, [0, 1], ".json")
    assert json.loads(part.read_text()) == given[:2]


def test_a_part_of_a_script_keeps_the_other_lines(tmp_path):
    path = tmp_path / "t.sh"
    path.write_text(SCRIPT)
    part, entries = _part(path, [0], ".sh")
    assert part.read_text() == "\n".join([*SCRIPT.splitlines()[:6], "echo done"]) + "\n"
    assert _same(part, entries)
    part, entries = _part(path, [1, 2], ".sh")
    assert part.read_text().splitlines() == [*SCRIPT.splitlines()[:4], *SCRIPT.splitlines()[6:]]
    with pytest.raises(UserError, match=r"profiler calls are no JSON candidates: write the part as \.sh"):
        _part(path, [0], ".json")


def test_a_part_is_of_the_same_kind_or_json(configs):
    with pytest.raises(UserError, match=r"a part of my_configs.py is written as .py or .json, not as .csv"):
        _part(configs, [0], ".csv")


# ---- the command


def test_the_command_writes_what_it_says(configs, tmp_path, capsys):
    code, out, err = answer(capsys, "prune", configs, "--shape", SHAPE, "--keep", "6", "-o", tmp_path / "fewer.py")
    assert code == 0
    assert "running" in err
    assert out.startswith(f"109 configs of {configs} on NVIDIA H200 SXM5 141 GB (h200_sxm), keep 6\n")
    assert "kept 6 of 109:" in out
    assert "cannot run:" in out
    assert "expected to keep" in out
    told = json_answer(capsys, "prune", configs, "--shape", SHAPE, "--keep", "6", "-o", tmp_path / "fewer.json")
    assert len(told["kept"]) == 6
    assert 0.8 < told["shapes"][0]["expected_retained"] <= 1.0
    assert told["cannot_run"]
    assert _same(tmp_path / "fewer.py", tmp_path / "fewer.json")


def test_the_command_on_many_shapes(configs, tmp_path, capsys):
    shapes = tmp_path / "shapes.csv"
    shapes.write_text("m,n,k,name\n4096,4096,4096,square\n16,8192,8192,decode\n")
    told = json_answer(capsys, "prune", configs, "--shapes", shapes, "--keep", "3")
    assert [shape["name"] for shape in told["shapes"]] == ["square", "decode"]
    assert set(told["kept"]) == {name for shape in told["shapes"] for name in shape["kept"]}


def test_a_command_without_a_shape_or_with_two_kinds_is_refused(configs, capsys):
    for words in ([], ["--shape", SHAPE, "--shapes", "a.csv"]):
        code, _, err = answer(capsys, "prune", configs, *words)
        assert (code, err) == (
            2, "dse: configs are pruned for shapes: give either --shape MxNxK or --shapes FILE.csv\n",
        )  # fmt: skip


def test_nothing_that_runs_is_an_answer_of_no(tmp_path, capsys):
    path = tmp_path / "a.json"
    path.write_text('[{"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 128, "num_warps": 4, "num_stages": 4}]')
    code, out, _ = answer(capsys, "prune", path, "--shape", SHAPE)
    assert code == 1
    assert "none can run" in out
    assert "1 SMEM, e.g. entry 0: needs 524352 B of shared memory" in out


# ---- measured


DATA = Path(__file__).resolve().parents[2] / "shared/data/measured"


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no measured tables at {DATA}")
def test_measured_schedules_keep_what_was_promised():
    """5 % of CUTLASS's schedules on an H100 keep 97 % and more; on the mean of both tables no less than expected."""
    import check_prune as script

    cutlass = script.read_cutlass_sweep(DATA / "cutlass_h100_schedules.csv", [2048, 6144])
    cute = script.read_cute_sweep(DATA / "cutedsl_rtx3090_schedules.csv")
    h100 = [script.measure("h100_sxm", entry, "5%") for entry in cutlass]
    rows = h100 + [script.measure("rtx_3090", entry, "5%") for entry in cute]
    assert all(row["really kept %"] > 97.0 for row in h100)
    assert all(row["really kept %"] >= row["9 of 10 at least %"] - 2.0 for row in rows)
    real, expected = (np.mean([row[name] for row in rows]) for name in ("really kept %", "expected %"))
    assert real >= expected - 1.0
