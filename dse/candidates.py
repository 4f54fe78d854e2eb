"""The user's own candidates as schedules with their origin: Triton and TileLang configs, profiler calls, schedules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .any_order import one_order
from .candidate_files import is_triton_config, listed_entries, read_entries
from .cutlass_call import CutlassCall
from .cutlass_kernel import schedule_of as schedule_of_call
from .errors import UserError
from .schedule_words import words_of
from .tilelang_config import is_tilelang, tilelang_from
from .tilelang_config import schedule_of as schedule_of_tilelang
from .triton_config import TritonConfig, TritonGpu, config_from, is_triton, schedule_of

SAID_BESIDE = ("family", "rank", "index", "gpu", "shape", "dtype", "m", "n", "k", "batch")
SAID_BESIDE += ("latency_s", "latency_low_s", "latency_high_s", "tflop_per_s", "bound", "reason")
"""What exports say beside a schedule: no field of it, and nothing to warn of."""


@dataclass(frozen=True)
class Candidate:
    """One candidate of the user's.

    Attributes:
        name: where it stands, e.g. "configs[3]" or "line 4".
        family: the instruction family it runs on.
        schedule: field -> number.
        unused: names that the candidate gives and the model does not use.
    """

    name: str
    family: str
    schedule: Mapping[str, int]
    unused: tuple[str, ...] = ()


def read_candidates(
    source: str | Path | Sequence[Any], problem: Any, gpu: TritonGpu, family: str | None = None
) -> list[Candidate]:
    """Reads candidates.

    Args:
        source: path of a file (`dse.candidate_files.read_entries`: Python, which is run, JSON, CSV, profiler calls); or
            a list of Config objects, mappings and schedule texts. A mapping is a Triton config, flat (BLOCK_M,
            num_warps, ...), a TileLang config (block_M, ..., thread_num), a schedule, or a row whose `schedule` is one.
        problem: the user's problem.
        gpu: families and SMs.
        family: of candidates that are schedules; None: the GPU's fastest.

    Raises:
        UserError: an unreadable file, nothing in it, or an entry that is no candidate; the message says where.
    """
    entries = read_entries(source) if isinstance(source, (str, Path)) else listed_entries("candidates", list(source))
    if not entries:
        raise UserError(f"{source} holds no candidate: a list of at least one is needed")
    return candidates_of(entries, problem, gpu, family)


def candidates_of(
    entries: Sequence[tuple[str, Any]], problem: Any, gpu: TritonGpu, family: str | None = None
) -> list[Candidate]:
    """The candidates of entries that were read before (`dse.candidate_files.read_entries`), in their order.

    Raises:
        UserError: an entry that is no candidate; the message says which.
    """
    return [_candidate(name, entry, problem, gpu, family) for name, entry in entries]


def _candidate(name: str, entry: Any, problem: Any, gpu: TritonGpu, family: str | None) -> Candidate:
    if problem.kernel != "gemm" and _is_config(entry, words_of(problem.kernel).keys):
        raise UserError(
            f"{name} is a config of a GEMM, but the problem is of {problem.kernel}: give schedules, e.g. "
            f"{words_of(problem.kernel).example!r}"
        )
    if isinstance(entry, CutlassCall):
        runs_on, schedule = schedule_of_call(entry, problem, name)
        return Candidate(name, runs_on, one_order(schedule, problem)[0])
    if is_triton_config(entry):
        launch = {key: getattr(entry, key) for key in ("num_warps", "num_stages", "num_ctas") if hasattr(entry, key)}
        return _from_config(name, config_from({**entry.kwargs, **launch}, name), problem, gpu)
    if isinstance(entry, Mapping) and isinstance(entry.get("schedule"), str):  # a row of a run's or a batch's tables
        family, entry = str(entry.get("family", family or gpu.families[0])), entry["schedule"]
    if isinstance(entry, Mapping) and isinstance(entry.get("kwargs"), Mapping):
        entry = {**entry["kwargs"], **{key: value for key, value in entry.items() if key != "kwargs"}}
    if isinstance(entry, Mapping) and is_tilelang(entry):
        config = tilelang_from(entry, name)
        runs_on, schedule = schedule_of_tilelang(config, problem, gpu, name)
        return Candidate(name, runs_on, schedule, _unknown(config.unused))
    if isinstance(entry, Mapping) and is_triton(entry):
        return _from_config(name, config_from(entry, name), problem, gpu)
    if not isinstance(entry, (Mapping, str)):
        raise UserError(f"{name} is {entry!r}: neither a Triton config nor a schedule")
    chosen, words = family or gpu.families[0], words_of(problem.kernel)
    unused: tuple[str, ...] = ()
    if isinstance(entry, Mapping):
        beside = {choice.name for choice in problem.CHOICES} if problem.kernel != "gemm" else set()
        unused = _unknown(str(key) for key in entry if key not in words.keys and key not in beside)
        chosen = str(entry.get("family", chosen))
        entry = {key: value for key, value in entry.items() if key in words.keys}
    try:
        schedule = words.parse(entry, chosen)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    return Candidate(name, chosen, one_order(schedule, problem)[0], unused)


def _is_config(entry: Any, keys: tuple[str, ...]) -> bool:
    if isinstance(entry, Mapping):
        config = isinstance(entry.get("kwargs"), Mapping) or is_tilelang(entry) or is_triton(entry)
        return config and not any(key in keys for key in entry)
    return isinstance(entry, CutlassCall) or is_triton_config(entry)


def _from_config(name: str, config: TritonConfig, problem: Any, gpu: TritonGpu) -> Candidate:
    try:
        family, schedule = schedule_of(config, problem, gpu)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    return Candidate(name, family, schedule, _unknown(config.unused))


def _unknown(names: Any) -> tuple[str, ...]:
    return tuple(name for name in names if name not in SAID_BESIDE)
