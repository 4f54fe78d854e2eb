"""tilesweep: what a GPU kernel costs, over whole schedule spaces.

    from dse import sweep
    result = sweep("gemm", shape="8192x8192x8192", dtype="bf16", gpu="h200_sxm")
    print(result.top)

Names are imported on first use, so that `import dse` needs neither jax nor pandas.
"""

import os
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import explain as explain
    from .api import rank as rank
    from .api import search as search
    from .api import sweep as sweep
    from .api import sweep_shapes as sweep_shapes
    from .batch.result import read_batch as read_batch
    from .batch.run import run_batch as run_batch
    from .collective_table import collectives as collectives
    from .content.fabric import list_fabrics as list_fabrics
    from .content.fabric import load_fabric as load_fabric
    from .content.gpu import GpuFile as GpuFile
    from .content.gpu import list_gpus as list_gpus
    from .content.gpu import load_gpu as load_gpu
    from .content.model import list_models as list_models
    from .content.model import load_model as load_model
    from .content.space import list_spaces as list_spaces
    from .content.space import load_space as load_space
    from .errors import UserError as UserError
    from .explanation import Explanation as Explanation
    from .export.run import export_run as export_run
    from .front_measures import hypervolume as hypervolume
    from .front_measures import knees as knees
    from .job import SweepJob as SweepJob
    from .kernels.gemm import GemmProblem as GemmProblem
    from .kernels.gemm import gemm_problem as gemm_problem
    from .report.report import make_report as make_report
    from .representatives import representatives as representatives
    from .result import SweepResult as SweepResult
    from .runs import open_run as open_run
    from .serving.api import serve as serve
    from .serving.api import sweep_layouts as sweep_layouts
    from .space import Space as Space
    from .studies.area_power import area_power as area_power
    from .studies.benchmark.prune import prune as prune
    from .studies.benchmark.shortlist_size import shortlist_of as shortlist_of
    from .studies.cases import case_of_run as case_of_run
    from .studies.cases import cases_asked as cases_asked
    from .studies.compare.compare import compare as compare
    from .studies.fronts.uncertain_run import uncertain_run as uncertain_run
    from .studies.portfolio.study import portfolio as portfolio
    from .studies.sensitivity.elasticities import elasticities as elasticities
    from .studies.sensitivity.sensitivity import sensitivity as sensitivity
    from .studies.target.target import target as target
    from .studies.what_if.study import what_if as what_if

__version__ = "0.1.0"

# Read when jax is first imported, by whatever module of ours: without it, every function that comes from the
# compilation cache prints a page of CPU features that do not matter (they are tuning hints of the same machine).
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

_EXPORTS = {
    "explain": ".api",
    "rank": ".api",
    "search": ".api",
    "sweep": ".api",
    "sweep_shapes": ".api",
    "collectives": ".collective_table",
    "list_fabrics": ".content.fabric",
    "load_fabric": ".content.fabric",
    "GpuFile": ".content.gpu",
    "list_gpus": ".content.gpu",
    "load_gpu": ".content.gpu",
    "serve": ".serving.api",
    "sweep_layouts": ".serving.api",
    "list_models": ".content.model",
    "load_model": ".content.model",
    "read_batch": ".batch.result",
    "run_batch": ".batch.run",
    "list_spaces": ".content.space",
    "load_space": ".content.space",
    "UserError": ".errors",
    "Explanation": ".explanation",
    "SweepJob": ".job",
    "GemmProblem": ".kernels.gemm",
    "gemm_problem": ".kernels.gemm",
    "Space": ".space",
    "SweepResult": ".result",
    "what_if": ".studies.what_if.study",
    "area_power": ".studies.area_power",
    "case_of_run": ".studies.cases",
    "cases_asked": ".studies.cases",
    "compare": ".studies.compare.compare",
    "elasticities": ".studies.sensitivity.elasticities",
    "sensitivity": ".studies.sensitivity.sensitivity",
    "target": ".studies.target.target",
    "prune": ".studies.benchmark.prune",
    "portfolio": ".studies.portfolio.study",
    "shortlist_of": ".studies.benchmark.shortlist_size",
    "uncertain_run": ".studies.fronts.uncertain_run",
    "export_run": ".export.run",
    "make_report": ".report.report",
    "hypervolume": ".front_measures",
    "knees": ".front_measures",
    "representatives": ".representatives",
    "open_run": ".runs",
}


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'dse' has no attribute {name!r}")
    value = getattr(import_module(_EXPORTS[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_EXPORTS, "__version__"])


class _Package(ModuleType):
    """Keeps `dse.sweep` the function: importing the module `dse/sweep.py` would otherwise put itself in its place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _EXPORTS and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
