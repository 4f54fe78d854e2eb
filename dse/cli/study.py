"""Runs a study: a short TOML file that says machines, shapes and what is varied. Copy one, edit it, run it.

dse study                       the studies that come with tilesweep
dse study bigger_l2             one of them
dse study my_study.toml --out runs/mine
dse study faster_links          whole models: the best layout over 64 GPUs for every machine
dse study h100_to_h200          a change that happened: predicted speed-ups beside measured ones
"""

import argparse
from typing import TYPE_CHECKING, Any

from .study_options import add_answer
from .whatif import answer

if TYPE_CHECKING:
    from ..content.layout_study import LayoutStudy


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "study", nargs="?", metavar="NAME|FILE", help="a study by name or a .toml file (default: the list)"
    )
    parser.add_argument("--gpu", metavar="NAME|FILE", help="another baseline than the study's")
    parser.add_argument("--shapes", metavar="NAME|FILE", help="other shapes than the study's")
    parser.add_argument("--preset", help="another sub-space than the study's")
    add_answer(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the study, or lists the known ones."""
    from ..content.layout_study import LayoutStudy
    from ..content.study import load_study
    from ..errors import UserError

    if arguments.study is None:
        return _list(arguments.json)
    study = load_study(arguments.study)
    if isinstance(study, LayoutStudy):
        return _of_layouts(arguments, study)
    if study.measured is not None:
        from .back_test import answer as compare

        given = [f"--{name}" for name in ("gpu", "shapes", "preset") if getattr(arguments, name)]
        if given:
            raise UserError(f"{given[0]} cannot replace what was measured: edit a copy of the study file")
        return compare(arguments, study)
    changes: dict[str, Any] = {"gpus": (arguments.gpu,)} if arguments.gpu else {}
    changes |= {name: getattr(arguments, name) for name in ("shapes", "preset") if getattr(arguments, name)}
    from dataclasses import replace

    return answer(arguments, replace(study, **changes), study.name)


def _of_layouts(arguments: argparse.Namespace, study: "LayoutStudy") -> int:
    from dataclasses import replace

    from ..errors import UserError
    from .layout_study import answer_layouts

    given = [f"--{name}" for name in ("gpu", "shapes") if getattr(arguments, name)]
    if given:
        raise UserError(f"{given[0]} is of studies of kernels: edit the [[service]] of a copy of the study file")
    return answer_layouts(arguments, replace(study, preset=arguments.preset or study.preset))


def _list(as_json: bool) -> int:
    from ..content.study import list_studies, load_study
    from .show import print_json, table

    studies = [load_study(path) for path in list_studies().values()]
    rows = [{"study": study.name, "question": study.question or study.title} for study in studies]
    if as_json:
        print_json(rows)
    else:
        print(table(rows, left=("study", "question")))
    return 0
