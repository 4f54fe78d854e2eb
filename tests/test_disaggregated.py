"""Prefill and decode on GPUs of their own: the front against every pair of layouts and every number of instances."""

from dataclasses import replace

import numpy as np
import pytest
from own_model import OWN_MODEL

from dse.content.engine import load_engine
from dse.content.fabric import load_fabric
from dse.content.gpu import load_gpu
from dse.content.model import load_model
from dse.content.space import load_space
from dse.errors import UserError
from dse.serving.disaggregated import sweep_disaggregated
from dse.serving.kernel_times import KernelTimes
from dse.serving.layouts import Layouts, layouts_of
from dse.serving.outcomes import evaluate_layouts
from dse.serving.serve import Service
from dse.serving.workload import Workload

AXES = {"tp": [1, 2, 4], "pp": [1, 2], "micro_batches": [1, 2], "batch": [1, 2, 8, 64], "placement": "tp.cp.dp.pp"}
PLAIN = {"hidden_split": 1, "kv_split": 1, "cp": 1, "dp": 1, "experts_tp": 1, "sequence_parallel": 0, "chunk": 0}


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Service:
    file = tmp_path_factory.mktemp("models") / "small.toml"
    file.write_text(OWN_MODEL)
    return Service(
        load_model(file),
        load_gpu("h100_sxm"),
        8,
        load_fabric("nvlink4_x8"),
        load_engine("vllm"),
        Workload(input_tokens=1024, output_tokens=64),
    )


@pytest.fixture(scope="module")
def space():
    return load_space("sharding", "serving", axes={**AXES, **PLAIN, "exchange": "all_gather", "overlap": "none"})


@pytest.fixture(scope="module")
def kernels(service: Service) -> KernelTimes:
    return KernelTimes(service.gpu, service.engine)


def every(service: Service, space, phase: str, kernels: KernelTimes) -> list[dict[str, float]]:
    layouts: Layouts = layouts_of(space.rows(np.arange(space.size)), np.arange(space.size), 8)
    asked = replace(service, workload=replace(service.workload, phase=phase))
    found = evaluate_layouts(layouts, asked.workload, asked.steps(kernels), asked.gpus)
    return [{name: float(values[at]) for name, values in found.columns.items()} for at in np.flatnonzero(found.runs)]


def brute_force(service: Service, space, kernels: KernelTimes, transfer_s: dict) -> set[tuple[float, float]]:
    asked, points = service.workload, set()
    for prefill in every(service, space, "prefill", kernels):
        for decode in every(service, space, "decode", kernels):
            ttft_s = prefill["ttft_s"] + transfer_s[prefill["gpus"], decode["gpus"]]
            if ttft_s > asked.ttft_max_s or decode["tpot_s"] > asked.tpot_max_s:
                continue
            for x in range(1, 9):
                for y in range(1, 9):
                    if x * prefill["gpus"] + y * decode["gpus"] <= service.gpus:
                        prompts = x * prefill["tokens_per_s"] / asked.input_tokens
                        answers = y * decode["tokens_per_s"] / asked.output_tokens
                        rate = min(prompts, answers) * asked.output_tokens / service.gpus
                        points.add((rate, decode["tokens_per_s_per_user"]))
    return {
        one
        for one in points
        if not any(all(a >= b for a, b in zip(other, one, strict=True)) and other != one for other in points)
    }


@pytest.mark.parametrize("limits", [{}, {"ttft_max_s": 0.0075}, {"tpot_max_s": 0.0015}])
def test_the_front_is_that_of_every_pair(service: Service, space, kernels: KernelTimes, limits: dict) -> None:
    asked = replace(service, workload=replace(service.workload, **limits))
    found = sweep_disaggregated(asked, space, space, kernels=kernels).front
    transfers = {}
    free = sweep_disaggregated(service, space, space, kernels=kernels).front
    for row in [*found.to_dict("records"), *free.to_dict("records")]:
        sizes = tuple(float(row[f"{side}_tp"] * row[f"{side}_pp"]) for side in ("prefill", "decode"))
        transfers[sizes] = row["transfer_s"]
    whole = {(float(p), float(d)): _transfer(service, p, d) for p in (1, 2, 4, 8) for d in (1, 2, 4, 8)}
    assert all(whole[sizes] == pytest.approx(seconds, rel=1e-6) for sizes, seconds in transfers.items())
    wanted = brute_force(asked, space, kernels, whole)
    assert len(wanted) > 3
    got = sorted(set(zip(found["tokens_per_s_per_gpu"], found["tokens_per_s_per_user"], strict=True)))
    assert len(got) == len(wanted)
    np.testing.assert_allclose(got, sorted(wanted), rtol=1e-9)
    assert (found["ttft_s"] <= asked.workload.ttft_max_s).all()
    assert (found["gpus_used"] <= service.gpus).all()


def _transfer(service: Service, p_gpus: int, d_gpus: int) -> float:
    """A prompt's cache over as many links as the smaller instance has GPUs."""
    from jaxmodel.network import group_cost

    at = service.model.attention
    bytes_ = 1024 * 2 * at.kv_heads * at.head_dim * 2 * service.model.layers / min(p_gpus, d_gpus)
    level = service.fabric.levels[0].bind()
    cost = group_cost("send", np.float32(bytes_), np.float32(2), np.float32(1), level, None, service.engine.rule)
    return float(np.asarray(cost.latency_s))


def test_only_whole_services_are_split(service: Service, space) -> None:
    asked = replace(service, workload=Workload(phase="decode"))
    with pytest.raises(UserError, match="phase decode of a workload on GPUs of its own: give 'serve'"):
        sweep_disaggregated(asked, space, space)


def test_a_side_that_cannot_run_is_named(service: Service, space, kernels: KernelTimes) -> None:
    asked = replace(service, workload=replace(service.workload, ttft_max_s=1e-9))
    with pytest.raises(
        UserError, match=r"can prefill small on 8 GPUs; .*past a limit.*; loosen --ttft-max or --tpot-max"
    ):
        sweep_disaggregated(asked, space, space, kernels=kernels)


def test_too_few_gpus_for_both_sides_are_said(service: Service, space, kernels: KernelTimes) -> None:
    said = r"gpus = 1 is not allowed: the smallest layout that prefills has 1, the smallest that decodes 1, and each"
    with pytest.raises(UserError, match=said):
        sweep_disaggregated(replace(service, gpus=1), space, space, kernels=kernels)
