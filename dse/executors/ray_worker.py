"""What runs in a Ray actor: one pinned process that evaluates and reduces ranges of a job's index by itself."""

import os
import pickle
import socket
import sys
from dataclasses import dataclass
from typing import Any

from ..job import SweepJob
from ..machines import Machine
from ..platform import configure_jax, pin_to_a_free_core
from ..provenance import hash_of_model, must_agree
from ..state import BoundsKeeper, Collector, Range, SweepState
from . import PartSink

FLUSH_ROWS = 1024  # rows a worker holds back: merging a few at a time costs more than it saves
HASHES = {"model_hash": "the model's code", "kernel_hash": "your kernel's code"}


@dataclass(frozen=True)
class Started:
    """How the start of a worker went.

    Attributes:
        place: node and process, in words.
        machine: what it computes on; None where it cannot take part.
        trouble: why it cannot; "".
    """

    place: str
    machine: Machine | None = None
    trouble: str = ""


def worker_class() -> type:
    """The actor's class, made anew: Ray then sends its code in place of the name of a module, so that it starts on a
    node without tilesweep too, and says so."""

    class SweepWorker:
        def start(self, payload: bytes) -> Any:
            import importlib
            import os
            import pickle
            import socket
            import sys

            search_path, environment, module, content = pickle.loads(payload)
            sys.path[:] = [*search_path, *(entry for entry in sys.path if entry not in search_path)]
            os.environ.update(environment)
            try:
                worker = importlib.import_module(module).RangeWorker
            except ImportError as error:
                return f"node {socket.gethostname()} cannot take part: tilesweep cannot be imported there ({error})"
            self._worker = worker()
            return self._worker.start(content)

        def sweep(self, task: Any, threshold: float) -> Any:
            return self._worker.sweep(task, threshold)

        def stop(self) -> None:
            self._worker.stop()

    return SweepWorker


def make_payload(job: SweepJob, sink: PartSink | None) -> bytes:
    """What `start` of an actor takes: where this process imports from, jax's choice of devices, versions and hashes
    that must agree, and the job and sink, which are unpickled only once these do."""
    from ray import cloudpickle

    kept = {name: os.environ[name] for name in ("JAX_PLATFORMS", "JAX_COMPILATION_CACHE_DIR") if name in os.environ}
    content = pickle.dumps((must_agree(), hash_of_model(job.model), cloudpickle.dumps((job, sink))))
    return pickle.dumps((sys.path, kept, __name__, content))


class RangeWorker:
    """One core (or one GPU), one compiled chunk, one range after the other.

    What it has seen keeps its bounds tight from task to task; what it returns holds for the task's range alone.
    """

    def start(self, content: bytes) -> Started:
        """Binds the process to a core, sets jax up, compiles, and says on what it computes, or why it cannot."""
        pin_to_a_free_core()  # before anything imports jax
        place = f"{socket.gethostname()}, process {os.getpid()}"
        expected, kernel_hash, packed = pickle.loads(content)
        trouble = disagreements(must_agree(), expected)
        if trouble:
            return Started(place, trouble=trouble)
        job, sink = pickle.loads(packed)
        trouble = disagreements({"kernel_hash": hash_of_model(job.model)}, {"kernel_hash": kernel_hash})
        if trouble:
            return Started(place, trouble=trouble)
        configure_jax()
        import jax

        from .worker import ChunkRunner, machine_of

        device = jax.devices()[0]
        machine = machine_of(job, device)
        self._job: SweepJob = job
        self._sink: PartSink | None = sink.on(machine) if sink else None
        self._runner = ChunkRunner(job, device, everything=sink is not None)
        self._runner.compile()
        self._keeper = BoundsKeeper(job)
        self._seen = SweepState.empty(job)
        self._found = SweepState.empty(job)
        self._stopped = False
        return Started(place, machine)

    def stop(self) -> None:
        """Ends the range at work after its chunk, and those that wait at once; called beside `sweep`."""
        self._stopped = True

    def sweep(self, task: Range, threshold: float) -> SweepState:
        """What is in a range, as far as it may matter beside what this actor has returned before.

        Args:
            task: [start, stop).
            threshold: rank value of the k-th best that anyone has found.
        """
        from .worker import run_task

        collector = Collector(self._job)
        self._keeper.tighten(threshold)
        try:
            run_task(
                self._runner, task, collector, self._keeper, lambda: self._stopped, self._flush_if_full, self._sink
            )
            self._flush(collector)
        finally:  # after an error nothing of the range may count: it is repeated as a whole
            found, self._found = self._found, SweepState.empty(self._job)
        return found

    def _flush_if_full(self, collector: Collector) -> None:
        if collector.rows >= FLUSH_ROWS:
            self._flush(collector)

    def _flush(self, collector: Collector) -> None:
        found, survivors = collector.take()
        self._found = self._found.merge(found)
        self._seen = self._seen.merge(found)
        self._keeper.update(self._seen, survivors)


def disagreements(there: dict[str, str], here: dict[str, str]) -> str:
    """What differs between two processes' versions and hashes, in words; "" where nothing does."""
    found = []
    for name in here:
        if there.get(name) == here[name]:
            continue
        if name in HASHES:
            marks = f"hash {str(there.get(name))[:8]} there, {here[name][:8]} here"
            found.append(f"{HASHES[name]} differ ({marks})")
        else:
            found.append(f"{name} is {there.get(name)} there, {here[name]} here")
    return ", ".join(found)
