"""The makespan of attention's tiles against list schedules made tile by tile, in the launch's order."""

import math
from dataclasses import replace

import jax
import numpy as np
import pytest
from oracles.list_schedule import makespan as listed

from dse.content.gpu import load_gpu
from dse.kernels.attention import AttentionProblem
from jaxmodel.kernels.attention_tiles import Pace, makespan, tile_classes
from jaxmodel.kernels.attention_types import AttentionSchedule

COUNT = 500
SLOTS = 132


def launch(random: np.random.Generator) -> tuple[dict[str, float], list[float]]:
    """A drawn launch as numbers, and its tiles' seconds in launch order; a block takes a second."""
    batch, heads = int(random.integers(1, 20)), int(random.choice([1, 2, 4, 8, 16, 32]))
    tokens = int(np.exp(random.uniform(np.log(64), np.log(8192))))
    at = {
        "batch": batch, "heads": heads, "q_tokens": tokens, "causal": int(random.random() < 0.8),
        "tile_m": int(random.choice([64, 128, 192])), "tile_n": int(random.choice([64, 128])),
        "longest_first": int(random.integers(0, 2)), "fixed_s": float(random.uniform(0.2, 3.0)),
    }  # fmt: skip
    at["head_section"] = int(random.choice([1, 2, 4, heads])) if at["longest_first"] else 0
    tiles = math.ceil(tokens / at["tile_m"])
    seen = [min((i + 1) * at["tile_m"], tokens) if at["causal"] else tokens for i in range(tiles)]
    seconds = [at["fixed_s"] + math.ceil(keys / at["tile_n"]) for keys in seen]
    order = []
    for first in range(0, heads, at["head_section"] or 1):
        lines = min(at["head_section"] or 1, heads - first)
        order += [one for one in (reversed(seconds) if at["longest_first"] else seconds) for _ in range(lines)]
    return at, order * batch


@pytest.fixture(scope="module")
def errors() -> dict[str, np.ndarray]:
    """Closed form over list schedule - 1, and what was drawn."""
    random = np.random.default_rng(5)
    drawn = [launch(random) for _ in range(COUNT)]
    columns = {name: np.array([at[name] for at, _ in drawn], np.float32) for name in drawn[0][0]}
    problem = replace(
        AttentionProblem.from_shape("1x1x64x64").arrays(),
        kv_heads=columns["heads"],
        kv_tokens=columns["q_tokens"],
        **{name: columns[name] for name in ("batch", "heads", "q_tokens", "causal")},
    )
    names = ("tile_m", "tile_n", "longest_first", "head_section")
    rest = dict.fromkeys(("q_in_registers", "p_in_smem", "registers_measured", "smem_measured_bytes"), np.float32(0))
    rest |= dict.fromkeys(("stages", "warpgroups", "splits", "persistent"), np.float32(1))
    schedule = AttentionSchedule(
        **{name: columns[name] for name in names}, **rest, order=np.float32(3), pack_gqa=np.float32(0)
    )

    @jax.jit
    def closed(problem: object, schedule: AttentionSchedule, fixed_s: jax.Array) -> object:
        pace = Pace(fixed_s=fixed_s, block_s=1.0, engine_s=0.0)
        gpu = load_gpu("h100_sxm").bind("bf16", family="wgmma")
        return makespan(problem, schedule, tile_classes(problem, schedule), pace, 1.0, gpu)[0]  # type: ignore[arg-type]

    found = np.asarray(closed(problem, schedule, columns["fixed_s"]), float)
    exact = np.array([listed(order, SLOTS) for _, order in drawn])
    waves = np.array([len(order) / SLOTS for _, order in drawn])
    return {**columns, "waves": waves, "error": found / exact - 1.0}


def test_one_wave_takes_its_longest_tile(errors: dict[str, np.ndarray]) -> None:
    assert np.abs(errors["error"][errors["waves"] <= 1.0]).max() < 1e-6


def test_equal_tiles_take_whole_waves(errors: dict[str, np.ndarray]) -> None:
    assert np.abs(errors["error"][errors["causal"] == 0]).max() < 1e-6


@pytest.mark.parametrize("longest_first", [0, 1])
@pytest.mark.parametrize(("low", "high", "mean", "worst"), [(1.0, 4.0, 0.035, 0.25), (4.0, np.inf, 0.01, 0.08)])
def test_causal_tiles_are_near_the_list_schedule(
    errors: dict[str, np.ndarray], longest_first: int, low: float, high: float, mean: float, worst: float
) -> None:
    chosen = (errors["longest_first"] == longest_first) & (errors["causal"] > 0)
    error = errors["error"][chosen & (errors["waves"] > low) & (errors["waves"] <= high)]
    assert len(error) > 25
    assert np.abs(error).mean() < mean
    assert abs(error.mean()) < 0.02
    assert np.abs(error).max() < worst
