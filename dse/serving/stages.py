"""Pipeline-parallel stages of a model: which layers each holds, the fullest and the sum over all.

Layers go to stages in order, the first (layers mod stages) of them hold one more. Dense layers come first, as in models
that begin with some; the embedding belongs to the first stage, the output projection to the last.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..content.model import ModelConfig


@dataclass(frozen=True)
class Stages:
    """Layers of the stages that may be the fullest: the first, the longest without dense layers, the last.

    Attributes:
        pp: stages, int64[layouts].
        layers, dense: of the model.
        first_dense, last_dense, middle_dense: dense layers of these stages.
        longest, last: layers of the first (and of the middle one), and of the last.
    """

    pp: np.ndarray
    layers: int
    dense: int
    longest: np.ndarray
    last: np.ndarray
    middle: np.ndarray
    first_dense: np.ndarray
    middle_dense: np.ndarray
    last_dense: np.ndarray

    @classmethod
    def of(cls, model: ModelConfig, pp: np.ndarray) -> "Stages":
        """The stages of a model for each number of them."""
        layers, dense = model.layers, model.ffn.layers if model.ffn else 0
        short, more = layers // pp, layers % pp
        longest = short + (more > 0)
        last_start = layers - short
        # the stage that begins after the dense layers, where there is one: of the longest kind while those last
        index = np.minimum(-(-dense // np.maximum(longest, 1)), pp - 1)
        middle = np.where(index < np.where(more > 0, more, pp), longest, short)
        start = np.where(index <= more, index * longest, layers - (pp - index) * short)
        return cls(
            pp,
            layers,
            dense,
            longest,
            np.where(pp > 1, short, layers),
            middle,
            np.minimum(longest, dense),
            np.clip(dense - start, 0, middle),
            np.where(pp > 1, np.clip(dense - last_start, 0, short), dense),
        )

    def most(self, every: Any, dense: Any, moe: Any, first: Any, last: Any) -> np.ndarray:
        """Of the fullest stage: amounts of every layer, and beside them of a dense one, of one with experts; of the
        first and the last stage beside their layers."""
        alone = self.pp == 1
        at_first = self._stage(self.longest, self.first_dense, every, dense, moe) + first
        at_middle = self._stage(self.middle, self.middle_dense, every, dense, moe)
        at_last = self._stage(self.last, self.last_dense, every, dense, moe) + last
        return np.where(alone, at_first + last, np.maximum(np.maximum(at_first, at_middle), at_last))

    def total(self, every: Any, dense: Any, moe: Any, first: Any, last: Any) -> Any:
        """Of all stages together."""
        return self._stage(self.layers, self.dense, every, dense, moe) + first + last

    def _stage(self, layers: Any, dense_layers: Any, every: Any, dense: Any, moe: Any) -> Any:
        return layers * every + dense_layers * dense + (layers - dense_layers) * moe
