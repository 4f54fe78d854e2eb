"""Schedules as a script of calls of CUTLASS's profiler and as filters of its kernel names."""

from collections.abc import Sequence
from typing import Any

from ..cutlass_call import ARCHITECTURES, STAGES_TAG, TYPES, CutlassCall, call_of, out_layout
from ..cutlass_library import instantiation_level
from .choose import choose
from .entry import Entry, Exported
from .text import comment, exported, headline


def export_cutlass(
    entries: Sequence[Entry],
    problem: Any,
    family: str,
    accumulator: str,
    gpu_name: str,
    *,
    what_if: Sequence[str] = (),
    **choice: Any,
) -> Exported:
    """A shell script: one `cutlass_profiler` call a schedule, and above them the filter that builds just these kernels.

    Args:
        entries: schedules, best first.
        problem: the user's problem.
        family: "wgmma" (sm90), "tcgen05" (sm100) or "mma_sync" (CUTLASS 2 kernels).
        accumulator: accumulator type.
        gpu_name: for the head of the file.
        what_if: lines for the head of the file, what was changed of the GPU.
        choice: count, fallback, group of `dse.export.choose.choose`.
    """

    seen: set[tuple[str, ...]] = set()

    def express(entry: Entry) -> CutlassCall | str:
        call = call_of(entry.schedule, problem, family, accumulator)
        if isinstance(call, str):
            return call
        runs = (call.kernel, *(f"{name}={value}" for name, value in call.arguments.items() if name != "tags"))
        if runs in seen:
            return "a call that is there, but for its stages"
        seen.add(runs)
        return call

    chosen = choose(entries, express, **choice)
    kernels = list(dict.fromkeys(call.kernel for _, call in chosen.made))
    level = instantiation_level([entry.schedule for entry, _ in chosen.made], family)
    remarks = ["The library's kernels for this architecture write D column-major."] if out_layout(family) == "n" else []
    if family != "mma_sync":
        remarks += [
            "The library builds each kernel with one number of stages, the most that fit, and the calls run it; the",
            f"number that was predicted is the column {STAGES_TAG} of the profiler's output.",
        ]
    head = comment(
        [
            *headline(problem, family, gpu_name, what_if),
            "Build the kernels with",
            f"  cmake .. -DCUTLASS_NVCC_ARCHS={ARCHITECTURES[family]} -DCUTLASS_LIBRARY_INSTANTIATION_LEVEL={level} \\",
            f'    -DCUTLASS_LIBRARY_KERNELS="{",".join(kernels)}"',
            *remarks,
        ],
        chosen,
    )
    lines = ["#!/bin/sh", *head, 'profiler="${CUTLASS_PROFILER:-cutlass_profiler}"']
    for entry, call in chosen.made:
        arguments = {**_problem_arguments(problem, family), **call.arguments}
        flags = " ".join(f"--{name}={value}" for name, value in arguments.items())
        lines += [f"# {entry.remark}", f"\"$profiler\" --operation=Gemm --kernels='{call.kernel}' {flags}"]
    return exported(lines, chosen)


def _problem_arguments(problem: Any, family: str) -> dict[str, Any]:
    layouts = {"t": "row", "n": "column"}
    a, b = (layouts[letter] for letter in problem.layout)
    dtype, out = TYPES[problem.dtype], TYPES[problem.out_dtype]
    tensors = {"A": f"{dtype}:{a}", "B": f"{dtype}:{b}"}
    stored = layouts[out_layout(family)]
    if family == "mma_sync":
        tensors["C"] = f"{out}:{stored}"  # CUTLASS 2: C and D are of one type
    else:
        tensors |= {"C": f"{out if problem.beta else 'void'}:{stored}", "D": f"{out}:{stored}"}
    sizes = {"m": problem.m, "n": problem.n, "k": problem.k, "batch_count": problem.batch}
    return sizes | tensors | {"alpha": 1, "beta": int(problem.beta)}
