"""FlashAttention-3's published throughputs beside the model's, for each order of the warpgroups."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..content.gpu import load_gpu
from ..content.space import load_space
from ..kernels.attention import AttentionProblem

FIGURE5 = "arXiv 2407.08608 Fig. 5, H100, head dim 128, hidden 2048, 16k tokens"
TABLE2 = "arXiv 2407.08608 Table 2, H100, 4 x 16 heads x 8448 x 128"
FA3_PUBLISHED = (  # what, shape, causal, preset, TFLOP/s
    (f"{FIGURE5}, full", "1x16x16384x128", False, "fa3_d128_full", 649.0),
    (f"{FIGURE5}, causal", "1x16x16384x128", True, "fa3_d128", 616.0),
    (f"{TABLE2}, full", "4x16x8448x128", False, "fa3_d128_full", 661.0),
)
ORDERS = ("serial", "pipelined", "ping_pong", "both")


@dataclass(frozen=True)
class Published:
    """A published throughput beside the model's, for each order of the warpgroups.

    Attributes:
        what: which measurement.
        tflops: as published.
        by_order: order -> the model's.
    """

    what: str
    tflops: float
    by_order: Mapping[str, float]


@lru_cache(maxsize=4)
def published_fa3(implementation: str = "fa3") -> tuple[Published, ...]:
    """FlashAttention-3's published throughputs beside the model's, whose numbers are the implementation's without what
    its framework adds: the paper times the kernel."""
    from jaxmodel.kernels.attention import cost
    from jaxmodel.kernels.attention_types import AttentionSchedule

    gpu = load_gpu("h100_sxm")
    bare = {"framework_s": 0.0, "helper_q": 0.0, "helper_kv": 0.0}
    found = []
    for what, shape, causal, preset, tflops in FA3_PUBLISHED:
        space = load_space("attention", family="wgmma", preset=preset)
        columns = space.rows([0])
        asked = AttentionProblem.from_shape(shape, causal=causal, implementation=implementation)
        problem = asked.on(gpu, bare)
        by_order = {}
        for code, order in enumerate(ORDERS):
            columns["order"] = np.full(1, code)
            schedule = AttentionSchedule(**{name: np.asarray(values, np.float32) for name, values in columns.items()})
            latency_s = cost(problem.arrays(), schedule, gpu.bind("bf16", family="wgmma")).latency_s
            by_order[order] = float(problem.flop / np.asarray(latency_s)[0] / 1e12)
        found.append(Published(what, tflops, by_order))
    return tuple(found)
