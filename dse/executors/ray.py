"""The Ray executor: one long-lived actor a core, each evaluating and reducing ranges of the index by itself."""

import logging
import os
import pickle
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..job import SweepJob
from ..platform import configure_jax, pin_to_a_free_core, usable_cores
from ..state import BoundsKeeper, Collector, Range, SweepState
from . import PartSink, Tick

WINDOW = 3  # tasks an actor has before it: never idle, and little is lost with it
TASK_CHUNKS = 64  # some tenths of a second: dear enough to outweigh a call, cheap enough to lose
TICK_S = 0.1
STOP_S = 1.0  # of the two seconds that Ctrl-C may take
OBJECT_STORE_BYTES = 100 * 2**20  # results are small; less than 75 MB Ray refuses
FLUSH_ROWS = 1024  # rows a worker holds back: merging a few at a time costs more than it saves


class RayExecutor:
    """Sweeps on Ray: a local one that lives as long as the sweep, a running cluster, or the session's own.

    Tasks are ranges, never arrays; what comes back is the range's best and front. A worker that dies is started again
    and its tasks are repeated.

    Args:
        workers: actors; None: one a core of the cluster, or a usable core of this machine.
        address: of a cluster; None: where Ray is not running in this process yet, a local one is started.
    """

    name = "ray"

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        self.workers = workers or usable_cores()
        self.address = address
        self._all_cores = workers is None and address is not None

    def run(self, job: SweepJob, done: SweepState, tick: Tick, sink: PartSink | None = None) -> tuple[SweepState, bool]:
        """See `dse.executors.Executor`."""
        import ray

        started = self._connect()
        if self._all_cores:
            self.workers = int(ray.cluster_resources().get("CPU", 1))
        payload = make_payload(job, sink)
        remote: Any = ray.remote  # its overloads know no concurrency groups
        actor = remote(num_cpus=1, max_restarts=-1, max_task_retries=-1, concurrency_groups={"control": 1})(RangeWorker)
        actors = [actor.remote(payload) for _ in range(self.workers)]
        try:
            return self._distribute(actors, job, done, tick, sink)
        finally:
            for handle in actors:
                ray.kill(handle)
            if started:
                ray.shutdown()

    def _connect(self) -> bool:
        os.environ.setdefault(
            "RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0"
        )  # under `uv run` every worker would rebuild its venv
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        import ray

        if ray.is_initialized():
            return False
        options: dict[str, Any] = (
            {"address": self.address}
            if self.address
            else {
                "address": "local",
                "num_cpus": self.workers,
                "object_store_memory": OBJECT_STORE_BYTES,
                "include_dashboard": False,
            }
        )
        with _importable_in_workers(), warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "os.fork"
            )  # Ray starts programs; nothing of jax runs between fork and exec
            ray.init(**options, logging_level=logging.ERROR, log_to_driver=False)
        return True

    def _distribute(
        self, actors: list[Any], job: SweepJob, done: SweepState, tick: Tick, sink: PartSink | None
    ) -> tuple[SweepState, bool]:
        import ray

        state = done
        tasks = _tasks(job, done, len(actors), sink)
        waiting = {}
        try:
            for actor in actors * WINDOW:
                _submit(actor, tasks, waiting, state)
            while waiting:
                finished, _ = ray.wait(list(waiting), num_returns=1, timeout=TICK_S)
                for reference in finished:
                    actor = waiting.pop(reference)
                    state = state.merge(ray.get(reference))
                    _submit(actor, tasks, waiting, state)
                tick(state)
        except KeyboardInterrupt:
            for actor in actors:
                actor.stop.options(concurrency_group="control").remote()
            finished, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=STOP_S) if waiting else ([], [])
            for reference in finished:
                state = state.merge(ray.get(reference))
            return state, True
        return state, False


@contextmanager
def _importable_in_workers() -> Iterator[None]:
    """Programs that are started inside find `dse` where this process has found it, installed or not."""
    before = os.environ.get("PYTHONPATH")
    home = str(Path(__file__).resolve().parents[2])
    os.environ["PYTHONPATH"] = os.pathsep.join([home, *([before] if before else [])])
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def make_payload(job: SweepJob, sink: PartSink | None) -> bytes:
    """What an actor is made of: a job and a sink, and where this process imports from. Unpickled only after pinning."""
    from ray import cloudpickle

    return pickle.dumps((sys.path, cloudpickle.dumps((job, sink))))


def _read_payload(payload: bytes) -> tuple[SweepJob, PartSink | None]:
    search_path, content = pickle.loads(payload)
    sys.path.extend(entry for entry in search_path if entry not in sys.path)
    return pickle.loads(content)


class RangeWorker:
    """The actor: one core, one compiled chunk, one range after the other.

    What it has seen keeps its bounds tight from task to task; what it returns holds for the task's range alone.
    """

    def __init__(self, payload: bytes) -> None:
        pin_to_a_free_core()  # before anything imports jax
        configure_jax()
        job, sink = _read_payload(payload)
        from .worker import ChunkRunner

        self._job: SweepJob = job
        self._sink: PartSink | None = sink
        self._runner = ChunkRunner(job, everything=sink is not None)
        self._keeper = BoundsKeeper(job)
        self._seen = SweepState.empty(job)
        self._found = SweepState.empty(job)
        self._stopped = False

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
        run_task(self._runner, task, collector, self._keeper, lambda: self._stopped, self._flush_if_full, self._sink)
        self._flush(collector)
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


def _tasks(job: SweepJob, done: SweepState, workers: int, sink: PartSink | None) -> Iterator[Range]:
    from .worker import CPU_LANES, tasks

    lanes = job.chunk_lanes or CPU_LANES
    share = -(-job.candidates // (8 * workers * lanes))
    length = lanes * max(1, min(TASK_CHUNKS, share)) if sink is None else sink.part_rows
    return tasks(job, done, length, lanes, scouts=sink is None)


def _submit(actor: Any, tasks: Iterator[Range], waiting: dict[Any, Any], state: SweepState) -> None:
    task = next(tasks, None)
    if task is not None:
        waiting[actor.sweep.remote(task, state.top.threshold)] = actor
