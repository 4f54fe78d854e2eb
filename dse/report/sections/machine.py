"""The machine: every number that the model used, with its unit, its kind and where it comes from."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...content.datum import Datum
from ...content.dtypes import instruction_dtype
from ...content.gpu import GpuFile
from ...content.gpu_fields import FIELDS, TENSOR, Field
from ...errors import UserError
from ..blocks import Block, Bullets, Folded, Paragraph, Section, Table, number, words
from ..facts import RunFacts
from ..quantities import NO_BREAK, SHORT_UNITS, counted, si

HEADLINE = (
    "sm_count", "clock_hz", "tensor_flop_per_clock_sm", "tensor_efficiency", "l2_capacity_bytes", "l2_bytes_per_s",
    "ddr_bytes_per_s", "smem_per_cta_max_bytes", "smem_bytes_per_clock_sm", "l2_latency_s", "ddr_latency_s",
    "launch_overhead_s", "tdp_w",
)  # fmt: skip
UNKNOWN, CHANGED = "unknown", "changed"


@dataclass(frozen=True)
class MachineNumber:
    """One number that the run used.

    Attributes:
        name, unit, meaning: of the field.
        text: the value as a reader reads it.
        value: the number; of a list the first.
        kind, source: as the GPU file states them; "changed" where the run's number is another, "unknown" without a
            file.
    """

    name: str
    unit: str
    meaning: str
    text: str
    value: float
    kind: str
    source: str


def machine_section(facts: RunFacts) -> Section:
    """The numbers that matter most, and behind a line all of them."""
    found = list(machine_numbers(facts))
    kinds: dict[str, int] = {}
    for at in found:
        kinds[at.kind] = kinds.get(at.kind, 0) + 1
    said = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items(), key=lambda at: (-at[1], at[0])))
    job = facts.job
    bound = f"bound to {job.problem.dtype} with {job.space.family}, clock {job.clock}"
    intro = f"{facts.gpu_title} ({job.gpu_name}), {bound}. Of {len(found)} numbers: {said}."
    blocks: list[Block] = [Paragraph(intro)]
    if facts.gpu_file is None:
        blocks.append(
            Paragraph(
                "There is no GPU file of this name here, so kinds and sources are not known; the values are those that "
                "the run used."
            )
        )
    if facts.job.gpu_changes:
        blocks.append(Bullets("Changed for this run", tuple(facts.job.gpu_changes)))
    headline = [at for name in HEADLINE for at in found if at.name == name]
    blocks.append(_table("The numbers that matter most", headline))
    blocks.append(Folded(f"All {counted(len(found), 'number')} that the model used", (_table("Every number", found),)))
    return Section("machine", "The machine", tuple(blocks))


def machine_numbers(facts: RunFacts) -> Iterator[MachineNumber]:
    """Every number of the run's record, in the order of the record. A kind and a source are the GPU file's where the
    run's number equals what the file gives today for this type, family and clock; else they are said to be unknown."""
    record, file = facts.job.gpu, facts.gpu_file
    today = _bound_today(facts)
    for name in type(record).__dataclass_fields__:
        value = getattr(record, name)
        if name == "mma" or value is None:
            continue
        field = _field(name)
        datum = _datum(name, facts, file) if file else None
        same = today is not None and np.array_equal(np.asarray(getattr(today, name)), np.asarray(value))
        kind, source = _origin(name, datum, same, facts)
        numbers = [float(entry) for entry in np.atleast_1d(np.asarray(value, np.float64))]
        yield MachineNumber(name, field.unit, field.meaning, _text(numbers, field), numbers[0], kind, source)


def _origin(name: str, datum: Datum | None, same: bool, facts: RunFacts) -> tuple[str, str]:
    changed = next((line for line in facts.job.gpu_changes if _is_of(name, line)), "")
    if changed:
        return CHANGED, changed
    if datum is None:
        return UNKNOWN, "no GPU file of this name here" if facts.gpu_file is None else "not in the GPU file"
    if not same:
        return CHANGED, f"the GPU file of this name holds {datum.value} today"
    return datum.kind, f"{datum.source}; {datum.note}" if datum.note else datum.source


def _is_of(name: str, change: str) -> bool:
    """A line of changes starts with the field that it is about."""
    about = change.split(":", 1)[0].split(" ", 1)[0]
    derived = {"clock_hz": ("boost_hz", "sustained_hz"), "cluster_sms": ("gpc_sms",)}
    return (
        about == name
        or about in derived.get(name, ())
        or (name.startswith("tensor_flop") and about.startswith("tensor."))
    )


def _bound_today(facts: RunFacts) -> Any:
    if facts.gpu_file is None:
        return None
    job = facts.job
    try:
        return facts.gpu_file.bind(job.problem.dtype, facts.run.accumulator, job.space.family, clock=job.clock)
    except UserError:
        return None


def _field(name: str) -> Field:
    if name == "clock_hz":
        return Field(name, "clock", "hertz", "clock that the model computes with")
    if name == "tensor_flop_per_clock_sm":
        return Field(name, "tensor", TENSOR.unit, "tensor rate for this type, accumulator and family")
    if name == "cluster_sms":
        return Field(name, "clusters", "SMs", "usable by clusters of 1, 2, 4, 8 and 16 CTAs", listed=True)
    return FIELDS[name]


def _datum(name: str, facts: RunFacts, file: GpuFile) -> Datum | None:
    job = facts.job
    if name == "tensor_flop_per_clock_sm":
        pair = f"{instruction_dtype(job.problem.dtype)}_{facts.run.accumulator}"
        return file.tensor.get(job.space.family, {}).get(pair)
    key = {"clock_hz": f"{job.clock}_hz", "cluster_sms": "gpc_sms"}.get(name, name)
    return file.by_dtype.get(job.problem.dtype, {}).get(key) or file.values.get(key)


def _text(numbers: list[float], field: Field) -> str:
    if field.listed:
        return ", ".join(f"{entry:g}" for entry in numbers)
    unit = SHORT_UNITS.get(field.unit, "")
    binary = f" ({numbers[0] / 2**20:,.4g}{NO_BREAK}MiB)" if field.unit == "bytes" and numbers[0] >= 2**20 else ""
    return si(numbers[0], unit) + binary if unit else f"{numbers[0]:,.6g}"


def _table(caption: str, numbers: list[MachineNumber]) -> Table:
    rows = tuple(
        (
            words(at.name),
            number(at.value, at.text),
            words("" if at.unit in SHORT_UNITS else at.unit),
            words(at.kind),
            words(at.meaning),
            words(at.source),
        )
        for at in numbers
    )
    return Table(caption, ("number", "value", "unit", "kind", "meaning", "source"), rows, frozenset({1}))
