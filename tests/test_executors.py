"""Every executor gives the same result, bit for bit, and keeps what is finished when it is interrupted."""

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_kernel import FakeKernel, fake_job, fake_space

from dse.errors import UserError
from dse.executors import make_executor
from dse.executors.ray import WINDOW
from dse.executors.ray import _tasks as ray_tasks
from dse.executors.worker import machine_of
from dse.platform import core_lock_path
from dse.state import SweepState, joined_ranges
from dse.store import read_provenance
from dse.sweep import run_sweep

ROOT = Path(__file__).resolve().parent.parent


class ExecutorConformance:
    """What any executor must do; a subclass names it."""

    name: str

    def make(self, workers=None):
        return make_executor(self.name, workers)

    def test_equals_one_serial_thread(self):
        several: Any = ({}, {"start": 300, "stop": 2999, "tie_limit": 1}, {"chunk_lanes": 512, "top": 30})
        for changes in several:
            job = fake_job(**changes)
            one = run_sweep(job, "serial", workers=1)
            many = run_sweep(job, self.make(2))
            assert many.top.equals(one.top)
            assert many.front.equals(one.front)
            assert (many.histogram.counts == one.histogram.counts).all()
            for name in ("evaluated", "feasible", "reasons", "top_ties", "front_points", "incomplete", "next_index"):
                assert getattr(many, name) == getattr(one, name), name

    def test_parts_are_the_same_files(self, tmp_path):
        import pyarrow.parquet as pq

        job = fake_job(chunk_lanes=1024)
        for name, executor in (("one", "serial"), ("many", self.make(2))):
            run_sweep(job, executor, out=tmp_path / name, keep="all")
        names = sorted(path.name for path in (tmp_path / "one").glob("rows-*"))
        assert names == sorted(path.name for path in (tmp_path / "many").glob("rows-*"))
        for name in names:
            assert pq.read_table(tmp_path / "one" / name).equals(pq.read_table(tmp_path / "many" / name))
            assert read_provenance(tmp_path / "many" / name).items() >= this_machine(job).to_dict().items()

    def test_interrupt_keeps_what_is_finished_and_resume_ends_with_the_same_result(self, tmp_path):
        job = fake_job(fake_space(64, 16, 64, 32), chunk_lanes=1024)
        whole = run_sweep(job, "serial")

        def interrupt(snapshot):
            if snapshot.done and not snapshot.finished:
                raise KeyboardInterrupt

        part = run_sweep(job, self.make(2), interrupt, out=tmp_path / "run")
        assert part.incomplete
        assert 0 < part.evaluated < job.candidates
        assert part.next_index is not None
        last = run_sweep(job, self.make(2), out=tmp_path / "run")
        assert last.evaluated == job.candidates
        assert last.top.equals(whole.top)
        assert last.front.equals(whole.front)
        assert last.reasons == whole.reasons

    def test_nothing_left_to_do(self):
        job = fake_job()
        done = SweepState(((0, job.end),), *_rest(SweepState.empty(job)))
        state, interrupted = self.make(2).run(job, done, lambda state: None)
        assert state.ranges == ((0, job.end),)
        assert not interrupted


def _rest(state):
    return state.counts, state.top, state.front


class TestSerial(ExecutorConformance):
    name = "serial"


def this_machine(job):
    import jax

    return machine_of(job, jax.devices()[0])


def wait_for_free_cores():
    """Until the actors of earlier tests are gone; another sweep on this machine may keep them for longer."""
    for core in os.sched_getaffinity(0):
        deadline = time.monotonic() + 20
        while True:
            with open(core_lock_path(core), "a") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        pytest.skip(f"another process holds core {core}")
            time.sleep(0.1)


@pytest.mark.usefixtures("local_ray")
class TestRay(ExecutorConformance):
    name = "ray"

    def test_workers_hold_one_core_each(self):
        import ray

        from dse.executors.ray_worker import make_payload, worker_class

        class Where(worker_class()):
            def where(self):
                return sorted(os.sched_getaffinity(0))

        wait_for_free_cores()
        payload = make_payload(fake_job(), None)
        actors = [ray.remote(num_cpus=1)(Where).remote() for _ in range(2)]
        started = ray.get([actor.start.remote(payload) for actor in actors])
        places = ray.get([actor.where.remote() for actor in actors])
        for actor in actors:
            ray.kill(actor)
        assert [(at.trouble, at.machine) for at in started] == [("", this_machine(fake_job()))] * 2
        usable = len(os.sched_getaffinity(0))
        assert all(len(cores) == 1 for cores in places[: min(2, usable)])
        assert len({cores[0] for cores in places}) == min(2, usable)

    def test_a_killed_worker_loses_nothing(self, tmp_path):
        job = fake_job(fake_space(64, 16, 64, 32), chunk_lanes=1024)
        deadly = DeadlyKernel(flag=str(tmp_path / "killed"), driver=os.getpid())
        result = run_sweep(fake_job(job.space, chunk_lanes=1024, kernel=deadly), self.make(2))
        assert (tmp_path / "killed").exists()
        assert result.evaluated == job.candidates
        assert result.front.equals(run_sweep(job, "serial").front)


@dataclass(frozen=True)
class DeadlyKernel(FakeKernel):
    """Kills the first worker that compiles it, once."""

    flag: str = ""
    driver: int = 0

    def cost(self, problem, schedule, gpu):
        if os.getpid() != self.driver and not os.path.exists(self.flag):
            Path(self.flag).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().cost(problem, schedule, gpu)


@pytest.mark.parametrize("workers", [2, 4, 8])
@pytest.mark.parametrize("chunks_each", [40, 1907])
def test_tasks_divide_evenly_where_chunks_take_equally_long(workers, chunks_each):
    """The window and the lengths of tasks, played through with a clock of their own."""
    job = fake_job(fake_space(workers, chunks_each, 16, 16), chunk_lanes=256)
    tasks = ray_tasks(job, SweepState.empty(job), workers, 256, None)
    free_at = [(0.01 * worker, worker) for worker in range(workers)]  # they begin one after the other
    queue, chunks, covered = [[] for _ in range(workers)], [0] * workers, []
    for worker in [*range(workers)] * WINDOW:
        queue[worker].append(next(tasks))
    while any(queue):
        time_s, worker = min((at, worker) for at, worker in free_at if queue[worker])
        start, stop = queue[worker].pop(0)
        covered.append((start, stop))
        chunks[worker] += -(-(stop - start) // 256)
        free_at[worker] = (time_s + 1.0 * -(-(stop - start) // 256), worker)
        queue[worker] += [task for task in [next(tasks, None)] if task]
    assert joined_ranges(covered) == ((0, job.end),)
    assert sum(stop - start for start, stop in covered) == job.end
    assert max(chunks) <= 1.05 * sum(chunks) / workers
    assert min(chunks) >= 0.95 * sum(chunks) / workers


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({}, "serial"),
        ({"address": "10.0.0.1:6379", "candidates": 10**6}, "serial"),
        ({"address": "10.0.0.1:6379", "candidates": 10**12}, "ray"),
        ({"candidates": 10**12}, "serial"),
        ({"candidates": 10**12, "workers": 64}, "ray"),
        ({"candidates": 10**9, "workers": 17}, "serial"),
    ],
)
def test_auto_chooses_ray_where_it_is_sooner_done(options, chosen, monkeypatch):
    from dse.executors.auto import choose

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("dse.executors.auto.usable_cores", lambda: 16)
    side = round(options.get("candidates", 3185) ** 0.25)
    job = fake_job(fake_space(side, side, side, side))
    assert choose(job, options.get("workers"), options.get("address")) == chosen
    if "address" in options:
        monkeypatch.setenv("RAY_ADDRESS", options["address"])
        assert choose(job, options.get("workers")) == chosen


def test_executors_by_name():
    assert make_executor("auto", job=fake_job()).name == "serial"
    with pytest.raises(UserError, match="unknown executor 'dask'; known: auto, ray, serial"):
        make_executor("dask")
    with pytest.raises(
        UserError, match=r"--address a:1 is a Ray cluster's: it needs --executor ray or auto, not serial"
    ):
        make_executor("serial", address="a:1")
    with pytest.raises(UserError, match=r"--address ' ' is empty: give HOST:PORT of a cluster's head, or auto, or"):
        make_executor("auto", address=" ")
    for workers in (0, 1025):
        with pytest.raises(UserError, match=f"--workers {workers}: serial takes 1 to 1,024"):
            make_executor("auto", workers)


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (
            "127.0.0.1:1",
            r"the Ray cluster at 127\.0\.0\.1:1 cannot be reached \(.*refused\): start one with",
        ),
        ("[::1]:1", r"at \[::1\]:1 cannot be reached \(.*(refused|address).*\): start one with"),
        ("127.0.0.1:65536", r"cannot be reached \('127\.0\.0\.1:65536' is not HOST:PORT\): start one with"),
        ("somewhere", r"the Ray cluster at somewhere cannot be reached \('somewhere' is not HOST:PORT\): start one"),
        ("ray://127.0.0.1:1", r"is a Ray Client's address: run dse on a node of the cluster, with --address auto"),
        ("127.0.0.1:{mute}", r"cannot be reached \(no answer within 0 s\): start one"),
        ("127.0.0.1:{other}", r"cannot be reached \(what answers there is no Ray\): start one"),
    ],
)
def test_a_cluster_that_cannot_be_reached_is_one_message(address, text, monkeypatch):
    from dse.executors.ray_session import _join, import_ray

    monkeypatch.setattr("dse.executors.ray_session.ANSWER_S", 0.2 if "mute" in address else 10.0)
    with socket.create_server(("127.0.0.1", 0)) as mute, socket.create_server(("127.0.0.1", 0)) as other:
        threading.Thread(target=_answer_once, args=(other,), daemon=True).start()
        where = address.format(mute=mute.getsockname()[1], other=other.getsockname()[1])
        with pytest.raises(UserError, match=text):
            _join(import_ray(), where)


def _answer_once(server):
    with contextlib.suppress(OSError):
        server.accept()[0].sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_a_local_ray_that_cannot_start_is_one_message(monkeypatch):
    from dse.executors.ray_session import import_ray, ray_session

    ray = import_ray()
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr(ray, "init", lambda **_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(
        UserError, match=r"a local Ray cannot start \(.*No space left.*\): see that .*--executor serial"
    ):
        ray_session(None, 1, 0).__enter__()
    with pytest.raises(UserError, match=r"--workers 2000: a local Ray may have 1024; more need a cluster"):
        ray_session(None, 2000, 0).__enter__()


def test_sigterm_is_its_own_exit_code_whatever_ray_makes_of_it():
    from dse.executors.ray_surroundings import terminable

    def end(becomes):
        with terminable():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            except SystemExit:
                raise becomes from None

    before = signal.getsignal(signal.SIGTERM)
    for becomes in (SystemExit(1), UserError("the local Ray has ended")):  # SystemExit(1): of a call that waits in Ray
        with pytest.raises(SystemExit) as ended:
            end(becomes)
        assert ended.value.code == 143
    with pytest.raises(SystemExit) as ended, terminable():
        sys.exit(signal.SIGTERM)  # as Ray's own handler does
    assert ended.value.code == 143
    with pytest.raises(UserError, match="another"), terminable():
        raise UserError("another")
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.usefixtures("local_ray")
def test_another_cluster_is_not_joined_beside_the_one_that_is():
    with pytest.raises(UserError, match=r"process is connected to Ray already: leave address 10\.0\.0\.1:6379 out, or"):
        run_sweep(fake_job(), make_executor("ray", address="10.0.0.1:6379"))


def test_a_gpu_has_two_threads_unless_asked_for_others(monkeypatch):
    """A CPU device that calls itself an accelerator: large chunks, reduced on the device, and the same result."""
    from dse.executors import serial, worker

    job = fake_job(chunk_lanes=1024)
    on_cpu = run_sweep(job, "serial")
    for module in (serial, worker):
        monkeypatch.setattr(module, "is_accelerator", lambda device: True)
    executor = make_executor("serial")
    result = run_sweep(job, executor)
    assert executor.workers == serial.GPU_THREADS
    assert result.top.equals(on_cpu.top)
    assert result.front.equals(on_cpu.front)
    assert run_sweep(fake_job(chunk_lanes=None), "serial").machines[0].chunk_lanes == worker.ACCELERATOR_LANES


SCRIPT = """
import sys, time
sys.path[:0] = [{root!r}, {tests!r}]
from fake_kernel import fake_job, fake_space
from dse.store import read_provenance
from dse.sweep import run_sweep

def say(snapshot):
    if snapshot.done:
        print("running", flush=True)

if __name__ == "__main__":
    job = fake_job(fake_space(4096, 64, 4096, 4096), chunk_lanes=2**14, objectives=("latency_s",))
    result = run_sweep(job, sys.argv[1], say, out=sys.argv[2])
    print("kept", result.evaluated, result.incomplete, result.next_index, flush=True)
"""


@pytest.mark.parametrize("executor", ["serial", "ray"])
def test_sigint_stops_a_sweep_that_would_take_days(executor, tmp_path):
    script = tmp_path / "sweep.py"
    script.write_text(SCRIPT.format(root=str(ROOT), tests=str(ROOT / "tests")))
    run = subprocess.Popen(
        [sys.executable, str(script), executor, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert run.stdout is not None
    assert run.stdout.readline().strip() == "running"
    run.send_signal(signal.SIGINT)
    told, _ = run.communicate(timeout=60)
    assert run.returncode == 0
    _, evaluated, incomplete, next_index = told.splitlines()[-1].split()
    assert int(evaluated) > 0
    assert incomplete == "True"
    assert 0 <= int(next_index) < 2**44
    assert (tmp_path / "run" / "summary.json").exists()


def test_float_bits_do_not_depend_on_threads():
    job = fake_job(speed=1.1, work=0.3)  # not exact in float32
    tables = [run_sweep(job, "serial", workers=workers).top["latency_s"].to_numpy() for workers in (1, 4)]
    assert (tables[0].view(np.int32) == tables[1].view(np.int32)).all()
