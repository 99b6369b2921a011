"""The formulas of `gridsample.definitions.axis`, whose functions are those of `jax.numpy` here."""

from __future__ import annotations

import types
from typing import Any

import jax.numpy as jnp

from gridsample.definitions import axis

# The functions that the formulas take from their module.
NAMES = ("floor", "rint", "where", "minimum", "maximum", "remainder")


def bound(module: types.ModuleType, namespace: Any) -> types.SimpleNamespace:
    """Copy the functions of a module; the copies call the functions of another namespace."""
    names = {**vars(module), **{name: getattr(namespace, name) for name in NAMES}}
    for name, one in vars(module).items():
        if isinstance(one, types.FunctionType):
            names[name] = types.FunctionType(one.__code__, names, name)
    return types.SimpleNamespace(**names)


AXIS = bound(axis, jnp)
