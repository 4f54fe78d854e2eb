"""Sections of docs/accuracy.md from the published tables that the project may not copy: schedules and bandwidth sweeps.

They are read from ../shared/data/measured; where that folder is not there, the page says so instead.
"""

from accuracy_text import Validation, markdown_table
from check_ranking import CURVES
from check_ranking import DATA as TABLES

from dse.content import load_gpu
from dse.validation.footprint import compare_curve, curve_of, read_footprint_curves
from dse.validation.ranking import ScheduleRanking, rank_measured
from dse.validation.schedule_tables import read_cute_sweep, read_cutlass_sweep


def ranking(of: Validation) -> str:
    """Single schedules ranked against measured ones."""
    del of
    head = "## Ranking of single schedules"
    if not TABLES.is_dir():
        return (
            f"{head}\n\nNot made here: the published tables may not be copied into the project and are not beside it."
        )
    cutlass = read_cutlass_sweep(TABLES / "cutlass_h100_schedules.csv", [2048, 6144])
    cute = read_cute_sweep(TABLES / "cutedsl_rtx3090_schedules.csv")
    lines = [
        *_lines("CUTLASS on H100", rank_measured(cutlass, load_gpu("h100_sxm"), launch="host")),
        _row("CuTe on RTX 3090, mean of 15 problems", rank_measured(cute, load_gpu("rtx_3090")).mean),
    ]
    return (
        f"{head}\n\nNothing was fitted on these. Regret: how much slower the predicted best is than the best; kept: "
        "what of the best performance is left when only the predicted best share is tried. Absolute times of single "
        "schedules are less sure than their order: see the bias. `scripts/check_ranking.py` says more.\n\n"
        f"{markdown_table(lines)}"
    )


def curves(of: Validation) -> str:
    """Streaming reads against footprint: capacity and memory level."""
    del of
    if not TABLES.is_dir():
        return ""
    measured = read_footprint_curves(TABLES / "l2_bandwidth_vs_footprint.csv")
    lines = []
    for name, device in CURVES:
        found = compare_curve(load_gpu(name), device, curve_of(measured, device))
        lines.append(
            {
                "GPU file": name,
                "sweep": device,
                "fall, MB": f"{found.predicted.fall_bytes / 1e6:.1f} / {found.measured.fall_bytes / 1e6:.1f}",
                "L2, TB/s": f"{found.predicted.l2_bytes_per_s / 1e12:.2f} / {found.measured.l2_bytes_per_s / 1e12:.2f}",
                "memory, TB/s": (
                    f"{found.predicted.ddr_bytes_per_s / 1e12:.2f} / {found.measured.ddr_bytes_per_s / 1e12:.2f}"
                ),
            }
        )
    return (
        "## L2 capacity and levels\n\nStreaming reads, predicted / measured. Effective L2 capacities and rates of "
        "these files come from the sweeps themselves, so they show consistency; the memory rates of A100 and "
        f"H200 were fitted on GEMMs and are a test.\n\n{markdown_table(lines)}"
    )


def _lines(title: str, found: ScheduleRanking) -> list[dict[str, str]]:
    return [_row(f"{title}, {entry.problem}", entry.quality) for entry in found.problems]


def _row(title: str, quality) -> dict[str, str]:
    return {
        "schedules": title,
        "Spearman": f"{quality.spearman:.2f}",
        "regret %": f"{quality.top1_regret:.1f}",
        **{f"kept by best {share} %": f"{quality.retained[share]:.1f}" for share in (1, 5, 10)},
        "bias %": f"{quality.bias:+.1f}",
    }
