"""A batch as work: every distinct (problem, GPU) once, over its kernel's space, cut into parts that files hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any, TypeAlias

from ..content.files import home_expanded
from ..content.gpu import GpuFile, load_gpu
from ..content.overrides import split_overrides
from ..content.space import load_space
from ..errors import UserError
from ..job import SweepJob
from ..job_of import make_job, restrictions
from ..question import Question, ask
from ..restrict import Restrictions
from ..space import Space
from .rows import BatchRow

EVERY = ""  # the kernel under which stands what holds for all
PART_CANDIDATES = 5e7  # a part is some seconds of work, so that little is lost where a run is stopped
PART_CASES = (8, 1024)  # at least and at most
FIRST_SHARES = (8, 4, 2)  # the first parts of each kernel on a GPU are so much smaller, so that something soon stands

SpaceKey: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True)
class Setting:
    """What a batch is evaluated on and over.

    Attributes:
        gpus: names or paths of GPU files; a text is one of them.
        overrides: what-if changes, of every GPU and of implementations (`dse.question.ask`).
        clock: "boost" or "sustained".
        presets: kernel -> sub-space; under "" that of every kernel whose space has one of this name.
        axes: kernel -> what to keep further; under "" that of every kernel.
    """

    gpus: Sequence[str]
    overrides: Mapping[str, str] = field(default_factory=dict)
    clock: str = "boost"
    presets: Mapping[str, str] = field(default_factory=dict)
    axes: Mapping[str, Restrictions] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "gpus", (self.gpus,) if isinstance(self.gpus, str) else tuple(self.gpus))


@dataclass(frozen=True)
class Case:
    """One problem on one GPU over one space, evaluated once.

    Attributes:
        job: problem, GPU and space.
        rows: places of the rows that ask it.
    """

    job: SweepJob
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Part:
    """The cases of one file: of one GPU, one kernel and one space.

    Attributes:
        gpu, kernel: the folder's names.
        number: of the file in its folder.
        cases: in the order of the rows.
    """

    gpu: str
    kernel: str
    number: int
    cases: tuple[Case, ...]

    @property
    def space(self) -> Space:
        """Of all cases."""
        return self.cases[0].job.space

    @property
    def candidates(self) -> int:
        """Points of the space times cases."""
        return self.space.size * len(self.cases)


@dataclass(frozen=True)
class Plan:
    """All of a batch.

    Attributes:
        rows: what is asked.
        gpus: names of the GPUs, in order.
        parts: the work; those of one space follow each other.
        notes: what a user should know of it, a line each.
    """

    rows: tuple[BatchRow, ...]
    gpus: tuple[str, ...]
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()

    @property
    def work_text(self) -> str:
        """How much it is, in words: `72 problems x 2 GPUs, 69 distinct on each, 1,000 points of their spaces`."""
        of_gpu = {gpu: sum(len(part.cases) for part in self.parts if part.gpu == gpu) for gpu in self.gpus}
        counts = list(dict.fromkeys(of_gpu.values()))
        gpus = f" x {len(self.gpus)} GPUs" if len(self.gpus) > 1 else ""
        each = " on each" if gpus else ""
        if len(counts) == 1:
            distinct = f"{counts[0]:,} distinct{each}"
        else:
            distinct = ", ".join(f"{count:,} distinct on {gpu}" for gpu, count in of_gpu.items())
        problems = f"{len(self.rows):,} problems{gpus} ({', '.join(self.gpus)})"
        return f"{problems}, {distinct}, {self.candidates:,} points of their spaces"

    @property
    def cases(self) -> int:
        """Distinct (problem, GPU)."""
        return sum(len(part.cases) for part in self.parts)

    @property
    def candidates(self) -> int:
        """Points of all cases' spaces."""
        return sum(part.candidates for part in self.parts)


def make_plan(rows: Sequence[BatchRow], setting: Setting) -> Plan:
    """The work that answers every row on every GPU.

    Raises:
        UserError: no row; a GPU that is unknown or given twice; a row that its kernel, or a GPU, cannot do, with its
            name; an unknown preset or axis.
    """
    if not rows:
        raise UserError("there is nothing to evaluate: give shapes, or a model with a phase")
    files = _gpu_files(setting)
    spaces = _Spaces(setting)
    own, _ = split_overrides(setting.overrides)
    asked: dict[tuple[str, Any], tuple[Question, list[int]]] = {}
    for gpu in files:
        for place, row in enumerate(rows):
            question = _asked(row, gpu, own, setting.clock)
            asked.setdefault((gpu.name, question.problem), (question, []))[1].append(place)
    spaces.check([question for question, _ in asked.values()])
    cases: dict[tuple[SpaceKey, str], list[Case]] = {}
    for (gpu_name, _), (question, places) in asked.items():
        job = make_job(question, spaces.of(question))
        cases.setdefault((space_key(job.space), gpu_name), []).append(Case(job, tuple(places)))
    return Plan(tuple(rows), tuple(gpu.name for gpu in files), _parts(cases), tuple(spaces.notes))


def _gpu_files(setting: Setting) -> list[GpuFile]:
    _, of_gpu = split_overrides(setting.overrides)
    files = [load_gpu(_path_or_name(name), of_gpu) for name in setting.gpus]
    names = [file.name for file in files]
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice:
        raise UserError(f"the GPU {twice} is given twice: give each once, and name your own file otherwise")
    if not files:
        raise UserError("no GPU is given: name one or several, e.g. h200_sxm,b200_sxm (dse gpus lists them)")
    return files


def _path_or_name(text: str) -> str:
    return str(home_expanded(text)) if "/" in text else text


def _asked(row: BatchRow, gpu: GpuFile, overrides: Mapping[str, str], clock: str) -> Question:
    try:
        return ask(row.shape, row.dtype, gpu, kernel=row.kernel, overrides=overrides, clock=clock, **dict(row.choices))
    except UserError as error:
        raise UserError(f"{row.name} ({row.kernel}) on {gpu.name}: {error}") from error


class _Spaces:
    """Every kernel's space, loaded once for each family and type."""

    def __init__(self, setting: Setting) -> None:
        self._presets, self._axes = setting.presets, setting.axes
        self._found: dict[SpaceKey, Space] = {}
        self.notes: list[str] = []

    def check(self, questions: Sequence[Question]) -> None:
        """Raises where a preset or an axis is for a kernel that is not asked about, or for none of them."""
        kernels = list(dict.fromkeys(question.problem.kernel for question in questions))
        for what, given in (("--preset", self._presets), ("--axis", self._axes)):
            for kernel in given:
                if kernel != EVERY and kernel not in kernels:
                    raise UserError(f"{what} is given for {kernel}, but the batch holds {', '.join(kernels)} only")
        general = self._presets.get(EVERY)
        lacking = [one for one in kernels if one not in self._presets and not self._has(questions, one, general)]
        if general and lacking:
            if len(lacking) == len(kernels):
                first = questions[0]
                load_space(first.problem.kernel, first.family, first.problem.dtype, general)  # says what it has
            self.notes.append(f"{', '.join(lacking)}: no preset {general}, so the whole space is evaluated")

    def of(self, question: Question) -> Space:
        """The space of a question, restricted as asked."""
        kernel, family, dtype = question.problem.kernel, question.family, question.problem.dtype
        if (kernel, family, dtype) not in self._found:
            preset = self._presets.get(kernel)
            general = self._presets.get(EVERY)
            if preset is None and general and self._has([question], kernel, general):
                preset = general
            axes = {**self._axes.get(EVERY, {}), **self._axes.get(kernel, {})}
            self._found[kernel, family, dtype] = load_space(kernel, family, dtype, preset, restrictions(axes))
        return self._found[kernel, family, dtype]

    def _has(self, questions: Sequence[Question], kernel: str, preset: str | None) -> bool:
        own = [question for question in questions if question.problem.kernel == kernel]
        asked = {(question.family, question.problem.dtype) for question in own}
        try:
            for family, dtype in asked:
                load_space(kernel, family, dtype, preset)
        except UserError:
            return False
        return True


def space_key(space: Space) -> SpaceKey:
    """What tells the spaces of a batch apart: kernel, family and type."""
    return space.kernel, space.family, space.dtype


def _parts(cases: Mapping[tuple[SpaceKey, str], Sequence[Case]]) -> tuple[Part, ...]:
    parts: list[Part] = []
    numbers: dict[tuple[str, str], int] = {}
    order = list(dict.fromkeys(key for key, _ in cases))
    for (key, gpu), listed in sorted(cases.items(), key=lambda item: order.index(item[0][0])):
        kernel = key[0]
        least, most = PART_CASES
        size = min(max(int(PART_CANDIDATES / listed[0].job.space.size), least), most)
        start = 0
        for here in chain((max(size // share, 1) for share in FIRST_SHARES), repeat(size)):
            if start >= len(listed):
                break
            number = numbers.get((gpu, kernel), 0)
            numbers[gpu, kernel] = number + 1
            parts.append(Part(gpu, kernel, number, tuple(listed[start : start + here])))
            start += here
    return tuple(parts)
