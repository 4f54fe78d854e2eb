"""The timeline of the best schedule: the kernel's parts, and one SM's K-steps."""

from ...schedule_text import format_schedule
from ..blocks import Figure, Paragraph, Section, Table, number, words
from ..facts import RunFacts, schedule_of
from ..figures.timeline import draw_kernel, draw_sm, row_names, windows
from ..quantities import counted, micros, share, si
from ..tile_program import tile_program
from ..timeline import Step, Timeline, timeline

TABLE_STEPS = 24


def best_timeline(facts: RunFacts) -> Timeline | None:
    """The timeline of the run's best schedule; None where nothing fits."""
    if facts.best is None:
        return None
    schedule = schedule_of(facts.best.schedule)
    return timeline(tile_program(facts.job.problem, schedule, facts.job.gpu, facts.best.cost))


def timeline_section(facts: RunFacts, line: Timeline) -> Section:
    """Two figures: the whole kernel, and the wave whose tiles run in step."""
    program = line.program
    load, flight, compute = (
        si(seconds, "s", 3) for seconds in (program.load_s, program.latency_s_of_load, program.compute_s)
    )
    counts = f"{counted(program.resident, 'tile')} an SM, {counted(program.iterations, 'K-step')} a tile"
    intro = (
        "The model's own recurrence for the best schedule, step by step: a load waits for the load engines and for a "
        "free buffer, the tensor cores wait for the load and for their last step. "
        f"{counts}, {counted(program.stages, 'buffer')} a tile; a K-step loads for {load}, is in flight for {flight} "
        f"more and computes for {compute}. The tensor-core row shows what the slowest of MMAs, shared memory and CUDA "
        "cores takes."
    )
    return Section("timeline", "Timeline of one SM", (Paragraph(intro), _kernel(line), _sm(facts, line)))


def _kernel(line: Timeline) -> Figure:
    program = line.program
    said = ", ".join(f"{name} {si(seconds, 's', 3)}" for name, seconds in program.parts.items())
    message = f"{si(program.latency_s, 's')} in order: {said}."
    if program.middle_waves > 0:
        period = "period" if program.middle_waves == 1 else "periods"
        message += f" The waves before are {program.middle_waves:,.4g} {period} of {si(program.period_s, 's')}."
    if program.throttle_s > 0:
        message += " What the power limit adds is spread over the main loops; it is drawn at the end."
    table = Table(
        "The parts of the latency",
        ("part", "µs", "share"),
        tuple(
            (words(name), number(seconds, micros(seconds)), number(seconds, share(seconds, program.latency_s)))
            for name, seconds in program.parts.items()
        ),
        frozenset({1, 2}),
        sortable=False,
    )
    return Figure(
        "timeline-kernel",
        "The kernel from launch to end",
        message,
        lambda figure: draw_kernel(figure, line),
        table,
        (7.4, 1.25),
    )


def _sm(facts: RunFacts, line: Timeline) -> Figure:
    program, first, last = line.program, line.steps[0], line.steps[len(line.steps) - 1]
    every = (
        f"then a K-step every {si(_steady_s(line), 's')}; the last" if len(line.steps) > 1 else "it is the only one and"
    )
    message = (
        f"The first load is issued {si(first.load_start_s, 's', 3)} after the CTA's launch, its K-step is computed "
        f"from {si(first.mma_start_s, 's')} on; {every} ends at {si(last.mma_end_s, 's')}, the last store at "
        f"{si(line.end_s, 's')}. {_starved(line)}"
    )
    shown = [
        step for window in windows(line) for step in line.steps if window.start_s <= step.mma_start_s < window.end_s
    ]
    schedule = format_schedule(facts.best.schedule) if facts.best else ""
    table = Table(
        f"K-steps of {schedule}, µs from the launch of the wave's CTAs",
        ("tile", "K-step", "buffer", "load from", "load to", "arrived", "MMA from", "MMA to"),
        tuple(_row(step, program.resident) for step in shown[:TABLE_STEPS]),
        frozenset(range(8)),
        more=f"the trace file of --trace holds all {len(line.steps):,}" if len(line.steps) > TABLE_STEPS else "",
    )  # fmt: skip
    height = 1.05 + 0.24 * len(row_names(line))
    return Figure(
        "timeline-sm",
        "One SM during the last full wave",
        message,
        lambda figure: draw_sm(figure, line),
        table,
        (7.4, height),
    )


def _steady_s(line: Timeline) -> float:
    """Seconds a K-step from the first computed to the last: what it is in the long run, refills included."""
    return (line.steps[len(line.steps) - 1].mma_end_s - line.steps[0].mma_end_s) / max(len(line.steps) - 1, 1)


def _starved(line: Timeline) -> str:
    if len(line.steps) < 2:
        return ""
    idle = 1.0 - line.program.compute_s / _steady_s(line)
    return f"The tensor cores compute for {share(1.0 - idle)} of the main loop."


def _row(step: Step, tiles: int) -> tuple:
    times = (step.load_start_s, step.load_end_s, step.ready_s, step.mma_start_s, step.mma_end_s)
    return (
        number(step.tile, str(step.tile)),
        number(step.iteration, str(step.iteration)),
        number(step.buffer, str(step.buffer // tiles)),
        *(number(at, f"{at * 1e6:.4f}") for at in times),
    )
