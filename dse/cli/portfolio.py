"""The few kernels a library should ship: those that lose least against every shape's fastest, and who runs what.

dse portfolio --shapes llama3_70b --gpu h200_sxm --within 1%
dse portfolio --shapes mine.csv --kernels 4 --regret worst --preset cutlass --out runs/portfolio
dse portfolio --shapes llama3_70b_decode --configs my_configs.py --kernels 6 --figure regret.svg

Every schedule is evaluated on every shape. Schedules that differ only in what a launch says (raster, swizzle, splits,
SMs left free) are one compiled kernel, of which each shape gets the best; --count schedules counts each, as for Triton
kernels with GROUP_M, SPLIT_K and NUM_SMS as constexpr. The regret of a shape is how much slower its best kernel of the
portfolio is than the fastest of all. The answer says whether it is proven best, or how much better any other choice of
as many kernels can be. The folder of the answer holds portfolio.json (dse rank reads it), dispatch.csv, and the
rule as Python and C.
"""

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UserError
from .options import add_output, add_question, add_schedules, positive, progress_of, refinements

if TYPE_CHECKING:
    pass


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("kernel", nargs="?", default="gemm", help="gemm (default)")
    add_question(parser, many=True)
    parser.add_argument(
        "--shapes", metavar="NAME|FILE", help="a shape list by name or path: m,n,k[,count][,batch][,name]"
    )
    group = add_schedules(parser, "the schedules that are chosen from")
    group.add_argument("--configs", metavar="FILE", help="your own candidates instead, as dse rank reads them")
    group.add_argument("--count", help="kernels (default) or schedules (default with --configs)")
    group = parser.add_argument_group("the choice")
    group.add_argument("--kernels", type=positive, metavar="K", help="how many at most (default: 8)")
    group.add_argument("--within", metavar="SHARE", help="instead: as few as reach this regret, e.g. 1%%")
    group.add_argument("--regret", default="mean", help="what is kept small: mean (default, weighted) or worst")
    group.add_argument(
        "--weigh", default="count",
        help="a shape counts by its count (default), by time (count x latency), or all equal",
    )  # fmt: skip
    group.add_argument(
        "--solver",
        default="auto",
        help="greedy: greedy and swaps; exact: integer program; auto (default): where it fits",
    )
    group.add_argument(
        "--time-limit", type=float, default=60.0, metavar="S", help="of an integer program (default: 60)"
    )
    group.add_argument("--skip-infeasible", action="store_true", help="leave out shapes that no schedule runs")
    group = parser.add_argument_group("the rule")
    group.add_argument("--depth", type=int, default=3, metavar="N", help="questions at most, 0 to 4 (default: 3)")
    group.add_argument(
        "--between", action="store_true",
        help="test portfolio and rule on shapes between those of the list too: as much work again",
    )  # fmt: skip
    group = parser.add_argument_group("the answer")
    group.add_argument("--out", metavar="DIR", help="folder for the files (default: runs/portfolio-<gpu>-<time>)")
    group.add_argument("--overwrite", action="store_true", help="replace the portfolio in --out")
    group.add_argument("--figure", metavar="FILE", help="regret against number of kernels: .png, .svg or .pdf")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Chooses, writes and prints."""
    from ..figure_file import check_figure_path
    from ..kernels.registry import check_served, get_kernel
    from ..studies.answer_folder import free_folder, new_folder, without_litter
    from ..studies.portfolio.figure import draw_portfolio
    from ..studies.portfolio.files import FILES, as_dict, write_portfolio
    from ..studies.portfolio.study import portfolio
    from .interrupt import stoppable
    from .portfolio_text import portfolio_text
    from .show import print_json

    check_served(get_kernel(arguments.kernel).name, "dse portfolio")
    if bool(arguments.shape) == bool(arguments.shapes):
        raise UserError("give the shapes as --shapes NAME or FILE.csv, or each as --shape MxNxK")
    if not arguments.time_limit > 0:
        raise UserError(f"--time-limit {arguments.time_limit:g} is not allowed: seconds above 0")
    figure = check_figure_path(arguments.figure) if arguments.figure else None
    where = arguments.out or free_folder(f"portfolio-{Path(arguments.gpu).stem}")
    folder = new_folder(where, arguments.overwrite, FILES)
    if (arguments.configs or "").endswith(".py"):
        print(f"dse: running {arguments.configs} to read its configs", file=sys.stderr)
    with without_litter([folder]), stoppable():
        found = portfolio(
            arguments.shapes or arguments.shape,
            kernels=arguments.kernels,
            within=share(arguments.within) if arguments.within is not None else None,
            regret=arguments.regret,
            weigh=arguments.weigh,
            counted=arguments.count,
            solver=arguments.solver,
            time_limit_s=arguments.time_limit,
            depth=arguments.depth,
            between=arguments.between,
            skip_infeasible=arguments.skip_infeasible,
            dtype=arguments.dtype,
            gpu=arguments.gpu,
            space=arguments.space,
            preset=arguments.preset,
            axes=arguments.axis,
            configs=arguments.configs,
            progress=progress_of(arguments),
            **refinements(arguments),
        )
    write_portfolio(found, folder, shlex.join(["dse", *arguments.words]))
    if figure is not None:
        draw_portfolio(found, figure)
    if arguments.json:
        print_json(as_dict(found) | {"folder": str(folder)})
        return 0
    print(portfolio_text(found))
    print(_where(folder, arguments.figure))
    return 0


def share(text: str) -> float:
    """`1%` or `0.01` as a number.

    Raises:
        UserError: it is neither.
    """
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise UserError(f"--within {text} is not a share: write e.g. 1% or 0.01") from None


def _where(folder: Path, figure: str | None) -> str:
    shown = shlex.quote(str(folder))
    lines = [f"figure: {figure}"] if figure else []
    lines.append(f"written to {shown}: portfolio.json (dse rank {shown}/portfolio.json ...), portfolio.parquet,")
    lines.append("dispatch.csv, rule.py, rule.h, rule.txt, summary.json")
    return "\n".join(lines)
