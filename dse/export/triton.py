"""Schedules as a Python module with lists of `triton.Config`, one list a kind of kernel."""

from collections.abc import Sequence
from typing import Any

from ..triton_config import TritonConfig, TritonGpu, config_of
from .choose import choose
from .entry import Entry, Exported
from .text import comment, exported, headline

LISTS = {  # name of the list -> the keyword argument that only its kernel takes
    "configs": "",
    "configs_persistent": "NUM_SMS",
    "configs_split_k": "SPLIT_K",
}


def export_triton(
    entries: Sequence[Entry],
    problem: Any,
    family: str,
    gpu: TritonGpu,
    gpu_name: str,
    *,
    what_if: Sequence[str] = (),
    **choice: Any,
) -> Exported:
    """A module that a user imports and passes to `triton.autotune`.

    Data-parallel, persistent (NUM_SMS) and split-K (SPLIT_K) kernels take different keyword arguments, so each kind has
    its own list: `configs`, `configs_persistent`, `configs_split_k`. Every config reads back, through `dse rank`, to
    the schedule it was made of; whatever Triton cannot express is left out and counted.

    Args:
        entries: schedules, best first.
        problem: the user's problem.
        family: the schedules' instruction family.
        gpu: families and SMs of the GPU.
        gpu_name: for the head of the file.
        what_if: lines for the head of the file, what was changed of the GPU.
        choice: count, fallback, group of `dse.export.choose.choose`.
    """

    def express(entry: Entry) -> TritonConfig | str:
        return config_of(entry.schedule, family, problem, gpu)

    chosen = choose(entries, express, **choice)
    head = comment(
        [
            *headline(problem, family, gpu_name, what_if),
            "Grids: configs one program a tile, configs_persistent NUM_SMS programs, configs_split_k SPLIT_K a tile.",
        ],
        chosen,
    )
    lines = [*head, "", "import triton", ""]
    members = {name: [at for at in chosen.made if _list_of(at[1]) == mark] for name, mark in LISTS.items()}
    for name, own in members.items():
        lines += [f"{name} = [", *(line for entry, config in own for line in _config(entry, config)), "]"]
    return exported(lines, chosen, _where(members))


def _where(members: dict[str, list[Any]]) -> str:
    filled = [name for name, own in members.items() if own]
    if not filled or members["configs"]:
        return ""
    return (
        f"configs is empty, all are in {' and '.join(filled)}, for kernels of that kind; for one program a tile sweep "
        "with --axis launch=data_parallel:staged"
    )


def _list_of(config: TritonConfig) -> str:
    return next((mark for mark in LISTS.values() if mark and mark in config.kwargs), "")


def _config(entry: Entry, config: TritonConfig) -> list[str]:
    kwargs = ", ".join(f'"{name}": {value}' for name, value in config.kwargs.items())
    launch = f"num_warps={config.num_warps}, num_stages={config.num_stages}, num_ctas={config.num_ctas}"
    return [f"    # {entry.remark}", f"    triton.Config({{{kwargs}}}, {launch}),"]
