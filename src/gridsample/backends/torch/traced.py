"""The operators in a program of `torch.jit.trace`, which can hold no list of strings.

So it holds one operator for all of them,

    traced(name, tensors, options)

with the name of the one that is called, its tensors, and all of its arguments as JSON, in which a
tensor is the number of its place.  Such a program can be saved; to run, it needs this package to
have been imported.  Sizes among the options are those of the tensors that were traced: where they
followed from a tensor's shape, torch warns of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gridsample.backends.torch.contacts import is_tracing, untraced
from gridsample.backends.torch.operators import LIBRARY

LIBRARY.define(
    "traced(str name, Tensor[] tensors, str options) -> Tensor[]",
    tags=torch.Tag.pt2_compliant_tag,
)
operator = torch.ops.gridsample.traced.default


def traceable(called: Any) -> Callable[..., Any]:
    """An operator, called so that a trace can hold it."""
    name = called.__name__.partition(".")[0]

    def call(*arguments: Any) -> Any:
        if not is_tracing():
            return called(*arguments)
        tensors = [one for one in arguments if isinstance(one, Tensor)]
        places = iter(range(len(tensors)))
        rest = [{"tensor": next(places)} if isinstance(one, Tensor) else one for one in arguments]
        results = operator(name, tensors, json.dumps(rest))
        return results[0] if len(results) == 1 else tuple(results)

    return call


def run(name: str, tensors: list[Tensor], options: str) -> list[Tensor]:
    """Call the operator that a program holds."""
    arguments = [
        tensors[one["tensor"]] if isinstance(one, dict) else one for one in json.loads(options)
    ]
    with untraced():
        results = getattr(torch.ops.gridsample, name).default(*arguments)
    return [results] if isinstance(results, Tensor) else list(results)


LIBRARY.impl("traced", run, "CompositeImplicitAutograd")
