"""Layouts whose products communicate while they compute: what is taken in, what is left, and what it costs."""

from dataclasses import replace

import numpy as np
import pytest

from dse.content.engine import load_engine
from dse.content.fabric import load_fabric
from dse.content.gpu import load_gpu
from dse.content.model import load_model
from dse.kernels.registry import get_kernel
from dse.serving.exchanges import step_exchanges
from dse.serving.fused_exchanges import fused_step
from dse.serving.layouts import CODES, FUSED, Layouts, layout_reasons
from dse.serving.outcomes import evaluate_layouts
from dse.serving.serve import Service, one_layout
from dse.serving.workload import Workload
from dse.step_operators import DENSE, EVERY_LAYER, MOE, Types, Work, step_operators

FABRIC = load_fabric("nvlink4_x8")
WORK = Work(prompts=1, prompt_tokens=4096)


def layout(model: str, **degrees: int) -> tuple[Service, Layouts]:
    service = Service(load_model(model), load_gpu("h100_sxm"), 8, FABRIC, load_engine("vllm"), Workload(4096, 256))
    return service, one_layout(service, **{"tp": 8, "sequence_parallel": 1, "batch": 8, **degrees})


def step(model: str, overlap: int, **degrees: int):
    service, layouts = layout(model, overlap=overlap, **degrees)
    operators = step_operators(service.model, Types(), WORK, layouts.cut())
    exchanges = step_exchanges(service.model, Types(), WORK, layouts)
    return fused_step(operators, exchanges, layouts, FABRIC)


def running(parts) -> list:
    return [one for one in parts if np.all([np.all(size) for size in one.sizes.values()])]


def operations(operators) -> float:
    total = 0.0
    for one in running(operators):
        sizes = {name: int(np.max(size)) for name, size in one.sizes.items()}
        if one.kernel in ("gemm", "gemm_rs", "ag_gemm"):
            total += get_kernel(one.kernel).problem(**sizes, dtype=one.dtype, **dict(one.choices)).flop
    return total


def sent(exchanges) -> dict[tuple[str, str], float]:
    return {(one.part, one.where): float(np.max(one.bytes_)) for one in exchanges if np.any(one.bytes_)}


@pytest.mark.parametrize("model", ["llama3_70b", "mixtral_8x7b", "deepseek_v3"])
def test_a_fused_step_does_the_same_products(model: str) -> None:
    plain, fused = step(model, 0)[0], step(model, FUSED)[0]
    assert operations(plain) == operations(fused)
    by_layer = {one.layer: one.kernel for one in running(fused)}
    assert by_layer["o"] == "gemm_rs"
    assert {one.layer for one in running(plain)} == set(by_layer)
    assert all(one.kernel == "gemm" for one in running(plain) if one.layer in ("o", "qkv", "gate_up", "down"))


def test_a_dense_layer_has_no_collective_left() -> None:
    fused = step("llama3_70b", FUSED)
    kernels = {one.layer: one.kernel for one in running(fused[0])}
    assert (kernels["qkv"], kernels["gate_up"], kernels["down"]) == ("ag_gemm", "ag_gemm", "gemm_rs")
    assert {part for part, _ in sent(fused[1])} == {"logits"}


def test_layers_of_experts_gather_and_scatter_for_themselves() -> None:
    plain, fused = sent(step("deepseek_v3", 0)[1]), sent(step("deepseek_v3", FUSED)[1])
    whole = plain["attention_out_gathered", EVERY_LAYER]
    assert fused["attention_out_gathered", MOE] == whole
    assert ("attention_out_gathered", EVERY_LAYER) not in fused
    assert ("attention_out_scattered", EVERY_LAYER) not in fused
    assert ("ffn_out_scattered", DENSE) not in fused
    assert fused["ffn_out_gathered", DENSE] == plain["ffn_out_gathered", DENSE]  # for latent attention's product
    assert {part for part, where in fused if where == MOE} >= {part for part, where in plain if where == MOE}


def test_layouts_that_do_not_fuse_are_left_as_they_are() -> None:
    service, layouts = layout("llama3_70b")
    operators = step_operators(service.model, Types(), WORK, layouts.cut())
    exchanges = step_exchanges(service.model, Types(), WORK, layouts)
    assert fused_step(operators, exchanges, layouts, FABRIC) == (operators, exchanges)


@pytest.mark.parametrize(
    ("degrees", "runs"),
    [
        ({"tp": 8, "sequence_parallel": 1}, True),
        ({"tp": 8, "sequence_parallel": 0}, False),
        ({"tp": 1, "sequence_parallel": 0}, False),
    ],
)
def test_fusing_needs_sequence_parallelism_inside_a_node(degrees: dict[str, int], runs: bool) -> None:
    service, layouts = layout("llama3_70b", overlap=FUSED, **degrees)
    assert (layout_reasons(layouts, service.model, 8)[0] == 0) == runs
    two_nodes = replace(layouts, gpus_per_node=4)
    assert layout_reasons(two_nodes, service.model, 8)[0] == CODES["overlap"]


def test_a_fused_prefill_hides_most_of_what_is_sent() -> None:
    service, layouts = layout("llama3_70b")
    both = Layouts(
        {name: np.repeat(values, 2) for name, values in layouts.columns.items()} | {"overlap": np.array([0, FUSED])},
        np.arange(2),
        8,
    )
    steps = service.steps()
    found = evaluate_layouts(both, service.workload, steps, 8)
    apart_s, fused_s = found.columns["prefill_s"]
    work = Work(prompts=1, prompt_tokens=4096)
    sent_s = float(steps.times(work, both).exchanges_s[0])
    assert found.runs.all()
    assert apart_s - sent_s < fused_s < apart_s - 0.5 * sent_s


def test_faster_links_of_a_what_if_reach_fused_products() -> None:
    service, layouts = layout("llama3_70b", overlap=FUSED)
    faster = replace(service, fabric=load_fabric("nvlink4_x8", {"link": "2x"}))
    slow, fast = (
        evaluate_layouts(layouts, one.workload, one.steps(), 8).columns["prefill_s"][0] for one in (service, faster)
    )
    assert fast < 0.95 * slow
