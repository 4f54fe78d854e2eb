"""A study of layouts run: every layout of every service on every machine, the best of each beside today's kept."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...content.layout_study import LayoutStudy
from ...progress import Progress
from ...serving.api import SPACE, layout_space
from ...serving.asked import ask_service
from ...serving.kernel_times import KernelTimes
from ...serving.layout_words import DEGREES, layout_text
from ...serving.layouts import FIELDS
from ...serving.outcomes import COLUMNS
from ...serving.serve import LayoutResult, Service, sweep_layouts
from ..what_if.machines import Machine, varied_machines

if TYPE_CHECKING:
    import pandas as pd

MOST = 0.0  # the level of the most throughput, whatever a user sees
TABLE = {  # name -> (unit, meaning)
    "service": ("text", "what is served on what"),
    "machine": ("1", "number of the machine; 0: the baseline"),
    "label": ("text", "the machine in words"),
    "axis": ("text", "what was varied; empty for the baseline and for a grid"),
    "value": ("1", "the value on the axis, in its unit; of a fabric or an engine times today's"),
    "factor": ("1", "what the number was multiplied by"),
    "level": ("tokens/s", "least tokens a second for a user; 0: none is asked for"),
    "layout": ("text", "the layout of the most tokens/s a GPU at this level; empty: none runs"),
    "tokens_per_s_per_gpu": ("tokens/s", "of that layout"),
    "tokens_per_s_per_user": ("tokens/s", "of that layout"),
    "ttft_s": ("s", "of that layout"),
    "gain": ("1", "tokens_per_s_per_gpu over the baseline's"),
    "kept_layout": ("text", "the baseline's way to share the GPUs, batch and chunk chosen anew"),
    "kept_tokens_per_s_per_gpu": ("tokens/s", "of that layout on this machine"),
    "kept_gain": ("1", "kept_tokens_per_s_per_gpu over the baseline's"),
}


@dataclass(frozen=True)
class ServiceAnswer:
    """One service on every machine.

    Attributes:
        title: what tables and figures call it.
        baseline: as asked, nothing varied.
        machines: the baseline first.
        results: of the sweep on each machine.
        kernel_problems, schedules: distinct kernel problems tuned and schedules evaluated for all machines.
    """

    title: str
    baseline: Service
    machines: tuple[Machine, ...]
    results: tuple[LayoutResult, ...]
    kernel_problems: int
    schedules: int


@dataclass(frozen=True)
class LayoutAnswer:
    """What was found.

    Attributes:
        study: what was asked.
        services: in its order.
        table: a row a (service, machine, level): `TABLE`.
        fronts: the front of every service on every machine: service, machine, label, layout, `FIELDS`, `COLUMNS`.
        seconds: of all of it.
    """

    study: LayoutStudy
    services: tuple[ServiceAnswer, ...]
    table: "pd.DataFrame"
    fronts: "pd.DataFrame"
    seconds: float


def run_layout_study(study: LayoutStudy, progress: Progress = None) -> LayoutAnswer:
    """Answers a study.

    Args:
        study: of `dse.content.study.load_study`.
        progress: as in `dse.sweep.run_sweep`.

    Raises:
        UserError: whatever of it is wrong, with what is allowed.
    """
    import pandas as pd

    began = time.perf_counter()
    answers, rows, fronts = [], [], []
    titles: list[str] = []
    for words in study.services:
        answer, own_rows, own_fronts = _service(study, words, titles, progress)
        titles.append(answer.title)
        answers.append(answer)
        rows += own_rows
        fronts += own_fronts
    table = pd.DataFrame(rows, columns=list(TABLE))
    return LayoutAnswer(study, tuple(answers), table, pd.concat(fronts, ignore_index=True), time.perf_counter() - began)


def levels(study: LayoutStudy, phase: str) -> tuple[float, ...]:
    """At which throughput is compared; instances that prefill alone have no tokens a second for a user."""
    return (MOST,) if phase == "prefill" else (MOST, *dict.fromkeys(study.users))


def best_at(front: "pd.DataFrame", level: float) -> dict[str, Any] | None:
    """The row of the most tokens/s a GPU among those of a front that give a user so many tokens a second."""
    kept = front[front["tokens_per_s_per_user"] >= level]
    if not len(kept):
        return None
    rows: list[Any] = kept.to_dict("records")
    return max(rows, key=lambda row: row["tokens_per_s_per_gpu"])


def _service(
    study: LayoutStudy, words: Mapping[str, Any], taken: Sequence[str], progress: Progress
) -> tuple[ServiceAnswer, list[dict[str, Any]], list[Any]]:
    asked = {name: value for name, value in words.items() if name not in ("name", "gpu")}
    machines = varied_machines(words["gpu"], study.axes, study.overrides, study.combine)
    space = layout_space(study.space or SPACE, study.preset, study.restrict)
    tuned: dict[tuple[Any, ...], KernelTimes] = {}
    results, kept = [], []
    first: Sequence[dict[str, Any] | None] = ()
    for machine in machines:
        service = ask_service(gpu=machine.gpu, overrides=machine.of_problem, **asked)
        known = (machine.gpu.hash, service.engine.name, service.clock)
        kernels = tuned.setdefault(known, service.steps().kernels)
        results.append(sweep_layouts(service, space, top=1, kernels=kernels, progress=progress))
        if not kept:
            first = [best_at(results[0].front, level) for level in _all(study, service)]
        pairs = zip(first, _all(study, service), strict=True)
        kept.append([_kept(study, service, row, level, kernels) for row, level in pairs])
    title = str(words.get("name") or f"{results[0].service.model.title} on {results[0].service.gpus} x {words['gpu']}")
    if title in taken:  # tables tell services by their titles
        title += f", service {len(taken) + 1}"
    counted = [(kernels.problems, kernels.evaluations) for kernels in tuned.values()]
    answer = ServiceAnswer(
        title,
        results[0].service,
        tuple(machines),
        tuple(results),
        sum(problems for problems, _ in counted),
        sum(schedules for _, schedules in counted),
    )
    return answer, _rows(study, answer, kept), [_front(answer, number) for number in range(len(machines))]


def _all(study: LayoutStudy, service: Service) -> tuple[float, ...]:
    return levels(study, service.workload.phase)


def _kept(
    study: LayoutStudy, service: Service, row: Mapping[str, Any] | None, level: float, kernels: KernelTimes
) -> dict[str, Any] | None:
    """The best of the layouts that share the GPUs as the baseline's best does."""
    if row is None:
        return None
    fixed = {name: [int(row[name])] for name in DEGREES if name != "micro_batches"}
    space = layout_space(study.space or SPACE, study.preset, {**study.restrict, **fixed})
    return best_at(sweep_layouts(service, space, top=1, kernels=kernels).front, level)


def _rows(study: LayoutStudy, answer: ServiceAnswer, kept: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    found = []
    asked = _all(study, answer.baseline)
    first = [best_at(answer.results[0].front, level) for level in asked]
    for number, (machine, result) in enumerate(zip(answer.machines, answer.results, strict=True)):
        for place, level in enumerate(asked):
            best, own, then = best_at(result.front, level), kept[number][place], first[place]
            before = then["tokens_per_s_per_gpu"] if then else float("nan")
            found.append(
                {
                    "service": answer.title,
                    "machine": number,
                    "label": machine.label,
                    "axis": machine.axis,
                    "value": next(iter(machine.values.values()), float("nan")),
                    "factor": next(iter(machine.factors.values()), 1.0),
                    "level": level,
                    "layout": layout_text(best) if best else "",
                    **{name: _of(best, name) for name in ("tokens_per_s_per_gpu", "tokens_per_s_per_user", "ttft_s")},
                    "gain": _of(best, "tokens_per_s_per_gpu") / before,
                    "kept_layout": layout_text(own) if own else "",
                    "kept_tokens_per_s_per_gpu": _of(own, "tokens_per_s_per_gpu"),
                    "kept_gain": _of(own, "tokens_per_s_per_gpu") / before,
                }
            )
    return found


def _of(row: Mapping[str, Any] | None, name: str) -> float:
    return float("nan") if row is None else float(row[name])


def _front(answer: ServiceAnswer, number: int) -> "pd.DataFrame":
    front = answer.results[number].front[[*FIELDS, *COLUMNS]].copy()
    front.insert(0, "layout", [layout_text(row) for row in front.to_dict("records")])
    front.insert(0, "label", answer.machines[number].label)
    front.insert(0, "machine", number)
    front.insert(0, "service", answer.title)
    return front
