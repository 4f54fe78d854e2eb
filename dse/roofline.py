"""The two roofs of a problem on a GPU, and how far a latency is from the lower one."""

from dataclasses import dataclass
from typing import Any

from .kernels.registry import kernel_of

TENSOR, CUDA = "tensor", "CUDA core"  # whose peak a kernel's operations run under


@dataclass(frozen=True)
class Roofline:
    """Lower bounds of a latency.

    Attributes:
        flop: useful operations.
        compulsory_bytes: what DRAM must move: every operand that is not in L2 at the start read once, the output
            written once.
        peak_flop_per_s: tensor peak at the clock the model uses; of a kernel without tensor instructions the CUDA
            cores' peak, and "tensor" below means them.
        ddr_bytes_per_s: sustained DRAM bandwidth.
        tensor_efficiency: share of the tensor peak that a long main loop sustains.
        engine: whose peak it is, "tensor" or "CUDA core".
    """

    flop: float
    compulsory_bytes: float
    peak_flop_per_s: float
    ddr_bytes_per_s: float
    tensor_efficiency: float = 1.0
    engine: str = TENSOR

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
        """Which roof is the lower one: "tensor peak" (or "CUDA core peak") or "DDR bandwidth"."""
        return f"{self.engine} peak" if self.tensor_s >= self.ddr_s else "DDR bandwidth"

    @property
    def intensity(self) -> float:
        """Arithmetic intensity, FLOP a compulsory byte."""
        return self.flop / self.compulsory_bytes

    @property
    def ridge(self) -> float:
        """The intensity at which both roofs meet, FLOP a byte."""
        return self.peak_flop_per_s / self.ddr_bytes_per_s


def roofline(problem: Any, gpu: Any) -> Roofline:
    """The roofs of a user's problem on the model's record of a GPU.

    Warm operands count as resident only as far as L2 holds them. A kernel without tensor instructions may move bytes at
    the rate of a long copy, where the GPU's file has one that is higher.
    """
    tensor_cores = kernel_of(problem).tensor_cores
    faster = 1.0 if tensor_cores else max(1.0, float(gpu.ddr_stream_ratio))
    rate = gpu.tensor_flop_per_clock_sm if tensor_cores else gpu.cuda_flop_per_clock_sm
    return Roofline(
        flop=problem.flop,
        compulsory_bytes=problem.compulsory_bytes(gpu),
        peak_flop_per_s=float(gpu.sm_count) * float(gpu.clock_hz) * float(rate),
        ddr_bytes_per_s=float(gpu.ddr_bytes_per_s) * faster,
        tensor_efficiency=float(gpu.tensor_efficiency) if tensor_cores else 1.0,
        engine=TENSOR if tensor_cores else CUDA,
    )
