"""`dse sweep sharding --disaggregated`: prefill and decode on GPUs of their own."""

import argparse
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from .options import progress_of, say_of
from .serving_options import axes_of
from .serving_progress import one_progress

if TYPE_CHECKING:
    from ..serving.disaggregated import Disaggregated
    from ..serving.serve import Service


def run_disaggregated(arguments: argparse.Namespace, service: "Service", axes: Mapping[str, Any]) -> int:
    """Sweeps either side, joins them, prints; exit code 1 where nothing serves within the limits."""
    from ..content.space import load_space
    from ..serving.api import SPACE, layout_space
    from ..serving.disaggregated import sweep_disaggregated
    from ..studies.answer_folder import cleared, new_folder, without_litter
    from ..studies.layouts.disaggregated_files import FILES, write_disaggregated
    from .interrupt import stoppable
    from .serve_text import head_lines
    from .show import print_json

    if arguments.objectives:
        raise UserError("--objectives is not for --disaggregated: its front is tokens/s a GPU against tokens/s a user")
    of_prefill = axes_of(arguments.prefill_axis, "--prefill-axis")
    for option, given in (("--axis", axes), ("--prefill-axis", of_prefill)):
        if "chunk" in given:
            raise UserError(
                f"{option} chunk is not for --disaggregated: chunks are prompts beside decoded tokens, and either has "
                "GPUs of its own; leave it out"
            )
    space, preset = arguments.space or SPACE, arguments.preset
    batches = load_space(SPACE, preset="prefill").axis("batch").column("batch")
    both = {name: values for name, values in axes.items() if name != "batch"}  # of sequences that are decoded
    prefill = layout_space(space, preset or "prefill", {"batch": list(batches), **both, **of_prefill, "chunk": [0]})
    decode = layout_space(space, preset or "decode", {**axes, "chunk": [0]})
    folder = new_folder(arguments.out, arguments.overwrite, FILES) if arguments.out else None
    sizes = f"{prefill.size:,} layouts that prefill, {decode.size:,} that decode"
    say_of(arguments)("\n".join([*head_lines(service), sizes]))
    with without_litter([folder] if folder else []), stoppable():
        with one_progress(progress_of(arguments)) as progress:
            found = sweep_disaggregated(service, prefill, decode, progress=progress)
        if folder:
            cleared(folder, FILES)
            write_disaggregated(found, service, folder, shlex.join(["dse", *arguments.words]))
    if arguments.json:
        print_json(_as_dict(found, service, folder))
    else:
        print(_text(found, service, folder))
    return int(not len(found.front))


def _text(found: "Disaggregated", service: "Service", folder: Path | None) -> str:
    from .serve_text import head_lines
    from .sharding_text import SHOWN, counted, reason_lines, thinned, written_lines

    lines = head_lines(service)
    for name, side in (("prefill", found.prefill), ("decode", found.decode)):
        lines += ["", *reason_lines(f"of {name}", side.layouts, side.reasons)]
    if not len(found.front):
        return "\n".join([*lines, "", "no pair of layouts keeps the limits: loosen --ttft-max or --tpot-max"])
    shown = found.front.iloc[thinned(len(found.front), SHOWN)]
    lines += [
        "",
        f"front: {len(found.front):,} ways to share the {service.gpus} GPUs",
        _table(shown.to_dict("records")),
    ]
    if len(shown) < len(found.front):
        lines.append(f"{len(shown)} of {len(found.front)}; all with --out or --json")
    lines += ["", f"prefill: {counted(found.prefill)}", f"decode: {counted(found.decode)}"]
    if folder:
        lines += written_lines(folder, ("front", "prefill", "decode"))
    return "\n".join(lines)


def _table(rows: list[dict[Any, Any]]) -> str:
    from ..text import table

    cells = [
        {
            "prefill": f"{row['prefill_instances']} x {_layout(row, 'prefill')}",
            "decode": f"{row['decode_instances']} x {_layout(row, 'decode')}",
            "GPUs": str(row["gpus_used"]),
            "TTFT ms": f"{row['ttft_s'] * 1e3:.1f}",
            "cache ms": f"{row['transfer_s'] * 1e3:.2f}",
            "TPOT ms": f"{row['tpot_s'] * 1e3:.2f}",
            "tokens/s": f"{row['tokens_per_s']:,.0f}",
            "per GPU": f"{row['tokens_per_s_per_gpu']:,.1f}",
            "per user": f"{row['tokens_per_s_per_user']:.1f}",
        }
        for row in rows
    ]
    return table(cells, left=("prefill", "decode"))


def _layout(row: Mapping[Any, Any], side: str) -> str:
    from ..serving.layout_words import layout_text
    from ..serving.layouts import FIELDS

    return layout_text({name: row[f"{side}_{name}"] for name in FIELDS})


def _as_dict(found: "Disaggregated", service: "Service", folder: Path | None) -> dict[str, Any]:
    from ..serving.disaggregated import COLUMNS
    from ..studies.layouts.disaggregated_files import side_facts
    from .serve_text import service_dict

    rows = [
        {"prefill_layout": _layout(row, "prefill"), "decode_layout": _layout(row, "decode"), **row}
        for row in found.front.to_dict("records")
    ]
    return {
        **service_dict(service),
        "front": rows,
        "sides": {"prefill": side_facts(found.prefill), "decode": side_facts(found.decode)},
        "seconds": found.seconds,
        "columns": {name: {"unit": unit, "meaning": meaning} for name, (unit, meaning) in COLUMNS.items()},
        "folder": None if folder is None else str(folder),
    }
