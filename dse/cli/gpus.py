"""The GPUs that are known: those that come with tilesweep and your own in the folders of DSE_PATH."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("gpu", nargs="?", help="show every number of this one, with its unit, kind and source")
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Prints one row a GPU, or all of one GPU."""
    from ..content.gpu import describe_gpus, load_gpu
    from .show import print_json, table

    if arguments.gpu:
        about = load_gpu(arguments.gpu).to_dict()
        if arguments.json:
            print_json(about)
            return 0
        print(f"{about['title']} ({about['name']}), compute capability {about['compute_capability']}")
        print(table(_numbers(about), left=("field", "unit", "kind", "source")))
        return 0
    rows = describe_gpus()
    if arguments.json:
        print_json(rows)
        return 0
    shown = [
        {
            "name": row["name"],
            "GPU": row["title"],
            "SMs": str(row["sm_count"]),
            "bf16 TFLOP/s": f"{row['bf16_tflop_per_s']:.0f}" if row["bf16_tflop_per_s"] else "-",
            "DDR GB/s": f"{row['ddr_gbyte_per_s']:.0f}",
            "L2 MiB": f"{row['l2_mib']:.4g}",
            "families": row["families"],
        }
        for row in rows
    ]
    print(table(shown, left=("name", "GPU", "families")))
    print("\nall of one: dse gpus NAME; your own: a TOML file, see docs/add-a-gpu.md")
    return 0


def _numbers(about: dict) -> list[dict[str, str]]:
    data = dict(about["values"])
    for family, rates in about["tensor"].items():
        data |= {f"tensor.{family}.{pair}": rate for pair, rate in rates.items()}
    return [
        {"field": name, **{key: _text(datum.get(key, "")) for key in ("value", "unit", "kind", "source")}}
        for name, datum in data.items()
    ]


def _text(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(str(entry) for entry in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
