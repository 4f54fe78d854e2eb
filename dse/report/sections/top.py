"""The best schedules: a table, and where the time of the distinct ones goes."""

from collections.abc import Iterable
from typing import Any

from ...explanation import PHASES, PIPELINE_NAMES
from ...front_measures import knees
from ..blocks import Block, Cell, Figure, Paragraph, Section, Table, number, words
from ..facts import RunFacts
from ..figures.front import knee_label
from ..figures.top import PHASES as PHASE_STYLES
from ..figures.top import Bar, draw_phases, draw_pipelines, height_in, shown_pipelines
from ..quantities import bytes_si, counted, micros, quantity_name, schedule_words, share, si, tile_name

TABLE_ROWS = 40
TEXT_COLUMNS = ("binds", "tile", "warps", "cluster", "raster", "launch")
BARS = 6
SHOWN_KNEES = 3
MUCH_SLOWER = 3.0  # times the best: a bar so long would hide all others


def top_section(facts: RunFacts) -> Section:
    """Table and breakdown of the best, of which there is at least one."""
    run, job = facts.run, facts.job
    bars = breakdown_bars(facts)
    ties = run.summary["top_ties_dropped"]
    kept = f"The {len(run.top)} best by {quantity_name(job.rank_by)} of {run.summary['feasible']:,} that fit."
    more = f" {counted(ties, 'more schedule')} tie with the last of them." if ties else ""
    blocks: list[Block] = [Paragraph(kept + more), _table(facts), _phases(bars), _pipelines(bars)]
    return Section("top", "The best schedules", tuple(blocks))


def breakdown_bars(facts: RunFacts) -> list[Bar]:
    """The distinct best, and of the front the knees and the least in every other objective: what a trade costs. Of
    these only schedules that are not much slower."""
    run, objectives = facts.run, list(facts.job.objectives)
    rows = run.top.to_dict("records")
    bars = [
        _bar(f"#{_places(places)} {tile_name(row)}, {_stages([rows[place] for place in places])}", row)
        for places, row in distinct(rows)[:BARS]
    ]
    if not len(run.front):
        return bars
    values = run.front[objectives].to_numpy(float)
    traded = [(f"knee {knee_label(rank)}", knee.place) for rank, knee in enumerate(knees(values)[:SHOWN_KNEES])]
    for place, name in enumerate(objectives):
        if name != facts.job.rank_by:
            traded.append((f"least {quantity_name(name)}", int(values[:, place].argmin())))
    slowest_s = MUCH_SLOWER * bars[0].latency_s
    for label, place in traded:
        row = run.front.iloc[place].to_dict()
        bar = _bar(f"{label}: {tile_name(row)}", row)
        if bar.latency_s <= slowest_s and all(bar.phases != other.phases for other in bars):
            bars.append(bar)
    return bars


def distinct(rows: Iterable[Any]) -> list[tuple[list[int], Any]]:
    """Rows of equal latency and phases once each, with their places, in the order in which they first come."""
    found: dict[tuple[float, ...], tuple[list[int], Any]] = {}
    for place, row in enumerate(rows):
        key = tuple(float(row[f"{name}_s"]) for name in ("latency", *PHASES))
        found.setdefault(key, ([], row))[0].append(place)
    return list(found.values())


def _bar(label: str, row: Any) -> Bar:
    return Bar(
        label,
        float(row["latency_s"]),
        {name: float(row[f"{name}_s"]) for name in PHASES},
        {name: float(row[f"pipeline_{name}_s"]) for name in PIPELINE_NAMES},
    )


def _stages(rows: list[Any]) -> str:
    numbers = sorted({int(row["stages"]) for row in rows})
    return f"{numbers[0]} stages" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]} stages"


def _places(places: list[int]) -> str:
    if len(places) == 1:
        return str(places[0])
    run = places == list(range(places[0], places[-1] + 1))
    return f"{places[0]}–{places[-1]}" if run else f"{places[0]} (+{len(places) - 1})"


def _table(facts: RunFacts) -> Table:
    top = facts.run.top
    has_interval = "latency_low_s" in top
    level = f"{100 * facts.trust.level:g} % interval, µs" if facts.trust and has_interval else ""
    head = ["#", "latency, µs", *([level] if level else []), "TFLOP/s", *schedule_words(top.iloc[0].to_dict())]
    head += ["binds", "L2 hit", "DDR", "SMEM"]
    rows = tuple(
        tuple(_cells(place, row, bool(level))) for place, row in enumerate(top.head(TABLE_ROWS).to_dict("records"))
    )
    left_out = len(top) - len(rows)
    return Table(
        "The best schedules and what is predicted of them",
        tuple(head),
        rows,
        numeric=frozenset(place for place, name in enumerate(head) if name not in TEXT_COLUMNS),
        more=f"{left_out:,} more rows are in top.parquet" if left_out > 0 else "",
    )  # fmt: skip


def _cells(place: int, row: Any, interval: bool) -> list[Cell]:
    latency_s = float(row["latency_s"])
    cells = [number(place, str(place)), number(latency_s, micros(latency_s))]
    if interval:
        low, high = float(row["latency_low_s"]), float(row["latency_high_s"])
        cells.append(number(low, f"{micros(low)} to {micros(high)}"))
    rate = float(row["flop"]) / latency_s / 1e12
    named = schedule_words(row)
    return [
        *cells,
        number(rate, f"{rate:.1f}"),
        *(number(row["stages"], text) if name == "stages" else words(text) for name, text in named.items()),
        words(row["bound_name"]),
        number(row["l2_hit"], share(float(row["l2_hit"]))),
        number(row["ddr_bytes"], bytes_si(float(row["ddr_bytes"]))),
        number(row["smem_bytes"], bytes_si(float(row["smem_bytes"]))),
    ]


def _phases(bars: list[Bar]) -> Figure:
    best = bars[0]
    said = ", ".join(
        f"{PHASE_STYLES[name][0]} {share(seconds, best.latency_s)}"
        for name, seconds in sorted(best.phases.items(), key=lambda at: -at[1])
        if seconds > 0
    )
    others = [f"{bar.label} takes {si(bar.latency_s, 's')}" for bar in bars if not bar.label.startswith("#")]
    message = f"The best takes {si(best.latency_s, 's')}: {said}."
    message += f" On the front, {'; '.join(others)}." if others else ""
    shown = [name for name in PHASE_STYLES if any(bar.phases[name] > 0 for bar in bars)]
    return Figure(
        "top-phases",
        "Where the time goes: phases of the best distinct schedules",
        message,
        lambda figure: draw_phases(figure, bars),
        _bar_table(bars, "Phases, µs", {name: PHASE_STYLES[name][0] for name in shown}, lambda bar: bar.phases),
        (7.4, height_in(bars) + 0.2),
    )


def _pipelines(bars: list[Bar]) -> Figure:
    best, shown = bars[0], shown_pipelines(bars)
    said = ", ".join(
        f"{PIPELINE_NAMES[name]} {share(best.pipelines[name], best.latency_s)}"
        for name in sorted(shown, key=lambda at: -best.pipelines[at])
    )
    return Figure(
        "top-pipelines",
        "How busy each pipeline is meanwhile",
        f"Demand over peak rate, as a share of the latency. Of the best: {said}.",
        lambda figure: draw_pipelines(figure, bars),
        _bar_table(
            bars, "Pipelines, busy µs", {name: PIPELINE_NAMES[name] for name in shown}, lambda bar: bar.pipelines
        ),
        (7.4, height_in(bars)),
    )


def _bar_table(bars: list[Bar], caption: str, names: dict[str, str], parts: Any) -> Table:
    rows = tuple(
        (
            words(bar.label),
            number(bar.latency_s, micros(bar.latency_s)),
            *(number(parts(bar)[name], micros(parts(bar)[name])) for name in names),
        )
        for bar in bars
    )
    return Table(caption, ("schedule", "latency, µs", *names.values()), rows, frozenset(range(1, 2 + len(names))))
