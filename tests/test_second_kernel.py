"""A kernel of the user's own, a file and a space in a folder of DSE_PATH (tests/user_folder), goes where GEMM goes."""

import json
import pickle
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cli_run import answer, json_answer

from dse import UserError, explain, load_gpu, open_run, rank, search, sweep, sweep_shapes
from dse.kernels.registry import get_kernel, kernel_names
from dse.question import ask

FOLDER = Path(__file__).parent / "user_folder"
SHAPE = "5000x1000"
BYTES = 2 * 5000 * 1000 * 2


@pytest.fixture(autouse=True)
def user_folder(monkeypatch):
    monkeypatch.setenv("DSE_PATH", str(FOLDER))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSE_PATH", str(FOLDER))
        return sweep("toy", shape=SHAPE, flip=True, out=folder)


def test_a_kernel_in_a_users_folder_is_known_by_its_file(monkeypatch):
    assert "toy" in kernel_names()
    kernel = get_kernel("toy")
    assert kernel.schedule_fields == ("tile_rows", "stages", "order")
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    monkeypatch.delenv("DSE_PATH")
    assert "toy" not in kernel_names()
    with pytest.raises(UserError, match=r"unknown kernel 'toy'; known: .*gemm"):
        get_kernel("toy")


def test_a_users_file_that_cannot_be_imported_says_so(tmp_path, monkeypatch):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/broken_toy.py").write_text("KERNELS = 1 / 0\n")
    monkeypatch.setenv("DSE_PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"kernels/broken_toy\.py in DSE_PATH cannot be used: ZeroDivisionError"):
        get_kernel("broken_toy")


def test_a_sweep_finds_what_the_model_says(run):
    gpu = load_gpu("h200_sxm")
    limit, ddr = gpu["smem_per_cta_max_bytes"], gpu["ddr_bytes_per_s"]
    fit = [(rows, stages) for rows in (1, 2, 4, 8, 16, 32, 64) for stages in (1, 2, 3) if rows * stages * 4096 <= limit]
    assert (run.declared, run.feasible) == (42, 2 * len(fit))
    assert run.reasons == {"SMEM": 42 - 2 * len(fit)}
    best = run.top.iloc[0]
    assert best["latency_s"] == pytest.approx(BYTES / ddr + gpu["launch_overhead_s"], rel=1e-5)
    assert best["bound_name"] == "ddr"
    assert run.trust is None


def test_a_run_folder_opens_again_and_says_what_its_columns_are(run):
    opened = open_run(run.folder)
    assert opened.job.problem == ask(SHAPE, kernel="toy", flip=True).problem
    assert opened.job.space.kernel == "toy"
    assert not opened.stale
    field = pq.read_schema(Path(run.folder) / "top.parquet").field("order")
    assert field.metadata[b"unit"] == b"code"
    assert field.metadata[b"description"] == b"how CTAs go over the rows: 0 down, 1 pingpong"
    assert pq.read_schema(Path(run.folder) / "top.parquet").field("tile_rows").metadata[b"unit"] == b"rows"


def test_a_run_is_stale_once_the_users_own_model_changes(tmp_path, monkeypatch):
    shutil.copytree(FOLDER, tmp_path / "mine")
    for name in ("", "_model"):
        source = (tmp_path / f"mine/kernels/{'_' if name else ''}toy{name}.py").read_text()
        changed = source.replace("_toy_model", "_own_model").replace('"toy"', '"own"')
        (tmp_path / f"mine/kernels/{'_' if name else ''}own{name}.py").write_text(changed)
    (tmp_path / "mine/spaces/toy").rename(tmp_path / "mine/spaces/own")
    (tmp_path / "mine/hardware/implementations/toy").rename(tmp_path / "mine/hardware/implementations/own")
    space = tmp_path / "mine/spaces/own/simt.toml"
    space.write_text(space.read_text().replace('"toy"', '"own"'))
    monkeypatch.setenv("DSE_PATH", str(tmp_path / "mine"))
    made = sweep("own", shape=SHAPE, out=tmp_path / "run")
    assert made.top.iloc[0]["bound_name"] == "ddr"
    assert not open_run(tmp_path / "run").stale
    model = tmp_path / "mine/kernels/_own_model.py"
    model.write_text(model.read_text() + "\n# another model\n")
    assert open_run(tmp_path / "run").stale


def test_a_schedule_is_explained_in_words_of_its_fields():
    at = explain("tile_rows=64 order=pingpong", kernel="toy", shape=SHAPE)
    assert dict(at.schedule) == {"tile_rows": 64, "stages": 1, "order": 1}
    assert not at.feasible
    assert at.why_not == ("SMEM: needs 262144 B of shared memory, 232448 B available: fewer stages or smaller tiles")
    at = explain({"tile_rows": 32, "stages": 1}, kernel="toy", shape="64x1000000", pad=3)
    text = str(at)
    assert text.startswith("toy 64x1000000 bf16, pad 3 on h200_sxm, simt\nschedule  tile_rows=32 stages=1 order=down\n")
    assert "CUDA core" in text
    assert "tensor_efficiency" not in text
    assert at.roof.roof == "DDR bandwidth"
    assert at.cost["ddr_bytes"] / at.roof.compulsory_bytes == pytest.approx(1.000003)
    assert at.advice[0].startswith("DRAM moves hardly more than it must")
    assert at.advice[1].endswith("% is the tail: tile_rows below 32")
    assert at.advice[-1] == "6% may be buffers"
    assert explain(at.to_dict()["schedule_text"], kernel="toy", shape="64x1000000").schedule == at.schedule


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("stages=2", "the schedule lacks tile_rows; write e.g. tile_rows=4"),
        ("tile_rows=4 order=up", "unknown order 'up'; known: down, pingpong"),
        ("tile_rows=4 order=2", "unknown order '2'; known: down, pingpong"),
        ("tile_rows=-4", "tile_rows=-4 is not allowed: a whole number from 0 to 2\\^24"),
        ("tile_row=4", "unknown field of a schedule of toy 'tile_row'; known: .*did you mean 'tile_rows'"),
        ("tile_rows=4 tile_rows=8", "the schedule gives tile_rows twice"),
        ("tile_rows", "cannot read 'tile_rows' in the schedule: write KEY=VALUE words, e.g. tile_rows=4"),
    ],
)
def test_a_schedule_that_is_wrong_says_what_is_allowed(words, text):
    with pytest.raises(UserError, match=text):
        explain(words, kernel="toy", shape=SHAPE)


def test_candidates_are_ranked_and_a_gemm_config_is_refused():
    table = rank(["tile_rows=64", "tile_rows=2", {"tile_rows": 4, "order": "pingpong"}], kernel="toy", shape=SHAPE)
    assert list(table["schedule"]) == [
        "tile_rows=2 stages=1 order=down",
        "tile_rows=4 stages=1 order=pingpong",
        "tile_rows=64 stages=1 order=down",
    ]
    assert list(table["feasible"]) == [True, True, False]
    config = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3}
    with pytest.raises(UserError, match=r"config of a GEMM, but the problem is of toy: give schedules, e\.g\. 'tile_r"):
        rank([config], kernel="toy", shape=SHAPE)


def test_a_search_samples_the_space():
    found = search("toy", shape=SHAPE, trials=20, seed=1)
    assert found.best.iloc[0]["latency_s"] == found.trials["latency_s"].min()


def test_choices_are_options_and_those_of_other_kernels_are_refused(capsys):
    base = ("sweep", "toy", "--shape", SHAPE, "--out", "unused", "--quiet")
    for words, text in (
        (("--layout", "tn"), "dse: --layout is a choice of gemm.*; toy has --flip, --pad, --order, --implementation"),
        (("--flip", "false", "--pad", "65"), r"--pad = 65 is not allowed: a whole number from 0 to 64"),
        (("--order", "left"), "unknown order 'left'; known: down, up"),
        (("--accumulator", "fp32"), "--accumulator fp32: toy runs no tensor instruction, leave it out"),
        (("--family", "wgmma"), "unknown family of toy 'wgmma'; known: simt"),
        (("--space", "gemm/wgmma"), "the space gemm/wgmma is of gemm, but the problem is of toy"),
    ):
        code, _, err = answer(capsys, *base, *words)
        assert code == 2
        assert re.search(text, err), err
    code, _, err = answer(capsys, "sweep", "gemm", "--shape", "64x64x64", "--flip", "--quiet")
    assert code == 2
    assert "--flip is a choice of toy; gemm has --out-dtype, --layout, --beta, --cache, --align, --quantise-a" in err
    with pytest.raises(UserError, match="--pad = many is not allowed: a whole number from 0 to 64"):
        ask(SHAPE, kernel="toy", pad="many")
    with pytest.raises(UserError, match="--flip = 'maybe' is neither true nor false"):
        ask(SHAPE, kernel="toy", flip="maybe")


def test_a_truth_needs_no_word_and_does_not_swallow_the_next(capsys, tmp_path):
    words = ("--shape", SHAPE, "--quiet", "--overwrite", "--out", tmp_path / "run")
    for given, flipped in (
        (("--flip", "toy"), True),
        (("toy", "--flip", "false"), False),
        (("--flip=true", "toy"), True),
    ):
        json_answer(capsys, "sweep", *given, *words)
        assert open_run(tmp_path / "run").job.problem.flip is flipped


def test_help_shows_the_choices_of_the_kernel_that_is_named(capsys):
    code, out, _ = answer(capsys, "sweep", "toy", "--help")
    assert code == 0
    assert "ROWSxCOLS" in out
    assert "MxNxK" not in out
    shown = " ".join(out.split())
    assert "which way rows are read: up, down (default: up)" in shown
    assert "rows are written in reverse (default: false)" in shown
    assert "--layout" not in out
    _, out, _ = answer(capsys, "sweep", "--help")
    assert "--layout" in out  # without a name, those of gemm
    assert "--flip" not in out
    assert "KERNEL --help shows the choices of that one" in " ".join(out.split())


def test_tables_show_what_varies_and_say_the_rest_once(capsys, run):
    _, out, _ = answer(capsys, "top", run.folder, "-n", 4)
    lines = out.splitlines()
    assert lines[0] == "toy 5000x1000 bf16, flip true on h200_sxm, toy/simt"
    assert "order" not in lines[1]
    _, out, _ = answer(capsys, "top", run.folder, "-n", 30, "--distinct", "stages")
    assert [line.split()[-1] for line in out.splitlines()[2:5]] == ["1", "2", "3"]
    assert "all: tile_rows=1" in out
    code, _, err = answer(capsys, "top", run.folder, "--distinct", "tile")
    assert (code, "unknown word to tell schedules apart by 'tile'" in err) == (2, True)


def test_shape_lists_have_a_shape_column_and_the_kernels_choices(tmp_path):
    path = tmp_path / "shapes.csv"
    path.write_text("shape,pad,flip,dtype,count\n100x100,3,,fp16,2\n200x100,,true,,1\n")
    results, summary = sweep_shapes(path, kernel="toy")
    first, second = (results[name].job.problem for name in results)
    assert (first.pad, first.flip, first.dtype) == (3, False, "fp16")
    assert (second.pad, second.flip, second.dtype) == (0, True, "bf16")
    assert list(summary["name"]) == ["100x100 pad=3", "200x100 flip=true"]
    assert summary["tile_rows"].notna().all()
    path.write_text("m,n,k\n1,1,1\n")
    with pytest.raises(UserError, match=r"column in .*'m'; known: count, dtype, flip, implementation, name, order"):
        sweep_shapes(path, kernel="toy")


def test_what_knows_no_other_kernel_says_which_it_serves(capsys, run):
    for words in (("report", run.folder), ("shortlist", run.folder), ("export", run.folder, "--to", "triton")):
        code, _, err = answer(capsys, *words)
        assert code == 2
        assert "serves gemm, not toy; of every kernel there are dse sweep" in err
    code, _, err = answer(capsys, "portfolio", "toy", "--shape", SHAPE)
    assert (code, "dse portfolio serves gemm, not toy" in err) == (2, True)


def test_exports_are_read_back(capsys, run, tmp_path):
    code, out, _ = answer(capsys, "export", run.folder, "--to", "json", "--count", 3)
    rows = json.loads(out)
    assert code == 0
    assert (rows[0]["shape"], rows[0]["flip"]) == (SHAPE, True)
    (tmp_path / "mine.json").write_text(out)
    found = json_answer(capsys, "rank", tmp_path / "mine.json", "--kernel", "toy", "--shape", SHAPE)
    assert [row["tile_rows"] for row in found["candidates"]] == [row["tile_rows"] for row in rows]


def test_studies_take_any_kernel(capsys, run):
    code, out, _ = answer(capsys, "compare", f"{run.folder}:0", "tile_rows=1 order=pingpong")
    assert code == 0
    assert "down -> pingpong" in out
    for words in (("--gpu-b", "h100_sxm"), ("--set-b", "ddr_bandwidth=2x", "--retune")):
        code, out, err = answer(capsys, "compare", f"{run.folder}:0", *words, "--quiet")
        assert code == 0, err
        assert out.startswith("toy 5000x1000 bf16, flip true")
    code, out, _ = answer(capsys, "sensitivity", run.folder, 0)
    assert code == 0
    assert out.startswith("toy 5000x1000 bf16, flip true on h200_sxm, simt")
    assert "ddr_bytes_per_s" in out


def test_a_problem_and_another_kernel_are_not_asked_together():
    problem = ask(SHAPE, kernel="toy").problem
    assert sweep(shape=problem).job.space.kernel == "toy"
    with pytest.raises(UserError, match="the problem toy 5000x1000 bf16 is of toy, not of gemm"):
        sweep("gemm", shape=problem)
