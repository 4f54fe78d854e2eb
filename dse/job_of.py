"""The job of a question: which schedules of which space, restricted as asked."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .binding import families_of
from .content.space import load_space
from .errors import UserError
from .job import SweepJob
from .question import Question
from .restrict import Restrictions, parse_axes
from .space import Space


def make_job(
    asked: Question,
    space: str | Path | Space | None = None,
    preset: str | None = None,
    axes: Restrictions | Sequence[str] | None = None,
    **options: Any,
) -> SweepJob:
    """The job of a question over a space; options are those of `dse.job.SweepJob`.

    Raises:
        UserError: the space is for another instruction family than the question, or is wrong otherwise.
    """
    if isinstance(space, Space):
        chosen = space.restrict(space.presets[preset]) if preset else space
        chosen = chosen.restrict(restrictions(axes)) if axes else chosen
    else:
        own = str(space or asked.problem.kernel)
        chosen = load_space(own, asked.family, asked.problem.dtype, preset, restrictions(axes))
    if chosen.kernel != asked.problem.kernel:
        raise UserError(
            f"the space {chosen.name} is of {chosen.kernel}, but the problem is of {asked.problem.kernel}: choose "
            "another --space"
        )
    if chosen.family != asked.family:
        has = families_of(asked.problem, asked.gpu, asked.accumulator)
        fix = f"add --family {chosen.family}" if chosen.family in has else f"{asked.gpu.name} has {', '.join(has)}"
        raise UserError(
            f"the space {chosen.name} is for {chosen.family}, but {asked.family} is what shall run on "
            f"{asked.gpu.name}: {fix}, or choose another --space"
        )
    about = {"gpu_name": asked.gpu.name, "gpu_changes": asked.changes, "clock": asked.clock}
    return SweepJob(chosen, asked.problem, asked.bound, **about, **options)


def restrictions(axes: Restrictions | Sequence[str] | None) -> Restrictions:
    """Restrictions from a mapping or from texts such as "tile_m=64,128"."""
    if axes is None:
        return {}
    return axes if isinstance(axes, Mapping) else parse_axes(axes)
