"""What `dse serve` says, as text and as JSON."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..content.dtypes import DTYPE_BYTES
from ..serving.asked import service_changes, service_title, workload_text
from ..serving.breakdown import KINDS, TITLES, Phase, phases_as_dicts
from ..serving.layout_words import layout_text
from ..serving.layouts import FIELDS
from ..serving.outcomes import COLUMNS
from ..text import byte_text, seconds_text, table, what_if_lines

if TYPE_CHECKING:
    from ..serving.api import ServeResult
    from ..serving.serve import Service

MOST_ROWS = 8  # that are named for one reason
SHORT = {"launches": "waiting for launches", "hidden": "hidden", "send": "between stages", "host": "host"}


TRUST = "trust: no interval; published rates were 14 % off in the mean, mostly slower (docs/serving-validation.md)"


def shown_row(result: "ServeResult", asked: str | None) -> int | None:
    """The row whose time is shown: the one asked for, else the one of the most tokens a second and GPU; None: none."""
    if asked == "none" or (asked is None and not len(result.runs)):
        return None
    if asked is not None:
        return int(asked)
    return int(result.table["tokens_per_s_per_gpu"].where(result.table["reason"] == "runs", -1.0).to_numpy().argmax())


def result_text(result: "ServeResult", row: int | None) -> str:
    """The question, the table, why rows cannot run, and where the time of one goes."""
    lines = [*head_lines(result.service), ""]
    if result.chosen is not None:
        lines += [*_chosen_lines(result), ""]
    rows = result.table.to_dict("records")
    lines.append(outcome_table(rows, numbered=len(rows) > 1, phase=result.service.workload.phase))
    why = _why_lines(rows)
    lines += ["", *why] if why else []
    if row is not None:
        phases = result.phases(row)
        lines += ["", f"where the time goes: {layout_text(rows[row])}"]
        for phase in phases:
            lines += ["", *phase_lines(phase)]
        lines += ["", memory_line(rows[row], result.usable_bytes)]
    return "\n".join(lines)


def head_lines(service: "Service") -> list[str]:
    """Model and machine, workload, another type than published, how near such answers were, what was changed."""
    lines = [service_title(service), workload_text(service.workload)]
    published = service.model.weights
    if published in DTYPE_BYTES and published != service.types.dtype:
        lines.append(f"{service.types.dtype} weights, where {published} is published (--dtype {published})")
    lines.append(TRUST)
    lines += [] if service.graphs else ["without graphs: the host launches every kernel of a decode step"]
    return lines + what_if_lines(service_changes(service), service.clock)


def outcome_table(rows: list[dict[Any, Any]], numbered: bool = True, phase: str = "serve") -> str:
    """A row a layout: what it achieves, and whether it runs."""
    return table([_cells(place, row, numbered, phase) for place, row in enumerate(rows)], left=("layout", "memory"))


def memory_line(row: Mapping[Any, Any], usable_bytes: float) -> str:
    """`memory of the fullest GPU   weights 17.6 GB, ...`."""
    return (
        f"memory of the fullest GPU: weights {byte_text(row['weights_bytes'])}, KV cache "
        f"{byte_text(row['kv_cache_bytes'])}, activations {byte_text(row['activation_bytes'])}, of "
        f"{byte_text(usable_bytes)} usable"
    )


def phase_lines(phase: Phase) -> list[str]:
    """One kind of step: its sum by kind, and a row a part."""
    shares = ", ".join(
        f"{SHORT.get(kind, KINDS[kind])} {100 * seconds / phase.seconds:.1f} %"
        for kind, seconds in phase.by_kind().items()
    )
    rows = [
        {
            "part": part.name or SHORT.get(part.kind, ""),
            "what": part.what or part.kind,
            "runs": f"{part.runs:g}" if part.runs else "",
            "ms": f"{part.seconds * 1e3:.3f}",
            "share": f"{100 * part.seconds / phase.seconds:.1f} %",
            "sizes: schedule, or bytes": _detail(part.detail),
        }
        for part in phase.parts
    ]
    stages = ", one micro-batch through all stages" if any(part.kind == "send" for part in phase.parts) else ""
    head = f"{TITLES[phase.name]}{stages}: {seconds_text(phase.seconds)} ({shares}), {phase.kernels:g} launches"
    return [head, table(rows, left=("part", "what", "sizes: schedule, or bytes"))]


def as_dict(result: "ServeResult", row: int | None) -> dict[str, Any]:
    """Everything as plain values, for JSON."""
    service = result.service
    rows = [{"layout": layout_text(found), **found} for found in result.table.to_dict("records")]
    chosen = result.chosen
    return {
        **service_dict(service),
        "usable_bytes": result.usable_bytes,
        "chosen_from": None if chosen is None else {"layouts": chosen.layouts, "reasons": dict(chosen.reasons)},
        "rows": rows,
        "shown_row": row,
        "phases": [] if row is None else phases_as_dicts(result.phases(row)),
        "columns": {name: {"unit": unit, "meaning": meaning} for name, (unit, meaning) in COLUMNS.items()},
    }


def service_dict(service: "Service") -> dict[str, Any]:
    """What was asked, as plain values."""
    return {
        "model": service.model.name,
        "gpu": service.gpu.name,
        "gpus": service.gpus,
        "fabric": service.fabric.name,
        "engine": service.engine.name,
        "types": vars(service.types),
        "workload": vars(service.workload),
        "graphs": service.graphs,
        "clock": service.clock,
        "gpus_per_node": service.node,
        "changes": list(service_changes(service)),
        "fields": list(FIELDS),
    }


def _why_lines(rows: list[dict[Any, Any]]) -> list[str]:
    """Why rows cannot run, each reason said once."""
    of_why: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        if row["why"]:
            of_why.setdefault(row["why"], []).append(place)
    if len(rows) == 1:
        return [f"{layout_text(rows[0])}: {why}" for why in of_why]
    lines = []
    for why, places in of_why.items():
        label = f"row {places[0]}, {layout_text(rows[places[0]])}" if len(places) == 1 else f"rows {_some(places)}"
        lines.append(f"{label}: {why}")
    return lines


def _some(places: list[int]) -> str:
    return ", ".join(map(str, places[:MOST_ROWS])) + (", ..." if len(places) > MOST_ROWS else "")


def _chosen_lines(result: "ServeResult") -> list[str]:
    chosen = result.chosen
    assert chosen is not None
    runs = chosen.reasons.get("runs", 0)
    return [
        f"no degrees are given: of the {chosen.layouts:,} layouts of the preset plain {runs:,} can run; this one has "
        "the most tokens/s a GPU"
    ]


def _cells(place: int, row: dict[Any, Any], numbered: bool, phase: str) -> dict[str, str]:
    runs = row.get("reason", "runs") == "runs"
    cells = {"row": str(place)} if numbered else {}
    cells |= {"layout": layout_text(row), "GPUs": f"{row['gpus']:.0f}"}
    if phase != "decode":
        cells["TTFT ms"] = f"{row['ttft_s'] * 1e3:.1f}" if runs else ""
    if phase != "prefill":
        cells["TPOT ms"] = f"{row['tpot_s'] * 1e3:.2f}" if runs else ""
    cells["tokens/s"] = f"{row['tokens_per_s']:,.0f}" if runs else ""
    cells["per GPU"] = f"{row['tokens_per_s_per_gpu']:,.1f}" if runs else ""
    if phase != "prefill":
        cells["per user"] = f"{row['tokens_per_s_per_user']:.1f}" if runs else ""
    total = row["weights_bytes"] + row["kv_cache_bytes"] + row["activation_bytes"]
    cells["memory"] = byte_text(total) if total == total else ""
    if "reason" in row:
        cells["runs"] = "yes" if runs else row["reason"]
    return cells


def _detail(text: str) -> str:
    if text.startswith("bytes="):
        return byte_text(float(text.removeprefix("bytes=")))
    return text
