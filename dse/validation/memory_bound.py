"""Memory-bound kernels: their two limits, and published times beside predictions.

Large: bytes over the rate of a long copy, the GPU files' `ddr_stream_ratio`, derived from measurements. Small:
launch, CTA launch and a DDR latency for each load that waits for another. Published times are not fitted to.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..content.files import find_content
from ..content.gpu import load_gpu
from ..content.space import load_space
from ..content.toml import read_toml
from ..errors import UserError, unknown
from ..fitting import fitting
from ..kernels.registry import get_kernel
from ..kernels.rows import PROBLEMS
from ..question import ask
from ..tuning import tune

GPUS = ("a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm")
LARGE, SMALL = "262144x8192", "1x1024"
FAMILY = "simt"
PRESET = "triton"
STREAM = {"vector_bytes": 8, "unroll": 1, "stages": 1, "steps": 1, "rows_per_cta": 1, "splits": 1, "keep": 0, "persistent": 0}  # fmt: skip  # noqa: E501


@dataclass(frozen=True)
class Limits:
    """One kernel on one GPU at its two limits.

    Attributes:
        gpu, kernel: names.
        line_bytes_per_s: rate of a long copy.
        of_line: bytes over that rate over the best latency at `LARGE`.
        small_s: best latency at `SMALL`.
        floor_s: launch overhead, CTA launch, and a DDR latency for each load that waits for another.
    """

    gpu: str
    kernel: str
    line_bytes_per_s: float
    of_line: float
    small_s: float
    floor_s: float


@dataclass(frozen=True)
class Published:
    """A published time beside the prediction.

    Attributes:
        gpu, kernel, what: names; shape, type and choices.
        measured_s, predicted_s: seconds.
        source: where it was published.
        best: whether the prediction is the best of the space, else one schedule's.
    """

    gpu: str
    kernel: str
    what: str
    measured_s: float
    predicted_s: float
    source: str
    best: bool

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted_s / self.measured_s - 1.0


def limits(
    gpus: Sequence[str] = GPUS, kernels: Sequence[str] | None = None, preset: str | None = PRESET
) -> list[Limits]:
    """Both limits of every kernel on every GPU, over a preset of its space.

    Args:
        gpus: names or paths of GPU files.
        kernels: names; None: all eight.
        preset: of each kernel's space; None: the whole space.

    Raises:
        UserError: an unknown GPU, kernel or preset.
    """
    known = tuple(problem.kernel for problem in PROBLEMS)
    for name in kernels or ():
        if name not in known:
            raise unknown("memory-bound kernel", name, known)
    found = []
    for kernel in kernels or known:
        asked = [ask(shape, "bf16", gpu, kernel=kernel) for gpu in gpus for shape in (LARGE, SMALL)]
        latency_s = _best(kernel, [(question.problem, question.bound) for question in asked], preset)
        for place, gpu in enumerate(gpus):
            large, bound = asked[2 * place].problem, asked[2 * place].bound
            record = large.arrays()
            rate = line_bytes_per_s(bound)
            line_s = large.compulsory_bytes(bound) / rate
            floor_s = bound.launch_overhead_s + bound.cta_launch_s + (1.0 + record.lookups) * bound.ddr_latency_s
            of_line = line_s / latency_s[2 * place]
            found.append(Limits(str(gpu), kernel, rate, of_line, latency_s[2 * place + 1], float(floor_s)))
    return found


def published(preset: str | None = PRESET) -> list[Published]:
    """The packaged published times beside predictions, in the file's order."""
    content = read_toml(find_content("table", "studies/measured", "memory_bound"))
    found = [_kernel(dict(row), preset) for row in content["kernel"]]
    return [*found, *(entry for row in content["streams"] for entry in _streams(dict(row)))]


def line_bytes_per_s(bound: Any) -> float:
    """The rate of a long copy, read and written bytes."""
    from jaxmodel.kernels.rows import streaming

    return float(streaming(bound).ddr_bytes_per_s)


def _kernel(row: dict[str, Any], preset: str | None) -> Published:
    gpu, kernel, source = (row.pop(name) for name in ("gpu", "kernel", "source"))
    times = {name: row.pop(name) for name in ("latency_us", "gb_per_s") if name in row}
    question = ask(row.pop("shape"), row.pop("dtype", "bf16"), gpu, kernel=kernel, **row)
    bytes_s = question.problem.compulsory_bytes(question.bound)
    measured_s = times["latency_us"] * 1e-6 if "latency_us" in times else bytes_s / times["gb_per_s"] / 1e9
    (latency_s,) = _best(kernel, [(question.problem, question.bound)], preset)
    return Published(gpu, kernel, question.problem.title, measured_s, latency_s, source, True)


def _streams(row: dict[str, Any]) -> list[Published]:
    import numpy as np

    gpu, kernel, source, threads, rates = (
        row.pop(name) for name in ("gpu", "kernel", "source", "cta_threads", "gb_per_s")
    )
    machine = load_gpu(gpu, {"ctas_per_sm": row.pop("ctas_per_sm")})
    question = ask(row.pop("shape"), row.pop("dtype"), machine, kernel=kernel, **row)
    of = get_kernel(kernel)
    columns = {name: np.full(len(threads), value, np.float32) for name, value in STREAM.items()}
    schedule = of.schedule(columns | {"cta_threads": np.array(threads, np.float32)})
    cost = of.cost(question.problem.arrays(), schedule, question.bound)
    bytes_s = question.problem.compulsory_bytes(question.bound)
    return [
        Published(
            gpu,
            kernel,
            f"{question.problem.title}, {count} threads",
            bytes_s / rate / 1e9,
            float(predicted_s),
            source,
            False,
        )
        for count, rate, predicted_s in zip(threads, rates, np.asarray(cost.latency_s), strict=True)
    ]


def _best(kernel: str, rows: Sequence[tuple[Any, Any]], preset: str | None) -> list[float]:
    space = _space(kernel, rows[0][0].dtype, preset)
    tuned = tune(fitting(space, [problem for problem, _ in rows], [gpu for _, gpu in rows]), rows)
    for (problem, _), place in zip(rows, tuned.index, strict=True):
        if place < 0:
            raise UserError(f"no schedule of the space {space.name} fits {problem.title}: take a wider preset")
    return [float(seconds) for seconds in tuned.latency_s]


@lru_cache(maxsize=64)
def _space(kernel: str, dtype: str, preset: str | None) -> Any:
    return load_space(kernel, FAMILY, dtype, preset=preset)
