"""The serial executor: one process, all threads fed by one list of tasks. On a CPU a thread is a core's work; on a GPU,
which jax shows where it was installed with CUDA, a second thread sees to one chunk's survivors while the next runs."""

import threading
from typing import Any

from ..job import SweepJob
from ..platform import is_accelerator, usable_cores
from ..state import BoundsKeeper, Collector, Range, SweepState
from . import Admit, Notice, PartSink, Tick, anyone, unheard
from .worker import ChunkRunner, machine_of, run_task, tasks

TASK_CHUNKS = 32  # about 0.1 s: threads end together
FLUSH_ROWS = 1024  # rows a thread holds back: merging a few at a time costs more than it saves
TICK_S = 0.05
GPU_THREADS = 2


class SerialExecutor:
    """Sweeps in this process.

    Args:
        workers: threads; None: one a usable core, or two for a GPU.
        device: a jax device; None: jax's default.
    """

    name = "serial"

    def __init__(self, workers: int | None = None, device: Any = None) -> None:
        self.workers = workers or usable_cores()
        self._asked = workers
        self.device = device

    def run(
        self,
        job: SweepJob,
        done: SweepState,
        tick: Tick,
        sink: PartSink | None = None,
        admit: Admit = anyone,
        notice: Notice = unheard,
    ) -> tuple[SweepState, bool]:
        """See `dse.executors.Executor`."""
        import jax

        device = self.device if self.device is not None else jax.devices()[0]
        machine = machine_of(job, device)
        admit(machine)
        self.workers = self._asked or (GPU_THREADS if is_accelerator(device) else usable_cores())
        runner = ChunkRunner(job, device, everything=sink is not None)
        sink = sink.on(machine) if sink else None
        return _Run(runner, job, done, sink).until_finished(self.workers, tick)


class _Run:
    def __init__(self, runner: ChunkRunner, job: SweepJob, done: SweepState, sink: PartSink | None) -> None:
        self.runner = runner
        self.job = job
        self.state = done
        self.sink = sink
        self.keeper = BoundsKeeper(job)
        self.keeper.update(done, done.front.values)
        length = runner.lanes * TASK_CHUNKS if sink is None else sink.part_rows
        self.tasks = tasks(job, done, length, runner.lanes, scouts=sink is None)
        self.stop = threading.Event()
        self.woken = threading.Event()
        self.lock = threading.Lock()
        self.failures: list[BaseException] = []

    def until_finished(self, workers: int, tick: Tick) -> tuple[SweepState, bool]:
        threads = [threading.Thread(target=self._thread, daemon=True) for _ in range(workers)]
        interrupted = False
        try:
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                self.woken.wait(TICK_S)
                self.woken.clear()
                tick(self.state)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            self.stop.set()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
        if self.failures:
            raise self.failures[0]
        return self.state, interrupted

    def _thread(self) -> None:
        try:
            collector = Collector(self.job)
            while (task := self._next_task()) is not None:
                run_task(self.runner, task, collector, self.keeper, self.stop.is_set, self._flush_if_full, self.sink)
                if self.sink is not None or self.state.front.weights.size == 0:
                    self._flush(collector)
            self._flush(collector)
        except BaseException as error:
            self.failures.append(error)
            self.stop.set()
        self.woken.set()

    def _next_task(self) -> Range | None:
        with self.lock:
            return None if self.stop.is_set() else next(self.tasks, None)

    def _flush_if_full(self, collector: Collector) -> None:
        if collector.rows >= max(FLUSH_ROWS, len(self.state.front.positions) // 4):
            self._flush(collector)

    def _flush(self, collector: Collector) -> None:
        found, survivors = collector.take()
        with self.lock:
            self.state = self.state.merge(found)
            self.keeper.update(self.state, survivors)
