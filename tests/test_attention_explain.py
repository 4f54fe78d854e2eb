"""What explain says of attention: reasons with their numbers, what hides no softmax, what binds."""

import pytest
from cli_run import answer

WORDS = {"tile_m": 128, "tile_n": 128, "stages": 2, "warpgroups": 2, "order": "both", "pack_gqa": 0, "splits": 1}
WORDS |= {"persistent": 1, "longest_first": 1}


def explained(capsys: pytest.CaptureFixture, shape: str, gpu: str = "h100_sxm", **changes: object) -> str:
    words = " ".join(f"{name}={value}" for name, value in (WORDS | changes).items())
    _, out, err = answer(
        capsys, "explain", "--kernel", "attention", "--shape", shape, "--gpu", gpu, "--schedule", words
    )
    return out + err


@pytest.mark.parametrize(
    ("gpu", "changes", "text"),
    [
        ("h100_sxm", {"warpgroups": 1}, "PRODUCT_ORDER: order both with 1 warpgroup(s): order = serial"),
        ("h100_sxm", {"tile_m": 192}, "WARP_TILE: 192 rows do not divide over 2 warpgroups of 64 rows"),
        ("h100_sxm", {"tile_n": 100}, "MMA_SHAPE: blocks of 100 keys are no multiple of 16"),
        ("h100_sxm", {"splits": 8}, "SPLIT_KV: 8 splits of at most 4 blocks of keys"),
        ("h100_sxm", {"longest_first": 0, "head_section": 4}, "SAME_ORDER: sections of 4 heads matter where"),
        ("h100_sxm", {"stages": 4}, "SMEM: needs 295040 B of shared memory, 232448 B available: fewer stages"),
        ("b200_sxm", {"tile_m": 256, "tile_n": 192, "stages": 1}, "TMEM: scores of 192 and outputs of 128 columns for"),
        ("b200_sxm", {"q_in_registers": 1}, "OPERAND_PLACE: "),
        ("a100_sxm", {}, "PRODUCT_ORDER: order both with 2 warpgroup(s)"),
    ],
)
def test_reasons_have_numbers(capsys: pytest.CaptureFixture, gpu: str, changes: dict, text: str) -> None:
    shape = "1x8x512x128"
    if gpu == "b200_sxm":
        changes = {"warpgroups": changes.get("tile_m", 128) // 128} | changes
    assert text in explained(capsys, shape, gpu, **changes)


def test_softmax_that_nothing_hides_is_named(capsys: pytest.CaptureFixture) -> None:
    text = explained(capsys, "4x32/8x4096x128", order="serial")
    assert "is softmax that no product hides: order=both with two or more warpgroups" in text


def test_small_head_dims_are_bound_by_exponentials(capsys: pytest.CaptureFixture) -> None:
    text = explained(capsys, "4x32/8x4096x64", "b200_sxm", tile_m=256)
    assert "the special function units: the softmax's exponentials" in text
    assert "a larger head dim does more products for each exponential" in text
