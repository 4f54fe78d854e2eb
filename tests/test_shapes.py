"""Shape lists: weights, comments, and the lists that come with tilesweep."""

from pathlib import Path

import pytest

from dse.content.shapes import ShapeRow, load_shapes
from dse.errors import UserError

LLAMA_70B = {"hidden": 8192, "intermediate": 28672, "heads": 64, "kv_heads": 8, "head_dim": 128, "vocab": 128256}


def write(folder: Path, text: str) -> Path:
    path = folder / "list.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize("column", ["weight", "count"])
def test_how_much_a_shape_counts_is_read(tmp_path: Path, column: str) -> None:
    rows = load_shapes(write(tmp_path, f"m,n,k,{column}\n8,16,32,80\n8,16,64,0.5\n"))
    assert [row.weight for row in rows] == [80.0, 0.5]
    assert load_shapes(write(tmp_path, "m,n,k\n8,16,32\n")) == [ShapeRow("8x16x32", "8x16x32", None, 1.0)]


def test_comments_are_passed_over_and_lines_keep_their_numbers(tmp_path: Path) -> None:
    text = "# where it comes from\nm,n,k\n8,16,32\n# half way\n\n8,16,x\n"
    with pytest.raises(UserError, match=r"list\.csv, line 6, column k: 'x' is not a whole number"):
        load_shapes(write(tmp_path, text))
    with pytest.raises(UserError, match=r"unknown column in .*list\.csv, line 2: 'q'; known: batch, count, dtype"):
        load_shapes(write(tmp_path, "# a comment\nm,n,q\n"))
    assert [row.shape for row in load_shapes(write(tmp_path, text.replace("x", "64")))] == ["8x16x32", "8x16x64"]


@pytest.mark.parametrize("text", ["", "0", "-1", "nan", "inf", "often"])
def test_weights_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match=f"line 2, column count: '{text}' is not a finite number above 0"):
        load_shapes(write(tmp_path, f"m,n,k,count\n8,8,8,{text}\n"))


def test_two_columns_of_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="line 1: weight and count both say how much a shape counts: keep one"):
        load_shapes(write(tmp_path, "m,n,k,count,weight\n8,8,8,1,1\n"))


@pytest.mark.parametrize("name", ["llama3_70b_prefill", "llama3_70b_decode", "llama3_70b"])
def test_the_lists_of_llama_3_70b_follow_from_its_dimensions(name: str) -> None:
    at = LLAMA_70B
    expected = {  # as the frameworks fuse them: (n, k)
        "qkv": ((at["heads"] + 2 * at["kv_heads"]) * at["head_dim"], at["hidden"]),
        "o": (at["hidden"], at["heads"] * at["head_dim"]),
        "gate_up": (2 * at["intermediate"], at["hidden"]),
        "down": (at["hidden"], at["intermediate"]),
        "lm_head": (at["vocab"], at["hidden"]),
    }
    rows = load_shapes(name)
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        gemm, _, tokens = row.name.rpartition("_")
        m, n, k = map(int, row.shape.split("x"))
        assert (m, n, k) == (int(tokens), *expected[gemm])
        assert gemm == "lm_head" or row.weight == 80


def test_the_whole_list_is_prefill_and_decode_together() -> None:
    def times(name: str) -> dict[str, float]:
        return {row.shape: row.weight for row in load_shapes(name)}

    prefill, decode = times("llama3_70b_prefill"), times("llama3_70b_decode")
    both = {shape: prefill.get(shape, 0) + decode.get(shape, 0) for shape in (*prefill, *decode)}
    assert times("llama3_70b") == both
