"""Seconds of collectives over many layouts: every distinct one is priced once, on the device, and looked up."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from ..compiled import jit
from ..content.fabric import Fabric
from .unique_rows import unique_rows

LANES = 2**12  # collectives priced by one call


@dataclass(frozen=True)
class Exchange:
    """One collective of a step; every number broadcasts.

    Attributes:
        part: what it is for, e.g. "attention_out".
        collective: one of `jaxmodel.network.COLLECTIVES`.
        bytes_: as `jaxmodel.network.steps` counts them; 0: there is none.
        inside, across: its group, as `jaxmodel.network.group_cost` takes it.
        where: which layers run it, as `dse.step_operators.Operator`.
    """

    part: str
    collective: str
    bytes_: Any
    inside: Any
    across: Any
    where: str


@dataclass
class CollectiveTimes:
    """Prices on one fabric by one rule; remembered from call to call.

    Attributes:
        fabric: one or two levels.
        rule: one of `jaxmodel.network.RULES`.
        priced: distinct collectives priced so far.
    """

    fabric: Fabric
    rule: str = "nccl"
    priced: int = 0
    _known: dict[tuple[str, float, float, float], float] = field(default_factory=dict)

    def seconds(self, exchanges: Sequence[Exchange], points: int) -> list[np.ndarray]:
        """Seconds of one run of each, float64[points]; 0 where it has no bytes or one GPU, infinite where the fabric
        cannot run it.

        Args:
            exchanges: their numbers are plain, or arrays of `points`.
            points: layouts.
        """
        found = []
        for exchange in exchanges:
            asked = (exchange.bytes_, exchange.inside, exchange.across)
            bytes_, inside, across = (np.broadcast_to(np.asarray(column, float), points) for column in asked)
            runs = (bytes_ > 0) & (inside * across > 1)
            rows, inverse = unique_rows([bytes_[runs], inside[runs], across[runs]], int(runs.sum()))
            values = np.zeros(points)
            values[runs] = self._priced(exchange.collective, rows)[inverse]
            found.append(values)
        return found

    def _priced(self, collective: str, rows: np.ndarray) -> np.ndarray:
        keys = [(collective, float(bytes_), float(inside), float(across)) for bytes_, inside, across in rows]
        new = [place for place, key in enumerate(keys) if key not in self._known]
        inner, *outer = self.fabric.levels
        for start in range(0, len(new), LANES):
            here = new[start : start + LANES]
            filled = np.ones((LANES, 3), np.float32)
            filled[: len(here)] = rows[here]
            price = _price(collective, self.rule, bool(outer))
            values = price(*filled.T, inner.bind(), outer[0].bind() if outer else None)
            self._known |= dict(zip([keys[at] for at in here], np.asarray(values, float).tolist(), strict=False))
        self.priced += len(new)
        return np.array([self._known[key] for key in keys])


@lru_cache(maxsize=32)
def _price(collective: str, rule: str, two_levels: bool) -> Any:
    from jaxmodel.network import group_cost

    def price(bytes_: Any, inside: Any, across: Any, inner: Any, outer: Any) -> Any:
        return group_cost(collective, bytes_, inside, across, inner, outer, rule).latency_s

    return jit(price)
