"""What tests of Ray share: a kernel whose chunks take equal time, processes that are left, a simulated cluster."""

import logging
import os
import signal
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from fake_kernel import FakeKernel

CHUNK_S = 0.02


@dataclass(frozen=True)
class SlowKernel(FakeKernel):
    """Sleeps in every chunk: all chunks then take one time, whatever else the machine does."""

    chunk_s: float = CHUNK_S
    deadly_but_for: int = 0  # ends every other process than this one; 0: none

    def cost(self, problem: Any, schedule: Any, gpu: Any) -> Any:
        import jax

        found = super().cost(problem, schedule, gpu)
        late = jax.pure_callback(self._sleep, jax.ShapeDtypeStruct((), np.float32), schedule.tile[0])
        return type(found)(**{**vars(found), "latency_s": found.latency_s + late})

    def _sleep(self, _: Any) -> Any:
        if self.deadly_but_for not in (0, os.getpid()):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.chunk_s)
        return np.float32(0.0)


@contextmanager
def cluster(nodes: int, gpus_of_head: int = 0):
    """Ray with that many nodes of one CPU, all on this machine, and this process connected to it. Its head has none."""
    import ray
    from ray.cluster_utils import Cluster

    from dse.executors.ray_session import import_ray

    import_ray()
    small = {"object_store_memory": 80 * 2**20, "include_dashboard": False}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "os.fork")
        head = {"num_cpus": 0, "num_gpus": gpus_of_head, **small}
        simulated: Any = Cluster(initialize_head=True, head_node_args=head)
        simulated.small = small
        try:
            for _ in range(nodes):
                simulated.add_node(num_cpus=1, wait=False, **small)
            simulated.wait_for_nodes()
            ray.init(address=simulated.address, log_to_driver=False, logging_level=logging.CRITICAL)
            yield simulated
        finally:
            ray.shutdown()
            simulated.shutdown()
