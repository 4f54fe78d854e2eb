"""What an engine fuses, runs apart or hides: a step's kernels as it launches them (numbers of `hardware/engines`)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..content.engine import Engine
from ..step_operators import MOE, Operator, Types
from .layouts import Layouts

NORMS = ("attention_norm", "ffn_norm")
SHARED = ("shared_gate_up", "shared_activation", "shared_down")


def engine_types(types: Types, engine: Engine) -> Types:
    """The types, narrow activations made by kernels of their own where the engine does so."""
    number = f"quantise_{types.dtype}"
    return replace(types, quantise_a=types.quantise_a or (number in engine.values and engine[number] > 0))


def engine_operators(operators: Sequence[Operator], layouts: Layouts, engine: Engine) -> list[Operator]:
    """The kernels, without the norms that an all-reduce does, gate and up one after the other where they are not one.

    Where tensor parallel GPUs sum a product, the norm after it is part of that kernel; with sequence parallelism, or
    without tensor parallelism, it is not.
    """
    fused = (engine["norm_in_all_reduce"] > 0) & (layouts["tp"] > 1) & (layouts["sequence_parallel"] == 0)
    found = []
    for operator in operators:
        if operator.layer in NORMS:
            sizes = {**operator.sizes, "rows": np.where(fused, 0, operator.sizes["rows"])}
            operator = replace(operator, sizes=sizes)
        elif operator.layer == "gate_up" and engine["gate_and_up_apart"] > 0:
            sizes = {**operator.sizes, "n": operator.sizes["n"] // 2}
            operator = replace(operator, sizes=sizes, times=2.0 * operator.times)
        found.append(operator)
    return found


def hidden_s(operators: Sequence[Operator], seconds: Sequence[np.ndarray], engine: Engine) -> np.ndarray | float:
    """Seconds of a layer with experts that a second stream hides: shared experts beside the routed ones, as far as
    those last."""
    if not engine["shared_experts_beside"]:
        return 0.0
    shared = routed = 0.0
    for operator, one in zip(operators, seconds, strict=True):
        if operator.where == MOE:
            shared = shared + one * (operator.layer in SHARED)
            routed = routed + one * (operator.layer == "experts")
    return np.minimum(shared, routed)
