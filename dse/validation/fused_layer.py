"""Published times of layers of experts on several GPUs beside predictions: whole layers, and dispatch with a product.

The tiles are the best of the preset that stands for the kernels, with the tile and the SMs that move rows where those
are published. The computing kernels have the numbers of the nearest implementation, without what a framework adds.
Tokens choose their experts by chance, as in the published tests.
"""

from collections.abc import Sequence

from ..kernels.moe_ep import ExpertLayerProblem
from .fused_best import best_of_preset
from .fused_communication import Figure, Prediction

FAMILY = {"h100_sxm": "wgmma", "h200_sxm": "wgmma", "b200_sxm": "tcgen05"}
DIRECT, PER_EXPERT = 0, 0  # codes of `transport` and `copies`: kernels that pull a token's row for every expert
NEAREST = {"h100_sxm": "trtllm_deepgemm", "h200_sxm": "trtllm_deepgemm"}
PULLS = {"transport": DIRECT, "copies": PER_EXPERT, "queue_rows": 16, "own_first": 0}
KERNELS_ALONE = {"implementation.framework_s": 0.0}


def predict_layer(rows: Sequence[Figure]) -> list[Prediction | None]:
    """A `Predictor` of `dispatch_grouped_gemm` and `moe_layer`; none for experts that several ranks share."""
    return [_predict(row) for row in rows]


def _predict(row: Figure) -> Prediction | None:
    if row.get("tp", 1) > 1:
        return None
    return _layer(row) if row.kernel == "moe_layer" else _dispatch(row)


def _layer(row: Figure) -> Prediction:
    """DeepGEMM's kernels of a whole layer: gated, fp8 in blocks, the activation in an epilogue; two launches count as
    one."""
    whose = NEAREST.get(row.gpu, "none")
    problem = _problem(row, "fp8_block", part="layer", gated=True, implementation=whose)
    fields = {**PULLS, "chunks": 64, "one_kernel": 1}
    alone = KERNELS_ALONE if whose != "none" else {}
    return best_of_preset(row, problem, FAMILY[row.gpu], "mega", fields, alone, "fp8_block")


def _dispatch(row: Figure) -> Prediction:
    """A dispatch and one product that is not gated, with a given tile."""
    problem = _problem(row, row.dtype, part="dispatch", gated=False)
    fields = {**PULLS, "chunks": 64, "comm_sms": row.get("comm_sms", 16), "one_kernel": 1}
    if "tile" in row.values:
        sides = (int(side) for side in row["tile"].split("x"))
        fields |= dict(zip(("tile_m", "tile_n", "tile_k"), sides, strict=True))
    return best_of_preset(row, problem, FAMILY[row.gpu], "cutlass", fields)


def _problem(row: Figure, dtype: str, **choices: str | bool) -> ExpertLayerProblem:
    tokens = row["tokens_per_rank"] * row.ranks
    shape = f"{tokens}x{row['hidden']}x{row['intermediate']}x{row['experts']}x{row['top_k']}"
    return ExpertLayerProblem.from_shape(
        shape, dtype=dtype, ranks=row.ranks, fabric=row.fabric, distribution="uniform", **choices
    )
