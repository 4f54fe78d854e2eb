"""Pipeline-parallel stages of a model: which layers each holds, the fullest and the sum over all.

Layers go to stages in order, the first (layers mod stages) of them hold one more. Dense layers come first, as in models
that begin with some; the embedding belongs to the first stage, the output projection to the last.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..content.model import ModelConfig


@dataclass(frozen=True)
class Stage:
    """One stage of each layout: its layers, and how many of them are dense; int64[layouts]."""

    layers: Any
    dense: Any

    def amount(self, every: Any, dense: Any, moe: Any) -> Any:
        """Of its layers: so much of every one, and beside that of a dense one, of one with experts."""
        return self.layers * every + self.dense * dense + (self.layers - self.dense) * moe


@dataclass(frozen=True)
class Stages:
    """The stages that may be the fullest, and the model as one.

    Of the long stages the first has most dense layers and the last has fewest; of the short ones, the last of all does.

    Attributes:
        first, last_long, last: of these stages.
        whole: all layers.
    """

    first: Stage
    last_long: Stage
    last: Stage
    whole: Stage

    @classmethod
    def of(cls, model: ModelConfig, pp: np.ndarray) -> "Stages":
        """The stages of a model for each number of them, at most one a layer."""
        dense = model.ffn.layers if model.ffn else 0
        short, more = model.layers // pp, model.layers % pp
        longest = short + (more > 0)

        def stage(start: Any, layers: Any) -> Stage:
            return Stage(layers, np.clip(dense - start, 0, layers))

        long_stages = np.where(more > 0, more, pp)
        return cls(
            first=stage(0, longest),
            last_long=stage((long_stages - 1) * longest, longest),
            last=stage(model.layers - short, short),
            whole=Stage(model.layers, dense),
        )

    @property
    def longest(self) -> np.ndarray:
        """Layers of the stage that has most."""
        return self.first.layers

    def most(self, every: Any, dense: Any, moe: Any, first: Any, last: Any) -> np.ndarray:
        """Of the fullest stage.

        Args:
            every, dense, moe: of every layer, and beside that of a dense one, of one with experts; none below 0.
            first, last: of the first and the last stage beside their layers; both are the same one where it is alone.
        """
        alone = self.first.layers == self.whole.layers
        at_first = self.first.amount(every, dense, moe) + first
        at_last = self.last.amount(every, dense, moe) + np.where(alone, first, 0.0) + last
        return np.maximum(np.maximum(at_first, self.last_long.amount(every, dense, moe)), at_last)

    def total(self, every: Any, dense: Any, moe: Any, first: Any, last: Any) -> Any:
        """Of all stages together."""
        return self.whole.amount(every, dense, moe) + first + last
