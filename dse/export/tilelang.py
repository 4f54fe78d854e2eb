"""Schedules as a Python module with a list of dictionaries for `tilelang.autotune`."""

from collections.abc import Sequence
from typing import Any

from ..tilelang_config import TileLangConfig, config_of
from ..triton_config import TritonGpu
from .choose import choose
from .entry import Entry, Exported
from .text import comment, exported, headline


def export_tilelang(
    entries: Sequence[Entry],
    problem: Any,
    family: str,
    gpu: TritonGpu,
    gpu_name: str,
    *,
    what_if: Sequence[str] = (),
    **choice: Any,
) -> Exported:
    """A module that a user imports: `@tilelang.autotune(configs=configs)`.

    All dictionaries have the same keys, the parameters of a data-parallel GEMM kernel (`dse.tilelang_config`). Every
    config reads back, through `dse rank`, to the schedule it was made of; whatever such a kernel cannot express
    (persistent grids, splits, clusters, tcgen05) is left out and counted.

    Args:
        entries: schedules, best first.
        problem: the user's problem.
        family: the schedules' instruction family.
        gpu: families of the GPU.
        gpu_name: for the head of the file.
        what_if: lines for the head of the file, what was changed of the GPU.
        choice: count, fallback, group of `dse.export.choose.choose`.
    """

    def express(entry: Entry) -> TileLangConfig | str:
        return config_of(entry.schedule, family, problem, gpu)

    chosen = choose(entries, express, **choice)
    head = comment(
        [
            *headline(problem, family, gpu_name, what_if),
            "The kernel takes these parameters, has a grid (ceildiv(N, block_N), ceildiv(M, block_M)), and says",
            "  T.use_swizzle(panel_size=panel_size, order=order, enable=enable_rasteration)",
            "  T.gemm(A_shared, B_shared, C_local, policy=policy, ...)",
        ],
        chosen,
    )
    lines = [*head, "", "import tilelang.language as T", "", "configs = ["]
    for entry, config in chosen.made:
        lines += [f"    # {entry.remark}", f"    {python_dict(config)},"]
    return exported([*lines, "]"], chosen)


def python_dict(config: TileLangConfig) -> str:
    """The dictionary in Python; `T` is `tilelang.language`."""
    policy = f"T.GemmWarpPolicy.{config.policy}"
    items = [f'"{name}": {policy if name == "policy" else _quoted(value)}' for name, value in config.items().items()]
    return "{" + ", ".join(items) + "}"


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
