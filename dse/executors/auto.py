"""Which executor is sooner done with a job: serial needs no start, Ray reaches the cores of other machines."""

from ..job import SweepJob
from ..platform import usable_cores
from .ray_session import asked_address

CANDIDATES_PER_CORE_S = 10e6  # of the dearer kernels 4 to 8 million, of GEMM 13: scripts/bench_kernels.py
RAY_START_S = 6.0  # to join a cluster, start a worker on each core and end them, with compiled functions on disk
SERIAL_CORES = 16  # threads of one process keep so many cores busy: what Python does a chunk is a 16th of it at most


def choose(job: SweepJob | None, workers: int | None = None, address: str | None = None) -> str:
    """ "serial" or "ray".

    Ray pays where it has cores that one process cannot use, on other machines (`address`, RAY_ADDRESS) or beyond
    `SERIAL_CORES` of this one, and the job is so large that they save more time than Ray takes to start. How many cores
    a cluster has is known only once it is joined: it counts as unbounded, so Ray is chosen from the size on from which
    the job takes one process longer than Ray takes to start.

    Args:
        job: what will run; None: something small.
        workers: how many are asked for.
        address: of a cluster.
    """
    cores = min(usable_cores(), SERIAL_CORES)
    elsewhere = asked_address(address) is not None
    more = elsewhere or (workers or usable_cores()) > SERIAL_CORES
    serial_s = (job.candidates if job else 0) / (CANDIDATES_PER_CORE_S * cores)
    ray_s = RAY_START_S + (0.0 if elsewhere else serial_s * cores / (workers or usable_cores()))
    return "ray" if more and serial_s > ray_s else "serial"
