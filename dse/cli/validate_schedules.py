"""Your measured schedules beside what the model predicts for them: is its order right, and what does it cost where not?

  dse validate schedules --table my_runs.csv --gpu h100_sxm --shape 4096x4096x4096

FILE.csv has a column latency_us and one candidate a row, written as for `dse rank`: a schedule (tile, stages, warps,
raster, ...) or a Triton config (BLOCK_M, num_warps, ...). Columns m, n, k hold a row's problem; without them --shape
does. Sweeps of CUTLASS's stream-K scheduler (size, config_name, median_time_ms) and of CuTe's tensor-op GEMM (cta_m,
..., avg_us) are read as they are.
"""

import argparse

from .options import add_question, question

LEGEND = (
    "regret: how much slower than the best the schedule predicted fastest is\n"
    "best P %: performance left when only the predicted best P % of the schedules are measured\n"
    "ties of the prediction count against it; what the model refuses to run counts as slowest"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--table", metavar="FILE", required=True, help="measured schedules, a CSV file")
    parser.add_argument(
        "--launch", default="graph", help="how the calls were timed: graph (replayed or queued, default) or host"
    )
    add_question(parser, shape_needed=False, kernels=("gemm",))
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Ranks the table's schedules and prints one row a problem."""
    from ..validation.ranking import rank_measured
    from ..validation.schedule_tables import read_schedule_table
    from .show import print_json, table

    asked = question(arguments, arguments.shape or "1x1x1")  # without a shape, for its types and layout
    gpu, sized = asked.gpu, arguments.shape is not None
    tables = read_schedule_table(arguments.table, gpu, asked.problem, arguments.family, sized)
    found = rank_measured(tables, gpu, arguments.launch, asked.clock, arguments.accumulator)
    if arguments.json:
        print_json({"gpu_changes": list(gpu.changes), "clock": asked.clock, **found.to_dict()})
        return 0
    print("\n".join([f"measured schedules on {gpu.title} ({gpu.name})", *asked.what_if, ""]))
    print(table(found.table_rows(), left=("problem",)))
    print("\n" + LEGEND)
    return 0
