"""A small dense model, a small one of experts, an engine and spaces of few schedules: what tests of layouts share."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dse import schedule_set
from dse.content.engine import NUMBERS, Engine, KernelEntry, load_engine
from dse.content.fabric import load_fabric
from dse.content.gpu import load_gpu
from dse.content.model import DenseFfn, GroupedAttention, ModelConfig, MoeFfn
from dse.content.space import load_space
from dse.serving import kernel_times
from dse.serving.collective_times import CollectiveTimes
from dse.serving.kernel_times import KernelTimes
from dse.serving.layouts import FIELDS, Layouts
from dse.serving.step_times import StepModel
from dse.space import Space
from dse.step_operators import Types

GPU = load_gpu("h100_sxm")
FABRIC = load_fabric("nvlink4_x8+infiniband_ndr")
NODE = 8
_VLLM = load_engine("vllm")
ENGINE = replace(  # without what engines fuse or hide, and with kernels of few schedules
    _VLLM,
    values={
        name: replace(_VLLM.values[name], value=0.0) if field.default == 0 else _VLLM.values[name]
        for name, field in NUMBERS.items()
    },
    kernels=(
        KernelEntry("gemm", preset="library"),
        KernelEntry("attention", preset="fa3_d128", implementation="vllm_flash_attn_fa3"),
        KernelEntry("decode_attention", preset="flash_attention_3", implementation="vllm_flash_attn_fa3"),
        KernelEntry("moe", preset="triton", implementation="vllm_triton"),
        *(KernelEntry(kernel, preset="quick") for kernel in ("rmsnorm", "rope", "elementwise")),
    ),
)
ATTENTION = GroupedAttention(heads=16, kv_heads=4, head_dim=128)
DENSE = ModelConfig("dense", "Small", 5, 2048, 8192, "bf16", ATTENTION, DenseFfn(8192, 5), None, {}, Path())
EXPERTS = replace(DENSE, name="experts", ffn=DenseFfn(8192, 2), moe=MoeFfn(1024, 16, 4, 3, shared_experts=1))
PLAIN = {name: int(name not in ("placement", "sequence_parallel", "exchange", "overlap", "chunk")) for name in FIELDS}
KEPT: dict[str, dict[str, Any]] = {  # of the presets' axes
    "gemm": {
        "launch": ["data_parallel:staged", "split_k:4:staged"],
        "tile_m": 128,
        "tile_n": [64, 128, 256],
        "stages": 4,
        "raster": "along_m:1",
        "cluster": "1x1",
    }
}


def small_space(kernel: Any, family: str, dtype: str, preset: str | None) -> Space:
    """As `load_space`, with fewer schedules."""
    return load_space(kernel, family, dtype, preset, KEPT.get(kernel))


@pytest.fixture
def small_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are tuned over few schedules, and a call evaluates no more lanes than there are about."""
    monkeypatch.setattr(kernel_times, "load_space", small_space)
    monkeypatch.setattr(schedule_set, "CPU_LANES", 2**12)
    monkeypatch.setattr(schedule_set, "CPU_BLOCK_LANES", 2**7)


def steps_of(model: ModelConfig, types: Types | None = None, engine: Engine = ENGINE, **changes: Any) -> StepModel:
    """What prices steps of a model; changes: of `KernelTimes`, or fabric."""
    fabric = changes.pop("fabric", FABRIC)
    kernels = changes.pop("kernels", None) or KernelTimes(changes.pop("gpu", GPU), engine, **changes)
    return StepModel(model, types or Types(), kernels, CollectiveTimes(fabric, engine.rule), engine)


def layouts_of_rows(rows: list[Mapping[str, int]], node: int = NODE) -> Layouts:
    """Layouts by their degrees; what is not given is 1, or the first of its names."""
    columns = {name: np.array([row.get(name, PLAIN[name]) for row in rows], np.int64) for name in FIELDS}
    return Layouts(columns, np.arange(len(rows)), node)
