"""Pipeline-parallel stages: how long micro-batches take through them.

A stage works on one micro-batch at a time, in order; what it sends on is under way while it goes on.
"""

import jax.numpy as jnp

from ..types import Array, Floats


def decode_period_s(slowest_s: Floats, round_s: Floats, send_s: Floats, stages: Floats, micro_batches: Floats) -> Array:
    """Seconds from one token of a sequence to its next, in steady state.

    A micro-batch's next token starts at the first stage when the last one has made the token before, so

        period = max( micro_batches x slowest stage,  one micro-batch through all stages and its sends )

    the largest cycle mean of the stages' in-order schedule (`tests/oracles/pipeline_stages.py` plays it).

    Args:
        slowest_s: the slowest stage, one micro-batch.
        round_s: all stages, one micro-batch.
        send_s: from a stage to the next, and from the last to the first.
        stages, micro_batches: whole numbers.
    """
    sends = jnp.where(jnp.asarray(stages) > 1, stages * send_s, 0.0)
    return jnp.maximum(micro_batches * slowest_s, round_s + sends)


def through_s(slowest_s: Floats, round_s: Floats, send_s: Floats, stages: Floats, micro_batches: Floats) -> Array:
    """Seconds until the last of several micro-batches is through all stages, the first one starting at 0.

    All stages, the sends between them, and once the slowest for each further micro-batch: a flow shop of equal jobs.

    Args:
        slowest_s, round_s, send_s, stages, micro_batches: as in `decode_period_s`.
    """
    return round_s + (stages - 1) * send_s + (micro_batches - 1) * slowest_s
