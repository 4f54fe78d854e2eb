"""What if the machine were different: a few of its numbers varied, the schedule tuned anew and the schedule kept."""

from ...content.hardware_axis import HardwareAxis, parse_vary
from ...content.space import load_space
from ...errors import UserError
from ...progress import Progress
from ...question import ask
from ...space import Space
from ...studies.what_if.knees import Curve, curves_of
from ...studies.what_if.machines import varied_machines
from ...studies.what_if.shape import Shape
from ...studies.what_if.tuned import tune_machines
from ...text import quantity_text
from ..blocks import Cell, Figure, Paragraph, Section, Table, number, words
from ..facts import RunFacts
from ..figures.what_if import draw_curves, relative, size_in
from ..quantities import micros, si
from ..run_machine import machine_of

VARIED = (
    "l2_capacity_bytes=0.25x,0.5x,2x,4x",
    "ddr_bytes_per_s=0.5x,0.75x,1.5x,2x",
    "sm_count=0.5x,0.75x,1.5x,2x",
    "tensor_flop_per_clock_sm=0.5x,0.75x,1.5x,2x",
)
SPACES = ("auto", "whole", "quick", "none")
WHOLE_UP_TO = 12_000_000  # schedules: a larger space is tuned 17 times in half a minute or more
TITLE = "What if the machine were different"


def what_if_section(facts: RunFacts, choice: str = "auto", progress: Progress = None) -> Section | None:
    """Curves over the run's space, or over a coarse one that is named; a sentence where there can be none.

    Args:
        facts: of a run in which something fits.
        choice: "whole": the run's space; "quick": the preset of that name; "auto": whole up to 12 million schedules;
            "none": no section.
        progress: as in `dse.sweep.run_sweep`.
    """
    if choice == "none":
        return None
    found = machine_of(facts.run)
    if found is None:
        return _without(
            f"Not computed: there is no GPU file {facts.job.gpu_name!r} here that gives the run's numbers, so there is "
            "nothing to vary. dse whatif answers the same question for a GPU file."
        )
    gpu, overrides = found
    axes = [axis for axis in map(parse_vary, VARIED) if not any(_sets(name, axis) for name in overrides)]
    try:
        curves, space = _curves(facts, gpu.path or gpu.name, overrides, axes, choice, progress)
    except UserError as error:
        return _without(f"Not computed: {error}.")
    left_out = [axis.field for axis in map(parse_vary, VARIED) if axis not in axes]
    return Section("what-if", TITLE, (Paragraph(_intro(facts, space, curves, left_out)), _figure(curves)))


def _curves(
    facts: RunFacts, gpu: str, overrides: dict[str, str], axes: list[HardwareAxis], choice: str, progress: Progress
) -> tuple[tuple[Curve, ...], Space]:
    job = facts.job
    whole = choice == "whole" or (choice == "auto" and job.space.size <= WHOLE_UP_TO)
    space = job.space if whole else load_space(job.space.kernel, job.space.family, job.problem.dtype, preset="quick")
    machines = varied_machines(gpu, axes, overrides)
    how = {"family": job.space.family, "accumulator": facts.run.accumulator, "clock": job.clock}
    asked = tuple(ask(job.problem, gpu=machine.gpu, **how) for machine in machines)
    found = tune_machines(machines, [Shape(job.problem_name, 1.0, asked)], lambda _: space, progress)
    return curves_of(found, axes), space


def _without(text: str) -> Section:
    return Section("what-if", TITLE, (Paragraph(text),))


def _sets(name: str, axis: HardwareAxis) -> bool:
    return name == axis.field or (name.startswith("tensor.") and axis.field.startswith("tensor_flop"))


def _intro(facts: RunFacts, space: Space, curves: tuple[Curve, ...], left_out: list[str]) -> str:
    same = space.hash == facts.job.space.hash
    over = "the run's space" if same else f"the preset quick of {space.name}, coarser than the run's space"
    text = (
        f"One number varied at a time, the others as they are. Every schedule of {over} ({space.size:,}) was evaluated "
        "on every machine: tuned anew is the fastest there, the schedule kept is the fastest of the machine as it is. "
        "What follows a number (clusters follow the SMs, effective L2 capacity its nominal one) follows here too."
    )
    assert facts.best is not None
    now_s, best_s = _now_s(curves[0]), facts.best.latency_s
    text += "" if same else f" The fastest of the preset takes {si(now_s, 's')}, the run's best {si(best_s, 's')}."
    return text + (f" Not varied, because the run changes it: {', '.join(left_out)}." if left_out else "")


def _now_s(curve: Curve) -> float:
    return float(curve.totals[curve.totals["machine"] == 0]["latency_s"].iloc[0])


def _figure(curves: tuple[Curve, ...]) -> Figure:
    rows = tuple(
        (
            words(curve.axis.field),
            number(row["value"], _value(curve, row["value"])),
            number(row["latency_s"], micros(row["latency_s"])),
            _frozen(row["frozen_s"]),
            number(row["speedup"], f"{row['speedup']:.3f}"),
            words(bound),
            words(schedule),
        )
        for curve in curves
        for row, bound, schedule in zip(
            curve.totals.to_dict("records"), curve.table["bound"], curve.table["schedule"], strict=True
        )
    )
    table = Table(
        "Machines, latencies in µs",
        ("number varied", "value", "tuned anew", "schedule kept", "speed-up, tuned", "binds", "schedule, tuned anew"),
        rows,
        frozenset({1, 2, 3, 4}),
    )
    return Figure(
        "what-if-curves",
        "Latency against the machine's numbers: tuned anew, and the schedule kept",
        " ".join(map(_said, curves)),
        lambda figure: draw_curves(figure, curves),
        table,
        size_in(curves),
    )


def _said(curve: Curve) -> str:
    rows = curve.totals
    last = rows.iloc[-1]
    factor = float(last["value"]) / curve.now
    tuned = relative(curve, "latency_s")[-1]
    kept = relative(curve, "frozen_s")[-1]
    text = f"{factor:.3g} times {curve.axis.field}: {si(float(last['latency_s']), 's')}, {_change(tuned)}"
    if kept == kept and abs(kept / tuned - 1) > 0.0005:
        text += f" ({_change(kept)} with the schedule kept)"
    moves = [
        f"between {_value(curve, move.below)} and {_value(curve, move.above)} the bound moves from {move.before} to "
        f"{move.after}"
        for move in curve.moves
    ]
    return f"{'; '.join([text, *moves])}."


def _value(curve: Curve, value: float) -> str:
    return f"{value:g} times" if curve.now == 1.0 else quantity_text(value, curve.axis.unit)


def _frozen(seconds: float) -> Cell:
    return number(seconds, micros(seconds)) if seconds == seconds else words("cannot run")


def _change(times: float) -> str:
    if abs(times - 1) < 0.0005:
        return "no change"
    return f"{100 * abs(1 - times):.1f} % {'less' if times < 1 else 'more'}"
