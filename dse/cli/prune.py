"""Which of your own configs to benchmark, and what performance they are expected to keep.

  dse prune my_configs.py --shape 4096x4096x4096 --gpu h200_sxm --keep 5% -o fewer.py
  dse prune my_configs.json --shapes llama.csv --gpu h200_sxm --keep 20 -o fewer.json

CONFIGS is what `dse rank` reads: Python with Triton or TileLang configs (it is run), JSON, CSV, a script of profiler
calls. Of each shape the predicted best are kept, equal ones in the order of the file; several shapes keep one list
together. Configs that cannot run are dropped, with the reason. FILE is written in the format of CONFIGS, or as .json.

`expected to keep` is the best measured performance of the kept over that of all that can run, if schedules err as
measured schedules of one shape do: docs/prune.md.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..content.files import home_expanded
from ..errors import UserError
from .options import add_question, question, shape_word

if TYPE_CHECKING:
    from ..studies.benchmark.prune import Pruned

SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("configs", metavar="CONFIGS", help="my_configs.py (it is run), .json, .csv or .sh")
    parser.add_argument(
        "--keep", default="5%", metavar="N", help="5%% of the configs (default), or a number of them; of each shape"
    )
    parser.add_argument("--shapes", metavar="FILE", help="a CSV file with the columns m, n, k: one list for all shapes")
    parser.add_argument("-o", "--output", metavar="FILE", help="where the kept configs go: CONFIGS' format, or .json")
    add_question(parser, shape_needed=False, named=True)
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Prunes; exit code 1 where a shape has no config that can run."""
    from ..api import shape_rows
    from ..candidate_files import read_entries
    from ..studies.benchmark.prune import prune
    from .show import print_json

    if (arguments.shape is None) == (arguments.shapes is None):
        form = shape_word(arguments.kernel)
        raise UserError(f"configs are pruned for shapes: give either --shape {form} or --shapes FILE.csv")
    rows = shape_rows(arguments.shapes, arguments.kernel) if arguments.shapes else []
    asked = [question(arguments, row.shape, row.dtype, row.choices) for row in rows] or [question(arguments)]
    names = [row.name for row in rows] or [asked[0].problem.shape]
    if arguments.configs.endswith(".py"):
        print(f"dse: running {arguments.configs} to read its configs", file=sys.stderr)
    if arguments.output and _same_file(arguments.output, arguments.configs):
        raise UserError(
            f"-o {arguments.output} is the file of all configs: choose another, what is left out would be lost"
        )
    entries = read_entries(arguments.configs)
    if not entries:
        raise UserError(f"{arguments.configs} holds no config: a list of at least one is needed")
    gpu, clock = asked[0].gpu, asked[0].clock
    problems = [(name, one.problem) for name, one in zip(names, asked, strict=True)]
    pruned = prune(entries, problems, gpu, arguments.keep, arguments.family, arguments.accumulator, clock)
    if arguments.output:
        _write(arguments, entries, pruned)
    if arguments.json:
        what_if = {"gpu": gpu.name, "gpu_changes": list(gpu.changes), "clock": clock}
        print_json(what_if | _answer(pruned, arguments.keep, arguments.output))
    else:
        count = f"{len(entries)} config{'' if len(entries) == 1 else 's'}"
        head = f"{count} of {arguments.configs} on {gpu.title} ({gpu.name}), keep {arguments.keep}"
        print("\n".join([head, *asked[0].what_if, "", _text(pruned, arguments.kernel)]))
        if arguments.output:
            print(f"written to {arguments.output}")
    return 0 if all(shape.runnable for shape in pruned.shapes) else 1


def _write(arguments: argparse.Namespace, entries: Any, pruned: "Pruned") -> None:
    from ..studies.benchmark.subset_file import subset_text

    path = home_expanded(arguments.output)
    remark = f"the {len(pruned.kept)} of {len(entries)} configs of {Path(arguments.configs).name} that dse prune keeps"
    text = subset_text(arguments.configs, entries, pruned.kept, path.suffix, remark)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; choose another with -o") from None


def _same_file(one: str, other: str) -> bool:
    try:
        return home_expanded(one).samefile(home_expanded(other))
    except OSError:
        return False


def _answer(pruned: "Pruned", keep: str, output: str | None) -> dict[str, Any]:
    shapes = [
        {
            "name": shape.name,
            "shape": shape.shape,
            "runnable": shape.runnable,
            "kept": list(shape.kept),
            "tied_left_out": shape.tied,
            "expected_retained": shape.retained.expected if shape.retained else None,
            "retained_in_9_of_10": shape.retained.low if shape.retained else None,
            "error_scale": shape.retained.scale if shape.retained else None,
        }
        for shape in pruned.shapes
    ]
    return {
        "configs": len(pruned.names),
        "keep": keep,
        "kept": list(pruned.kept),
        "cannot_run": pruned.cannot_run,
        "shapes": shapes,
        "file": output,
    }


def _text(pruned: "Pruned", kernel: str) -> str:
    from ..schedule_words import words_of
    from .show import table

    rows, words = [_row(shape) for shape in pruned.shapes], words_of(kernel)
    lines = [table(rows, left=("shape",)), "", f"kept {len(pruned.kept)} of {len(pruned.names)}:"]
    best = {entry.name: entry for shape in reversed(pruned.shapes) for entry in shape.ranked}
    lines += [f"  {name}  {words.short(best[name].schedule)}" for name in pruned.kept[:SHOWN]]
    lines += [f"  ... and {len(pruned.kept) - SHOWN} more"] if len(pruned.kept) > SHOWN else []
    tied = sum(shape.tied for shape in pruned.shapes)
    if tied:
        lines.append(f"{tied} more are predicted as fast as the last that is kept: a larger --keep takes them too")
    if pruned.cannot_run:
        lines += ["", f"{len(pruned.cannot_run)} of {len(pruned.names)} cannot run:", *_reasons(pruned.cannot_run)]
    if not any(shape.retained for shape in pruned.shapes):
        return "\n".join(lines)
    lines += [
        "",
        "expected to keep: best measured performance of the kept over that of all that can run; errors are drawn as",
        "measured schedules of one shape show them, noise of measuring included (docs/prune.md)",
    ]
    return "\n".join(lines)


def _reasons(cannot_run: dict[str, str]) -> list[str]:
    """A line a kind of reason, with how many and the first of them."""
    kinds: dict[str, list[str]] = {}
    for name, why in cannot_run.items():
        kinds.setdefault(why.partition(":")[0], []).append(name)
    return [
        f"  {len(names)} {kind}, e.g. {names[0]}:{cannot_run[names[0]].partition(':')[2]}"
        for kind, names in kinds.items()
    ]


def _row(shape: Any) -> dict[str, str]:
    fitting = [entry for entry in shape.ranked if entry.feasible][: len(shape.kept)]
    retained = shape.retained
    slowest = f"{fitting[-1].latency_s / fitting[0].latency_s:.2f}" if fitting else ""
    return {
        "shape": shape.name,
        "can run": str(shape.runnable),
        "kept": str(len(shape.kept)),
        "best us": f"{fitting[0].latency_s * 1e6:.2f}" if fitting else "",
        "last kept x best": slowest,
        "expected to keep": f"{retained.expected:.2%}" if retained else "not known" if fitting else "none can run",
        "9 of 10 times at least": f"{retained.low:.1%}" if retained else "",
    }
