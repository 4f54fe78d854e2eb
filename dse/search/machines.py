"""The GPUs of a search: the model's record and the quantities of chosen numbers, each made once."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..job import as_float32
from .candidates import Candidates
from .goals import PREFIX, GpuQuantity

MakeGpu = Callable[[Mapping[str, float]], Any]
KEPT = 20_000


class Machines:
    """Records and quantities of GPUs.

    Args:
        gpu: the record of the GPU as it is.
        make_gpu: chosen numbers -> the model's record; None: they replace fields of `gpu`.
        quantities: of the GPU, to compute.
    """

    def __init__(self, gpu: Any, make_gpu: MakeGpu | None = None, quantities: Sequence[GpuQuantity] = ()) -> None:
        self.gpu = gpu
        self.quantities = tuple(quantities)
        self._make = make_gpu or (lambda numbers: replaced(gpu, numbers))
        self._records: dict[tuple[float, ...], Any] = {}
        self._known: dict[tuple[float, ...], tuple[float, ...]] = {}

    def record(self, numbers: Mapping[str, float]) -> Any:
        """The model's record, float32."""
        if not numbers:
            return self.gpu
        return _kept(self._records, tuple(numbers.values()), lambda: as_float32(self._make(numbers)))

    def records(self, candidates: Candidates) -> list[Any]:
        """One record a candidate."""
        return [self.record(numbers) for numbers in rows_of(candidates)]

    def quantity_columns(self, candidates: Candidates) -> dict[str, np.ndarray]:
        """`gpu.<name>` -> float64[n] of every quantity."""
        if not self.quantities:
            return {}
        rows = [self.quantities_of(numbers) for numbers in rows_of(candidates)]
        table = np.array(rows, float).reshape(len(candidates), len(self.quantities))
        return {PREFIX + own.name: table[:, place] for place, own in enumerate(self.quantities)}

    def quantities_of(self, numbers: Mapping[str, float]) -> tuple[float, ...]:
        """The quantities of one GPU, in their order."""
        made = lambda: tuple(float(own.of(numbers)) for own in self.quantities)  # noqa: E731
        return _kept(self._known, tuple(numbers.values()), made)


def rows_of(candidates: Candidates) -> list[dict[str, float]]:
    """The GPU's numbers of each candidate, name -> number."""
    return [dict(zip(candidates.gpu, row, strict=True)) for row in candidates.numbers.tolist()]


def stacked(records: Sequence[Any], size: int) -> Any:
    """Records as one with leaves [size, ...], repeated to fill up."""
    import jax

    def stack(*leaves: Any) -> np.ndarray:
        return np.resize(np.stack([np.asarray(leaf, np.float32) for leaf in leaves]), (size, *np.shape(leaves[0])))

    return jax.tree.map(stack, *records)


def replaced(gpu: Any, numbers: Mapping[str, float]) -> Any:
    """A GPU record with some fields replaced; with more or fewer SMs, the SMs that clusters can use scale along."""
    changes: dict[str, Any] = {name: np.float32(value) for name, value in numbers.items()}
    if "sm_count" in changes and hasattr(gpu, "cluster_sms"):
        cluster = 2.0 ** np.arange(np.shape(gpu.cluster_sms)[-1])
        usable = np.asarray(gpu.cluster_sms, float) * float(changes["sm_count"]) / float(gpu.sm_count)
        changes["cluster_sms"] = (np.floor(usable / cluster) * cluster).astype(np.float32)
    return dataclasses.replace(gpu, **changes)


def _kept(known: dict[Any, Any], key: Any, make: Callable[[], Any]) -> Any:
    if key not in known:
        if len(known) >= KEPT:
            known.clear()
        known[key] = make()
    return known[key]
