"""Published rates of whole models beside predictions: errors of all comparable figures, by kind of model, GPU, phase.

Errors are of times: a token's, a prompt's, and for rates the time in which every sequence gets a token, or all prompts
are read. Of a rate that is 10 % too high the time is 9 % too short.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..content.model import load_model
from ..errors import UserError, unknown
from .latency_errors import Errors, errors
from .serving_figures import COMPARABLE, RATES, ServingFigure, read_serving_figures
from .serving_predict import ServingModels, ServingPrediction

JUDGED = "yes"


@dataclass(frozen=True)
class JudgedFigure:
    """One row.

    Attributes:
        figure: as published.
        moe: whether its model has experts.
        prediction: None where the model cannot say.
        why_not: then the reason.
    """

    figure: ServingFigure
    moe: bool
    prediction: ServingPrediction | None
    why_not: str = ""

    @property
    def published_s(self) -> float:
        """The figure as a time, see the module."""
        return seconds_of(self.figure, self.figure.value, self.prediction.batch if self.prediction else 1)

    @property
    def predicted_s(self) -> float:
        """What is predicted, as a time; NaN where nothing is."""
        if self.prediction is None:
            return float("nan")
        return seconds_of(self.figure, self.prediction.value, self.prediction.batch)

    @property
    def error(self) -> float:
        """Per cent of the published time; above 0: predicted too slow."""
        return 100.0 * (self.predicted_s / self.published_s - 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        prediction = asdict(self.prediction) if self.prediction else None
        error = self.error if self.prediction else None
        return {**asdict(self.figure), "prediction": prediction, "error_percent": error, "why_not": self.why_not}


@dataclass(frozen=True)
class ServingValidation:
    """All rows that were asked for.

    Attributes:
        rows: in the order of the file.
        all: errors of the comparable ones; None: there are none.
        groups: "kind", "gpu", "phase", "source" -> name -> errors of those.
    """

    rows: tuple[JudgedFigure, ...]
    all: Errors | None
    groups: Mapping[str, Mapping[str, Errors]]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        groups = {
            name: {key: found.to_dict() for key, found in members.items()} for name, members in self.groups.items()
        }
        return {
            "comparable": self.all.to_dict() if self.all else None,
            "groups": groups,
            "figures": [row.to_dict() for row in self.rows],
        }


def validate_serving(
    table: str | os.PathLike[str] | None = None,
    gpus: Sequence[str] = (),
    models: Sequence[str] = (),
    comparable: Sequence[str] = (),
    clock: str = "boost",
    told: Callable[[JudgedFigure], None] | None = None,
) -> ServingValidation:
    """Predictions beside published figures.

    Args:
        table: TOML like studies/measured/serving.toml; None: that one.
        gpus, models: that are kept; empty: all.
        comparable: of `COMPARABLE`, that are kept; empty: all. Errors are of "yes" alone.
        clock: "boost" or "sustained".
        told: is called with every row once it is predicted.

    Raises:
        UserError: what `read_serving_figures` raises, a GPU, model or word that no row has, no row left.
    """
    figures = read_serving_figures(table)
    for name, asked, known in (
        ("GPU of the table", gpus, [figure.gpu for figure in figures]),
        ("model of the table", models, [figure.model for figure in figures]),
        ("comparable", comparable, COMPARABLE),
    ):
        for one in asked:
            if one not in known:
                raise unknown(name, one, sorted(set(known)))
    kept = [
        figure
        for figure in figures
        if (not gpus or figure.gpu in gpus)
        and (not models or figure.model in models)
        and (not comparable or figure.comparable in comparable)
    ]
    if not kept:
        raise UserError("no figure of the table is left: ask for fewer GPUs, models or --comparable at once")
    predicted, rows = ServingModels(clock), []
    for figure in kept:
        rows.append(judged(figure, predicted))
        if told:
            told(rows[-1])
    return summed_up(rows)


def judged(figure: ServingFigure, predicted: ServingModels) -> JudgedFigure:
    """One row with its prediction, or why there is none."""
    moe = load_model(figure.model).moe is not None
    try:
        return JudgedFigure(figure, moe, predicted.predict(figure))
    except UserError as error:
        return JudgedFigure(figure, moe, None, str(error))


def summed_up(rows: Sequence[JudgedFigure]) -> ServingValidation:
    """Errors over the comparable rows that were predicted, whole and by group."""
    counted = [row for row in rows if row.figure.comparable == JUDGED and row.prediction]
    keys: dict[str, Callable[[JudgedFigure], str]] = {
        "kind": lambda row: "MoE" if row.moe else "dense",
        "gpu": lambda row: row.figure.gpu,
        "phase": lambda row: row.figure.phase,
        "source": lambda row: row.figure.source_key,
    }
    groups = {
        name: {
            value: _errors([row for row in counted if key(row) == value])
            for value in dict.fromkeys(key(row) for row in counted)
        }
        for name, key in keys.items()
    }
    return ServingValidation(tuple(rows), _errors(counted) if counted else None, groups)


def seconds_of(figure: ServingFigure, value: float, batch: int) -> float:
    """A figure as a time: of a token or prompt as it stands; a rate's as that in which each of `batch` sequences gets a
    token, or their prompts are read."""
    if figure.unit not in RATES:
        return value
    tokens = batch * (figure.input_tokens if figure.unit == "input_tokens_per_s" else 1)
    gpus = figure.gpus if figure.unit == "output_tokens_per_s_per_gpu" else 1
    return tokens / (value * gpus)


def _errors(rows: Sequence[JudgedFigure]) -> Errors:
    predicted = np.array([row.predicted_s for row in rows])
    published = np.array([row.published_s for row in rows])
    return errors(predicted, published, np.array([row.figure.source_key for row in rows]))
