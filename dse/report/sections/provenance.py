"""How far to trust the numbers, and how they were made."""

from ...latency_bucket import BUCKETS
from ..blocks import Block, Bullets, Facts, Folded, Paragraph, Section, Table, number, words
from ..facts import RunFacts


def trust_section(facts: RunFacts) -> Section:
    """Whose residuals the intervals come from, what they extrapolate, and the interval of every latency bucket."""
    label = facts.trust
    if label is None:
        text = "There are no residuals for these predictions: latencies stand without an interval."
        return Section("trust", "How far to trust it", (Paragraph(text),))
    about, *_ = label.about()
    blocks: list[Block] = [Paragraph(f"{about[0].upper()}{about[1:]}.")]
    if facts.best is not None:
        blocks.append(Paragraph(f"The best schedule: {label.line(facts.best.latency_s)}."))
    blocks.append(
        Bullets("Extrapolated", label.extrapolates or ("nothing: the question lies inside of what was measured",))
    )
    blocks.append(
        Paragraph(
            "The interval is a tuned kernel's: the fastest schedule of a space was held against the best library "
            "kernel. Intervals of other schedules in these tables were not validated one by one."
        )
    )
    rows = tuple(
        (
            words(at.bucket),
            number(at.low, f"{at.low:.3f}"),
            number(at.high, f"{at.high:.3f}"),
            number(at.rows, f"{at.rows:,}"),
            number(at.pairs, f"{at.pairs:,}"),
        )
        for at in sorted(label.buckets, key=lambda at: BUCKETS.index(at.bucket))
    )  # fmt: skip
    whose = f"{label.validated_gpu}, {label.validated_dtype}, class {label.shape_class}"
    table = Table(
        f"Measured over predicted latency: where {100 * label.level:g} % lie ({whose})",
        ("predicted latency, µs", "from", "to", "measured shapes", "distinct (n, k)"),
        rows,
        frozenset({1, 2, 3, 4}),
        sortable=False,
    )  # fmt: skip
    return Section("trust", "How far to trust it", (*blocks, table))


def provenance_section(facts: RunFacts) -> Section:
    """What is needed to make the run again, and to see what differs when it comes out otherwise."""
    made, summary = facts.made, facts.run.summary
    seed = made.get("seed")
    rate = f"{summary['candidates_per_s']:,.0f} a second, {summary['executor']}"
    where = f"{made.get('platform', '')}, {made.get('cpu', '')}, jax on {made.get('device', '')}"
    entries = [
        ("command", made.get("command_line") or "not recorded (made from Python)", ""),
        ("seed", "none" if seed is None else str(seed), "an exhaustive sweep draws nothing" if seed is None else ""),
        ("indices", f"{made['range'][0]} to {int(made['range'][1]) - 1}", f"of {int(made['space_size']):,}"),
        ("evaluated", f"{summary['evaluated']:,} schedules in {summary['seconds']:.2f} s", rate),
        ("made", str(made.get("created", "")), where),
        ("commit", str(made.get("commit") or "not a checkout"), ""),
        ("model", str(made["model_hash"]), "SHA-256 of the sources" + (": changed since" if facts.run.stale else "")),
        ("space", str(made["space_hash"]), str(made["space"])),
        ("GPU", str(made["gpu_hash"]), str(made["gpu"])),
        ("residuals", str(made.get("residuals") or "none"), ""),
    ]  # fmt: skip
    versions = tuple((words(name), words(version)) for name, version in made.get("versions", {}).items())
    table = Table("Versions", ("package", "version"), versions, sortable=False)
    return Section("provenance", "Provenance", (Facts(tuple(entries)), Folded("Versions of packages", (table,))))
