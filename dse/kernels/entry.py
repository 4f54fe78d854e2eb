"""What the engine knows of a kernel: its problem, its schedule record, its cost function, and what it adds.

The model's parts are named as "module:attribute" and imported when they are needed, so that a problem can be read, and
a kernel's options listed, without importing jax.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib import import_module
from typing import Any

from ..errors import UserError


@dataclass(frozen=True)
class Kernel:
    """A kernel of the engine, a `dse.job.CostModel`: hashable, picklable, and free of jax until it computes.

    Attributes:
        name: as on the command line and in folder names.
        title: as heads say it, "GEMM".
        problem: class of the user's problem.
        schedule_record: "module:attribute" of the schedule's pytree record; its fields are the schedule's.
        cost_function: "module:attribute" of `cost(problem, schedule, gpu) -> Cost`.
        compiled_fields: fields that decide what has to be computed at all: a sweep compiles the model once for each
            value of theirs that the space holds apart, see `Space.split`.
        open_fields: fields that its cost takes None for: then it gives what no value of theirs is better than, in times
            and bytes (`dse.bounding`).
        tensor_cores: whether it runs tensor instructions. Without them its spaces' families are no instruction
            families, any GPU has them, and the roof is that of the CUDA cores.
        words: of a `dse.schedule_words.Words`: how its schedules are written; "": `field=value`.
        one_order: of a `dse.any_order.OneOrder`, where different launch orders of a space may be the same on a small
            grid; "": they never are.
        reason_numbers: of `(reason, problem, schedule, cost, gpu) -> str`, the numbers of reasons that are its own.
        advice: name of a module that holds remarks of its own for `explain`, see `dse.advice`.
        compared: where it has no intervals, what of it was held against measurements; "": nothing.
    """

    name: str
    title: str
    problem: type[Any]
    schedule_record: str
    cost_function: str
    compiled_fields: tuple[str, ...] = ()
    open_fields: tuple[str, ...] = ()
    tensor_cores: bool = True
    words: str = ""
    one_order: str = ""
    reason_numbers: str = ""
    advice: str = ""
    compared: str = ""

    @property
    def schedule_fields(self) -> tuple[str, ...]:
        """Names of the schedule's fields, in the order of its record."""
        return _record_fields(self.schedule_record)

    def schedule(self, columns: Mapping[str, Any]) -> Any:
        """The model's schedule record from one array (or number) a field.

        Raises:
            UserError: a field has none: spaces/<name>/_fields.toml does not declare it.
        """
        missing = [name for name in self.schedule_fields if name not in columns]
        if missing:
            raise UserError(
                f"{', '.join(missing)} of {self.schedule_record}: declare every field of it in "
                f"spaces/{self.name}/_fields.toml"
            )
        return attribute(self.schedule_record)(**{name: columns[name] for name in self.schedule_fields})

    def cost(self, problem: Any, schedule: Any, gpu: Any) -> Any:
        """The model. Problem, schedule and GPU are the model's records.

        Raises:
            UserError: what the function gives is no cost.
        """
        found = attribute(self.cost_function)(problem, schedule, gpu)
        if not hasattr(found, "latency_s"):
            raise UserError(
                f"{self.cost_function} returns {type(found).__name__}, no Cost: end it with "
                "`return program_cost(program, gpu)`"
            )
        return found

    def problem_of(self, content: Mapping[str, Any]) -> Any:
        """The problem whose attributes these are, as `dataclasses.asdict` or JSON has them.

        Raises:
            TypeError: an attribute is missing or none of the problem's.
        """
        return self.problem(**{name: _hashable(value) for name, value in content.items()})


@lru_cache(maxsize=256)
def attribute(path: str) -> Any:
    """What "module:attribute" names, imported now.

    Raises:
        UserError: the module cannot be imported or lacks it.
    """
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except (SyntaxError, ImportError, AttributeError) as error:
        raise UserError(f"{path}, which a kernel names, cannot be used: {type(error).__name__}: {error}") from error


@lru_cache(maxsize=256)
def _record_fields(path: str) -> tuple[str, ...]:
    return tuple(field.name for field in fields(attribute(path)))


def _hashable(value: Any) -> Any:
    return tuple(_hashable(entry) for entry in value) if isinstance(value, (list, tuple)) else value
