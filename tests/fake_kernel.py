"""A small kernel whose cost is whole-number arithmetic: exact in float32, full of ties, easy to repeat in NumPy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dse.axis import Axis
from dse.job import SweepJob
from dse.space import Space
from jaxmodel._pytree import pytree

TICK_S = 2.0**-20  # latencies are whole multiples, so float32 holds them exactly
OBJECTIVES = ("latency_s", "ddr_bytes", "smem_bytes", "registers_per_thread", "workspace_bytes", "sms_used")


@pytree
class FakeProblem:
    work: Any


@pytree
class FakeGpu:
    speed: Any
    smem_max: Any


@pytree
class FakeSchedule:
    tile: Any
    stages: Any
    order: Any
    split: Any


@pytree
class FakeCost:
    latency_s: Any
    reason: Any
    ddr_bytes: Any
    smem_bytes: Any
    registers_per_thread: Any
    workspace_bytes: Any
    sms_used: Any


def fake_cost(problem: Any, schedule: Any, gpu: Any) -> FakeCost:
    """The cost; works on NumPy and on jax arrays alike."""
    tile, stages, order, split = schedule.tile, schedule.stages, schedule.order, schedule.split
    ticks = (tile * 37 + stages * 101 + order * 53 + split * 29) % 97 * gpu.speed + problem.work
    smem = tile * stages
    reason = (smem > gpu.smem_max) * 6 + (smem <= gpu.smem_max) * (split > stages * 3) * 12
    return FakeCost(
        latency_s=ticks * TICK_S,
        reason=reason,
        ddr_bytes=(tile * 11 + order * 7 + split * 3) % 61,
        smem_bytes=smem,
        registers_per_thread=(tile + 5 * stages) % 13,
        workspace_bytes=(split - 1) * tile,
        sms_used=(tile * 3 + order) % 7,
    )


@dataclass(frozen=True)
class FakeKernel:
    """`dse.job.CostModel` of the fake; `cost_function` may be replaced."""

    name: str = "fake"
    schedule_fields: tuple[str, ...] = ("tile", "stages", "order", "split")
    cost_function: Any = fake_cost

    def schedule(self, columns: Mapping[str, Any]) -> FakeSchedule:
        return FakeSchedule(**{name: columns[name] for name in self.schedule_fields})

    def cost(self, problem: Any, schedule: Any, gpu: Any) -> Any:
        return self.cost_function(problem, schedule, gpu)


def fake_space(tiles: int = 13, stages: int = 7, orders: int = 5, splits: int = 7) -> Space:
    return Space(
        name="fake/all",
        kernel="fake",
        family="none",
        dtype="bf16",
        axes=(
            Axis.of("tile", [3 * i + 1 for i in range(tiles)]),
            Axis(
                "pipeline",
                ("stages",),
                tuple((i + 1,) for i in range(stages)),
                tuple(f"s{i + 1}" for i in range(stages)),
            ),
            Axis.of("order", range(orders)),
            Axis.of("split", range(1, splits + 1)),
        ),
    )


def fake_job(space: Space | None = None, speed: float = 1.0, work: float = 5.0, **changes: Any) -> SweepJob:
    options: dict[str, Any] = {"objectives": OBJECTIVES[:3], "chunk_lanes": 256, "kernel": FakeKernel()} | changes
    return SweepJob(
        space=space or fake_space(),
        problem=FakeProblem(work=work),
        gpu=FakeGpu(speed=speed, smem_max=150.0),
        gpu_name="fake",
        **options,
    )


@dataclass(frozen=True)
class BruteForce:
    """Everything about a job, computed row by row in float64 NumPy and O(n^2) comparisons."""

    index: np.ndarray  # of the feasible rows
    values: np.ndarray  # their objectives
    reason: np.ndarray  # of all rows
    rank: np.ndarray  # of the feasible rows

    @classmethod
    def of(cls, job: SweepJob) -> "BruteForce":
        index = np.arange(job.start, job.end)
        fields = job.space.rows(index)
        cost = job.model.cost(job.problem, FakeSchedule(**fields), job.gpu)
        reason = np.broadcast_to(cost.reason, index.shape)
        values = np.stack([np.broadcast_to(getattr(cost, name), index.shape) for name in job.objectives], axis=1)
        rank = np.broadcast_to(getattr(cost, job.rank_by), index.shape)
        fits = reason == 0
        return cls(index[fits], values[fits].astype(float), reason, rank[fits].astype(float))

    def top(self, k: int, tie_limit: int) -> tuple[list[int], int]:
        """Indices of the best, ties with the k-th included up to the limit; and how many tie."""
        order = np.lexsort((self.index, self.rank))
        if len(order) < k:
            return self.index[order].tolist(), 0
        last = self.rank[order[k - 1]]
        near = [i for i in order if self.rank[i] <= last]
        return self.index[near[: k + tie_limit]].tolist(), int((self.rank == last).sum())

    def front(self, tie_limit: int) -> tuple[list[int], int]:
        """Indices on the front in the order of their objectives, ties up to the limit; and how many there are."""
        v = self.values
        on = [i for i in range(len(v)) if not ((v <= v[i]).all(axis=1) & (v < v[i]).any(axis=1)).any()]
        on.sort(key=lambda i: (*v[i], self.index[i]))
        kept: list[int] = []
        seen: dict[tuple, int] = {}
        for i in on:
            seen[tuple(v[i])] = seen.get(tuple(v[i]), 0) + 1
            if seen[tuple(v[i])] <= max(1, tie_limit):
                kept.append(int(self.index[i]))
        return kept, len(on)
