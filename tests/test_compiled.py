"""A process may come to hold many compiled functions: their code is dropped before the system refuses to map more."""

from pathlib import Path

import jax.numpy as jnp
import pytest

import dse.compiled
from dse.compiled import jit, make_room, maps_allowed, maps_held

needs_proc = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system tells no maps")


@needs_proc
def test_maps_are_counted() -> None:
    assert 10 < maps_held() < maps_allowed()


@needs_proc
def test_a_compiled_function_takes_maps_and_they_are_given_back_when_they_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    function = jit(lambda x: jnp.sort(jnp.cumsum(jnp.sin(x)) * jnp.cos(x)) + jnp.exp(x))
    known = function(jnp.arange(7.0))
    held = maps_held()
    monkeypatch.setattr(dse.compiled, "FULL", 0.0)
    assert make_room()
    assert maps_held() < held
    assert jnp.array_equal(function(jnp.arange(7.0)), known), "it is compiled again"


def test_nothing_is_dropped_while_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dse.compiled, "maps_held", lambda: 100)
    assert not make_room()


def test_without_proc_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dse.compiled, "maps_held", lambda: None)
    assert not make_room()


def test_files_that_conftest_names_are_there() -> None:
    """A file that was renamed would be compiled without optimizations, whose effect on its numbers is its subject."""
    from conftest import COMPILED_AS_FOR_USERS, LONG

    names = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
    assert names >= {*COMPILED_AS_FOR_USERS, *LONG}


def test_options_of_the_compiler_are_those_of_the_call_or_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dse.compiled, "XLA_OPTIONS", {"no_such_option": 1})
    with pytest.raises(RuntimeError, match="no_such_option"):
        jit(lambda x: x + 1.0)(1.0)
    assert jit(lambda x: x + 2.0, compiler_options={})(1.0) == 3.0
