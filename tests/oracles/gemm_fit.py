"""The scalar twin's first half: what a GEMM schedule occupies, whether it fits and how it cuts the problem.

Sections 1 to 3 of docs/how-the-model-works.md, as `gemm.py` uses them. `p`, `s`, `g` are the records of one candidate,
Python floats in every field.
"""

import math
from types import SimpleNamespace

from jaxmodel.machine import Gpu
from jaxmodel.reasons import Reason
from jaxmodel.types import Gemm, GemmSchedule

from .gemm_scaling import promoted, scale_bytes

DIRECT, STAGED, OVERLAPPED = 0, 1, 2
WHOLE_BELOW = 2**24


# 1. What the hardware executes


def footprint(p: Gemm, s: GemmSchedule, g: Gpu) -> SimpleNamespace:
    mma = g.mma
    x, y = _up(s.tile_m, mma.m), _up(s.tile_n, mma.n)
    z = _up(s.tile_k, _depth(p, g))
    h = 0.5 if s.cta_pair else 1.0
    warps = s.warps_m * s.warps_n
    overlapped = s.epilogue == OVERLAPPED

    a_scale, b_scale = scale_bytes(p)
    sets = 2 if promoted(p, g) else 1
    if mma.accumulator_in_tmem:
        held = min(y, 64)
    elif mma.operands_in_smem:
        held = sets * x * y / (32 * warps)
    else:
        held = sets * x * y / (32 * warps) + 2 * (x / s.warps_m + y / s.warps_n) * mma.k_bytes / 128
    registers = s.registers_measured if s.registers_measured > 0 else math.ceil(held) + 40

    groups = 2 if overlapped and not mma.accumulator_in_tmem else 1
    threads = 32 * warps * groups + mma.async_copy_threads
    granularity = g.register_granularity
    cta_registers = warps * groups * _up(32 * registers, granularity)
    producers = math.ceil(mma.async_copy_threads / 32) * _up(32 * 40, granularity)
    if s.registers_measured > 0:
        producers = min(producers, max(g.registers_per_sm - cta_registers, 0))
    cta_registers += producers

    stage_bytes = z * (x * (p.a_bytes + a_scale) + y * h * (p.b_bytes + b_scale))
    buffers = s.stages * (stage_bytes + 16)
    if s.epilogue == DIRECT:
        smem = buffers
    elif s.epilogue == STAGED:
        smem = max(buffers, x * y * p.out_bytes)
    else:
        smem = buffers + x * min(y, 64) * p.out_bytes
    if s.smem_measured_bytes > 0:
        smem = s.smem_measured_bytes

    columns = 0
    if mma.accumulator_in_tmem:
        wanted = (2 * y if overlapped else y) + math.ceil(4 * z * (x * a_scale + y * b_scale) / 512)
        columns = next((size for size in (32, 64, 128, 256, 512) if size >= wanted), 1024)
    return SimpleNamespace(
        x=x, y=y, z=z, h=h, registers=registers, threads=threads, cta_registers=cta_registers,
        smem=smem, columns=columns, stage_bytes=stage_bytes,
    )  # fmt: skip


def residency(part: SimpleNamespace, g: Gpu) -> tuple[int, int]:
    warps = math.ceil(part.threads / 32)
    limits = [
        g.smem_per_sm_bytes // (part.smem + g.smem_reserve_bytes),
        g.registers_per_sm // part.cta_registers,
        g.threads_per_sm // (32 * warps),
        g.warps_per_sm // warps,
        g.ctas_per_sm,
        g.tmem_columns // part.columns if part.columns else math.inf,
    ]
    least = min(limits)
    return int(least), limits.index(least)


def _depth(p: Gemm, g: Gpu) -> float:
    return g.mma.k_bytes / min(p.a_bytes, p.b_bytes)


def _up(value: float, multiple: float) -> float:
    return math.ceil(value / multiple) * multiple


# 2. What does not fit


def reason(p: Gemm, s: GemmSchedule, g: Gpu, part: SimpleNamespace, residency: int, grid: SimpleNamespace) -> Reason:
    mma = g.mma
    warps_m = s.warps_m / 4 if mma.operands_in_smem else s.warps_m
    splits_side = lambda side, unit: side > unit and side % unit != 0  # noqa: E731
    free_sms = g.sm_count - s.sms_free
    narrow = grid.cluster_rows if s.raster_along_n else grid.cluster_cols
    if min(grid.cluster_rows, grid.cluster_cols) == 1:
        same_order = bool(s.raster_along_n) or s.swizzle > 1
    else:
        same_order = s.swizzle > 1 and s.swizzle >= narrow
    findings = [
        (
            Reason.MMA_SHAPE,
            splits_side(s.tile_m, mma.m) or splits_side(s.tile_n, mma.n) or s.tile_k % _depth(p, g) != 0,
        ),
        (Reason.WARP_TILE, part.x % (mma.m * warps_m) != 0 or part.y % (mma.n * s.warps_n) != 0),
        (
            Reason.CTA_PAIR,
            s.cta_pair
            and (s.cluster_m % 2 or s.tile_m < mma.m or s.tile_n % (2 * mma.n) or not mma.accumulator_in_tmem),
        ),
        (Reason.ALIGNMENT, mma.tma and min(p.a_align_bytes, p.b_align_bytes) < 16),
        (Reason.SMEM, part.smem > g.smem_per_cta_max_bytes),
        (Reason.REGISTERS, part.registers > g.registers_per_thread_max),
        (Reason.THREADS, part.threads > 1024),
        (Reason.REGISTER_FILE, part.cta_registers > g.registers_per_sm),
        (Reason.TMEM, part.columns > g.tmem_columns),
        (Reason.SMEM, residency == 0),
        (Reason.CLUSTER, _cluster_sms(s, g) == 0),
        (Reason.SMS_FREE, free_sms < grid.cluster or (s.sms_free > 0 and free_sms >= _cluster_sms(s, g))),
        (Reason.SPLIT_K, s.split_k > 1 and s.split_k > grid.k_steps_all),
        (
            Reason.STREAM_K,
            s.stream_k and (grid.tiles % grid.slots == 0 or grid.tiles * grid.k_steps < grid.slots or s.split_k > 1),
        ),
        (Reason.EPILOGUE, s.epilogue == OVERLAPPED and not s.persistent and not s.stream_k),
        (Reason.TILE_COUNT, grid.tiles >= WHOLE_BELOW),
        (Reason.SAME_ORDER, same_order),
    ]
    return next((code for code, found in findings if found), Reason.OK)


def _cluster_sms(s: GemmSchedule, g: Gpu) -> float:
    power = int(math.log2(s.cluster_m * s.cluster_n))
    return g.cluster_sms[power] if power < len(g.cluster_sms) else 0.0


# 3. The grid


def grid(p: Gemm, s: GemmSchedule, g: Gpu, residency: int) -> SimpleNamespace:
    cluster_rows = math.ceil(math.ceil(p.m / s.tile_m) / s.cluster_m)
    cluster_cols = math.ceil(math.ceil(p.n / s.tile_n) / s.cluster_n)
    rows, cols = cluster_rows * s.cluster_m, cluster_cols * s.cluster_n
    k_steps_all = math.ceil(p.k / s.tile_k)
    cluster = s.cluster_m * s.cluster_n
    usable = min(max(_cluster_sms(s, g), 1), g.sm_count - s.sms_free)
    sms = math.floor(max(usable, cluster) / cluster) * cluster
    return SimpleNamespace(
        cluster_rows=cluster_rows, cluster_cols=cluster_cols, rows=rows, cols=cols, cluster=cluster,
        k_steps_all=k_steps_all, k_steps=math.ceil(k_steps_all / s.split_k), tiles=rows * cols * p.batch * s.split_k,
        k_steps_total=rows * cols * p.batch * k_steps_all, sms=sms, slots=sms * max(residency, 1),
        tile_elements=(p.m / rows) * (p.n / cols),
    )  # fmt: skip
