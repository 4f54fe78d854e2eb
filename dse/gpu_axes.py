"""Numbers of a GPU that a search chooses: as users give them -> what the search takes, and the GPU made of a choice."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

from .binding import bind
from .content.gpu import GpuFile, load_gpu
from .content.gpu_fields import FIELDS
from .content.hardware_axis import full_name
from .content.overrides import CLOCK, factor_of, split_overrides
from .errors import UserError
from .question import Question

WHOLE_CHOICES = 1024


def gpu_choices(axes: Mapping[str, Any], gpu: GpuFile) -> dict[str, Any]:
    """Ranges and lists by the full names of fields, factors as numbers in the field's unit.

    A short range of a whole number becomes the list of its values, so that what is recorded is what was used.

    Args:
        axes: name, as in `load_gpu`'s overrides -> (low, high), (low, high, "log") or a list; an entry is a number in
            the field's unit, or a factor of the GPU's own value, "2x" or "+10%".
        gpu: the GPU that factors refer to, with its overrides.

    Raises:
        UserError: an unknown field, a factor of a field that has no number of its own or is 0, a text that is no
            factor, a field twice.
    """
    choices: dict[str, Any] = {}
    for written, wanted in axes.items():
        name = written if written.startswith("tensor.") else full_name(written)
        if name in choices:
            raise UserError(f"GPU field {name} is given twice: give it once")
        choices[name] = _values_of_whole(name, _in_units(name, wanted, gpu))
    return choices


def gpu_maker(asked: Question, gpu: str, overrides: Mapping[str, Any]) -> Callable[[Mapping[str, float]], Any]:
    """A function that makes the model's GPU record of chosen numbers, what belongs to them brought along."""

    file_of = gpu_file_maker(gpu, overrides)

    def made(numbers: Mapping[str, float]) -> Any:
        record = bind(file_of(numbers), asked.problem, asked.accumulator, asked.family, asked.clock)
        absent = [name for name in numbers if getattr(record, name, 0.0) is None]
        return replace(record, **dict.fromkeys(absent, 0.0))  # records of a batch are stacked: all have the number

    return made


def gpu_file_maker(gpu: str, overrides: Mapping[str, Any]) -> Callable[[Mapping[str, float]], GpuFile]:
    """A function that makes the GPU's file of chosen numbers, what belongs to them brought along."""
    _, own = split_overrides(overrides)

    def made(numbers: Mapping[str, float]) -> GpuFile:
        whole = {
            name: round(value) if name in FIELDS and FIELDS[name].whole else value for name, value in numbers.items()
        }
        return load_gpu(gpu, {**own, **whole})

    return made


def _in_units(name: str, wanted: Any, gpu: GpuFile) -> Any:
    if not isinstance(wanted, (list, tuple)):
        return wanted
    scale = wanted[2:] if isinstance(wanted, tuple) else ()
    entries = wanted[:2] if isinstance(wanted, tuple) else wanted
    numbers = [_number(name, entry, gpu) if isinstance(entry, str) else entry for entry in entries]
    return (*numbers, *scale) if isinstance(wanted, tuple) else numbers


def _number(name: str, text: str, gpu: GpuFile) -> float:
    factor = factor_of(text)
    if factor is None:
        form = "write a number in the field's unit, a factor (2x) or +10%"
        raise UserError(f"GPU field {name}: {text!r} is no value: {form}")
    field = "boost_hz" if name == CLOCK else name
    if field not in FIELDS or FIELDS[field].listed or not gpu[field]:
        now = "has no number of its own" if field not in FIELDS or FIELDS[field].listed else f"is 0 on {gpu.name}"
        raise UserError(f"GPU field {name} {now}, so {text} of it is nothing: write values in the field's unit")
    return gpu[field] * factor


def _values_of_whole(name: str, wanted: Any) -> Any:
    if not (name in FIELDS and FIELDS[name].whole and isinstance(wanted, (list, tuple))):
        return wanted
    if isinstance(wanted, list):
        return [float(round(value)) if isinstance(value, float) and isfinite(value) else value for value in wanted]
    edges: list[Any] = list(wanted[:2])
    if wanted[2:] in ((), ("log",)) and len(edges) == 2 and all(isinstance(edge, int | float) for edge in edges):
        low, high = edges
        if 0 <= high - low <= WHOLE_CHOICES:
            return [float(value) for value in range(round(low), round(high) + 1)]
    return wanted
