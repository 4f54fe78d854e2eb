"""Published times of GEMMs that communicate beside predictions: all-gather before, reduce-scatter or all-reduce after.

What kind of kernel a row's is decides its transport; SMs that communicate and tiles are as published, and of what is
left the fastest schedule is taken.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..content.gpu import load_gpu
from ..kernels.fused_communication import AllGatherGemm, FusedGemmProblem, GemmAllReduce, GemmReduceScatter
from .fused_best import best_of_preset
from .fused_communication import Figure, Prediction

PROBLEMS: dict[str, type[FusedGemmProblem]] = {
    "ag_gemm": AllGatherGemm,
    "gemm_rs": GemmReduceScatter,
    "gemm_ar": GemmAllReduce,
}
COPY_ENGINES, SMS, SWITCH = range(3)  # codes of `transport`


@dataclass(frozen=True)
class Kind:
    """How a published kernel moves data: the preset that stands for it, and what of its schedule is known."""

    preset: str
    fields: dict[str, int] = field(default_factory=dict)


SWITCHED = Kind("in_switch", {"transport": SWITCH})
KINDS = {  # kernel -> beginning of the row's implementation -> its kind
    "ag_gemm": (
        ("flux", Kind("flux")),
        ("ThunderKittens", Kind("sm_driven", {"transport": SWITCH})),
        ("PyTorch, multimem", Kind("apart", {"transport": SWITCH})),
        ("", Kind("triton_distributed")),
    ),
    "gemm_rs": (
        ("flux", Kind("flux")),
        ("mKernel", Kind("flux", {"transport": SMS})),
        ("ThunderKittens", Kind("flux", {"transport": SMS})),
        ("vLLM", SWITCHED),
        ("", Kind("triton_distributed", {"transport": COPY_ENGINES})),
    ),
    "gemm_ar": (("", SWITCHED),),
}


def predict_matmul(rows: Sequence[Figure]) -> list[Prediction]:
    """A `Predictor` of all-gather + GEMM, GEMM + reduce-scatter and GEMM + all-reduce."""
    return [_predict(row) for row in rows]


def predict_apart(rows: Sequence[Figure]) -> list[Prediction | None]:
    """A `Predictor` of what rows were compared with: the library's GEMM and its collective, one after the other."""
    found = []
    for row in rows:
        together_s = row.get("unfused_s")
        as_figure = replace(row, value=together_s)
        family = load_gpu(row.gpu).families(row.dtype)[0]
        found.append(best_of_preset(as_figure, _problem(row), family, "apart", {}) if together_s else None)
    return found


def _problem(row: Figure) -> FusedGemmProblem:
    shape = f"{row['m']}x{row['n']}x{row['k']}"
    cache = "cold" if row.get("cold_l2") else "a_warm"
    return PROBLEMS[row.kernel].from_shape(shape, dtype=row.dtype, ranks=row.ranks, fabric=row.fabric, cache=cache)


def _predict(row: Figure) -> Prediction:
    kind = next(kind for beginning, kind in KINDS[row.kernel] if row.implementation.startswith(beginning))
    known = dict(kind.fields)
    if row.get("comm_sms"):
        known["comm_sms"] = row["comm_sms"]
    family = load_gpu(row.gpu).families(row.dtype)[0]
    return best_of_preset(row, _problem(row), family, kind.preset, {**known, **_tile(row, family)})


def _tile(row: Figure, family: str) -> dict[str, int]:
    """The published tile of a CTA; none with tcgen05, where rows give that of a pair."""
    sides = [int(side) for side in re.findall(r"\d+", row.get("tile", ""))[:2]]
    if len(sides) < 2 or family == "tcgen05":
        return {}
    return {"tile_m": sides[0], "tile_n": sides[1]}
