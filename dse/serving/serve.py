"""Layouts of a model on a machine for a workload: the best, the exact front, and why the others cannot be."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..content.engine import Engine
from ..content.fabric import Fabric
from ..content.gpu import GpuFile
from ..content.model import ModelConfig
from ..errors import UserError, unknown
from ..front import Front
from ..platform import configure_jax
from ..progress import Progress
from ..space import Space
from ..step_operators import Types
from .argument_types import texts
from .collective_times import CollectiveTimes
from .enumerate_layouts import enumerate_layouts
from .kernel_times import KernelTimes
from .layout_words import FROM_ZERO, read_values
from .layouts import FIELDS, REASONS, Layouts
from .outcomes import COLUMNS, Outcomes, evaluate_layouts
from .step_times import StepModel
from .workload import Workload

if TYPE_CHECKING:
    import pandas as pd

BLOCK = 2**18  # layouts that are evaluated at once
TIES = 16  # layouts kept of each point of the front
MAXIMISED = ("tokens_per_s", "tokens_per_s_per_gpu", "tokens_per_s_per_user")
OBJECTIVES = {
    "serve": ("tokens_per_s_per_gpu", "tokens_per_s_per_user"),
    "decode": ("tokens_per_s_per_gpu", "tokens_per_s_per_user"),
    "prefill": ("tokens_per_s_per_gpu", "ttft_s"),
}


@dataclass(frozen=True)
class Service:
    """What is laid out on what.

    Attributes:
        model: by its published dimensions.
        gpu: the loaded GPU file.
        gpus: how many there are.
        fabric: that joins them: a node, or nodes and a network.
        engine: whose kernels run.
        workload: what is served.
        types: of weights, experts and cache.
        graphs: whether decode steps replay graphs.
        clock: "boost" or "sustained".
        gpus_per_node: 0: as many as the fabric's inner level joins.

    Raises:
        UserError: more GPUs than the fabric joins, in all or in a node; more SMs for collectives than a GPU has.
    """

    model: ModelConfig
    gpu: GpuFile
    gpus: int
    fabric: Fabric
    engine: Engine
    workload: Workload = field(default_factory=Workload)
    types: Types = field(default_factory=Types)
    graphs: bool = True
    clock: str = "boost"
    gpus_per_node: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.gpus <= self.fabric.ranks_max:
            raise UserError(
                f"gpus = {self.gpus} is not allowed: 1 to {self.fabric.ranks_max} on {self.fabric.name}; nodes on a "
                "network are written A+B, e.g. nvlink4_x8+infiniband_ndr"
            )
        if isinstance(self.gpus_per_node, bool) or not isinstance(self.gpus_per_node, int):
            raise UserError(f"gpus_per_node = {self.gpus_per_node!r} is not allowed: a whole number")
        if not 0 <= self.gpus_per_node <= self._joined:
            raise UserError(
                f"gpus_per_node = {self.gpus_per_node} is not allowed: 1 to the {self._joined} that "
                f"{self.fabric.levels[0].name} joins, or 0 for so many"
            )

        sms = int(self.gpu["sm_count"])
        if self.engine["exchange_sms"] > sms:
            raise UserError(
                f"engine.exchange_sms = {self.engine['exchange_sms']:g} is not allowed: at most the {sms} SMs of "
                f"{self.gpu.name}"
            )

    @property
    def node(self) -> int:
        """GPUs a node; where there are fewer, those."""
        return min(self.gpus_per_node or self._joined, self.gpus)

    @property
    def _joined(self) -> int:
        return int(self.fabric.levels[0]["ranks_max"])

    def steps(self, kernels: KernelTimes | None = None) -> StepModel:
        """What prices its steps."""
        kernels = kernels or KernelTimes(self.gpu, self.engine, self.clock)
        collectives = CollectiveTimes(self.fabric, self.engine.rule)
        return StepModel(self.model, self.types, kernels, collectives, self.engine, self.graphs)


@dataclass(frozen=True)
class LayoutResult:
    """What a sweep of layouts found.

    Attributes:
        service: what was asked.
        objectives: of the front, as `COLUMNS` names them.
        best: the layouts of the highest tokens_per_s_per_gpu, best first: `FIELDS`, `COLUMNS` and `index`.
        front: the exact front, the fastest for a user first; of equal ones at most `TIES`.
        layouts: of the space.
        reasons: reason -> layouts; "runs" among them.
        front_layouts: that lie on the front, those with equal values included.
        kernel_problems, schedules, collectives: distinct kernel problems that were tuned, schedules evaluated for them,
            and distinct collectives priced.
        seconds: of all of it.
    """

    service: Service
    objectives: tuple[str, ...]
    best: "pd.DataFrame"
    front: "pd.DataFrame"
    layouts: int
    reasons: Mapping[str, int]
    front_layouts: int
    kernel_problems: int
    schedules: int
    collectives: int
    seconds: float


def sweep_layouts(
    service: Service,
    space: Space,
    *,
    objectives: Sequence[str] | None = None,
    top: int = 10,
    kernels: KernelTimes | None = None,
    progress: Progress = None,
) -> LayoutResult:
    """Evaluates every layout of a space, kernels tuned once a distinct problem.

    Args:
        service: what is laid out on what.
        space: of layouts (`load_space("sharding", "serving")`).
        objectives: of the front, of `COLUMNS`; None: throughput against what one user sees.
        top: of the best.
        kernels: tuned before, on the same GPU with the same engine; None: none.
        progress: as in `dse.sweep.run_sweep`.

    Raises:
        UserError: an unknown objective, or one twice, or none; no best; too many layouts; or a kernel that the GPU does
            not run.
    """
    configure_jax()
    began = time.perf_counter()
    chosen = OBJECTIVES[service.workload.phase] if objectives is None else texts("objectives", objectives)
    for name in chosen:
        if name not in COLUMNS:
            raise unknown("objective", name, COLUMNS)
    if not chosen or len(set(chosen)) < len(chosen):
        raise UserError(
            f"objectives {', '.join(chosen) or 'none'}: give each once, at least one of {', '.join(COLUMNS)}"
        )
    if isinstance(top, bool) or not isinstance(top, int) or top < 1:
        raise UserError(f"top = {top!r} is not allowed: a whole number from 1")
    steps = service.steps(kernels)
    found = enumerate_layouts(space, service.model, service.gpus, service.node)
    keeper = _Keeper(chosen, top)
    for start in range(0, len(found.layouts), BLOCK):
        block = found.layouts.take(np.arange(start, min(start + BLOCK, len(found.layouts))))
        keeper.add(evaluate_layouts(block, service.workload, steps, service.gpus, progress))
    reasons = Counter(found.ruled_out) + keeper.reasons
    return LayoutResult(
        service,
        chosen,
        keeper.best_table(),
        keeper.front_table(),
        space.size,
        {name: reasons[name] for name in REASONS if reasons[name]},
        keeper.front.candidates,
        steps.kernels.problems,
        steps.kernels.evaluations,
        steps.collectives.priced,
        time.perf_counter() - began,
    )


class _Keeper:
    """What stays of the layouts that were evaluated: the best, the front, how many there are of each reason."""

    def __init__(self, objectives: tuple[str, ...], top: int) -> None:
        self.objectives, self.top = objectives, top
        self.front = Front.empty(len(objectives), TIES)
        self.reasons: Counter[str] = Counter()
        self._rows: dict[int, dict[str, Any]] = {}
        self._best: list[int] = []

    def add(self, outcomes: Outcomes) -> None:
        codes, counts = np.unique(outcomes.reason, return_counts=True)
        names = list(REASONS)
        self.reasons.update({names[int(code)]: int(count) for code, count in zip(codes, counts, strict=True)})
        place = np.flatnonzero(outcomes.runs)
        if not len(place):
            return
        index = outcomes.layouts.index[place]
        signs = [-1.0 if name in MAXIMISED else 1.0 for name in self.objectives]
        values = [sign * outcomes.columns[name][place] for name, sign in zip(self.objectives, signs, strict=True)]
        self.front = self.front.add(index, np.stack(values, axis=1).astype(np.float32))
        rate = outcomes.columns["tokens_per_s_per_gpu"][place]
        order = place[np.lexsort((index, -rate))[: self.top]]
        on_front = place[np.isin(index, self.front.positions)]
        for at in np.unique(np.concatenate([order, on_front])):
            self._rows[int(outcomes.layouts.index[at])] = _row(outcomes, int(at))
        best = {*self._best, *(int(outcomes.layouts.index[at]) for at in order)}
        self._best = sorted(best, key=lambda one: (-self._rows[one]["tokens_per_s_per_gpu"], one))[: self.top]
        kept = {*self._best, *map(int, self.front.positions)}
        self._rows = {one: row for one, row in self._rows.items() if one in kept}

    def best_table(self) -> "pd.DataFrame":
        return self._table(self._best)

    def front_table(self) -> "pd.DataFrame":
        last = self.objectives[-1]
        table = self._table([int(at) for at in self.front.positions])
        return table.sort_values(
            [last, "index"], ascending=[last not in MAXIMISED, True], ignore_index=True, kind="stable"
        )

    def _table(self, indices: Sequence[int]) -> "pd.DataFrame":
        import pandas as pd

        return pd.DataFrame([self._rows[at] for at in indices], columns=["index", *FIELDS, *COLUMNS])


def _row(outcomes: Outcomes, at: int) -> dict[str, Any]:
    layout = {name: int(outcomes.layouts[name][at]) for name in FIELDS}
    return {
        "index": int(outcomes.layouts.index[at]),
        **layout,
        **{name: float(values[at]) for name, values in outcomes.columns.items()},
    }


def one_layout(service: Service, **degrees: Any) -> Layouts:
    """One layout by its degrees; what is not given is 1, or the first of its names.

    Args:
        service: whose nodes it lies on.
        degrees: of `FIELDS`, each a number, or the name of a code.

    Raises:
        UserError: an unknown degree, a value that it does not have, or several.
    """
    for name in degrees:
        if name not in FIELDS:
            raise unknown("degree of a layout", name, FIELDS)
    columns = {}
    for name in FIELDS:
        values = read_values(name, degrees.get(name, int(name not in FROM_ZERO)))
        if len(values) > 1:
            raise UserError(f"{name} = {degrees[name]!r} is not allowed: one value, a layout has one")
        columns[name] = np.array(values, np.int64)
    return Layouts(columns, np.zeros(1, np.int64), service.node)
