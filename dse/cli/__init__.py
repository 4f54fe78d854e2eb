"""The command `dse`. One file a command; a command's file is imported only when it is called."""

import argparse
import os
import re
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from .streams import make_usable

COMMANDS = {  # name -> what it does; the module of the same name has `add_arguments(parser)` and `run(arguments)`
    "sweep": "evaluate a whole schedule space: the best schedules and the exact front",
    "explain": "one schedule: where its time goes, what binds, what to change",
    "rank": "your own candidates (Triton, TileLang, CUTLASS, JSON, CSV), ranked, and why some cannot run",
    "prune": "which of your own configs to benchmark, and what performance they keep",
    "status": "how far a run is, the best so far, and how to go on",
    "top": "the best schedules of a finished run",
    "front": "the front of a finished run",
    "report": "a finished run as one HTML page with figures, offline and for print",
    "compare": "two schedules, or one on two machines: the difference in time, term by term",
    "sensitivity": "what a latency owes to each number of its GPU, and when something else binds",
    "shortlist": "how many schedules to benchmark, and which, for a 95 % chance of one near the best",
    "export": "a run's schedules for Triton, TileLang, CUTLASS's profiler, JSON or CSV",
    "batch": "many problems or a model's steps on many GPUs in one run: the best of each",
    "query": "SQL over the results of a batch or of sweeps",
    "search": "sample a space that is too large to sweep, GPU numbers included",
    "portfolio": "the few kernels a library should ship for a list of shapes, and which runs what",
    "whatif": "other hardware: schedules tuned anew for every machine, and what that buys",
    "study": "a what-if, or a change that happened, from a short TOML file",
    "target": "how much better one number of the GPU must be for a kernel to be 10 % faster",
    "validate": "predictions beside measured latencies, and beside a fitted roofline",
    "calibrate": "fit a GPU's free numbers to latencies that you measured",
    "gpus": "the GPUs that are known",
    "serve": "a whole model served by GPUs: what a layout achieves, where time and memory go",
    "collective": "what a collective costs over sizes, numbers of GPUs and fabrics",
    "fabrics": "the fabrics that are known: what joins GPUs",
    "models": "the models that are known: published dimensions",
    "spaces": "the schedule spaces that are known: axes, sizes, presets",
}
EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


class Parser(argparse.ArgumentParser):
    """Errors in one line, like all others of the command.

    Attributes:
        words: what it will parse; help speaks of the kernel that is named there.
    """

    words: Sequence[str] = ()

    def error(self, message: str) -> NoReturn:
        print(f"dse: {message}; see {self.prog} --help", file=sys.stderr)
        raise SystemExit(EXIT_USER_ERROR)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `dse` with these arguments (by default those of the process).

    Returns:
        0; 1 where the answer is no (a schedule that cannot run); 2 for bad input; 130 after Ctrl-C; 141 where nobody
        reads the output any more.
    """
    make_usable()
    code = _exit_code(list(sys.argv[1:] if argv is None else argv), own_process=argv is None)
    if argv is None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is said and written: a late Ctrl-C shall not garble it
    if argv is None and code == EXIT_INTERRUPTED:
        # CPython turns the code into death by signal where the interrupt met a string being executed, and threads that
        # compile would hold up a regular exit
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _exit_code(words: list[str], own_process: bool) -> int:
    try:
        if own_process:
            from .interrupt import guard

            guard()
        code = _run(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        print("dse: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 0
    except OSError as error:  # standard output on a full disk, a folder that vanished
        print(f"dse: {error}", file=sys.stderr)
        return EXIT_USER_ERROR
    except ValueError as error:
        from ..errors import UserError

        if not isinstance(error, UserError):
            raise
        print(f"dse: {error}", file=sys.stderr)
        return EXIT_USER_ERROR


def _run(words: list[str]) -> int:
    if not words or words[0] not in COMMANDS:
        return _top_level(words)
    name = words[0]
    command = import_module(f".{name}", __name__)
    parser = Parser(
        prog=f"dse {name}", description=command.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.words = words[1:]
    command.add_arguments(parser)
    mixed = getattr(command, "OPTIONS_ANYWHERE", False)  # between the places of one command's words too
    read = parser.parse_intermixed_args if mixed else parser.parse_args
    arguments = read(_glued(words[1:], parser))
    arguments.words = words
    return command.run(arguments) or 0


def _glued(words: list[str], parser: Parser) -> list[str]:
    """`--shape -8x8x8` as `--shape=-8x8x8`: argparse would take the value for an option and say that it is missing. And
    `--beta` as `--beta=true` unless true or false follows: argparse would take the next argument for its value."""
    from ..kernels.choice import NO, YES

    optional = {name for name, action in parser._option_string_actions.items() if action.nargs == "?"}
    glued: list[str] = []
    for place, word in enumerate(words):
        follows = words[place + 1].lower() if place + 1 < len(words) else ""
        if word in optional and follows not in YES + NO:
            glued.append(f"{word}=true")
        elif re.match(r"-\d", word) and glued and glued[-1].startswith("--") and "=" not in glued[-1]:
            glued[-1] += f"={word}"
        else:
            glued.append(word)
    return glued


def _top_level(words: list[str]) -> int:
    parser = Parser(
        prog="dse",
        description="What a GPU kernel costs, over whole schedule spaces.",
        epilog="commands:\n"
        + "\n".join(f"  {name:<13}{text}" for name, text in COMMANDS.items())
        + "\n\n`dse COMMAND --help` says more, e.g.\n"
        "  dse sweep gemm --shape 8192x8192x8192 --dtype bf16 --gpu h200_sxm",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tilesweep {_version()}")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="one of those below")
    parsed = parser.parse_args(words)
    if parsed.command is None:
        parser.print_help()
        return 0
    from ..errors import unknown

    raise unknown("command", parsed.command, COMMANDS, "see dse --help")


def _version() -> str:
    from .. import __version__

    return __version__
