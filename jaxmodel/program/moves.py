"""Loads and stores as tile actions: bytes through the SM's port, the share that misses L1.5 and L2, the latency."""

from ..machine import Gpu
from ..resources import Demand
from ..types import Floats
from .records import Action


def load_latency_s(gpu: Gpu, l2_hit: Floats) -> Floats:
    """Mean seconds of a load's way, beyond its bytes: L2's latency, and DDR's for the share that misses."""
    return gpu.l2_latency_s + (gpu.ddr_latency_s - gpu.l2_latency_s) * (1.0 - l2_hit)


def load(
    name: str,
    gpu: Gpu,
    requested_bytes: Floats,
    l2_hit: Floats = 0.0,
    l15_hit: Floats = 0.0,
    smem_bytes: Floats = 0.0,
) -> Action:
    """A load from global memory.

    Args:
        name: of the action.
        gpu: the machine.
        requested_bytes: through the SM's port, whole sectors.
        l2_hit: share of them found in L1.5 or L2.
        l15_hit: share of them found in L1.5, at most `l2_hit`.
        smem_bytes: written to shared memory by it; 0: into registers.
    """
    demand = Demand(
        smem_bytes=smem_bytes,
        fabric_bytes=requested_bytes,
        l2_bytes=requested_bytes * (1.0 - l15_hit),
        ddr_bytes=requested_bytes * (1.0 - l2_hit),
    )
    return Action(name, demand, latency_s=load_latency_s(gpu, l2_hit))


def store(
    name: str,
    written_bytes: Floats,
    sectors: Floats = 1.0,
    kept: Floats = 0.0,
    cuda_flop: Floats = 0.0,
    smem_bytes: Floats = 0.0,
    tmem_bytes: Floats = 0.0,
) -> Action:
    """A store to global memory: the results go to DDR in the end, whatever L2 holds of them for now.

    Args:
        name: of the action.
        written_bytes: of results.
        sectors: bytes moved to L2 for a byte of results, above 1 where stores do not fill sectors.
        kept: share of the bytes that is read again and overwritten before L2 evicts it, so never reaches DDR.
        cuda_flop: arithmetic on the way: scaling, conversion.
        smem_bytes: staged through shared memory.
        tmem_bytes: read from tensor memory.
    """
    demand = Demand(
        cuda_flop=cuda_flop,
        tmem_bytes=tmem_bytes,
        smem_bytes=smem_bytes,
        fabric_bytes=written_bytes * sectors,
        l2_bytes=written_bytes * sectors,
        ddr_bytes=written_bytes * (1.0 - kept),
    )
    return Action(name, demand, writes=True)
