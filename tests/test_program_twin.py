"""What a tile program costs against its scalar twin, field by field, on drawn tables of three shapes."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import program as twin
from oracles.gemm_draws import draw_gemms
from oracles.quick_compile import QUICK

from jaxmodel.occupancy import Footprint
from jaxmodel.program import Action, Buffer, InOrder, Loop, Needs, Reduction, TileProgram, program_cost
from jaxmodel.resources import Demand
from jaxmodel.types import PIPELINES, Cost

COUNT = 120
SHAPES = ("stream", "two agents", "ahead")
WHOLE = ("bound", "ctas_per_sm", "occupancy_limiter", "threads", "sms_used")


def drawn_numbers(count: int, seed: int) -> dict[str, np.ndarray]:
    """Numbers that a table is filled with: nothing is drawn inside a program, so that both twins see the same."""
    rng = np.random.default_rng(seed)
    log = lambda low, high: np.exp(rng.uniform(np.log(low), np.log(high), count))  # noqa: E731
    return {
        "tiles": np.floor(log(1, 2e5)),
        "trips": np.floor(log(1, 300)),
        "slots": rng.choice([1.0, 2.0, 3.0, 4.0, 7.0], count),
        "smem": log(1e3, 2e5),
        "warps": rng.choice([4.0, 8.0, 12.0], count),
        "registers": np.floor(rng.uniform(24, 250, count)),
        "bytes": log(512, 1e5),
        "hit": rng.uniform(0, 1, count),
        "flop": log(1e3, 2e7),
        "ops": log(16, 2e4),
        "slow_s": rng.choice([0.0, 1e-7, 6e-7], count),
        "persistent": rng.choice([0.0, 1.0], count),
        "overlapped": rng.choice([0.0, 1.0], count),
        "ahead": rng.choice([0.0, 2.0], count),
        "free": rng.choice([0.0, 8.0], count),
        "written": log(64, 1e5),
        "workspace": rng.choice([0.0, 1e6], count),
    }


def table(at: dict[str, Any], shape: str) -> TileProgram:
    """A program of the drawn numbers, arrays or Python floats."""
    moved = Demand(fabric_bytes=at["bytes"], l2_bytes=at["bytes"], ddr_bytes=at["bytes"] * (1.0 - at["hit"]))
    load = Action("load", moved, latency_s=at["slow_s"])
    multiply = Action("multiply", Demand(tensor_flop=at["flop"], smem_bytes=at["bytes"]), overhead_s=at["slow_s"] * 0.1)
    softmax = Action("softmax", Demand(cuda_flop=at["ops"] * 6.0, sfu_op=at["ops"]))
    again = Action("again", Demand(tensor_flop=at["flop"] * 0.7, tmem_bytes=at["bytes"]))
    needs = (Needs("multiply", "load"), Needs("softmax", "multiply"), Needs("again", "softmax"))
    arcs: dict[str, tuple] = {
        "stream": (Buffer("load", "softmax", at["slots"]),),
        "two agents": (
            Buffer("load", "again", at["slots"]),
            InOrder("tensor", (("multiply", 0), ("again", 0)), hand_over_s=at["slow_s"] * 0.2),
            Needs("softmax", "softmax", distance=1),
        ),
        "ahead": (
            Buffer("load", "softmax", at["slots"] + 1.0),
            InOrder("tensor", (("multiply", 1), ("again", 0))),
        ),
    }
    out = Demand(fabric_bytes=at["written"], l2_bytes=at["written"], ddr_bytes=at["written"], cuda_flop=at["ops"])
    return TileProgram(
        tiles=at["tiles"],
        footprint=Footprint(
            smem_bytes=at["smem"],
            threads=at["warps"] * 32.0,
            registers=at["warps"] * 32.0 * at["registers"],
            tmem_columns=0.0 * at["smem"],
        ),
        registers_per_thread=at["registers"],
        before=(dataclasses.replace(load, name="first"),),
        loop=Loop((load, multiply, softmax, again), at["trips"], (*needs, *arcs[shape]), ahead=at["ahead"]),
        after=(
            Action("reduce", Demand(smem_bytes=at["bytes"]), latency_s=at["slow_s"]),
            Action("store", out, writes=True),
        ),
        flop=at["flop"] * at["tiles"],
        persistent=at["persistent"],
        overlapped=at["overlapped"] > 0,
        sms_free=at["free"],
        framework_s=at["slow_s"] * 3.0,
        helpers_s=at["slow_s"] * 2.0,
        reduction=Reduction(seconds=at["slow_s"], workspace_bytes=at["workspace"], read_bytes=at["workspace"]),
    )


def compared(shape: str, float_dtype: type, seed: int = 0) -> dict[str, np.ndarray]:
    """Relative differences of every field; 0 or 1 of whole numbers. Candidates that do not fit count as well."""
    numbers = {name: value.astype(np.float32).astype(float) for name, value in drawn_numbers(COUNT, seed).items()}
    parts = [draw_gemms(COUNT // 3, 7, family)[2] for family in ("mma_sync", "wgmma", "tcgen05")]
    gpu = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    with jax.enable_x64(float_dtype is np.float64):
        cast = jax.tree.map(lambda leaf: jnp.asarray(leaf, float_dtype), (numbers, gpu))
        options = {} if float_dtype is np.float32 else QUICK
        ours = jax.jit(lambda at, g: program_cost(table(at, shape), g), compiler_options=options)(*cast)
        ours = flat({f.name: getattr(ours, f.name) for f in dataclasses.fields(Cost)})
    rows = []
    for i in range(COUNT):
        at = {name: float(value[i]) for name, value in numbers.items()}
        machine = jax.tree.map(lambda leaf: leaf[i].tolist(), gpu)  # noqa: B023
        rows.append(flat(twin.program_cost(table(at, shape), machine)))
    theirs = {name: np.array([row[name] for row in rows], float) for name in rows[0]}
    found = {"fits": (np.broadcast_to(ours["reason"], COUNT) == 0) != theirs["fits"]}
    for name in theirs.keys() & ours.keys():
        mine = np.broadcast_to(np.asarray(ours[name], float), COUNT)
        scale = np.maximum(np.abs(theirs[name]), least(name, theirs))
        found[name] = mine != theirs[name] if name in WHOLE else np.abs(mine - theirs[name]) / scale
    return found


def flat(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of a cost, a pipeline each in its own."""
    pipelines = dict(zip(PIPELINES, fields["pipeline_s"], strict=True))
    rest = {name: value for name, value in fields.items() if name != "pipeline_s"}
    return rest | {f"pipeline_{name}_s": value for name, value in pipelines.items()}


def least(name: str, theirs: dict[str, np.ndarray]) -> Any:
    """Small differences of large numbers are compared with at least a hundredth of those."""
    if name.endswith("_s") and not name.startswith("pipeline"):
        return 0.01 * theirs["latency_s"]
    if name.endswith("_hit"):
        return 0.01
    return 0.01 * theirs["l15_bytes"] if name.startswith("ddr") else 1e-30


@pytest.mark.parametrize("shape", SHAPES)
def test_every_field_agrees_with_the_twin(shape: str) -> None:
    for name, apart in compared(shape, np.float64).items():
        assert apart.max() < 1e-9, (name, apart.argmax(), apart.max())


def test_float32_agrees_to_rounding() -> None:
    """A code flips where two numbers are equal to float32 rounding, so codes are compared in float64 alone."""
    for name, apart in compared("two agents", np.float32).items():
        if name not in (*WHOLE, "fits"):
            assert apart.max() < 1e-4, (name, apart.argmax(), apart.max())


@pytest.mark.parametrize(
    "name", ["cta_launch_s", "ddr_write_cost", "store_exposure", "overlap_loss", "launch_overhead_s"]
)
def test_a_wrong_number_would_be_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of another machine differs: the comparison sees every number that the cost depends on."""
    exact = twin.program_cost

    def of_another(t: TileProgram, g: Any) -> dict[str, Any]:
        return exact(t, dataclasses.replace(g, **{name: getattr(g, name) * 1.3 + 1e-9}))

    monkeypatch.setattr(twin, "program_cost", of_another)
    assert compared("stream", np.float64)["latency_s"].max() > 1e-6
