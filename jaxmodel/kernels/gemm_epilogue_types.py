"""Records of a GEMM with a fused epilogue; its schedules are a GEMM's."""

from .._pytree import pytree
from ..types import Array, Gemm


@pytree
class GemmEpilogue:
    """out = f(A B): bias, activation, residual and quantisation of a GEMM's results before they are written."""

    gemm: Gemm  # `out_bytes` of a result as it is written; `c_in_bytes` 0
    slots: Array  # CUDA-core instruction slots an element, beyond scaling and conversion
    sfu_op: Array  # an element
    read_bytes: Array  # an element: a residual
    column_bytes: Array  # read a column of the output: a bias
    scale_bytes: Array  # written an element: scales of blocks
    scale_block: Array  # neighbours in a row of the output that share a scale; 1: none do

    @property
    def m(self) -> Array:
        """Rows of the output."""
        return self.gemm.m

    @property
    def n(self) -> Array:
        """Columns of the output."""
        return self.gemm.n
