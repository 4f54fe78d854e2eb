"""A GPU's numbers drawn from their uncertainty: the machines that the measurements behind a file leave possible."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...content.gpu import GpuFile
from ...content.gpu_fields import FIELDS
from ...content.uncertainty import relative_uncertainty
from ...errors import UserError, unknown
from ...job import as_float32

CLOCK, TENSOR_RATE = "clock_hz", "tensor_flop_per_clock_sm"


def uncertainties(
    gpu: GpuFile,
    record: Any,
    dtype: str,
    family: str,
    accumulator: str,
    clock: str = "boost",
    given: Mapping[str, float] | None = None,
    fixed: tuple[str, ...] = (),
) -> dict[str, float]:
    """The relative standard deviation of every number of the model's record that is drawn.

    Left out are counts, capacities and limits, numbers that are 0 or that the record lacks, numbers that a what-if has
    set, and what has no uncertainty.

    Args:
        gpu: the file: each number's kind and, where it says so, its uncertainty.
        record: the model's record of it.
        dtype, family, accumulator, clock: what the record is bound to.
        given: the user's own, by name of the record's field; replaces what the file says.
        fixed: names of fields that a what-if has set.

    Raises:
        UserError: an unknown name in `given`, one that is not drawn, or a number outside of 0 to 1.
    """
    data = {**gpu.values, **gpu.by_dtype.get(dtype, {})}
    found = {name: relative_uncertainty(name, datum) for name, datum in data.items() if hasattr(record, name)}
    found[CLOCK] = relative_uncertainty(f"{clock}_hz", data[f"{clock}_hz"])
    rate = gpu.tensor.get(family, {}).get(f"{_instruction(dtype)}_{accumulator}")
    found[TENSOR_RATE] = relative_uncertainty("tensor", rate) if rate else 0.0
    for name in fixed:
        found[CLOCK if name == f"{clock}_hz" else TENSOR_RATE if name.startswith("tensor.") else name] = 0.0
    drawable = [name for name in found if name not in FIELDS or not (FIELDS[name].whole or FIELDS[name].listed)]
    for name, value in (given or {}).items():
        if name not in drawable:
            raise unknown("uncertain number", name, drawable, "counts, capacities and limits are known exactly")
        if not 0.0 <= value <= 1.0:
            raise UserError(f"uncertainty of {name} = {value:g} is not allowed: a relative deviation from 0 to 1")
        found[name] = value
    return {name: value for name, value in found.items() if value and np.any(getattr(record, name))}


def draw_gpus(record: Any, uncertain: Mapping[str, float], draws: int, seed: int = 0) -> list[Any]:
    """Records with each uncertain number times a log-normal factor of median 1, drawn independently.

    A number stays in the range its field allows, and memory never answers before L2. A number's factors depend on the
    seed and its name only, so that another's uncertainty does not change them.

    Args:
        record: the model's record of the GPU.
        uncertain: field -> relative standard deviation (`uncertainties`).
        draws: how many records.
        seed: equal seeds give equal records.

    Raises:
        UserError: a seed below 0.
    """
    if seed < 0:
        raise UserError(f"seed = {seed} is not allowed: 0 or more")
    columns = {
        name: _in_range(name, float(getattr(record, name)) * _factors(name, deviation, draws, seed))
        for name, deviation in uncertain.items()
    }
    records = []
    for at in range(draws):
        drawn = replace(record, **{name: np.float32(values[at]) for name, values in columns.items()})
        least = max(float(drawn.l2_latency_s), float(drawn.ddr_latency_s))
        records.append(as_float32(replace(drawn, ddr_latency_s=np.float32(least))))
    return records


def _factors(name: str, deviation: float, draws: int, seed: int) -> np.ndarray:
    of_name = np.random.SeedSequence([seed, *name.encode()])
    return np.exp(np.sqrt(np.log1p(deviation**2)) * np.random.default_rng(of_name).standard_normal(draws))


def _in_range(name: str, values: np.ndarray) -> np.ndarray:
    return np.minimum(values, FIELDS[name].high) if name in FIELDS else values


def _instruction(dtype: str) -> str:
    from ...content.dtypes import instruction_dtype

    return instruction_dtype(dtype)
