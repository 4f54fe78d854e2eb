"""What remarks on a schedule are made of: its fields, its cost, the roof, and the shares that they give."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

GOOD_TRAFFIC = 1.25  # DRAM bytes over compulsory bytes that need no remark
Remarks: TypeAlias = Mapping[str, tuple[float, str]]


class Roof(Protocol):
    """What remarks ask of a problem's roofline; `dse.roofline.Roofline` is one."""

    @property
    def compulsory_bytes(self) -> float:
        """What DRAM must move."""
        ...

    @property
    def tensor_s(self) -> float:
        """Time at the peak of the engine that computes."""
        ...

    @property
    def tensor_efficiency(self) -> float:
        """Share of that peak that is sustained."""
        ...


@dataclass(frozen=True)
class About:
    """What remarks are made of.

    Attributes:
        kernel: name of the kernel.
        schedule: field -> number.
        cost: cost column -> number, one schedule's; `bound_name` says what binds.
        roof: the problem's roofline on this GPU.
        clusters: whether the GPU has clusters.
        throttled_s: seconds of the latency that the power limit costs.
    """

    kernel: str
    schedule: Mapping[str, Any]
    cost: Mapping[str, Any]
    roof: Roof
    clusters: bool = True
    throttled_s: float = 0.0

    @property
    def bound(self) -> str:
        """What binds, a name of `jaxmodel.types.BOUNDS`."""
        return str(self.cost["bound_name"])

    @property
    def traffic(self) -> float:
        """DRAM bytes over compulsory bytes."""
        return float(self.cost["ddr_bytes"]) / self.roof.compulsory_bytes

    @property
    def padding(self) -> float:
        """Share of the executed tensor work that no result needs."""
        executed_s = float(self.cost["pipeline_tensor_s"]) * self.roof.tensor_efficiency
        return max(0.0, 1.0 - self.roof.tensor_s / executed_s) if executed_s > 0 else 0.0

    def share(self, name: str) -> float:
        """A phase's share of the latency, at most 0.999."""
        return min(float(self.cost.get(name, 0.0)) / float(self.cost["latency_s"]), 0.999)
