"""Collectives over nodes beside published times of NCCL's benchmarks, by the library's rule."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..collective_table import collectives
from ..content.files import find_content
from ..content.toml import read_toml

FILE = "collectives_over_nodes"


@dataclass(frozen=True)
class PublishedCollective:
    """One published time beside the prediction.

    Attributes:
        what: what was measured.
        fabric: nodes and network that predict it.
        collective, ranks, gpus_per_node, bytes: as `dse.collectives` takes them.
        measured_s, predicted_s: of the collective.
        algorithm, protocol: that the rule chooses.
        fitted: whether the network's numbers were fitted to this row.
        source, note: where it was published, and on what machine.
    """

    what: str
    fabric: str
    collective: str
    ranks: int
    gpus_per_node: int
    bytes: float
    measured_s: float
    predicted_s: float
    algorithm: str
    protocol: str
    fitted: bool
    source: str
    note: str

    @property
    def error(self) -> float:
        """Predicted over measured time, less 1."""
        return self.predicted_s / self.measured_s - 1.0


def published() -> list[PublishedCollective]:
    """Every packaged measurement, in the file's order.

    Raises:
        UserError: a fabric that the file names is not there.
    """
    return [row for entry in entries() for row in _rows(entry)]


def entries() -> Sequence[Mapping[str, Any]]:
    """The tables of the file. Rows are (bytes, microseconds); of tables with `fitted`, every other row, from the second
    on, was fitted on (`scripts/fit_network.py`)."""
    return read_toml(find_content("table", "studies/measured", FILE))["published"]


def _rows(entry: Mapping[str, Any]) -> list[PublishedCollective]:
    asked = {name: entry[name] for name in ("collective", "ranks", "gpus_per_node")}
    sizes = [float(size) for size, _ in entry["rows"]]
    found = collectives(
        entry["collective"],
        sizes,
        [entry["ranks"]],
        [entry["fabric"]],
        overrides=entry.get("overrides"),
        gpus_per_node=entry["gpus_per_node"],
    )
    about = {name: entry[name] for name in ("what", "fabric", "source", "note")}
    return [
        PublishedCollective(
            **about,
            **asked,
            bytes=size,
            measured_s=microseconds * 1e-6,
            predicted_s=float(row["latency_s"]),
            algorithm=row["algorithm"],
            protocol=row["protocol"],
            fitted=entry["fitted"] and place % 2 == 1,
        )
        for place, ((size, microseconds), row) in enumerate(zip(entry["rows"], found.to_dict("records"), strict=True))
    ]
