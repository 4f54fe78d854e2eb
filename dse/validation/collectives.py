"""Collectives against measured ones: NCCL's by the library's rule, an inference engine's kernels by the engine's."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..collective_table import collectives
from ..content.fabric import Fabric, load_fabric
from ..content.files import content_files, home_expanded
from ..errors import UserError, unknown
from .latency_errors import Errors, errors
from .measured_table import read_measured_table, require_columns

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("system", "library", "collective", "ranks", "bytes", "latency_us")
PARTS = ("fit", "report")
FABRICS = {"a100_sxm": "nvlink3_x8", "h100_sxm": "nvlink4_x8", "h200_sxm": "nvlink4_x8", "b200_sxm": "nvlink5_x8"}
NCCL = "nccl"


@dataclass(frozen=True)
class CollectiveValidation:
    """One system.

    Attributes:
        system: GPUs, as the table names them.
        fabric: what predicts it.
        rule: "nccl" or "engine": whose rows.
        rows: the judged rows with `model_us`.
        model: errors over them.
        by_collective: errors over those of each collective.
    """

    system: str
    fabric: str
    rule: str
    rows: "pd.DataFrame"
    model: Errors
    by_collective: Mapping[str, Errors]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "system": self.system,
            "fabric": self.fabric,
            "rule": self.rule,
            "model": self.model.to_dict(),
            "by_collective": {name: found.to_dict() for name, found in self.by_collective.items()},
        }


def validate_collectives(
    table: str | os.PathLike[str] | None = None,
    part: str | None = "report",
    fabrics: Mapping[str, str] | None = None,
) -> list[CollectiveValidation]:
    """Predictions beside measured collectives, a result a (system, rule) of the table.

    Args:
        table: Parquet with the columns `COLUMNS`; None: the packaged sample (studies/measured/README.md).
        part: "fit" or "report", where the table has a column `part`; None: all rows.
        fabrics: system -> fabric; None: `FABRICS`.

    Raises:
        UserError: no such file or column, a value that cannot be, an unknown part, a system without a fabric, a fabric
            for a system that the table lacks, no row left.
    """
    rows = _rows(table, part)
    systems = list(rows["system"].unique())
    chosen = FABRICS | dict(fabrics or {})
    for name in fabrics or {}:
        if name not in systems:
            raise unknown("GPU of the table", name, systems)
    lacking = [name for name in rows["system"].unique() if name not in chosen]
    if lacking:
        raise UserError(f"no fabric is given for {', '.join(lacking)}: give one with --fabric {lacking[0]}=NAME")
    found = []
    for system in rows["system"].unique():
        fabric = load_fabric(chosen[system])
        of_system = rows[rows["system"] == system]
        by_nccl = of_system["library"].str.startswith(NCCL)
        for rule, own in (("nccl", of_system[by_nccl]), ("engine", of_system[~by_nccl])):
            if len(own):
                found.append(_validated(system, fabric, rule, own))
    return found


def _rows(table: str | os.PathLike[str] | None, part: str | None) -> "pd.DataFrame":
    path = home_expanded(table) if table is not None else content_files("studies/measured", ".parquet")["collectives"]
    rows = read_measured_table(path, COLUMNS)
    require_columns(path, rows, COLUMNS)
    if part is not None and part not in PARTS:
        raise unknown("part", part, (*PARTS, "all"))
    if part is not None and "part" in rows.columns:
        rows = rows[rows["part"] == part]
    if not len(rows):
        raise UserError(f"{path} has no row of the part {part or 'all'}")
    _check_columns(path, rows)
    return rows.reset_index(drop=True)


def _check_columns(path: Path, rows: "pd.DataFrame") -> None:
    from pandas.api.types import is_numeric_dtype

    for name in ("system", "library", "collective"):
        wrong = next((value for value in rows[name] if not isinstance(value, str)), "")
        if wrong != "":
            raise UserError(f"{path}: {name} = {wrong!r} in a row; allowed: a text")
    for name in ("ranks", "bytes", "latency_us"):
        numbers = rows[name].to_numpy(float) if is_numeric_dtype(rows[name].dtype) else None
        if numbers is None:
            raise UserError(f"{path}: {name} is a column of {rows[name].dtype}; allowed: numbers above 0")
        wrong = numbers[~((numbers > 0) & np.isfinite(numbers))]
        if len(wrong):
            raise UserError(f"{path}: {name} = {wrong[0]:g} in a row; allowed: a number above 0; leave such rows out")


def _validated(system: str, fabric: Fabric, rule: str, rows: "pd.DataFrame") -> CollectiveValidation:
    import pandas as pd

    parts = [_predicted(fabric, rule, own) for _, own in rows.groupby("collective", sort=False)]
    judged = pd.concat(parts, ignore_index=True)
    by_collective = {str(name): _errors(own) for name, own in judged.groupby("collective")}
    return CollectiveValidation(system, fabric.name, rule, judged, _errors(judged), by_collective)


def _predicted(fabric: Fabric, rule: str, rows: "pd.DataFrame") -> "pd.DataFrame":
    collective = str(rows["collective"].iloc[0])
    sizes, ranks = np.sort(rows["bytes"].unique()), np.sort(rows["ranks"].unique())
    table = collectives(collective, sizes.tolist(), ranks.tolist(), [fabric], rule)
    latency = table["latency_s"].to_numpy().reshape(len(ranks), len(sizes))
    places = np.searchsorted(ranks, rows["ranks"]), np.searchsorted(sizes, rows["bytes"])
    return rows.assign(model_us=latency[places] * 1e6)


def _errors(rows: "pd.DataFrame") -> Errors:
    groups = rows["collective"] + " " + rows["ranks"].astype(str)
    return errors(rows["model_us"].to_numpy(), rows["latency_us"].to_numpy(float), groups.to_numpy())
