"""Sizes, as torch takes them: integers of Python, NumPy and torch, in tuples, lists and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

import gridsample
from gridsample.torch_compat import patch

SIZE = (1, 2, 3, 4)
KINDS: dict[str, Any] = {
    "torch.Size": torch.Size(SIZE),
    "list": [*SIZE],
    "tensors": [torch.tensor(n) for n in SIZE],
    "mixed": (1, torch.tensor(2), np.int32(3), np.array(4)),
    "tensors of one entry": [torch.tensor([n]) for n in SIZE],
    "unsigned": tuple(np.array(SIZE, np.uint8)),
    "array": np.array(SIZE),
    "tensor": torch.tensor(SIZE),
}
IMAGE, GRID, THETA = torch.rand(1, 2, 5, 6), torch.rand(1, 3, 4, 2), torch.rand(1, 2, 3)
VALUES = torch.rand(1, 2, 3, 4)


@pytest.mark.parametrize("form", KINDS)
@pytest.mark.parametrize("library", ["torch", "numpy"])
def test_our_functions_accept_every_type_of_size(form: str, library: str) -> None:
    size = KINDS[form]
    image, grid, theta, values = (
        array.numpy() if library == "numpy" else array for array in (IMAGE, GRID, THETA, VALUES)
    )
    assert gridsample.identity_grid(size).shape == (1, 3, 4, 2)
    assert gridsample.affine_grid(theta, size).shape == (1, 3, 4, 2)
    assert gridsample.affine_sample(image, theta, size).shape == (1, 2, 3, 4)
    assert gridsample.affine_sample_vjp(values, image, theta, size)[1].shape == (1, 2, 3)
    assert gridsample.splat(values, grid, size[2:]).shape == (1, 2, 3, 4)
    assert gridsample.splat_count(grid, size[2:]).shape == (1, 1, 3, 4)
    assert gridsample.interpolate(image, tuple(size[2:])).shape == (1, 2, 3, 4)
    assert gridsample.interpolate(image, size[3]).shape == (1, 2, 4, 4)


@pytest.mark.parametrize("form", [*KINDS][:5])
def test_patched_torch_functions_accept_every_type_of_size(form: str) -> None:
    size = KINDS[form]
    theirs = functional.affine_grid(THETA, size, align_corners=False)
    for strict in (False, True):
        with patch(strict=strict):
            ours = functional.affine_grid(THETA, size, align_corners=False)
            assert functional.interpolate(IMAGE, tuple(size[2:])).shape == (1, 2, 3, 4)
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    "size",
    [(1, 2, 3.0, 4), (1, 2, torch.tensor(3.0), 4), (1, 2, True, 4), (1, 2, "3", 4), None, 4],
    ids=str,
)
def test_invalid_sizes_are_rejected(size: Any) -> None:
    with pytest.raises(TypeError, match="size must be a sequence of integers"):
        gridsample.affine_grid(THETA, size)
    with pytest.raises(TypeError, match="size must be a sequence of integers"):
        gridsample.affine_sample(IMAGE, THETA, size)
    if isinstance(size, tuple):
        with pytest.raises(TypeError, match="size must be an integer"):
            gridsample.interpolate(IMAGE, size[2:])
        with pytest.raises(TypeError, match="size must be a tuple of integers"):
            gridsample.splat(VALUES, GRID, size[2:])


def doubled_sizes(image: Tensor) -> list[Any]:
    return [n * 2 for n in image.shape[2:]]


CALLS: list[Any] = [
    lambda image, theta: gridsample.affine_grid(theta, image.shape),
    lambda image, theta: gridsample.affine_grid(theta, image.shape, True),
    lambda image, theta: gridsample.affine_sample(image, theta, [1, 1, *doubled_sizes(image)]),
    lambda image, theta: gridsample.affine_sample(image, theta, image.shape, coords="pixel"),
    lambda image, theta: gridsample.affine_sample_vjp(image, image, theta, image.shape)[1],
    lambda image, theta: gridsample.interpolate(image, doubled_sizes(image), mode="bilinear"),
    lambda image, theta: gridsample.interpolate(image, scale_factor=1.5, mode="bilinear"),
    lambda image, theta: gridsample.splat(
        theta[:, :, None], theta.mT[:, None], doubled_sizes(image)
    ),
]


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("call", CALLS)
def test_symbolic_sizes_stay_open(call: Any) -> None:
    program = make_fx(call, tracing_mode="symbolic")(IMAGE, THETA)
    for image in (IMAGE, torch.rand(1, 2, 7, 9)):
        torch.testing.assert_close(program(image, THETA), call(image, THETA))
