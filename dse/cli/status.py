"""How far a sweep or a batch is: what it is of, how much is done, whether a process writes into it, how to go on.

  dse status runs/mine
  dse status runs                             every run and batch in the folder, a line each

It reads the folder's files only: a run that goes on at this moment is not disturbed, and what it shows is its last
checkpoint (the first after a second, then so often that they take 1 % of the time), of a batch the parts that are
finished. Exit code 1 where a folder is damaged.
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("folder", metavar="FOLDER", help="of a run or a batch, or one that holds them")
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Prints the status; exit code 1 where a run or a batch is damaged."""
    from ..batch_status import BatchStatus
    from ..run_status import run_status
    from .show import print_json
    from .status_text import as_dict, batch_as_dict, batch_text, status_text, table_text

    found = run_status(arguments.folder)
    if arguments.json:
        runs = [as_dict(status) for status in found if not isinstance(status, BatchStatus)]
        batches = [batch_as_dict(status) for status in found if isinstance(status, BatchStatus)]
        print_json({"runs": runs, "batches": batches})
    elif len(found) > 1:
        print(table_text(found))
    else:
        print(batch_text(found[0]) if isinstance(found[0], BatchStatus) else status_text(found[0]))
    return int(any(status.stage == "damaged" for status in found))
