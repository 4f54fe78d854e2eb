"""Tile programs: GEMM said as one costs what `gemm.cost` says, and wrong tables are refused when they are traced."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.gemm_draws import FAMILIES, draw_gemms

from jaxmodel.kernels import gemm
from jaxmodel.kernels.gemm_footprint import footprint, registers_per_thread
from jaxmodel.kernels.gemm_traffic import operand_traffic
from jaxmodel.occupancy import Footprint, residency
from jaxmodel.program import Action, Buffer, InOrder, Loop, Needs, TileProgram, load_latency_s, program_cost
from jaxmodel.resources import Demand
from jaxmodel.types import BOUNDS, EPILOGUE_OVERLAPPED, Cost

COUNT = 1500
SAME = (
    "latency_s", "prologue_s", "steady_s", "epilogue_s", "tail_s", "l15_bytes", "l2_bytes", "ddr_read_bytes",
    "ddr_write_bytes", "waves", "sms_used", "ctas_per_sm", "flop",
)  # fmt: skip


def gemm_program(problem, schedule, gpu) -> TileProgram:
    """GEMM without splits and sharing: load, MMA, a ring of `stages` buffers, store."""
    problem = gemm.oriented(problem, schedule.swap_ab)
    occupied = footprint(problem, schedule, gpu)
    resident, _ = residency(occupied, gpu)
    cut = gemm.grid(problem, schedule, resident, gpu)
    traffic = operand_traffic(problem, schedule, gpu, cut.rows, cut.cols, cut.sms, cut.slots)
    step = gemm.loop_demand(problem, schedule, gpu, traffic)
    stored = gemm.store_demand(problem, schedule, gpu, cut, traffic)
    moved = Demand(fabric_bytes=step.fabric_bytes, l2_bytes=step.l2_bytes, ddr_bytes=step.ddr_bytes)
    multiplied = Demand(tensor_flop=step.tensor_flop, cuda_flop=step.cuda_flop, smem_bytes=step.smem_bytes)
    latency_s = load_latency_s(gpu, traffic.l2_hit) + gpu.mma_latency_s
    written = dataclasses.replace(stored, ddr_bytes=stored.ddr_bytes / gpu.ddr_write_cost)
    return TileProgram(
        tiles=cut.tiles,
        footprint=occupied,
        registers_per_thread=registers_per_thread(problem, schedule, gpu),
        loop=Loop(
            actions=(
                Action("load", moved, latency_s=latency_s),
                Action("mma", multiplied, overhead_s=gpu.step_overhead_s),
            ),
            trips=cut.k_steps,
            arcs=(Needs("mma", "load"), Buffer("load", "mma", schedule.stages)),
            ahead=schedule.stages,
        ),
        after=(Action("store", written, writes=True),),
        flop=2.0 * problem.m * problem.n * problem.k * problem.batch,
        persistent=schedule.persistent,
        overlapped=schedule.epilogue >= EPILOGUE_OVERLAPPED,
        sms_free=gpu.sm_count - cut.sms,
        helpers_s=gemm.quantise_seconds(problem, gpu),
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_gemm_said_as_a_tile_program_costs_the_same(family: str) -> None:
    """Without the power limit: its energy counts shared-memory bytes of the loop only in GEMM, of all actions here."""
    problem, schedule, gpu = draw_gemms(COUNT, 3, family)
    one = np.ones_like(schedule.split_k)
    schedule = dataclasses.replace(schedule, stream_k=0 * one, split_k=one, swap_ab=0 * one)
    problem = dataclasses.replace(problem, c_in_bytes=0 * problem.c_in_bytes)
    gpu = dataclasses.replace(gpu, power_time_s=0 * gpu.power_time_s)
    with jax.enable_x64(True):
        records = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), (problem, schedule, gpu))
        known = gemm.cost(*records)
        said = program_cost(gemm_program(*records), records[2])
    fits = np.broadcast_to(known.reason, COUNT) == 0
    assert fits.sum() > 100
    for name in SAME:
        ours, theirs = (np.broadcast_to(getattr(cost, name), COUNT)[fits] for cost in (said, known))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-18, err_msg=name)
    for ours, theirs in zip(said.pipeline_s, known.pipeline_s, strict=True):
        np.testing.assert_allclose(np.broadcast_to(ours, COUNT)[fits], np.broadcast_to(theirs, COUNT)[fits], rtol=1e-9)


def tiny(loop: Loop, **changes: object) -> TileProgram:
    occupied = Footprint(smem_bytes=150e3, threads=128.0, registers=4096.0, tmem_columns=0.0)
    return TileProgram(tiles=1000.0, footprint=occupied, registers_per_thread=32.0, loop=loop, **changes)  # type: ignore[arg-type]


def cost_of(program: TileProgram) -> Cost:
    _, _, gpu = draw_gemms(1, 0, "wgmma")
    return program_cost(program, gpu)


LOAD = Action("load", Demand(fabric_bytes=4096.0, l2_bytes=4096.0, ddr_bytes=4096.0), latency_s=5e-7)
WORK = Action("work", Demand(cuda_flop=4096.0))


def test_an_arc_that_names_no_action_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"arcs of the loop name lod; its actions are load, work"):
        cost_of(tiny(Loop((LOAD, WORK), trips=8.0, arcs=(Needs("work", "lod"),))))


def test_actions_that_wait_for_each_other_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"load|work"):
        cost_of(tiny(Loop((LOAD, WORK), trips=8.0, arcs=(Needs("work", "load"), Needs("load", "work")))))


def test_two_actions_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"two actions of the loop are called load"):
        cost_of(tiny(Loop((LOAD, LOAD), trips=8.0)))


def test_more_buffers_hide_latency_and_binds_says_so() -> None:
    def looped(slots: float) -> Cost:
        arcs = (Needs("work", "load"), Buffer("load", "work", slots))
        return cost_of(tiny(Loop((LOAD, WORK), trips=64.0, arcs=arcs)))

    few, many = looped(1.0), looped(64.0)
    assert float(many.latency_s[0]) < 0.8 * float(few.latency_s[0])
    assert BOUNDS[int(few.bound[0])] == "latency"
    assert BOUNDS[int(many.bound[0])] != "latency"


def test_an_agent_in_order_is_slower_than_free_actions() -> None:
    second = dataclasses.replace(WORK, name="more", demand=Demand(sfu_op=600.0))
    needs = (Needs("work", "load"), Needs("more", "work"), Buffer("load", "work", 8.0))
    free = cost_of(tiny(Loop((LOAD, WORK, second), trips=64.0, arcs=needs)))
    warps = InOrder("warps", (("work", 0), ("more", 0)), hand_over_s=3e-7)
    turned = cost_of(tiny(Loop((LOAD, WORK, second), trips=64.0, arcs=(*needs, warps))))
    assert np.all(turned.latency_s > free.latency_s)


def test_bytes_of_actions_that_write_are_written() -> None:
    stored = Action("store", Demand(fabric_bytes=512.0, l2_bytes=512.0, ddr_bytes=512.0), writes=True)
    cost = cost_of(tiny(Loop((LOAD,), trips=4.0), after=(stored,)))
    assert float(cost.ddr_write_bytes) == 512.0 * 1000
    assert float(cost.ddr_read_bytes) == 4096.0 * 4 * 1000
    assert float(cost.l2_hit) == 0.0
