"""The machine as the model sees it: one flat record of rates, capacities, latencies and limits.

A `Gpu` is already bound to one tensor instruction family and one pair of input and accumulator types: names (dtypes,
families) stay in Python, in `dse.content`, so that a what-if on any number does not retrace. Every field is an array
that broadcasts against problems and schedules; bytes, seconds, hertz, watts, joules.
"""

from ._pytree import pytree
from .types import Array


@pytree
class Mma:
    """What the model must know of a tensor instruction family (one CTA's share of the instruction).

    Padding rounds a tile up to `m`, `n` and `k_bytes`. The flags are 0 or 1.
    """

    m: Array  # rows of the smallest instruction (of one CTA)
    n: Array  # columns of the smallest instruction
    n_max: Array  # columns of the widest instruction: wider tiles read the rows operand again
    k_bytes: Array  # depth of one instruction, bytes of the narrower operand
    operands_in_smem: Array  # wgmma, tcgen05: operands are read from SMEM by the instruction, not by each warp
    accumulator_in_tmem: Array  # tcgen05: accumulators live in TMEM, not in registers
    async_copy_threads: Array  # threads of the producer and epilogue warps beside the warps that issue the MMA
    tma: Array  # loads by TMA: 16-byte alignment is required


@pytree
class Gpu:
    """A GPU bound to one input type, accumulator type and instruction family."""

    mma: Mma
    # private engines, per SM and clock: chip totals scale with sm_count and clock_hz
    sm_count: Array
    clock_hz: Array
    tensor_flop_per_clock_sm: Array
    tensor_efficiency: Array  # share of the tensor peak that a long main loop sustains
    overlap_loss: Array  # share of a pipeline's time that a busier one does not hide
    cuda_flop_per_clock_sm: Array
    sfu_op_per_clock_sm: Array
    smem_bytes_per_clock_sm: Array
    tmem_bytes_per_clock_sm: Array  # 0: the part has no TMEM
    sm_port_bytes_per_clock: Array  # one SM's port to the L1.5/L2 fabric, each direction
    # shared by a group of SMs
    l15_group_sms: Array
    l15_capacity_bytes: Array  # a group's; 0: the part has no such level
    l15_bytes_per_clock_group: Array
    l15_ways: Array
    # shared by the chip
    l2_capacity_bytes: Array  # nominal
    l2_effective_ratio: Array  # effective over nominal capacity
    l2_ways: Array
    l2_retention: Array  # share of an operand declared warm that L2 still holds when the kernel starts
    l2_bytes_per_s: Array
    # both None: tiles advance together, as with 0, and a compiled model holds nothing of drift
    drift_skew_steps: Array | None  # spread of concurrent tiles' places along K at their start, in steps of 128 bytes
    drift_jitter_steps: Array | None  # what it gains a root step
    ddr_bytes_per_s: Array
    ddr_write_cost: Array  # time of a written byte over time of a read byte
    ddr_stream_ratio: Array  # a long copy's rate (read + written) over ddr_bytes_per_s; 0: 2 / (1 + write cost)
    store_exposure: Array  # share of an epilogue's memory time that its CTA waits for; the rest drains behind it
    # latencies
    l2_latency_s: Array
    ddr_latency_s: Array
    mma_latency_s: Array  # operands in SMEM -> accumulator updated, beyond the issue time
    step_overhead_s: Array  # barrier and issue cost of one K-step, occupies the tensor engine's issue
    cta_launch_s: Array  # from a free slot to the first load issued: dispatch, barriers, descriptors
    launch_overhead_s: Array  # one kernel, replayed from a graph
    host_launch_overhead_s: Array  # one kernel, launched from the host
    dependent_launch_s: Array  # a kernel that waits for another's results: split-K's reduction
    fixup_latency_s: Array  # stream-K: waiting for a peer's partial tile
    quantise_launch_s: Array  # one kernel that quantises activations, without its bytes
    quantise_bytes_per_s: Array  # what such a kernel reads and writes at best; 0: as fast as memory
    # what fits
    smem_per_sm_bytes: Array
    smem_per_cta_max_bytes: Array
    smem_reserve_bytes: Array  # taken by the system for each CTA
    registers_per_sm: Array
    register_granularity: Array  # registers are allocated to a warp in multiples of this
    registers_per_thread_max: Array
    threads_per_sm: Array
    warps_per_sm: Array
    ctas_per_sm: Array
    tmem_columns: Array
    cluster_sms: Array  # last axis: SMs usable by clusters of 1, 2, 4, 8, 16 CTAs; 0: not supported
    # power and energy
    tdp_w: Array
    power_time_s: Array  # time constant of the power limiter; 0: no limit
    static_w: Array
    joule_per_tensor_flop: Array
    joule_per_smem_byte: Array
    joule_per_l2_byte: Array
    joule_per_ddr_byte: Array
