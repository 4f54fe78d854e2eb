"""The label of a prediction: its interval, whose residuals it comes from, and what it extrapolates."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UserError
from ..latency_bucket import BUCKET_EDGES_US, BUCKETS
from ..shape_class import shape_classes
from .elsewhere import elsewhere_cells
from .extrapolation import extrapolations
from .nearest import nearest_validated, record_numbers
from .residuals import Cells, ResidualTable, packaged_residuals

if TYPE_CHECKING:
    from ..job import SweepJob

LEVEL = 0.9
SINGLE_SCHEDULE = (
    "the interval is a tuned kernel's: the fastest schedule of a space was held against the best library kernel; "
    "one schedule by itself was not validated"
)


@dataclass(frozen=True)
class BucketInterval:
    """The interval of predictions in one latency bucket.

    Attributes:
        bucket: of the predicted latency, one of `dse.latency_bucket.BUCKETS`.
        low, high: measured over predicted latency at the interval's ends.
        rows, pairs: measured shapes of this GPU, class and bucket, and distinct (n, k) among them.
    """

    bucket: str
    low: float
    high: float
    rows: int
    pairs: int


@dataclass(frozen=True)
class TrustLabel:
    """How far the predictions for one problem on one GPU can be trusted.

    Attributes:
        level: share of measured kernels that intervals are made to hold.
        validated_gpu, validated_dtype: whose residuals speak.
        shape_class: of the problem (`dse.shape_class.CLASSES`).
        extrapolates: what was not validated, a text each.
        evidence: "cell": the residuals of the GPU, class and bucket; "gpu": the widest of any class and bucket of the
            GPU, where the problem extrapolates; "elsewhere": GPUs that nothing was fitted for, where the machine does.
        elsewhere_gpus: those GPUs.
        buckets: an interval for each bucket of predicted latency, in order.
        residuals: hash of the table that all this comes from.
    """

    level: float
    validated_gpu: str
    validated_dtype: str
    shape_class: str
    extrapolates: tuple[str, ...]
    evidence: str
    elsewhere_gpus: tuple[str, ...]
    buckets: tuple[BucketInterval, ...]
    residuals: str = ""

    def interval(self, latency_s: Any) -> tuple[np.ndarray, np.ndarray]:
        """(low, high) in seconds for predicted latencies in seconds, any shape: where the measured one should lie."""
        latency_s = np.asarray(latency_s)
        place = np.digitize(latency_s, np.asarray(BUCKET_EDGES_US) * 1e-6)
        low, high = (np.array([getattr(at, end) for at in self.buckets]) for end in ("low", "high"))
        return latency_s * low[place], latency_s * high[place]

    def columns(self, latency_s: Any) -> dict[str, np.ndarray]:
        """The interval as columns of a table of schedules, float32."""
        low, high = self.interval(latency_s)
        return {"latency_low_s": np.asarray(low, np.float32), "latency_high_s": np.asarray(high, np.float32)}

    def line(self, latency_s: float) -> str:
        """`90 % interval 33.1 to 39.0 us: residuals of 212 measured shapes (h100_sxm, bf16, square, 30-100 us)`."""
        low, high = (float(end) * 1e6 for end in self.interval(latency_s))
        at = self.buckets[int(np.digitize(latency_s, np.asarray(BUCKET_EDGES_US) * 1e-6))]
        where = f"{self.shape_class}, {at.bucket} us"
        if self.evidence == "elsewhere":
            whose = f"residuals on GPUs that nothing was fitted for ({', '.join(self.elsewhere_gpus)}; {where})"
        elif self.evidence == "gpu":
            whose = f"the widest residuals of any class and length ({self.validated_gpu}, {self.validated_dtype})"
        elif not at.rows:
            whose = (
                f"no measured shape of this class and length ({where}), residuals of all of {self.validated_gpu}, "
                f"{self.validated_dtype}"
            )
        else:
            whose = (
                f"residuals of {at.rows} measured shape{'s' if at.rows > 1 else ''} ({self.validated_gpu}, "
                f"{self.validated_dtype}, {where})"
            )
        return f"{100 * self.level:g} % interval {low:.4g} to {high:.4g} us: {whose}"

    def about(self) -> list[str]:
        """Whose residuals the intervals of a table come from, and a line for everything that was not validated."""
        if self.evidence == "elsewhere":
            whose = (
                f"GPUs that nothing was fitted for ({', '.join(self.elsewhere_gpus)}); nearest validated: "
                f"{self.validated_gpu}, {self.validated_dtype}"
            )
        else:
            widest = ", the widest of any class and length" if self.evidence == "gpu" else ""
            whose = f"{self.validated_gpu}, {self.validated_dtype}{widest}"
        lines = [f"{100 * self.level:g} % intervals from residuals on {whose}; shape class {self.shape_class}"]
        return [*lines, *(f"extrapolates: {text}" for text in self.extrapolates)]

    def words(self) -> dict[str, str]:
        """Whose residuals speak, for a table or JSON that has an interval a row."""
        return {
            "validated_gpu": self.validated_gpu,
            "shape_class": self.shape_class,
            "extrapolates": "; ".join(self.extrapolates),
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON and for the files' metadata."""
        return {
            "level": self.level,
            "validated_gpu": self.validated_gpu,
            "validated_dtype": self.validated_dtype,
            "shape_class": self.shape_class,
            "extrapolates": list(self.extrapolates),
            "evidence": self.evidence,
            "elsewhere_gpus": list(self.elsewhere_gpus),
            "measured_over_predicted": [vars(at) for at in self.buckets],
            "residuals": self.residuals,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "TrustLabel":
        """The label that `to_dict` wrote."""
        about = {
            name: content[name] for name in ("level", "validated_gpu", "validated_dtype", "shape_class", "evidence")
        }
        return cls(
            **about,
            extrapolates=tuple(content["extrapolates"]),
            elsewhere_gpus=tuple(content["elsewhere_gpus"]),
            buckets=tuple(BucketInterval(**at) for at in content["measured_over_predicted"]),
            residuals=content["residuals"],
        )


def label_of(job: "SweepJob", level: float = LEVEL, table: ResidualTable | None = None) -> TrustLabel | None:
    """The label of a job's predictions.

    Inside of what was validated the interval is that of the residuals of the GPU, data type, shape class and bucket of
    predicted latency, the bias included. A problem outside of it widens the interval to the widest of the GPU's classes
    and buckets: what nobody measured may be as bad as the worst that somebody did. A machine outside of it widens it to
    what GPUs show that nothing was fitted for.

    Args:
        job: problem, GPU and space; schedules do not matter.
        level: above 0, at most 0.99.
        table: of residuals; None: the packaged one.

    Returns:
        None where the problem is no `GemmProblem` or there are no residuals.

    Raises:
        UserError: a level that is not allowed.
    """
    from ..kernels.gemm import GemmProblem

    if not 0.0 < level <= 0.99:
        raise UserError(f"level = {level}: above 0, at most 0.99")
    table = packaged_residuals() if table is None else table
    if table is None or not table.validated or not isinstance(job.problem, GemmProblem):
        return None
    problem, family = job.problem, job.space.family
    nearest = nearest_validated(
        table, record_numbers(job.gpu), problem.dtype, family, job.gpu_name, job.clock, problem.quantise_a
    )
    of_machine, of_problem = extrapolations(problem, nearest, job.gpu_name, family, job.clock)
    shape_class = str(shape_classes(np.array(problem.m), np.array(problem.n), np.array(problem.k)))
    elsewhere, elsewhere_gpus = elsewhere_cells(table, problem.dtype) if of_machine else (None, ())
    widest = bool(of_problem) or (bool(of_machine) and elsewhere is None)
    return TrustLabel(
        level=level,
        validated_gpu=nearest.gpu,
        validated_dtype=nearest.validated.dtype,
        shape_class=shape_class,
        extrapolates=(*of_machine, *of_problem),
        evidence="elsewhere" if elsewhere else "gpu" if widest else "cell",
        elsewhere_gpus=elsewhere_gpus,
        buckets=tuple(
            bucket_interval(nearest.validated.cells, shape_class, name, level, widest, elsewhere) for name in BUCKETS
        ),
        residuals=table.hash,
    )


def interval_of(label: TrustLabel | None, latency_s: float) -> tuple[float, float] | None:
    """(low, high) in seconds of one prediction; None without a label."""
    if label is None:
        return None
    low, high = label.interval(latency_s)
    return float(low), float(high)


def bucket_interval(
    cells: Cells, shape_class: str, bucket: str, level: float, widest: bool = False, elsewhere: Cells | None = None
) -> BucketInterval:
    """The interval of one class and bucket; further evidence widens it and never narrows it.

    Args:
        cells: the GPU's own.
        shape_class, bucket: which.
        level: share that the interval is made to hold.
        widest: whether all of the GPU's cells with measured shapes speak.
        elsewhere: cells of GPUs that nothing was fitted for; None: they do not speak.
    """
    own = cells[shape_class][bucket]
    speaking = [own, *(cell for buckets in cells.values() for cell in buckets.values() if widest and cell.rows)]
    speaking += [elsewhere[shape_class][bucket]] if elsewhere is not None else []
    low, high = np.array([cell.bounds(level) for cell in speaking]).T
    return BucketInterval(bucket, float(np.exp(low.min())), float(np.exp(high.max())), own.rows, own.pairs)
