"""Where the time of a layout's steps goes: kernels by layer with their schedules, collectives, launches, the host."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..schedule_words import words_of
from ..step_operators import Operator, Work, layers_of
from .collective_times import Exchange
from .exchanges import SEND
from .layouts import Layouts
from .outcomes import Served
from .step_times import StepModel
from .workload import Workload

KINDS = {
    "kernel": "kernels",
    "collective": "collectives",
    "launches": "waiting for launches: the host issues kernels more slowly than they run",
    "hidden": "hidden: runs beside something else (two batches in turns, shared experts, kernels that start early)",
    "send": "sent from stage to stage",
    "host": "the host between steps (engine.step_s)",
}
TITLES = {
    "decode": "a decode step",
    "prefill": "a whole prompt",
    "mixed": "a step of decoded tokens and a chunk of a prompt",
}


@dataclass(frozen=True)
class Part:
    """One line of a step.

    Attributes:
        kind: of `KINDS`.
        name: layer, or what a collective is for.
        what: the kernel, or the collective with its group.
        runs: in a step, over all layers.
        seconds: of all runs together; below 0 for what is hidden.
        detail: the schedule in words, or the bytes of one run.
    """

    kind: str
    name: str
    what: str
    runs: float
    seconds: float
    detail: str


@dataclass(frozen=True)
class Phase:
    """One kind of step of a layout.

    Attributes:
        name: of `TITLES`.
        seconds: of all parts together: one micro-batch through all stages, and the host.
        kernels: launched, collectives included.
        parts: the longest first within a kind.
    """

    name: str
    seconds: float
    kernels: float
    parts: tuple[Part, ...]

    def by_kind(self) -> dict[str, float]:
        """Seconds of each kind that occurs, in the order of `KINDS`."""
        found = {kind: sum(part.seconds for part in self.parts if part.kind == kind) for kind in KINDS}
        return {kind: seconds for kind, seconds in found.items() if seconds}


def breakdown(steps: StepModel, workload: Workload, layout: Layouts) -> tuple[Phase, ...]:
    """The steps of one layout that can run.

    Args:
        steps: what priced it.
        workload: what is served.
        layout: one.

    Returns:
        A decode step, a step with a chunk where prompts are cut, a whole prompt where not; those that the workload has.
    """
    served = Served(layout, workload, steps)
    cut = int(layout["chunk"][0]) > 0 and workload.phase == "serve"
    works: dict[str, Work] = {}
    if workload.phase != "prefill":
        works["decode"] = served.decode_work()
    if cut:
        works["mixed"] = served.chunk_work()
    elif workload.phase == "serve":
        works["prefill"] = served.prefill_work()
    elif workload.phase == "prefill":
        works["prefill"] = served.prefill_work(layout["batch"] // (layout["dp"] * layout["micro_batches"]))
    return tuple(_phase(name, work, steps, layout) for name, work in works.items())


def _phase(name: str, work: Work, steps: StepModel, layout: Layouts) -> Phase:
    times = steps.times(work, layout)
    _, operators, exchanges = steps.parts(work, layout)
    halves = float(layout.halves[0])
    parts = [*_kernels(steps, operators, halves), *_collectives(steps, exchanges, halves)]
    round_s, send_s, host_s = float(times.round_s[0]), float(times.send_s[0]), steps.engine["step_s"]
    waiting = round_s - sum(part.seconds for part in parts)
    if abs(waiting) > 1e-9 * max(round_s, 1e-12):
        parts.append(Part("launches" if waiting > 0 else "hidden", "", "", 0.0, waiting, ""))
    crossings = int(layout["pp"][0]) - 1
    if send_s * crossings:
        parts.append(Part("send", SEND, "send", crossings, send_s * crossings, ""))
    if host_s:
        parts.append(Part("host", "", "", 1.0, host_s, ""))
    order = list(KINDS)
    parts.sort(key=lambda part: (order.index(part.kind), -part.seconds))
    return Phase(name, sum(part.seconds for part in parts), float(times.kernels[0]), tuple(parts))


def _kernels(steps: StepModel, operators: list[Operator], halves: float) -> list[Part]:
    found, layers = [], layers_of(steps.model)
    for operator, seconds in zip(operators, steps.kernels.seconds(operators, 1), strict=True):
        runs = layers[operator.where] * operator.times * halves
        if not seconds[0] * runs:
            continue
        plain = replace(operator, sizes={name: _number(size) for name, size in operator.sizes.items()})
        said = words_of(operator.kernel).short(steps.kernels.schedule(plain))
        sizes = " ".join(f"{name}={size}" for name, size in plain.sizes.items())
        found.append(
            Part("kernel", operator.layer, operator.kernel, runs, float(seconds[0]) * runs, f"{sizes}: {said}")
        )
    return found


def _collectives(steps: StepModel, exchanges: list[Exchange], halves: float) -> list[Part]:
    found, layers = [], layers_of(steps.model)
    for exchange, seconds in zip(exchanges, steps.collectives.seconds(exchanges, 1), strict=True):
        if exchange.where == SEND or not seconds[0]:
            continue
        runs = layers[exchange.where] * halves
        inside, across = _number(exchange.inside), _number(exchange.across)
        group = f"{inside} GPUs" if across == 1 else f"{inside} GPUs of {across} nodes"
        bytes_ = float(np.ravel(np.asarray(exchange.bytes_))[0])
        what = f"{exchange.collective} of {group}"
        found.append(Part("collective", exchange.part, what, runs, float(seconds[0]) * runs, f"bytes={bytes_:.0f}"))
    return found


def _number(value: Any) -> int:
    return int(np.ravel(np.asarray(value))[0])


def phases_as_dicts(phases: tuple[Phase, ...]) -> list[dict[str, Any]]:
    """Plain values, for JSON."""
    return [
        {
            "phase": phase.name,
            "seconds": phase.seconds,
            "kernels_launched": phase.kernels,
            "by_kind_s": phase.by_kind(),
            "parts": [dict[str, Any](vars(part)) for part in phase.parts],
        }
        for phase in phases
    ]


def part_rows(phases: tuple[Phase, ...], more: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row a part, for tables; `more` stands in each."""
    return [{**more, "phase": phase.name, **vars(part)} for phase in phases for part in phase.parts]
