"""Attention's work and times: what a launch asks in all, what a block and a tile take, what is added to a kernel."""

import jax.numpy as jnp

from .._exact import ceil_div
from .._pytree import pytree
from ..envelope import shared_pace
from ..machine import Gpu
from ..program import Action
from ..program.times import busy_of
from ..resources import Demand, busy_seconds
from ..sdcm import hit_probability
from ..types import PIPELINES, Array, Floats
from .attention_overlap import BlockTimes, first_block_seconds
from .attention_parts import (
    ACCUMULATOR_BYTES,
    kv_block_bytes,
    kv_miss,
    product_demand,
    score_buffers,
    softmax_demand,
)
from .attention_tiles import TileClass, mean_split_blocks, section_heads
from .attention_types import Attention, AttentionSchedule, SequenceClass


@pytree
class Work:
    """How much there is to do, over the whole launch."""

    tiles: Array  # CTAs' worth, splits included
    blocks: Array  # of all tiles
    longest: Array  # blocks of the longest tile before it is split
    rows: Array  # of Q: queries x query heads
    pairs: Array  # (query, key) pairs that the mask leaves, all heads
    kv_bytes: Array  # of K and V, each once
    kv_lines: Array  # KV heads of sequences


@pytree
class TileDemands:
    """What a tile asks for a block of keys (products, softmax, loads of K and V), and once (Q, O)."""

    qk: Demand
    pv: Demand
    softmax: Demand
    load: Demand
    query: Demand
    store: Demand  # O, or a partial O in fp32


@pytree
class TileSeconds:
    """What a tile takes beyond its loop."""

    first_s: Array  # to the end of the first block: all of it, or from when its loads are there (persistent)
    store_s: Array  # after the last block: all of it, or until the output is staged (persistent)
    loads_s: Array  # before the first tile of a persistent CTA
    drain_s: Array  # after its last one


def total_work(problem: Attention, schedule: AttentionSchedule, classes: list[TileClass]) -> Work:
    """Counts and bytes of the whole launch."""
    own = SequenceClass(batch=problem.batch, q_tokens=problem.q_tokens, kv_tokens=problem.kv_tokens)
    tiles = blocks = longest = queries = pairs = keys = lines = 0.0
    for sequences, tile in zip((own, *problem.more), classes, strict=True):
        parts = tile.lines * schedule.splits
        tiles = tiles + tile.tiles * parts
        blocks = blocks + parts * mean_split_blocks(tile.blocks, tile.tiles, schedule.splits)
        longest = jnp.maximum(longest, tile.longest)
        queries = queries + sequences.batch * sequences.q_tokens
        pairs = pairs + sequences.batch * _pairs(problem, sequences)
        keys = keys + sequences.batch * sequences.kv_tokens
        lines = lines + sequences.batch
    return Work(
        tiles=tiles,
        blocks=blocks,
        longest=longest,
        rows=queries * problem.heads,
        pairs=pairs * problem.heads,
        kv_bytes=keys * problem.kv_heads * (problem.head_dim + problem.v_dim) * problem.kv_bytes,
        kv_lines=lines * problem.kv_heads,
    )


def _pairs(problem: Attention, sequences: SequenceClass) -> Floats:
    queries, keys = sequences.q_tokens, sequences.kv_tokens
    prefix = keys - queries
    window = jnp.where(problem.window > 0, problem.window, keys)
    short = jnp.clip(window - prefix, 0.0, queries)  # queries that see less than a window
    masked = short * (prefix + 0.5 * (short + 1.0)) + (queries - short) * window
    return jnp.where(problem.causal > 0, masked, queries * keys)


def tile_demands(
    problem: Attention, schedule: AttentionSchedule, gpu: Gpu, classes: list[TileClass], work: Work
) -> tuple[TileDemands, Floats]:
    """What a tile asks of the pipelines, and the share of K and V that L2 does not hold.

    Q is read once from DDR (unless it is warm), whatever the splits. Partial outputs reach DDR where L2 cannot hold
    the workspace.
    """
    capacity = gpu.l2_capacity_bytes * gpu.l2_effective_ratio
    qk, pv = product_demand(problem, schedule, gpu)
    block_bytes = kv_block_bytes(problem, schedule) * filled_share(schedule, classes)
    miss = kv_miss(
        problem,
        schedule,
        gpu,
        work.blocks * block_bytes,
        work.kv_bytes,
        *_in_flight(problem, schedule, gpu, classes, work),
    )
    near = neighbour_hit(problem, schedule, gpu, classes, block_bytes)
    rows = work.rows * schedule.splits / work.tiles  # of a tile in the mean
    q_bytes = rows * problem.head_dim * problem.q_bytes
    all_q_bytes = work.rows * problem.head_dim * problem.q_bytes
    first_touch = 1.0 / schedule.splits
    q_warm = problem.q_warm * gpu.l2_retention * hit_probability(all_q_bytes, capacity, gpu.l2_ways)
    split = schedule.splits > 1
    outputs = rows * problem.v_dim
    out_bytes = outputs * jnp.where(split, ACCUMULATOR_BYTES, problem.out_bytes)
    spilled = jnp.where(split, workspace_miss(problem, schedule, gpu, work), 1.0)
    elements = schedule.tile_m * problem.v_dim
    in_tmem = gpu.mma.accumulator_in_tmem > 0
    demands = TileDemands(
        qk=qk,
        pv=pv,
        softmax=softmax_demand(problem, schedule, gpu),
        load=Demand(
            smem_bytes=block_bytes,
            fabric_bytes=block_bytes,
            l2_bytes=block_bytes * (1.0 - jnp.minimum(near, 1.0 - miss)),
            ddr_bytes=block_bytes * miss,
        ),
        query=Demand(
            smem_bytes=q_bytes,
            fabric_bytes=q_bytes,
            l2_bytes=q_bytes,
            ddr_bytes=q_bytes * (1.0 - q_warm) * first_touch,
        ),
        store=Demand(
            cuda_flop=2.0 * elements,
            sfu_op=schedule.tile_m,
            tmem_bytes=jnp.where(in_tmem, elements * ACCUMULATOR_BYTES, 0.0),
            smem_bytes=2.0 * elements * problem.out_bytes,
            fabric_bytes=out_bytes,
            l2_bytes=out_bytes,
            ddr_bytes=out_bytes * spilled,  # written: their cost is added where they are timed
        ),
    )
    return demands, miss


def filled_share(schedule: AttentionSchedule, classes: list[TileClass]) -> Floats:
    """Share of a block that holds keys, where sequences are not whole blocks: loads fetch no more."""
    tiles = classes[0]
    return tiles.keys / (ceil_div(tiles.keys, schedule.tile_n) * schedule.tile_n)


def _in_flight(
    problem: Attention, schedule: AttentionSchedule, gpu: Gpu, classes: list[TileClass], work: Work
) -> tuple[Floats, Floats]:
    """Bytes of K and V of one KV head of a sequence, and how many of these are read at the same time."""
    line_bytes = problem.kv_tokens * (problem.head_dim + problem.v_dim) * problem.kv_bytes
    shared_by = schedule.splits * _tiles_of_a_head(problem, schedule, classes)
    running = jnp.clip(gpu.sm_count / shared_by, 1.0, work.kv_lines)
    sectioned = jnp.maximum(running, section_heads(problem, schedule, gpu))
    return line_bytes, jnp.where(schedule.longest_first > 0, sectioned, running)


def neighbour_hit(
    problem: Attention, schedule: AttentionSchedule, gpu: Gpu, classes: list[TileClass], block_bytes: Floats
) -> Floats:
    """Share of K and V that L1.5 serves: SMs of a group work on neighbouring tiles of a KV head, which begin together
    at the same key, so one of them fetches a block for all as long as it stays there for a block."""
    sharers = jnp.minimum(gpu.l15_group_sms, _tiles_of_a_head(problem, schedule, classes))
    kept = hit_probability(block_bytes, gpu.l15_capacity_bytes, gpu.l15_ways)
    return (1.0 - 1.0 / jnp.maximum(sharers, 1.0)) * kept


def _tiles_of_a_head(problem: Attention, schedule: AttentionSchedule, classes: list[TileClass]) -> Floats:
    return classes[0].tiles * classes[0].lines / (problem.batch * problem.kv_heads)


def workspace_bytes(problem: Attention, schedule: AttentionSchedule, work: Work) -> Floats:
    """Global memory for partial outputs and their row maxima and sums; 0 without splits."""
    each = work.rows * (problem.v_dim + 2.0) * ACCUMULATOR_BYTES
    return jnp.where(schedule.splits > 1, each * schedule.splits, 0.0)


def workspace_miss(problem: Attention, schedule: AttentionSchedule, gpu: Gpu, work: Work) -> Floats:
    """Share of the partial outputs that L2 cannot hold."""
    capacity = gpu.l2_capacity_bytes * gpu.l2_effective_ratio
    return 1.0 - hit_probability(workspace_bytes(problem, schedule, work), capacity, gpu.l2_ways)


def block_times(
    problem: Attention, schedule: AttentionSchedule, demands: TileDemands, gpu: Gpu, miss: Floats, active: Floats
) -> BlockTimes:
    """What one warpgroup's products and softmax of a block take, and the block's load, with `active` SMs at work."""
    numbers, share = problem.numbers, 1.0 / schedule.warpgroups
    own_issue = (gpu.mma.operands_in_smem < 1) & (gpu.mma.accumulator_in_tmem < 1)
    loss = jnp.where(own_issue, gpu.overlap_loss, 0.0)  # warps read their fragments out of step with the tensor cores

    def product(demand: Demand) -> Floats:
        busy = _busy(demand, gpu, active)
        return share * shared_pace(busy["tensor"], busy["smem"], loss)

    softmax = _busy(demands.softmax, gpu, active)
    page_s = jnp.where(problem.kv_page_tokens > 0, gpu.l2_latency_s, 0.0)  # the page table is read first
    return BlockTimes(
        qk_s=product(demands.qk),
        softmax_s=share * jnp.maximum((softmax["sfu"] + softmax["cuda"]) * numbers.softmax_scale, softmax["tmem"]),
        pv_s=product(demands.pv),
        product_latency_s=gpu.mma_latency_s,
        handover_s=numbers.handover_s,
        load_s=_memory_seconds(_busy(demands.load, gpu, active), gpu.overlap_loss),
        load_latency_s=_load_latency_s(gpu, miss) + page_s,
        warpgroups=schedule.warpgroups,
        stages=schedule.stages,
        score_buffers=score_buffers(schedule, gpu),
    )


def tile_seconds(
    problem: Attention, schedule: AttentionSchedule, demands: TileDemands, times: BlockTimes, gpu: Gpu
) -> TileSeconds:
    """Launch, loads and first block of a tile, and its store. A persistent CTA has the loads of its next tile under way
    while it ends this one. Tiles begin and end one by one, so Q and O have L2 and memory to themselves."""
    loss = gpu.overlap_loss
    query_s = _memory_seconds(_busy(demands.query, gpu, 1.0), loss)
    loads_s = gpu.cta_launch_s + times.load_latency_s + query_s + 0.5 * times.load_s  # Q and the first K
    first_s = first_block_seconds(times) + problem.numbers.tile_setup_s
    store = busy_of(Action("store", demands.store, writes=True), gpu, 1.0)
    written_s = shared_pace(store["l2"], gpu.store_exposure * store["ddr"], loss)
    staged_s = jnp.maximum(jnp.maximum(store["cuda"], store["sfu"]), jnp.maximum(store["tmem"], store["smem"]))
    persistent = schedule.persistent > 0
    drain_s = jnp.maximum(store["l15"], written_s)
    return TileSeconds(
        first_s=jnp.where(persistent, first_s, loads_s + first_s),
        store_s=jnp.where(persistent, staged_s, jnp.maximum(staged_s, drain_s)),
        loads_s=jnp.where(persistent, loads_s, 0.0),
        drain_s=jnp.where(persistent, drain_s, 0.0),
    )


def combine_seconds(problem: Attention, schedule: AttentionSchedule, gpu: Gpu, work: Work) -> Floats:
    """A second kernel that adds up the parts of split keys: it waits for the first, reads partial outputs, writes O."""
    parts = workspace_bytes(problem, schedule, work)
    out = work.rows * problem.v_dim * problem.out_bytes
    missed = parts * workspace_miss(problem, schedule, gpu, work)
    moved_s = jnp.maximum((parts + out) / gpu.l2_bytes_per_s, (missed + out * gpu.ddr_write_cost) / gpu.ddr_bytes_per_s)
    launch_s = jnp.where(problem.numbers.combine_s > 0, problem.numbers.combine_s, gpu.dependent_launch_s)
    return jnp.where(schedule.splits > 1, launch_s + moved_s, 0.0)


def helper_seconds(problem: Attention, gpu: Gpu, work: Work) -> Floats:
    """What the implementation's other kernels move, one after the other: per byte of Q and O, and of K and V."""
    q_bytes = work.rows * (problem.head_dim * problem.q_bytes + problem.v_dim * problem.out_bytes)
    moved = problem.numbers.helper_q * q_bytes + problem.numbers.helper_kv * work.kv_bytes
    return moved / gpu.ddr_bytes_per_s


def _busy(demand: Demand, gpu: Gpu, active: Floats) -> dict[str, Floats]:
    return dict(zip(PIPELINES, busy_seconds(demand, gpu, active), strict=True))


def _memory_seconds(busy: dict[str, Floats], loss: Floats) -> Floats:
    return shared_pace(shared_pace(busy["l15"], busy["l2"], loss), busy["ddr"], loss)


def _load_latency_s(gpu: Gpu, miss: Floats) -> Floats:
    return gpu.l2_latency_s + (gpu.ddr_latency_s - gpu.l2_latency_s) * miss
