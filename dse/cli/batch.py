"""Many kernel problems on many GPUs over whole schedule spaces, in one run: the best schedules of each.

dse batch --model llama3_70b --phase prefill,decode --tp 1,8 --gpu h200_sxm,b200_sxm --preset quick --out runs/llama
dse batch --model deepseek_v3 --tp 8 --ep 8 --dtype fp8_block --phase decode --batch 64 --context 4096 --gpu h200_sxm
dse batch gemm --shapes llama3_70b --gpu h100_sxm,h200_sxm --preset library --top 3
dse batch --model mixtral_8x7b --dry-run              what would be evaluated, and how often a step runs it

Every schedule is evaluated for every distinct problem on every GPU; what is found is what dse sweep finds. The same
command goes on where it was stopped. The answer: dse query FOLDER (best schedules), and the table of steps.
"""

import argparse
import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from . import EXIT_INTERRUPTED
from .options import add_output, positive, progress_of

if TYPE_CHECKING:
    from ..batch import BatchResult, Plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("kernel", nargs="?", help="of the shapes in --shapes or --shape: gemm, attention, moe, ...")
    group = parser.add_argument_group("the problems: a model's steps, or shapes")
    group.add_argument("--model", metavar="A,B", help="models by name (dse models) or TOML file")
    group.add_argument("--kernel", metavar="A,B", dest="kernels", help="of a model, only these kernels: gemm,moe")
    group.add_argument("--layer", metavar="A,B", help="of a model, only these layers: qkv,o,gate_up,down")
    group.add_argument("--phase", metavar="NAMES", help="prefill, decode or both (default: prefill,decode)")
    group.add_argument("--tp", metavar="N,N", help="tensor-parallel degrees (default: 1)")
    group.add_argument("--ep", metavar="N,N", help="of the tp GPUs, those that share the experts (default: 1)")
    group.add_argument("--prompt-length", metavar="N,N", help="tokens of a prompt in prefill (default: 2048,4096,8192)")
    group.add_argument("--prompts", metavar="N", help="prompts of that length in one prefill step (default: 1)")
    group.add_argument("--batch", metavar="N,N", help="sequences in decode (default: 1,2,4,8,16,32,64,128,256)")
    group.add_argument("--context", metavar="N,N", help="keys a sequence in decode (default: 4096)")
    group.add_argument("--kv-dtype", help="type of the KV cache in decode (default: as attention's)")
    group.add_argument(
        "--quantise-a", action="store_true", default=None,
        help="count the kernels that quantise activations before narrow GEMMs",
    )  # fmt: skip
    group.add_argument("--shapes", metavar="NAME|FILE", help="a shape list in place of a model, by name or path (CSV)")
    group.add_argument("--shape", action="append", metavar="SHAPE", help="a shape; may be given several times")
    group.add_argument("--dtype", default="bf16", help="input type; of a model, of its layers' weights (default: bf16)")
    group.add_argument(
        "--choice", action="append", default=[], metavar="[KERNEL.]NAME=VALUE",
        help="what a kernel lets choose beside its shape, e.g. layout=nn or decode_attention.implementation=fa3",
    )  # fmt: skip
    group = parser.add_argument_group("the machines and the spaces")
    group.add_argument(
        "--gpu", default="h200_sxm", metavar="A,B", help="names (dse gpus) or TOML files (default: h200_sxm)"
    )
    group.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", dest="overrides",
        help="change a number of every GPU: l2_capacity=2x; or of the implementations: implementation.NAME=VALUE",
    )  # fmt: skip
    group.add_argument("--clock", default="boost", help="boost (default), less the power limit; or sustained, held")
    group.add_argument(
        "--preset", action="append", default=[], metavar="[KERNEL=]NAME",
        help="a sub-space: quick, library, ... of every kernel that has it, or of one kernel",
    )  # fmt: skip
    group.add_argument(
        "--axis", action="append", default=[], metavar="[KERNEL.]NAME=VALUES",
        help="keep only these values, in the space of one kernel or of all: gemm.tile_m=64,128",
    )  # fmt: skip
    group.add_argument("--top", type=positive, default=1, metavar="N", help="schedules kept of each (default: 1)")
    group = parser.add_argument_group("the run and its files")
    group.add_argument("--out", metavar="DIR", help="folder of the batch (default: runs/batch-<what>-<time>)")
    group.add_argument("--overwrite", action="store_true", help="replace the batch in --out")
    group.add_argument("--workers", type=positive, metavar="N", help="threads (default: one a core)")
    group.add_argument("--dry-run", action="store_true", help="show the problems and evaluate nothing")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Evaluates and prints a summary; exit code 1 where a problem has no schedule that can run."""
    from ..batch import make_plan
    from .batch_question import rows_asked, setting_asked
    from .batch_text import as_dict, plan_as_dict, plan_text, result_text
    from .show import print_json

    rows = rows_asked(arguments)
    plan = make_plan(rows, setting_asked(arguments))
    if arguments.dry_run:
        if arguments.json:
            print_json(plan_as_dict(plan))
        else:
            print(plan_text(plan))
        return 0
    out = Path(arguments.out) if arguments.out else _default_folder(arguments)
    if not arguments.quiet:
        kernels = ", ".join(dict.fromkeys(row.kernel for row in rows))
        print("\n".join([f"{kernels}: {plan.work_text}", *plan.notes]), file=sys.stderr)
    result = _run(arguments, plan, out)
    if result is None:
        return EXIT_INTERRUPTED
    if arguments.json:
        print_json(as_dict(result, plan))
    else:
        print(result_text(result))
    return int(bool(result.none_fits))


def _run(arguments: argparse.Namespace, plan: "Plan", out: Path) -> "BatchResult | None":
    import jax  # noqa: F401 (compiled modules do not survive an exception while they are imported)

    from ..batch import run_batch
    from .interrupt import keeps, message, stoppable

    how = _how_to_go_on(arguments, out)
    try:
        with keeps(cast(Any, _Parts()), out, how), stoppable():
            return run_batch(
                plan,
                out,
                top=arguments.top,
                progress=progress_of(arguments),
                workers=arguments.workers,
                overwrite=arguments.overwrite,
                command_line=shlex.join(["dse", *arguments.words]),
            )
    except KeyboardInterrupt:
        print(message(out if _Parts().save(out) else None, how), file=sys.stderr)
        return None


class _Parts:
    """What `dse.cli.interrupt.keeps` saves before the process ends: nothing, as files are written part by part."""

    state = None

    def save(self, folder: Path) -> bool:
        """Whether a part is finished."""
        return any(folder.glob("best/gpu=*/kernel=*/part-*.parquet"))


def _default_folder(arguments: argparse.Namespace) -> Path:
    from ..api import folder_name

    what = Path(arguments.model or arguments.shapes or arguments.kernel or "gemm").stem
    return Path("runs") / f"batch-{folder_name(what)}-{datetime.now().strftime('%Y%m%d-%H%M%S')}"


def _how_to_go_on(arguments: argparse.Namespace, out: Path) -> str:
    words = [word for word in arguments.words if word != "--overwrite"]
    return shlex.join(["dse", *words, *(["--out", str(out)] if arguments.out is None else [])])
