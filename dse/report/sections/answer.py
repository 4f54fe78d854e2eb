"""The head of a report: what was found, how far to trust it, what binds, what to change."""

from ...schedule_text import format_schedule
from ...summary import advice
from ..blocks import Block, Facts, Notice, Paragraph, Section
from ..facts import RunFacts
from ..quantities import NO_BREAK, bytes_si, counted, quantity_name, share, si


def answer_section(facts: RunFacts) -> Section:
    """What a reader wants to know who reads nothing else."""
    blocks: list[Block] = [*notices(facts)]
    if facts.best is None:
        title = "Nothing fits so far" if facts.incomplete else "Nothing fits"
        return Section("answer", title, (*blocks, Facts(_question(facts))))
    blocks += [
        Paragraph(_in_a_sentence(facts)),
        Facts(_figures(facts), large=True),
        Facts((*_verdict(facts), *_question(facts))),
    ]
    return Section("answer", "The answer", tuple(blocks))


def notices(facts: RunFacts) -> list[Notice]:
    """What makes the numbers something else than what they seem."""
    summary, found = facts.run.summary, []
    if facts.incomplete:
        evaluated, of = summary["evaluated"], facts.job.candidates
        found.append(
            f"The sweep was interrupted: {evaluated:,} of {of:,} schedules ({share(evaluated, of)}) were evaluated. "
            "The best and the front are those of this part; the same command goes on."
        )
    if facts.best is None and summary["evaluated"]:
        found.append(f"{'None of these' if facts.incomplete else 'No schedule'} can run. {_why_none(facts)}")
    if facts.run.stale:
        found.append(
            "The model's code has changed since this run: tables of the run and what is computed for this page "
            "(explanation, timeline, what-if, sensitivity) differ. Sweep again for numbers that agree."
        )
    found += [f"Extrapolated: {text}" for text in (facts.trust.extrapolates if facts.trust else ())]
    return [Notice(text) for text in found]


def _why_none(facts: RunFacts) -> str:
    name, count = next(iter(facts.run.summary["reasons"].items()))
    return f"Most often for {name} ({count:,} of {facts.run.summary['evaluated']:,}): {advice(name)}."


def _in_a_sentence(facts: RunFacts) -> str:
    best, feasible = facts.best, int(facts.run.summary["feasible"])
    assert best is not None
    measured = "" if facts.trust is None else f" ({_interval(facts)} when measured)"
    return (
        f"The best of {counted(feasible, 'schedule')} that can run takes {si(best.latency_s, 's')}{measured}, "
        f"{share(best.roof_share)} of the {facts.roof.roof}. What binds it: {best.binds}."
    )


def _verdict(facts: RunFacts) -> tuple[tuple[str, str, str], ...]:
    best, top = facts.best, facts.run.top
    assert best is not None
    ties = int((top[facts.job.rank_by] == top[facts.job.rank_by].iloc[0]).sum())
    first, *others = best.advice or ["nothing stands out"]
    return (
        ("best schedule", format_schedule(best.schedule), f"one of {ties} that tie" if ties > 1 else ""),
        ("what binds", best.binds, ""),
        ("what to change", first, "; ".join(others)),
    )


def _question(facts: RunFacts) -> tuple[tuple[str, str, str], ...]:
    job, problem, summary = facts.job, facts.job.problem, facts.run.summary
    beta = " + C" if problem.beta else ""
    types = f"{problem.dtype} → {problem.out_dtype}{beta}, {facts.run.accumulator} accumulation"
    how = [f"layout {problem.layout}", f"L2 at the start {problem.cache}"]
    how += [f"rows aligned to {problem.align_bytes} B"] if problem.align_bytes is not None else []
    how += ["A quantised before it"] if problem.quantise_a else []
    bound = f"{job.gpu_name}, instruction family {job.space.family}, clock {job.clock}"
    declared, evaluated, feasible = (int(summary[name]) for name in ("declared", "evaluated", "feasible"))
    can_run = f"{evaluated:,} evaluated, {feasible:,} can run ({share(feasible, evaluated)})"
    front = f"and the front over {', '.join(map(quantity_name, job.objectives))}"
    changed = "; ".join(job.gpu_changes)
    return (
        ("problem", f"GEMM {problem.shape}, {types}", ", ".join(how)),
        ("machine", facts.gpu_title, bound),
        *([("what if", changed, "changed on the machine for this run")] if changed else []),
        ("space", f"{job.space.name}, {declared:,} schedules", can_run),
        ("asked for", f"the best {job.top} by {quantity_name(job.rank_by)}", front),
    )


def _figures(facts: RunFacts) -> tuple[tuple[str, str, str], ...]:
    best, roof = facts.best, facts.roof
    assert best is not None
    latency_s, cost = best.latency_s, {name: best.cost[name] for name in ("ddr_bytes", "l2_hit", "l15_hit", "energy_j")}
    ddr_bytes, l2_hit, l15_hit, energy_j = (float(value) for value in cost.values())
    traffic = f"{ddr_bytes / roof.compulsory_bytes:.2f} × the compulsory {bytes_si(roof.compulsory_bytes)}"
    points = facts.run.summary["front_points"]
    watts, limit = energy_j / latency_s, f"{best.tdp_w:,.0f}{NO_BREAK}W"
    above = f"above the limit of {limit}, which so short a kernel feels in part"
    power = f"{watts:,.0f}{NO_BREAK}W, rough; {above if watts > best.tdp_w else f'limit {limit}'}"
    return (
        ("latency", si(latency_s, "s"), _interval(facts)),
        ("useful rate", f"{best.tflop_per_s:,.1f} TFLOP/s", f"{share(best.roof_share)} of the {roof.roof}"),
        ("DDR traffic", bytes_si(ddr_bytes), traffic),
        ("L2 hit rate", share(l2_hit), f"of all requests, {share(l15_hit)} already in L1.5"),
        ("energy", si(energy_j, "J", 3), power),
        ("front", counted(points, "point"), f"over {counted(len(facts.job.objectives), 'objective')}"),
    )


def _interval(facts: RunFacts) -> str:
    if facts.trust is None or facts.best is None:
        return "no residuals: no interval"
    low, high = (float(end) for end in facts.trust.interval(facts.best.latency_s))
    return f"{100 * facts.trust.level:g}{NO_BREAK}% interval {si(low, 's')} to {si(high, 's')}"
