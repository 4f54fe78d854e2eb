"""What the problems of all memory-bound kernels share: sizes, types, warmth, the model's record from few numbers."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..content.dtypes import DTYPE_BYTES
from .choice import Choice
from .problem import KernelProblem

if TYPE_CHECKING:
    from jaxmodel.kernels.rows_types import Rows

TYPES = tuple(DTYPE_BYTES)
WARM = Choice("warm", "the input is in L2 when the kernel starts, as far as it fits", bool)
OUT_DTYPE = Choice("out_dtype", "type of the output; not given: the input's", allowed=TYPES)
SUM_BYTES = 4  # a sum that leaves the kernel, a scale


@dataclass(frozen=True)
class RowProblem(KernelProblem):
    """A kernel over a matrix of rows x cols elements; what all of them share.

    A kernel's own class says in `row_numbers` which fields of `jaxmodel.kernels.rows_types.Rows` are not as here.

    Attributes:
        rows, cols: of the matrix; cols lie one after the other in memory.
        dtype: input type.
        out_dtype: output type; None: the input's.
        warm: whether the inputs are in L2 when the kernel starts.
    """

    SIZES: ClassVar[tuple[str, ...]] = ("rows", "cols")
    EXAMPLE: ClassVar[str] = "8192x8192"
    CHOICES: ClassVar[tuple[Choice, ...]] = (OUT_DTYPE, WARM)

    rows: int
    cols: int
    dtype: str = "bf16"
    out_dtype: str | None = None
    warm: bool = False

    def row_numbers(self) -> dict[str, float]:
        """Fields of the model's record that are not as `arrays` sets them."""
        raise NotImplementedError

    def described(self, accumulator: str) -> str:
        """See `KernelProblem.described`."""
        return f"{self.title}, L2 {'warm' if self.warm else 'cold'}"

    @property
    def in_bytes(self) -> float:
        """An element of the input."""
        return DTYPE_BYTES[self.dtype]

    @property
    def out_bytes(self) -> float:
        """An element of the output."""
        return DTYPE_BYTES[self.out_dtype or self.dtype]

    @property
    def widening(self) -> float:
        """Issue slots, two FLOP each, that turn an element of an input into float32."""
        return 2.0 if self.in_bytes < SUM_BYTES else 0.0

    @property
    def narrowing(self) -> float:
        """The same for an element of the output; one instruction does two."""
        return 1.0 if self.out_bytes < SUM_BYTES else 0.0

    @property
    def flop(self) -> float:
        """Issue slots of the operations, two a slot."""
        return float(self.rows) * float(self.cols) * self._numbers()["cuda_flop"]

    def compulsory_bytes(self, gpu: Any) -> float:
        """See `Problem.compulsory_bytes`."""
        at = self._numbers()
        elements = float(self.rows) * float(self.cols)
        read = elements * at["read_bytes"]
        in_l2 = at["warm"] * min(read, float(gpu.l2_capacity_bytes) * float(gpu.l2_effective_ratio))
        beside = self.rows * (at["row_read_bytes"] + at["row_write_bytes"]) + self.cols * at["shared_bytes"]
        return read - in_l2 + elements * at["write_bytes"] + beside

    def arrays(self, float_dtype: Any = np.float32) -> "Rows":
        """The problem as the model's record of scalars."""
        from jaxmodel.kernels.rows_types import Rows

        at = self._numbers()
        return Rows(**{field.name: float_dtype(at[field.name]) for field in fields(Rows)})

    def _numbers(self) -> dict[str, float]:
        whole = float(self.rows) * float(self.cols) * self.out_bytes
        plain = {
            "rows": self.rows,
            "cols": self.cols,
            "element_bytes": self.in_bytes,
            "read_bytes": self.in_bytes,
            "write_bytes": self.out_bytes,
            "run_bytes": whole,
            "cuda_flop": self.widening + self.narrowing,
            "passes": 1,
            "warm": float(self.warm),
        }
        none = ("row_read_bytes", "lookups", "row_write_bytes", "shared_bytes", "sfu_op", "reductions", "group_cols")
        return dict.fromkeys((*none, "first_pass"), 0.0) | plain | self.row_numbers()
