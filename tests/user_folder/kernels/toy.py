"""A kernel of a user's: rows are scaled, one CTA a tile of rows. Small numbers that a test can repeat by hand."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dse.content.dtypes import DTYPE_BYTES
from dse.kernels.choice import Choice
from dse.kernels.problem import IMPLEMENTATION, KernelProblem
from dse.kernels.registry import Kernel


@dataclass(frozen=True)
class ToyProblem(KernelProblem):
    """rows x cols elements, each multiplied."""

    kernel: ClassVar[str] = "toy"
    NAME: ClassVar[str] = "toy"
    SIZES: ClassVar[tuple[str, ...]] = ("rows", "cols")
    CHOICES: ClassVar[tuple[Choice, ...]] = (
        Choice("flip", "rows are written in reverse", bool),
        Choice("pad", "elements behind a row", int, most=64),
        Choice("order", "which way rows are read", allowed=("up", "down")),
        IMPLEMENTATION,
    )

    rows: int
    cols: int
    dtype: str = "bf16"
    flip: bool = False
    pad: int = 0
    order: str = "up"
    implementation: str = "none"
    implementation_numbers: tuple[tuple[str, float], ...] = ()

    def arrays(self, float_dtype: Any = np.float32) -> Any:
        """The model's record."""
        from dse.kernels._toy_model import Toy  # type: ignore[import-not-found]

        numbers = {"rows": self.rows, "row_bytes": (self.cols + self.pad) * DTYPE_BYTES[self.dtype], **self.numbers}
        return Toy(**{name: float_dtype(value) for name, value in numbers.items()})

    @property
    def flop(self) -> float:
        """One an element."""
        return float(self.rows) * self.cols

    def compulsory_bytes(self, gpu: Any) -> float:
        """Read once, written once."""
        return 2.0 * self.rows * self.cols * DTYPE_BYTES[self.dtype]


KERNELS = (
    Kernel(
        "toy",
        "toy",
        ToyProblem,
        "dse.kernels._toy_model:ToySchedule",
        "dse.kernels._toy_model:cost",
        tensor_cores=False,
        advice="dse.kernels._toy_model",
    ),
)
