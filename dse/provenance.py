"""How a result was made: everything needed to make it again, and to see what differs when it comes out otherwise."""

import dataclasses
import hashlib
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np

from .job import SweepJob
from .kernels.entry import Kernel, attribute
from .platform import cpu_type
from .trust import label_of

SCHEMA_VERSION = 2  # 1: what it was computed on was part of a run's identity
PACKAGES = ("tilesweep", "jax", "jaxlib", "numpy", "pandas", "pyarrow")
SAME_ON_ALL_NODES = ("ray", "jax", "jaxlib", "numpy", "tilesweep")


def identity(job: SweepJob) -> dict[str, Any]:
    """What decides a sweep's result, bit for bit on one kind of machine: two runs may be mixed only where all of it is
    equal. What it is computed on is watched by `dse.machines`."""
    trust = label_of(job)
    return {
        "schema_version": SCHEMA_VERSION,
        "kernel": job.model.name,
        "space": job.space.name,
        "space_hash": job.space.hash,
        "range": [str(job.start), str(job.end)],
        "problem": describe_problem(job.problem),
        "gpu": job.gpu_name,
        "gpu_hash": record_hash(job.gpu),
        "model_hash": hash_of_model(job.model),
        "objectives": list(job.objectives),
        "rank_by": job.rank_by,
        "top": job.top,
        "tie_limit": job.tie_limit,
        "prune": job.prune,
        "residuals": trust.residuals if trust else None,
        "columns": list(job.row_columns) if job.row_columns else None,  # of all rows; None: all
    }


def provenance(job: SweepJob, command_line: str = "") -> dict[str, Any]:
    """`identity`, this machine, and what does not decide the result: versions, commit, command line, time."""
    import jax

    trust = label_of(job)
    return identity(job) | {
        "device": jax.devices()[0].device_kind,
        "trust": trust.to_dict() if trust else None,
        "space_size": str(job.space.size),
        "family": job.space.family,
        "dtype": job.space.dtype,
        "problem_name": job.problem_name,
        "gpu_changes": list(job.gpu_changes),
        "clock": job.clock,
        "chunk_lanes": job.chunk_lanes,
        "seed": None,  # an exhaustive sweep draws nothing
        **how_made(command_line),
    }


def how_made(command_line: str = "") -> dict[str, Any]:
    """By what command and code, on what machine and when: what every result file says beside what it is of."""
    return {
        "command_line": command_line,
        "commit": commit(),
        "versions": versions(),
        "cpu": cpu_type(),
        "platform": platform.platform(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def describe_problem(problem: Any) -> dict[str, Any]:
    """A problem's attributes as JSON has them."""
    return {field.name: _plain(getattr(problem, field.name)) for field in dataclasses.fields(problem)}


def record_hash(record: Any) -> str:
    """SHA-256 of a record of numbers, by field name and float32 value; nested records included."""
    digest = hashlib.sha256()
    for name, value in sorted(_leaves(record)):
        digest.update(name.encode() + b"=" + np.asarray(value, np.float32).tobytes())
    return digest.hexdigest()


@cache
def model_hash() -> str:
    """SHA-256 of the sources of `jaxmodel`."""
    import jaxmodel

    digest = hashlib.sha256()
    for folder in jaxmodel.__path__:
        for source in sorted(Path(folder).rglob("*.py")):
            digest.update(source.read_bytes())
    return digest.hexdigest()


@cache
def step_model_hash() -> str:
    """`model_hash`, and of the sources of steps and layouts of whole models, `dse.serving` and `dse.step_operators`."""
    own = Path(__file__).parent
    digest = hashlib.sha256(model_hash().encode())
    for source in (own / "step_operators.py", *sorted((own / "serving").rglob("*.py"))):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def hash_of_model(model: Any) -> str:
    """`model_hash`, and of a user's kernel the file of its cost function too."""
    module = model.cost_function.partition(":")[0] if isinstance(model, Kernel) else "jaxmodel"
    if module.split(".")[0] == "jaxmodel":
        return model_hash()
    attribute(model.cost_function)  # says what is wrong where it cannot be imported
    source = Path(str(import_module(module).__file__))
    return hashlib.sha256(model_hash().encode() + source.read_bytes()).hexdigest()


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of what computes or writes the results."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


@cache
def must_agree() -> dict[str, str]:
    """What must be the same in all processes that compute one result: versions, and the model's sources."""
    found = {"python": ".".join(platform.python_version_tuple()[:2])}
    for package in SAME_ON_ALL_NODES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found | {"model_hash": model_hash()}


@cache
def commit() -> str | None:
    """The commit of the checkout that this package runs from, with "-dirty" where files differ; None elsewhere."""
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    try:
        head = _git(root, "rev-parse", "HEAD")
        return head + ("-dirty" if _git(root, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two identities, in words, one entry a difference."""
    found = []
    for name in new:
        if old.get(name) == new[name]:
            continue
        if name == "schema_version":
            return [
                f"it was written by another version of tilesweep (format {old.get(name)}, this one has {new[name]})"
            ]
        if name.endswith("_hash"):
            what = {"space_hash": "the space", "gpu_hash": "the GPU's numbers", "model_hash": "the model's code"}[name]
            found.append(f"{what} changed")
        else:
            found.append(f"{name} was {old.get(name)!r}, is {new[name]!r}")
    return found


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()


def _leaves(record: Any, prefix: str = "") -> list[tuple[str, Any]]:
    if isinstance(record, tuple):
        return [leaf for place, entry in enumerate(record) for leaf in _leaves(entry, f"{prefix}[{place}]")]
    if not dataclasses.is_dataclass(record):
        return [(prefix, record)]
    return [
        leaf
        for field in dataclasses.fields(record)
        for leaf in _leaves(getattr(record, field.name), f"{prefix}.{field.name}")
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
