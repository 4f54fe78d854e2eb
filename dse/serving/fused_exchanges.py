"""Products that communicate while they compute (`overlap` "fused"): all-gather + GEMM and GEMM + reduce-scatter in
place of a collective and a GEMM, tuned as kernels of their own.

With sequence parallelism a layer's sums are scattered after its attention and its feed-forward part, and tokens are
gathered before the next product. The products on either side take these in: the output projections scatter their
sums; gate and up, and in models without experts queries, keys and values too, gather their tokens.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..content.fabric import Fabric
from ..kernels.fabric_problem import link_numbers
from ..step_operators import DENSE, EVERY_LAYER, MOE, Operator
from .collective_times import Exchange
from .layouts import FUSED, Layouts

SCATTERING = {"o": "attention_out_scattered", "down": "ffn_out_scattered"}  # product -> the collective it takes in
GATHERING = {"gate_up": "attention_out_gathered", "qkv": "ffn_out_gathered"}


def fused_step(
    operators: Sequence[Operator], exchanges: Sequence[Exchange], layouts: Layouts, fabric: Fabric
) -> tuple[list[Operator], list[Exchange]]:
    """A step's kernels and collectives where layouts fuse them; as they are where no layout does.

    Args:
        operators, exchanges: of `dse.step_operators` and `dse.serving.exchanges`.
        layouts: as many as their arrays have numbers.
        fabric: its inner level joins the ranks of a fused kernel.

    Raises:
        UserError: the level has none of the numbers that fused kernels need.
    """
    fused = layouts["overlap"] == FUSED
    if not fused.any():
        return list(operators), list(exchanges)
    experts = any(operator.where == MOE for operator in operators)
    products = {**SCATTERING, **GATHERING}
    if experts:  # tokens come from experts, not from a product that could hand them on
        del products["qkv"]
    level = fabric.levels[0]
    choices = (("fabric", level.path or level.name), ("fabric_numbers", tuple(link_numbers(level).items())))
    found: list[Operator] = []
    for operator in operators:
        if operator.layer not in products or operator.kernel != "gemm":
            found.append(operator)
            continue
        found.append(replace(operator, sizes=_where(operator.sizes, ~fused)))
        found.append(_fused(operator, layouts["tp"], fused, choices))
    return found, [one for exchange in exchanges for one in _left(exchange, products, fused, experts)]


def _fused(operator: Operator, tp: np.ndarray, fused: np.ndarray, choices: tuple[tuple[str, Any], ...]) -> Operator:
    kernel, shared = ("gemm_rs", "k") if operator.layer in SCATTERING else ("ag_gemm", "n")
    sizes = {name: operator.sizes[name] for name in ("m", "n", "k")}
    sizes[shared] = sizes[shared] * tp
    sizes["ranks"] = tp
    return replace(operator, kernel=kernel, sizes=_where(sizes, fused), choices=choices)


def _where(sizes: Any, mask: np.ndarray) -> dict[str, Any]:
    return {name: np.where(mask, size, 0) if name == "m" else size for name, size in sizes.items()}


def _left(exchange: Exchange, products: dict[str, str], fused: np.ndarray, experts: bool) -> list[Exchange]:
    """A collective where it is not taken in. Gate and up of dense layers gather what attention leaves; layers of
    experts still gather it by itself."""
    if exchange.part not in products.values():
        return [exchange]
    apart = replace(exchange, bytes_=np.where(fused, 0.0, exchange.bytes_))
    if exchange.part == GATHERING["gate_up"] and exchange.where == EVERY_LAYER and experts:
        return [apart, replace(exchange, bytes_=np.where(fused, exchange.bytes_, 0.0), where=MOE)]
    if exchange.part == GATHERING["qkv"] and exchange.where == DENSE and "qkv" not in products:
        return [exchange]
    return [apart]
