"""How many ranks, or nodes, hold the experts of a token: expected numbers for experts chosen evenly."""

from typing import Any

import numpy as np


def expected_holders(experts: int, holders: Any, topk: int) -> np.ndarray:
    """Distinct holders among those of `topk` different experts, each as likely, dealt evenly over `holders`.

    A holder is missed where all choices fall on the others: h (1 - C(E - E / h, k) / C(E, k)).

    Args:
        experts: E.
        holders: h, ranks or nodes; a number, or many. Each divides E, or what is found of it means nothing.
        topk: k, at most E.
    """
    holders = np.asarray(holders, float)
    chosen = np.arange(topk)
    others = experts - experts / holders[..., None]
    missed = np.clip((others - chosen) / (experts - chosen), 0.0, 1.0)
    return holders * (1.0 - np.prod(missed, axis=-1))


def limited_holders(experts: int, nodes: int, ranks: int, topk: int, limit: int) -> tuple[float, float]:
    """Distinct ranks and distinct nodes of a token whose experts lie on at most `limit` nodes, chosen evenly.

    Args:
        experts: of all nodes.
        nodes: G; divides experts and ranks.
        ranks: of all nodes.
        topk: experts a token.
        limit: nodes that a token's experts lie on at most; 0, or G and more: no limit.
    """
    chosen = min(limit, nodes) if limit else nodes
    experts, ranks = experts * chosen // nodes, ranks * chosen // nodes
    return float(expected_holders(experts, ranks, topk)), float(expected_holders(experts, chosen, topk))
