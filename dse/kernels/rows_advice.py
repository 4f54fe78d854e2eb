"""What `explain` says of a memory-bound kernel's schedule beside what every kernel's cost says; see `dse.advice`."""

from ..about_schedule import GOOD_TRAFFIC, About, Remarks

BINDS = {
    "latency": "load latency: the vectors in flight do not cover the way to memory and back",
    "smem": "the SM's L1 data path, which shared memory shares",
}
FULL = 0.9  # share of the latency from which DRAM leaves nothing to win


def remarks(about: About) -> Remarks:
    """Key -> share of the latency and remark."""
    at, bound = about.schedule, about.bound
    found = {"bound": (1.0 if _bound_text(about) else 0.0, _bound_text(about))}
    if float(about.cost["pipeline_ddr_s"]) > FULL * float(about.cost["latency_s"]):
        return found | dict.fromkeys(("prologue", "epilogue", "tail"), (0.0, ""))
    writes = 0.0 if bound == "latency" else about.share("epilogue_s")
    return found | {
        "prologue": (
            about.share("prologue_s"),
            "is waiting for the first loads: more rows or steps a CTA, or persistent",
        ),
        "epilogue": (
            writes,
            f"is writing rows that nothing hides: more CTAs an SM, now {about.cost['ctas_per_sm']:.0f}",
        ),
        "reduction": (about.share("reduction_s"), f"is adding up {int(at['splits'])} parts of a row: fewer splits"),
        "helpers": (about.share("helpers_s"), "is the pass that finds the scale: a scale a row or a group needs none"),
    }


def _bound_text(about: About) -> str:
    at, cost = about.schedule, about.cost
    if about.bound == "ddr":
        if about.traffic <= GOOD_TRAFFIC:
            return "DRAM moves hardly more than it must: fuse it with its neighbours, or narrow its types"
        return (
            f"rows are read again from DRAM (it moves {about.traffic:.2f} times the least): keep=registers or keep=smem"
        )
    texts = {
        "latency": f"more bytes in flight: wider vectors (now {int(at['vector_bytes'])} B), more unroll (now "
        f"{int(at['unroll'])}) or stages (now {int(at['stages'])}), or more CTAs an SM (now {cost['ctas_per_sm']:.0f}, "
        f"limited by {cost['occupancy_limiter_name']})",
        "cuda": "fewer instructions an element: wider vectors share addresses and bounds",
        "smem": "wider vectors, and rows kept in registers",
    }
    return texts.get(about.bound, "")
