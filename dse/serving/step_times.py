"""Seconds of steps: kernels, collectives and launches of the slowest stage, and of one micro-batch through all."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..content.engine import Engine
from ..content.model import ModelConfig
from ..progress import Progress
from ..step_operators import DENSE, EVERY_LAYER, MOE, ONCE, Operator, Types, Work, layers_of, step_operators
from .collective_times import CollectiveTimes, Exchange
from .engine_effects import engine_operators, engine_types, hidden_s
from .exchanges import SEND, forwarded, step_exchanges
from .fused_exchanges import fused_step
from .kernel_times import KernelTimes
from .layouts import Layouts
from .stages import Stages

PLACES = (EVERY_LAYER, DENSE, MOE, ONCE)


@dataclass(frozen=True)
class StepTimes:
    """One micro-batch of a step; float64[layouts] each.

    Attributes:
        slowest_s: the slowest stage.
        round_s: all stages one after the other, without what is sent between them.
        send_s: from one stage to the next.
        exchanges_s: of `round_s`, collectives; with two batches in turns kernels hide them or they hide kernels, and
            with kernels that the host launches its pace may hide both.
        kernels: how many are launched.
        by_layer: part of the model -> seconds of its kernels in a round.
        by_exchange: collective -> seconds in a round.
    """

    slowest_s: np.ndarray
    round_s: np.ndarray
    send_s: np.ndarray
    exchanges_s: np.ndarray
    kernels: np.ndarray
    by_layer: Mapping[str, np.ndarray]
    by_exchange: Mapping[str, np.ndarray]

    def drafted_s(self, layers: int, draft_layers: float) -> np.ndarray:
        """A drafted token, where this is a step of one query a sequence: some layers and the output projection.

        Args:
            layers: of the model, all of them.
            draft_layers: that a draft costs.
        """
        head_s = self.by_layer["lm_head"] + self.by_exchange["logits"]
        return draft_layers * np.maximum(self.round_s - head_s, 0.0) / layers + head_s


@dataclass(frozen=True)
class StepModel:
    """What prices a step: a model, its types, tuned kernels, collectives, the engine.

    Attributes:
        graphs: whether decode steps replay a graph; else the host launches every kernel.
    """

    model: ModelConfig
    types: Types
    kernels: KernelTimes
    collectives: CollectiveTimes
    engine: Engine
    graphs: bool = True

    def times(self, work: Work, layouts: Layouts, progress: Progress = None) -> StepTimes:
        """Prices one micro-batch of a step on every layout.

        Args:
            work: of the whole micro-batch: its numbers are plain, or arrays of as many as there are layouts. Where two
                halves take turns, either has half of its sequences, or half of the tokens of its prompts.
            layouts: possible ones (`dse.serving.layouts.layout_reasons`).
            progress: as in `dse.sweep.run_sweep`.

        Returns:
            The times; infinite where a kernel or a collective cannot run.
        """
        halves, count = layouts.halves, len(layouts)
        work, operators, exchanges = self.parts(work, layouts)
        seconds = self.kernels.seconds(operators, count, progress)
        sent = forwarded(exchanges, self.collectives.seconds(exchanges, count))
        computing = _by_place(operators, seconds, count)
        sending = _by_place(exchanges, sent, count)
        launched = _by_place(operators, [np.asarray(one > 0, float) for one in seconds], count)
        for place, number in _by_place(exchanges, [np.asarray(one > 0, float) for one in sent], count).items():
            launched[place] = launched[place] + number
        replayed = self._replayed(work)
        computing[MOE] = computing[MOE] - np.where(replayed, hidden_s(operators, seconds, self.engine), 0.0)
        pace_s = np.where(replayed, -self.engine["early_start_s"], self.kernels.gpu["host_launch_overhead_s"])
        taken = self.engine["exchange_sms"] / self.kernels.gpu["sm_count"] * (np.asarray(work.prompts) > 0)
        shown = {
            place: self._shown(computing[place], sending[place], launched[place], pace_s, halves, taken)
            for place in PLACES
        }
        stages = Stages.of(self.model, layouts["pp"])
        send_s = sum(np.asarray(one) for exchange, one in zip(exchanges, sent, strict=True) if exchange.where == SEND)

        def whole(parts: Mapping[str, Any]) -> Any:
            return stages.total(parts[EVERY_LAYER], parts[DENSE], parts[MOE], 0.0, parts[ONCE])

        return StepTimes(
            slowest_s=stages.most(shown[EVERY_LAYER], shown[DENSE], shown[MOE], 0.0, shown[ONCE]),
            round_s=whole(shown),
            send_s=np.asarray(send_s) * halves,
            exchanges_s=whole(sending) * halves,
            kernels=whole(launched) * halves,
            by_layer=self._listed(operators, seconds, halves, "layer"),
            by_exchange=self._listed(exchanges, sent, halves, "part"),
        )

    def parts(self, work: Work, layouts: Layouts) -> tuple[Work, list[Operator], list[Exchange]]:
        """What `times` prices: the work of one half where two take turns (else all of it), and its kernels and
        collectives."""
        work, types = _halved(work, layouts.halves), engine_types(self.types, self.engine)
        operators = engine_operators(step_operators(self.model, types, work, layouts.cut()), layouts, self.engine)
        exchanges = step_exchanges(self.model, types, work, layouts)
        return work, *fused_step(operators, exchanges, layouts, self.collectives.fabric)

    def _replayed(self, work: Work) -> Any:
        """Where a graph is replayed: decode alone, with no more tokens than graphs are captured for."""
        few = np.asarray(work.decode_m) <= self.engine["graph_tokens_max"]
        return self.graphs & (np.asarray(work.prompts) == 0) & few

    def _shown(self, computing: Any, sending: Any, launched: Any, pace_s: Any, halves: np.ndarray, taken: Any) -> Any:
        """Seconds of one layer, or of what comes once: kernels and collectives in order, or the longer of both where
        two halves take turns; at least the host's launches. A negative pace: kernels start early by so much.
        `taken`: of the SMs, by collectives while both run."""
        both = np.maximum(computing + taken * sending, sending)
        turns = np.where(halves > 1, 2.0 * both, computing + sending)
        early = np.maximum(turns + launched * halves * np.minimum(pace_s, 0.0), 0.0)
        return np.maximum(early, launched * halves * pace_s)

    def _listed(self, parts: Any, seconds: list[np.ndarray], halves: np.ndarray, name: str) -> dict[str, np.ndarray]:
        layers = layers_of(self.model)
        found: dict[str, np.ndarray] = {}
        for part, one in zip(parts, seconds, strict=True):
            if part.where in layers:
                times = layers[part.where] * getattr(part, "times", 1.0)
                label = getattr(part, name)
                found[label] = found.get(label, np.zeros(len(halves))) + one * times * halves
        return found


def _by_place(parts: list[Operator] | list[Exchange], seconds: list[np.ndarray], count: int) -> dict[str, np.ndarray]:
    found = {place: np.zeros(count) for place in PLACES}
    for part, one in zip(parts, seconds, strict=True):
        if part.where in found:
            found[part.where] = found[part.where] + one * getattr(part, "times", 1.0)
    return found


def _halved(work: Work, halves: np.ndarray) -> Work:
    if (halves == 1).all():
        return work
    everywhere = None if work.everywhere is None else -(-np.asarray(work.everywhere) // halves)
    half = -(-np.asarray(work.prompt_tokens) // halves)
    return replace(
        work,
        prompt_tokens=half,
        cached_tokens=work.cached_tokens + (work.prompt_tokens - half) // 2,  # the second half sees the first
        sequences=np.asarray(work.sequences) // halves,
        everywhere=everywhere,
    )
