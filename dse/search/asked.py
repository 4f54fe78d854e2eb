"""A search as users put it: names and texts in, a result out. `dse.search` is this function."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice, product
from typing import Any

from ..content.gpu import GpuFile
from ..content.gpu_fields import FIELDS
from ..content.overrides import CLOCK
from ..content.space import load_space
from ..errors import UserError
from ..gpu_axes import gpu_choices, gpu_file_maker, gpu_maker
from ..job_of import make_job, restrictions
from ..question import Question, ask
from ..space import Space
from .candidates import GpuAxis, search_space
from .choice import AUTO
from .first import first_schedules
from .goals import GpuQuantity
from .moves import ends
from .record import SearchResult
from .run import run_search
from .unchanged import unchanged

OfFile = Callable[[GpuFile], float]  # a quantity of a GPU
CORNERS = 64


def search(
    kernel: str | None = None,
    *,
    shape: Any,
    trials: int,
    sampler: str = AUTO,
    seed: int = 0,
    dtype: str = "bf16",
    gpu: str | GpuFile = "h200_sxm",
    gpu_axes: Mapping[str, Any] | None = None,
    space: Any = None,
    preset: str | None = None,
    axes: Any = None,
    objectives: Sequence[str] = ("latency_s",),
    top: int = 10,
    first: Sequence[Any] = (),
    limits: Mapping[str, float] | None = None,
    quantities: Mapping[str, tuple[OfFile, Sequence[str]]] | None = None,
    inner: str | None = None,
    progress: Any = None,
    **options: Any,
) -> SearchResult:
    """Samples schedules, and numbers of the GPU with them, where a space is too large to sweep.

    Args:
        kernel, dtype, gpu, space, preset, axes, top, progress: as in `dse.sweep`.
        shape: as in `dse.sweep`; with `inner` a list of shapes too, whose latencies add up.
        trials: how many candidates; with `storage` of all processes together, earlier ones included.
        sampler, seed: a name of `dse.search.SAMPLERS`, or "auto" (`dse.search.choice`); the same seed gives the same
            trials.
        gpu_axes: numbers of the GPU to choose as well, named as in `load_gpu`'s overrides: (low, high),
            (low, high, "log") or a list, in numbers or factors: `{"l2_capacity_bytes": (3e7, "2x")}`. A GPU given by
            name or path only.
        objectives: one is minimised; of several the front is sought.
        first: schedules to try first (`dse.search.first`): in words, indices, "preset:NAME", or a run's folder.
        limits: cost, or quantity of the GPU -> the most it may be: `{"area_mm2": 861}`.
        quantities: further quantities of the GPU, that objectives and limits may name: name -> (function of the GPU's
            file, the fields that move it), e.g. `dse.studies.gpu_quantities.gpu_quantities()`.
        inner, options: of `dse.search.run_search` (batch, storage, study_name, reference), and of
            `dse.question.ask` (overrides, family, ...).

    Returns:
        `dse.search.SearchResult`: tables `trials`, `best` and `front`, and what else was found.

    Raises:
        UserError: whatever of this is wrong, with what is allowed.
    """
    own = {name: options.pop(name) for name in ("batch", "storage", "study_name", "reference") if name in options}
    several = isinstance(shape, list) and not all(isinstance(size, int) for size in shape)
    shapes = shape if several else [shape]
    asked = [ask(one, dtype, gpu, kernel=kernel, **options) for one in shapes]
    job = make_job(asked[0], space, preset, axes, objectives=("latency_s",), top=top)
    overrides = options.get("overrides") or {}
    make_gpu, choices = None, dict(gpu_axes or {})
    if gpu_axes:
        if isinstance(gpu, GpuFile):
            raise UserError("gpu_axes vary a GPU given by name or path, not a loaded one")
        choices = gpu_choices(gpu_axes, asked[0].gpu)
        _check_not_set(choices, overrides)
        make_gpu = gpu_maker(asked[0], gpu, overrides)
        file_of = gpu_file_maker(gpu, overrides)
        _check_ends(search_space(job.space, choices).gpu, file_of)
        known = [_quantity(name, of, moved, file_of, choices) for name, (of, moved) in (quantities or {}).items()]
    else:
        known = [
            GpuQuantity(name, lambda numbers: 0.0, tuple(moved)) for name, (_, moved) in (quantities or {}).items()
        ]
    smaller = lambda name: make_job(asked[0], space, name, axes, objectives=("latency_s",)).space  # noqa: E731
    indices, evaluations = first_schedules([str(text) for text in first], job, _whole(asked[0], space, job.space))
    return run_search(
        job,
        trials,
        sampler,
        seed,
        gpu=choices or None,
        make_gpu=make_gpu,
        first=indices,
        objectives=(objectives,) if isinstance(objectives, str) else tuple(objectives),
        quantities=known,
        limits=limits,
        inner=inner,
        problems=[one.problem for one in asked] if inner or len(asked) > 1 else (),
        progress=progress,
        spent=evaluations,
        now=partial(unchanged, job, asked[0].gpu, list(choices), inner, smaller) if choices else None,
        **own,
    )


def _quantity(
    name: str,
    of: OfFile,
    moved_by: Sequence[str],
    file_of: Callable[[Mapping[str, float]], GpuFile],
    choices: Mapping[str, Any],
) -> GpuQuantity:
    return GpuQuantity(name, lambda numbers: of(file_of(numbers)), tuple(moved_by))


def _check_ends(axes: Sequence[GpuAxis], file_of: Callable[[Mapping[str, float]], GpuFile]) -> None:
    """GPUs at the ends of all ranges can be made: else a search would stop at the first of them, in its midst."""
    names = [axis.name for axis in axes]
    for corner in islice(product(*(ends(axis) for axis in axes)), CORNERS):
        try:
            file_of(dict(zip(names, corner, strict=True)))
        except UserError as error:
            said = "; ".join(line.strip() for line in str(error).splitlines()[1:]) or str(error)
            at = ", ".join(f"{name} = {value:g}" for name, value in zip(names, corner, strict=True))
            raise UserError(f"the ranges of --gpu-axis hold a GPU that cannot be, {at}: {said}") from None


def _check_not_set(choices: Mapping[str, Any], overrides: Mapping[str, Any]) -> None:
    """A field that is both set and varied would be one or the other, unseen."""
    for written in overrides:
        meant = [name for name in (*FIELDS, CLOCK) if name == written or name.startswith(f"{written}_")]
        both = next((name for name in meant if name in choices), None)
        if both is not None:
            raise UserError(
                f"GPU field {both} is both set (--set {written}) and searched (--gpu-axis): do one of the two"
            )


def _whole(asked: Question, space: Any, restricted: Space) -> Space:
    if isinstance(space, Space):
        return space
    return load_space(str(space or asked.problem.kernel), asked.family, asked.problem.dtype, None, restrictions(None))
