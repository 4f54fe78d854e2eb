"""What must hold for every kernel: laws that a kernel's tests inherit.

class TestMyKernelLaws(KernelLaws):
    variants = ("plain", "fancy")
    cost = staticmethod(my_kernel.cost)

    def draw(self, count, seed, variant): ...
    def compulsory_ddr_bytes(self, problem): ...

Laws of latency are claimed for schedules that fit and stay fixed: more shared memory or registers may raise the number
of resident CTAs and make a kernel slower, and more SMs may unbalance its waves, so neither is a rate here. Laws of
rates are claimed with the power limit off: a faster engine draws more power, and a limited clock slows the others.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.quick_compile import QUICK

from jaxmodel.machine import Gpu
from jaxmodel.types import PIPELINES, Cost

COUNT = 1025  # candidates a variant: 2^k + 1, so that vector loops have a rest
PER_CLOCK = (
    "tensor_flop_per_clock_sm", "cuda_flop_per_clock_sm", "sfu_op_per_clock_sm", "smem_bytes_per_clock_sm",
    "tmem_bytes_per_clock_sm", "sm_port_bytes_per_clock", "l15_bytes_per_clock_group",
)  # fmt: skip
PER_SECOND = ("clock_hz", "l2_bytes_per_s", "ddr_bytes_per_s", "quantise_bytes_per_s")
RATES = (*PER_CLOCK, *PER_SECOND, "tensor_efficiency")
CAPACITIES = ("l2_capacity_bytes", "l2_effective_ratio", "l15_capacity_bytes")
LATENCIES = tuple(
    f.name for f in dataclasses.fields(Gpu) if f.name.endswith("_s") and f.name not in (*PER_SECOND, "power_time_s")
)
PARTS = ("prologue_s", "steady_s", "epilogue_s", "tail_s", "reduction_s", "launch_s", "helpers_s")
COMMUNICATION = "communication_s"  # a further part of kernels that communicate
ROUNDING = 1e-12  # of float64, in sums of many terms


class Candidates(NamedTuple):
    """Records of the kernel whose leaves have one entry a candidate on their first axis."""

    problem: Any
    schedule: Any
    gpu: Gpu


class KernelLaws:
    """Inherit, set `variants` and `cost`, and write `draw` and `compulsory_ddr_bytes`."""

    variants: ClassVar[tuple[str, ...]]
    cost: ClassVar[Callable[[Any, Any, Gpu], Cost]]
    _compiled: ClassVar[dict[Any, Any]]
    _traces: ClassVar[list[None]]

    def draw(self, count: int, seed: int, variant: str) -> Candidates:
        """`count` candidates with NumPy leaves: numbers that float32 holds; some that fit and some that do not."""
        raise NotImplementedError

    def compulsory_ddr_bytes(self, problem: Any) -> np.ndarray:
        """What must come from and go to DDR once: results, and operands that are not in the cache at the start."""
        raise NotImplementedError

    def rescaled(self, problem: Any, rates: float) -> Any:
        """The problem with the rates that it holds itself (links to others) times a factor, its latencies over it."""
        del rates
        return problem

    # what the laws are made of

    def __init_subclass__(cls) -> None:
        cls._compiled, cls._traces = {}, []

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "variant" in metafunc.fixturenames:
            metafunc.parametrize("variant", self.variants, scope="class")

    def evaluate(self, candidates: Candidates, float_dtype: type = np.float64) -> Cost:
        """The cost under `jit`, compiled once a precision (float32 as in production), as NumPy."""
        double = float_dtype is np.float64
        with jax.enable_x64(double):
            evaluate = self._jit(float_dtype.__name__, self._traced, QUICK if double else {})
            return jax.tree.map(np.asarray, evaluate(*_cast(candidates, float_dtype)))

    def _traced(self, problem: Any, schedule: Any, gpu: Gpu) -> Cost:
        self._traces.append(None)
        return type(self).cost(problem, schedule, gpu)

    def _draw_all(self, count: int, seed: int) -> Candidates:
        """`count` candidates, in turn from each variant."""
        drawn = [self.draw(count, seed, variant) for variant in self.variants]
        turn = np.arange(count) % len(drawn)
        return jax.tree.map(lambda *leaves: np.stack(leaves)[turn, np.arange(count)], *drawn)

    def _jit(
        self, name: str, function: Callable[..., Any], compiler_options: dict[str, Any] = QUICK
    ) -> Callable[..., Any]:
        return self._compiled.setdefault(name, jax.jit(function, compiler_options=compiler_options))

    @pytest.fixture(scope="class")
    @classmethod
    def drawn(cls, variant: str) -> tuple[Candidates, Cost, np.ndarray]:
        """Candidates, their cost in float64 and which of them fit."""
        candidates = cls().draw(COUNT, 1, variant)
        cost = cls().evaluate(candidates)
        return candidates, cost, cost.reason == 0

    @pytest.fixture(scope="class")
    @classmethod
    def unlimited(cls, drawn: tuple) -> tuple[Candidates, Cost, np.ndarray]:
        """The same with the power limit off."""
        candidates, _, _ = drawn
        candidates = _scaled(candidates, {"power_time_s": 0.0})
        cost = cls().evaluate(candidates)
        return candidates, cost, cost.reason == 0

    # the laws

    def test_some_candidates_fit_and_some_do_not(self, drawn: tuple) -> None:
        _, _, fits = drawn
        assert 0.15 < fits.mean() < 0.85

    def test_everything_is_finite_even_where_nothing_fits(self, drawn: tuple) -> None:
        candidates, cost, _ = drawn
        for precision in (cost, self.evaluate(candidates, np.float32)):
            assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(precision))

    def test_latency_is_at_least_each_pipelines_demand_over_its_peak(self, drawn: tuple) -> None:
        _, cost, fits = drawn
        for name, pipeline_s in zip(PIPELINES, cost.pipeline_s, strict=True):
            excess = (pipeline_s / cost.latency_s)[fits]
            assert excess.max() <= 1.0 + ROUNDING, (name, np.flatnonzero(fits)[excess.argmax()])

    def test_parts_add_up_and_none_is_negative(self, drawn: tuple) -> None:
        _, cost, _ = drawn
        names = (*PARTS, COMMUNICATION) if hasattr(cost, COMMUNICATION) else PARTS
        parts = [getattr(cost, name) for name in names]
        np.testing.assert_allclose(sum(parts), cost.latency_s, rtol=ROUNDING)
        for name, part in zip(names, parts, strict=True):
            assert np.min(part / cost.latency_s) >= -ROUNDING, name

    def test_shares_lie_between_zero_and_one(self, drawn: tuple) -> None:
        _, cost, _ = drawn
        for name in ("l15_hit", "l2_hit"):
            share = getattr(cost, name)
            assert share.min() >= 0.0, name
            assert share.max() <= 1.0, name
        assert np.all(cost.l15_hit <= cost.l2_hit)

    def test_ddr_moves_at_least_what_is_compulsory(self, drawn: tuple) -> None:
        candidates, cost, fits = drawn
        ratio = (self.compulsory_ddr_bytes(candidates.problem) / cost.ddr_bytes)[fits]
        assert ratio.max() <= 1.0 + ROUNDING, np.flatnonzero(fits)[ratio.argmax()]

    @pytest.mark.parametrize("name", RATES)
    @pytest.mark.parametrize("factor", [1.03, 2.0])
    def test_a_faster_engine_is_never_slower(self, unlimited: tuple, name: str, factor: float) -> None:
        candidates, cost, fits = unlimited
        faster = self.evaluate(_scaled(candidates, {name: factor}))
        _assert_never_above(faster.latency_s, cost.latency_s, fits)

    @pytest.mark.parametrize("name", CAPACITIES)
    @pytest.mark.parametrize("factor", [1.03, 2.0])
    def test_a_larger_cache_is_never_slower_and_never_asks_more_of_ddr(
        self, unlimited: tuple, name: str, factor: float
    ) -> None:
        candidates, cost, fits = unlimited
        larger = self.evaluate(_scaled(candidates, {name: factor}))
        _assert_never_above(larger.latency_s, cost.latency_s, fits)
        _assert_never_above(1.0 - larger.l2_hit, 1.0 - cost.l2_hit, fits, whole=1.0)
        _assert_never_above(larger.ddr_bytes, cost.ddr_bytes, fits)

    @pytest.mark.parametrize("name", LATENCIES)
    def test_a_longer_latency_is_never_faster(self, unlimited: tuple, name: str) -> None:
        candidates, cost, fits = unlimited
        longer = self.evaluate(_scaled(candidates, {name: 1.5}))
        _assert_never_above(cost.latency_s, longer.latency_s, fits)

    @pytest.mark.parametrize("factor", [4.0, 1.7])
    def test_all_rates_times_c_and_all_latencies_over_c_make_time_over_c(self, unlimited: tuple, factor: float) -> None:
        candidates, cost, _ = unlimited
        change = dict.fromkeys(PER_SECOND, factor) | dict.fromkeys(LATENCIES, 1.0 / factor)
        scaled = _scaled(candidates, change)
        scaled = self.evaluate(scaled._replace(problem=self.rescaled(candidates.problem, factor)))
        np.testing.assert_allclose(scaled.latency_s * factor, cost.latency_s, rtol=ROUNDING)
        np.testing.assert_array_equal(scaled.bound, cost.bound)

    def test_gradients_have_the_sign_of_the_law_and_are_finite(self, unlimited: tuple) -> None:
        candidates, _, fits = unlimited
        names = (*RATES, *CAPACITIES, *LATENCIES)

        def total_s(fields: dict[str, jax.Array], problem: Any, schedule: Any, gpu: Gpu) -> jax.Array:
            return jnp.sum(type(self).cost(problem, schedule, dataclasses.replace(gpu, **fields)).latency_s)

        with jax.enable_x64(True):
            problem, schedule, gpu = _cast(candidates, np.float64)
            fields = {name: getattr(gpu, name) for name in names}
            gradient = self._jit("gradient", jax.grad(total_s))(fields, problem, schedule, gpu)
        for name in names:
            value = np.asarray(gradient[name])
            assert np.isfinite(value).all(), name
            sign = 1.0 if name in LATENCIES else -1.0
            assert np.min(sign * value[fits]) >= -ROUNDING * np.max(np.abs(value)), name

    def test_gradients_of_all_outputs_by_all_numbers_are_finite_in_float32(self) -> None:
        """As a search follows them. One sum over all outputs: what is not finite in one of them is not in the sum."""

        def total(gpu: Gpu, problem: Any, schedule: Any) -> jax.Array:
            return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(type(self).cost(problem, schedule, gpu)))

        problem, schedule, gpu = _cast(self._draw_all(COUNT, seed=5), np.float32)
        gradient = self._jit("float32 gradient", jax.grad(total))(gpu, problem, schedule)
        for path, leaf in jax.tree_util.tree_leaves_with_path(gradient):
            finite = np.isfinite(leaf).reshape(COUNT, -1).all(axis=1)
            assert finite.all(), (jax.tree_util.keystr(path), np.flatnonzero(~finite)[:3])

    def test_a_power_limit_never_makes_a_kernel_faster(self, drawn: tuple, unlimited: tuple) -> None:
        _, limited, fits = drawn
        _, free, _ = unlimited
        _assert_never_above(free.latency_s, limited.latency_s, fits)
        assert np.any(limited.latency_s[fits] > 1.001 * free.latency_s[fits])

    def test_order_of_candidates_does_not_matter_bit_for_bit(self, drawn: tuple) -> None:
        candidates, _, _ = drawn
        order = np.random.default_rng(0).permutation(COUNT)
        shuffled = self.evaluate(Candidates(*(_take(record, order) for record in candidates)), np.float32)
        straight = self.evaluate(candidates, np.float32)
        for a, b in zip(jax.tree.leaves(straight), jax.tree.leaves(shuffled), strict=True):
            np.testing.assert_array_equal(_full(a)[order], _full(b))

    def test_neighbours_do_not_matter_bit_for_bit(self, drawn: tuple) -> None:
        """A chunk full of one candidate, against that candidate among all others."""
        candidates, _, _ = drawn
        among_others = self.evaluate(candidates, np.float32)
        for i in range(0, COUNT, COUNT // 8):
            alone = self.evaluate(Candidates(*(_take(record, np.full(COUNT, i)) for record in candidates)), np.float32)
            for a, b in zip(jax.tree.leaves(among_others), jax.tree.leaves(alone), strict=True):
                np.testing.assert_array_equal(_full(b), _full(a)[i])

    def test_jit_equals_eager(self) -> None:
        candidates = self._draw_all(COUNT, seed=2)
        eager = type(self).cost(*_cast(candidates, np.float32))
        _assert_alike(eager, self.evaluate(candidates, np.float32))

    def test_broadcasting_and_vmap_cost_every_combination(self) -> None:
        """2 problems x 3 schedules, each on its own axis, mapped over 2 GPUs, against the list of all combinations."""
        problem, schedule, gpu = self._draw_all(3, seed=3)
        problem, gpu = (jax.tree.map(lambda leaf: leaf[:2], record) for record in (problem, gpu))
        every = np.unravel_index(np.arange(COUNT) % 12, (2, 2, 3))  # of GPU, problem, schedule
        g, p, s = (_take(record, index) for record, index in zip((gpu, problem, schedule), every, strict=True))
        listed = self.evaluate(Candidates(p, s, g), np.float32)

        own_axes = _take(problem, np.arange(2)[:, None]), _take(schedule, np.arange(3)[None, :])
        mapped = self._jit("vmap", jax.vmap(type(self).cost, in_axes=(None, None, 0)))
        cost = mapped(*_cast(Candidates(*own_axes, gpu), np.float32))
        _assert_alike(
            jax.tree.map(lambda leaf: np.broadcast_to(leaf, (2, 2, 3)).ravel(), _with_gpus_first(cost)),
            jax.tree.map(lambda leaf: _full(leaf)[:12], listed),
        )

    def test_other_numbers_do_not_trace_again(self) -> None:
        """One trace a precision and shape, whatever the problem, the schedule, the instruction family and the GPU."""
        self.evaluate(self.draw(COUNT, 3, self.variants[0]))
        before = len(self._traces)
        for seed, variant in enumerate(self.variants):
            self.evaluate(self.draw(COUNT, 4 + seed, variant))
        assert len(self._traces) == before


def _cast(candidates: Candidates, float_dtype: type) -> Candidates:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, float_dtype), candidates)


def _scaled(candidates: Candidates, factors: dict[str, float]) -> Candidates:
    changed = {name: getattr(candidates.gpu, name) * factor for name, factor in factors.items()}
    return candidates._replace(gpu=dataclasses.replace(candidates.gpu, **changed))


def _take(record: Any, index: np.ndarray) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], record)


def _with_gpus_first(cost: Cost) -> Cost:
    """What depends on the GPU alone has no axes for problem and schedule: give it them."""
    return jax.tree.map(lambda leaf: np.reshape(leaf, (*leaf.shape, *(1,) * (3 - leaf.ndim))), cost)


def _full(leaf: np.ndarray) -> np.ndarray:
    return np.broadcast_to(leaf, COUNT)


def _assert_never_above(value: np.ndarray, limit: np.ndarray, fits: np.ndarray, whole: float = 0.0) -> None:
    """Up to rounding of the value, or of the larger `whole` that it is a part of."""
    excess = np.where(fits, value - limit - ROUNDING * np.maximum(np.abs(limit), whole), -np.inf)
    assert excess.max() <= 0.0, f"candidate {excess.argmax()}: {value[excess.argmax()]} above {limit[excess.argmax()]}"


def _assert_alike(cost: Cost, other: Cost) -> None:
    """To float32 rounding; differences of larger numbers are compared with at least a hundredth of those."""
    least = {name: 0.01 * np.asarray(other.latency_s) for name in PARTS}
    least |= {"ddr_read_bytes": 0.01 * np.asarray(other.l15_bytes), "l15_hit": 0.01, "l2_hit": 0.01}
    for field in dataclasses.fields(Cost):
        if field.name == "pipeline_s":
            continue  # made of the demands that the bytes above show
        a, b = np.asarray(getattr(cost, field.name)), np.asarray(getattr(other, field.name))
        scale = np.maximum(np.abs(b), least.get(field.name, 1e-30))
        assert np.max(np.abs(a - b) / scale) < 1e-4, field.name
