"""`dse front RUN --draws N`: what of a front stands when the GPU's numbers are only as good as their sources."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from .options import progress_of

if TYPE_CHECKING:
    import pandas as pd

    from ..runs import OpenRun
    from ..studies.fronts.uncertain_run import UncertainRun

SHOWN = 20


def run_draws(arguments: argparse.Namespace) -> int:
    """Draws, and prints the points by their probability of being on the front, and the most robust schedules."""
    from ..content.gpu import load_gpu
    from ..runs import open_run
    from ..studies.fronts.uncertain_run import uncertain_run
    from .show import print_json
    from .top import heading

    for name in ("knees", "size", "reference", "figure"):
        if getattr(arguments, name):
            raise UserError(f"--{name} is of the front of the file's own numbers: leave --draws out, or --{name}")
    opened = open_run(arguments.run)
    if opened.stale:
        print("dse: the model has changed since this run; numbers below are today's", file=sys.stderr)
    given = uncertainty_options(arguments.uncertainty)
    gpu = load_gpu(arguments.gpu) if arguments.gpu else None
    progress = progress_of(arguments, silent=arguments.json)
    found = uncertain_run(opened, arguments.draws, arguments.seed, given, gpu, progress)
    if arguments.json:
        print_json(_content(opened, found, arguments.n))
        return 0
    print(heading({**opened.summary, "incomplete": False}))  # of the whole space, however far the sweep came
    print(draws_text(found, arguments.n or SHOWN, opened.job.space.kernel))
    return 0


def uncertainty_options(texts: list[str]) -> dict[str, float]:
    """`l2_bytes_per_s=0.1`, `ddr_latency_s=30%` as name and share.

    Raises:
        UserError: something else, or a name given twice.
    """
    found: dict[str, float] = {}
    for text in texts:
        name, _, share = text.partition("=")
        try:
            value = float(share.rstrip("%")) / (100.0 if share.endswith("%") else 1.0)
        except ValueError:
            raise UserError(f"--uncertainty {text}: write FIELD=SHARE, e.g. l2_bytes_per_s=0.1 or 10%") from None
        if name in found:
            raise UserError(f"--uncertainty {name} is given twice: give it once")
        found[name] = value
    return found


def draws_text(answer: "UncertainRun", shown: int, kernel: str = "gemm") -> str:
    """The table and the sentences under it."""
    import numpy as np

    found, table = answer.found, answer.table
    ever = int((table["probability"] > 0).sum())
    always = int((table["probability"] == 1).sum())
    sizes = found.front_sizes
    spread = float(np.std(np.log(found.best_latency_s)))
    lines = [
        f"{found.draws} draws (seed {answer.seed}) of {len(answer.uncertain)} numbers of the GPU, each with its exact "
        f"front over {', '.join(found.objectives)}",
        f"{int(sizes.min())} to {int(sizes.max())} points a front; {ever:,} schedules are on some front, "
        f"{always:,} on every",
        f"the fastest schedule's latency varies by {100 * spread:.1f} % (one standard deviation)",
        "",
        _rows_text(table.head(shown), kernel),
    ]
    if ever > shown:
        lines.append(f"{ever - shown:,} more with a probability of at most {table['probability'].iloc[shown]:.3g}")
    lines += ["", "most robust: the least expected regret, and the least regret in 95 % of the draws"]
    robust = list(dict.fromkeys((answer.most_robust, answer.safest)))
    lines.append(_rows_text(table.iloc[robust], kernel))
    lines += ["", "uncertain: " + ", ".join(f"{name} {100 * at:g} %" for name, at in answer.uncertain.items())]
    lines.append("regret: latency over the draw's fastest, less one; what is drawn, and why: docs/fronts.md")
    return "\n".join(lines)


def _rows_text(table: "pd.DataFrame", kernel: str) -> str:
    from .show import schedule_rows

    shares = {"on front %": "probability", "+-": "standard_error", "regret %": "expected_regret"}
    shares |= {"95 %": "regret_95", "worst": "worst_regret"}
    shown = table.assign(**{head: (100.0 * table[name]).round(2) for head, name in shares.items()})
    return schedule_rows(shown, list(shares), kernel=kernel)


def _content(opened: "OpenRun", answer: "UncertainRun", shown: int | None) -> dict[str, Any]:
    found, table = answer.found, answer.table
    return {
        "gpu_changes": list(opened.job.gpu_changes),
        "clock": opened.job.clock,
        "draws": found.draws,
        "seed": answer.seed,
        "objectives": list(found.objectives),
        "uncertainty": answer.uncertain,
        "front_sizes": found.front_sizes.tolist(),
        "best_latency_s": found.best_latency_s.tolist(),
        "most_robust": answer.most_robust,
        "most_robust_schedule": table.iloc[answer.most_robust].to_dict(),
        "safest": answer.safest,
        "safest_schedule": table.iloc[answer.safest].to_dict(),
        "schedules": table if shown is None else table.head(shown),
    }
