"""What a layout's GPUs send each other: against a bookkeeping of which of them holds which part of the activations."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from oracles.activations import Held, Sizes, sends
from oracles.ranks_on_nodes import AXES, counts_on_nodes, groups_of, instance_ranks

from dse.content.model import DenseFfn, GroupedAttention, LatentAttention, ModelConfig, MoeFfn
from dse.serving.exchanges import step_exchanges
from dse.serving.layouts import FIELDS, PLACEMENTS, Layouts, layout_reasons
from dse.step_operators import Types, Work

NODE = 4
GROUPED = GroupedAttention(heads=16, kv_heads=4, head_dim=8)
LATENT = LatentAttention(heads=16, q_rank=24, kv_rank=32, nope_dim=8, rope_dim=4, v_dim=12)


def model_of(latent: bool, experts: int, shared: int) -> ModelConfig:
    moe = MoeFfn(inter=32, experts=experts, topk=2, layers=1, shared_experts=shared) if experts else None
    attention = LATENT if latent else GROUPED
    ffn = DenseFfn(inter=64, layers=3)
    return ModelConfig("small", "Small", 4 if moe else 3, 64, 128, "bf16", attention, ffn, moe, {}, Path())


def sizes_of(model: ModelConfig) -> Sizes:
    at, moe, ffn = model.attention, model.moe, model.ffn
    grouped = isinstance(at, GroupedAttention)
    return Sizes(
        heads=at.heads,
        kv_heads=at.kv_heads if grouped else at.heads,
        head_dim=at.head_dim if grouped else 0,
        hidden=model.hidden,
        inter=ffn.inter if ffn else 0,
        vocabulary=model.vocabulary,
        latent=None if grouped else (at.kv_rank, at.nope_dim, at.rope_dim, at.v_dim),
        experts=moe.experts if moe else 0,
        topk=moe.topk if moe else 0,
        shared=bool(moe and moe.shared_experts),
    )


def layouts_of_row(row: dict[str, int]) -> Layouts:
    return Layouts({name: np.array([row[name]], np.int64) for name in FIELDS}, np.zeros(1, np.int64), NODE)


def possible(model: ModelConfig, layouts: Layouts) -> bool:
    return layout_reasons(layouts, model, int(layouts.gpus[0]))[0] == 0


def check(model: ModelConfig, row: dict[str, int], work: Work, types: Types) -> None:
    layouts = layouts_of_row(row)
    assert possible(model, layouts)
    order = PLACEMENTS[row["placement"]]
    held = Held(
        nodes=extent_of(order, row, ("tp", "cp", "dp"))[1],
        prompts=work.prompts,
        prompt_tokens=work.prompt_tokens,
        cached=work.cached_tokens,
        decoded=work.sequences * work.queries,
        **{name: row[name] for name in ("tp", "hidden_split", "kv_split", "cp", "dp", "experts_tp", "pp")},
        sequence_parallel=bool(row["sequence_parallel"]),
        all_to_all=bool(row["exchange"]),
        cache_bytes=1 if types.kv_dtype else 2,
        travel_bytes=1 if types.dtype == "fp8" else 2,
    )
    everywhere = row["dp"] * (work.prompts * work.prompt_tokens + work.sequences * work.queries)
    found = {}
    for exchange in step_exchanges(model, types, replace(work, everywhere=everywhere), layouts):
        bytes_, inside, across = (
            float(np.broadcast_to(value, 1)[0]) for value in (exchange.bytes_, exchange.inside, exchange.across)
        )
        if bytes_ and inside * across > 1:
            found[exchange.part] = (exchange.collective, bytes_, inside, across)
    expected = {}
    for sent in sends(sizes_of(model), held):
        where = pair_of_stages(order, row) if sent.collective == "send" else extent_of(order, row, sent.along)
        where = (1, where[1]) if sent.part.endswith("_to_nodes") else where
        where = (where[0], 1) if sent.part.endswith("_inside") else where
        if where[0] * where[1] > 1:
            expected[sent.part] = (sent.collective, sent.bytes_, *where)
    assert found.keys() == expected.keys()
    for part, (collective, bytes_, inside, across) in found.items():
        assert (collective, inside, across) == (expected[part][0], *expected[part][2:]), part
        assert bytes_ == pytest.approx(expected[part][1]), part


def extent_of(order, row, along) -> tuple[int, int]:
    gpus = row["tp"] * row["cp"] * row["dp"] * row["pp"]
    counts = counts_on_nodes(groups_of(order, row, along, gpus)[0], NODE)
    return counts[0], len(counts)


def pair_of_stages(order, row) -> tuple[int, int]:
    """Whether some stage's next one is on another node: a message over the network counts for all."""
    ranks = instance_ranks(order, row)
    stage = AXES.index("pp")
    nodes = {place: rank // NODE for place, rank in ranks.items()}
    crosses = any(
        nodes[place] != nodes[(*place[:stage], place[stage] - 1, *place[stage + 1 :])]
        for place in ranks
        if place[stage] > 0
    )
    return (1, 2) if crosses else (2, 1)


PLAIN = {name: int(name not in ("placement", "sequence_parallel", "exchange", "overlap", "chunk")) for name in FIELDS}
DECODE, PREFILL = Work(sequences=16, queries=2, context=64), Work(prompts=2, prompt_tokens=64)
MIXED = replace(DECODE, prompts=1, prompt_tokens=32, cached_tokens=64)
WORKS = {"decode": DECODE, "prefill": PREFILL, "cached": replace(PREFILL, cached_tokens=32), "mixed": MIXED}
KINDS = {  # what a layout shares -> its degrees
    "one GPU": {},
    "tensor parallel": {"tp": 8},
    "sequence parallel": {"tp": 4, "sequence_parallel": 1},
    "both sides of the weights": {"tp": 8, "hidden_split": 2},
    "keys": {"tp": 8, "kv_split": 4},
    "copies of keys": {"tp": 16, "kv_split": 2},
    "context": {"tp": 2, "cp": 4},
    "context and keys": {"tp": 4, "kv_split": 2, "cp": 2},
    "stages": {"tp": 4, "pp": 3},
    "stages innermost": {"tp": 2, "pp": 2, "placement": 4},
    "sequence parallel stages": {"tp": 4, "pp": 2, "sequence_parallel": 1},
}
MOE_KINDS = {
    "columns of experts": {"tp": 4, "experts_tp": 4},
    "experts": {"tp": 4},
    "experts of data parallel groups": {"tp": 2, "dp": 4},
    "all to all": {"tp": 2, "dp": 4, "exchange": 1},
    "sequence parallel to experts": {"tp": 2, "dp": 2, "sequence_parallel": 1},
    "context and data parallel": {"tp": 2, "cp": 2, "dp": 2},
    "context and data parallel, all to all": {"tp": 2, "cp": 2, "dp": 2, "exchange": 1},
    "context alone": {"tp": 2, "cp": 4},
    "stages innermost": {"tp": 2, "dp": 2, "pp": 2, "placement": 4},
    "data parallel innermost": {"tp": 2, "dp": 2, "pp": 2, "placement": 5},
}


@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("latent", [False, True])
def test_what_dense_layers_send(latent: bool, kind: str, work: str) -> None:
    check(model_of(latent, 0, 0), PLAIN | KINDS[kind], WORKS[work], Types(kv_dtype="fp8"))


@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("kind", MOE_KINDS)
@pytest.mark.parametrize("shared", [0, 1])
def test_what_layers_of_experts_send(shared: int, kind: str, work: str) -> None:
    row = PLAIN | MOE_KINDS[kind]
    check(model_of(False, 16, shared), row | {"batch": row["dp"]}, WORKS[work], Types("fp8"))


powers = st.sampled_from([1, 2, 4])


@settings(max_examples=150, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.data(), st.booleans(), st.sampled_from([0, 8, 16]), st.sampled_from(sorted(WORKS)))
def test_drawn_layouts(data, latent: bool, experts: int, work: str) -> None:
    row = {axis: data.draw(powers, axis) for axis in ("tp", "hidden_split", "kv_split", "cp", "pp")}
    row |= {axis: data.draw(powers if experts else st.just(1), axis) for axis in ("dp", "experts_tp")}
    row |= {axis: data.draw(st.integers(0, 1), axis) for axis in ("sequence_parallel", "exchange")}
    row["placement"] = data.draw(st.integers(0, len(PLACEMENTS) - 1), "placement")
    row["batch"] = row["dp"]
    shared = data.draw(st.integers(0, 1), "shared")
    model = model_of(latent, experts, shared)
    assume(possible(model, layouts_of_row(PLAIN | row)))
    check(model, PLAIN | row, WORKS[work], Types())
