"""Measured GEMM latencies as arrays, whatever file they came from, and how they are cut into train and test rows."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import UserError, unknown
from ..kernels.gemm import GemmProblem
from ..schedule_text import FIELDS

TRAIN_PART, TEST_PART = "fit", "check"
PROBLEM_COLUMNS = ("m", "n", "k", "batch", "dtype", "out_dtype", "layout", "beta", "quantise_a", "cache")


@dataclass(frozen=True, eq=False)
class Measurements:
    """Measured kernels: every attribute but `origin` and `schedule` is an array with one entry a kernel.

    A row that names its schedule is a measurement of that schedule. One that does not is a library's:
    the best it has.

    Attributes:
        m, n, k, batch: int64, dimensions of out[b] = A[b] (m x k) B[b] (k x n).
        latency_s: float64, one kernel.
        dtype, out_dtype: text, keys of `dse.content.dtypes.DTYPE_BYTES`: of A and B, and of the output.
        layout: text, a key of `dse.kernels.gemm.LAYOUTS`.
        beta: bool, whether C is read and added.
        quantise_a: bool, whether kernels that make a narrow A of a wide one were timed with it.
        cache: text, a key of `dse.kernels.gemm.CACHE_STATES`: what L2 held when the kernel started.
        source: text, who measured it: a framework, a kernel, a file.
        system: text, the GPU's name, "" where the file does not say.
        part: text, "fit" (train), "check" (test) or "report" (neither), "" where the file does not say.
        family: text, the instruction family of the row's schedule, "" where the row names none.
        schedule: `dse.schedule_text.FIELDS` -> int64, 0 where the row names none.
        origin: what the rows were read from, for the fitted file: name, rows, a hash of the bytes.
    """

    m: np.ndarray
    n: np.ndarray
    k: np.ndarray
    latency_s: np.ndarray
    batch: np.ndarray
    dtype: np.ndarray
    out_dtype: np.ndarray
    layout: np.ndarray
    beta: np.ndarray
    quantise_a: np.ndarray
    cache: np.ndarray
    source: np.ndarray
    system: np.ndarray
    part: np.ndarray
    family: np.ndarray
    schedule: Mapping[str, np.ndarray] = field(repr=False)
    origin: str = ""

    def __len__(self) -> int:
        return len(self.m)

    @cached_property
    def has_schedule(self) -> np.ndarray:
        """bool, rows that name their schedule."""
        return self.family != ""

    def take(self, rows: np.ndarray) -> "Measurements":
        """These rows only: indices, or a bool a row."""
        arrays = {name: getattr(self, name)[rows] for name in _ARRAYS}
        return replace(self, **arrays, schedule={name: values[rows] for name, values in self.schedule.items()})

    def problems(self) -> tuple[GemmProblem, ...]:
        """One problem a row, as the model takes it."""
        columns = (getattr(self, name).tolist() for name in PROBLEM_COLUMNS)
        return tuple(GemmProblem(**dict(zip(PROBLEM_COLUMNS, row, strict=True))) for row in zip(*columns, strict=True))

    def of_gpu(self, name: str) -> "Measurements":
        """The rows of one GPU; rows that name no GPU belong to whichever is asked for.

        Raises:
            UserError: the rows name GPUs, and this is none of them.
        """
        named = sorted(set(self.system.tolist()) - {""})
        mine = (self.system == name) | (self.system == "")
        if not mine.any():
            raise unknown("GPU in the measured table", name, named, "or name the rows with --system")
        return self.take(mine)

    def of_dtype(self, dtype: str) -> "Measurements":
        """The rows of one input type.

        Raises:
            UserError: there is none.
        """
        mine = self.dtype == dtype
        if not mine.any():
            raise unknown("dtype in the measured table", dtype, set(self.dtype.tolist()))
        return self.take(mine)

    def split(self, test: float = 0.3, seed: int = 0, rows: int | None = None) -> "tuple[Measurements, Measurements]":
        """(train, test): no pair (n, k) is in both, so that the test tells what other weights would see.

        Where the rows name their part, `fit` trains and `check` tests; `report` is in neither. Otherwise the pairs are
        dealt at random.

        Args:
            test: share of the pairs that test, where the rows name no part; above 0, below 1.
            seed: of the deal and of the draw.
            rows: at most so many train rows, drawn at random; None: all.

        Raises:
            UserError: a share that is none, no row to draw, fewer than two pairs, a named part without rows.
        """
        if not 0.0 < test < 1.0:
            raise UserError(f"test = {test:g}: a share above 0 and below 1, e.g. 0.3")
        if rows is not None and rows < 1:
            raise UserError(f"rows = {rows}: at least 1 train row is needed")
        rng = np.random.default_rng(seed)
        in_test = self._named_test() if (self.part != "").any() else self._dealt_test(test, rng)
        train = np.flatnonzero(in_test == 0)
        if rows is not None and len(train) > rows:
            train = np.sort(rng.choice(train, rows, replace=False))
        return self.take(train), self.take(np.flatnonzero(in_test == 1))

    def _named_test(self) -> np.ndarray:
        for part in (TRAIN_PART, TEST_PART):
            if not (self.part == part).any():
                raise UserError(
                    f"the column part has no row {part!r}: rows {TRAIN_PART!r} train and {TEST_PART!r} test; "
                    "leave the column out to have the rows dealt by (n, k)"
                )
        return np.where(self.part == TRAIN_PART, 0, np.where(self.part == TEST_PART, 1, 2))

    def _dealt_test(self, share: float, rng: np.random.Generator) -> np.ndarray:
        pairs, of_row = np.unique(np.stack([self.n, self.k], axis=1), axis=0, return_inverse=True)
        if len(pairs) < 2:
            raise UserError(
                f"all {len(self)} rows are of one pair (n, k): no weight shape is left to test on; "
                "measure at least one more pair"
            )
        count = min(max(math.ceil(share * len(pairs)), 1), len(pairs) - 1)
        chosen = np.zeros(len(pairs), np.int64)
        chosen[rng.permutation(len(pairs))[:count]] = 1
        return chosen[of_row.reshape(-1)]


_TEXT_DEFAULTS = {
    "dtype": "bf16",
    "out_dtype": "bf16",
    "layout": "tn",
    "cache": "a_warm",
    "source": "",
    "system": "",
    "part": "",
    "family": "",
}
_ARRAYS = tuple(f.name for f in fields(Measurements) if f.name not in ("schedule", "origin"))


def measurements(
    m: Any,
    n: Any,
    k: Any,
    latency_s: Any,
    *,
    schedule: Mapping[str, Any] | None = None,
    origin: str = "",
    **columns: Any,
) -> Measurements:
    """Measurements from arrays; what is one value for all rows may be given as that value, what is left out has the
    default of `dse.kernels.gemm.GemmProblem`.

    Raises:
        UserError: a dimension, type, layout or cache state that the model does not take, or a latency that is no time;
            the message names the row.
    """
    rows = len(np.atleast_1d(m))

    def column(values: Any, dtype: Any) -> np.ndarray:
        return np.broadcast_to(np.asarray(values, dtype), (rows,)).copy()

    sizes = {name: column(values, np.int64) for name, values in (("m", m), ("n", n), ("k", k))}
    unknown_names = set(columns) - {*_TEXT_DEFAULTS, "batch", "beta", "quantise_a"}
    if unknown_names:
        raise TypeError(f"no such column of measurements: {', '.join(sorted(unknown_names))}")
    given = schedule or {}
    made = Measurements(
        **sizes,
        latency_s=column(latency_s, np.float64),
        batch=column(columns.get("batch", 1), np.int64),
        beta=column(columns.get("beta", False), bool),
        quantise_a=column(columns.get("quantise_a", False), bool),
        **{name: column(columns.get(name, default), object) for name, default in _TEXT_DEFAULTS.items()},
        schedule={name: column(given.get(name, 0), np.int64) for name in FIELDS},
        origin=origin,
    )
    for row, (problem, seconds) in enumerate(zip(made.problems(), made.latency_s, strict=True)):
        try:
            problem.checked()
        except UserError as error:
            raise UserError(f"row {row}: {error}") from None
        if not (math.isfinite(seconds) and seconds > 0):
            raise UserError(f"row {row}: a latency of {seconds:g} s is not allowed: a finite time above 0")
    return made


def joined(sets: Sequence[Measurements]) -> Measurements:
    """The rows of several files, one after the other."""
    arrays = {name: np.concatenate([getattr(one, name) for one in sets]) for name in _ARRAYS}
    schedule = {name: np.concatenate([one.schedule[name] for one in sets]) for name in FIELDS}
    return Measurements(**arrays, schedule=schedule, origin=", ".join(one.origin for one in sets if one.origin))


def short_hash(content: bytes) -> str:
    """The first 12 hexadecimal digits of the SHA-256 of a file's bytes."""
    return hashlib.sha256(content).hexdigest()[:12]
