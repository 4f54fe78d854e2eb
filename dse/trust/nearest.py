"""Which validated GPU a machine is nearest to, and in which numbers it differs from it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from .residuals import ResidualTable, Validated

SAME_SHARE = 0.10  # as far as fitted numbers move from part to part of the data, so no reason to distrust
OTHER_FAMILY = 1.0  # added to a distance: as if every number were a factor e off
HEADLINES = (
    "sm_count",
    "clock_hz",
    "smem_bytes_per_clock_sm",
    "sm_port_bytes_per_clock",
    "l2_capacity_bytes",
    "l2_bytes_per_s",
    "ddr_bytes_per_s",
)
RATES = ("tensor_flop_per_clock_sm", "joule_per_tensor_flop")
OF_QUANTISING = ("quantise_launch_s", "quantise_bytes_per_s")
OF_THE_TYPE = (  # GPU files give some of these by input type
    *RATES,
    "tensor_efficiency",
    "step_overhead_s",
    *OF_QUANTISING,
)
OF_THE_CLOCK = ("clock_hz", "power_time_s")
NOT_COMPARED = ("host_launch_overhead_s", "static_w", "ddr_stream_ratio")  # no latency of a GEMM depends on them


@dataclass(frozen=True)
class Nearest:
    """A validated GPU, and how far it is.

    Attributes:
        gpu: its name.
        validated: it with the data type asked for, or with another where it was not validated with that one.
        same_gpu: whether it is the GPU asked for, by name or because no number differs.
        same_rates: whether the type's tensor rate is the validated type's: fp16 beside bf16, not fp8.
        differences: number -> (asked, validated), for those that differ by more than `SAME_SHARE`. What goes with the
            data type and the instruction family is left out where these are not the validated ones.
    """

    gpu: str
    validated: Validated
    same_gpu: bool
    same_rates: bool
    differences: Mapping[str, tuple[float, float]]


def record_numbers(record: Any) -> dict[str, float]:
    """The numbers of the model's record of a GPU, by name; lists by place; what is switched off counts as 0."""
    found: dict[str, float] = {}
    for entry in fields(record):
        value = getattr(record, entry.name)
        if is_dataclass(value):
            found |= {f"{entry.name}.{name}": number for name, number in record_numbers(value).items()}
        elif value is None:
            found[entry.name] = 0.0
        else:
            numbers = np.asarray(value, float).ravel()
            names = [entry.name] if numbers.size == 1 else [f"{entry.name}.{at}" for at in range(numbers.size)]
            found |= dict(zip(names, map(float, numbers), strict=True))
    return found


def nearest_validated(
    table: ResidualTable,
    numbers: Mapping[str, float],
    dtype: str,
    family: str,
    gpu_name: str = "",
    clock: str = "boost",
    quantise_a: bool = True,
) -> Nearest:
    """The validated GPU that speaks for a machine.

    The rule, in this order: the GPU of the same name; else the one with the least distance, the root of the mean
    squared log ratio of the `HEADLINES`, with a penalty for another instruction family than the one it was validated
    with. A GPU of another name is the same GPU if none of its numbers differs by more than `SAME_SHARE`: a copy of
    the file, or a calibration that came out alike.

    Args:
        table: has at least one validated GPU.
        numbers: of the machine, `record_numbers`.
        dtype, family: asked for.
        gpu_name: of the machine; "" where it has none.
        clock: that it is bound to; of another than boost, what goes with the clock is not compared.
        quantise_a: whether kernels that quantise A run before the GEMM; else what they cost is not compared.
    """
    if gpu_name in table.gpus:
        gpu = gpu_name
    else:
        gpu = min(table.gpus, key=lambda name: _distance(_validated(table, name, dtype), numbers, family))
    validated = _validated(table, gpu, dtype)
    alike = (validated.dtype, validated.family) == (dtype, family)
    differences = {
        name: values
        for name, values in _differences(numbers, validated.numbers).items()
        if (alike or not (name in OF_THE_TYPE or name.startswith("mma.")))
        and (clock == "boost" or name not in OF_THE_CLOCK)
        and (quantise_a or name not in OF_QUANTISING)
    }
    same_rates = all(numbers[name] == validated.numbers[name] for name in RATES)
    return Nearest(gpu, validated, gpu == gpu_name or not differences, same_rates, differences)


def _validated(table: ResidualTable, gpu: str, dtype: str) -> Validated:
    return table.of(gpu, dtype) or next(entry for entry in table.validated if entry.gpu == gpu)


def _distance(validated: Validated, numbers: Mapping[str, float], family: str) -> float:
    ratios = [np.log(numbers[name] / validated.numbers[name]) for name in HEADLINES]
    return float(np.sqrt(np.mean(np.square(ratios)))) + OTHER_FAMILY * (validated.family != family)


def _differences(asked: Mapping[str, float], validated: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """A number that only one side knows was 0 on the other: an effect that was not modelled then, or is not now."""
    pairs = {name: (asked.get(name, 0.0), validated.get(name, 0.0)) for name in dict.fromkeys((*asked, *validated))}
    return {
        name: (own, other)
        for name, (own, other) in pairs.items()
        if name not in NOT_COMPARED and abs(own - other) > SAME_SHARE * max(abs(other), 1e-300)
    }
