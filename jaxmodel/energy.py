"""Energy of a kernel: joules per FLOP and per byte of each level, and static power over its latency."""

from .machine import Gpu
from .types import Floats


def kernel_joules(
    tensor_flop: Floats, smem_bytes: Floats, l2_bytes: Floats, ddr_bytes: Floats, latency_s: Floats, gpu: Gpu
) -> Floats:
    """Joules of one kernel. The coefficients are orders of magnitude (see the GPU file): compare, do not bill."""
    return (
        tensor_flop * gpu.joule_per_tensor_flop
        + smem_bytes * gpu.joule_per_smem_byte
        + l2_bytes * gpu.joule_per_l2_byte
        + ddr_bytes * gpu.joule_per_ddr_byte
        + latency_s * gpu.static_w
    )
