"""Prefill and decode on GPUs of their own, exported: the layouts of either side, and how many instances of each."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...serving.disaggregated import COLUMNS
from ...studies.layouts.disaggregated_files import SIDES, side_row
from .launch import Launch
from .plain import asked_as_dict, json_text, layout_as_dict, yaml_text
from .run import LAUNCHES, ExportedLayouts, check_words, launched

if TYPE_CHECKING:
    from ...studies.layouts.disaggregated_files import DisaggregatedRun


def export_disaggregated(
    run: "DisaggregatedRun", target: str, what: str = "best", count: int | None = None
) -> ExportedLayouts:
    """The first pairs of layouts that the target can express, both of them.

    Args:
        run: `dse.studies.layouts.disaggregated_files.open_disaggregated(folder)`.
        target: one of `dse.export.layouts.run.TARGETS`.
        what: "best", by tokens a second and GPU; or "front", the fastest for a user first.
        count: how many; None: one for a framework, all for yaml and json.

    Raises:
        UserError: an unknown target or table.
    """
    check_words(target, what)
    front = run.front
    if what == "best":
        front = front.sort_values("tokens_per_s_per_gpu", ascending=False, kind="stable")
    rows: list[Any] = front.to_dict("records")
    if target not in LAUNCHES:
        chosen = [_pair(run, row) for row in rows[:count]]
        content = {**asked_as_dict(run.summary), "units": {name: unit for name, (unit, _) in COLUMNS.items()}}
        write = json_text if target == "json" else yaml_text
        text = write({**content, "pairs": chosen})
        return ExportedLayouts(text, len(chosen), {}, f"{len(chosen)} of {len(rows)} pairs of layouts as {target}")
    said = f"pair(s) of layouts as {target}"
    return launched(run.summary, rows, 1 if count is None else count, lambda row: _put(run, target, row), said)


def _pair(run: "DisaggregatedRun", row: Mapping[Any, Any]) -> dict[str, Any]:
    sides = {}
    for side in SIDES:
        layout = layout_as_dict(run.summary, side_row(run, side, row))
        sides[side] = layout | {"instances": int(row[f"{side}_instances"])}
    return {"predicted": {name: float(row[name]) for name in COLUMNS}, **sides}


def _put(run: "DisaggregatedRun", target: str, row: Mapping[Any, Any]) -> tuple[str, list[str]]:
    """Both sides' command lines, and what of either the framework cannot express."""
    launches = {side: Launch(_of_phase(run.summary, side), side_row(run, side, row)) for side in SIDES}
    texts = {side: LAUNCHES[target](launch) for side, launch in launches.items()}
    said = f"{row['tokens_per_s_per_gpu']:,.1f} tokens/s a GPU, TTFT {row['ttft_s'] * 1e3:.1f} ms (predicted)"
    blocks = [f"# both sides together: {said}"]
    for side in SIDES:
        instances = int(row[f"{side}_instances"])
        blocks.append("\n".join([f"# {side}", *launches[side].head(instances), texts[side]]))
    return "\n\n".join(blocks), [f"{side}: {text}" for side, launch in launches.items() for text in launch.refused]


def _of_phase(facts: Mapping[str, Any], side: str) -> dict[str, Any]:
    return {**facts, "workload": {**facts["workload"], "phase": side}}
