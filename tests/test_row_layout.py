"""All rows of a sweep: the columns there are and those that are chosen, the same values whoever reads them."""

import dataclasses
import resource

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_run import answer, small_sweep
from fake_kernel import fake_job, fake_space
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.axis import Axis
from dse.errors import UserError
from dse.parts import PartFolder
from dse.row_layout import RowLayout, chosen_columns, column_names, digits_of_run, needed_columns
from dse.rows import evaluate_rows
from dse.store import row_writer
from dse.sweep import run_sweep
from dse.trust.label import BucketInterval, TrustLabel

EVALUATED = ("tile", "stages", "order", "split", "latency_s", "reason", "ddr_bytes", "smem_bytes")
ALL = ("index", "pipeline", *EVALUATED, "reason_name")
BUCKETS = ("0-10", "10-30", "30-100", "100-300", "300-1000", "1000+")


def label() -> TrustLabel:
    intervals = tuple(BucketInterval(name, 0.9 - at / 100, 1.1 + at / 100, 7, 3) for at, name in enumerate(BUCKETS))
    return TrustLabel(0.9, "h100_sxm", "bf16", "square", (), "cell", (), intervals)


def block(space, start: int, count: int) -> dict[str, np.ndarray]:
    """Columns as the device brings them, out of order."""
    random = np.random.default_rng(start % 2**32)
    fields = space.rows(range(start, start + count))
    costs = {"smem_bytes": random.integers(0, 99, count), "reason": random.integers(0, 3, count)}
    costs |= {"ddr_bytes": random.random(count), "latency_s": random.random(count) * 1e-3}
    kinds = {**dict.fromkeys((*fields, "reason"), np.int32)}
    return {name: np.asarray(at, kinds.get(name, np.float32)) for name, at in (fields | costs).items()}


@settings(max_examples=300, deadline=None)
@given(
    start=st.one_of(st.integers(0, 2**80), st.integers(0, 5000)),
    count=st.integers(1, 400),
    stride=st.one_of(st.integers(1, 500), st.integers(1, 2**70)),
    radix=st.integers(1, 300),
)
def test_digits_are_those_of_each_index(start, count, stride, radix):
    digits = digits_of_run(start, count, stride, radix)
    assert digits.tolist() == [index // stride % radix for index in range(start, start + count)]


def test_tables_say_what_the_rows_are():
    space = fake_space()
    layout = RowLayout(space, EVALUATED, label())
    assert layout.columns == (*ALL, "latency_low_s", "latency_high_s")
    start, count = 1234, 777
    given = block(space, start, count)
    table = layout.table(start, given).to_pandas()
    assert table["index"].tolist() == list(range(start, start + count))
    assert table["pipeline"].tolist() == [space.labels(index)["pipeline"] for index in table["index"]]
    for name in EVALUATED:
        assert (table[name].to_numpy() == given[name]).all(), name
    assert table["reason_name"].map({"OK": 0, "STAGES": 1, "THREADS": 2}.get).notna().any()
    low, high = label().interval(given["latency_s"])
    assert (table["latency_low_s"] == low.astype(np.float32)).all()
    assert (table["latency_high_s"] == high.astype(np.float32)).all()


def test_numbers_are_not_copied_on_the_way_to_the_file():
    given = block(fake_space(), 0, 100)
    table = RowLayout(fake_space(), EVALUATED).table(0, given)
    for name in EVALUATED:
        assert table[name].chunk(0).buffers()[1].address == given[name].ctypes.data, name


def test_rows_past_64_bits_have_their_index_as_text():
    wide = tuple(Axis.of(f"field{at}", range(1, 1001)) for at in range(7))
    named = Axis("pipeline", ("stages",), ((1,), (2,)), ("a", "b"))
    space = dataclasses.replace(fake_space(), axes=(named, *wide))
    assert space.size > 2**64
    start = space.size // 2 - 3
    table = RowLayout(space, ("stages",)).table(start, {"stages": np.array([1, 1, 1, 2, 2], np.int32)}).to_pandas()
    assert table["index"].tolist() == [str(start + at) for at in range(5)]
    assert table["pipeline"].tolist() == ["a", "a", "a", "b", "b"]


def test_a_kept_row_is_what_the_row_alone_is(tmp_path):
    job = fake_job(start=100, stop=2500)
    run_sweep(job, out=tmp_path / "run", keep="all")
    rows = pq.read_table(sorted((tmp_path / "run").glob("rows-*"))).to_pandas()
    alone = evaluate_rows(job, range(100, 2500))
    pd.testing.assert_frame_equal(rows[list(alone.columns)], alone, check_dtype=False)
    assert sorted(rows.columns) == sorted(alone.columns)


def test_chosen_columns_are_those_of_the_whole_files(tmp_path):
    job = fake_job()
    some = ("ddr_bytes", "reason_name", "pipeline", "latency_s", "split")
    chosen = chosen_columns(job, some)
    assert chosen == ("index", "pipeline", "split", "latency_s", "ddr_bytes", "reason_name")
    run_sweep(job, out=tmp_path / "all", keep="all")
    result = run_sweep(dataclasses.replace(job, row_columns=chosen), out=tmp_path / "some", keep="all")
    whole, part = (pq.read_table(sorted((tmp_path / name).glob("rows-*"))) for name in ("all", "some"))
    assert part.column_names == list(chosen)
    assert part.equals(whole.select(list(chosen)))
    assert part.schema.field("latency_s").metadata[b"unit"] == b"s"
    assert "smem_bytes" in result.front  # the tables of the best and the front have all columns


def test_what_chosen_columns_need():
    space = fake_space()
    assert needed_columns(space, ("index", "latency_low_s", "reason_name")) == ("latency_s", "reason")
    assert needed_columns(space, ("index",)) == ("tile",)
    layout = RowLayout(space, ("latency_s",), label(), ("index", "latency_high_s"))
    assert layout.table(0, {"latency_s": np.ones(3, np.float32)}).column_names == ["index", "latency_high_s"]
    assert RowLayout(space, ("tile",), None, ("index",)).table(5, {"tile": np.ones(2, np.int32)}).num_columns == 1


def test_columns_that_are_not_there():
    job = fake_job()
    with pytest.raises(UserError, match=r"unknown column 'latency'; known: .*ddr_bytes, index, .*'latency_s'"):
        chosen_columns(job, ("latency",))
    with pytest.raises(UserError, match="unknown column 'energy_j'"):  # of other kernels
        chosen_columns(job, ("energy_j",))
    with pytest.raises(UserError, match="the column 'ddr_bytes' is given twice: give it once"):
        chosen_columns(job, ("ddr_bytes", "ddr_bytes"))


def test_a_run_with_other_columns_is_another_run(tmp_path):
    job = fake_job(row_columns=("index", "latency_s"))
    run_sweep(job, out=tmp_path / "run", keep="all")
    with pytest.raises(UserError, match=r"columns was \['index', 'latency_s'\], is None"):
        run_sweep(dataclasses.replace(job, row_columns=None), out=tmp_path / "run", keep="all")


def test_duckdb_pandas_and_pyarrow_read_every_row_alike(tmp_path):
    space = fake_space()
    path = tmp_path / "rows.parquet"
    layout = RowLayout(space, EVALUATED, label())
    tables = [layout.table(start, block(space, start, 500)) for start in (0, 500, 1000)]
    with row_writer(path, layout.schema, {"made": "here"}) as writer:
        writer.write_table(pa.concat_tables(tables), 600)
        writer.write_table(layout.table(1500, block(space, 1500, 10)), 600)
    by_arrow = pq.read_table(path)
    by_pandas = pd.read_parquet(path)
    by_duckdb = duckdb.sql(f"from '{path}'").to_arrow_table().to_pandas()
    expected = pa.concat_tables(tables).to_pandas()
    assert by_arrow.num_rows == 1510
    assert by_arrow.to_pandas().equals(by_pandas)
    assert by_duckdb.equals(by_pandas)
    assert (by_duckdb.dtypes == by_pandas.dtypes).all()
    for name in expected:
        assert by_pandas[name][:1500].tolist() == expected[name].tolist(), name
    assert [str(by_arrow.schema.field(name).type) for name in ("pipeline", "reason_name")] == ["string"] * 2
    assert by_arrow.schema.field("pipeline").metadata[b"description"] == b"axis pipeline of the space"
    counted = dict(duckdb.sql(f"select reason_name, count(*) from '{path}' group by all").fetchall())
    assert counted == by_pandas["reason_name"].value_counts().to_dict()


def test_a_disk_that_is_full_leaves_no_part_of_a_part(tmp_path):
    space = dataclasses.replace(fake_space(), axes=(Axis.of("tile", range(1000)), Axis.of("order", range(1000))))
    noise = np.random.default_rng(0).random(2**17).astype(np.float32)
    columns = {"tile": np.zeros(2**17, np.int32), "latency_s": noise}

    def write():
        with PartFolder(tmp_path, space, {}).part(0) as part:
            for _ in range(4):
                part.add(columns)

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, before[1]))  # no file may grow past it
    try:
        with pytest.raises(UserError, match=r"cannot write .*rows-0+\.parquet: .* make room or choose another folder"):
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


def test_files_of_rows_and_of_the_best_are_one_table(tmp_path):
    run_sweep(fake_job(), out=tmp_path / "run", keep="all")
    where = f"read_parquet(['{tmp_path}/run/rows-{0:020d}.parquet', '{tmp_path}/run/top.parquet'])"
    assert duckdb.sql(f"select count(distinct index) from {where}").fetchall() == [(3185,)]


def test_bad_columns_on_the_command_line(tmp_path, capsys):
    for more, said in (
        (["--columns", "latency_s"], "--columns says what of every row is written: add --keep all, or leave it out"),
        (["--keep", "all", "--columns", "latncy_s"], "unknown column 'latncy_s'"),
    ):
        code, _, err = answer(capsys, *small_sweep(tmp_path / "other", *more))
        assert code == 2
        assert said in err
    assert not (tmp_path / "other").exists()


def test_the_names_in_order():
    assert column_names(fake_space(), EVALUATED, False) == ALL
