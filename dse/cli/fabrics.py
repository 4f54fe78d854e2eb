"""The fabrics that are known: what joins GPUs, one level a file; levels are joined by "+".

dse fabrics                 a line a level; SMs that its protocols' kernels take
dse fabrics nvlink4_x8      its numbers, their kinds and sources
"""

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..content.fabric import FabricLevel

_SHOWN = ("unit", "kind", "source")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("fabric", nargs="?", help="show every number of this one, with its unit, kind and source")
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Prints one row a level, or all of one fabric."""
    from ..content.fabric import list_fabrics, load_fabric
    from .show import print_json, table

    if arguments.fabric is not None:
        about = load_fabric(arguments.fabric).to_dict()
        if arguments.json:
            print_json(about)
            return 0
        for level in about["levels"]:
            print(f"{level['title']} ({level['name']})")
            rows = [
                {"number": f"{part}.{name}", "value": f"{at['value']:g}"} | {key: at[key] for key in _SHOWN}
                for part, own in level["values"].items()
                for name, at in own.items()
            ]
            print(table(rows, left=("number", *_SHOWN)))
        return 0
    rows = [_row(load_fabric(name).levels[0]) for name in list_fabrics()]
    if arguments.json:
        print_json(rows)
        return 0
    shown = [
        {
            "name": row["name"],
            "fabric": row["title"],
            "GPUs": str(row["ranks_max"]),
            "link GB/s": f"{row['link_bytes_per_s'] / 1e9:g}",
            "SMs": _span(row["sms"].values()),
        }
        for row in rows
    ]
    print(table(shown, left=("name", "fabric")))
    print("\nall of one: dse fabrics NAME; your own: a TOML file, see docs/collectives.md")
    return 0


def _span(numbers: Iterable[float]) -> str:
    """Least and most of the SMs that protocols take."""
    known = sorted({number for number in numbers if number})
    return "-" if not known else "-".join(f"{number:g}" for number in dict.fromkeys((known[0], known[-1])))


def _row(level: "FabricLevel") -> dict[str, Any]:
    return {
        "name": level.name,
        "title": level.title,
        "ranks_max": int(level["ranks_max"]),
        "link_bytes_per_s": level["link_bytes_per_s"],
        "sms": {table: level[f"{table}.sms"] for table in level.values if table != "level"},
    }
