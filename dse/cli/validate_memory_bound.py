"""Memory-bound kernels: bytes over bandwidth when large, launch and a latency when small; published times beside both.

  dse validate memory_bound

The line of the large limit is the rate of a long copy, which the GPU files hold (`ddr_stream_ratio`) and which was
derived from measured rows: no check by itself. Checked are the published times: nothing is fitted to them.
"""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..validation.memory_bound import Limits, Published

LEGEND = (
    "large: bytes over the rate of a long copy, over the best predicted latency of {large} bf16\n"
    "small: the best predicted latency of {small} bf16; floor: launch, CTA launch and a DDR latency for each load that "
    "waits for another"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--gpu", action="append", metavar="NAME", help="limits of this GPU (may be repeated)")
    parser.add_argument("--kernel", action="append", metavar="NAME", help="limits of this kernel (may be repeated)")
    parser.add_argument("--preset", default="triton", help="sub-space whose best is taken, or all (default: triton)")
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Validates; prints a line a kernel and GPU, then the published times."""
    from ..platform import configure_jax
    from ..validation.memory_bound import GPUS, LARGE, SMALL, limits, published
    from .show import print_json

    configure_jax()
    preset = None if arguments.preset == "all" else arguments.preset
    found = limits(arguments.gpu or GPUS, arguments.kernel, preset)
    times = published(preset)
    if arguments.json:
        entries = [asdict(entry) | {"error": entry.error} for entry in times]
        print_json({"limits": [asdict(entry) for entry in found], "published": entries})
        return 0
    print("\n\n".join([_limits(found), LEGEND.format(large=LARGE, small=SMALL), _published(times)]))
    return 0


def _limits(found: "list[Limits]") -> str:
    from .show import table

    rows = [
        {
            "kernel": entry.kernel,
            "GPU": entry.gpu,
            "line TB/s": f"{entry.line_bytes_per_s / 1e12:.2f}",
            "large": f"{entry.of_line:.1%}",
            "small us": f"{entry.small_s * 1e6:.2f}",
            "floor us": f"{entry.floor_s * 1e6:.2f}",
            "above floor": f"{entry.small_s / entry.floor_s - 1:+.1%}",
        }
        for entry in found
    ]
    return table(rows, left=("kernel", "GPU"))


def _published(times: "list[Published]") -> str:
    from .show import table

    rows = [
        {
            "GPU": entry.gpu,
            "published": entry.what,
            "measured us": f"{entry.measured_s * 1e6:.1f}",
            "predicted us": f"{entry.predicted_s * 1e6:.1f}",
            "error": f"{entry.error:+.1%}",
            "of": "best" if entry.best else "one schedule",
            "source": entry.source,
        }
        for entry in times
    ]
    return table(rows, left=("GPU", "published", "of", "source"))
