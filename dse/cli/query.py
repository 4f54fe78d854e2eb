"""SQL over the results in a folder of dse batch or dse sweep: read-only, by duckdb.

dse query runs/llama                                   the views, their columns, units and meanings
dse query runs/llama "select name, gpu, latency_s from best where rank = 0 order by latency_s desc limit 5"
dse query runs/llama "select phase, tokens, gpu, sum(count * latency_s) from best where rank = 0 group by all" --json
dse query runs/mine "select tile_m, min(latency_s) from top group by tile_m" --csv
"""

import argparse
import csv
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..query import Answer, QueryFolder, View

SHOWN_ROWS = 200

OPTIONS_ANYWHERE = True  # `dse query FOLDER --csv "select ..."`


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    from ..query import EXAMPLES

    parser.add_argument("folder", help="that dse batch or dse sweep wrote (--out); or one that holds such sweeps")
    parser.add_argument("sql", nargs="?", help="one SELECT; without it, the views and columns are listed")
    group = parser.add_argument_group("the answer")
    group.add_argument("--json", action="store_true", help="rows as JSON objects on standard output")
    group.add_argument("--csv", action="store_true", help="rows as CSV on standard output")
    parser.epilog = "examples, for folders of dse batch:\n" + "\n".join(
        f"  {title}:\n    {sql}" for title, sql in EXAMPLES
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the rows; a table shows the first 200."""
    from ..errors import UserError
    from ..query import QueryFolder

    if arguments.json and arguments.csv:
        raise UserError("--json and --csv: choose one")
    with QueryFolder(arguments.folder) as folder:
        if arguments.sql is None:
            _show_views(arguments, folder)
        else:
            _show(arguments, folder.ask(arguments.sql))
        if folder.missing:
            print(f"dse: note: {folder.missing}", file=sys.stderr)
    return 0


def _show(arguments: argparse.Namespace, answer: "Answer") -> None:
    from .show import print_json, table

    if arguments.json:
        print_json([dict(zip(_distinct(answer.columns), row, strict=True)) for row in answer.rows])
    elif arguments.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(answer.columns)
        writer.writerows(["" if value is None else value for value in row] for row in answer.rows)
    else:
        names = _distinct(answer.columns)
        shown = [
            {name: _cell(value) for name, value in zip(names, row, strict=True)} for row in answer.rows[:SHOWN_ROWS]
        ]
        text = [name for place, name in enumerate(names) if any(isinstance(row[place], str) for row in answer.rows)]
        print(table(shown, left=text) if shown else f"{'  '.join(answer.columns)}\n(no rows)")
        if len(answer.rows) > SHOWN_ROWS:
            print(f"... {len(answer.rows) - SHOWN_ROWS:,} more rows: --csv or --json gives all")


def _show_views(arguments: argparse.Namespace, folder: "QueryFolder") -> None:
    from .show import print_json, table

    views = folder.views()
    if arguments.json or arguments.csv:
        print_json([_view_as_dict(view) for view in views])
        return
    for view in views:
        print(f"{view.name}: {view.rows:,} rows")
        rows = [
            {"column": name, "type": kind, "unit": unit, "meaning": meaning}
            for name, (kind, unit, meaning) in view.columns.items()
        ]
        print(table(rows, left=("column", "type", "unit", "meaning")), end="\n\n")
    print("dse query --help has examples")


def _view_as_dict(view: "View") -> dict[str, Any]:
    columns = [
        {"name": name, "type": kind, "unit": unit, "meaning": meaning}
        for name, (kind, unit, meaning) in view.columns.items()
    ]
    return {"view": view.name, "rows": view.rows, "columns": columns}


def _distinct(names: tuple[str, ...]) -> list[str]:
    """Column names with a number behind those that come again."""
    return [name if name not in names[:place] else f"{name} ({place})" for place, name in enumerate(names)]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
