"""Machines of a what-if as a question of Pareto: area and power beside latency, and which machines no other beats."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...content.gpu import GpuFile
from ...content.silicon import load_silicon
from ...errors import UserError, unknown
from ...front import non_dominated
from ..area_power import known_area_power
from .table import TOTALS
from .tuned import WhatIf

PRICES: dict[str, tuple[str, str]] = {
    "area_mm2": ("mm2", "area of the silicon; assumed, first order; missing where the die is not known"),
    "tdp_w": ("W", "the part's power limit"),
    "on_front": ("1", "whether no machine is better in every quantity of the front"),
}
QUANTITIES = ("latency_s", "energy_j", "power_w", "area_mm2", "tdp_w")


def priced(found: WhatIf, front: Sequence[str] = ()) -> WhatIf:
    """With area (missing where the die is not known) and power limit of every machine, and the front over the
    quantities asked for, all minimised.

    Raises:
        UserError: what `check_front` raises.
    """
    check_front([machine.gpu for machine in found.machines], front)
    totals = found.totals.copy()
    silicon = [known_area_power(machine.gpu) for machine in found.machines]
    totals["area_mm2"] = [np.nan if known is None else known.area_mm2 for known in silicon]
    totals["tdp_w"] = [machine.gpu["tdp_w"] for machine in found.machines]
    if front:
        totals["on_front"] = non_dominated(totals[list(front)].to_numpy(np.float64))
    return replace(found, totals=totals)


def check_front(gpus: Sequence[GpuFile], front: Sequence[str]) -> None:
    """Whether a front over these quantities can be told; asked before anything is evaluated.

    Raises:
        UserError: an unknown quantity, or the area of a die that is not known.
    """
    for name in front:
        if name not in QUANTITIES:
            raise unknown("quantity of a front of machines", name, QUANTITIES)
    if "area_mm2" not in front:
        return
    silicon = load_silicon()
    unknown_die = next((gpu.name for gpu in gpus if not silicon.found(gpu)), None)
    if unknown_die is not None:
        raise UserError(
            f"the area of {unknown_die} is not known, so no front can have area_mm2: leave it out, base the GPU file "
            "on one whose die is known, or describe its die, see docs/area-and-power.md"
        )


def described(name: str) -> tuple[str, str]:
    """Unit and meaning of a column of the totals."""
    return (TOTALS | PRICES)[name]
