"""The strategies of `dse search` by name, and what each can do."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import UserError, unknown
from .candidates import SearchSpace
from .choice import AUTO

if TYPE_CHECKING:
    import optuna


@dataclass(frozen=True)
class Sampler:
    """One strategy.

    Attributes:
        text: what it does, for help.
        optuna: name of Optuna's class; "": it is a searcher of this package.
        options: of that class, beside the seed.
        several: whether it finds a front of several objectives.
        names: whether it chooses among names (axes without an order, lists of a GPU's numbers).
        constraints: whether it knows constraints; where not, a candidate that breaks one is told as the worst so far.
        package: what must be installed for it beyond Optuna; "": nothing.
    """

    text: str
    optuna: str = ""
    options: Mapping[str, Any] | None = None
    several: bool = True
    names: bool = True
    constraints: bool = True
    package: str = ""


SAMPLERS: dict[str, Sampler] = {
    "tpe": Sampler("Optuna's tree-structured Parzen estimator", "TPESampler"),
    "nsga2": Sampler("Optuna's genetic search by fronts", "NSGAIISampler"),
    "nsga3": Sampler("Optuna's genetic search by reference directions", "NSGAIIISampler"),
    "cmaes": Sampler(
        "Optuna's CMA-ES, one objective, ordered axes only",
        "CmaEsSampler",
        {"with_margin": True, "warn_independent_sampling": False},
        several=False,
        names=False,
        constraints=False,
        package="cmaes",
    ),
    "qmc": Sampler(
        "Optuna's quasi-random points (scrambled Sobol)",
        "QMCSampler",
        {"scramble": True, "warn_independent_sampling": False},
    ),
    "gp": Sampler("Optuna's Gaussian process", "GPSampler", package="torch"),
    "random": Sampler("independent points"),
    "local": Sampler("steps along the axes from the best so far, with restarts"),
    "gradient": Sampler("descent along the derivatives of the model by the GPU's numbers, schedules tuned in between"),
}


def check_sampler(name: str, space: SearchSpace, objectives: int) -> Sampler:
    """The strategy of this name.

    Raises:
        UserError: unknown, not installed, or unable to search this space for so many objectives.
    """
    if name not in SAMPLERS:
        raise unknown("sampler", name, (AUTO, *SAMPLERS))
    sampler = SAMPLERS[name]
    if sampler.package and importlib.util.find_spec(sampler.package) is None:
        raise UserError(
            f"sampler {name} needs {sampler.package}, which is not installed: pip install {sampler.package}"
        )
    if objectives > 1 and not sampler.several:
        able = ", ".join(other for other, own in SAMPLERS.items() if own.several)
        raise UserError(f"sampler {name} minimises one objective, but {objectives} are given; for several: {able}")
    if name == "gradient" and not space.gpu:
        raise UserError(
            "sampler gradient follows derivatives by the GPU's numbers, and none is searched: give --gpu-axis "
            "FIELD=FROM:TO:log, or choose sampler local"
        )
    if not sampler.names and (named := _named_axes(space)):
        raise UserError(
            f"sampler {name} chooses among ordered numbers, not among names or listed values of {', '.join(named)}: "
            "keep one value of each (--axis NAME=VALUE; a range for a --gpu-axis), or choose another sampler"
        )
    if not _axes_with_choice(space):
        raise UserError("nothing is left to choose: the space has one schedule and no --gpu-axis; widen the space")
    return sampler


def optuna_sampler(name: str, seed: int) -> "optuna.samplers.BaseSampler":
    """Optuna's sampler of this name."""
    import warnings

    import optuna

    own = SAMPLERS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return getattr(optuna.samplers, own.optuna or "RandomSampler")(seed=seed, **(own.options or {}))


def _named_axes(space: SearchSpace) -> list[str]:
    from .parameters import is_ordered

    axes = space.schedules.axes if space.schedules else ()
    named = [axis.name for axis in axes if axis.radix > 1 and not is_ordered(axis)]
    return named + [axis.name for axis in space.gpu if axis.values]


def _axes_with_choice(space: SearchSpace) -> bool:
    return bool(space.gpu) or any(radix > 1 for radix in space.radices)
