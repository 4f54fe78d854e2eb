"""How many ranks, or nodes, hold the experts of a token: expected numbers for experts chosen evenly."""


def expected_holders(experts: int, holders: int, topk: int) -> float:
    """Distinct holders among those of `topk` different experts, each as likely, dealt evenly over `holders`.

    A holder is missed where all choices fall on the others: holders (1 - C(E - E / h, k) / C(E, k)).

    Args:
        experts: E; `holders` divides it.
        holders: h, ranks or nodes.
        topk: k, at most E.
    """
    others = experts - experts // holders
    if topk > others:
        return float(holders)
    missed = 1.0
    for chosen in range(topk):
        missed *= (others - chosen) / (experts - chosen)
    return holders * (1.0 - missed)


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
    return expected_holders(experts, ranks, topk), expected_holders(experts, chosen, topk)
