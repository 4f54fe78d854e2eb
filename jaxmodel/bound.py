"""What binds a kernel: one word of `BOUNDS`, from its breakdown."""

import jax.numpy as jnp

from .types import BOUNDS, Bools, Floats

STARVED = 1.1  # a load's round trip over what the buffers cover, from which on latency is said to bind


def what_binds(
    pipeline_s: tuple[Floats, ...], latency_s: Floats, launch_s: Floats, epilogue_s: Floats, starved: Bools
) -> Floats:
    """Index into BOUNDS: launch or epilogue where they take half of the time, latency where the buffers cannot cover a
    load, else the busiest pipeline.

    Args:
        pipeline_s: each pipeline's whole demand over its peak, in the order of PIPELINES.
        latency_s: of the kernel.
        launch_s: launch overhead and what is added up after the main kernel.
        epilogue_s: writing results that nothing hides.
        starved: where a load takes longer than the buffers cover.
    """
    worst, bound = pipeline_s[0], jnp.zeros_like(jnp.asarray(latency_s))
    for index, seconds in enumerate(pipeline_s[1:], start=1):
        bound = jnp.where(seconds > worst, float(index), bound)
        worst = jnp.maximum(worst, seconds)
    bound = jnp.where(starved, float(BOUNDS.index("latency")), bound)
    bound = jnp.where(epilogue_s > 0.5 * latency_s, float(BOUNDS.index("epilogue")), bound)
    return jnp.where(launch_s > 0.5 * latency_s, float(BOUNDS.index("launch")), bound)
