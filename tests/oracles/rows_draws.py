"""Drawn candidates of the memory-bound kernels: problems as users state them, schedules that fit and that do not.

Sizes have at most twelve significant bits and flat grids powers of two, so that float32 counts tiles exactly.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from dse.content.files import content_files
from dse.content.gpu import load_gpu
from dse.kernels.registry import get_kernel
from dse.kernels.rows import PROBLEMS
from jaxmodel.kernels.rows_types import Rows, RowSchedule
from jaxmodel.machine import Gpu, Mma

from .gemm_draws import FAMILIES, draw_gemms

KERNELS = tuple(problem.kernel for problem in PROBLEMS)
Random = np.random.Generator


class Draw(NamedTuple):
    """Records whose leaves have one entry a candidate (`cluster_sms`: one row)."""

    problem: Rows
    schedule: RowSchedule
    gpu: Gpu


def draw_rows(count: int, seed: int, kernel: str) -> Draw:
    """`count` candidates of one kernel on GPUs of which every number is perturbed; half of them draw too much power."""
    random = np.random.default_rng([seed, KERNELS.index(kernel)])
    problems = [_problem(random, kernel).arrays(np.float64) for _ in range(count)]
    parts = [draw_gemms(count, seed, family).gpu for family in FAMILIES]
    which = random.integers(0, len(parts), count)
    gpu = _mapped(lambda *leaves: np.stack(leaves)[which, np.arange(count)], *parts)
    room_w = _float32(10.0 ** random.uniform(0.0, 3.0, count))
    gpu = dataclasses.replace(gpu, tdp_w=gpu.static_w + room_w)
    return Draw(_mapped(lambda *leaves: np.stack(leaves), *problems), _schedule(random, count), gpu)


def on_files(draw: Draw) -> Draw:
    """The same candidates, each on one of the packaged GPUs in turn."""
    machines = []
    for name in content_files("hardware/gpus"):
        file = load_gpu(name)
        dtype = "bf16" if "bf16" in file.dtypes() else file.dtypes()[0]
        machines.append(file.bind(dtype, file.accumulators(dtype)[0], float_dtype=np.float64))
    count = len(draw.problem.rows)
    return draw._replace(gpu=_mapped(lambda *leaves: np.stack(leaves)[np.arange(count) % len(machines)], *machines))


def _problem(random: Random, kernel: str) -> Any:
    made = get_kernel(kernel).problem
    of = lambda *values: values[random.integers(len(values))]  # noqa: E731
    dtype = of("bf16", "bf16", "fp16", "fp32") if kernel == "quantise" else of("bf16", "bf16", "fp16", "fp32", "fp8")
    choices: dict[str, Any] = {"dtype": dtype, "warm": of(False, False, True)}
    unit = of(1, 8, 64)
    if kernel == "elementwise":
        choices |= {"inputs": of(1, 2, 3), "flop_per_element": of(0.0, 2.0, 60.0), "sfu_per_element": of(0.0, 1.0, 6.0)}
    elif kernel in ("layernorm", "rmsnorm"):
        choices |= {"residual": of(False, True)}
    elif kernel in ("rope", "kv_cache_write"):
        choices |= {"head_dim": of(64, 128)}
        unit = choices["head_dim"] * (2 if kernel == "kv_cache_write" else 1)
    elif kernel == "quantise":
        choices |= {"scope": of("group", "row", "tensor", "given"), "out_dtype": of("fp8", "int8", "nvfp4")}
        choices["group_size"] = unit = of(16, 128)
    if kernel == "kv_cache_write":
        choices |= {"page_tokens": of(1, 16), "page_layout": of("nhd", "hnd"), "out_dtype": of(None, "fp8")}
    rows, cols = _bits(random, 1, 2**16), _bits(random, 1, max(2**16 // unit, 1)) * unit
    return made.from_shape(f"{rows}x{cols}", **choices)


def _bits(random: Random, low: int, high: int, significant: int = 11) -> int:
    number = int(np.exp(random.uniform(np.log(low), np.log(high))))
    shift = max(number.bit_length() - significant, 0)
    return (number >> shift) << shift


def _schedule(random: Random, count: int) -> RowSchedule:
    pick = lambda *values: random.choice(np.array(values, float), count)  # noqa: E731
    flat = random.random(count) < 0.4
    odd = ~flat & (random.random(count) < 0.3)
    some = random.random(count) < 0.5
    return RowSchedule(
        cta_threads=np.where(odd, pick(96, 160, 192, 384, 640), pick(32, 64, 128, 256, 512, 1024)),
        vector_bytes=pick(16, 16, 8, 4, 2, 1),
        unroll=np.where(odd, pick(3, 6, 12), pick(1, 2, 4, 8)),
        stages=pick(1, 2, 3, 4, 6),
        steps=np.where(flat, pick(1, 2, 4, 16, 64), 0.0),
        rows_per_cta=np.where(flat | some, 1.0, pick(1, 2, 4, 8, 32)),
        splits=np.where(~flat & some & (random.random(count) < 0.5), pick(2, 3, 8, 64), 1.0),
        keep=np.where(flat, 0.0, pick(0, 0, 1, 2)),
        persistent=pick(0, 1),
    )


def _float32(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).astype(np.float64)


def _mapped(function: Any, record: Any, *others: Any) -> Any:
    """A record of what a function makes of the records' leaves."""
    values = {}
    for field in dataclasses.fields(record):
        leaves = [getattr(of, field.name) for of in (record, *others)]
        if isinstance(leaves[0], Mma):
            values[field.name] = _mapped(function, *leaves)
        else:
            values[field.name] = None if leaves[0] is None else function(*leaves)
    return type(record)(**values)
