"""What the machine offers and how jax is set up for it: cores, device, compilation cache."""

import os
import platform
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any


def usable_cores() -> int:
    """Cores that this process may run on (its affinity, not the machine's count)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def pin_to_a_free_core(patience_s: float = 1.0) -> int | None:
    """Binds this process to one core that no other process bound by this function holds; None where none is free.

    Call it before jax is imported: jax sizes its thread pools by the cores it finds. The claim is a lock on a file in
    the temporary folder and ends with the process.

    Args:
        patience_s: how long to wait for a core, e.g. that of a process that is just ending.
    """
    if not hasattr(os, "sched_setaffinity"):
        return None
    deadline = time.monotonic() + patience_s
    while (core := _claim_a_core()) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    if core is not None:
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), {core})
    return core


def core_lock_path(core: int) -> Path:
    """The file whose lock is the claim to a core."""
    return Path(tempfile.gettempdir()) / f"tilesweep-{os.getuid()}-core-{core}.lock"


def _claim_a_core() -> int | None:
    import fcntl

    for core in sorted(os.sched_getaffinity(0)):
        file = os.open(core_lock_path(core), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return core  # the file stays open as long as the process lives
        except OSError:
            os.close(file)
    return None


def cache_dir() -> Path:
    """The user's cache folder of tilesweep: `$XDG_CACHE_HOME/tilesweep`, else `~/.cache/tilesweep`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tilesweep"


def configure_jax() -> None:
    """Sets jax up for sweeps; call it before the first array is made. Repeated calls do nothing new.

    A chunk runs in the thread that asks for it (no asynchronous dispatch on CPU: two Python threads then keep two cores
    busy), and compiled functions are kept on disk between runs, in `JAX_COMPILATION_CACHE_DIR` where that is set and
    else in `cache_dir()/jax`. Of a GPU's memory no more is taken than chunks need, so that several processes share it.
    `JAX_PLATFORMS` and `XLA_PYTHON_CLIENT_PREALLOCATE` are jax's own variables and stay in force.

    Raises:
        UserError: jax finds no device.
    """
    import jax

    from .errors import UserError

    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # a driver would keep its Ray worker out
    jax.config.update("jax_cpu_enable_async_dispatch", False)  # before jax looks for devices
    if getattr(jax.config, "jax_compilation_cache_dir", None) is None and _is_writable(cache_dir() / "jax"):
        warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")  # a full disk
        jax.config.update("jax_compilation_cache_dir", str(cache_dir() / "jax"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:  # jax asserts where JAX_PLATFORMS names a device that is not here
        asked = os.environ.get("JAX_PLATFORMS", "")
        raise UserError(f"jax finds no device (JAX_PLATFORMS={asked!r}): set JAX_PLATFORMS=cpu, or unset it") from error


def _is_writable(folder: Path) -> bool:
    """False for a read-only home: functions are then compiled anew in every run."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def is_accelerator(device: Any) -> bool:
    """Whether a jax device is something else than the CPU."""
    return device.platform != "cpu"


def cpu_type() -> str:
    """The processor in words, e.g. "AMD EPYC 7B13": two runs on one type agree bit for bit."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.lower().startswith(("model name", "cpu part")):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
