"""What comes after a search over a GPU's numbers: a grid of a few values around the best, as a command."""

import argparse
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..content.gpu_fields import FIELDS
from .options import add_question, add_schedules

if TYPE_CHECKING:
    from ..search import SearchResult

MOST_AXES = 3
LARGE = 1_000_000  # schedules; a grid of more takes its time
FEW = 8  # values of an axis: its own are taken
AROUND = (0.8, 1.0, 1.25)
SHARES = (0.1, 0.5, 0.9)  # of a front, in the order of an axis
PRESET = "quick"
FRONT = ("latency_s", "area_mm2", "power_w", "energy_j", "tdp_w")  # what `dse whatif --front` knows


def next_command(arguments: argparse.Namespace, result: "SearchResult") -> str:
    """`dse whatif ... --grid` with a few values of each axis; "" where there are many axes, or one that it does not
    vary."""
    names = [str(name).removeprefix("gpu.") for name in result.trials if str(name).startswith("gpu.")]
    quantities = {quantity.name for quantity in result.goals.quantities}
    axes = [name for name in names if name not in quantities]
    if not axes or len(axes) > MOST_AXES or not all(name in FIELDS for name in axes) or not len(result.best):
        return ""
    words = ["dse", "whatif", arguments.kernel, *_given(arguments)]
    space = result.job.space
    if not (arguments.preset or arguments.space or arguments.axis) and space.size > LARGE and PRESET in space.presets:
        words += ["--preset", PRESET]
    for name in axes:
        words += ["--vary", f"{name}={','.join(f'{value:.12g}' for value in _values(result, name))}"]
    front = [name for name in result.goals.objectives if name in FRONT]
    return shlex.join([*words, "--grid", *(["--front", ",".join(front)] if len(front) > 1 else [])])


def _values(result: "SearchResult", name: str) -> list[float]:
    """Of several objectives, spread over the front; of one, around the best, within what was tried."""
    tried = result.trials[f"gpu.{name}"]
    if len(result.goals.objectives) > 1:
        ordered = result.front[f"gpu.{name}"].sort_values().tolist()
        values = [ordered[round(share * (len(ordered) - 1))] for share in SHARES]
    else:
        best = float(result.best[f"gpu.{name}"].iloc[0])
        listed = sorted(tried.unique().tolist())
        if len(listed) <= FEW:
            return listed[max(listed.index(best) - 1, 0) : listed.index(best) + 2]
        values = [min(max(best * factor, tried.min()), tried.max()) for factor in AROUND]
    rounded = [float(round(value)) if FIELDS[name].whole else float(f"{value:.4g}") for value in values]
    return sorted(dict.fromkeys(rounded))


def _given(arguments: argparse.Namespace) -> Sequence[str]:
    """The options about the problem, the GPU and the schedules that are not at their defaults."""
    blank = argparse.ArgumentParser(add_help=False)
    add_question(blank, many=True)
    add_schedules(blank)
    words: list[str] = []
    for action in blank._actions:
        value = getattr(arguments, action.dest, action.default)
        if value != action.default:
            for own in value if isinstance(value, list) else [value]:
                words += [action.option_strings[0], str(own)]
    return words
