"""The roofline with the candidates on it."""

from typing import Any

from ..blocks import Figure, Paragraph, Section, Table, number, words
from ..facts import RunFacts
from ..figures.roofline import Points, draw_roofline
from ..quantities import micros, share, si, tile_name

TABLE_ROWS = 60


def roofline_section(facts: RunFacts) -> Section:
    """How far the best, the front and the other good ones are from what the machine could do."""
    roof = facts.roof
    limits = (
        f"{facts.job.problem.shape} is {si(roof.flop, 'FLOP')}. At the tensor peak that takes "
        f"{si(roof.tensor_s, 's')}, at the {share(roof.tensor_efficiency)} of it that a long main loop sustains "
        f"{si(roof.sustained_tensor_s, 's')}; the compulsory "
        f"{si(roof.compulsory_bytes, 'B', 3)} of DDR traffic takes {si(roof.ddr_s, 's')}. "
        f"The roofs meet at {roof.ridge:,.0f} FLOP a "
        f"byte, the problem has {roof.intensity:,.0f}: the {roof.roof} is its roof."
    )  # fmt: skip
    return Section("roofline", "Roofline", (Paragraph(limits), _figure(facts)))


def _figure(facts: RunFacts) -> Figure:
    roof, run = facts.roof, facts.run
    top, front = (
        _points(f"the best {len(run.top)}", run.top),
        _points(f"the front, {len(run.front):,} points", run.front),
    )
    best = run.top.iloc[0]
    intensity = float(best["flop"]) / float(best["ddr_bytes"])
    message = (
        f"The best reaches {top.tflop_per_s[0]:,.1f} TFLOP/s, {share(roof.roof_s, float(best['latency_s']))} of the "
        f"{roof.roof}, at {intensity:,.0f} FLOP a byte of DDR traffic; with compulsory traffic alone it would be "
        f"{roof.intensity:,.0f}. "
    )  # fmt: skip
    attainable = min(roof.peak_flop_per_s, intensity * roof.ddr_bytes_per_s) / 1e12
    bound = "the tensor roof" if intensity > roof.ridge else "the DDR roof"
    message += f"At its own intensity {bound}, {attainable:,.0f} TFLOP/s, is above it."
    data = run.front.sort_values("latency_s", kind="stable").head(TABLE_ROWS)
    table = Table(
        "The front's points on the roofline, fastest first",
        ("schedule", "latency, µs", "FLOP a DDR byte", "TFLOP/s", "of the roof at this intensity"),
        tuple(_row(row, roof) for row in data.to_dict("records")),
        frozenset({1, 2, 3, 4}),
        more=f"{len(run.front) - len(data):,} more are in front.parquet" if len(run.front) > len(data) else "",
    )
    return Figure(
        "roofline-candidates",
        "Candidates under the roofs",
        message,
        lambda figure: draw_roofline(figure, roof, front, top),
        table,
        (7.4, 4.0),
    )


def _points(label: str, table: Any) -> Points:
    flop = table["flop"].to_numpy(float)
    intensity, rate = flop / table["ddr_bytes"].to_numpy(float), flop / table["latency_s"].to_numpy(float) / 1e12
    return Points(label, [float(at) for at in intensity], [float(at) for at in rate])


def _row(row: Any, roof: Any) -> tuple:
    intensity, rate = float(row["flop"]) / float(row["ddr_bytes"]), float(row["flop"]) / float(row["latency_s"])
    attainable = min(roof.peak_flop_per_s, intensity * roof.ddr_bytes_per_s)
    return (
        words(tile_name(row)),
        number(row["latency_s"], micros(float(row["latency_s"]))),
        number(intensity, f"{intensity:,.0f}"),
        number(rate, f"{rate / 1e12:.1f}"),
        number(rate / attainable, share(rate, attainable)),
    )
