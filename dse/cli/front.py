"""The exact non-dominated front of a finished run: no other schedule is better in one objective and no worse in all.

dse front RUN                                 every point, sorted by its objectives in order
dse front RUN --knees --figure front.svg      where every step costs more than it brings
dse front RUN --size 12                       the 12 points that stand for all others best
dse front RUN --draws 256                     which points stay when the GPU's numbers are only as good as their sources
"""

import argparse
import math
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from .options import add_output, positive

if TYPE_CHECKING:
    from ..front_measures import Hypervolume
    from ..read_run import Run

UNITS = {"s": "seconds", "B": "bytes"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("run", metavar="RUN", help="folder of a sweep")
    parser.add_argument("-n", type=positive, metavar="N", help="only the first N (default: all)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--knees", action="store_true", help="only the knees, the most pronounced first")
    which.add_argument("--size", type=positive, metavar="K", help="only the K points that stand for all others best")
    parser.add_argument(
        "--reference", metavar="NUMBERS",
        help="reference point of the hypervolume, SI units, in the order of the objectives: 1e-3,2e8,2e5 "
        "(default: 1.1 times the front's worst)",
    )  # fmt: skip
    parser.add_argument("--figure", metavar="FILE", help=".svg, .png or .pdf: the objectives in pairs, knees named")
    group = parser.add_argument_group("how far the front can be trusted")
    group.add_argument(
        "--draws", type=positive, metavar="N", help="draw the GPU's numbers N times from their uncertainty"
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="of the draws (default: 0)")
    group.add_argument(
        "--uncertainty", action="append", default=[], metavar="FIELD=SHARE",
        help="relative standard deviation of a number of the GPU: l2_bytes_per_s=0.1 or 10%% (default: by its kind)",
    )  # fmt: skip
    group.add_argument("--gpu", metavar="FILE", help="the run's GPU file, where it is not a known one")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the front, its measures, or what is left of it under uncertainty."""
    if arguments.draws:
        from .front_draws import run_draws

        return run_draws(arguments)
    if arguments.uncertainty or arguments.gpu:
        raise UserError("--uncertainty and --gpu say what is drawn: add --draws 256")
    return _run_front(arguments)


def _run_front(arguments: argparse.Namespace) -> int:
    from ..front_measures import hypervolume, is_quick, knees
    from ..read_run import read_run
    from ..representatives import representatives
    from .show import print_json, schedule_rows
    from .top import cannot_run, heading

    opened = read_run(arguments.run)
    summary, front = opened.summary, opened.front
    objectives = list(summary["provenance"]["objectives"])
    values = front[objectives].to_numpy()
    reference = _reference(arguments.reference, objectives)
    asked = len(front) and (reference is not None or is_quick(values))
    volume = hypervolume(values, reference) if asked else None
    bends = knees(values)
    stand = representatives(values, arguments.size) if arguments.size and len(front) else None
    places = _places(arguments, len(front), bends, stand)
    rows = front.iloc[places]
    if arguments.figure:
        _draw(arguments.figure, opened, objectives, bends, stand)
    if arguments.json:
        print_json(_content(summary, objectives, volume, bends, stand, rows))
        return 0
    print(heading(summary))
    print(f"front over {', '.join(objectives)}: {summary['front_points']:,} points")
    if volume is not None:
        print(volume_line(volume, objectives))
    elif len(front):
        print("hypervolume: minutes for so many points and objectives; give a --reference to have it all the same")
    others = [name for name in objectives if name not in ("latency_s", "ddr_bytes")]
    if not len(front):
        print(cannot_run(summary))
    elif arguments.knees and not bends:
        print("no knee: the front is too short, or every step along it costs as much as it brings")
    else:
        print(schedule_rows(rows, others, opened.trust, summary["provenance"]["kernel"]))
    if arguments.knees and bends:
        depths = ", ".join(f"{knee.distance:.2f}" for knee in bends[: arguments.n])
        print(f"knees lie {depths} below the plane through the ends (log scale, the front spans 1 in each objective)")
    if stand is not None:
        print(stand.sentence())
    if summary["front_ties_dropped"]:
        print(f"{summary['front_ties_dropped']:,} more equal one of these in all objectives")
    if arguments.figure:
        print(f"figure written to {arguments.figure}")
    return 0


def volume_line(volume: "Hypervolume", objectives: list[str]) -> str:
    """`hypervolume 0.857 of the box from the front's best to the reference latency_s 955.7 us, ... (1.1 times ...)`."""
    at = ", ".join(_quantity(name, value) for name, value in zip(objectives, volume.reference, strict=True))
    beyond = f"; {volume.beyond} points lie beyond it" if volume.beyond else ""
    return (
        f"hypervolume {volume.share:.4g} of the box from the best of each objective to the reference {at} "
        f"({volume.rule}{beyond})"
    )


def _quantity(name: str, value: float) -> str:
    from ..objectives import OBJECTIVES
    from ..text import quantity_text

    unit = OBJECTIVES[name][0] if name in OBJECTIVES else "1"
    return f"{name} {quantity_text(value, UNITS.get(unit, '' if unit == '1' else unit))}".rstrip()


def _places(arguments: argparse.Namespace, count: int, bends: Any, stand: Any) -> list[int]:
    if arguments.knees:
        places = [knee.place for knee in bends]
    else:
        places = list(stand.places) if stand is not None else list(range(count))
    return places[: arguments.n]


def _reference(text: str | None, objectives: list[str]) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != len(objectives) or not all(map(math.isfinite, numbers)):
        raise UserError(
            f"--reference {text}: write a finite number an objective, {len(objectives)} in the order "
            f"{', '.join(objectives)}, SI units, separated by commas"
        )
    return numbers


def _draw(path: str, opened: "Run", objectives: list[str], bends: Any, stand: Any) -> None:
    from ..studies.fronts.figure import draw_front
    from .top import heading

    title = heading(opened.summary).splitlines()[0]
    chosen = stand.places if stand is not None else ()
    draw_front(opened.front, objectives, [knee.place for knee in bends], path, title, chosen)


def _content(summary: dict, objectives: list[str], volume: Any, bends: Any, stand: Any, rows: Any) -> dict[str, Any]:
    made = summary["provenance"]
    content = {
        "objectives": objectives,
        "gpu_changes": made.get("gpu_changes", []),
        "clock": made.get("clock", "boost"),
    }
    content |= {"trust": made.get("trust"), "points": summary["front_points"]}
    content |= {"hypervolume": volume.to_dict() if volume is not None else None}
    content |= {"knees": [{"place": knee.place, "distance": knee.distance} for knee in bends]}
    if stand is not None:
        content |= {"representatives": {**vars(stand), "exact": stand.exact, "sentence": stand.sentence()}}
    return content | {"front": rows}
