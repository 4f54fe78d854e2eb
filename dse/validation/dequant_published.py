"""Dequantised GEMMs beside published measurements: times where they were published, and speed-ups over 16 bits.

Both kernels are predicted: the best of a preset of `dequant_gemm` and of a preset of `gemm`, over the same layers.
"""

from dataclasses import dataclass
from typing import Any

from ..best_schedule import best_schedules
from ..content.files import find_content
from ..content.gpu import load_gpu
from ..content.space import load_space
from ..content.toml import read_toml
from ..kernels.dequant_gemm import DequantGemmProblem
from ..kernels.gemm import gemm_problem

FILE = "dequant_gemm"


@dataclass(frozen=True)
class PublishedDequant:
    """One published measurement beside the prediction.

    Attributes:
        what, gpu: what was measured, and the GPU file that stands for the machine, with its changes.
        m: rows of activations.
        measured_s, predicted_s: of the dequantised GEMMs of all layers; measured_s is None where only a speed-up was
            published.
        measured_speedup, predicted_speedup: the 16-bit GEMMs' time over theirs.
        source, note: where it was published, and what is not said there.
    """

    what: str
    gpu: str
    m: int
    measured_s: float | None
    predicted_s: float
    measured_speedup: float
    predicted_speedup: float
    source: str
    note: str

    @property
    def error(self) -> float | None:
        """Predicted over measured time, less 1."""
        return None if self.measured_s is None else self.predicted_s / self.measured_s - 1.0

    @property
    def speedup_error(self) -> float:
        """The same of the speed-up."""
        return self.predicted_speedup / self.measured_speedup - 1.0


def published() -> list[PublishedDequant]:
    """Every packaged measurement, in the file's order.

    Raises:
        UserError: a GPU, space or preset that the file names is not there.
    """
    content = read_toml(find_content("table", "studies/measured", FILE))
    return [row for entry in content["published"] for row in _rows(entry)]


def _rows(entry: dict[str, Any]) -> list[PublishedDequant]:
    gpu = load_gpu(entry["gpu"], entry.get("changes"))
    family, dtype, layers, rows = (entry[name] for name in ("family", "dtype", "layers", "rows"))
    shapes = [f"{row[0]}x{n}x{k}" for row in rows for k, n in layers]
    stored = {"weights": entry["weights"], "group": entry["group"]}
    narrow: list[Any] = [DequantGemmProblem.from_shape(shape, dtype=dtype, **stored) for shape in shapes]
    wide: list[Any] = [gemm_problem(shape, dtype=dtype, out_dtype=dtype) for shape in shapes]
    dequantised, plain = (
        best_schedules(problems, load_space(kernel, family, dtype, preset=preset), gpu).latency_s.reshape(len(rows), -1)
        for kernel, preset, problems in (
            ("dequant_gemm", entry["preset"], narrow),
            ("gemm", entry["gemm_preset"], wide),
        )
    )
    weights = sum(k * n for k, n in layers)
    changes = ", ".join(f"{name} {value:g}" for name, value in entry.get("changes", {}).items())
    return [
        PublishedDequant(
            what=entry["what"],
            gpu=f"{entry['gpu']} ({changes})" if changes else entry["gpu"],
            m=int(m),
            measured_s=2.0 * m * weights / rate / 1e12 if rate else None,
            predicted_s=float(narrow_s.sum()),
            measured_speedup=float(speedup),
            predicted_speedup=float(wide_s.sum() / narrow_s.sum()),
            source=entry["source"],
            note=entry["note"],
        )
        for (m, rate, speedup), narrow_s, wide_s in zip(rows, dequantised, plain, strict=True)
    ]
