"""The models that are known by their published dimensions: those that come with tilesweep and your own.

dse models                 a line a model
dse models deepseek_v3     its numbers and where they come from
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", nargs="?", help="show every number of this one, and its source")
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Prints one row a model, or all of one model."""
    from ..content.model import load_model, model_table
    from .show import print_json, table

    if arguments.model:
        about = load_model(arguments.model).to_dict()
        if arguments.json:
            print_json(about)
            return 0
        print(f"{about['title']} ({about['name']}): {about['matrix_parameters'] / 1e9:.1f} billion numbers in matrices")
        rows = [
            {"number": f"{part}.{name}", "value": str(value), "source": about["sources"][part]}
            for part in about["sources"]
            for name, value in about[part].items()
        ]
        print(table(rows, left=("number", "source")))
        return 0
    rows = model_table()
    if arguments.json:
        print_json(rows)
        return 0
    shown = [
        {
            name.replace("_", " ").replace("matrix parameters", "parameters"): f"{value / 1e9:.1f} B"
            if name == "matrix_parameters"
            else "-"
            if value is None
            else str(value)
            for name, value in row.items()
        }
        for row in rows
    ]
    print(table(shown, left=("name", "title")))
    print("\nall of one: dse models NAME; its kernels: dse batch --model NAME --dry-run; your own: docs/models.md")
    return 0
