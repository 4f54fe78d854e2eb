"""What all sections of a report speak about: the run, its best schedule, its roofline, and where its GPU's numbers
come from."""

from dataclasses import dataclass
from typing import Any

from ..content.gpu import GpuFile, load_gpu
from ..errors import UserError
from ..explain import explain_schedule
from ..explanation import Explanation
from ..roofline import Roofline, roofline
from ..runs import OpenRun
from ..schedule_text import FIELDS
from ..trust import TrustLabel


@dataclass(frozen=True)
class RunFacts:
    """A run, and what is computed of it once for all sections.

    Attributes:
        run: the opened folder.
        best: the explanation of its first row; None where nothing fits.
        roof: of its problem on its GPU.
        gpu_file: the GPU file of its GPU's name as it is now; None where there is none.
        trust: whose residuals the tables' intervals come from; None: they have none.
    """

    run: OpenRun
    best: Explanation | None
    roof: Roofline
    gpu_file: GpuFile | None
    trust: TrustLabel | None

    @property
    def job(self) -> Any:
        """The run's job: problem, GPU and space."""
        return self.run.job

    @property
    def made(self) -> Any:
        """The run's provenance."""
        return self.run.summary["provenance"]

    @property
    def incomplete(self) -> bool:
        """Whether an interrupt ended the sweep."""
        return bool(self.run.summary["incomplete"])

    @property
    def gpu_title(self) -> str:
        """The GPU as people say it."""
        return self.gpu_file.title if self.gpu_file else self.job.gpu_name or "a GPU without a name"

    @property
    def title(self) -> str:
        """The question in one line."""
        problem = self.job.problem
        sizes = " × ".join(str(size) for size in (problem.m, problem.n, problem.k))
        batch = f"{problem.batch} × " if problem.batch > 1 else ""
        return f"GEMM {batch}{sizes} in {problem.dtype} on {self.gpu_title}"


def run_facts(run: OpenRun) -> RunFacts:
    """Computes what sections share.

    Args:
        run: of `dse.runs.open_run`.
    """
    job = run.job
    label = run.summary["provenance"].get("trust")
    return RunFacts(
        run=run,
        best=_explained(run) if len(run.top) else None,
        roof=roofline(job.problem, job.gpu),
        gpu_file=_gpu_file(job.gpu_name),
        trust=TrustLabel.from_dict(label) if label else None,
    )


def schedule_of(row: Any) -> dict[str, int]:
    """The schedule's fields of a row of a table."""
    return {name: int(row[name]) for name in FIELDS}


def _explained(run: OpenRun) -> Explanation:
    job = run.job
    return explain_schedule(
        job.problem,
        schedule_of(run.top.iloc[0]),
        job.gpu,
        job.space.family,
        job.gpu_name,
        gpu_changes=job.gpu_changes,
        clock=job.clock,
        tuned=job.rank_by == "latency_s",
    )


def _gpu_file(name: str) -> GpuFile | None:
    try:
        return load_gpu(name)
    except (UserError, OSError, ValueError):
        return None
