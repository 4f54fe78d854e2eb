"""A study run: machines, shapes and spaces made of what the file asks, then every schedule on every machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...api import restrictions, shape_rows
from ...binding import families_of
from ...content.gpu import GpuFile
from ...content.hardware_axis import HardwareAxis, parse_vary
from ...content.space import load_space
from ...content.study import Study
from ...errors import UserError, unknown
from ...kernels.registry import get_kernel, question_names
from ...progress import Progress
from ...question import Question, ask
from ...restrict import Restrictions, parse_axes
from ...space import Space
from .knees import Curve, curves_of
from .machines import Machine, check_names, listed_machines, varied_machines
from .shape import Shape
from .totals import check_front, priced
from .tuned import WhatIf, tune_machines


@dataclass(frozen=True)
class Answer:
    """What a study found on one baseline.

    Attributes:
        study: what was asked.
        baseline: the question of the first shape on the baseline.
        found: every machine and shape.
        curves: one for each axis that was varied by itself, with its knees.
    """

    study: Study
    baseline: Question
    found: WhatIf
    curves: tuple[Curve, ...]


def run_study(study: Study, progress: Progress = None) -> list[Answer]:
    """Answers a study (one that compares with measurements: `dse.studies.back_test.speedups`).

    Returns:
        One answer for each GPU where axes are varied, one in all where GPUs are compared.

    Raises:
        UserError: whatever of it is wrong, or a shape that no schedule can run on a machine.
    """
    get_kernel(study.kernel)
    check_names(study.gpus)
    if study.axes:
        groups = [varied_machines(gpu, study.axes, study.overrides, study.combine) for gpu in study.gpus]
    else:
        groups = [listed_machines(study.gpus, study.overrides)]
    return [_answer(study, machines, progress) for machines in groups]


def what_if(
    vary: str | Sequence[str | HardwareAxis],
    *,
    shapes: str | Path | Sequence[Any],
    gpu: str | Path = "h200_sxm",
    dtype: str = "bf16",
    kernel: str = "gemm",
    overrides: Mapping[str, str | float] | None = None,
    combine: str = "each",
    space: str | Path | None = None,
    preset: str | None = None,
    axes: Mapping[str, Any] | Sequence[str] | None = None,
    front: Sequence[str] = (),
    progress: Progress = None,
    **refinements: Any,
) -> Answer:
    """What if the GPU's numbers were different: schedules tuned anew for every machine, beside the baseline's kept.

    Args:
        vary: what is varied, as on the command line: "l2_capacity=1x,2x", ["sm_count=66:264:4", ...].
        shapes: name or path of a shape list, or shapes, each a text or its numbers.
        gpu: name or path of the baseline.
        dtype: input type of shapes that do not say their own.
        kernel: name of the kernel.
        overrides: what the baseline changes of its file.
        combine: "each": one field at a time; "grid": every combination.
        space, preset, axes: which schedules are tuned over, as in `dse.sweep`.
        front: quantities that machines are compared by: latency_s, energy_j, power_w, area_mm2, tdp_w.
        progress: as in `dse.sweep`.
        refinements: further choices of `dse.question.ask`: family, accumulator, clock, and the kernel's, for gemm
            out_dtype, layout, beta, cache.

    Returns:
        `Answer`: `found.totals` (a row a machine), `found.table` (a row a machine and shape), `curves` with their
        knees.

    Raises:
        UserError: whatever of this is wrong, or a shape that no schedule can run on a machine.
    """
    wanted = [vary] if isinstance(vary, (str, HardwareAxis)) else list(vary) if isinstance(vary, Sequence) else []
    if not wanted or not all(isinstance(axis, (str, HardwareAxis)) for axis in wanted):
        raise UserError(f"vary = {vary!r} is nothing that is varied: write e.g. 'l2_capacity=1x,2x', or a list of such")
    if isinstance(gpu, GpuFile):
        raise UserError(f"a what-if changes a GPU given by name or path, not a loaded one: give gpu={gpu.name!r}")
    if not isinstance(overrides or {}, Mapping):
        raise UserError(f"overrides = {overrides!r} is no mapping: write e.g. {{'l2_capacity': '2x'}}")
    study = Study(
        name="what_if",
        gpus=(str(gpu),),
        shapes=str(shapes) if isinstance(shapes, (str, Path)) else tuple(row.shape for row in shape_rows(shapes)),
        kernel=kernel,
        axes=tuple(axis if isinstance(axis, HardwareAxis) else parse_vary(axis) for axis in wanted),
        dtype=dtype,
        combine=combine,
        overrides=overrides or {},
        space=None if space is None else str(space),
        preset=preset,
        restrict=restrictions(axes),
        refinements=refinements,
        front=(front,) if isinstance(front, str) else tuple(front),
    )
    return run_study(study, progress)[0]


def _answer(study: Study, machines: Sequence[Machine], progress: Progress) -> Answer:
    check_front([machine.gpu for machine in machines], study.front)
    shapes = _shapes(study, machines)
    found = tune_machines(machines, shapes, lambda question: _space(study, question), progress)
    found = priced(found, study.front)
    axes = study.axes if study.combine == "each" or len(study.axes) == 1 else ()
    return Answer(study, shapes[0].questions[0], found, curves_of(found, axes))


def _shapes(study: Study, machines: Sequence[Machine]) -> list[Shape]:
    rows = shape_rows(study.shapes if isinstance(study.shapes, str) else list(study.shapes), study.kernel)
    if not rows:
        raise UserError("no shape is given: write at least one, e.g. '8192x8192x8192', or the name of a list")
    names = [row.name for row in rows]
    repeated = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if repeated is not None:
        raise UserError(f"two shapes are called {repeated!r}: give each its own name, or leave one out")
    return [Shape(row.name, row.weight, tuple(_ask(study, row, machine) for machine in machines)) for row in rows]


def _ask(study: Study, row: Any, machine: Machine) -> Question:
    known = question_names(study.kernel)
    unread = [name for name in study.refinements if name not in known]
    if unread:
        raise unknown("choice of a question", unread[0], known)
    chosen: dict[str, Any] = {**study.refinements, **row.choices}
    dtype = row.dtype or study.dtype
    return ask(row.shape, dtype, machine.gpu, kernel=study.kernel, overrides=machine.of_problem, **chosen)


def _space(study: Study, question: Question) -> Space:
    asked = str(study.space or study.kernel)
    space = load_space(asked, question.family, question.problem.dtype, study.preset, _restrictions(study.restrict))
    if space.family != question.family:
        has = families_of(question.problem, question.gpu, question.accumulator)
        raise UserError(
            f"the space {space.name} is for {space.family}, but {question.family} is what shall run on "
            f"{question.gpu.name}: choose another space, or "
            + (f"family {space.family}" if space.family in has else f"a family it has: {', '.join(has)}")
        )
    return space


def _restrictions(table: Mapping[str, Any]) -> Restrictions:
    words = {name: value if isinstance(value, (list, tuple)) else [value] for name, value in table.items()}
    return parse_axes(f"{name}={','.join(map(str, values))}" for name, values in words.items())
