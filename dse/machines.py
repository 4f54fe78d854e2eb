"""On what machines a result was computed, and whether results of several may stand in one run.

Processors of one type, and GPUs of one kind, give the same bits for the same compiled chunk. Others differ in the last
bits of a float32, so a run stays on one kind of machine unless its owner asks for more.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .errors import UserError

MIX_TOLERANCE = 1e-5  # relative: what float32 values of two kinds of machines may differ by


@dataclass(frozen=True, order=True)
class Machine:
    """One kind of machine; all workers of this kind give the same bits.

    Attributes:
        cpu: type of the processor.
        device: kind of the jax device that evaluates: "cpu", or a GPU's name.
        chunk_lanes: candidates of the one chunk shape that is compiled.
    """

    cpu: str
    device: str
    chunk_lanes: int

    def __str__(self) -> str:
        where = self.cpu if self.device == "cpu" else f"{self.device} on {self.cpu}"
        return f"{where}, chunks of {self.chunk_lanes:,}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, held: Mapping[str, Any]) -> "Machine":
        """The inverse of `to_dict`; raises KeyError, TypeError or ValueError where something is missing."""
        return cls(str(held["cpu"]), str(held["device"]), int(held["chunk_lanes"]))


class Admission:
    """Who may contribute to a run: machines of the kind that has contributed already, or any where that was asked for.

    Args:
        machines: kinds that have contributed before.
        mix: whether others may.
        run: whose run it is, for messages.
        on_new: called with all kinds, each time another one is admitted.
    """

    def __init__(
        self,
        machines: Iterable[Machine] = (),
        mix: bool = False,
        run: str = "the run",
        on_new: Callable[[tuple[Machine, ...]], None] = lambda machines: None,
    ) -> None:
        self.machines = tuple(machines)
        self._mix, self._run, self._on_new = mix, run, on_new

    def __call__(self, machine: Machine) -> None:
        """Admits a worker on such a machine, before anything that it computes is merged.

        Raises:
            UserError: the run is on machines of another kind.
        """
        if machine in self.machines:
            return
        if self.machines and not self._mix:
            raise UserError(
                f"{self._run} is computed on {'; '.join(map(str, self.machines))}, this worker is {machine}: values "
                "would differ in their last bits. Use machines of one kind, or mix them with --mix-devices "
                f"(mix_devices=True), values then agree to {MIX_TOLERANCE:g}"
            )
        self.machines = tuple(sorted({*self.machines, machine}))
        self._on_new(self.machines)


def mixed_text(machines: Iterable[Machine]) -> str:
    """What a result says that was computed on several kinds of machines; "" for one kind."""
    kinds = [str(machine) for machine in machines]
    if len(kinds) < 2:
        return ""
    return f"computed on {len(kinds)} kinds of machines ({'; '.join(kinds)}): values agree to {MIX_TOLERANCE:g} only"
