"""Decode attention, predicted against measured: the best over a preset, by kernel and GPU, beside a fitted roofline."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..content.dtypes import DTYPE_BYTES
from ..errors import UserError, unknown
from .decode_measured import FAMILIES, TABLES, DecodeFamily, load_decode
from .decode_predict import DecodePredictor, numbers_of
from .latency_errors import Errors, errors

if TYPE_CHECKING:
    import pandas as pd

BUCKETS_US = {"< 30 us": (0.0, 30.0), "30-300 us": (30.0, 300.0), "> 300 us": (300.0, float("inf"))}


@dataclass(frozen=True)
class DecodeValidation:
    """One kernel on one GPU.

    Attributes:
        table: "gqa" or "mla".
        system, kernel: as the table names them; the kernel's numbers are those of the implementation of its name.
        space: sub-space whose best is taken.
        schedules: of it.
        errors: of the model.
        roofline: of launch + bytes of the cache + bytes of Q and O, three rates fitted on the part `fit`.
        by_latency: bucket of measured latency -> the model's errors, where it has rows.
        rows: the judged rows with model_us, roofline_us and schedule_index.
    """

    table: str
    system: str
    kernel: str
    space: str
    schedules: int
    errors: Errors
    roofline: Errors
    by_latency: Mapping[str, Errors]
    rows: "pd.DataFrame"

    def to_dict(self) -> dict[str, Any]:
        """Numbers only, for JSON: no rows."""
        plain = {name: getattr(self, name) for name in ("table", "system", "kernel", "space", "schedules")}
        found = {name: asdict(of) for name, of in self.by_latency.items()}
        return plain | {"model": self.errors.to_dict(), "roofline": self.roofline.to_dict(), "by_latency": found}


def validate_decode_attention(
    tables: Sequence[str] = tuple(TABLES),
    part: str = "judge",
    systems: Sequence[str] | None = None,
    kernels: Sequence[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[DecodeValidation]:
    """Compares the best predicted latency with the measured one, for every kernel of the packaged samples.

    Args:
        tables: "gqa", "mla" or both.
        part: "judge", the combinations that nothing was fitted on, or "fit".
        systems, kernels: only these; None: all.
        progress: called with a line of text before each kernel; None: silent.

    Raises:
        UserError: an unknown table, part, system or kernel, or nothing left.
    """
    samples = {table: load_decode(table, None) for table in tables}
    load_decode(part=part)
    for wanted, known, noun in (
        (systems, {name for family in FAMILIES for name in family.systems}, "GPU of the decode tables"),
        (kernels, {family.kernel for family in FAMILIES}, "kernel of the decode tables"),
    ):
        for name in wanted or ():
            if name not in known:
                raise unknown(noun, name, sorted(known))
    found = []
    for family in FAMILIES:
        for system in family.systems if family.table in samples else ():
            if system in (systems or [system]) and family.kernel in (kernels or [family.kernel]):
                if progress is not None:
                    progress(f"{system} {family.kernel}")
                found.append(_validate(samples[family.table], family, system, part))
    if not found:
        raise UserError("no kernel has rows on these GPUs; ask for fewer of --table, --gpu and --kernel")
    return found


def pooled(results: Sequence[DecodeValidation], table: str) -> Errors:
    """Errors over all rows of a table."""
    rows = [result.rows for result in results if result.table == table]
    model_us, measured_us = (
        np.concatenate([one[name].to_numpy(float) for one in rows]) for name in ("model_us", "latency_us")
    )
    return errors(model_us, measured_us)


def _validate(sample: "pd.DataFrame", family: DecodeFamily, system: str, part: str) -> DecodeValidation:
    rows = sample[(sample["system"] == system) & (sample["kernel"] == family.kernel)]
    fit, judged = rows[rows["part"] == "fit"], rows[rows["part"] == part]
    numbers = numbers_of(family, system)
    predictor = DecodePredictor(judged, system, family)
    model_us, index = predictor.narrowed(numbers).predict(numbers)
    measured_us = judged["latency_us"].to_numpy(float)
    roofline_us = _amounts(judged) @ _rates(fit)
    by_latency = {}
    for bucket, (low, high) in BUCKETS_US.items():
        inside = (measured_us >= low) & (measured_us < high)
        if inside.any():
            by_latency[bucket] = errors(model_us[inside], measured_us[inside])
    return DecodeValidation(
        table=family.table,
        system=system,
        kernel=family.kernel,
        space=f"{predictor.space.name}:{family.preset}",
        schedules=predictor.space.size,
        errors=errors(model_us, measured_us),
        roofline=errors(roofline_us, measured_us),
        by_latency=by_latency,
        rows=judged.assign(model_us=model_us, roofline_us=roofline_us, schedule_index=index),
    )


def _amounts(rows: "pd.DataFrame") -> np.ndarray:
    """Of a roofline: one, bytes of the cache, bytes of Q and O."""
    size = rows["kv_dtype"].map(DTYPE_BYTES).to_numpy(float)
    heads, batch, head_dim, v_dim = (rows[name].to_numpy(float) for name in ("heads", "batch", "head_dim", "v_dim"))
    elements = head_dim + np.where(v_dim < head_dim, 0.0, v_dim)
    cache = batch * rows["kv_heads"].to_numpy(float) * rows["kv_tokens"].to_numpy(float) * elements * size
    return np.stack([np.ones(len(rows)), cache, batch * heads * (head_dim + v_dim) * DTYPE_BYTES["bf16"]], axis=1)


def _rates(rows: "pd.DataFrame") -> np.ndarray:
    """Seconds an amount, least squares of the relative error."""
    measured_us = rows["latency_us"].to_numpy(float)
    found, *_ = np.linalg.lstsq(_amounts(rows) / measured_us[:, None], np.ones(len(rows)), rcond=None)
    return np.maximum(found, 0.0)
