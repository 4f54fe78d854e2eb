"""Collectives of groups of GPUs over nodes: the parts they are made of, and what must hold."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.quick_compile import QUICK

from dse.content.fabric import load_fabric
from jaxmodel.network import (
    COLLECTIVES,
    NESTED,
    CollectiveCost,
    GroupCost,
    NestedCost,
    collective_cost,
    group_cost,
    nested_cost,
)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


INNER, OUTER = (level.bind(np.float64) for level in load_fabric("nvlink4_x8+infiniband_ndr").levels)
SIZES = np.geomspace(1e3, 1e9, 25)[:, None, None]
INSIDE, ACROSS = np.array([1.0, 2.0, 4.0, 8.0])[:, None], np.array([1.0, 2.0, 6.0, 32.0])


@partial(jax.jit, static_argnames=("collective", "rule"), compiler_options=QUICK)
def parts_of(collective: str, rule: str) -> tuple[GroupCost, CollectiveCost, CollectiveCost, NestedCost | None]:
    """The group's cost, and what its levels alone and both together cost."""
    return (
        group_cost(collective, SIZES, INSIDE, ACROSS, INNER, OUTER, rule),
        collective_cost(collective, SIZES, INSIDE, INNER, rule),
        collective_cost(collective, SIZES, ACROSS, OUTER, rule),
        nested_cost(collective, SIZES, INSIDE, ACROSS, INNER, OUTER, rule) if collective in NESTED else None,
    )


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("rule", ["nccl", "best"])
def test_a_group_costs_what_its_levels_cost(collective: str, rule: str) -> None:
    cost, inside, alone, both = parts_of(collective, rule)
    latency, crossing = np.asarray(cost.latency_s), np.asarray(cost.network_bytes)
    assert latency[:, :, :1] == pytest.approx(np.asarray(inside.latency_s))
    assert (crossing[:, :, 0] == 0).all()
    if both is not None:
        least = np.minimum(np.asarray(alone.latency_s)[:, 0], np.asarray(both.latency_s)[:, 0])
        assert latency[:, 0, 1:] == pytest.approx(least[:, 1:])
        for name in ("latency_s", "network_bytes", "sms"):
            found, expected = (np.asarray(getattr(one, name)) for one in (cost, both))
            wide = np.broadcast_to(expected, latency.shape)[:, 1:, 1:]
            assert np.broadcast_to(found, latency.shape)[:, 1:, 1:] == pytest.approx(wide)
    else:
        assert latency[:, 0] == pytest.approx(np.asarray(alone.latency_s)[:, 0])
        assert (latency[:, 1:, 1:] == latency[:, :1, 1:]).all()


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_what_holds_for_every_group(collective: str) -> None:
    cost = parts_of(collective, "nccl")[0]
    latency = np.asarray(cost.latency_s)
    assert (latency[:, 0, 0] == 0).all()
    assert np.isfinite(latency).all()
    busy = np.asarray(cost.network_bytes) / 47.01e9
    assert (latency >= busy).all()
    if collective not in ("all_to_all", "send"):  # their protocol goes by size: it jumps
        grows = np.diff(latency.reshape(len(SIZES), -1)[:, 1:], axis=0)
        assert (grows > 0).all()


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_gradients_are_finite(collective: str) -> None:
    def total(size: float, levels: tuple) -> jax.Array:
        return jnp.sum(group_cost(collective, size, INSIDE, ACROSS, *levels).latency_s)

    levels = jax.tree.map(float, (INNER, OUTER))
    slopes = jax.grad(total, argnums=(0, 1))(1e5, levels)  # step by step: all collectives are made of the same few
    assert all(np.isfinite(slope) for slope in jax.tree.leaves(slopes))
    assert float(slopes[0]) > 0


def test_without_a_network_no_group_leaves_its_node() -> None:
    cost = group_cost("all_reduce", 1e6, INSIDE, ACROSS, INNER, None)
    assert np.isfinite(np.asarray(cost.latency_s)[:, 0]).all()
    assert np.isinf(np.asarray(cost.latency_s)[:, 1:]).all()
    assert (np.asarray(cost.network_bytes) == 0).all()
