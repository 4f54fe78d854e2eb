"""Every number a GPU file holds: its table, unit, allowed range and meaning.

One line a field; the loader, the overrides, the error messages and the documentation all read this table. A field's
name is unique over all tables and ends in its unit where it has one.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Field:
    """One number of a GPU file.

    Attributes:
        name: as in the file and in `--set`.
        table: the TOML table it stands in.
        unit: in words, for messages and for result files.
        low, high: the allowed range, both included unless `positive`.
        positive: zero is not allowed.
        whole: an integer.
        listed: a list of numbers, each in the range.
        default: what a file means that leaves the number out: an effect that is not modelled. None: must be given.
        meaning: one line.
    """

    name: str
    table: str
    unit: str
    meaning: str
    low: float = 0.0
    high: float = math.inf
    positive: bool = True
    whole: bool = False
    listed: bool = False
    default: float | None = None

    def allowed(self) -> str:
        """The allowed values in words, e.g. "a whole number above 0 (SMs)"."""
        what = "a list of whole numbers" if self.listed else "a whole number" if self.whole else "a number"
        low = f"above {self.low:g}" if self.positive else f"at least {self.low:g}"
        high = "" if math.isinf(self.high) else f", at most {self.high:g}"
        return f"{what} {low}{high} ({self.unit})"

    def accepts(self, value: float) -> bool:
        """True if one number (one entry of a list) is finite, in range, and whole where it must be."""
        if isinstance(value, bool) or not math.isfinite(value) or value > self.high:
            return False
        if self.whole and value != int(value):
            return False
        return value > self.low if self.positive else value >= self.low


def _fields() -> tuple[Field, ...]:
    whole = {"whole": True}
    maybe = {"positive": False}
    off = {"positive": False, "default": 0.0}
    return (
        # [nominal]
        Field("ddr_capacity_bytes", "nominal", "bytes", "memory on the card", whole=True),
        Field("ddr_peak_bytes_per_s", "nominal", "bytes per second", "the datasheet's memory bandwidth"),
        # [clock]
        Field(
            "boost_hz", "clock", "hertz", "clock of short kernels; the datasheet's peaks are quoted at it", high=1e11
        ),
        Field("sustained_hz", "clock", "hertz", "clock when the tensor cores stay busy for milliseconds", high=1e11),
        # [engine]: private to an SM
        Field("sm_count", "engine", "SMs", "SMs enabled", high=100_000, **whole),
        Field("tensor_efficiency", "engine", "share", "of the tensor peak that a long main loop sustains", high=1.0),
        Field(
            "overlap_loss", "engine", "share", "of a pipeline's time that a busier one does not hide", high=1.0, **off
        ),
        Field("cuda_flop_per_clock_sm", "engine", "FLOP per clock and SM", "fp32 FMA rate of the CUDA cores"),
        Field("sfu_op_per_clock_sm", "engine", "operations per clock and SM", "exp2 and the like"),
        Field("smem_bytes_per_clock_sm", "engine", "bytes per clock and SM", "shared memory"),
        Field("tmem_bytes_per_clock_sm", "engine", "bytes per clock and SM", "tensor memory; 0: none", **maybe),
        Field("sm_port_bytes_per_clock", "engine", "bytes per clock and SM", "one SM's port to L1.5 and L2, one way"),
        # [l15]: a cache shared by a group of SMs
        Field("l15_group_sms", "l15", "SMs", "SMs that share one L1.5", high=100_000, **whole),
        Field("l15_capacity_bytes", "l15", "bytes per group", "0: no such level", whole=True, positive=False),
        Field("l15_bytes_per_clock_group", "l15", "bytes per clock and group", "0 where there is none", **maybe),
        Field("l15_ways", "l15", "ways", "associativity as the hit model sees it", **whole),
        # [l2]
        Field("l2_capacity_bytes", "l2", "bytes", "nominal capacity", **whole),
        Field("l2_effective_ratio", "l2", "share", "effective over nominal capacity", high=2.0),
        Field("l2_ways", "l2", "ways", "associativity as the hit model sees it", **whole),
        Field(
            "l2_retention",
            "l2",
            "share",
            "of a warm operand held when a kernel starts",
            high=1.0,
            positive=False,
            default=1.0,
        ),
        Field("l2_bytes_per_s", "l2", "bytes per second", "reads, whole chip"),
        Field("drift_skew_steps", "l2", "K-steps of 128 bytes", "between concurrent tiles at their start", **off),
        Field(
            "drift_jitter_steps", "l2", "K-steps of 128 bytes per root step", "random walk of concurrent tiles", **off
        ),
        # [ddr]
        Field("ddr_bytes_per_s", "ddr", "bytes per second", "achievable reads, whole chip"),
        Field("ddr_write_cost", "ddr", "ratio", "time of a written byte over time of a read byte"),
        Field("ddr_stream_ratio", "ddr", "ratio", "a long copy over ddr_bytes_per_s; 0: 2 / (1 + write cost)", **off),
        Field("store_exposure", "ddr", "share", "of an epilogue's memory time that its CTA waits for", high=1.0, **off),
        # [latency]
        Field("l2_latency_s", "latency", "seconds", "request to data, L2 hit, as a copy into SMEM sees it", high=1.0),
        Field("ddr_latency_s", "latency", "seconds", "request to data, from memory", high=1.0),
        Field(
            "mma_latency_s", "latency", "seconds", "operands in SMEM to accumulator, beyond issue", high=1.0, **maybe
        ),
        Field("step_overhead_s", "latency", "seconds", "barrier and issue of one K-step", high=1.0, **maybe),
        Field("cta_launch_s", "latency", "seconds", "free slot to first load issued", high=1.0, **maybe),
        Field("launch_overhead_s", "latency", "seconds", "one kernel, replayed from a graph", high=1.0, **maybe),
        Field("host_launch_overhead_s", "latency", "seconds", "one kernel, launched by the host", high=1.0, **maybe),
        Field(
            "dependent_launch_s", "latency", "seconds", "a kernel that waits for another's result", high=1.0, **maybe
        ),
        Field("fixup_latency_s", "latency", "seconds", "stream-K: wait for a peer's partial tile", high=1.0, **maybe),
        Field("quantise_launch_s", "latency", "seconds", "a kernel that quantises activations", high=1.0, **off),
        Field("quantise_bytes_per_s", "latency", "bytes per second", "it reads and writes; 0: as memory does", **off),
        # [limits]
        Field("smem_per_sm_bytes", "limits", "bytes per SM", "shared memory", **whole),
        Field("smem_per_cta_max_bytes", "limits", "bytes per CTA", "the most one CTA may ask for", **whole),
        Field("smem_reserve_bytes", "limits", "bytes per CTA", "taken by the system", whole=True, positive=False),
        Field("registers_per_sm", "limits", "32-bit registers per SM", "register file", **whole),
        Field("register_granularity", "limits", "registers per warp", "allocation unit", **whole),
        Field("registers_per_thread_max", "limits", "registers per thread", "limit", high=255, **whole),
        Field("threads_per_sm", "limits", "threads per SM", "resident at once", **whole),
        Field("warps_per_sm", "limits", "warps per SM", "resident at once", **whole),
        Field("ctas_per_sm", "limits", "CTAs per SM", "resident at once", **whole),
        Field("tmem_columns", "limits", "columns per SM", "tensor memory; 0: none", whole=True, positive=False),
        # [clusters]
        Field("gpc_sms", "clusters", "SMs of each GPC", "a cluster stays inside one GPC", listed=True, **whole),
        Field("cluster_ctas_max", "clusters", "CTAs per cluster", "1: no clusters", high=16, **whole),
        # [power]
        Field("tdp_w", "power", "watts", "power limit"),
        Field(
            "power_time_s", "power", "seconds", "kernels longer than this run at the power limit; 0: no limit", **off
        ),
        Field("static_w", "power", "watts", "drawn by an idle chip at full clock", **maybe),
        Field(
            "joule_per_tensor_flop", "power", "joules per FLOP", "16-bit inputs; others in proportion to their bytes"
        ),
        Field("joule_per_smem_byte", "power", "joules per byte", "shared memory", **maybe),
        Field("joule_per_l2_byte", "power", "joules per byte", "L2, without DDR", **maybe),
        Field("joule_per_ddr_byte", "power", "joules per byte", "memory and its link", **maybe),
    )


FIELDS: dict[str, Field] = {field.name: field for field in _fields()}
TABLES: tuple[str, ...] = tuple(dict.fromkeys(field.table for field in FIELDS.values()))
TENSOR = Field("tensor", "tensor", "FLOP per clock and SM", "a tensor rate")
PEAK = Field("peak_flop_per_s", "nominal.peak_flop_per_s", "FLOP per second", "a peak that the datasheet states")
CLUSTER_SIZES = (1, 2, 4, 8, 16)
