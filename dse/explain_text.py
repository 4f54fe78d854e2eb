"""An explanation as a page of text, in the words of those who write kernels."""

from typing import TYPE_CHECKING

from .schedule_text import format_schedule
from .text import byte_text, seconds_text, table

if TYPE_CHECKING:
    from .explain import Explanation


def explanation_text(explanation: "Explanation") -> str:
    """The explanation as a page of text."""
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
    rows = [
        {"phase": name, "time": seconds_text(seconds), "of latency": f"{seconds / at.latency_s:.1%}"}
        for name, seconds in at.phases.items()
    ]
    return [table(rows, left=("phase",))]


def _bytes(at: "Explanation") -> list[str]:
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
