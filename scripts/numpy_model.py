"""The model as plain NumPy: what the same equations cost without a compiler.

JAX records the model's operations once (a jaxpr); here they are executed one after the other by NumPy. To be fair to
NumPy, operations whose result nobody reads are left out, equal ones are done once, and arrays are freed after their
last use, so that a chunk stays in cache.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

Operation = Callable[..., Any]


@dataclass(frozen=True)
class Step:
    """One operation: `values[target] = function(*(values[s] for s in sources))`; then forget the values in `last`."""

    function: Operation
    sources: tuple[int, ...]
    target: int
    last: tuple[int, ...]


@dataclass(frozen=True)
class NumpyProgram:
    """A recorded function of arrays; call it with the flattened arguments.

    Attributes:
        steps: operations in order.
        constants: place -> value.
        inputs: places of the arguments.
        outputs: places of the results.
    """

    steps: tuple[Step, ...]
    constants: dict[int, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def __call__(self, *arguments: Any) -> list[Any]:
        """The results, as NumPy arrays."""
        values = dict(self.constants) | dict(zip(self.inputs, arguments, strict=True))
        for step in self.steps:
            values[step.target] = step.function(*(values[place] for place in step.sources))
            for place in step.last:
                del values[place]
        return [values[place] for place in self.outputs]


def numpy_program(function: Callable[..., Any], *examples: Any) -> NumpyProgram:
    """Records `function` on example arguments and returns it as NumPy operations.

    Raises:
        NotImplementedError: the function uses an operation that is not in the table below.
    """
    recorder = _Recorder()
    closed = jax.make_jaxpr(function)(*examples)
    inputs = [recorder.new() for _ in closed.jaxpr.invars]
    outputs = recorder.record(closed, inputs)
    return recorder.program(inputs, outputs)


class _Recorder:
    def __init__(self) -> None:
        self.count = 0
        self.constants: dict[int, Any] = {}
        self.steps: list[tuple[Operation, tuple[int, ...], int]] = []
        self.known: dict[Any, int] = {}

    def new(self) -> int:
        self.count += 1
        return self.count - 1

    def constant(self, value: Any) -> int:
        array = np.asarray(value)
        key = ("constant", array.dtype.str, array.shape, array.tobytes())
        if key not in self.known:
            self.known[key] = self.new()
            self.constants[self.known[key]] = array[()]
        return self.known[key]

    def record(self, closed: Any, arguments: Sequence[int]) -> list[int]:
        jaxpr = closed.jaxpr
        places = dict(zip(jaxpr.invars, arguments, strict=True))
        places |= {var: self.constant(value) for var, value in zip(jaxpr.constvars, closed.consts, strict=True)}

        def place(atom: Any) -> int:
            return self.constant(atom.val) if hasattr(atom, "val") else places[atom]

        for equation in jaxpr.eqns:
            sources = tuple(place(atom) for atom in equation.invars)
            inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
            results = self.record(inner, sources) if inner else [self.operation(equation, sources)]
            places |= dict(zip(equation.outvars, results, strict=True))
        return [place(atom) for atom in jaxpr.outvars]

    def operation(self, equation: Any, sources: tuple[int, ...]) -> int:
        key = (equation.primitive.name, str(sorted(equation.params.items(), key=lambda item: item[0])), sources)
        if key not in self.known:
            self.known[key] = self.new()
            self.steps.append((_operation(equation), sources, self.known[key]))
        return self.known[key]

    def program(self, inputs: Sequence[int], outputs: Sequence[int]) -> NumpyProgram:
        needed = set(outputs)
        kept: list[tuple[Operation, tuple[int, ...], int]] = []
        for function, sources, target in reversed(self.steps):
            if target in needed:
                needed |= set(sources)
                kept.append((function, sources, target))
        pinned = {*outputs, *inputs, *self.constants}
        seen: set[int] = set()
        steps: list[Step] = []
        for function, sources, target in kept:  # from the last to the first: the first time seen is the last use
            last = tuple(place for place in dict.fromkeys(sources) if place not in seen | pinned)
            seen |= set(sources)
            steps.append(Step(function, sources, target, last))
        return NumpyProgram(tuple(reversed(steps)), self.constants, tuple(inputs), tuple(outputs))


_PLAIN: dict[str, Operation] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": np.minimum,
    "max": np.maximum,
    "rem": np.fmod,
    "pow": np.power,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: np.float32(1.0) / np.sqrt(x),
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "tanh": np.tanh,
    "square": np.square,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.bitwise_not,
    "is_finite": np.isfinite,
    "copy": lambda x: x,
    "stop_gradient": lambda x: x,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
}


def _operation(equation: Any) -> Operation:
    name, params = equation.primitive.name, equation.params
    if name in _PLAIN:
        return _PLAIN[name]
    if name == "select_n" and len(equation.invars) == 3:
        return lambda which, where_false, where_true: np.where(which, where_true, where_false)
    if name == "convert_element_type":
        return lambda x: np.asarray(x).astype(params["new_dtype"], copy=False)[()]
    if name == "broadcast_in_dim":
        return lambda x: _broadcast(x, params["shape"], params["broadcast_dimensions"])
    if name == "integer_pow":
        return lambda x: x ** np.float32(params["y"])
    if name == "round":
        return np.rint if int(params["rounding_method"]) == 1 else lambda x: np.trunc(x + np.copysign(0.5, x))
    if name == "slice" and params["strides"] is None:
        cut = tuple(slice(*edges) for edges in zip(params["start_indices"], params["limit_indices"], strict=True))
        return lambda x: x[cut]
    if name == "squeeze":
        return lambda x: np.squeeze(x, axis=params["dimensions"])[()]
    if name == "reshape":
        return lambda x: np.reshape(x, params["new_sizes"])
    raise NotImplementedError(f"{name} has no NumPy operation in scripts/numpy_model.py: add it to the table")


def _broadcast(x: Any, shape: tuple[int, ...], dimensions: tuple[int, ...]) -> Any:
    if np.ndim(x) == 0:
        return x  # NumPy broadcasts a number by itself
    aligned = [1] * len(shape)
    for axis, size in zip(dimensions, np.shape(x), strict=True):
        aligned[axis] = size
    return np.broadcast_to(np.reshape(x, aligned), shape)
