"""The schedule spaces that are known: families, axes, sizes, presets."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--dtype", default="bf16", help="depths given in bytes become elements of it (default: bf16)")
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Prints every space with its axes, presets and their sizes."""
    from ..content.space import list_spaces, load_space
    from .show import print_json

    spaces = []
    for entry in list_spaces():
        space = load_space(entry.kernel, entry.family, arguments.dtype)
        presets = {
            name: {
                "text": text,
                "size": load_space(entry.kernel, entry.family, arguments.dtype, preset=name).size,
            }
            for name, text in entry.presets.items()
        }
        axes = [{"name": axis.name, "fields": axis.fields, "labels": axis.labels} for axis in space.axes]
        spaces.append(
            {
                "name": entry.name,
                "text": entry.text,
                "size": space.size,
                "hash": space.hash,
                "axes": axes,
                "fixed": dict(space.fixed),
                "presets": presets,
                "file": str(entry.path),
            }
        )
    if arguments.json:
        print_json(spaces)
        return 0
    print("\n\n".join(_text(space) for space in spaces))
    return 0


def _text(space: dict) -> str:
    lines = [f"{space['name']}: {space['size']:,} points for --dtype given", f"  {space['text']}"]
    for axis in space["axes"]:
        lines.append(f"  --axis {axis['name']:<9}{len(axis['labels']):>4}  {_some(axis['labels'])}")
    for name, preset in space["presets"].items():
        lines.append(f"  --preset {name:<9}{preset['size']:>11,}  {preset['text']}")
    return "\n".join(lines)


def _some(labels: tuple[str, ...]) -> str:
    if len(labels) <= 10:
        return " ".join(labels)
    return " ".join([*labels[:6], "...", *labels[-2:]])
