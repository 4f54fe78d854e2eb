"""The layouts of a front that are looked at closely: its ends and some between, each with where its time goes."""

from collections.abc import Sequence
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

import numpy as np

from ...serving.breakdown import breakdown, part_rows
from ...serving.layout_words import layout_text
from ...serving.layouts import FIELDS, layouts_of
from ...serving.serve import LayoutResult
from ...serving.step_times import StepModel

if TYPE_CHECKING:
    import pandas as pd

POINTS = 5  # of a front, at equal distances on a log scale of what a user sees
OF_A_STEP = ("batch", "chunk", "micro_batches")  # what varies along the front of one way to share the GPUs
PART_COLUMNS = {  # beside the fields of the layout
    "point": ("text", "letter of the layout, as in the report"),
    "phase": ("text", "decode: a decode step; mixed: with a chunk of a prompt; prefill: a whole prompt"),
    "kind": ("text", "kernel, collective, launches (waiting for the host), hidden (below 0), send, host"),
    "name": ("text", "layer, or what a collective is for"),
    "what": ("text", "the kernel, or the collective with its group"),
    "runs": ("1", "in a step, over all layers"),
    "seconds": ("s", "of all runs together"),
    "detail": ("text", "sizes and tuned schedule of a kernel, bytes of a collective"),
}


def chosen_rows(front: "pd.DataFrame", points: int = POINTS) -> list[int]:
    """Rows of a front, the fastest for a user first: both ends, and the nearest to equal steps between."""
    if len(front) <= points:
        return list(range(len(front)))
    of_user = "tokens_per_s_per_user" if front["tokens_per_s_per_user"].max() > 0 else "ttft_s"
    scale = np.log(np.maximum(front[of_user].to_numpy(float), 1e-12))
    wanted = np.linspace(scale[0], scale[-1], points)
    return sorted({int(np.argmin(np.abs(scale - at))) for at in wanted})


def letters(rows: Sequence[int]) -> dict[int, str]:
    """Row -> letter."""
    return {row: ascii_uppercase[place] for place, row in enumerate(rows)}


def point_parts(result: LayoutResult, steps: StepModel) -> "pd.DataFrame":
    """Where the time of the chosen layouts of a result's front goes, a row a part: `FIELDS` and `PART_COLUMNS`.

    Args:
        result: of a sweep.
        steps: with the kernels that the sweep tuned.
    """
    import pandas as pd

    found: list[dict[str, Any]] = []
    for row, letter in letters(chosen_rows(result.front)).items():
        layout = {name: int(result.front[name].iloc[row]) for name in FIELDS}
        columns = {name: np.array([value]) for name, value in layout.items()}
        one = layouts_of(columns, np.zeros(1), result.service.node)
        phases = breakdown(steps, result.service.workload, one)
        found += part_rows(phases, {"point": letter, **layout})
    return pd.DataFrame(found, columns=["point", *FIELDS, *(name for name in PART_COLUMNS if name != "point")])


def named(front: "pd.DataFrame") -> list[tuple[str, str, dict[str, Any]]]:
    """(letter, layout in words, row) of the chosen layouts."""
    rows = chosen_rows(front)
    records: list[Any] = front.iloc[rows].to_dict("records")
    return [(letter, layout_text(row), row) for letter, row in zip(letters(rows).values(), records, strict=True)]
