"""The two roofs of a GEMM on a GPU, and how far a latency is from the lower one."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Roofline:
    """Lower bounds of a latency.

    Attributes:
        flop: useful operations.
        compulsory_bytes: what DRAM must move: every operand that is not in L2 at the start read once, the output
            written once.
        peak_flop_per_s: tensor peak at the clock the model uses.
        ddr_bytes_per_s: sustained DRAM bandwidth.
        tensor_efficiency: share of the tensor peak that a long main loop sustains.
    """

    flop: float
    compulsory_bytes: float
    peak_flop_per_s: float
    ddr_bytes_per_s: float
    tensor_efficiency: float = 1.0

    @property
    def tensor_s(self) -> float:
        """Time at the tensor peak."""
        return self.flop / self.peak_flop_per_s

    @property
    def sustained_tensor_s(self) -> float:
        """Time at the share of the tensor peak that a long main loop sustains."""
        return self.tensor_s / self.tensor_efficiency

    @property
    def ddr_s(self) -> float:
        """Time at full DRAM bandwidth."""
        return self.compulsory_bytes / self.ddr_bytes_per_s

    @property
    def roof_s(self) -> float:
        """The larger of the two: no schedule is faster."""
        return max(self.tensor_s, self.ddr_s)

    @property
    def roof(self) -> str:
        """Which roof is the lower one: "tensor peak" or "DDR bandwidth"."""
        return "tensor peak" if self.tensor_s >= self.ddr_s else "DDR bandwidth"

    @property
    def intensity(self) -> float:
        """Arithmetic intensity, FLOP a compulsory byte."""
        return self.flop / self.compulsory_bytes

    @property
    def ridge(self) -> float:
        """The intensity at which both roofs meet, FLOP a byte."""
        return self.peak_flop_per_s / self.ddr_bytes_per_s


def roofline(problem: Any, gpu: Any) -> Roofline:
    """The roofs of a GEMM problem (`dse.kernels.gemm.GemmProblem`) on the model's record of a GPU.

    Warm operands count as resident only as far as L2 holds them.
    """
    record = problem.arrays()
    m, n, k, batch = (float(getattr(problem, name)) for name in ("m", "n", "k", "batch"))
    a_bytes, b_bytes = batch * m * k * float(record.a_bytes), batch * n * k * float(record.b_bytes)
    warm = float(record.a_warm) * a_bytes + float(record.b_warm) * b_bytes
    in_l2 = min(warm, float(gpu.l2_capacity_bytes) * float(gpu.l2_effective_ratio))
    outputs = batch * m * n * (float(record.out_bytes) + float(record.c_in_bytes))
    return Roofline(
        flop=2.0 * batch * m * n * k,
        compulsory_bytes=a_bytes + b_bytes - in_l2 + outputs,
        peak_flop_per_s=float(gpu.sm_count) * float(gpu.clock_hz) * float(gpu.tensor_flop_per_clock_sm),
        ddr_bytes_per_s=float(gpu.ddr_bytes_per_s),
        tensor_efficiency=float(gpu.tensor_efficiency),
    )
