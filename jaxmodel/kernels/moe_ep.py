"""A layer of experts on several GPUs: dispatch under the first product, combine under the second.

Each product is a grouped GEMM on the SMs that move no rows; n tiles on P slots in W = ceil(n / P) waves of tau, its own
time over W. Rows arrive in C even chunks of whole tiles, and a tile waits for its chunk (`arrival_seconds`); results
leave chunk by chunk once their tiles are done (`departure_seconds`). With `own_first` an expert's rows are two groups,
those of the rank's own tokens and those of others: the first wait for nothing, and both are rounded up to tiles.

Equations: docs/fused-communication-moe-attention.md.
"""

import dataclasses

import jax.numpy as jnp

from .._exact import RECIPROCAL_EXACT, ceil_div_by_reciprocal
from ..machine import Gpu
from ..overlap import WaveEnds, arrival_seconds, departure_seconds
from ..reasons import Reason, first_reason
from ..types import BOUNDS, PIPELINES, Bools, Cost, Floats
from .fused_gemm_types import FusedCost
from .grouped_gemm import grouped_parts, with_numbers
from .grouped_gemm_cost import GroupedParts, cost_of
from .grouped_gemm_traffic import routed, routed_rows
from .grouped_gemm_types import ExpertClass, GroupedGemmSchedule
from .moe import products, schedules
from .moe_ep_types import ExpertLayer, ExpertLayerSchedule
from .moe_exchange import ExchangeTimes, exchange_checks, exchange_times
from .moe_exchange_types import LOW_LATENCY, Exchange, ExchangeSchedule
from .moe_types import Moe


def cost(problem: ExpertLayer, schedule: ExpertLayerSchedule, gpu: Gpu) -> FusedCost:
    """The cost of one rank's part, as a breakdown; see `jaxmodel.kernels.gemm.cost`."""
    low = schedule.transport == LOW_LATENCY
    driven = with_numbers(gpu, problem.layer.numbers.kernel, schedule.producers)
    sms = jnp.maximum(gpu.sm_count - jnp.where(low, 0.0, schedule.comm_sms), 1.0)
    left = dataclasses.replace(driven, sm_count=sms)
    ends = ((problem.dispatch, _after_arrivals), (problem.combine, _before_departures))
    layer = dataclasses.replace(problem.layer, classes=_groups(problem, schedule))
    way = ExchangeSchedule(**{f.name: getattr(schedule, f.name) for f in dataclasses.fields(ExchangeSchedule)})
    found, exposed, checks, net_s = [], [], [], 0.0
    for (exchange, together), product, run in zip(ends, products(layer), schedules(schedule), strict=True):
        if exchange is None:
            continue
        parts = grouped_parts(product, run, left)
        times = exchange_times(exchange, way, gpu)
        alone_s = parts.busy_s
        end_s = together(parts, times, exchange, schedule, _own_share(layer.classes, run))
        found.append(parts)
        exposed.append(jnp.maximum(end_s - alone_s, 0.0))
        checks += [*_checks(parts, schedule), *exchange_checks(times, way, gpu)]
        net_s = net_s + times.link_s
    whole = problem.dispatch is not None and problem.combine is not None
    helpers_s = _activation_seconds(problem.layer, schedule, gpu) if whole else jnp.zeros_like(gpu.launch_overhead_s)
    launches = jnp.where((schedule.one_kernel > 0) & whole, 0.5, 1.0)  # of each product
    launched = dataclasses.replace(driven, launch_overhead_s=gpu.launch_overhead_s * launches)
    between = routed_rows(problem.layer.classes) * _widths(problem) * problem.layer.wide_bytes
    run_cost = cost_of(tuple(found), _flop(problem), launched, helpers_s, between)
    return _with_communication(run_cost, sum(exposed), net_s, first_reason(checks), gpu)


def _groups(problem: ExpertLayer, schedule: ExpertLayerSchedule) -> tuple[ExpertClass, ...]:
    """Of the rank's own tokens, then of others'; one of no experts where the two are not told apart."""
    exchange = problem.dispatch or problem.combine
    assert exchange is not None
    apart = (schedule.own_first > 0) & (problem.dispatch is not None)
    own, others = [], []
    for one in problem.layer.classes:
        rows = jnp.floor(one.rows / exchange.ranks)
        told = apart & (rows >= 1.0)
        own.append(ExpertClass(rows=jnp.maximum(rows, 1.0), experts=jnp.where(told, one.experts, 0.0)))
        others.append(ExpertClass(rows=jnp.where(told, one.rows - rows, one.rows), experts=one.experts))
    return (*own, *others)


def _own_share(groups: tuple[ExpertClass, ...], run: GroupedGemmSchedule) -> Floats:
    """Of the row blocks, those of the rank's own tokens."""
    pair = jnp.where(run.cta_pair > 0, 2.0, 1.0)
    height = jnp.where(run.swap_ab > 0, run.tile_n, run.tile_m * pair)
    own = sum(one.experts * jnp.floor((one.rows + (height - 0.5)) / height) for one in groups[: len(groups) // 2])
    return own / jnp.maximum(routed(groups, height).blocks, 1.0)


def _wave_seconds(parts: GroupedParts) -> Floats:
    """Of each of a product's waves, all alike."""
    return parts.busy_s / ceil_div_by_reciprocal(parts.tiles, parts.slots)


def _chunked(tiles: Floats, wanted: Floats) -> tuple[Floats, Floats, Floats]:
    """Tiles of a chunk, chunks, and what share of a chunk the last one is; `wanted` chunks or fewer."""
    each = jnp.maximum(ceil_div_by_reciprocal(tiles, wanted), 1.0)
    chunks = ceil_div_by_reciprocal(tiles, each)
    return each, chunks, (tiles - (chunks - 1.0) * each) / each


def _after_arrivals(
    parts: GroupedParts, times: ExchangeTimes, of: Exchange, schedule: ExpertLayerSchedule, own_share: Floats
) -> Floats:
    own = jnp.minimum(jnp.floor(parts.tiles * own_share), parts.tiles)
    each, chunks, last = _chunked(parts.tiles - own, schedule.chunks)
    flag_s = of.link.flag_s
    a_chunk_s = times.stream_s * each / jnp.maximum(parts.tiles - own, 1.0) + flag_s
    return arrival_seconds(
        parts.tiles,
        parts.slots,
        _wave_seconds(parts),
        own_tiles=own,
        chunks=chunks,
        chunk_tiles=each,
        first_s=times.start_s + a_chunk_s * jnp.where(chunks > 1, 1.0, last),
        chunk_s=a_chunk_s,
        last_chunk_s=a_chunk_s * last,
    )


def _before_departures(
    parts: GroupedParts, times: ExchangeTimes, of: Exchange, schedule: ExpertLayerSchedule, own_share: Floats
) -> Floats:
    del own_share
    tile_s = _wave_seconds(parts)
    each, chunks, last = _chunked(parts.tiles, schedule.chunks)
    a_chunk_s = times.stream_s * each / parts.tiles + of.link.flag_s
    return departure_seconds(
        parts.tiles,
        parts.slots,
        WaveEnds(first_s=tile_s, tile_s=tile_s, all_s=parts.busy_s),
        sent_tiles=parts.tiles,
        chunks=chunks,
        chunk_tiles=each,
        chunk_s=a_chunk_s,
        last_chunk_s=a_chunk_s * last,
        after_s=times.start_s,
    )


def _checks(parts: GroupedParts, schedule: ExpertLayerSchedule) -> list[tuple[Bools, Reason]]:
    low = schedule.transport == LOW_LATENCY
    return [
        (parts.tiles + parts.slots >= RECIPROCAL_EXACT, Reason.TILE_COUNT),
        (low & (schedule.chunks > 1), Reason.CHUNKS),
    ]


def _activation_seconds(layer: Moe, schedule: ExpertLayerSchedule, gpu: Gpu) -> Floats:
    """A kernel between the products; what a library's layer adds."""
    moved = routed_rows(layer.classes) * layer.inter * layer.wide_bytes * (2.0 + layer.gated)
    apart_s = gpu.launch_overhead_s + layer.numbers.helper_scale * moved / gpu.ddr_bytes_per_s
    return layer.numbers.framework_s + jnp.where(schedule.one_kernel > 0, 0.0, apart_s)


def _widths(problem: ExpertLayer) -> Floats:
    """Columns of what the products leave in memory, a row."""
    layer = problem.layer
    first = 0.0 if problem.dispatch is None else (1.0 + layer.gated) * layer.inter
    return first + (0.0 if problem.combine is None else layer.hidden)


def _flop(problem: ExpertLayer) -> Floats:
    layer = problem.layer
    first = 0.0 if problem.dispatch is None else 1.0 + layer.gated
    matrices = first + (0.0 if problem.combine is None else 1.0)
    return 2.0 * matrices * layer.hidden * layer.inter * routed_rows(layer.classes)


def _with_communication(cost: Cost, exposed_s: Floats, net_s: Floats, reason: Floats, gpu: Gpu) -> FusedCost:
    latency_s = cost.latency_s + exposed_s
    fields = {field.name: getattr(cost, field.name) for field in dataclasses.fields(cost)}
    pipeline_s = list(cost.pipeline_s)
    pipeline_s[PIPELINES.index("net")] = net_s + jnp.zeros_like(latency_s)
    fields |= {
        "latency_s": latency_s,
        "pipeline_s": tuple(pipeline_s),
        "energy_j": cost.energy_j + gpu.static_w * exposed_s,
        "reason": jnp.where(reason > 0, reason, cost.reason),
        "bound": jnp.where(exposed_s > 0.5 * latency_s, float(BOUNDS.index("net")), cost.bound),
    }
    return FusedCost(**fields, communication_s=exposed_s)
