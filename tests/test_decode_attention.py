"""Decode attention: shapes and choices, what a space and an implementation hold, and how predictions move."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dse.content.gpu import load_gpu
from dse.content.implementation import implementation_defaults, list_implementations, read_implementation
from dse.content.space import load_space, schedule_fields
from dse.errors import UserError
from dse.kernels.decode_attention import DecodeAttentionProblem
from dse.kernels.registry import get_kernel
from dse.validation.decode_measured import FAMILIES
from jaxmodel.kernels.decode_attention import cost
from jaxmodel.kernels.decode_attention_types import DecodeAttentionSchedule, DecodeNumbers
from jaxmodel.reasons import Reason

PLAIN: dict[str, float] = {
    "tile_rows": 64, "tile_n": 128, "stages": 2, "warps": 4, "pack_gqa": 1, "swap_ab": 0, "overlap": 0, "splits": 1,
    "scheduler": 0, "combine": 0, "registers_measured": 0, "smem_measured_bytes": 0,
}  # fmt: skip


def predicted(shape: str, choices: dict[str, Any] | None = None, **schedule: float) -> Any:
    """The cost of one schedule on H100, in Python numbers."""
    problem = DecodeAttentionProblem.from_shape(shape, **(choices or {})).on(load_gpu("h100_sxm"))
    record = DecodeAttentionSchedule(**{name: np.float64(value) for name, value in (PLAIN | schedule).items()})
    found = cost(problem.arrays(np.float64), record, load_gpu("h100_sxm").bind("bf16", family="wgmma"))
    return SimpleNamespace(**{f.name: np.asarray(getattr(found, f.name)).tolist() for f in dataclasses.fields(found)})


def test_a_shape_is_read_and_written_back() -> None:
    for text in ("64x32/8x1:8192x128", "1x8x4:100x64", "64x128/1x1:8192x576/512"):
        assert DecodeAttentionProblem.from_shape(text).shape == text
    mla = DecodeAttentionProblem.from_shape("64x128/1x1:8192x576/512")
    assert (mla.shares_kv, mla.cache_bytes) == (True, 64 * 8192 * 576 * 2)
    assert DecodeAttentionProblem.from_shape("64x128/1x1:8192x576/512", shared_kv="false").cache_bytes == (
        64 * 8192 * 1088 * 2
    )


@pytest.mark.parametrize(
    ("shape", "choices", "text"),
    [
        ("64x32x8192x128", {}, "is no decode attention: write BxH[/KVH]xQ:KVxD[/DV]"),
        ("1x30/8x1:100x128", {}, "heads = 30 in shape '1x30/8x1:100x128' is no multiple of kv_heads = 8"),
        ("1x8x200:100x128", {}, "q_tokens = 200 in shape '1x8x200:100x128' is above kv_tokens = 100"),
        ("1x8x1:100x64/128", {"shared_kv": True}, "values are part of the keys"),
        ("1x8x1:100x128", {"dtype": "fp8", "kv_dtype": "bf16"}, "for dtype fp8: the cache is no wider"),
        ("1x8x1:100x128", {"context_spread": "2"}, "--context-spread = 2 is not allowed: a number from 0 to 0.57"),
    ],
)
def test_a_wrong_problem_is_refused_with_what_is_allowed(shape: str, choices: dict[str, Any], text: str) -> None:
    with pytest.raises(UserError) as error:
        DecodeAttentionProblem.from_shape(shape, **choices)
    assert text in str(error.value)


def test_every_split_of_a_space_fits_some_context() -> None:
    longest = DecodeAttentionProblem.from_shape("1x8x1:100x128").enlarged().kv_tokens
    for family in ("mma_sync", "wgmma", "tcgen05"):
        space = load_space("decode_attention", family)
        most = {name: max(space.axis(name).column(name)) for name in ("splits", "tile_n")}
        assert most["splits"] * most["tile_n"] <= longest


def test_files_and_records_have_the_same_names() -> None:
    assert list(schedule_fields("decode_attention")) == [f.name for f in dataclasses.fields(DecodeAttentionSchedule)]
    assert get_kernel("decode_attention").schedule_fields == tuple(PLAIN)
    defaults = {f.name: f.default for f in dataclasses.fields(DecodeNumbers)}
    assert implementation_defaults("decode_attention") == defaults


@pytest.mark.parametrize("family", ["mma_sync", "wgmma", "tcgen05"])
def test_a_space_is_whole(family: str) -> None:
    space = load_space("decode_attention", family)
    assert space.size >= 100_000
    for preset in space.presets:
        assert 0 < load_space("decode_attention", family, preset=preset).size < space.size


def test_an_implementation_has_at_most_ten_fitted_numbers_a_gpu() -> None:
    assert {family.kernel for family in FAMILIES} == set(list_implementations("decode_attention")) - {"none"}
    for family in FAMILIES:
        tables = read_implementation("decode_attention", family.kernel).gpus
        for system in family.systems:
            fitted = [name for name, datum in tables[system].items() if datum.kind == "fitted"]
            assert sorted(fitted) == sorted(family.free)
            assert len(fitted) <= 10


def test_a_few_long_sequences_are_faster_split() -> None:
    whole, split = predicted("1x8/1x1:131072x128"), predicted("1x8/1x1:131072x128", splits=64)
    assert split.latency_s < 0.1 * whole.latency_s
    assert split.reduction_s > whole.reduction_s == 0.0
    assert split.workspace_bytes == 8 * 129 * 4 * 64


def test_packed_heads_read_the_cache_once_and_others_share_it_in_l2() -> None:
    packed = predicted("64x32/4x1:8192x128")
    alone = predicted("64x32/4x1:8192x128", pack_gqa=0)
    assert alone.l15_bytes == pytest.approx(8 * packed.l15_bytes, rel=0.01)
    assert alone.ddr_bytes == pytest.approx(packed.ddr_bytes, rel=1e-6)
    assert alone.latency_s > packed.latency_s


def test_long_contexts_stream_at_the_rate_of_memory() -> None:
    gpu = load_gpu("h100_sxm").bind("bf16", family="wgmma")
    found = predicted("256x32/8x1:32768x128")
    least_s = 256 * 8 * 32768 * 256 * 2 / float(gpu.ddr_bytes_per_s)
    assert 1.0 < found.latency_s / least_s < 1.1


def test_a_narrow_cache_moves_half_the_bytes_and_mla_shares_keys_and_values() -> None:
    wide, narrow = predicted("64x32/8x1:8192x128"), predicted("64x32/8x1:8192x128", {"kv_dtype": "fp8"})
    assert narrow.ddr_bytes < 0.52 * wide.ddr_bytes
    latent = predicted("64x64/1x1:8192x576/512", tile_n=64, warps=8)
    both = predicted("64x64/1x1:8192x576/512", {"shared_kv": False}, tile_n=64, warps=8)
    assert both.ddr_bytes / latent.ddr_bytes == pytest.approx(1088 / 576, rel=0.02)


def test_a_stream_has_no_tail_of_unequal_sequences() -> None:
    spread = {"context_spread": 0.4}
    assert predicted("132x8/1x1:8192x128", spread).tail_s > 0.0
    assert predicted("132x8/1x1:8192x128", spread, scheduler=2).tail_s == 0.0


def test_a_library_launches_what_it_has() -> None:
    fa3 = {"implementation": "fa3"}
    assert predicted("64x32/8x1:8192x128", fa3, splits=2).reason == Reason.OK
    assert predicted("64x32/8x1:512x128", fa3, splits=2).reason == Reason.LIBRARY
    assert predicted("64x32/8x1:8192x128", fa3, tile_rows=128, warps=8).reason == Reason.LIBRARY
    assert predicted("64x32/8x1:8192x128", tile_rows=128, warps=8).reason == Reason.OK


def test_more_splits_than_blocks_are_refused() -> None:
    assert predicted("1x8x1:300x128", splits=3).reason == Reason.OK
    assert predicted("1x8x1:300x128", splits=4).reason == Reason.SPLIT_KV
    assert predicted("1x8x1:300x128", splits=2, scheduler=2).reason == Reason.SPLIT_KV
    assert predicted("1x8x1:300x128", combine=1).reason == Reason.SPLIT_KV
