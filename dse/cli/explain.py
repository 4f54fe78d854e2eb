"""One schedule, explained: time by pipeline and by phase, bytes at every level, occupancy, roofline, what to change.

  dse explain runs/gemm-h200_sxm-8192x8192x8192-... 0
  dse explain --shape 8192x8192x8192 --gpu h200_sxm --schedule "tile=128x256x64 stages=4 warps=8 cluster=2x1
      raster=along_m:8 launch=persistent"

A schedule is words KEY=VALUE or a JSON object: tile=MxNxK and stages are needed; warps, cluster (2x1, pair:2x1), raster
(along_m:8), launch (data_parallel, persistent:free8, split_k:4, stream_k), epilogue (direct, staged, overlapped),
swap_ab, and measured registers and smem_bytes may follow.
"""

import argparse
import sys
from typing import TYPE_CHECKING

from ..errors import UserError
from .options import add_question, question

if TYPE_CHECKING:
    from ..explain import Explanation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("run", nargs="?", metavar="RUN", help="folder of a sweep")
    parser.add_argument("place", nargs="?", type=int, metavar="RANK", help="which of its best, from 0 (default: 0)")
    parser.add_argument("--rank", type=int, metavar="I", help="the same")
    parser.add_argument("--index", type=int, metavar="I", help="any schedule of the run's space, by its index")
    parser.add_argument("--schedule", metavar="WORDS", help="a schedule typed by hand")
    add_question(parser, shape_needed=False)
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")


def run(arguments: argparse.Namespace) -> int:
    """Explains one schedule; exit code 1 where it cannot run."""
    from .show import print_json

    explanation = _from_run(arguments) if arguments.run else _typed(arguments)
    if arguments.json:
        print_json(explanation.to_dict())
    else:
        print(text(explanation))
    return 0 if explanation.feasible else 1


def _from_run(arguments: argparse.Namespace) -> "Explanation":
    from ..api import explain_row
    from ..explain import explain_schedule
    from ..runs import open_run

    if arguments.schedule:
        raise UserError("give either a RUN or --schedule, not both")
    opened = open_run(arguments.run)
    if opened.stale:
        print("dse: the model has changed since this run; numbers below are today's", file=sys.stderr)
    if arguments.index is not None:
        fields = opened.job.space.schedule(arguments.index)
        job = opened.job
        return explain_schedule(job.problem, fields, job.gpu, job.space.family, job.gpu_name)
    rank = next((r for r in (arguments.rank, arguments.place) if r is not None), 0)
    return explain_row(opened.job, opened.top, rank)


def _typed(arguments: argparse.Namespace) -> "Explanation":
    from ..explain import explain_schedule
    from ..schedule_text import EXAMPLE, parse_schedule

    if not arguments.schedule or not arguments.shape:
        raise UserError(f'give a RUN folder, or --shape MxNxK and --schedule "{EXAMPLE}"')
    asked = question(arguments)
    fields = parse_schedule(arguments.schedule, asked.family)
    return explain_schedule(asked.problem, fields, asked.bound, asked.family, asked.gpu.name)


def text(explanation: "Explanation") -> str:
    """The explanation as a page of text."""
    from ..schedule_text import format_schedule

    problem = explanation.problem
    head = [
        f"GEMM {problem.shape} {problem.dtype} -> {problem.out_dtype} on {explanation.gpu_name}, {explanation.family}",
        f"schedule  {format_schedule(explanation.schedule)}",
        *(f"note      {note}" for note in explanation.notes),
    ]
    if not explanation.feasible:
        return "\n".join([*head, "", f"cannot run: {explanation.why_not}"])
    parts = [
        _verdict(explanation),
        _pipelines(explanation),
        _phases(explanation),
        _bytes(explanation),
        _fit(explanation),
    ]
    return "\n\n".join(["\n".join(head), *("\n".join(part) for part in parts)])


def _verdict(at: "Explanation") -> list[str]:
    from .show import byte_text, seconds_text

    roof = at.roof
    lines = [
        f"latency   {seconds_text(at.latency_s)}, {at.tflop_per_s:.1f} TFLOP/s",
        f"roofline  {at.roof_share:.1%} of the {roof.roof} "
        f"(tensor {seconds_text(roof.tensor_s)}, DDR {seconds_text(roof.ddr_s)} for "
        f"{byte_text(roof.compulsory_bytes)} compulsory)",
        f"          {roof.intensity:.0f} FLOP/B; the roofs meet at {roof.ridge:.0f} FLOP/B",
        f"binds     {at.binds}",
    ]
    return [*lines, *(f"change    {advice}" for advice in at.advice or ["nothing stands out"])]


def _pipelines(at: "Explanation") -> list[str]:
    from .show import seconds_text, table

    names = {
        "tensor": "tensor cores",
        "cuda": "CUDA cores",
        "sfu": "special functions",
        "tmem": "TMEM",
        "smem": "shared memory",
        "l15": "L1.5 / SM ports",
        "l2": "L2",
        "ddr": "DDR",
        "net": "network",
    }
    rows = [
        {
            "pipeline": names[name],
            "busy": seconds_text(seconds),
            "of latency": f"{seconds / at.latency_s:.1%}",
            "": "#" * round(40 * min(seconds / at.latency_s, 1.0)),
        }
        for name, seconds in at.pipelines.items()
    ]
    return [table(rows, left=("pipeline", ""))]


def _phases(at: "Explanation") -> list[str]:
    from .show import seconds_text, table

    rows = [
        {"phase": name, "time": seconds_text(seconds), "of latency": f"{seconds / at.latency_s:.1%}"}
        for name, seconds in at.phases.items()
    ]
    return [table(rows, left=("phase",))]


def _bytes(at: "Explanation") -> list[str]:
    from .show import byte_text, seconds_text, table

    cost = at.cost
    levels = (
        ("requested by the SMs", cost["l15_bytes"], f"{cost['l15_hit']:.1%} found in L1.5"),
        ("L2", cost["l2_bytes"], f"{cost['l2_hit']:.1%} of all requests found in L1.5 or L2"),
        ("DDR read", cost["ddr_read_bytes"], ""),
        ("DDR written", cost["ddr_write_bytes"], ""),
        ("DDR", cost["ddr_bytes"], f"{cost['ddr_bytes'] / at.roof.compulsory_bytes:.2f} x compulsory"),
    )
    rows = [
        {"traffic": name, "bytes": byte_text(count), "rate": f"{byte_text(count / at.latency_s)}/s", "": remark}
        for name, count, remark in levels
    ]
    energy = f"energy    {cost['energy_j']:.3g} J, {cost['energy_j'] / at.latency_s:.0f} W (rough)"
    workspace = f"workspace {byte_text(cost['workspace_bytes'])}, launch overhead {seconds_text(cost['launch_s'])}"
    return [table(rows, left=("traffic", "")), "", workspace, energy]


def _fit(at: "Explanation") -> list[str]:
    cost = at.cost
    measured = [
        word
        for word, name in (("registers", "registers_measured"), ("shared memory", "smem_measured_bytes"))
        if at.schedule[name]
    ]
    lines = [
        f"occupancy {cost['ctas_per_sm']:.0f} CTA(s) an SM, limited by {cost['occupancy_limiter_name']}; "
        f"{cost['threads']:.0f} threads a CTA",
        f"footprint {cost['registers_per_thread']:.0f} registers a thread, {cost['smem_bytes']:.0f} B of shared memory",
        f"waves     {cost['waves']:.2f} on {cost['sms_used']:.0f} SMs",
    ]
    return [*lines, *([f"measured  {' and '.join(measured)}, as given"] if measured else [])]
