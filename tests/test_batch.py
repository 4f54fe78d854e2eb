"""Batches: what a sweep of each problem finds, each problem once, whole after an interrupt, refused if it changed."""

import json
from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import dse.batch.folder
from dse import sweep
from dse.batch import BatchRow, Setting, listed_rows, make_plan, read_batch, run_batch
from dse.batch.columns import OWN
from dse.columns import COST_COLUMNS, TRUST_COLUMNS
from dse.content.model import load_model
from dse.content.space import schedule_fields
from dse.errors import UserError
from dse.kernels.registry import kernel_names
from dse.query import QueryFolder
from dse.schedule_words import words_of

GPUS = ("h100_sxm", "h200_sxm")
AXES = {"launch": ["data_parallel:staged", "split_k:4:staged"], "tile_n": [64, 128], "raster": "along_m:1"}
DECODE_AXES = {"tile_n": [64, 128], "stages": [2, 4]}
SETTING = Setting(GPUS, presets={"": "quick"}, axes={"gemm": AXES, "decode_attention": DECODE_AXES})
GEMM = Setting(GPUS, presets={"": "quick"}, axes={"gemm": AXES})
SHAPES = ["4096x4096x4096", "33x3008x704", "16x8192x8192"]
DECODE = BatchRow("decode", "decode_attention", "64x32/8x1:4096x128", "bf16", (("window", "512"),), 3.0)
KEPT = ["index", "latency_s"]


@pytest.fixture(scope="module")
def rows():
    own = listed_rows(SHAPES, "gemm")
    again = replace(own[0], name="again", count=2.0)
    return [*own, DECODE, again]


@pytest.fixture(scope="module")
def done(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("batch") / "run"
    return run_batch(make_plan(rows, SETTING), folder, top=3, command_line="dse batch test")


def test_columns_mean_what_each_kernel_says(done) -> None:
    (view,) = QueryFolder(done.folder).views()
    assert view.columns["tile_n"][2] == "decode_attention: keys a block; gemm: columns of the output tile of one CTA"
    assert view.columns["swizzle"][2].startswith("width of a launch panel")  # of one kernel alone


def test_the_best_are_those_of_a_sweep_bit_for_bit(rows, done) -> None:
    for place, row in enumerate(rows[:4]):
        for gpu in GPUS:
            axes = SETTING.axes[row.kernel]
            wanted = sweep(
                row.kernel, shape=row.shape, gpu=gpu, preset="quick", axes=axes, top=3, **dict(row.choices)
            ).top.head(3)
            found = done.best[(done.best["row"] == place) & (done.best["gpu"] == gpu)]
            assert found["rank"].tolist() == [0, 1, 2]
            words = words_of(row.kernel)
            for column in (*wanted.select_dtypes("number"), "bound_name"):
                np.testing.assert_array_equal(found[column], wanted[column], err_msg=f"{row.name} {gpu} {column}")
            for text, schedule in zip(found["schedule"], wanted.to_dict("records"), strict=True):
                parsed = words.parse(text, "wgmma")
                assert parsed == {name: schedule[name] for name in parsed}


def test_one_of_each_is_the_first_of_several(rows, done, tmp_path) -> None:
    one = run_batch(make_plan(rows[:3], GEMM), tmp_path / "one")
    first = done.best[(done.best["rank"] == 0) & (done.best["row"] < 3)]
    for name in KEPT:
        assert one.best[name].tolist() == first[name].tolist()


def test_a_problem_that_comes_twice_is_evaluated_once_and_listed_twice(rows, done) -> None:
    plan = make_plan(rows, SETTING)
    assert plan.cases == (len(rows) - 1) * len(GPUS)
    first, again = (done.best[done.best["name"] == name] for name in (SHAPES[0], "again"))
    assert len(first) == len(again) == 3 * len(GPUS)
    for name in KEPT:
        assert first[name].tolist() == again[name].tolist()
    assert set(again["count"]) == {2.0}


def test_the_time_of_a_step_is_the_sum_of_its_kernels(rows, done) -> None:
    for entry in done.steps:
        best = done.best[(done.best["gpu"] == entry["gpu"]) & (done.best["rank"] == 0)].to_dict("records")
        total = sum(row["count"] * float(row["latency_s"]) for row in best)
        assert entry["seconds"] == pytest.approx(total, rel=1e-12)
        assert (entry["problems"], entry["missing"]) == (5, 0)
    assert [entry["gpu"] for entry in done.steps] == list(GPUS)


def test_files_are_hive_partitions_that_three_readers_read_alike(done) -> None:
    best = done.folder / "best"
    by_duckdb = duckdb.sql(
        f"select * from read_parquet('{best}/*/*/*.parquet') where kernel = 'gemm' order by row, gpu, rank"
    ).to_arrow_table()
    by_arrow = ds.dataset(best, partitioning="hive").to_table(filter=ds.field("kernel") == "gemm").to_pandas()
    by_pandas = pd.read_parquet(best, filters=[("kernel", "=", "gemm")])
    wanted = done.best[done.best["kernel"] == "gemm"]
    for name in ("row", "name", "count", "tile_m", "schedule", "bound_name", *KEPT):
        assert by_duckdb[name].to_pylist() == wanted[name].tolist()
        for read in (by_arrow, by_pandas):
            ordered = read.assign(gpu=read["gpu"].astype(str)).sort_values(["row", "gpu", "rank"])
            assert ordered[name].tolist() == wanted[name].tolist()


def test_every_column_has_a_unit_and_every_file_its_making(done) -> None:
    files = sorted(done.folder.glob("best/*/*/*.parquet"))
    assert [file.parent.name for file in files] == ["kernel=decode_attention", "kernel=gemm"] * 2
    for file in files:
        schema = pq.read_schema(file)
        for field in schema:
            assert field.metadata[b"unit"], field.name
            assert field.metadata[b"description"], field.name
        made = json.loads(schema.metadata[b"tilesweep"])
        assert made["gpu"] in GPUS
        assert len(made["gpu_hash"]) == len(made["model_hash"]) == len(made["space_hash"]) == 64
        assert made["command_line"] == "dse batch test"


def test_no_schedule_field_is_called_like_a_column_of_the_batch() -> None:
    taken = {*COST_COLUMNS, *TRUST_COLUMNS, "gpu", "kernel"}
    for name in kernel_names():
        taken |= set(schedule_fields(name))
    assert not taken & set(OWN)


class _Stop:
    """Progress that interrupts once so many files are written."""

    def __init__(self, folder, files: int) -> None:
        self.folder, self.files = folder, files

    def __call__(self, snapshot) -> None:
        if len(list(self.folder.glob("best/*/*/*.parquet"))) >= self.files and not snapshot.finished:
            raise KeyboardInterrupt


def test_an_interrupted_batch_goes_on_and_ends_the_same(rows, done, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("dse.batch.plan.PART_CASES", (1, 1))
    folder = tmp_path / "run"
    plan = make_plan(rows, SETTING)
    assert len(plan.parts) == plan.cases
    with pytest.raises(KeyboardInterrupt):
        run_batch(plan, folder, top=3, progress=_Stop(folder, 3))
    written = {file: file.stat().st_mtime_ns for file in folder.glob("best/*/*/*.parquet")}
    assert 3 <= len(written) < plan.cases
    part_way = read_batch(folder)
    assert part_way.pending > 0
    assert not part_way.none_fits
    assert {entry["seconds"] for entry in part_way.steps} == {None}
    damaged = min(written)
    damaged.write_bytes(damaged.read_bytes()[:-20])
    damaged.with_name(".part-00000.parquet.1.tmp").write_bytes(b"of a writer that was killed")
    finished = run_batch(plan, folder, top=3)
    assert finished.run["problems_now"] == plan.cases - len(written) + 1
    assert all(file.stat().st_mtime_ns == when for file, when in written.items() if file != damaged)
    assert not list(folder.rglob("*.tmp"))
    pd.testing.assert_frame_equal(finished.best, done.best)
    assert finished.steps == done.steps
    once_more = run_batch(plan, folder, top=3)
    assert (once_more.run["problems_now"], once_more.run["evaluated_now"]) == (0, 0)


def test_a_full_disk_loses_nothing_that_is_written(rows, done, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("dse.batch.plan.PART_CASES", (1, 1))
    folder, plan = tmp_path / "run", make_plan(rows, SETTING)
    write_rows = dse.batch.folder.write_rows

    def full(path, *more) -> None:
        if len(list(folder.glob("best/*/*/*.parquet"))) == 2:
            raise UserError(f"cannot write {path}: No space left on device; make room")
        write_rows(path, *more)

    monkeypatch.setattr("dse.batch.folder.write_rows", full)
    with pytest.raises(UserError, match="No space left on device; make room"):
        run_batch(plan, folder, top=3)
    monkeypatch.setattr("dse.batch.folder.write_rows", write_rows)
    finished = run_batch(plan, folder, top=3)
    assert finished.run["problems_now"] == plan.cases - 2
    pd.testing.assert_frame_equal(finished.best, done.best)


@pytest.mark.parametrize("numbers", [{"top": 0}, {"top": 1.5}, {"workers": -1}])
def test_numbers_that_are_none(rows, tmp_path, numbers: dict) -> None:
    with pytest.raises(UserError, match="is not allowed: a whole number, 1 or more"):
        run_batch(make_plan(rows, SETTING), tmp_path / "run", **numbers)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"top": 4}, "top was 3, is 4"),
        ({"rows": [*listed_rows([*SHAPES, "8x8x8"], "gemm"), DECODE]}, r"1 .* came: 8x8x8, 1 problem\(s\) went: again"),
        ({"gpus": ("h100_sxm",)}, "gpus were h100_sxm, h200_sxm, are h100_sxm; choose another folder"),
        (
            {"gpus": "h100_sxm"},
            r"are h100_sxm; choose another folder \(--out\), or replace it \(--overwrite, in Python overwrite=True\)",
        ),
        ({"overrides": {"l2_capacity": "2x"}}, "the numbers of the GPU h100_sxm changed; the numbers of the GPU h200"),
        ({"clock": "sustained"}, "the numbers of the GPU h100_sxm changed"),
        ({"axes": {**SETTING.axes, "gemm": {**AXES, "tile_n": 64}}}, "the space of gemm, wgmma, bf16 changed"),
    ],
)
def test_a_changed_question_is_refused_and_named(rows, done, change: dict, said: str) -> None:
    asked = {name: value for name, value in change.items() if name not in ("top", "rows")}
    plan = make_plan(change.get("rows", rows), replace(SETTING, **asked))
    before = {file: file.stat().st_mtime_ns for file in done.folder.rglob("*.*")}
    with pytest.raises(UserError, match=rf"asked something else, results would not mix: .*{said}"):
        run_batch(plan, done.folder, top=change.get("top", 3))
    assert before == {file: file.stat().st_mtime_ns for file in done.folder.rglob("*.*")}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", r"batch\.json is damaged \(.+\): start anew with --overwrite"),
        ("[1]", r"batch\.json is damaged \(a list, not an object\)"),
        ('{"rows": [1], "gpus": {}}', r"batch\.json is damaged \(no gpus, parts\): start anew with --overwrite"),
    ],
)
def test_a_damaged_question_is_one_message(tmp_path, text: str, said: str) -> None:
    (tmp_path / "batch.json").write_text(text)
    with pytest.raises(UserError, match=said):
        read_batch(tmp_path)


def test_another_folder_is_left_alone_and_a_batch_can_be_replaced(rows, tmp_path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    plan = make_plan(rows[:1], GEMM)
    with pytest.raises(UserError, match="is not empty and holds no batch"):
        run_batch(plan, tmp_path, overwrite=True)
    assert (tmp_path / "mine.txt").read_text() == "keep"
    folder = tmp_path / "run"
    run_batch(plan, folder)
    other = run_batch(make_plan(rows[1:2], GEMM), folder, overwrite=True)
    assert set(other.best["name"]) == {SHAPES[1]}


def test_a_problem_that_nothing_can_run_is_named_and_the_others_stand(tmp_path) -> None:
    setting = Setting(("h200_sxm",), presets={"": "quick"}, axes={"": {**AXES, "launch": "split_k:4:staged"}})
    result = run_batch(make_plan(listed_rows(["256x256x64", "256x256x65536"], "gemm"), setting), tmp_path / "run")
    assert result.none_fits == [{"name": "256x256x64", "kernel": "gemm", "shape": "256x256x64", "gpu": "h200_sxm"}]
    assert result.best["name"].tolist() == ["256x256x65536"]
    assert [(entry["seconds"], entry["missing"]) for entry in result.steps] == [(None, 1)]


def test_a_space_of_which_nothing_fits_at_all(tmp_path) -> None:
    axes = {"tile_m": 256, "tile_n": 256, "warps": "1wg"}
    result = run_batch(
        make_plan(listed_rows(SHAPES, "gemm"), Setting(("h200_sxm",), axes={"": axes})), tmp_path / "run"
    )
    assert [lost["name"] for lost in result.none_fits] == SHAPES
    assert not len(result.best)


def test_presets_of_kernels_that_have_none_of_this_name() -> None:
    rows = [*listed_rows(SHAPES[:1], "gemm"), *listed_rows(["64x2048x768x128x8"], "moe")]
    plan = make_plan(rows, Setting(("h200_sxm",), presets={"": "library"}))
    assert plan.notes == ("moe: no preset library, so the whole space is evaluated",)
    with pytest.raises(UserError, match="library"):
        make_plan(rows[1:], Setting(("h200_sxm",), presets={"": "library"}))
    with pytest.raises(UserError, match="--preset is given for attention, but the batch holds gemm, moe only"):
        make_plan(rows, Setting(("h200_sxm",), presets={"attention": "quick"}))


@pytest.mark.parametrize(
    ("gpus", "said"),
    [
        (("h200_sxm", "h200_sxm"), "the GPU h200_sxm is given twice"),
        (("h200_smx",), "unknown GPU 'h200_smx'.*did you mean 'h200_sxm'"),
        ((), "no GPU is given: name one or several"),
    ],
)
def test_gpus_that_are_wrong(gpus: tuple[str, ...], said: str) -> None:
    with pytest.raises(UserError, match=said):
        make_plan(listed_rows(SHAPES, "gemm"), Setting(gpus))


def test_a_row_that_a_gpu_cannot_do_is_named() -> None:
    with pytest.raises(UserError, match=r"4096x4096x4096 \(gemm\) on a100_sxm: .*nvfp4"):
        make_plan(listed_rows(SHAPES, "gemm", "nvfp4"), Setting(("a100_sxm",)))


def test_a_model_and_its_steps_in_one_plan() -> None:
    from dse.batch import Serving, model_rows

    serving = Serving(tps=(1, 8), lengths=(2048,), batches=(1, 64))
    rows = model_rows(load_model("llama3_70b"), serving)
    plan = make_plan(rows, Setting(("h200_sxm", "b200_sxm"), presets={"": "quick"}))
    assert len({row.step for row in rows}) == 6
    on_each = plan.cases // 2
    assert plan.work_text.startswith(
        f"{len(rows)} problems x 2 GPUs (h200_sxm, b200_sxm), {on_each} distinct on each, "
    )
    assert {(part.gpu, part.kernel) for part in plan.parts} == {
        (gpu, kernel) for gpu in ("h200_sxm", "b200_sxm") for kernel in ("gemm", "attention", "decode_attention")
    }
    large = make_plan([row for row in rows if row.kernel == "gemm"], Setting("h200_sxm"))  # a name, not its letters
    assert [len(part.cases) for part in large.parts][:4] == [1, 2, 4, 8]  # something stands soon
    assert [part.number for part in large.parts] == list(range(len(large.parts)))
    asked = sum(len(case.rows) for part in plan.parts for case in part.cases)
    assert asked == 2 * len(rows)
    assert plan.cases < asked  # lm_head of one row runs in prefill and in decode
