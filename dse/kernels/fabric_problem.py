"""Problems that several GPUs work on: the choices `fabric` and `ranks`, and the links that they mean.

A kernel's problem inherits `FabricProblem` beside its own sizes and choices, takes `FABRIC_CHOICES` among its `CHOICES`
and declares

    ranks: int = 8
    fabric: str = ""
    fabric_numbers: tuple[tuple[str, float], ...] = ()

`on(gpu)` fills in the numbers: of the fabric that is named, else of the one its GPU stands in; `link(float_dtype)`
gives them as the model's record. What-if: `--set fabric.link=2x`, `fabric.latency=0.5x`, `fabric.TABLE.NUMBER=...`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..content.default_fabric import default_fabric
from ..content.fabric import FabricLevel, load_fabric
from ..content.fabric_fields import COPY_ENGINE, MOST_RANKS
from ..content.implementation import load_implementation
from ..content.overrides import FABRIC, IMPLEMENTATION
from ..errors import UserError
from .choice import Choice
from .problem import KernelProblem

if TYPE_CHECKING:
    from jaxmodel.overlap import Link

FABRIC_CHOICES = (
    Choice("ranks", "GPUs that work on the problem", int, least=2, most=MOST_RANKS),
    Choice("fabric", "what joins them: a level by name or path, see dse fabrics (default: of the GPU's own node)"),
)


class FabricProblem(KernelProblem):
    """A problem of several GPUs on one level of a fabric; all numbers are of one of them, all of them do the same."""

    ranks: int
    fabric: str
    fabric_numbers: tuple[tuple[str, float], ...]

    def on(self, gpu: Any, overrides: Mapping[str, str | float] | None = None) -> Self:
        """See `Problem.on`: with the numbers of the links between its ranks.

        Raises:
            UserError: no fabric is known for the GPU, one of several levels, more ranks than it joins, or a wrong
                override.
        """
        of_fabric, rest = split_overrides(overrides)
        changes = {name.removeprefix(FABRIC): change for name, change in of_fabric.items()}
        fabric = load_fabric(self.fabric or default_fabric(gpu), changes, f"--set {FABRIC}")
        level, *others = fabric.levels
        if others:
            raise UserError(
                f"--fabric {fabric.name}: {self.kernel} runs on one level of a fabric; name one of "
                f"{', '.join(level.name for level in fabric.levels)}"
            )
        if self.ranks > fabric.ranks_max:
            raise UserError(
                f"--ranks {self.ranks}: {fabric.name} joins at most {fabric.ranks_max} GPUs; fewer ranks, or another "
                "--fabric"
            )
        numbers = link_numbers(level)
        return replace(super().on(gpu, rest), fabric_numbers=tuple(numbers.items()))  # type: ignore[type-var]

    def loaded_numbers(
        self, kernel: str, gpu: Any, overrides: Mapping[str, str | float]
    ) -> tuple[tuple[str, float], ...]:
        """Numbers of the problem's `implementation` on a GPU, which are those of another kernel or of several.

        Args:
            kernel: whose they are, a folder of hardware/implementations.
            gpu: the loaded GPU file.
            overrides: what-ifs of them, with or without `implementation.` before their names.

        Raises:
            UserError: see `load_implementation`.
        """
        own = {name.removeprefix(IMPLEMENTATION): change for name, change in overrides.items()}
        return tuple(load_implementation(kernel, self.implementation, (gpu.name, *gpu.bases), own).items())  # type: ignore[attr-defined]

    def link(self, float_dtype: Any = np.float32) -> "Link":
        """The links as the model's record.

        Raises:
            UserError: the fabric goes by the GPU and `on` has not been asked.
        """
        from jaxmodel.overlap import Link

        numbers = dict(self.fabric_numbers)
        if not numbers and not self.fabric:
            raise UserError(
                "the fabric goes by the GPU: take problem.on(load_gpu(...)), as dse.question.ask does, or name --fabric"
            )
        numbers = numbers or link_numbers(load_fabric(self.fabric).levels[0])
        return Link(ranks=float_dtype(self.ranks), **{name: float_dtype(value) for name, value in numbers.items()})


def split_overrides(overrides: Mapping[str, str | float] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """(those of the fabric, the others), names as they were given."""
    given = dict(overrides or {})
    of_fabric = {name: given.pop(name) for name in tuple(given) if name.startswith(FABRIC)}
    return of_fabric, given


def link_numbers(level: FabricLevel) -> dict[str, float]:
    """The numbers of `jaxmodel.overlap.Link` but its ranks, from a level of a fabric.

    SMs move much data at the rate of the library's own kernels for it, which SMs run as well ([simple], in the switch
    [multicast]); flags and an exchange's fixed costs are those of inference engines' kernels ([direct], [multimem]).
    Copy engines have a table of their own; a level without one gives them the same prices as SMs. A switch that reduces
    does so for any number of ranks: from how many on the library asks it to is the library's rule.
    """

    def number(table: str, field: str, otherwise: float = 0.0) -> float:
        own = level.values.get(table, {})
        return float(own[field].number) if field in own else otherwise

    bulk = "simple" if "simple" in level.values else "direct"
    rate = number(bulk, "bytes_per_s")
    hop_s = number("direct", "hop_s", number(bulk, "hop_s"))
    switched = number("multicast", "bytes_per_s") or number("multimem", "bytes_per_s")
    return {
        "hop_s": hop_s,
        "flag_s": number("direct", "peer_s"),
        "remote_bytes_per_s": rate,
        "sm_bytes_per_s": level["sm_bytes_per_s"],
        "copy_bytes_per_s": number(COPY_ENGINE, "bytes_per_s", rate),
        "copy_start_s": number(COPY_ENGINE, "start_s", hop_s),
        "copy_chunk_s": number(COPY_ENGINE, "hop_s", hop_s),
        "switch_bytes_per_s": switched,
        "switch_hop_s": number("multimem", "start_s", hop_s),
        "start_s": number(bulk, "start_s"),
        "switch_start_s": number("multicast", "start_s", number("multimem", "start_s")),
    }
