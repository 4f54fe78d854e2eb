"""The model as NumPy operations: what the same equations cost without a compiler.

JAX records the model's operations once (a jaxpr); here NumPy executes them one after the other. Plain, that is what the
model's source would do with NumPy in place of `jax.numpy`. Tuned, operations whose result nobody reads are left out and
equal ones are done once, which nobody would do by hand.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

Operation = Callable[..., Any]


@dataclass(frozen=True)
class Step:
    """One operation: from the values at `sources` to those at `targets`; then the values at `last` are forgotten."""

    function: Operation
    sources: tuple[int, ...]
    targets: tuple[int, ...]
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
            results = step.function(*(values[place] for place in step.sources))
            values |= zip(step.targets, results if len(step.targets) > 1 else (results,), strict=True)
            for place in step.last:
                del values[place]
        return [values[place] for place in self.outputs]


def numpy_program(function: Callable[..., Any], *examples: Any, tuned: bool = True) -> NumpyProgram:
    """Records `function` on example arguments and returns it as NumPy operations.

    Args:
        function: of arrays and records of them; what it returns likewise.
        examples: arguments whose shapes are recorded; the program takes other lengths too.
        tuned: do equal operations once, and none in vain.

    Raises:
        NotImplementedError: the function uses an operation that is not in the table below.
    """
    return _program(jax.make_jaxpr(function)(*examples), tuned)


def _program(closed: Any, tuned: bool) -> NumpyProgram:
    recorder = _Recorder(tuned)
    inputs = [recorder.new() for _ in closed.jaxpr.invars]
    return recorder.program(inputs, recorder.record(closed, inputs))


class _Recorder:
    def __init__(self, tuned: bool) -> None:
        self.tuned = tuned
        self.count = 0
        self.constants: dict[int, Any] = {}
        self.steps: list[tuple[Operation, tuple[int, ...], tuple[int, ...]]] = []
        self.known: dict[Any, tuple[int, ...]] = {}

    def new(self) -> int:
        self.count += 1
        return self.count - 1

    def constant(self, value: Any) -> int:
        array = np.asarray(value)
        key = ("constant", array.dtype.str, array.shape, array.tobytes())
        if key not in self.known:
            self.known[key] = (self.new(),)
            self.constants[self.known[key][0]] = array[()]
        return self.known[key][0]

    def record(self, closed: Any, arguments: Sequence[int]) -> list[int]:
        jaxpr = closed.jaxpr
        places = dict(zip(jaxpr.invars, arguments, strict=True))
        places |= {var: self.constant(value) for var, value in zip(jaxpr.constvars, closed.consts, strict=True)}

        def place(atom: Any) -> int:
            return self.constant(atom.val) if hasattr(atom, "val") else places[atom]

        for equation in jaxpr.eqns:
            sources = tuple(place(atom) for atom in equation.invars)
            called = equation.primitive.name in ("jit", "pjit", "closed_call", "custom_jvp_call")
            inner = (equation.params.get("jaxpr") or equation.params.get("call_jaxpr")) if called else None
            results = self.record(inner, sources) if inner else self.operation(equation, sources)
            places |= dict(zip(equation.outvars, results, strict=True))
        return [place(atom) for atom in jaxpr.outvars]

    def operation(self, equation: Any, sources: tuple[int, ...]) -> tuple[int, ...]:
        key = (equation.primitive.name, str(sorted(equation.params.items(), key=lambda item: item[0])), sources)
        if key not in self.known or not self.tuned:
            self.known[key] = tuple(self.new() for _ in equation.outvars)
            self.steps.append((_operation(equation, self.tuned), sources, self.known[key]))
        return self.known[key]

    def program(self, inputs: Sequence[int], outputs: Sequence[int]) -> NumpyProgram:
        needed = set(outputs)
        kept: list[tuple[Operation, tuple[int, ...], tuple[int, ...]]] = []
        for function, sources, targets in reversed(self.steps):
            if not self.tuned or needed & set(targets):
                needed |= set(sources)
                kept.append((function, sources, targets))
        pinned = {*outputs, *inputs, *self.constants}
        seen: set[int] = set()
        steps: list[Step] = []
        for function, sources, targets in kept:  # from the last to the first: the first time seen is the last use
            last = tuple(place for place in dict.fromkeys((*sources, *targets)) if place not in seen | pinned)
            seen |= set(sources)
            steps.append(Step(function, sources, targets, last))
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
    "shift_left": np.left_shift,
    "shift_right_logical": lambda x, bits: (_unsigned(x) >> _unsigned(bits)).view(np.asarray(x).dtype),
    "shift_right_arithmetic": np.right_shift,
    "population_count": lambda x: np.bitwise_count(x).astype(np.asarray(x).dtype),
    "is_finite": np.isfinite,
    "copy": lambda x: x,
    "stop_gradient": lambda x: x,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
}


def _unsigned(x: Any) -> Any:
    return np.asarray(x).view(f"u{np.asarray(x).itemsize}")


def _operation(equation: Any, tuned: bool) -> Operation:
    name, params = equation.primitive.name, equation.params
    if name == "cond":
        return _choice([_program(branch, tuned) for branch in params["branches"]], len(equation.outvars))
    if name == "scan" and _only_carries(equation):
        constants = len(equation.invars) - len(equation.outvars)
        return _loop(_program(params["jaxpr"], tuned), params["length"], constants)
    if name == "reduce_or":
        return lambda x: np.any(x, axis=tuple(params["axes"]))
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


def _choice(branches: list[NumpyProgram], results: int) -> Operation:
    def choose(which: Any, *arguments: Any) -> Any:
        values = branches[int(which)](*arguments)
        return values if results > 1 else values[0]

    return choose


def _only_carries(scan: Any) -> bool:
    """Whether a scan walks over no array: each turn then takes and gives what the whole does."""
    turn = scan.params["jaxpr"].jaxpr
    taken = all(a.aval.shape == b.aval.shape for a, b in zip(scan.invars, turn.invars, strict=True))
    return taken and all(a.aval.shape == b.aval.shape for a, b in zip(scan.outvars, turn.outvars, strict=True))


def _loop(body: NumpyProgram, length: int, constants: int) -> Operation:
    def loop(*arguments: Any) -> Any:
        fixed, carried = arguments[:constants], list(arguments[constants:])
        for _ in range(length):
            carried = body(*fixed, *carried)
        return carried if len(carried) > 1 else carried[0]

    return loop


def _broadcast(x: Any, shape: tuple[int, ...], dimensions: tuple[int, ...]) -> Any:
    if np.ndim(x) == 0:
        return x  # NumPy broadcasts a number by itself
    aligned = [1] * len(shape)
    for axis, size in zip(dimensions, np.shape(x), strict=True):
        aligned[axis] = size
    return np.broadcast_to(np.reshape(x, aligned), shape)
