"""Ray as a sweep finds it: started by itself, joined by its address, or running in this process already."""

import logging
import os
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import UserError
from . import ray_reaper
from .ray_surroundings import importable_in_workers, silenced, terminable, unsaid

OBJECT_STORE_BYTES = 100 * 2**20  # results are small; less than 75 MB Ray refuses
REACH_S = 4.0  # for a connection to the cluster's address
ANSWER_S = 8.0  # for its answer
LAST_PORT = 65_535
HTTP2_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
HTTP2_SETTINGS = bytes([4])  # the type of a server's first frame
MOST_LOCAL = 1024  # workers of a Ray on this machine: each is a process
WATCH_S = 1.0  # between looks at whether Ray is there still
LOCAL_PATIENCE_S = 1.5  # a local Ray that is gone does not come back
CLUSTER_PATIENCE_S = 30.0  # the head of a cluster may be started again; Ray ends this process after 60 s
SHUTDOWN_S = 5.0
QUIET = {
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # under `uv run` every worker would rebuild its environment
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",  # the first error of a task is raised; others would be printed beside it
}


class RayLostError(UserError):
    """Ray ended while a sweep ran on it."""


def import_ray() -> Any:
    """Ray, imported with the settings that it reads at its import."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    import ray

    return ray


def asked_address(address: str | None) -> str | None:
    """The cluster that is asked for, by argument or by RAY_ADDRESS; None: a local Ray."""
    found = address or os.environ.get("RAY_ADDRESS") or None
    return None if found == "local" else found


class Session:
    """A running Ray.

    Args:
        doors: host and port of its head and of this node.
        started: whether it was started for this sweep, and ends with it.
        patience_s: how long it may not answer.

    Attributes:
        raylets: processes that were started for this sweep, parents of all its workers.
    """

    def __init__(self, doors: list[tuple[str, int]], started: bool, patience_s: float) -> None:
        self.started = started
        self._doors, self._patience_s = doors, patience_s
        self.raylets = _raylet_pids() if started else []
        self._looked = self._seen = time.monotonic()

    @classmethod
    def of(cls, ray: Any, started: bool) -> "Session":
        """The Ray that this process is connected to."""
        context = ray.get_runtime_context()
        own = context.get_node_id()
        raylets = [(at["NodeManagerAddress"], at["NodeManagerPort"]) for at in ray.nodes() if at["NodeID"] == own]
        doors = [_host_and_port(context.gcs_address), *raylets]
        return cls(doors, started, LOCAL_PATIENCE_S if started else CLUSTER_PATIENCE_S)

    def check(self) -> None:
        """Looks, at most once in a while, whether Ray still answers.

        Raises:
            RayLostError: it has not for some time.
        """
        now = time.monotonic()
        if now - self._looked >= WATCH_S and self.silent(now=True) and now - self._seen > self._patience_s:
            raise self.lost()

    def silent(self, now: bool = False) -> bool:
        """Whether Ray did not answer when it was last looked at; calls that need it would block.

        Args:
            now: look anew.
        """
        if now:
            self._looked = time.monotonic()
            if all(_answers(door, WATCH_S) for door in self._doors):
                self._seen = self._looked
        return self._seen < self._looked

    def lost(self) -> RayLostError:
        """The error that says so."""
        what = "the local Ray" if self.started else f"the Ray cluster at {':'.join(map(str, self._doors[0]))}"
        return RayLostError(f"{what} has ended (killed, or out of memory?) while it swept")

    def clear_up(self) -> None:
        """Ends what is left of a Ray that was lost."""
        _shutdown_soon()
        ray_reaper.end_processes_of(self.raylets)


@contextmanager
def ray_session(address: str | None, cores: int, gpus: int) -> Iterator[Session]:
    """Ray within the block: that of this process, the cluster at `address` or RAY_ADDRESS, else a local one.

    Args:
        address: "HOST:PORT" of a cluster's head, or "auto": the one that this machine is a node of.
        cores, gpus: of a local Ray.

    Raises:
        UserError: the cluster cannot be reached or joined.
        RayLostError: in the block.
    """
    ray = import_ray()
    if ray.is_initialized():
        if address:
            raise UserError(
                f"this process is connected to Ray already: leave address {address} out, or call ray.shutdown() first"
            )
        yield Session.of(ray, started=False)
        return
    wanted = asked_address(address)
    with unsaid(ray), terminable():
        if wanted is None:
            _start_local(ray, cores, gpus)
        else:
            _join(ray, wanted)
        session = Session.of(ray, started=wanted is None)
        try:
            with _reaped(session.raylets), terminable():  # once more: Ray has put its own handler there
                yield session
        finally:
            if session.silent(now=True):
                session.clear_up()
            else:
                ray.shutdown()


def _start_local(ray: Any, cores: int, gpus: int) -> None:
    if cores > MOST_LOCAL:
        raise UserError(f"--workers {cores}: a local Ray may have {MOST_LOCAL}; more need a cluster (--address)")
    with importable_in_workers(), warnings.catch_warnings():
        # Ray starts programs; nothing of jax runs between fork and exec
        warnings.filterwarnings("ignore", "os.fork")
        try:
            ray.init(
                address="local",
                num_cpus=cores,
                num_gpus=gpus,
                object_store_memory=OBJECT_STORE_BYTES,
                include_dashboard=False,
                logging_level=logging.ERROR,
                log_to_driver=False,
            )
        except Exception as error:  # it raises what it meets: OSError, ValueError, RuntimeError, and bare ones
            _shutdown_soon()
            raise UserError(
                f"a local Ray cannot start ({_in_one_line(error)}): see that there is room in memory and in its folder "
                "(/tmp/ray, or RAY_TMPDIR), or take --executor serial"
            ) from error


def _join(ray: Any, address: str) -> None:
    where = f"the Ray cluster at {address}"
    fix = "start one with `ray start --head`, or correct --address or RAY_ADDRESS (HOST:PORT of its head, or auto)"
    if address.startswith("ray://"):
        raise UserError(f"{where} is a Ray Client's address: run dse on a node of the cluster, with --address auto")
    head = ray._private.utils.read_ray_address() if address == "auto" else address
    try:
        if head:
            _greet(_host_and_port(head))
        with silenced():
            ray.init(address=address, logging_level=logging.CRITICAL, log_to_driver=False)
    except (OSError, ValueError) as error:  # a ConnectionError of Ray's is an OSError
        raise UserError(f"{where} cannot be reached ({_in_one_line(error)}): {fix}") from None
    except (RuntimeError, AssertionError, ray.exceptions.RayError) as error:
        text = _in_one_line(error)
        if "ersion mismatch" in text:
            raise UserError(f"{where} has other versions: {text}; install the same on all nodes") from None
        raise UserError(f"{where} cannot be joined ({text}): {fix}") from None


def _greet(door: tuple[str, int]) -> None:
    """Says hello in HTTP/2, which Ray's servers speak: Ray itself would try for 40 s where nobody answers.

    Raises:
        OSError: nobody is there, nobody answers, or somebody else does.
    """
    with socket.create_connection(door, REACH_S) as connection:
        connection.settimeout(ANSWER_S)
        connection.sendall(HTTP2_HELLO)
        try:
            answer = connection.recv(9)
        except TimeoutError:
            raise TimeoutError(f"no answer within {ANSWER_S:.0f} s") from None
        if os.environ.get("RAY_USE_TLS", "0") == "0" and answer[3:4] != HTTP2_SETTINGS:
            raise ConnectionError("what answers there is no Ray")


def _in_one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host  # of IPv6
    if not (colon and host and port.isdecimal() and 0 < int(port) <= LAST_PORT):
        raise ValueError(f"{address!r} is not HOST:PORT")
    return host, int(port)


def _answers(door: tuple[str, int], patience_s: float) -> bool:
    try:
        with socket.create_connection(door, patience_s):
            return True
    except OSError:
        return False


def _raylet_pids() -> list[int]:
    """The raylets that this process has started."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, _, rest = entry.read_text().partition("(")[2].rpartition(")")
            if name == "raylet" and int(rest.split()[1]) == os.getpid():
                found.append(int(entry.parent.name))
    return found


def _shutdown_soon() -> None:
    """Ray's own clearing up, as far as it gets within some seconds without its servers."""
    thread = threading.Thread(target=import_ray().shutdown, daemon=True)
    thread.start()
    thread.join(SHUTDOWN_S)


@contextmanager
def _reaped(raylets: list[int]) -> Iterator[None]:
    """Within the block a process waits for the death of this one, to end what a local Ray then leaves behind."""
    if not raylets:
        yield
        return
    command = [sys.executable, "-S", "-E", ray_reaper.__file__, *map(str, raylets)]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "os.fork")
        reaper = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        reaper.kill()
        reaper.communicate()
