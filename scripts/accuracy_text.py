"""What the sections of docs/accuracy.md are made from, and how they write numbers and tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from dse.cli.validation_text import estimate_text, interval_text
from dse.content import GpuFile
from dse.trust import ResidualTable
from dse.validation.error_tables import Estimate
from dse.validation.latency_errors import Errors
from dse.validation.validate import GpuValidation, all_rows


@dataclass(frozen=True)
class Validation:
    """What the page is made from.

    Attributes:
        part, preset: what was judged, over which space.
        results: bf16, every GPU of the packaged sample.
        figure: its path as the page links it.
        low_precision: results of the packaged table of other data types; empty where there is none.
        zero_shot: results with GPU files that nothing was fitted for; empty where none were given.
        zero_shot_files: GPU -> that file.
        residuals: the table that intervals come from; None where there is none.
        speedup: the two GPUs of the natural experiment.
    """

    part: str
    preset: str
    results: Sequence[GpuValidation]
    figure: str
    low_precision: Sequence[GpuValidation] = ()
    zero_shot: Sequence[GpuValidation] = ()
    zero_shot_files: Mapping[str, GpuFile] = field(default_factory=dict)
    residuals: ResidualTable | None = None
    speedup: tuple[str, str] = ("h100_sxm", "h200_sxm")

    @property
    def rows(self) -> pd.DataFrame:
        """The validated bf16 rows of all GPUs."""
        return all_rows(self.results)


def markdown_table(rows: Iterable[Mapping[str, str]]) -> str:
    """A Markdown table; the first row's keys are its head."""
    rows = list(rows)
    head = list(rows[0])
    lines = [head, ["---"] * len(head), *([row[name] for name in head] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def metrics_of(errors: Mapping[str, Errors], short: bool = False) -> dict[str, str]:
    """Columns that most tables share: the model's metrics, the roofline's MAPE; `short` leaves out percentiles."""
    model = errors["model"]
    found = {"rows": str(model.count), "MAPE": interval_text(model, "mape")}
    found["bias"] = interval_text(model, "bias", signed=True)
    if not short:
        found |= {name: f"{getattr(model, name):.1f}" for name in ("p50", "p90", "p99")}
        found["weighted"] = f"{model.weighted_mape:.1f}"
    return found | {"roofline": f"{errors['roofline'].mape:.1f}"}


def percent_text(share: float) -> str:
    """`59 %`."""
    return f"{100 * share:.0f} %"


def estimate_of(estimate: Estimate, signed: bool = False) -> str:
    """`6.9 [6.4, 7.5]`."""
    return estimate_text(estimate.value, estimate.interval, signed)
