"""Ray on several nodes (simulated on one machine): all take part, one may go away, one that differs is refused."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_run import TINY
from fake_kernel import fake_job, fake_space
from ray_runs import SlowKernel, cluster

from dse.cli import main
from dse.errors import UserError
from dse.executors.ray import RayExecutor
from dse.read_run import read_run
from dse.sweep import run_sweep

ROOT = Path(__file__).resolve().parent.parent
NODES = 3


@pytest.fixture(scope="module")
def nodes():
    with cluster(NODES, gpus_of_head=2) as simulated:
        yield simulated


def slow_job():
    return fake_job(fake_space(10, 8, 16, 16), kernel=SlowKernel(), chunk_lanes=256)


def same(one, other):
    assert one.top.equals(other.top)
    assert one.front.equals(other.front)
    assert (one.histogram.counts == other.histogram.counts).all()
    assert (one.evaluated, one.reasons, one.top_ties) == (other.evaluated, other.reasons, other.top_ties)


def test_a_node_goes_in_the_middle_and_another_comes(nodes, tmp_path):
    job = slow_job()
    told, seen = [], []

    def meanwhile(snapshot):
        seen.append(snapshot.done)
        if not told and snapshot.done > job.candidates // 4:
            nodes.remove_node(nodes.list_all_nodes()[-1], allow_graceful=False)
            nodes.add_node(num_cpus=1, wait=False, **nodes.small)
            told.append("removed")

    executor = RayExecutor(NODES, gpus=False)
    result = run_sweep(job, executor, meanwhile, out=tmp_path / "run", notice=told.append)
    assert told[0] == "removed"
    assert any("a worker is lost" in text and "nothing else is" in text for text in told)
    assert len(executor.done_by) >= NODES
    assert sum(done > 0 for done in executor.done_by.values()) >= 2
    assert sum(executor.done_by.values()) == job.candidates
    same(result, run_sweep(fake_job(job.space), "serial"))
    all_nodes_are_there()


def all_nodes_are_there():
    import ray

    deadline = time.monotonic() + 30
    while ray.cluster_resources().get("CPU") != NODES and time.monotonic() < deadline:
        time.sleep(0.1)
    assert ray.cluster_resources()["CPU"] == NODES


def test_logical_gpus_get_an_actor_each(nodes):
    job = fake_job()
    for executor, workers in ((RayExecutor(), 2), (RayExecutor(1), 1), (RayExecutor(gpus=False), NODES)):
        same(run_sweep(job, executor), run_sweep(job, "serial"))
        assert executor.workers == workers


def test_jax_platforms_cpu_keeps_gpus_out(nodes, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    executor = RayExecutor()
    run_sweep(fake_job(), executor)
    assert executor.workers == NODES


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"jax": "9.9.9"}, r"jax is \d[\d.]* there, 9\.9\.9 here"),
        ({"python": "2.7", "ray": "1.0"}, r"python is 3\.\d+ there, 2\.7 here, ray is [\d.]+ there, 1\.0 here"),
        ({"model_hash": "0" * 64}, r"the model's code differ \(hash \w{8} there, 00000000 here\)"),
    ],
)
def test_a_node_with_other_versions_is_refused_before_anything_is_computed(nodes, monkeypatch, change, text, tmp_path):
    from dse.executors import ray_worker
    from dse.provenance import must_agree

    monkeypatch.setattr(ray_worker, "must_agree", lambda: must_agree() | change)
    seen = []
    with pytest.raises(
        UserError, match=r"the worker on .*, process \d+ cannot take part: " + text + ".*install the same"
    ):
        run_sweep(fake_job(), RayExecutor(1), seen.append, out=tmp_path / "run")
    assert not any(snapshot.done for snapshot in seen)
    monkeypatch.undo()
    assert run_sweep(fake_job(), "serial", out=tmp_path / "run").evaluated == fake_job().candidates


def test_a_node_without_tilesweep_says_so(nodes, monkeypatch):
    from dse.executors import ray_worker

    monkeypatch.setattr(ray_worker, "__name__", "dse.executors.absent")
    with pytest.raises(UserError, match=r"node .* cannot take part: tilesweep cannot be imported there .*every node"):
        run_sweep(fake_job(), RayExecutor(1))


def test_a_worker_of_another_kind_is_refused_unless_asked_for(nodes, tmp_path):
    job = slow_job()
    run_sweep(fake_job(job.space, stop=256), "serial", out=tmp_path / "run")
    run_file = tmp_path / "run" / "run.json"
    held = json.loads(run_file.read_text())
    held["range"][1] = str(job.end)
    held["machines"][0]["cpu"] = "another processor"
    run_file.write_text(json.dumps(held))
    with pytest.raises(UserError, match=r"on another processor, chunks of 256, this worker is .*--mix-devices"):
        run_sweep(fake_job(job.space), RayExecutor(1), out=tmp_path / "run")
    mixed = run_sweep(fake_job(job.space), RayExecutor(1), out=tmp_path / "run", mix_devices=True)
    assert {machine.cpu for machine in mixed.machines} > {"another processor"}
    assert read_run(tmp_path / "run").summary["tolerance"] == 1e-5
    assert mixed.evaluated == job.candidates


def test_a_kernel_that_ends_every_worker_ends_the_run(nodes):
    job = fake_job(kernel=SlowKernel(deadly_but_for=os.getpid()), chunk_lanes=256)
    with pytest.raises(UserError, match=r"4 workers have ended as they started \(killed, out of memory, or"):
        run_sweep(job, RayExecutor(1, gpus=False))


def test_the_command_joins_by_ray_address(nodes, tmp_path):
    words = ["sweep", "gemm", "--shape", "2048x2048x4096", *TINY, "--quiet"]
    environment = os.environ | {"RAY_ADDRESS": nodes.address, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    joined = subprocess.run(
        [sys.executable, "-m", "dse", *words, "--executor", "ray", "--workers", "2", "--out", str(tmp_path / "ray")],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (joined.returncode, joined.stderr) == (0, "")
    assert "(ray x 2)" in joined.stdout
    assert main([*words, "--executor", "serial", "--out", str(tmp_path / "serial")]) == 0
    ray, serial = read_run(tmp_path / "ray"), read_run(tmp_path / "serial")
    assert ray.top.equals(serial.top)  # every bit: one CPU type, one chunk shape
    assert ray.front.equals(serial.front)
