"""Predicted latencies of libraries' prefill kernels beside measured ones, implementation by implementation."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..content.gpu import GpuFile, load_gpu
from ..content.implementation import load_implementation
from ..errors import unknown
from .attention_predict import Prefill
from .attention_rows import COMBINATION, IMPLEMENTATIONS, load_measured_attention
from .latency_errors import Errors, errors

if TYPE_CHECKING:
    import pandas as pd

BUCKETS_US = {"< 30": (0.0, 30.0), "30-300": (30.0, 300.0), "> 300": (300.0, np.inf)}
FAMILIES = {"a100_sxm": "mma_sync", "h100_sxm": "wgmma", "h200_sxm": "wgmma", "b200_sxm": "tcgen05"}


@dataclass(frozen=True)
class AttentionValidation:
    """One implementation on one GPU.

    Attributes:
        gpu: of the table.
        gpu_file: name of the GPU file that the model was given.
        implementation: whose numbers and presets.
        errors: of all judged rows, with intervals that resample (heads, KV heads, head dim).
        by_latency: the same in the buckets of measured latency, where there are rows.
        by_head_dim: the same by head dim.
        rows: the table's rows with `model_us` and the winning schedule's `splits`.
    """

    gpu: str
    gpu_file: str
    implementation: str
    errors: Errors
    by_latency: Mapping[str, Errors]
    by_head_dim: Mapping[int, Errors]
    rows: "pd.DataFrame"

    def to_dict(self) -> dict[str, Any]:
        """Numbers only, for JSON: no rows."""
        return {
            "gpu": self.gpu,
            "gpu_file": self.gpu_file,
            "implementation": self.implementation,
            "errors": self.errors.to_dict(),
            "by_latency": {name: found.to_dict() for name, found in self.by_latency.items()},
            "by_head_dim": {str(dim): found.to_dict() for dim, found in self.by_head_dim.items()},
        }


def validate_attention(
    gpus: Mapping[str, str | GpuFile] | Sequence[str] | None = None,
    table: str | os.PathLike[str] | None = None,
    part: str = "report",
    implementations: Sequence[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[AttentionValidation]:
    """Compares the best predicted latency over each implementation's presets with measured prefill latencies.

    Args:
        gpus: names in the table, or name -> the GPU file that stands for it; None: all.
        table, part: see `load_measured_attention`.
        implementations: only these; None: all.
        progress: called with a line of text before each.

    Raises:
        UserError: a GPU or an implementation that is not in the table, or what reading it raises.
    """
    rows = load_measured_attention(table, part)
    for name in gpus or ():
        if name not in IMPLEMENTATIONS:
            raise unknown("GPU in the measured table", name, list(IMPLEMENTATIONS))
    known = sorted({one for names in IMPLEMENTATIONS.values() for one in names})
    for name in implementations or ():
        if name not in known:
            raise unknown("implementation in the measured table", name, known)
    files = dict(gpus) if isinstance(gpus, Mapping) else {name: name for name in gpus or IMPLEMENTATIONS}
    results = []
    for name, file in files.items():
        for implementation in IMPLEMENTATIONS[name]:
            own = rows[(rows["system"] == name) & (rows["implementation"] == implementation)]
            if own.empty or implementation not in (implementations or [implementation]):
                continue
            if progress is not None:
                progress(f"{name} {implementation}: {len(own)} shapes")
            gpu = file if isinstance(file, GpuFile) else load_gpu(file)
            results.append(_validated(name, gpu, implementation, own))
    return results


def all_rows(results: Sequence[AttentionValidation]) -> "pd.DataFrame":
    """The judged rows of all results in one table."""
    import pandas as pd

    return pd.concat([result.rows for result in results], ignore_index=True)


def errors_of(rows: "pd.DataFrame") -> Errors:
    """Errors of rows that have `model_us`."""
    groups = rows[COMBINATION].astype(str).agg("/".join, axis=1)
    return errors(rows["model_us"].to_numpy(), rows["latency_us"].to_numpy(), groups.to_numpy())


def bucket_errors(rows: "pd.DataFrame") -> dict[str, Errors]:
    """Errors in each bucket of measured latency that has rows."""
    found = {}
    for name, (low, high) in BUCKETS_US.items():
        inside = rows[(rows["latency_us"] >= low) & (rows["latency_us"] < high)]
        if len(inside):
            found[name] = errors_of(inside)
    return found


def _validated(name: str, gpu: GpuFile, implementation: str, rows: "pd.DataFrame") -> AttentionValidation:
    numbers = load_implementation("attention", implementation, (gpu.name, *gpu.bases))
    parts = []
    for dim, own in rows.groupby("head_dim"):
        best = Prefill(gpu, FAMILIES[name], implementation, int(str(dim)), own)
        parts.append(own.assign(model_us=1e6 * best.latency_s(numbers), splits=best.splits(numbers)))
    import pandas as pd

    rows = pd.concat(parts).sort_index()
    return AttentionValidation(
        gpu=name,
        gpu_file=gpu.name,
        implementation=implementation,
        errors=errors_of(rows),
        by_latency=bucket_errors(rows),
        by_head_dim={int(str(dim)): errors_of(own) for dim, own in rows.groupby("head_dim")},
        rows=rows.reset_index(drop=True),
    )
