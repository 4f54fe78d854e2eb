"""Searches of the free numbers in the unit cube: what is minimised, CMA-ES, and Adam on the model's own gradient."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..compiled import jit
from .parameters import Parameter


class Objective:
    """Mean absolute relative error of the predictions as a function of the free numbers, in the unit cube.

    Args:
        parameters: the free numbers.
        predict: (the model's GPU record) -> seconds of each problem; pure.
        gpu: the record whose numbers are replaced.
        measured_s: seconds of each problem.
        weight: of each problem, e.g. one over their count.
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        predict: Callable[[Any], Any],
        gpu: Any,
        measured_s: np.ndarray,
        weight: float,
    ) -> None:
        import jax
        import jax.numpy as jnp

        self.parameters = tuple(parameters)
        self._gpu = gpu

        def error(place: Any) -> Any:
            return weight * jnp.sum(jnp.abs(predict(self.record(place)) / measured_s - 1.0))

        self._error = jit(error)
        self.value_and_gradient = jit(jax.value_and_grad(error))

    def __call__(self, place: np.ndarray) -> float:
        return float(self._error(np.asarray(place, np.float32)))

    def record(self, place: Any) -> Any:
        """The GPU record with the free numbers of a place."""
        moved = {item.name: item.at(x) for item, x in zip(self.parameters, place, strict=True)}
        return dataclasses.replace(self._gpu, **moved)


def search_cma(objective: Objective, start: np.ndarray, seed: int, evaluations: int) -> np.ndarray:
    """CMA-ES in the unit cube from `start`: the best place found."""
    from cmaes import CMA

    count = len(start)
    search = CMA(
        mean=np.clip(start, 0.02, 0.98), sigma=0.2, bounds=np.array([[0.0, 1.0]] * count), seed=seed, population_size=16
    )
    best, best_error = np.asarray(start, float), objective(start)
    for _ in range(max(evaluations // search.population_size, 1)):
        told = [(place, objective(place)) for place in (search.ask() for _ in range(search.population_size))]
        search.tell(told)
        place, error = min(told, key=lambda pair: pair[1])
        if error < best_error:
            best, best_error = place, error
        if search.should_stop():
            break
    return best


def search_gradient(objective: Objective, start: np.ndarray, seed: int, evaluations: int) -> np.ndarray:
    """Adam on the model's own gradient, projected into the unit cube: the best place found.

    The error has corners where another schedule becomes the fastest; the step shrinks, so that it settles in one.
    """
    del seed
    place = np.clip(np.asarray(start, float), 0.01, 0.99)
    mean, square = np.zeros_like(place), np.zeros_like(place)
    best, best_error = np.asarray(start, float), objective(start)
    for step in range(1, evaluations // 3 + 1):
        error, slope = objective.value_and_gradient(np.asarray(place, np.float32))
        if float(error) < best_error:
            best, best_error = place.copy(), float(error)
        slope = np.asarray(slope, float)
        mean, square = 0.9 * mean + 0.1 * slope, 0.99 * square + 0.01 * slope**2
        size = 0.03 * (1.0 - step / (evaluations // 3 + 1))
        place = np.clip(
            place - size * mean / (1.0 - 0.9**step) / (np.sqrt(square / (1.0 - 0.99**step)) + 1e-9), 0.0, 1.0
        )
    return best


SEARCHES: dict[str, Callable[[Objective, np.ndarray, int, int], np.ndarray]] = {
    "cma": search_cma,
    "gradient": search_gradient,
}
