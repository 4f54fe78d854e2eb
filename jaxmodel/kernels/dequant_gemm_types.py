"""Records of the dequantised GEMM: 16-bit activations times weights that are stored narrow and converted on the way."""

from .._pytree import pytree
from ..types import Array, Gemm, GemmSchedule

IN_REGISTERS = 0  # of the warps that multiply: mma.sync, or wgmma where the weights are the tile's rows
IN_SMEM = 1  # read from there by the tensor instruction
IN_TMEM = 2  # tcgen05 where the weights are the tile's rows


@pytree
class DequantGemm:
    """out (m x n) = A (m x k, 16 bits) B (k x n), B stored in fewer bits with scales, and zero points where it has any.

    Where B is as wide as A there is nothing to convert, and the kernel is a GEMM.
    """

    gemm: Gemm  # as stored: `b_bytes` of a weight, `scaling.b_scale_bytes` of scales and zero points a weight
    dequant_slots: Array  # CUDA-core instruction slots of a thread that make one 16-bit weight of a stored one

    @property
    def m(self) -> Array:
        """Rows of A."""
        return self.gemm.m

    @property
    def n(self) -> Array:
        """Columns of B."""
        return self.gemm.n


@pytree
class DequantSchedule(GemmSchedule):
    """One way to run a dequantised GEMM: a GEMM's schedule, and where and by whom weights are converted."""

    converted_in: Array  # IN_REGISTERS, IN_SMEM or IN_TMEM
    converted_sets: Array  # sets of converted weights: 1: no K-step is converted while another is multiplied
    converter_warps: Array  # beside those that multiply; 0: these convert too
