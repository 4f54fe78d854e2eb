"""Frozen dataclasses of arrays that may cross `jit`: what every record of the model is made of."""

import dataclasses
from typing import Any, TypeVar, dataclass_transform

import jax

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def pytree(cls: type[T]) -> type[T]:
    """Makes `cls` a frozen, keyword-only dataclass whose every field is a leaf (or a subtree) of a JAX pytree."""
    frozen: Any = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    return jax.tree_util.register_dataclass(
        frozen, data_fields=[f.name for f in dataclasses.fields(frozen)], meta_fields=[]
    )
