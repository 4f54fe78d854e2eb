"""One schedule's explanation: the numbers, and the page of text in the words of those who write kernels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .about_schedule import About
from .advice import what_binds, what_to_change
from .kernels.registry import without_interval
from .roofline import TENSOR, Roofline
from .schedule_words import words_of
from .text import byte_text, seconds_text, table, what_if_lines
from .trust import SINGLE_SCHEDULE, TrustLabel, interval_of

NEGLIGIBLE = 1e-3  # share of the latency below which the power limit is not mentioned
PIPELINE_NAMES = {  # as people say them
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
PHASES = ("prologue", "steady", "epilogue", "tail", "reduction", "launch", "helpers")
COMMUNICATION = "communication"  # a further phase of kernels that communicate


@dataclass(frozen=True)
class Explanation:
    """What the model says of one schedule.

    Attributes:
        problem: the user's problem (`dse.kernels.problem.Problem`).
        gpu_name: of the GPU.
        family: instruction family.
        schedule: field -> number.
        cost: cost column -> number (`dse.columns.COST_COLUMNS`), and the words for its codes.
        roof: the problem's roofline.
        why_not: why it cannot run, with numbers; "" where it can.
        notes: what was understood differently from what was written, and what to keep in mind.
        gpu_changes: what was changed of the GPU, a line a number.
        clock: "boost" or "sustained".
        tdp_w: the GPU's power limit.
        unlimited_s: predicted latency if the power limit were not there; None: the same.
        trust: what the latency's interval comes from; None: there are no residuals.
        tuned: the schedule is the fastest of a space, as those that intervals were validated on.
    """

    problem: Any
    gpu_name: str
    family: str
    schedule: Mapping[str, int]
    cost: Mapping[str, Any]
    roof: Roofline
    why_not: str
    notes: tuple[str, ...] = ()
    gpu_changes: tuple[str, ...] = ()
    clock: str = "boost"
    tdp_w: float = float("inf")
    unlimited_s: float | None = None
    trust: TrustLabel | None = None
    tuned: bool = False

    @property
    def feasible(self) -> bool:
        """Whether the schedule can run."""
        return not self.why_not

    @property
    def latency_s(self) -> float:
        """Predicted latency of the kernel."""
        return float(self.cost["latency_s"])

    @property
    def throttled_s(self) -> float:
        """Seconds of the latency that the power limit costs."""
        return 0.0 if self.unlimited_s is None else max(self.latency_s - self.unlimited_s, 0.0)

    @property
    def interval_s(self) -> tuple[float, float] | None:
        """Where a tuned kernel of this predicted latency should be measured; None where the schedule cannot run."""
        return interval_of(self.trust if self.feasible else None, self.latency_s)

    @property
    def tflop_per_s(self) -> float:
        """Useful TFLOP/s."""
        return self.roof.flop / self.latency_s / 1e12

    @property
    def roof_share(self) -> float:
        """The lower roof's time over the latency: 1 is as fast as the hardware allows."""
        return self.roof.roof_s / self.latency_s

    @property
    def pipelines(self) -> dict[str, float]:
        """Pipeline -> seconds of its demand at its peak."""
        from jaxmodel.types import PIPELINES

        return {name: float(self.cost[f"pipeline_{name}_s"]) for name in PIPELINES}

    @property
    def phases(self) -> dict[str, float]:
        """Phase -> seconds; they add up to the latency."""
        own = (COMMUNICATION,) if f"{COMMUNICATION}_s" in self.cost else ()
        return {name: float(self.cost[f"{name}_s"]) for name in (*PHASES, *own)}

    @property
    def schedule_text(self) -> str:
        """The schedule in its kernel's words."""
        return words_of(self.problem.kernel).format(self.schedule)

    @property
    def binds(self) -> str:
        """What binds, in a sentence."""
        return what_binds(self.cost, self.roof, self.problem.kernel)

    @property
    def advice(self) -> list[str]:
        """What to change, the largest gain first."""
        clusters = self.family != "mma_sync"
        return what_to_change(
            About(self.problem.kernel, self.schedule, self.cost, self.roof, clusters, self.throttled_s)
        )

    def __str__(self) -> str:
        return explanation_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers and text, for JSON."""
        roof = self.roof
        return {
            "shape": self.problem.shape,
            "dtype": self.problem.dtype,
            "gpu": self.gpu_name,
            "gpu_changes": list(self.gpu_changes),
            "clock": self.clock,
            "family": self.family,
            "schedule": dict(self.schedule),
            "schedule_text": self.schedule_text,
            "feasible": self.feasible,
            "why_not": self.why_not,
            "latency_s": self.latency_s if self.feasible else None,
            "interval_s": list(self.interval_s) if self.interval_s else None,
            "trust": self.trust.to_dict() if self.trust else None,
            "tuned": self.tuned,
            "throttled_s": self.throttled_s if self.feasible else None,
            "tflop_per_s": self.tflop_per_s if self.feasible else None,
            "binds": self.binds if self.feasible else None,
            "advice": self.advice if self.feasible else [],
            "pipelines_s": self.pipelines,
            "phases_s": self.phases,
            "roofline": {
                "tensor_s": roof.tensor_s,
                "sustained_tensor_s": roof.sustained_tensor_s,
                "tensor_efficiency": roof.tensor_efficiency,
                "ddr_s": roof.ddr_s,
                "roof": roof.roof,
                "share": self.roof_share,
                "compulsory_bytes": roof.compulsory_bytes,
                "flop_per_byte": roof.intensity,
                "ridge_flop_per_byte": roof.ridge,
            },
            "cost": {name: _plain(value) for name, value in self.cost.items()},
            "notes": list(self.notes),
        }


def explanation_text(explanation: Explanation) -> str:
    """The explanation as a page of text."""
    head = [
        f"{explanation.problem.title} on {explanation.gpu_name}, {explanation.family}",
        f"schedule  {explanation.schedule_text}",
        *what_if_lines(explanation.gpu_changes, explanation.clock),
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


def _verdict(at: Explanation) -> list[str]:
    roof = at.roof
    sustained = (
        f", {seconds_text(roof.sustained_tensor_s)} at the {100 * roof.tensor_efficiency:.1f} % a long main loop "
        "sustains (tensor_efficiency)"
    )
    lines = [
        f"latency   {seconds_text(at.latency_s)}, {at.tflop_per_s:.1f} TFLOP/s",
        *_trust(at),
        f"roofline  {at.roof_share:.1%} of the {roof.roof}",
        f"          {roof.engine} {seconds_text(roof.tensor_s)} at peak{sustained if roof.engine == TENSOR else ''}",
        f"          DDR {seconds_text(roof.ddr_s)} for {byte_text(roof.compulsory_bytes)} compulsory",
        f"          {roof.intensity:.0f} FLOP/B; the roofs meet at {roof.ridge:.0f} FLOP/B",
        f"binds     {at.binds}",
    ]
    return [*lines, *(f"change    {advice}" for advice in at.advice or ["nothing stands out"])]


def _trust(at: Explanation) -> list[str]:
    if not at.trust:
        return [f"trust     {without_interval(at.problem.kernel)}"]
    remarks = [f"extrapolates: {text}" for text in at.trust.extrapolates]
    remarks += [] if at.tuned else [SINGLE_SCHEDULE]
    return [f"trust     {at.trust.line(at.latency_s)}", *(f"          {remark}" for remark in remarks)]


def _pipelines(at: Explanation) -> list[str]:
    rows = [
        {
            "pipeline": PIPELINE_NAMES[name],
            "busy": seconds_text(seconds),
            "of latency": f"{seconds / at.latency_s:.1%}",
            "": "#" * round(40 * min(seconds / at.latency_s, 1.0)),
        }
        for name, seconds in at.pipelines.items()
    ]
    return [table(rows, left=("pipeline", ""))]


def _phases(at: Explanation) -> list[str]:
    rows = [
        {"phase": name, "time": seconds_text(seconds), "of latency": f"{seconds / at.latency_s:.1%}"}
        for name, seconds in at.phases.items()
    ]
    return [table(rows, left=("phase",))]


def _bytes(at: Explanation) -> list[str]:
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
    power_w = cost["energy_j"] / at.latency_s
    energy = f"energy    {cost['energy_j']:.3g} J, {power_w:.0f} W (rough)"
    if power_w > at.tdp_w:
        energy += f", above the {at.tdp_w:.0f} W limit, which so short a kernel feels in part: many in a row are slower"
    if at.throttled_s > NEGLIGIBLE * at.latency_s:
        share = at.throttled_s / at.latency_s
        energy += f"\n          the {at.tdp_w:.0f} W limit lowers the clock: {share:.1%} of the latency"
    workspace = f"workspace {byte_text(cost['workspace_bytes'])}, launch overhead {seconds_text(cost['launch_s'])}"
    return [table(rows, left=("traffic", "")), "", workspace, energy]


def _fit(at: Explanation) -> list[str]:
    cost = at.cost
    measured = [
        word
        for word, name in (("registers", "registers_measured"), ("shared memory", "smem_measured_bytes"))
        if at.schedule.get(name)
    ]
    lines = [
        f"occupancy {cost['ctas_per_sm']:.0f} CTA(s) an SM, limited by {cost['occupancy_limiter_name']}; "
        f"{cost['threads']:.0f} threads a CTA",
        f"footprint {cost['registers_per_thread']:.0f} registers a thread, {cost['smem_bytes']:.0f} B of shared memory",
        f"waves     {cost['waves']:.2f} on {cost['sms_used']:.0f} SMs",
    ]
    return [*lines, *([f"measured  {' and '.join(measured)}, as given"] if measured else [])]


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
