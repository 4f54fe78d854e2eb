"""Whole-model steps: what a layout of a model over GPUs achieves, and where its time and memory go.

  dse serve --model llama3_70b --tp 8 --batch 1,16,64                     a row a combination of what is listed
  dse serve --model llama3_70b --gpu h100_sxm --gpus 8 --dtype fp8        no degrees: the best plain layout is chosen
  dse serve --model deepseek_v3 --tp 1 --dp 8 --ep 8 --exchange all_to_all --batch 512 --phase decode
  dse serve --model llama3_70b --tp 4 --batch 64 --chunk 2048 --ttft-max 0.5 --tpot-max 0.02
  dse serve --model llama3_70b --tp 8 --batch 64 --set fabric.link=2x     what if: links twice as fast

TTFT: time to the first token; TPOT: time a token. Kernels are the engine's, each tuned for its sizes; docs/serving.md
says what is modelled. All layouts of a model: dse sweep sharding --model NAME --gpus N.
"""

import argparse

from .options import add_output, progress_of
from .serving_options import DEGREES, add_service, service_words
from .serving_progress import one_progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add_service(parser)
    group = parser.add_argument_group(
        "the layout: one value or several; without degrees the best layout of the preset plain is chosen"
    )
    for name, (metavar, text) in DEGREES.items():
        group.add_argument(f"--{name.replace('_', '-')}", metavar=metavar, help=text)
    group = parser.add_argument_group("the answer")
    group.add_argument("--row", metavar="N", help="whose time is shown (default: most tokens/s a GPU); none: no one's")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the table and where the time goes; exit code 1 where no layout can run."""
    from ..serving.api import serve
    from .serve_text import as_dict, result_text, shown_row
    from .show import print_json

    degrees = {name: getattr(arguments, name) for name in DEGREES}
    asked = service_words(arguments)
    if arguments.row is not None:
        _check_row(arguments.row)
    with one_progress(progress_of(arguments, silent=arguments.json)) as progress:
        result = serve(gpus=arguments.gpus, progress=progress, **asked, **degrees)
    row = shown_row(result, arguments.row)
    if arguments.json:
        print_json(as_dict(result, row))
    else:
        print(result_text(result, row))
    return int(not len(result.runs))


def _check_row(text: str) -> None:
    from ..errors import UserError

    if text != "none" and not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise UserError(f"--row {text!r} is not allowed: a row of the table (0, 1, ...), or none")
