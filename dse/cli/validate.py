"""Predictions beside measured latencies: the best over a space against a library kernel, shape by shape.

Beside the model stands a roofline with three constants fitted to the same table's part `fit`. The packaged sample
(studies/measured/README.md) holds bf16 GEMMs on A100, H100, H200 and B200; --table takes your own Parquet or CSV with
the columns system, m, n, k, latency_us and, to fit the roofline on other rows than those judged, part.
"""

import argparse

from ..errors import unknown

KERNELS = ("gemm",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("kernel", help=f"one of {', '.join(KERNELS)}")
    parser.add_argument("--gpu", action="append", metavar="NAME", help="only this GPU (may be repeated)")
    parser.add_argument("--table", metavar="FILE", help="measured latencies; by default the packaged sample")
    parser.add_argument("--part", default="check", help="which part of the table is judged (default: check)")
    parser.add_argument("--preset", default="library", help="sub-space whose best is taken (default: library)")
    parser.add_argument("--rows", type=int, metavar="N", help="judge at most N rows a GPU")
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Validates and prints one table a question: by GPU, then by latency."""
    if arguments.kernel not in KERNELS:
        raise unknown("kernel with measured data", arguments.kernel, KERNELS)
    from dataclasses import asdict

    from ..platform import configure_jax
    from ..studies.validate import pooled, validate_gemm
    from .show import print_json, table

    configure_jax()
    results = validate_gemm(arguments.gpu, arguments.table, arguments.part, arguments.preset, arguments.rows)
    together = {method: pooled(results, method) for method in ("model", "roofline")}
    if arguments.json:
        whole = {method: asdict(errors) for method, errors in together.items()}
        print_json({"part": arguments.part, "gpus": [result.to_dict() for result in results], "pooled": whole})
        return 0
    named = [(result.gpu, result.model, result.roofline) for result in results]
    if len(results) > 1:
        named.append(("all rows", together["model"], together["roofline"]))
    print(f"absolute errors in per cent of the measured latency, part `{arguments.part}`; bias < 0: predicted too fast")
    print(table([{"GPU": name, **_numbers(model, roofline)} for name, model, roofline in named], left=("GPU",)))
    print("\nby measured latency")
    print(
        table(
            [
                {"GPU": result.gpu, "us": bucket, **_numbers(model, roofline)}
                for result in results
                for bucket, (model, roofline) in result.by_latency.items()
            ],
            left=("GPU",),
        )
    )
    tried = ", ".join(f"{result.gpu}: {result.schedules} of {result.space}" for result in results)
    print(f"\nschedules tried a shape: {tried}")
    print("the rows carry no schedule: this judges the best over a space, not the ranking of schedules")
    return 0


def _numbers(model, roofline) -> dict[str, str]:
    return {
        "rows": str(model.count),
        "MAPE": f"{model.mape:.1f}",
        "bias": f"{model.bias:+.1f}",
        "p90": f"{model.p90:.1f}",
        "roofline MAPE": f"{roofline.mape:.1f}",
        "roofline bias": f"{roofline.bias:+.1f}",
    }
