"""The Python face: the questions of the command line as functions that return results and pandas tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .content.gpu import GpuFile
from .content.shapes import ShapeRow, load_shapes
from .errors import UserError
from .explain import explain_asked, explain_row
from .explanation import Explanation
from .job import SweepJob
from .job_of import make_job as make_job
from .job_of import restrictions as restrictions
from .kernels.problem import Problem
from .kernels.registry import get_kernel
from .question import Question, ask
from .rank import rank_candidates, ranked_table
from .restrict import Restrictions
from .result import SweepResult
from .row_layout import with_columns
from .runs import save_question
from .schedule_words import words_of
from .space import Space
from .summary import summary_table
from .sweep import run_sweep

if TYPE_CHECKING:
    import pandas as pd

    from .search import SearchResult

OBJECTIVES = ("latency_s", "ddr_bytes", "smem_bytes")
Shape = str | Sequence[int] | Problem


def sweep(
    kernel: str | None = None,
    *,
    shape: Shape,
    dtype: str = "bf16",
    gpu: str | GpuFile = "h200_sxm",
    space: str | Path | Space | None = None,
    preset: str | None = None,
    axes: Restrictions | Sequence[str] | None = None,
    objectives: Sequence[str] = OBJECTIVES,
    top: int = 10,
    out: str | Path | None = None,
    keep: str = "best",
    columns: Sequence[str] | None = None,
    prune: bool = False,
    executor: str = "auto",
    workers: int | None = None,
    address: str | None = None,
    overwrite: bool = False,
    mix_devices: bool = False,
    progress: Any = None,
    command_line: str = "",
    **question: Any,
) -> SweepResult:
    """Evaluates a whole schedule space and returns the best schedules and the exact front.

    Args:
        kernel: e.g. "gemm", "attention" (`dse.kernels.registry.kernel_names`); None: that of a problem given as shape,
            else gemm.
        shape: text in the kernel's grammar ("MxNxK" or "BATCHxMxNxK" for gemm), a sequence of the numbers, or a problem
            such as `GemmProblem`.
        dtype: input type.
        gpu: name or path of a GPU file, or a loaded one.
        space: name ("gemm/wgmma") or TOML file of a space, or a space; None: the kernel's for the GPU's family.
        preset: a ready-made sub-space ("triton", "cutlass", "library", "quick").
        axes: what to keep further: {"tile_m": [64, 128]} or texts like "tile_m=64,128".
        objectives: cost fields that the front minimises.
        top: how many of the best.
        out: folder for Parquet files; None: nothing is written.
        keep: "best", or "all" for every row (needs `out`).
        columns: which columns of every row are written (`dse.row_layout.column_names`); None: all.
        prune: skip what cannot be among the best or on the front, found from lower bounds (`dse.bounding`): the same
            answer, sooner; counts and histogram cover what was evaluated.
        executor, workers: "serial", "ray" or "auto", and how many; None: one a core or GPU.
        address: of a Ray cluster, "HOST:PORT" or "auto"; None: RAY_ADDRESS, or a local Ray.
        overwrite: replace the run in `out`; without it the same run is gone on with, and another one refused.
        mix_devices: let processors or GPUs of several kinds contribute; values then agree to 1e-5.
        progress: None: silent; True: shown on standard error; or a function of `dse.progress.Snapshot`.
        command_line: for the result files; how this would be run again.
        question: further arguments of `dse.question.ask`: overrides, family, accumulator, clock, and the kernel's
            choices, for gemm out_dtype, layout, beta, cache, align_bytes.

    Returns:
        The result; `result.top` and `result.front` are pandas tables.

    Raises:
        UserError: whatever of this is wrong, with what is allowed.
    """
    asked = ask(shape, dtype, gpu, kernel=kernel, **question)
    job = make_job(asked, space, preset, axes, objectives=tuple(objectives), top=top, prune=prune)
    return run_job(
        asked,
        with_columns(job, columns, keep),
        executor,
        progress,
        workers=workers,
        address=address,
        out=out,
        keep=keep,
        overwrite=overwrite,
        mix_devices=mix_devices,
        command_line=command_line,
    )


def run_job(
    asked: Question, job: SweepJob, executor: Any, progress: Any, *, out: str | Path | None = None, **options: Any
) -> SweepResult:
    """`dse.sweep.run_sweep`, and beside the tables in `out` what `dse.runs.open_run` needs to open them again."""
    result = run_sweep(job, executor, progress, out=out, **options)
    if result.folder is not None:
        save_question(asked, job, result.folder)
    return result


def sweep_shapes(shapes: str | Path | Sequence[Any], **options: Any) -> "tuple[dict[str, SweepResult], pd.DataFrame]":
    """Sweeps many shapes and sums them up.

    Args:
        shapes: a CSV file (see `dse.content.shapes`), or a sequence of shapes, each a text or its numbers.
        options: of `sweep`, `kernel` included; where `out` is given, every shape gets a folder in it. What a line of
            the file chooses counts before them.

    Returns:
        Name -> result, and one row a shape with its best schedule (`dse.summary.summary_table`). A name that comes
        again gets its place behind it.

    Raises:
        UserError: as `sweep`; for a file with its line and column.
    """
    dtype, out = options.pop("dtype", "bf16"), options.pop("out", None)
    results: dict[str, SweepResult] = {}
    for row in shape_rows(shapes, options.get("kernel")):
        name = row.name if row.name not in results else f"{row.name} ({len(results)})"
        where = Path(out) / folder_name(name) if out is not None else None
        chosen: dict[str, Any] = {**options, **row.choices}
        results[name] = sweep(shape=row.shape, dtype=row.dtype or dtype, out=where, **chosen)
        if results[name].incomplete:
            break
    return results, summary_table(results.items())


def explain(
    schedule: "str | Mapping[str, Any] | SweepResult",
    *,
    rank: int = 0,
    shape: Shape | None = None,
    dtype: str = "bf16",
    gpu: str | GpuFile = "h200_sxm",
    **question: Any,
) -> Explanation:
    """Explains one schedule: its time by pipeline and phase, its traffic, its bottleneck, what to change.

    Args:
        schedule: words ("tile=128x256x64 stages=4 ..."), a mapping of fields, or a sweep's result.
        rank: which of a result's best.
        shape, dtype, gpu, question: as in `sweep`, `kernel` among the last; a result brings its own.

    Raises:
        UserError: an unreadable schedule, a rank past the end, or no shape.
    """
    if isinstance(schedule, SweepResult):
        return explain_row(schedule.job, schedule.top, rank)
    if shape is None:
        raise UserError("a schedule is explained for a shape: give shape='MxNxK'")
    asked = ask(shape, dtype, gpu, **question)
    fields = words_of(asked.problem.kernel).parse(schedule, asked.family)
    return explain_asked(asked, fields)


def rank(
    candidates: str | Path | Sequence[Any],
    *,
    shape: Shape,
    dtype: str = "bf16",
    gpu: str | GpuFile = "h200_sxm",
    family: str | None = None,
    **question: Any,
) -> "pd.DataFrame":
    """Ranks the user's own candidates by predicted latency; those that cannot run come last, with the reason.

    Args:
        candidates: a .py file with lists of `triton.Config` (it is run), a .json or .csv file, or a list of configs,
            mappings and schedule texts. `registers` and `smem_bytes` of a candidate replace the model's estimates.
        shape, dtype, gpu, question: as in `sweep`, `kernel` among the last.
        family: of candidates that are schedules; Triton configs follow Triton's choice.

    Returns:
        One row a candidate: rank, name, family, feasible, slowdown, why, the schedule and its cost.

    Raises:
        UserError: unreadable candidates; the message says where.
    """
    asked = ask(shape, dtype, gpu, family=family, **question)
    ranked = rank_candidates(candidates, asked.problem, asked.gpu, family, asked.accumulator, asked.clock)
    return ranked_table(ranked)


def search(
    kernel: str | None = None,
    *,
    shape: Any,
    trials: int,
    sampler: str = "auto",
    seed: int = 0,
    objectives: Sequence[str] = ("latency_s",),
    **options: Any,
) -> "SearchResult":
    """Samples schedules, and numbers of the GPU with them, where a space is too large to sweep.

    Args:
        kernel: as in `sweep`.
        shape: as in `sweep`; with `inner` a list of shapes too, whose latencies add up.
        trials: how many candidates.
        sampler, seed: a name of `dse.search.samplers.SAMPLERS`, or "auto": one by what is searched; the same
            seed gives the same trials.
        objectives: one is minimised; of several the front is sought.
        options: of `dse.search.asked.search`: dtype, gpu, gpu_axes, space, preset, axes, top, first, limits,
            quantities, inner, batch, storage, study_name, reference, progress, and what refines the question.

    Returns:
        `dse.search.SearchResult`: tables `trials`, `best` and `front`.

    Raises:
        UserError: whatever of this is wrong, with what is allowed.
    """
    from .search.asked import search as ask_and_search

    own = {"shape": shape, "trials": trials, "sampler": sampler, "seed": seed, "objectives": objectives}
    return ask_and_search(kernel, **own, **options)


def shape_rows(shapes: str | Path | Sequence[Any], kernel: str | None = None) -> list[ShapeRow]:
    """Shapes from a CSV file or a sequence, of a kernel; None: gemm."""
    if isinstance(shapes, (str, Path)):
        if kernel in (None, "gemm"):
            return load_shapes(shapes)
        return load_shapes(shapes, [choice.name for choice in get_kernel(str(kernel)).problem.CHOICES])
    texts = [shape if isinstance(shape, str) else "x".join(map(str, shape)) for shape in shapes]
    return [ShapeRow(text, text, None) for text in texts]


def folder_name(text: str) -> str:
    """A text as the name of a folder: what file systems dislike becomes `_`, and none is hidden or `..`."""
    name = "".join(char if char.isalnum() or char in "-_.+" else "_" for char in text)
    return f"_{name}" if name.startswith(".") else name
