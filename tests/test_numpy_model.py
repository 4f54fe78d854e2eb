"""The benchmark's baseline computes what the model computes, else its ratio means nothing."""

from dataclasses import fields

import jax
import numpy as np
import pytest
from numpy_model import numpy_program
from oracles.gemm_draws import draw_gemms
from oracles.quick_compile import QUICK

from jaxmodel.kernels.gemm import cost


@pytest.mark.parametrize("tuned", [False, True])
@pytest.mark.parametrize("family", ["mma_sync", "wgmma"])
def test_numpy_runs_the_same_model(family: str, tuned: bool) -> None:
    candidates = tuple(draw_gemms(513, seed=5, family=family, float_dtype=np.float32))
    program = numpy_program(cost, *candidates, tuned=tuned)
    with np.errstate(all="ignore"):
        flat = program(*jax.tree.leaves(candidates))
    found = jax.tree.unflatten(jax.tree.structure(jax.eval_shape(cost, *candidates)), flat)
    expected = jax.jit(cost, compiler_options=QUICK)(*candidates)
    for field in (f.name for f in fields(expected) if f.name not in ("pipeline_s", "ddr_read_bytes")):
        values = np.broadcast_to(getattr(found, field), np.shape(getattr(expected, field)))
        scale = 1.0 if field.endswith("_hit") else 0.0
        np.testing.assert_allclose(values, getattr(expected, field), rtol=2e-4, atol=2e-4 * scale, err_msg=field)


def test_tuned_does_less() -> None:
    def twice(x):
        return (x + 1.0) * (x + 1.0), x * 3.0

    tuned, plain = (numpy_program(lambda x: twice(x)[0], np.float32(1), tuned=tuned) for tuned in (True, False))
    assert (len(tuned.steps), len(plain.steps)) == (2, 4)
    np.testing.assert_array_equal(tuned(np.arange(3, dtype=np.float32))[0], [1, 4, 9])


def test_what_numpy_lacks_is_named() -> None:
    with pytest.raises(NotImplementedError, match="sort has no NumPy operation"):
        numpy_program(jax.numpy.sort, np.zeros(3, np.float32))
