"""The model inverted: how much better must one number of the GPU be for a kernel to reach a latency?

Schedules are tuned anew over the whole space for every machine that an answer rests on (`dse.studies.target.search`).
"""

import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...api import make_job, shape_rows
from ...columns import code_words
from ...content.gpu import GpuFile, load_gpu
from ...content.hardware_axis import current_value
from ...content.overrides import factor_of
from ...content.silicon import load_silicon
from ...errors import UserError, unknown
from ...kernels.registry import question_names
from ...paired import paired_costs
from ...platform import configure_jax
from ...progress import Progress
from ...question import Question, ask
from ..area_power import LABEL, AreaPower, known_area_power
from .improvable import LESS, Knob, knobs_of
from .search import Smallest, smallest_changes
from .tuned_machines import Machines, Point, Tuned, check_runs

if TYPE_CHECKING:
    import pandas as pd

NO_EFFECT = 5e-4  # a speed-up that is none
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0}


@dataclass(frozen=True)
class Change:
    """What one knob must become, or what it buys at most.

    Attributes:
        fields: full names of what is improved.
        reached: whether the latency is reached.
        factor: of the answer, else of the fastest machine tuned: what a field is multiplied by (a latency, loss or
            energy is divided by it).
        now, then: field -> value before and after; tensor rates count in multiples of today's.
        latency_s: the weighted latency then, schedules tuned anew.
        speedup: today's over it.
        limit: the largest factor that was allowed.
        every_value: reached: no smaller change reaches it (to the resolution); not reached: more is never slower. False
            where values were only sampled, because more may be slower.
        binds, binds_now: what binds the shapes' fastest schedules, "tensor" or "tensor 5, ddr 3".
        schedules_changed: shapes whose fastest schedule is another then.
        power_w: mean power while the kernels run; assumed, first order.
        area_mm2, area_now_mm2, power_now_w: of the GPU then and now, likewise; None where no die is known.
    """

    fields: tuple[str, ...]
    reached: bool
    factor: float
    now: Mapping[str, float]
    then: Mapping[str, float]
    latency_s: float
    speedup: float
    limit: float
    every_value: bool
    binds_now: str
    binds: str
    schedules_changed: int
    power_now_w: float | None
    power_w: float | None
    area_now_mm2: float | None
    area_mm2: float | None

    @property
    def name(self) -> str:
        """The fields, joined by a plus."""
        return " + ".join(self.fields)

    @property
    def has_effect(self) -> bool:
        """Whether it makes the kernels any faster."""
        return self.reached or self.speedup > 1 + NO_EFFECT


@dataclass(frozen=True)
class Target:
    """The answer.

    Attributes:
        question: the first shape on the GPU as it is.
        shapes: names.
        now_s: the weighted latency today, schedules tuned.
        target_s: the one to reach.
        limit, resolution: the largest factor, and the relative difference of neighbouring ones.
        changes: those that reach it, the smallest factor first; then the others, by what they buy at most.
        spaces: name -> (declared schedules, those that fit) of every space.
        evaluations: candidates tuned over the whole space.
        seconds: wall time.
    """

    question: Question
    shapes: tuple[str, ...]
    now_s: float
    target_s: float
    limit: float
    resolution: float
    changes: tuple[Change, ...]
    spaces: Mapping[str, tuple[int, int]]
    evaluations: int
    seconds: float

    @property
    def table(self) -> "pd.DataFrame":
        """One row a change, as in `changes`; areas and powers are assumed, first order."""
        import pandas as pd

        return pd.DataFrame([{"name": at.name, **asdict(at)} for at in self.changes])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        plain = {
            name: getattr(self, name) for name in ("now_s", "target_s", "limit", "resolution", "evaluations", "seconds")
        }
        return {
            "question": self.question.title,
            "gpu_changes": list(self.question.changes),
            "shapes": list(self.shapes),
            **plain,
            "speedup": self.now_s / self.target_s,
            "spaces": {name: list(sizes) for name, sizes in self.spaces.items()},
            "area_and_power": LABEL,
            "changes": [{"name": at.name, **asdict(at)} for at in self.changes],
        }


def target(
    shape: Any = None,
    *,
    shapes: str | Path | Sequence[Any] | None = None,
    faster: str | float | None = None,
    latency: str | float | None = None,
    gpu: str | os.PathLike[str] = "h200_sxm",
    dtype: str = "bf16",
    kernel: str = "gemm",
    overrides: Mapping[str, str | float] | None = None,
    fields: Sequence[str | Sequence[str]] | None = None,
    limit: float = 16.0,
    resolution: float = 0.005,
    space: Any = None,
    preset: str | None = None,
    axes: Any = None,
    progress: Progress = None,
    **question: Any,
) -> Target:
    """The smallest change of each number of a GPU that makes a kernel, or a weighted list, fast enough.

    Args:
        shape: "MxNxK", "BATCHxMxNxK" or the numbers, or as the kernel writes it; or
        shapes: a shape list (CSV by name or path, or a sequence); the weighted sum of its latencies counts.
        faster: a speed-up: "10%" is today's latency over 1.1, "2x" half of it; or
        latency: of the shape, or the weighted sum of the list, in seconds or as "50us".
        gpu: name or path of a GPU file.
        dtype: input type.
        kernel: name of the kernel.
        overrides: what is changed of the GPU before, as in `load_gpu`.
        fields: fields, or groups that are improved by one factor: ["tdp_w", ["l2_bytes_per_s", "ddr_bytes_per_s"]];
            None: every field the model uses, by itself (`dse.studies.target.improvable`).
        limit: the largest factor.
        resolution: the answer is the smallest of factors that are this far apart.
        space, preset, axes: as in `dse.sweep`.
        progress: as in `dse.sweep.run_sweep`.
        question: further arguments of `dse.question.ask`.

    Raises:
        UserError: whatever of this is wrong, with what is allowed; a target that is reached already.
    """
    configure_jax()
    began = time.perf_counter()
    rows = _rows(shape, shapes, kernel)
    aim = _aim(faster, latency)
    if isinstance(gpu, GpuFile):
        raise UserError(f"a target changes a GPU given by name or path, not a loaded one: give gpu={gpu.name!r}")
    known = question_names(kernel)
    unread = [name for name in question if name not in known]
    if unread:
        raise unknown("choice of a question", unread[0], known)
    knobs = knobs_of(gpu, overrides, fields, limit, resolution)
    base = load_gpu(gpu, overrides)
    questions = [ask(row.shape, row.dtype or dtype, base, kernel=kernel, **{**question, **row.choices}) for row in rows]
    machines = Machines(
        questions,
        [row.weight for row in rows],
        lambda at: make_job(at, space, preset, axes).space,
        lambda changes: load_gpu(gpu, {**(overrides or {}), **changes}),
        knobs,
        progress,
    )
    now = check_runs(machines, knobs[0])
    target_s = now.total_s / aim if latency is None else aim
    if target_s >= now.total_s:
        raise UserError(
            f"the target of {target_s * 1e6:.2f} us is reached already: {base.name} takes {now.total_s * 1e6:.2f} us"
        )
    found = smallest_changes(machines, knobs, target_s)
    changes = _changes(machines, now, found)
    machines.finished()
    return Target(
        questions[0],
        tuple(row.name for row in rows),
        now.total_s,
        target_s,
        limit,
        resolution,
        tuple(sorted(changes, key=_order)),
        machines.spaces,
        machines.evaluations,
        time.perf_counter() - began,
    )


def _rows(shape: Any, shapes: Any, kernel: str) -> list[Any]:
    if (shape is None) == (shapes is None):
        raise UserError("give the problem as shape='MxNxK', or many as shapes=NAME, FILE or a list")
    try:
        rows = shape_rows([shape] if shapes is None else shapes, kernel)
    except TypeError:
        raise UserError(f"{shapes if shape is None else shape!r} is no shape: write MxNxK or the numbers") from None
    if not rows:
        raise UserError("no shape is given: write at least one, e.g. '8192x8192x8192', or the name of a list")
    return rows


def _aim(faster: str | float | None, latency: str | float | None) -> float:
    """The speed-up, or the latency in seconds where that is given."""
    if (faster is None) == (latency is None):
        raise UserError("give one target: faster='10%' (a speed-up of 1.1x) or latency='50us'")
    if latency is not None:
        return parse_seconds(latency)
    text = str(faster).strip()
    percent = text.removeprefix("+") if text.endswith("%") else ""
    speedup = factor_of(f"+{percent}") if percent else factor_of(text) if text[-1:] in "xX×" else _number(text)
    if speedup is None or not 1 < speedup < math.inf:
        raise UserError(f"faster = {text!r} is no speed-up above 1: write 10% (1.1x) or 2x")
    return speedup


def parse_seconds(value: str | float) -> float:
    """Seconds from a number or from "50us", "1.2 ms", "3e-5s".

    Raises:
        UserError: no such text, or not above 0.
    """
    text = str(value).strip()
    unit = next(unit for unit in SECONDS if text.endswith(unit))
    number = _number(text.removesuffix(unit).strip())
    if number is None or not 0 < number < math.inf:
        raise UserError(f"latency = {text!r} is no time above 0: write 50us, 1.2ms, or seconds as 5e-5")
    return number * SECONDS[unit]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _order(change: Change) -> tuple[bool, float, str]:
    return (not change.reached, change.factor if change.reached else -change.speedup, change.name)


def _changes(machines: Machines, now: Tuned, found: Sequence[Smallest]) -> list[Change]:
    known = load_silicon()
    points: list[Point] = [(found[0].knob, 0)]
    points += [(at.knob, at.best if at.place is None else at.place) for at in found]
    tuned = machines.tune(points)
    binds, energy_j = _bounds(machines, points, tuned)
    gpus = [machines.gpu(point) for point in points]
    priced = [known_area_power(gpu, known) for gpu in gpus]
    powers = [
        about.kernel_power_w(joules, then.total_s) if about else None
        for about, joules, then in zip(priced, energy_j, tuned, strict=True)
    ]
    changes = []
    for row, at in enumerate(found, start=1):
        then, (knob, place) = tuned[row], points[row]
        changes.append(
            Change(
                fields=knob.fields,
                reached=at.place is not None,
                factor=knob.factors[place],
                now=_values(gpus[0], gpus[0], knob, 1.0),
                then=_values(gpus[0], gpus[row], knob, knob.factors[place]),
                latency_s=then.total_s,
                speedup=now.total_s / then.total_s,
                limit=knob.factors[-1],
                every_value=at.every_value,
                binds_now=binds[0],
                binds=binds[row],
                schedules_changed=int((then.index != now.index).sum()),
                power_now_w=powers[0],
                power_w=powers[row],
                area_now_mm2=_area(priced[0]),
                area_mm2=_area(priced[row]),
            )
        )
    return changes


def _area(about: AreaPower | None) -> float | None:
    return about.area_mm2 if about else None


def _values(base: GpuFile, gpu: GpuFile, knob: Knob, factor: float) -> dict[str, float]:
    values = {}
    for field in knob.fields:
        value = current_value(gpu, field)
        relative = field not in gpu.values  # tensor rates, which have no one number
        values[field] = (factor if field not in LESS else 1 / factor) if relative else value
    return values


def _bounds(machines: Machines, points: Sequence[Point], tuned: Sequence[Tuned]) -> tuple[list[str], list[float]]:
    """What binds on every machine, and its weighted joules."""
    words = code_words()["bound"]
    bound = np.zeros((len(points), len(machines.questions)), int)
    joules = np.zeros(bound.shape)
    pairs = [(row, place) for row in range(len(points)) for place in range(len(machines.questions))]
    schedules = [tuned[row].schedules[place] for row, place in pairs]
    costs = paired_costs(
        [machines.questions[place].problem for _, place in pairs],
        {name: np.array([at[name] for at in schedules]) for name in schedules[0]},
        [machines.bound(points[row], place) for row, place in pairs],
        machines.questions[0].problem.kernel,
    )
    for (row, place), code, energy in zip(pairs, costs["bound"], costs["energy_j"], strict=True):
        bound[row, place], joules[row, place] = int(code), float(energy)
    texts = []
    for codes in bound:
        names, counts = np.unique([words[code] for code in codes], return_counts=True)
        ordered = sorted(zip(counts, names, strict=True), key=lambda pair: (-pair[0], pair[1]))
        texts.append(", ".join(f"{name} {count}" if len(codes) > 1 else str(name) for count, name in ordered))
    return texts, [float(row @ machines.weights) for row in joules]
