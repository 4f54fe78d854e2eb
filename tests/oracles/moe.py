"""Scalar twin of the cost of a fused MoE layer, by docs/moe.md: two grouped kernels' twins and the helpers."""

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmodel.kernels.grouped_gemm_types import GroupedGemm, GroupedGemmSchedule
from jaxmodel.kernels.moe_types import Moe, MoeSchedule
from jaxmodel.machine import Gpu
from jaxmodel.sdcm import hit_probability

from . import grouped_gemm


class Candidate(NamedTuple):
    problem: Moe
    schedule: MoeSchedule
    gpu: Gpu


def costs(candidates: list[Candidate]) -> list[dict[str, Any]]:
    """Every field of `Cost` of every candidate, by name."""
    first = grouped_gemm.parts([_gate_up(candidate) for candidate in candidates])
    second = grouped_gemm.parts([_down(candidate) for candidate in candidates])
    held = _held([_moved(c.problem) / 2 for c in candidates], [c.gpu for c in candidates])
    found = []
    for (p, s, g), gate_up, down, share in zip(candidates, first, second, held, strict=True):
        rows = grouped_gemm.rows_of(p.classes)
        flop = 2 * p.hidden * p.inter * rows * (3 if p.gated else 2)
        between = rows * p.wide_bytes * (p.inter * (3 if p.gated else 2) + p.hidden)
        g_driven = grouped_gemm.driven(g, p.numbers.kernel, s.producers)
        found.append(grouped_gemm.added([gate_up, down], flop, g_driven, _helpers_s(p, g, share), between))
    return found


def _gate_up(candidate: Candidate) -> grouped_gemm.Candidate:
    p, s, g = candidate
    names = [field.name for field in dataclasses.fields(GroupedGemmSchedule)]
    schedule = GroupedGemmSchedule(**{name: getattr(s, name) for name in names})
    rows = grouped_gemm.rows_of(p.classes)
    problem = _product(p, min(p.tokens, rows), p.inter * (2 if p.gated else 1), p.hidden)
    return grouped_gemm.Candidate(problem, schedule, grouped_gemm.driven(g, p.numbers.kernel, s.producers))


def _down(candidate: Candidate) -> grouped_gemm.Candidate:
    p, s, _ = candidate
    first = _gate_up(candidate)
    own = {name: getattr(s, f"down_{name}") for name in ("tile_m", "tile_n", "stages", "warps_m")}
    schedule = dataclasses.replace(
        first.schedule, tile_k=s.tile_k * s.down_depth, **{name: value for name, value in own.items() if value}
    )
    return first._replace(problem=_product(p, grouped_gemm.rows_of(p.classes), p.hidden, p.inter), schedule=schedule)


def _product(p: Moe, tokens: float, n: float, k: float) -> GroupedGemm:
    return GroupedGemm(
        tokens=tokens, n=n, k=k, classes=p.classes, a_bytes=p.weight_bytes, b_bytes=p.weight_bytes,
        out_bytes=p.wide_bytes, a_align_bytes=p.align_bytes, b_align_bytes=p.align_bytes,
        out_align_bytes=p.align_bytes, a_warm=1.0, numbers=p.numbers.kernel, scaling=p.scaling,
    )  # fmt: skip


def _moved(p: Moe) -> float:
    """V of the page: bytes of the kernels beside the products."""
    rows = grouped_gemm.rows_of(p.classes)
    handled = max(p.routed_everywhere, rows) if p.numbers.all_rows else rows
    moved = handled * p.inter * p.wide_bytes * (3 if p.gated else 2) + (handled + p.tokens) * p.hidden * p.wide_bytes
    moved += p.numbers.permutes * (p.tokens + rows) * p.hidden * p.weight_bytes
    if p.scaling:
        moved += (p.tokens * p.hidden + handled * p.inter) * (p.wide_bytes + p.weight_bytes)
    return moved


def _helpers_s(p: Moe, g: Gpu, held: float) -> float:
    moved = _moved(p)
    bytes_s = max(moved / g.l2_bytes_per_s, moved * (1 - held) / g.ddr_bytes_per_s)
    kernels = 5 if p.scaling else 3
    return p.numbers.framework_s + kernels * g.launch_overhead_s + p.numbers.helper_scale * bytes_s


def _held(sizes: list[float], gpus: list[Gpu]) -> list[float]:
    with jax.enable_x64(True):
        capacity = np.array([g.l2_capacity_bytes * g.l2_effective_ratio for g in gpus])
        ways = np.array([g.l2_ways for g in gpus])
        return [float(value) for value in np.asarray(hit_probability(np.array(sizes), capacity, ways))]
