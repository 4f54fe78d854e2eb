"""A shape of a study, asked on every machine."""

from dataclasses import dataclass

from ...question import Question


@dataclass(frozen=True)
class Shape:
    """One shape of a study.

    Attributes:
        name: for tables.
        weight: how much its latency counts in a total, e.g. how often it runs.
        questions: the shape on every machine.
    """

    name: str
    weight: float
    questions: tuple[Question, ...]
