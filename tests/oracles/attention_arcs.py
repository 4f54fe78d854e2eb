"""A block's cyclic schedule with every warpgroup written out, as the table of docs/attention.md has it.

`t` holds W, q, s, v, e, h, load, latency, stages, buffers: section 4. Cycles are walked one by one.
"""

from typing import Any

from jaxmodel.arcs import Arc

from .cyclic import initiation_interval

SERIAL, PIPELINED, PING_PONG, BOTH = range(4)


def block_seconds(t: Any, order: int) -> float:
    """The initiation interval of the order's arcs."""
    return initiation_interval(arcs_of(t, order))


def arcs_of(t: Any, order: int) -> list[Arc]:
    """All arcs of one order; actions are qk1, softmax1, pv1, qk2, ... and load_k, load_v."""
    turns = order in (PING_PONG, BOTH)
    h = 0.0 if turns else t.h  # with turns it passes once a turn
    q, v = t.q + h, t.v + h
    arcs = [Arc("load_k", "load_k", t.load, 1)]
    arcs += [
        Arc(f"load_{x}", f"{a}{w}", t.load / 2 + t.latency) for x, a in (("k", "qk"), ("v", "pv")) for w in _all(t)
    ]
    freeing = _all(t)
    arcs += [Arc(f"qk{w}", "load_k", q, t.stages) for w in freeing]
    arcs += [Arc(f"pv{w}", "load_v", v, t.stages) for w in freeing]
    for w in _all(t):
        waits = t.h if order == PING_PONG else 0.0
        arcs += [Arc(f"qk{w}", f"softmax{w}", q + t.e), Arc(f"softmax{w}", f"pv{w}", t.s + waits)]
        if order in (PIPELINED, BOTH):
            arcs.append(Arc(f"softmax{w}", f"qk{w}", t.s + (t.h if order == BOTH else 0.0), t.buffers))
    arcs += _round([(f"softmax{w}", 0, t.s) for w in _all(t)])
    qks, pvs = [(f"qk{w}", q) for w in _all(t)], [(f"pv{w}", v) for w in _all(t)]
    if order == SERIAL:
        served = [(*one, 0) for one in qks] + [(*one, 0) for one in pvs]
    elif order == PIPELINED:
        served = [(*one, 1) for one in qks] + [(*one, 0) for one in pvs]
    elif order == PING_PONG:
        served = [(*one, k) for w in range(t.W) for one, k in ((pvs[w], 0), ((qks[w][0], q + t.h), 1))]
    else:
        served = [(*one, k) for w in range(t.W) for one, k in ((qks[w], 1), ((pvs[w][0], v + t.h), 0))]
    return arcs + _round([(name, k, held) for name, held, k in served])


def _all(t: Any) -> range:
    return range(1, t.W + 1)


def _round(served: list[tuple[str, int, float]]) -> list[Arc]:
    """An engine that does (action, iteration ahead, seconds) in this order, again and again."""
    after = [*served[1:], (served[0][0], served[0][1] + 1, 0.0)]
    return [Arc(a, b, held, then - now) for (a, now, held), (b, then, _) in zip(served, after, strict=True)]
