"""How many actors of which kind a sweep has on Ray: one a GPU where there are GPUs, else one a core."""

import os
from dataclasses import dataclass

from ..platform import is_accelerator
from .ray_session import import_ray

CPU_ONLY = "cpu"


@dataclass(frozen=True)
class Plan:
    """The actors of a sweep.

    Attributes:
        workers: how many.
        gpus: GPUs of each: 1 or 0.
    """

    workers: int
    gpus: int


def local_gpus(gpus: bool | None) -> int:
    """GPUs of a Ray that is started here: those that jax shows in this process, none where they are not wanted."""
    import jax

    return 0 if gpus is False else sum(is_accelerator(device) for device in jax.local_devices())


def make_plan(workers: int | None, gpus: bool | None) -> Plan:
    """The actors for the Ray that this process is connected to.

    GPUs are used where Ray has some, and JAX_PLATFORMS does not keep them out.

    Args:
        workers: how many; None: all that Ray has GPUs for, or else cores.
        gpus: one actor a GPU or one a core; None: a GPU where Ray has some.
    """
    has = import_ray().cluster_resources()
    gpu_count, core_count = int(has.get("GPU", 0)), max(1, int(has.get("CPU", 1)))
    if gpus is None:
        gpus = gpu_count > 0 and os.environ.get("JAX_PLATFORMS") != CPU_ONLY
    if gpus:
        return Plan(min(workers or gpu_count, gpu_count), 1)
    return Plan(workers or core_count, 0)
