"""Your own candidates, ranked by predicted latency, with what binds each; those that cannot run, and why.

  dse rank my_configs.py --shape 4096x4096x4096 --gpu h200_sxm

FILE.py is RUN, to read its module-level lists of triton.Config and of TileLang's dictionaries, and its autotuned
kernels (Triton, TileLang and PyTorch need not be installed). FILE.json is a list of objects, FILE.csv a table; each a
Triton config (BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, SPLIT_K, NUM_SMS, num_warps, num_stages, num_ctas), a TileLang config
(block_M, block_N, block_K, num_stages, thread_num, policy, enable_rasteration, panel_size, order) or a schedule (tile,
stages, ..., see dse explain --help). FILE.sh holds calls of cutlass_profiler with --kernels=NAME and --stages=N.
Measured `registers` (n_regs) and `smem_bytes` (shared) replace the model's estimates. Candidates of other kernels
(--kernel NAME) are schedules.
"""

import argparse
import sys
from typing import Any

from .options import add_question, question


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("file", metavar="FILE", help="my_configs.py (it is run), .json, .csv or .sh")
    add_question(parser, named=True)
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Prints the ranking."""
    from ..rank import rank_candidates, ranked_table
    from .show import plain, print_json

    asked = question(arguments)
    if arguments.file.endswith(".py"):
        print(f"dse: running {arguments.file} to read its configs", file=sys.stderr)
    ranked = rank_candidates(arguments.file, asked.problem, asked.gpu, arguments.family, asked.accumulator, asked.clock)
    if arguments.json:
        what_if = {"gpu_changes": list(asked.changes), "clock": asked.clock}
        print_json({"question": asked.title, **what_if, "candidates": plain(ranked_table(ranked))})
        return 0
    head = f"{asked.problem.title} on {asked.gpu.title} ({asked.gpu.name})"
    print("\n".join([head, *asked.what_if, ""]))
    print(_text(ranked))
    return 0


def _text(ranked: list[Any]) -> str:
    from .show import table

    fitting = [entry for entry in ranked if entry.feasible]
    others = [entry for entry in ranked if not entry.feasible]
    lines = [table(_rows(fitting), left=("candidate", "family", "schedule", "binds"))] if fitting else []
    if others:
        lines += ["", f"{len(others)} of {len(ranked)} cannot run:"] if fitting else [f"none of {len(ranked)} can run:"]
        lines += [f"  {entry.candidate.name}  {_short(entry)}\n    {entry.why_not}" for entry in others]
    lines += _trust_lines(ranked)
    unused = sorted({name for entry in ranked for name in entry.candidate.unused})
    if unused:
        lines += ["", f"not used by the model: {', '.join(unused)}"]
    return "\n".join(lines)


def _rows(fitting: list[Any]) -> list[dict[str, str]]:
    from .show import interval_cell

    best = fitting[0].latency_s
    return [
        {
            "#": str(place),
            "candidate": entry.candidate.name,
            "latency us": f"{entry.latency_s * 1e6:.2f}",
            **interval_cell(entry.interval_s, entry.trust.level if entry.trust else 0.0),
            "TFLOP/s": f"{entry.cost['flop'] / entry.latency_s / 1e12:.1f}",
            "x best": f"{entry.latency_s / best:.2f}",
            "family": entry.candidate.family,
            "schedule": _short(entry),
            "binds": entry.binds,
        }
        for place, entry in enumerate(fitting)
    ]


def _trust_lines(ranked: list[Any]) -> list[str]:
    from ..trust import SINGLE_SCHEDULE

    labels = {entry.trust: entry.candidate.family for entry in ranked if entry.trust and entry.feasible}
    lines = [
        f"{family}: {line}" if len(labels) > 1 else line for label, family in labels.items() for line in label.about()
    ]
    return ["", *lines, SINGLE_SCHEDULE] if lines else []


def _short(entry: Any) -> str:
    from ..schedule_words import words_of

    return words_of(entry.kernel).short(entry.candidate.schedule)
