"""Grouped GEMMs beside published measurements: the best of the preset that stands for the kernel.

What was published are kernel times of a profiler, which hold no launch. `launch_overhead_s`, what one more kernel adds
to a replayed graph, is taken off the prediction and stands beside it.
"""

from dataclasses import dataclass
from typing import Any

from ..best_schedule import best_schedules
from ..content.files import find_content
from ..content.gpu import load_gpu
from ..content.space import load_space
from ..content.toml import read_toml
from ..kernels.grouped_gemm import GroupedGemmProblem

FILE = "grouped_gemm"


@dataclass(frozen=True)
class PublishedGrouped:
    """One published measurement beside the prediction.

    Attributes:
        what, gpu: what was measured, and the GPU file that stands for the machine.
        groups, m, n, k: groups, rows of each, columns and depth of their weights.
        published_flop_per_s, published_bytes_per_s: as published.
        measured_s: of the kernel, from its FLOP and the published rate.
        predicted_s: of the kernel, without a launch.
        launch_s: what the launch would add to the prediction.
        source, note: where it was published, and on what machine and how it was measured.
    """

    what: str
    gpu: str
    groups: int
    m: int
    n: int
    k: int
    published_flop_per_s: float
    published_bytes_per_s: float
    measured_s: float
    predicted_s: float
    launch_s: float
    source: str
    note: str

    @property
    def error(self) -> float:
        """Predicted over measured time, less 1."""
        return self.predicted_s / self.measured_s - 1.0

    @property
    def error_with_launch(self) -> float:
        """The same of the predicted latency, which holds the launch."""
        return (self.predicted_s + self.launch_s) / self.measured_s - 1.0


def published() -> list[PublishedGrouped]:
    """Every packaged measurement, in the file's order.

    Raises:
        UserError: a GPU, space or preset that the file names is not there.
    """
    content = read_toml(find_content("table", "studies/measured", FILE))
    return [row for entry in content["published"] for row in _rows(entry)]


def problem_of(groups: int, m: int, n: int, k: int, dtype: str, cache: str) -> GroupedGemmProblem:
    """`groups` groups of `m` rows as a grouped GEMM: as many experts, and every row goes to one.

    Args:
        cache: what L2 holds at the start, "cold" or "a_warm".
    """
    shape = f"{groups * m}x{n}x{k}x{groups}x1"
    return GroupedGemmProblem.from_shape(shape, dtype=dtype, distribution="balanced", cache=cache)


def _rows(entry: dict[str, Any]) -> list[PublishedGrouped]:
    gpu, family, dtype = load_gpu(entry["gpu"]), entry["family"], entry["dtype"]
    problems: list[Any] = [problem_of(*row[:4], dtype=dtype, cache=entry["cache"]) for row in entry["rows"]]
    space = load_space("grouped_gemm", family, dtype, preset=entry["preset"])
    launch_s = float(gpu.bind(dtype, family=family).launch_overhead_s)
    latency_s = best_schedules(problems, space, gpu).latency_s
    return [
        PublishedGrouped(
            what=entry["what"],
            gpu=entry["gpu"],
            groups=int(groups),
            m=int(m),
            n=int(n),
            k=int(k),
            published_flop_per_s=rate * 1e12,
            published_bytes_per_s=bandwidth * 1e9,
            measured_s=problem.flop / rate / 1e12,
            predicted_s=float(seconds) - launch_s,
            launch_s=launch_s,
            source=entry["source"],
            note=entry["note"],
        )
        for (groups, m, n, k, rate, bandwidth), problem, seconds in zip(entry["rows"], problems, latency_s, strict=True)
    ]
