"""Run folders and Parquet files: read alike by three readers, self-describing, whole or absent, safe to resume."""

import dataclasses
import json

import duckdb
import jax
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from fake_kernel import OBJECTIVES, FakeGpu, FakeProblem, fake_cost, fake_job

from dse.errors import UserError
from dse.job_of import make_job
from dse.question import ask
from dse.read_run import read_run
from dse.runs import save_question
from dse.store import as_table, read_provenance, read_rows, row_schema, write_rows
from dse.sweep import run_sweep


@pytest.fixture
def kept(tmp_path):
    job = fake_job(chunk_lanes=1024)
    return job, run_sweep(job, out=tmp_path / "run", keep="all", command_line="dse sweep fake"), tmp_path / "run"


def test_every_row_is_there_once_and_right(kept):
    job, _, folder = kept
    rows = pq.read_table(sorted(folder.glob("rows-*.parquet"))).to_pandas()
    assert rows["index"].tolist() == list(range(job.candidates))
    fields = job.space.rows(rows["index"].to_numpy())
    cost = fake_cost(job.problem, job.model.schedule(fields), job.gpu)
    for name in (*OBJECTIVES, "reason"):
        assert (rows[name].to_numpy() == np.broadcast_to(getattr(cost, name), len(rows))).all(), name
    for name, values in fields.items():
        assert (rows[name].to_numpy() == values).all()
    assert rows["pipeline"].tolist() == [f"s{stages}" for stages in fields["stages"]]
    assert set(rows["reason_name"]) == {"OK", "SMEM", "SPLIT_K"}


def test_duckdb_pandas_and_pyarrow_read_alike(kept):
    _, result, folder = kept
    for name, table in (("top", result.top), ("front", result.front)):
        path = folder / f"{name}.parquet"
        by_arrow = pq.read_table(path).to_pandas()
        by_pandas = pd.read_parquet(path)
        by_duckdb = duckdb.sql(f"select * from '{path}'").to_arrow_table().to_pandas()
        for read in (by_arrow, by_pandas, by_duckdb):
            assert list(read.columns) == list(table.columns)
            for column in table:
                assert read[column].tolist() == table[column].tolist(), column
    best = duckdb.sql(
        f"select index from '{folder}/rows-*.parquet' where reason = 0 order by latency_s, index limit 10"
    )
    assert [index for (index,) in best.fetchall()] == result.top["index"].tolist()[:10]


def test_columns_say_their_unit_and_meaning(kept):
    _, _, folder = kept
    for path in folder.glob("*.parquet"):
        for field in pq.read_schema(path):
            assert field.metadata[b"unit"], field.name
            assert len(field.metadata[b"description"]) > 5, field.name
    assert pq.read_schema(folder / "top.parquet").field("latency_s").metadata[b"unit"] == b"s"


def test_all_files_of_rows_share_their_columns_types(kept):
    _, _, folder = kept
    schemas = [pq.read_schema(path).remove_metadata() for path in folder.glob("*.parquet")]
    assert all(schema.equals(schemas[0]) for schema in schemas)
    numbers = {
        "index": np.arange(2),
        "tile_m": np.arange(2.0),
        "latency_s": np.arange(2),
        "launch": np.array(["a", "b"]),
    }
    assert [str(kind) for kind in row_schema(numbers).types] == ["uint64", "int32", "float", "string"]


def test_files_say_how_they_were_made(kept):
    job, result, folder = kept
    for path in folder.glob("*.parquet"):
        made = read_provenance(path)
        assert made["space_hash"] == job.space.hash
        assert made["gpu"] == "fake"
        assert made["command_line"] == "dse sweep fake"
        assert made["problem"] == {"work": 5.0}
        assert made["versions"]["jax"] == jax.__version__
        for name in ("cpu", "model_hash", "created", "device"):
            assert made[name], name
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["feasible"] == result.feasible == sum(entry["count"] for entry in summary["histogram"])
    assert summary["reasons"] == result.reasons
    assert read_provenance(folder / "top.parquet")["summary"]["feasible"] == result.feasible


def test_floats_are_split_by_byte_and_everything_is_zstd(kept):
    _, _, folder = kept
    group = pq.ParquetFile(next(folder.glob("rows-*.parquet"))).metadata.row_group(0)
    for place in range(group.num_columns):
        column = group.column(place)
        assert column.compression == "ZSTD"
        if column.physical_type == "FLOAT":
            assert "BYTE_STREAM_SPLIT" in column.encodings


def test_a_run_is_read_back(kept):
    _, result, folder = kept
    run = read_run(folder)
    pd.testing.assert_frame_equal(run.top, result.top, check_dtype=False)
    pd.testing.assert_frame_equal(run.front, result.front, check_dtype=False)
    assert run.summary["incomplete"] is False


def test_a_used_folder_is_refused_unless_its_run_is_the_same(kept, tmp_path):
    job, result, folder = kept
    with pytest.raises(
        UserError, match=r"another one, results would not mix: keep was 'all', is 'best'; .* --overwrite"
    ):
        run_sweep(job, out=folder)
    again = run_sweep(job, out=folder, overwrite=True)
    assert again.top.equals(result.top)
    assert not list(folder.glob("rows-*"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("do not touch")
    for options in ({}, {"overwrite": True}):
        with pytest.raises(UserError, match=r"mine is not empty and holds no run of tilesweep \(no run.json\)"):
            run_sweep(job, out=tmp_path / "mine", **options)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write into the folder .*file/run: .*; choose another with --out"):
        run_sweep(fake_job(), out=tmp_path / "file" / "run")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"problem": FakeProblem(work=6.0)}, r"problem was \{'work': 5.0\}, is \{'work': 6.0\}"),
        ({"gpu": FakeGpu(speed=2.0, smem_max=150.0)}, "the GPU's numbers changed"),
        (
            {"objectives": ("latency_s",)},
            r"objectives was \['latency_s', 'ddr_bytes', 'smem_bytes'\], is \['latency_s'\]",
        ),
        ({"stop": 3000}, r"range was \['0', '3185'\], is \['0', '3000'\]"),
        ({"space": fake_job().space.restrict({"order": [0, 1]})}, "the space changed"),
    ],
)
def test_resume_refuses_another_run_and_says_what_changed(kept, changes, text):
    job, _, folder = kept
    with pytest.raises(UserError, match="is another one, results would not mix: .*" + text):
        run_sweep(dataclasses.replace(job, **changes), out=folder, keep="all")


def test_resume_refuses_another_model(kept, monkeypatch):
    job, _, folder = kept
    monkeypatch.setattr("dse.provenance.model_hash", lambda: "other")
    with pytest.raises(UserError, match="the model's code changed"):
        run_sweep(job, out=folder, keep="all")


def test_resume_of_a_finished_run_evaluates_nothing_and_returns_the_same(kept):
    job, result, folder = kept
    seen = []
    again = run_sweep(job, progress=seen.append, out=folder, keep="all")
    assert seen[0].done == job.candidates
    assert again.top.equals(result.top)
    assert again.front.equals(result.front)
    assert again.reasons == result.reasons


@pytest.mark.parametrize("damage", ["missing", "cut off"])
def test_resume_writes_lost_parts_again(kept, damage):
    job, result, folder = kept
    part = next(folder.glob("rows-*"))
    rows = pq.read_table(part)
    whole = part.read_bytes()
    part.unlink()
    if damage == "cut off":
        part.write_bytes(whole[:-100])
    again = run_sweep(job, out=folder, keep="all")
    assert pq.read_table(part).equals(rows)
    assert again.reasons == result.reasons
    assert again.front.equals(result.front)


def test_resume_of_a_folder_with_damaged_state(kept):
    job, _, folder = kept
    (folder / "state.npz").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(UserError, match=r"state\.npz is damaged .*: start anew with --overwrite"):
        run_sweep(job, out=folder, keep="all")


def test_a_truncated_part_is_named(kept):
    _, _, folder = kept
    part = next(folder.glob("rows-*"))
    part.write_bytes(part.read_bytes()[:-100])
    with pytest.raises(
        UserError, match=r"rows-0+\.parquet is truncated or damaged .* write it again by running the same command"
    ):
        read_rows(part)
    with pytest.raises(UserError, match="does not exist"):
        read_rows(folder / "nothing.parquet")


def test_a_foreign_file_is_named(tmp_path):
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(UserError, match=r"other\.parquet was not written by tilesweep"):
        read_rows(tmp_path / "other.parquet")


def test_a_writer_that_fails_leaves_nothing(tmp_path, monkeypatch):
    table = as_table({"index": np.arange(3), "latency_s": np.arange(3.0)})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
    with pytest.raises(UserError, match=r"cannot write .*top\.parquet: No space left on device; make room or choose"):
        write_rows(tmp_path / "top.parquet", table, {})
    assert not list(tmp_path.iterdir())


def test_a_question_that_cannot_be_written_is_one_message(tmp_path):
    asked = ask("512x512x512")
    with pytest.raises(UserError, match=r"cannot write .*question\.json: No such file or directory; make room"):
        save_question(asked, make_job(asked), tmp_path / "gone")


def test_indices_past_64_bits_are_text(tmp_path):
    table = as_table({"index": np.array([str(2**70)], object), "latency_s": np.ones(1)}, big_index=True)
    write_rows(tmp_path / "top.parquet", table, {})
    assert read_rows(tmp_path / "top.parquet")["index"].to_pylist() == [str(2**70)]
