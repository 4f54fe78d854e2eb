"""A GPU without its own fit: what its file would say if nobody had measured a kernel on it.

Numbers that a datasheet or a microbenchmark gives keep that value, times what other GPUs' fits make of theirs;
latencies and shares come from the other GPUs' fits: from those of the same compute capability where there are any.
This is how a file for a new GPU starts, and how far such a file can be trusted is measured with it
(`scripts/zero_shot.py`).
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from ..content.datum import Datum
from ..content.gpu import GpuFile
from ..errors import UserError

# known apart from kernels: rates and energies of this very part
OF_THE_PART = ("tensor_efficiency", "ddr_bytes_per_s", "l2_bytes_per_s", "ddr_latency_s", "joule_per_tensor_flop")
# chosen by looking at this GPU's kernels: elsewhere, or as a file that leaves them out
CHOSEN = {"smem_bytes_per_clock_sm": None, "l2_retention": 1.0}


def without_fit(gpu: GpuFile, others: Sequence[GpuFile]) -> GpuFile:
    """The GPU with every fitted number replaced by what is known without measuring kernels on it.

    Args:
        gpu: the part in question.
        others: parts whose fits may be used; the part itself is left out.

    Raises:
        UserError: a number that its own fit alone tells.
    """
    kin = [other for other in others if other.name != gpu.name]
    near = [other for other in kin if other.compute_capability == gpu.compute_capability] or kin
    values = {
        name: _known(name, datum, near) if datum.kind == "fitted" else datum for name, datum in gpu.values.items()
    }
    return replace(gpu, name=f"{gpu.name}_without_fit", values=values, by_dtype={})


def _known(name: str, datum: Datum, near: Sequence[GpuFile]) -> Datum:
    if name in CHOSEN:
        value = datum.elsewhere if CHOSEN[name] is None else CHOSEN[name]
        return _told(datum, value, "assumed", "without a fit")
    fitted = [other.values[name] for other in near if other.values[name].kind == "fitted"]
    names = ", ".join(other.name for other in near)
    if name in OF_THE_PART and datum.elsewhere is not None:
        shares = [one.number / one.elsewhere for one in fitted if one.elsewhere]
        share = median(shares) if shares else 1.0
        source = f"its own value from elsewhere, times the share that fits reach on {names}"
        return _told(datum, datum.elsewhere * share, "derived", source)
    if not fitted:
        if datum.elsewhere is None:
            raise UserError(
                f"{name} is known from its own fit only: give what a datasheet or a microbenchmark says of it as "
                "`elsewhere` in the GPU file, or fit it on another GPU"
            )
        return _told(datum, datum.elsewhere, "assumed", "elsewhere")
    value = median(one.number for one in fitted)
    return _told(datum, value, "derived", f"fits on {names}")


def _told(datum: Datum, value: Any, kind: str, source: str) -> Datum:
    """Another number in a datum's place: nothing that was said of the old one holds for it."""
    return replace(datum, value=value, kind=kind, source=source, note="", elsewhere=None, uncertainty=None)
