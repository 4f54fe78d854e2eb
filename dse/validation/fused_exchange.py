"""Published times and rates of MoE dispatch and combine beside predictions.

What kind of kernel a row's is decides its transport; SMs are as published. Rates become times by the bytes that the
table's header says were counted. Rows from which a number of an implementation was derived get no prediction.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..content.gpu import load_gpu
from ..kernels.moe_exchange import ExchangeProblem, MoeCombine, MoeDispatch
from .fused_best import best_of_preset
from .fused_communication import Figure, Prediction


@dataclass(frozen=True)
class Kind:
    """How a published kernel moves rows, and whose numbers it has."""

    preset: str
    implementation: str = "none"
    sms: int = 24  # where none are published


KINDS = (  # beginning of the row's implementation -> its kind
    ("DeepEP V1, low-latency", Kind("low_latency")),
    ("pplx-kernels over NVLink", Kind("low_latency", "pplx")),
    ("pplx", Kind("low_latency")),
    ("Triton-distributed", Kind("low_latency")),
    ("Hybrid-EP", Kind("tma", "hybrid_ep")),
    ("kraken", Kind("tma", sms=132)),
    ("", Kind("normal", "deepep")),
)
DERIVED = (  # (beginning of the implementation, its SMs or tokens): a number was derived from these rows
    ("DeepEP, from PyTorch", "moe_dispatch", "comm_sms", 16),
    ("Hybrid-EP, kernel alone", "moe_dispatch", "comm_sms", 16),
    ("pplx-kernels over NVLink", "moe_dispatch", "tokens_per_rank", 1),
)
CHUNK_ROWS = {"moe_dispatch": 16, "moe_combine": 4}  # DeepEP's chunks over NVLink: 4 to 32 rows, and 1 to 12


def predict_exchange(rows: Sequence[Figure]) -> list[Prediction | None]:
    """A `Predictor` of dispatch and combine."""
    return [None if _derived_from(row) else _predict(row) for row in rows]


def problem_of(row: Figure, implementation: str) -> ExchangeProblem:
    """The problem of a row."""
    kind = MoeCombine if row.kernel == "moe_combine" else MoeDispatch
    shape = f"{row['tokens_per_rank'] * row.ranks}x{row['hidden']}x{row['experts']}x{row['top_k']}"
    return kind.from_shape(
        shape,
        dtype=row.dtype,
        ranks=row.ranks,
        fabric=row.fabric,
        network=row.get("network", ""),
        group_limit=row.get("group_limit", 0),
        implementation=implementation,
    )


def counted_bytes(row: Figure, problem: ExchangeProblem) -> float:
    """The bytes that a published rate counts, of one rank.

    Args:
        problem: placed on its GPU.
    """
    ranks, nodes = problem.holders
    copies = {"nvlink_rows": ranks, "network_rows": nodes, "expert_rows": float(problem.topk)}[row["counts"]]
    return row["tokens_per_rank"] * copies * problem.row_bytes


def _predict(row: Figure) -> Prediction:
    kind = next(kind for name, kind in KINDS if row.implementation.startswith(name))
    problem = problem_of(row, kind.implementation)
    fields: dict[str, float] = {}
    if kind.preset != "low_latency":
        fields["comm_sms"] = row.get("comm_sms", kind.sms)
    if kind.preset == "normal":
        fields["chunk_rows"] = CHUNK_ROWS[row.kernel]
    found = best_of_preset(row, problem, "simt", kind.preset, fields)
    measured_s = row.value
    if row.unit == "bytes_per_s":
        measured_s = counted_bytes(row, problem.on(load_gpu(row.gpu), row.fabric_overrides)) / row.value
    return Prediction(measured_s, found.predicted_s, found.how)


def _derived_from(row: Figure) -> bool:
    return any(
        row.implementation.startswith(name)
        and row.kernel == kernel
        and row.get(key) == value
        and row.fabric != "nvl72"
        and "network" not in row.values
        for name, kernel, key, value in DERIVED
    )
