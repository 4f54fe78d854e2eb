"""Published times of kernels that join computation and communication, beside predictions.

One reader of `studies/measured/fused_communication.toml` for all kernels. A kernel's `Predictor` says what problem a
figure is and what the model gives for it; `PREDICTORS` names it, as text, so that reading rows imports no model.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..content.files import find_content
from ..content.toml import read_toml
from ..errors import unknown
from ..kernels.entry import attribute

FILE = "fused_communication"
PREDICTORS = {  # kernel of the rows -> "module:function", a `Predictor`
    "ag_gemm": "dse.validation.fused_matmul:predict_matmul",
    "gemm_rs": "dse.validation.fused_matmul:predict_matmul",
    "gemm_ar": "dse.validation.fused_matmul:predict_matmul",
    "moe_dispatch": "dse.validation.fused_exchange:predict_exchange",
    "moe_combine": "dse.validation.fused_exchange:predict_exchange",
    "dispatch_grouped_gemm": "dse.validation.fused_layer:predict_layer",
    "moe_layer": "dse.validation.fused_layer:predict_layer",
    "ring_attention": "dse.validation.fused_attention:predict_ring",
    "ulysses": "dse.validation.fused_attention:predict_ulysses",
}
APART: dict[str, str] = dict.fromkeys(("ag_gemm", "gemm_rs", "gemm_ar"), "dse.validation.fused_matmul:predict_apart")


@dataclass(frozen=True)
class Figure:
    """A row of the table.

    Attributes:
        name, kernel, gpu, fabric, ranks, dtype, value, unit, implementation, source, exact: as the table has them.
        values: every key of the row; the table's header says what they mean.
    """

    name: str
    kernel: str
    gpu: str
    fabric: str
    ranks: int
    dtype: str
    value: float
    unit: str
    implementation: str
    source: str
    exact: bool
    values: Mapping[str, Any]

    def __getitem__(self, key: str) -> Any:
        """What the row holds under a key.

        Raises:
            KeyError: it holds nothing there.
        """
        return self.values[key]

    def get(self, key: str, otherwise: Any = None) -> Any:
        """The same, or something else where the row has no such key."""
        return self.values.get(key, otherwise)

    @property
    def fabric_overrides(self) -> dict[str, str]:
        """What-ifs of `dse.question.ask` that make the fabric the row's: its links, slower."""
        return {"fabric.link": f"{self.values['link']}x"} if "link" in self.values else {}


@dataclass(frozen=True)
class Prediction:
    """What the model gives for a figure.

    Attributes:
        measured_s: the figure as a time, however it was published.
        predicted_s: the model's.
        how: the schedule that was taken, or what else the prediction stands on.
    """

    measured_s: float
    predicted_s: float
    how: str


Predictor: TypeAlias = Callable[[Sequence[Figure]], Sequence[Prediction | None]]


@dataclass(frozen=True)
class FusedRow:
    """A figure beside its prediction; `what` is the group that its table and its mean error are of."""

    what: str
    name: str
    gpu: str
    exact: bool
    measured_s: float
    predicted_s: float
    how: str
    source: str

    @property
    def error(self) -> float:
        """Predicted over measured time, less 1."""
        return self.predicted_s / self.measured_s - 1.0


def figures(kernels: Iterable[str] = (), exact: bool | None = None) -> list[Figure]:
    """The rows of some kernels, in the table's order.

    Args:
        kernels: names as in the table; none: all.
        exact: only rows whose shape, type, ranks and GPU are all published (True), or only the others (False).

    Raises:
        UserError: a kernel that the table does not have.
    """
    rows = read_toml(find_content("table", "studies/measured", FILE))["figure"]
    known = list(dict.fromkeys(row["kernel"] for row in rows))
    wanted = tuple(kernels) or tuple(known)
    for kernel in wanted:
        if kernel not in known:
            raise unknown("kernel of the published fused figures", kernel, known)
    found = [_figure(row) for row in rows if row["kernel"] in wanted]
    return [figure for figure in found if exact is None or figure.exact == exact]


def fused_rows(kernels: Iterable[str] = (), exact: bool | None = True, apart: bool = False) -> list[FusedRow]:
    """Predictions beside the figures of those kernels that have a predictor. A predictor gives None for a figure that a
    number of the model comes from, or that is no problem of its kernel.

    Args:
        kernels, exact: as `figures` takes them.
        apart: of what the rows were compared with, where published: the library's kernels one after the other.

    Raises:
        UserError: as `figures` does.
    """
    found: list[FusedRow] = []
    predictors = APART if apart else PREDICTORS
    asked = [figure for figure in figures(kernels, exact) if figure.kernel in predictors]
    for kernel in dict.fromkeys(figure.kernel for figure in asked):
        own = [figure for figure in asked if figure.kernel == kernel]
        predict: Predictor = attribute(predictors[kernel])
        found += [_row(figure, made) for figure, made in zip(own, predict(own), strict=True) if made is not None]
    return found


def weighted_error(rows: Sequence[FusedRow]) -> float:
    """Absolute errors over measured times, both added up: long kernels count more."""
    return sum(abs(row.predicted_s - row.measured_s) for row in rows) / sum(row.measured_s for row in rows)


def mean_error(rows: Sequence[FusedRow]) -> float:
    """The mean of the rows' absolute errors."""
    return sum(abs(row.error) for row in rows) / len(rows)


def bias(rows: Sequence[FusedRow]) -> float:
    """The mean of the rows' errors with their signs."""
    return sum(row.error for row in rows) / len(rows)


def _figure(row: Mapping[str, Any]) -> Figure:
    names = [name for name in Figure.__dataclass_fields__ if name != "values"]
    return Figure(**{name: row[name] for name in names}, values=row)


def _row(figure: Figure, made: Prediction) -> FusedRow:
    return FusedRow(
        what=f"{figure.kernel}, {figure.implementation}",
        name=figure.name,
        gpu=figure.gpu,
        exact=figure.exact,
        measured_s=made.measured_s,
        predicted_s=made.predicted_s,
        how=made.how,
        source=figure.source,
    )
