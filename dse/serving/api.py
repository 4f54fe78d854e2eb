"""The Python face: `dse.serve`, a table of layouts of a model with what each achieves; `dse.sweep_layouts`, a space."""

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..content.space import list_spaces, load_space
from ..content.toml import read_toml
from ..errors import UserError, unknown
from ..platform import configure_jax
from ..progress import Progress
from ..restrict import parse_axes
from ..space import Space
from .argument_types import texts, whole
from .asked import GPUS, ask_service
from .breakdown import Phase, breakdown
from .layout_words import DEGREES, FROM_ZERO, read_values
from .layouts import FIELDS, REASONS, layouts_of
from .outcomes import COLUMNS, evaluate_layouts
from .serve import LayoutResult, Service
from .serve import sweep_layouts as sweep_service
from .step_times import StepModel
from .why_not import why_not

if TYPE_CHECKING:
    import pandas as pd

SPACE = "sharding/serving"
PRESET = "plain"
MOST = 4096  # combinations of degrees that are given


@dataclass(frozen=True)
class ServeResult:
    """Layouts of a model, each with what it achieves.

    Attributes:
        service: what was asked.
        table: a row a layout: `dse.serving.layouts.FIELDS`, `dse.serving.outcomes.COLUMNS`, `reason` and `why` (in
            words, with a fix; "" where it runs).
        usable_bytes: of a GPU's memory, what weights, cache and activations may have.
        steps: what priced them.
        chosen: how the layout was found, where no degrees were given; None: they were.
    """

    service: Service
    table: "pd.DataFrame"
    usable_bytes: float
    steps: StepModel
    chosen: LayoutResult | None = None

    @property
    def runs(self) -> "pd.DataFrame":
        """The rows that can run."""
        return self.table[self.table["reason"] == "runs"]

    def phases(self, row: int = 0) -> tuple[Phase, ...]:
        """Where the time of a row's steps goes.

        Raises:
            UserError: no such row, or one that cannot run.
        """
        row = whole(row)
        if isinstance(row, bool) or not isinstance(row, int) or not 0 <= row < len(self.table):
            raise UserError(f"row {row!r} is not there: the table has {len(self.table)} rows, the first is 0")
        found = self.table.iloc[row]
        if found["reason"] != "runs":
            raise UserError(f"row {row} cannot run: {found['why']}")
        columns = {name: np.array([int(found[name])]) for name in FIELDS}
        return breakdown(self.steps, self.service.workload, layouts_of(columns, np.zeros(1), self.service.node))


def serve(
    model: str | os.PathLike[str],
    gpu: Any = "h200_sxm",
    gpus: int | None = None,
    *,
    progress: Progress = None,
    **asked: Any,
) -> ServeResult:
    """What a model's layouts achieve: one row a combination of the degrees that are given.

    Args:
        model, gpu: as `dse.serving.asked.ask_service`.
        gpus: how many there are; None: as many as the largest layout has, 8 where no degrees are given.
        progress: as in `dse.sweep.run_sweep`.
        asked: degrees of `dse.serving.layouts.FIELDS` (tp, pp, dp, batch, chunk, ...) and ep, each a number, a name, or
            several; what is not given is 1, but micro_batches, which is pp where that divides the batch. Where only
            batch or chunk is given, or nothing, the best of the preset `plain` is chosen. All else as `ask_service`.

    Raises:
        UserError: whatever of this is wrong, with what is allowed.

    Example:
        serve("llama3_70b", "h200_sxm", tp=[4, 8], batch=[1, 16, 64], input_tokens=2048).table
    """
    given = {name: asked.pop(name) for name in (*FIELDS, "ep") if asked.get(name) is not None}
    asked = {name: value for name, value in asked.items() if name not in (*FIELDS, "ep")}
    values = {name: read_values(name, given[name]) for name in given}
    if not any(name in values for name in (*DEGREES, "ep")):
        return _chosen(ask_service(model, gpu, GPUS if gpus is None else gpus, **asked), values, progress)
    rows = _combined(values)
    largest = max(row["tp"] * row["cp"] * row["dp"] * row["pp"] for row in rows)
    return evaluated(ask_service(model, gpu, largest if gpus is None else gpus, **asked), rows, progress=progress)


def evaluated(
    service: Service,
    rows: Sequence[Mapping[str, int]],
    steps: StepModel | None = None,
    chosen: LayoutResult | None = None,
    progress: Progress = None,
) -> ServeResult:
    """These layouts of a service; `steps` may bring kernels that were tuned before."""
    import pandas as pd

    configure_jax()
    steps = steps or service.steps()
    columns = {name: np.array([row[name] for row in rows], np.int64) for name in FIELDS}
    layouts = layouts_of(columns, np.arange(len(rows)), service.node)
    found = evaluate_layouts(layouts, service.workload, steps, service.gpus, progress)
    names = list(REASONS)
    table = pd.DataFrame({**columns, **{name: found.columns[name] for name in COLUMNS}})
    table["reason"] = [names[int(code)] for code in found.reason]
    table["why"] = [why_not(row["reason"], row, service, found.usable_bytes) for row in table.to_dict("records")]
    return ServeResult(service, table, found.usable_bytes, steps, chosen)


def sweep_layouts(
    model: str | os.PathLike[str],
    gpu: Any = "h200_sxm",
    gpus: int = GPUS,
    *,
    space: str = SPACE,
    preset: str | None = None,
    axes: Any = None,
    objectives: Sequence[str] | None = None,
    top: int = 10,
    progress: Progress = None,
    **asked: Any,
) -> LayoutResult:
    """Every layout of a space: the best, the exact front, why the others cannot be.

    Args:
        model, gpu, gpus: as `dse.serving.asked.ask_service`.
        space: name or TOML file of a space of layouts.
        preset: a ready-made sub-space ("plain", "decode", "prefill"); None: all of it.
        axes: what to keep further: {"tp": [4, 8]} or texts like "tp=4,8".
        objectives: of the front, names of `dse.serving.outcomes.COLUMNS`.
        top: how many of the best.
        progress: as in `dse.sweep.run_sweep`.
        asked: all else of `ask_service`.

    Raises:
        UserError: whatever of this is wrong, with what is allowed.
    """
    service = ask_service(model, gpu, gpus, **asked)
    wanted = axes if isinstance(axes, Mapping) else parse_axes(texts("axes", () if axes is None else axes))
    chosen = layout_space(space, preset, wanted)
    return sweep_service(service, chosen, objectives=objectives, top=top, progress=progress)


def layout_space(space: str = SPACE, preset: str | None = None, axes: Mapping[str, Any] | None = None) -> Space:
    """A space of layouts. What `axes` says of a field counts before the preset.

    Raises:
        UserError: no such space, one of schedules, an unknown preset, axis or value.
    """
    if not isinstance(space, (str, os.PathLike)) or not isinstance(preset, (str, type(None))):
        raise UserError(f"space = {space!r}, preset = {preset!r} are not allowed: names, or the path of a space")
    wanted = dict(axes or {})
    if preset is not None and wanted and space == SPACE:
        path = next(entry.path for entry in list_spaces() if entry.name == SPACE)
        presets = read_toml(path)["presets"]
        if preset not in presets:
            raise unknown("preset", preset, presets)
        own = {name: value for name, value in presets[preset].items() if name not in ("text", *wanted)}
        return load_space(space, axes={**own, **wanted})
    whole = load_space(space)
    if whole.kernel != "sharding":
        raise UserError(f"the space {space} holds schedules of {whole.kernel}, no layouts: give one of sharding")
    return load_space(space, preset=preset, axes=wanted)


def _chosen(service: Service, values: Mapping[str, tuple[int, ...]], progress: Progress) -> ServeResult:
    space = layout_space(preset=PRESET, axes={name: list(own) for name, own in values.items()})
    steps = service.steps()
    found = sweep_service(service, space, top=1, kernels=steps.kernels, progress=progress)
    if not len(found.best):
        said = ", ".join(f"{count:,} {name}" for name, count in found.reasons.items())
        raise UserError(
            f"no layout of the preset {PRESET} can run {service.model.name} on {service.gpus} x {service.gpu.name}: "
            f"{said}; give degrees (--tp 8) to see why one cannot, more --gpus, or narrower weights (--dtype fp8)"
        )
    row = {name: int(found.best[name].iloc[0]) for name in FIELDS}
    return evaluated(service, [row], steps, found, progress)


def _combined(values: Mapping[str, tuple[int, ...]]) -> list[dict[str, int]]:
    count = int(np.prod([len(own) for own in values.values()]))
    if count > MOST:
        raise UserError(f"{count:,} combinations of degrees are too many for a table: at most {MOST:,}; sweep a space")
    if "ep" in values and "experts_tp" in values:
        raise UserError("ep and experts_tp say the same (tp x cp x dp = ep x experts_tp): give one of them")
    rows = []
    for combination in itertools.product(*values.values()):
        row = {name: int(name not in FROM_ZERO) for name in FIELDS}
        own = dict(zip(values, combination, strict=True))
        ep = own.pop("ep", None)
        row |= own
        block = row["tp"] * row["cp"] * row["dp"]
        if ep is not None:
            if block % ep:
                raise UserError(
                    f"ep = {ep} does not divide tp x cp x dp = {block}: the GPUs that share experts are those of a "
                    "layer; raise dp (attention data parallel), e.g. --tp 1 --dp 8 --ep 8"
                )
            row["experts_tp"] = block // ep
        if "micro_batches" not in own and row["batch"] % (row["dp"] * row["pp"]) == 0:
            row["micro_batches"] = row["pp"]
        rows.append(row)
    return rows
