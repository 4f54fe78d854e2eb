"""What a collective costs over sizes, numbers of GPUs and fabrics, and which algorithm and protocol run it.

  dse collective all_reduce --bytes 64KiB:1GiB --ranks 2,4,8 --fabric nvlink4_x8
  dse collective all_to_all --bytes 1MiB,16MiB --ranks 8 --fabric nvlink4_x8,nvlink5_x8 --rule best
  dse collective all_reduce --bytes 1MiB:4GiB --ranks 8,16,64 --fabric nvlink4_x8+infiniband_ndr
  dse collective all_reduce --ranks 16 --gpus-per-node 4 --fabric nvlink4_x8+infiniband_ndr --rule best
  dse collective all_gather --bytes 256MiB --ranks 8 --fabric-set link=2x        # faster links

Bytes are those of the message as NCCL's benchmarks count them; docs/collectives.md says what that is for each.
"""

import argparse

from ..errors import UserError
from .options import named_values

UNITS = {"": 1, "b": 1} | {
    name: size
    for power, letter in enumerate("kmgtp", start=1)
    for name, size in ((f"{letter}ib", 2 ** (10 * power)), (f"{letter}b", 10.0 ** (3 * power)))
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("collective", help="all_gather, reduce_scatter, all_reduce, all_to_all, broadcast or send")
    parser.add_argument(
        "--bytes", default="1KiB:1GiB", metavar="SIZES",
        help="64KiB,1MiB, ..., or FROM:TO, each four times the last (default: 1KiB:1GiB)",
    )  # fmt: skip
    parser.add_argument("--ranks", default="8", metavar="N,N", help="GPUs that take part (default: 8)")
    parser.add_argument(
        "--gpus-per-node", metavar="N", help="of those that take part, in each node (default: whole nodes)"
    )
    parser.add_argument(
        "--fabric",
        default="nvlink4_x8",
        metavar="NAME,FILE",
        help="dse fabrics lists them; A+B: nodes of A on the network B",
    )
    parser.add_argument(
        "--fabric-set", action="append", default=[], metavar="NAME=VALUE",
        help="link=2x (every rate), latency=0.5x (every start and step), or TABLE.NUMBER=VALUE",
    )  # fmt: skip
    parser.add_argument(
        "--rule", default="nccl", help="nccl (default), engine: inference engines' kernels as well, or best: all"
    )
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Prints a row a (fabric, ranks, size)."""
    from ..collective_table import collectives
    from ..platform import configure_jax
    from .show import print_json, table

    configure_jax()
    changes = named_values(arguments.fabric_set, "--fabric-set", "NAME=VALUE", "link=2x")
    found = collectives(
        arguments.collective,
        read_sizes(arguments.bytes),
        [_count(part, "--ranks") for part in arguments.ranks.split(",")],
        arguments.fabric.split(","),
        arguments.rule,
        changes,
        None if arguments.gpus_per_node is None else _count(arguments.gpus_per_node, "--gpus-per-node"),
    )
    if arguments.json:
        print_json(found)
        return 0
    rows = [
        {
            "fabric": row["fabric"],
            "GPUs": _gpus(row["ranks"], row["gpus_per_node"]),
            "bytes": size_text(row["bytes"]),
            "latency us": f"{row['latency_s'] * 1e6:.2f}",
            "bus GB/s": f"{row['bus_bytes_per_s'] / 1e9:.1f}",
            "algorithm": row["algorithm"],
            "protocol": row["protocol"],
            "chunks": str(row["chunks"]),
            "SMs": f"{row['sms']:g}",
        }
        for row in found.to_dict("records")
    ]
    print(table(rows, left=("fabric", "algorithm", "protocol")))
    return 0


def _gpus(ranks: int, of_a_node: int) -> str:
    return str(ranks) if ranks == of_a_node else f"{ranks // of_a_node} x {of_a_node}"


def read_sizes(text: str) -> list[float]:
    """Bytes of `64KiB,1MiB` or `1KiB:1GiB`, the latter four times each."""
    from ..collective_table import MOST_BYTES

    low, colon, high = text.partition(":")
    if not colon:
        return [_size(part) for part in text.split(",")]
    first, last = _size(low), _size(high)
    if not 1 <= first <= last <= MOST_BYTES:
        raise UserError(f"--bytes {text}: a range runs upwards, from at least 1 byte to at most 2^50")
    sizes = [first]
    while sizes[-1] * 4 <= last:
        sizes.append(sizes[-1] * 4)
    return sizes


def size_text(size: float) -> str:
    """`64 KiB`, `1.5 MiB`."""
    for name in ("PiB", "TiB", "GiB", "MiB", "KiB"):
        if size >= UNITS[name.lower()]:
            return f"{size / UNITS[name.lower()]:.4g} {name}"
    return f"{size:.4g} B"


def _size(text: str) -> float:
    word = text.strip().lower()
    digits = word.rstrip("kmgtpib")
    unit = word[len(digits) :]
    try:
        value = float(digits) * UNITS[unit]
    except (KeyError, ValueError):
        raise UserError(f"--bytes {text!r} is no size: write a number with B, KiB to PiB, or KB to PB") from None
    return value


def _count(text: str, option: str) -> int:
    word = text.strip()
    if not (word.isascii() and word.isdecimal() and len(word) < 10):
        raise UserError(f"{option} {text[:30]!r} is not a whole number: write numbers of GPUs such as 2,4,8")
    return int(word)
