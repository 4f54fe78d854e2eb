"""What a batch is asked: kernel problems by kernel, shape, type and choices, and of what step of a model each is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..api import shape_rows

Choices = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class BatchRow:
    """One kernel problem of a list or of a step of a model.

    Attributes:
        name: what reports call it.
        kernel, shape, dtype: as on the command line.
        choices: of the kernel, (name, text) each.
        count: how often it runs in its step; the weight of a line in a shape list.
        layer: which of a model's products it is, e.g. "gate_up"; "" of a shape list.
        model, phase: whose step it is; "" of a shape list.
        tp, ep: GPUs that share every layer, and of these those that share the experts.
        tokens: of a prompt, in prefill; sequences, in decode; 0 of a shape list.
        context: keys that a sequence's queries see, those of this step included; 0 of a shape list.
    """

    name: str
    kernel: str
    shape: str
    dtype: str
    choices: Choices = ()
    count: float = 1.0
    layer: str = ""
    model: str = ""
    phase: str = ""
    tp: int = 1
    ep: int = 1
    tokens: int = 0
    context: int = 0

    @property
    def step(self) -> "Step":
        """The step it belongs to."""
        return Step(self.model, self.phase, self.tp, self.ep, self.tokens, self.context)

    @property
    def choices_text(self) -> str:
        """The choices as `name=value` words."""
        return " ".join(f"{name}={value}" for name, value in self.choices)


@dataclass(frozen=True, order=True)
class Step:
    """What a total time is of: one forward pass of a model; all attributes empty: a shape list."""

    model: str
    phase: str
    tp: int
    ep: int
    tokens: int
    context: int


def listed_rows(
    shapes: str | Path | Sequence[Any], kernel: str, dtype: str = "bf16", choices: Mapping[str, str] | None = None
) -> list[BatchRow]:
    """The lines of a shape list, or shapes as texts.

    Args:
        shapes: name or path of a CSV file (`dse.content.shapes`), or texts.
        kernel: that all of them are of.
        dtype: of lines that do not say their own.
        choices: of the kernel, for lines that do not choose themselves.

    Raises:
        UserError: no such list, or what is wrong with it, with file, line and column.
    """
    rows = []
    for line in shape_rows(shapes, kernel):
        chosen = tuple(({**(choices or {})} | dict(line.choices)).items())
        rows.append(BatchRow(line.name, kernel, line.shape, line.dtype or dtype, chosen, line.weight))
    return rows
