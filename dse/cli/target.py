"""The model inverted: how much better must one number of the GPU be for a kernel to be 10 % faster?

  dse target --faster 10% --gpu h200_sxm --shape 8192x8192x8192 --preset library
  dse target --latency 30us --gpu h200_sxm --shape 16x8192x8192
  dse target --faster 20% --shapes llama3_70b_prefill --preset library --fields l2_bytes_per_s,ddr_bytes_per_s

Every number that the model uses is improved by itself (rates and capacities upwards, latencies, losses and energies
downwards) and schedules are tuned anew over the whole space: the smallest change that reaches the latency, or what the
largest one buys. 10 % faster is a speed-up of 1.1x. Of a list the weighted sum counts. mm2 and watts are assumed.
"""

import argparse
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from .options import add_output, add_question, add_schedules, progress_of, refinements, shape_word

if TYPE_CHECKING:
    from ..studies.target.target import Change, Target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    group = parser.add_argument_group("the target")
    aim = group.add_mutually_exclusive_group(required=True)
    aim.add_argument("--faster", metavar="SPEEDUP", help="10%% (today's latency over 1.1) or 2x")
    aim.add_argument("--latency", metavar="TIME", help="50us, 1.2ms; of a list its weighted sum")
    group.add_argument(
        "--fields", action="append", metavar="FIELD[,FIELD]",
        help="improve these only, those of one option together by one factor; may be given several times",
    )  # fmt: skip
    group.add_argument("--limit", default="16x", metavar="FACTOR", help="the largest factor (default: 16x)")
    group.add_argument("--resolution", default="0.5%", metavar="PERCENT", help="steps of the factor (default: 0.5%%)")
    add_question(parser, shape_needed=False, named=True)
    parser.add_argument("--shapes", metavar="NAME|FILE", help="a shape list by name or path: m,n,k[,count][,name]")
    add_schedules(parser)
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Answers and prints."""
    from ..restrict import parse_axes
    from ..studies.target.target import target
    from .interrupt import stoppable
    from .show import print_json

    if bool(arguments.shape) == bool(arguments.shapes):
        form = shape_word(arguments.kernel)
        raise UserError(f"give the problem as --shape {form}, or many as --shapes NAME or FILE.csv")
    question: dict[str, Any] = refinements(arguments)
    groups = [[name.strip() for name in text.split(",")] for text in arguments.fields] if arguments.fields else None
    with stoppable():
        found = target(
            arguments.shape,
            shapes=arguments.shapes,
            faster=arguments.faster,
            latency=arguments.latency,
            gpu=arguments.gpu,
            dtype=arguments.dtype,
            fields=groups,
            limit=_limit(arguments.limit),
            resolution=_resolution(arguments.resolution),
            space=arguments.space,
            preset=arguments.preset,
            axes=parse_axes(arguments.axis),
            progress=progress_of(arguments),
            **question,
        )
    if arguments.json:
        print_json(found.to_dict())
    else:
        print(answer_text(found))
    return 0 if any(change.reached for change in found.changes) else 1


def _limit(text: str) -> float:
    from ..content.overrides import factor_of

    factor = factor_of(text)
    if factor is None:
        raise UserError(f"--limit {text}: write a factor above 1, e.g. 16x")
    return factor


def _resolution(text: str) -> float:
    try:
        return float(text.removesuffix("%")) / 100
    except ValueError:
        raise UserError(f"--resolution {text}: write per cent, e.g. 0.5%") from None


def answer_text(found: "Target") -> str:
    """The target, what reaches it, what does not."""
    from ..kernels.registry import get_kernel
    from ..text import seconds_text

    question, speedup = found.question, found.now_s / found.target_s
    problem = question.problem
    what = found.shapes[0] if len(found.shapes) == 1 else f"{len(found.shapes)} shapes, weighted"
    lines = [
        f"{get_kernel(problem.kernel).title} {what}, {problem.dtype}, on {question.gpu.title} ({question.gpu.name})",
        *question.what_if,
    ]
    lines.append(
        f"from {seconds_text(found.now_s)} to {seconds_text(found.target_s)} ({speedup:.3f}x), binds now: "
        f"{found.changes[0].binds_now}"
    )
    for name, (declared, fit) in found.spaces.items():
        lines.append(f"space {name}: {declared:,} schedules, {fit:,} fit, tuned anew for every machine")
    reached = [change for change in found.changes if change.reached]
    short = [change for change in found.changes if not change.reached and change.has_effect]
    none = [change.name for change in found.changes if not change.has_effect]
    lines += ["", *_table("the smallest change of one number that reaches it", reached, "nothing reaches it alone")]
    if short:
        lines += ["", *_table("not reachable: what is bought at most", short, "")]
    if none:
        lines += ["", f"no effect: {', '.join(none)}"]
    return "\n".join([*lines, "", *_notes(found, reached, short)])


def _notes(found: "Target", reached: "list[Change]", short: "list[Change]") -> list[str]:
    lines = [f"factors in steps of {100 * found.resolution:g} %, up to {found.limit:g}x or the field's own bound"]
    if any(not change.every_value for change in (*reached, *short)):
        lines.append(
            "* more of it may be slower: looked through at some values, a smaller or better one may be between"
        )
    lines.append("mm2 and W are assumed, first order (docs/area-and-power.md): changes against today's")
    seconds = f"{found.evaluations:,} schedules evaluated in {found.seconds:.0f} s"
    return [*lines, seconds]


def _table(title: str, changes: "list[Change]", nothing: str) -> list[str]:
    from ..text import table

    if not changes:
        return [nothing]
    return [title, table([_row(change) for change in changes], left=("field", "change", "binds then"))]


def _row(change: "Change") -> dict[str, str]:
    mark = "" if change.every_value else " *"
    moves = [f"{_quantity(field, change.now)} -> {_quantity(field, change.then)}" for field in change.fields]
    return {
        "field": change.name,
        "factor": f"{_direction(change)}{change.factor:.4g}{mark}",
        "change": ", ".join(moves),
        "speed-up": f"{change.speedup:.4f}x",
        "mm2": _difference(change.area_mm2, change.area_now_mm2),
        "W": _difference(change.power_w, change.power_now_w),
        "binds then": change.binds,
    }


def _direction(change: "Change") -> str:
    grows = [change.then[field] >= change.now[field] for field in change.fields]
    return "x " if all(grows) else "/ " if not any(grows) else "x or / "


def _quantity(field: str, values: Any) -> str:
    from ..content.gpu_fields import FIELDS
    from ..text import quantity_text

    unit = FIELDS[field].unit if field in FIELDS else ""
    return quantity_text(float(values[field]), unit).strip()


def _difference(then: float | None, now: float | None) -> str:
    return "" if then is None or now is None else f"{then - now:+.0f}"
