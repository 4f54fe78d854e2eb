"""Attention from the command line and from Python: shapes, choices, unequal sequences, spaces, known cases."""

import numpy as np
import pytest

from dse.content.space import load_space
from dse.errors import UserError
from dse.kernels.attention import AttentionProblem
from dse.kernels.attention_lengths import grouped, read_lengths, spread_lengths
from jaxmodel.kernels.attention import cost
from jaxmodel.kernels.attention_tiles import blocks_of, tile_classes
from jaxmodel.kernels.attention_types import AttentionSchedule

SCHEDULE = {
    "tile_m": 128.0, "tile_n": 128.0, "stages": 2.0, "warpgroups": 2.0, "order": 3.0, "pack_gqa": 0.0, "splits": 1.0,
    "persistent": 1.0, "longest_first": 1.0, "q_in_registers": 0.0, "p_in_smem": 0.0, "head_section": 0.0,
    "registers_measured": 0.0, "smem_measured_bytes": 0.0,
}  # fmt: skip


def schedule(**changes: float) -> AttentionSchedule:
    return AttentionSchedule(**(SCHEDULE | changes))


def problem(shape: str, **choices: object) -> AttentionProblem:
    return AttentionProblem.from_shape(shape, **choices)


@pytest.mark.parametrize("text", ["4x32/8x4096x128", "1x16x128:4096x128", "64x128/1x256x576/512", "2x8x1x64"])
def test_shapes_are_written_as_they_are_read(text: str) -> None:
    assert problem(text).shape == text


@pytest.mark.parametrize(
    ("shape", "choices", "text"),
    [
        ("4x32x4096", {}, "shape '4x32x4096' is no attention: write BxH[/KVH]xQ[:KV]xD[/DV]"),
        ("4x30/8x4096x128", {}, "heads = 30 in shape '4x30/8x4096x128' is no multiple of kv_heads = 8"),
        ("1x8x512:128x64", {}, "q_tokens = 512 in shape '1x8x512:128x64' is above kv_tokens = 128"),
        ("1x64/1x1048576x64", {}, "is 2^24 or more"),
        ("1x8x512x64", {"causal": False, "window": 64}, "window = 64 needs a causal mask"),
        ("2x8x512x64", {"lengths": "512,1", "length_spread": 0.3}, "lengths and length_spread both say"),
        ("2x8x512x64", {"lengths": "512,x"}, "'x' is no length; write e.g. 4096,1024*3"),
        ("2x8x512x64", {"lengths": "512,1*2"}, "are 3 sequences of at most 512 tokens; the shape says 2 of 512"),
    ],
)
def test_what_is_wrong_with_a_problem_is_said(shape: str, choices: dict, text: str) -> None:
    with pytest.raises(UserError) as caught:
        problem(shape, **choices)
    assert text in str(caught.value)


def test_the_head_of_a_sweep_says_whether_there_is_a_mask() -> None:
    shape = "8x32/8x4096x128"
    assert AttentionProblem.from_shape(shape).described("fp32") == f"attention {shape} bf16, causal, fp32 accumulation"
    whole = AttentionProblem.from_shape(shape, causal=False).described("fp32")
    assert whole == f"attention {shape} bf16, causal false, fp32 accumulation"


def test_flop_counts_the_pairs_that_the_mask_leaves() -> None:
    """Q K^T of 256 tokens and head dim 128, causal: 8,421,376 (reference W8), and as much again for P V."""
    assert problem("1x1x256x128").flop == 2 * 8_421_376
    assert problem("1x1x256x128", causal=False).flop == 4 * 256 * 256 * 128
    assert problem("1x1x256x128", window=256).flop == problem("1x1x256x128").flop
    assert problem("1x1x4:256x128", window=10).flop == 4 * 4 * 10 * 128
    model = cost(problem("1x3x100:356x64", window=300).arrays(), schedule(), _gpu())
    assert float(model.flop) == problem("1x3x100:356x64", window=300).flop


def test_causal_tiles_walk_whole_blocks() -> None:
    """512 tokens in tiles of 128: 1, 2, 3, 4 blocks (reference W8); a window of 128 leaves at most two."""
    record = problem("1x1x512x128").arrays()
    (tiles,) = tile_classes(record, schedule())
    numbers = np.arange(1.0, 5.0)
    assert np.asarray(blocks_of(record, schedule(), tiles, numbers)).tolist() == [1, 2, 3, 4]
    assert float(tiles.blocks) == 10.0
    windowed = problem("1x1x512x128", window=128).arrays()
    assert np.asarray(blocks_of(windowed, schedule(), tiles, numbers)).tolist() == [1, 2, 2, 2]


def test_packed_heads_share_tiles() -> None:
    """32 heads over 8 KV heads (reference W8): 512 tiles of 2048 tokens one by one; 64 tokens packed make 16."""
    (alone,) = tile_classes(problem("1x32/8x2048x128").arrays(), schedule())
    (packed,) = tile_classes(problem("1x32/8x64x128").arrays(), schedule(pack_gqa=1.0))
    assert float(alone.lines * alone.tiles) == 512.0
    assert float(packed.lines * packed.tiles) == 16.0


def test_lengths_become_few_classes() -> None:
    assert read_lengths("1024*3, 4096", 4, 4096) == ((1, 4096), (3, 1024))
    assert spread_lengths(9, 2000, 0.0) == ((9, 2000),)
    spread = spread_lengths(30, 3000, 0.4)
    tokens = np.repeat([length for _, length in spread], [count for count, _ in spread])
    assert tokens.max() == 3000
    assert tokens.std() / tokens.mean() == pytest.approx(0.4, rel=2e-3)
    many = grouped([(length, 2) for length in range(1000, 0, -10)])
    assert len(many) <= 4
    assert next(iter(many)) == (2, 1000)
    assert sum(count for count, _ in many) == 200
    assert sum(count * length for count, length in many) == pytest.approx(2 * sum(range(10, 1001, 10)), rel=0.005)


def test_equal_classes_cost_what_one_class_does() -> None:
    one = cost(problem("8x8x1024x128").arrays(), schedule(), _gpu())
    split = problem("8x8x1024x128").arrays()
    from dataclasses import replace

    from jaxmodel.kernels.attention_types import SequenceClass

    half = SequenceClass(batch=4.0, q_tokens=1024.0, kv_tokens=1024.0)
    two = cost(replace(split, batch=4.0, more=(half,)), schedule(), _gpu())
    assert float(two.latency_s) == pytest.approx(float(one.latency_s), rel=1e-6)
    assert float(two.ddr_bytes) == pytest.approx(float(one.ddr_bytes), rel=1e-6)


def test_short_sequences_beside_a_long_one_wait_for_it() -> None:
    """One sequence of 8192 and 63 of 128: at least the long one alone, less than all long."""
    few = problem("64x8x8192x128", lengths="8192,128*63")
    long = cost(problem("1x8x8192x128").arrays(), schedule(), _gpu())
    mixed, all_long = (cost(one.arrays(), schedule(), _gpu()) for one in (few, problem("64x8x8192x128")))
    assert float(long.latency_s) < float(mixed.latency_s) < 0.1 * float(all_long.latency_s)


@pytest.mark.parametrize("family", ["mma_sync", "wgmma", "tcgen05"])
def test_spaces_are_large_and_presets_lie_in_them(family: str) -> None:
    space = load_space("attention", family=family)
    assert space.size >= 100_000
    assert load_space("attention", family=family, preset="quick").size < 50_000


def test_keys_are_split_where_tiles_are_few() -> None:
    """One head of 16k tokens packs into 16 tiles a KV head... 4 heads on one KV head of 128 queries: splits pay."""
    short = problem("1x4/1x128:16384x128", causal=True).arrays()
    alone = cost(short, schedule(pack_gqa=1.0), _gpu())
    split = cost(short, schedule(pack_gqa=1.0, splits=8.0), _gpu())
    assert int(split.reason) == 0
    assert float(split.latency_s) < 0.5 * float(alone.latency_s)
    assert float(split.reduction_s) > 0.0


def _gpu():
    from dse.content.gpu import load_gpu

    return load_gpu("h100_sxm").bind("bf16", family="wgmma")
