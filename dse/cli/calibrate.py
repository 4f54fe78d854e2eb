"""Fits a GPU's free numbers to latencies that you measured, and writes them as a GPU file of your own.

  dse calibrate gemm --gpu h100_sxm --table mine.csv --out my_h100.toml
  dse calibrate gemm --gpu h100_sxm --table run.gemm.csv --free tensor_efficiency,ddr_bytes_per_s
  dse calibrate gemm --gpu h100_sxm --table ~/.triton/cache --key m,n,k

--table takes Parquet or CSV (m, n, k, latency_us), the CSV of cutlass_profiler, Triton's *.autotune.json (or the folder
that holds them) and what PyTorch's max-autotune prints; which it is, is found by the content. Without --table: the
packaged sample. Rows are split by (n, k) into train and test; what is printed last is the error on the latter.
"""

import argparse
import os
import shlex
import sys

from ..errors import UserError, unknown
from .options import add_output, positive, say_of

KERNELS = ("gemm",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("kernel", help=f"one of {', '.join(KERNELS)}")
    group = parser.add_argument_group("the GPU and its measurements")
    group.add_argument("--gpu", required=True, metavar="NAME|FILE", help="where the fit starts: a name or a TOML file")
    group.add_argument(
        "--table", nargs="+", action="extend", default=[], metavar="FILE", help="measured latencies, one or more files"
    )
    group.add_argument("--format", metavar="NAME", help="table, cutlass, triton-cache, triton-log (default: found out)")
    group.add_argument("--system", metavar="NAME", help="what the table's column system calls this GPU")
    group.add_argument("--dtype", help="only this input type, and that of rows that name none (default: bf16)")
    group.add_argument("--layout", default="tn", help="of rows that name none: tn (default), nn, tt, nt")
    group.add_argument("--key", metavar="POSITIONS", help="what a Triton key's positions are, e.g. m,n,k,_")
    group = parser.add_argument_group("the fit")
    group.add_argument(
        "--free", metavar="NAMES", help="only these numbers, separated by commas (default: see docs/calibrate.md)"
    )
    group.add_argument("--method", default="cma", help="cma (default), gradient or optuna")
    group.add_argument("--preset", default="library", help="sub-space whose fastest stands for a library's kernel")
    group.add_argument("--rows", type=positive, default=2000, metavar="N", help="at most N train rows (default: 2000)")
    group.add_argument(
        "--test", type=float, default=0.3, metavar="SHARE",
        help="of the pairs (n, k), where the table has no column part (default: 0.3)",
    )  # fmt: skip
    group.add_argument("--seed", type=int, default=0, help="of the split and the search (default: 0)")
    group.add_argument("--out", metavar="FILE", help="write the fitted numbers to FILE.toml")
    group.add_argument("--force", action="store_true", help="replace --out where it exists")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Reads, fits, prints, writes."""
    if arguments.kernel not in KERNELS:
        raise unknown("kernel that can be calibrated", arguments.kernel, KERNELS)
    if arguments.out is not None:
        _check_out(arguments.out, arguments.force)
    from ..calibrate.calibration import calibrate_gemm
    from ..calibrate.report import calibration_text
    from ..calibrate.write_toml import write_toml
    from ..content.gpu import load_gpu
    from ..platform import configure_jax
    from .show import print_json

    say = say_of(arguments)
    gpu = load_gpu(arguments.gpu)
    read = _read(arguments, gpu)
    configure_jax()
    found = calibrate_gemm(
        gpu,
        read.measured,
        free=[name.strip() for name in arguments.free.split(",")] if arguments.free is not None else None,
        preset=arguments.preset,
        method=arguments.method,
        test=arguments.test,
        seed=arguments.seed,
        rows=arguments.rows,
        progress=lambda trial: say(_round(trial)),
    )
    if arguments.json:
        print_json(found.to_dict() | {"left_out": dict(read.left_out), "out": arguments.out})
    else:
        print(calibration_text(found, read.left_out))
    if arguments.out:
        write_toml(gpu, found.numbers(), arguments.out, arguments.force, shlex.join(["dse", *arguments.words]))
        print(f"dse: wrote {arguments.out}; use it with --gpu {shlex.quote(_as_path(arguments.out))}", file=sys.stderr)
    return 0


def _check_out(out: str, force: bool) -> None:
    """Refuses before the fit what could not be written after it."""
    from ..content.files import home_expanded

    where = home_expanded(out)
    if where.exists() and not force:
        raise UserError(f"{out} exists: choose another --out, or replace it with --force")
    if not out.endswith(".toml"):
        raise UserError(f"--out {out}: end the name in .toml")
    if not where.parent.is_dir():
        raise UserError(f"no folder {where.parent} for --out {out}; make it first, or choose another --out")
    if where.is_dir() or not os.access(where if where.exists() else where.parent, os.W_OK):
        raise UserError(
            f"cannot write {out}: {where if where.exists() else where.parent} is not writable; choose another --out"
        )


def _read(arguments, gpu):
    from dataclasses import replace

    from ..calibrate.readers import ReadOptions, parse_key, read_measurements
    from ..content.files import content_files

    options = ReadOptions(
        gpu=gpu,
        system=arguments.system,
        dtype=arguments.dtype or "bf16",
        layout=arguments.layout,
        key=parse_key(arguments.key) if arguments.key else None,
    )
    tables = arguments.table or [content_files("studies/measured", ".parquet")["gemm_bf16"]]
    read = read_measurements(tables, options, arguments.format)
    return replace(read, measured=read.measured.of_dtype(arguments.dtype)) if arguments.dtype else read


def _round(trial) -> str:
    return f"dse: round {trial.round + 1}: train error {100 * trial.space_error:.2f} %"


def _as_path(out: str) -> str:
    return out if "/" in out else f"./{out}"
