"""Fused GEMMs beside the same work in kernels of its own: predicted, and published where there is a number.

Chains: the best spilled order beside the best fused one, on machines for which CUTLASS's own comparison is published.
Epilogues: the best fused GEMM beside the best GEMM and the best memory-bound kernel after it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..best_schedule import best_schedules
from ..content.files import find_content
from ..content.gpu import load_gpu
from ..content.space import load_space
from ..content.toml import read_toml
from ..fitting import fitting
from ..question import ask
from ..tuning import tune

EPILOGUE_SHAPES = ("8192x8192x1024", "8192x8192x8192", "64x8192x8192")
EPILOGUES: tuple[tuple[str, dict[str, Any], str, dict[str, Any]], ...] = (  # name, fused, the kernel apart, its choices
    ("gelu", {"activation": "gelu"}, "elementwise", {"inputs": 1, "flop_per_element": 12, "sfu_per_element": 1}),
    ("residual", {"add_residual": True}, "elementwise", {"inputs": 2, "flop_per_element": 2}),
    ("fp8 blocks", {"quantise_out": "block"}, "quantise", {"scope": "group", "group_size": 128}),
)


@dataclass(frozen=True)
class Fused:
    """One piece of work in one kernel and in two.

    Attributes:
        what, gpu, shape: names; the GPU file with its changes.
        apart_s, fused_s: predicted.
        published_apart_s, published_fused_s: None where nothing is published.
        source, note: where it was published, and what stands for what.
    """

    what: str
    gpu: str
    shape: str
    apart_s: float
    fused_s: float
    published_apart_s: float | None = None
    published_fused_s: float | None = None
    source: str = ""
    note: str = ""

    @property
    def speedup(self) -> float:
        """Apart over fused, predicted."""
        return self.apart_s / self.fused_s

    @property
    def published_speedup(self) -> float | None:
        """The same, published."""
        if self.published_apart_s is None or self.published_fused_s is None:
            return None
        return self.published_apart_s / self.published_fused_s


def published_chains() -> list[Fused]:
    """Every packaged comparison of a chain in one kernel and in two.

    Raises:
        UserError: a GPU or space that the file names is not there.
    """
    content = read_toml(find_content("table", "studies/measured", "gemm_chain"))
    return [_chain(entry) for entry in content["published"]]


def epilogues(gpu: str, shapes: tuple[str, ...] = EPILOGUE_SHAPES) -> list[Fused]:
    """Epilogues fused and apart, bf16, over the presets `library` of the GEMMs and `triton` of the kernel after it.

    Args:
        gpu: name or path of a GPU file.
        shapes: of the GEMM.

    Raises:
        UserError: an unknown GPU or an unreadable shape.
    """
    return [_epilogue(gpu, shape, *entry) for shape in shapes for entry in EPILOGUES]


def _chain(entry: Mapping[str, Any]) -> Fused:
    gpu = load_gpu(entry["gpu"], entry.get("changes"))
    family, dtype, shape = entry["family"], entry["dtype"], entry["shape"]
    question = ask(shape, dtype, gpu, kernel="gemm_chain", family=family, activation=entry["activation"])
    times = [
        float(best_schedules([question.problem], _orders(family, dtype, orders), gpu).latency_s[0])
        for orders in (["spilled"], ["recomputed", "kept"])
    ]
    changes = ", ".join(f"{name} {value:g}" for name, value in entry.get("changes", {}).items())
    return Fused(
        what=entry["what"],
        gpu=f"{entry['gpu']} ({changes})" if changes else entry["gpu"],
        shape=shape,
        apart_s=times[0],
        fused_s=times[1],
        published_apart_s=entry["apart_s"],
        published_fused_s=entry["fused_s"],
        source=entry["source"],
        note=entry["note"],
    )


def _orders(family: str, dtype: str, orders: list[str]) -> Any:
    names = {"spilled": 0, "recomputed": 1, "kept": 2}
    return load_space("gemm_chain", family, dtype, axes={"order": [names[order] for order in orders], "swizzle": 1})


def _epilogue(gpu: str, shape: str, name: str, choices: dict[str, Any], kernel: str, after: dict[str, Any]) -> Fused:
    fused_s = _best("gemm_epilogue", gpu, shape, "library", **choices)
    apart_s = _best("gemm", gpu, shape, "library")
    m, n, _ = shape.split("x")
    apart_s += _best(kernel, gpu, f"{m}x{n}", "triton", **after)
    return Fused(name, gpu, shape, apart_s, fused_s)


def _best(kernel: str, gpu: str, shape: str, preset: str, **choices: Any) -> float:
    question = ask(shape, "bf16", gpu, kernel=kernel, **choices)
    space = load_space(kernel, question.family, "bf16", preset=preset)
    row = (question.problem, question.bound)
    return float(tune(fitting(space, [row[0]], [row[1]]), [row]).latency_s[0])
