"""The operators in a program of `torch.jit.trace`, which cannot contain lists of strings.

Such a program contains a single operator in place of all others,

    traced(name, tensors, options)

with the name of the operator that is called, its tensors, and all of its arguments as JSON, in
which tensors are represented by their index.  The program can be saved; to run it, this package
must have been imported.  Sizes among the options are constants.  If they depend on the shape of a
tensor, torch warns about it while tracing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gridsample.backends.torch.internals import is_tracing, untraced
from gridsample.backends.torch.operators import LIBRARY

LIBRARY.define(
    "traced(str name, Tensor[] tensors, str options) -> Tensor[]",
    tags=torch.Tag.pt2_compliant_tag,
)
operator = torch.ops.gridsample.traced.default


def traceable(called: Any) -> Callable[..., Any]:
    """Wrap an operator so that a trace can record it."""
    name = called.__name__.partition(".")[0]

    def call(*arguments: Any) -> Any:
        if not is_tracing():
            return called(*arguments)
        tensors = [argument for argument in arguments if isinstance(argument, Tensor)]
        index = iter(range(len(tensors)))
        rest = [
            {"tensor": next(index)} if isinstance(argument, Tensor) else argument
            for argument in arguments
        ]
        results = operator(name, tensors, json.dumps(rest))
        return results[0] if len(results) == 1 else tuple(results)

    return call


def run(name: str, tensors: list[Tensor], options: str) -> list[Tensor]:
    """Call the operator that a recorded call represents."""
    arguments = [
        tensors[entry["tensor"]] if isinstance(entry, dict) else entry
        for entry in json.loads(options)
    ]
    with untraced():
        results = getattr(torch.ops.gridsample, name).default(*arguments)
    return [results] if isinstance(results, Tensor) else list(results)


LIBRARY.impl("traced", run, "CompositeImplicitAutograd")
