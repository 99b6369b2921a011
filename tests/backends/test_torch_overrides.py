"""`__torch_function__` and modes see our functions, and torch's functions when they are patched."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

import gridsample
import gridsample.torch_compat
from gridsample.torch_compat import patch

IMAGE, GRID, THETA = torch.rand(1, 2, 5, 6), torch.rand(1, 3, 4, 2), torch.rand(1, 2, 3)
SIZE = (1, 2, 4, 4)
CELLS = gridsample.CellOverlaps([range(7), range(6)], [(0, 2, 3, 6), (0, 1, 4, 5)])

# Every public function, with the tensors that may override it.
PUBLIC: dict[str, tuple[tuple[Tensor, ...], dict[str, Any]]] = {
    "grid_sample": ((IMAGE, GRID), {"mode": "bicubic"}),
    "grid_sample_vjp": ((torch.ones(1, 2, 3, 4), IMAGE, GRID), {}),
    "grid_gradient": ((IMAGE, GRID), {}),
    "grid_hessian": ((IMAGE, GRID), {}),
    "splat": ((torch.ones(1, 2, 3, 4), GRID), {"size": (5, 6)}),
    "splat_count": ((GRID,), {"size": (5, 6)}),
    "affine_grid": ((THETA,), {"size": SIZE}),
    "affine_sample": ((IMAGE, THETA), {"size": SIZE}),
    "affine_sample_vjp": ((torch.ones(1, 2, 4, 4), IMAGE, THETA), {"size": SIZE}),
    "interpolate": ((IMAGE,), {"size": 3}),
    "interpolate_vjp": ((torch.ones(1, 2, 3, 3), IMAGE), {"size": 3}),
    "regrid_conservative": ((IMAGE,), {"overlaps": CELLS}),
    "regrid_conservative_vjp": ((torch.ones(1, 2, 3, 3), IMAGE), {"overlaps": CELLS}),
    "spline_filter": ((IMAGE,), {}),
}
THEIRS: dict[str, tuple[tuple[Tensor, ...], dict[str, Any]]] = {
    "grid_sample": ((IMAGE, GRID), {"align_corners": False}),
    "affine_grid": ((THETA,), {"size": SIZE, "align_corners": False}),
    "interpolate": ((IMAGE,), {"size": 3}),
}


class Marked(Tensor):
    """A subclass that overrides nothing."""


class Heard(TorchFunctionMode):
    """Records the functions that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.functions: list[Any] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.functions.append(func)
        return func(*args, **kwargs or {})


class Duck:
    """An object that overrides torch's functions without being a tensor."""

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func, len(args), kwargs


def all_of(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", PUBLIC)
def test_torch_function_modes_see_our_functions(name: str) -> None:
    function = getattr(gridsample, name)
    tensors, options = PUBLIC[name]
    expected = all_of(function(*tensors, **options))
    mode = Heard()
    with mode:
        heard = all_of(function(*tensors, **options))
    assert mode.functions == [function]
    for place in range(len(tensors)):
        arguments: list[Any] = [*tensors]
        arguments[place] = arguments[place].as_subclass(Marked)
        for mine, truth in zip(all_of(function(*arguments, **options)), expected, strict=True):
            assert type(mine) is Marked
            torch.testing.assert_close(mine.as_subclass(Tensor), truth)
        arguments[place] = Duck()
        func, count, keywords = function(*arguments, **options)
        assert (func, count) == (function, len(tensors))
        assert keywords.items() >= options.items()
        by_name = dict(zip(inspect.signature(function).parameters, arguments, strict=False))
        assert function(**by_name, **options) == (func, count, keywords)
    torch.testing.assert_close(heard, expected)


@pytest.mark.parametrize("name", THEIRS)
@pytest.mark.parametrize("strict", [False, True])
def test_torch_function_modes_see_patched_functions_as_torchs(name: str, strict: bool) -> None:
    """Tables of handlers, as in libraries with subclasses, find torch's functions."""
    tensors, options = THEIRS[name]
    function = getattr(functional, name)

    def use(call: Callable[..., Any]) -> tuple[Any, ...]:
        mode = Heard()
        with mode:
            call(*tensors, **options)
        marked = [tensor.as_subclass(Marked) for tensor in tensors]
        return (
            mode.functions[0],
            type(call(*marked, **options)),
            call(Duck(), *marked[1:], **options),
        )

    theirs = use(function)
    with patch(strict=strict):
        assert use(getattr(functional, name)) == theirs
    assert theirs[0] is function


def test_subclasses_compute_the_same_values() -> None:
    image = torch.ones(1, 1, 2, 2, dtype=torch.uint8).as_subclass(Marked)  # which torch rejects
    with patch():
        out = functional.grid_sample(image, torch.zeros(1, 1, 1, 2), align_corners=False)
    assert type(out) is Marked
    assert out.item() == 1


@pytest.mark.parametrize("name", THEIRS)
def test_torch_function_modes_see_drop_ins(name: str) -> None:
    tensors, options = THEIRS[name]
    function = getattr(gridsample.torch_compat, name)
    mode = Heard()
    with mode:
        function(*tensors, **options)
    assert mode.functions == [function]
    assert type(function(*(tensor.as_subclass(Marked) for tensor in tensors), **options)) is Marked


def test_torch_function_modes_ignore_arrays() -> None:
    mode = Heard()
    with mode:
        gridsample.interpolate(np.ones((1, 1, 3)), 2)
        gridsample.grid_sample(np.ones((1, 1, 3)), np.zeros((1, 2, 1)))
    assert mode.functions == []


def test_default_device_does_not_affect_results() -> None:
    with torch.device("meta"), patch():
        out = functional.grid_sample(IMAGE, GRID, align_corners=False)
    assert out.device.type == "cpu"


def test_our_functions_are_nodes_of_a_symbolic_trace() -> None:
    def warp(image: Tensor, theta: Tensor) -> Any:
        return gridsample.grid_sample(image, gridsample.affine_grid(theta, SIZE), "nearest")

    traced = torch.fx.symbolic_trace(warp)
    called = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert called == [gridsample.affine_grid, gridsample.grid_sample]
    torch.testing.assert_close(traced(IMAGE, THETA), warp(IMAGE, THETA), rtol=0, atol=0)
