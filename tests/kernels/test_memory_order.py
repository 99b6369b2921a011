"""Copies of images in another order of memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import cases
import numpy as np
import pytest
import torch

import gridsample
from gridsample.kernels.caches import CACHES
from gridsample.kernels.memory import layout_of
from gridsample.kernels.sampling import copies
from gridsample.kernels.sampling.layouts import gradient_layout

Array = np.ndarray[Any, Any]


def in_order(array: Array, order: tuple[int, ...]) -> Array:
    """Copy an array with its axes in this order of memory, slowest first."""
    return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))


@pytest.mark.parametrize(
    "shape", [(2, 3, 5), (2, 3, 9, 5), (1, 2, 17, 33), (2, 1, 3, 4, 5)], ids=str
)
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "complex64", "complex128"])
def test_copies_have_the_same_pixels_in_rows(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], dtype: str
) -> None:
    monkeypatch.setattr(copies, "pays_contiguous", lambda *_: True)
    image = cases.pixels(cases.generator("orders", shape), shape, dtype)
    plan: Any = None
    for order in itertools.permutations(range(len(shape))):
        if order[-1] == len(shape) - 1:
            continue
        turned = in_order(image, order)
        assert copies.dense_order(layout_of(turned)) is not None
        for threads in (1, 2):
            copy = copies.contiguous(plan, turned, threads)
            np.testing.assert_array_equal(copy, image)
            assert copy.strides[-1] == image.itemsize
    gaps = np.repeat(in_order(image, (*range(len(shape)),)), 2, -1)[..., ::2]
    assert copies.dense_order(layout_of(gaps)) is None
    np.testing.assert_array_equal(copies.contiguous(plan, gaps, 1), image)


@pytest.mark.parametrize(
    ("order", "shape"),
    [
        ((0, 1, 3, 2), (2, 3, 1024, 8)),
        ((0, 3, 1, 2), (3, 4, 256, 9)),
        ((3, 1, 0, 2), (2, 4, 128, 9)),
        ((3, 2, 1, 0), (4, 2, 128, 8)),
    ],
    ids=str,
)
def test_linear_samples_of_columns_that_are_pages_apart(
    order: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    rng = cases.generator("pages", order)
    image = rng.standard_normal(shape).astype(np.float32)
    turned = in_order(image, order)
    assert turned.strides[-1] == CACHES.page
    grid = rng.uniform(-1.2, 1.2, (shape[0], *shape[2:], 2)).astype(np.float32)
    upstream = rng.standard_normal(shape).astype(np.float32)
    np.testing.assert_array_equal(
        gridsample.grid_sample(turned, grid), gridsample.grid_sample(image, grid)
    )
    for result, expected in zip(
        gridsample.grid_sample_vjp(upstream, turned, grid),
        gridsample.grid_sample_vjp(upstream, image, grid),
        strict=True,
    ):
        close = 64 * float(np.finfo(np.float32).eps) * np.abs(expected).max()
        np.testing.assert_allclose(result, expected, rtol=0, atol=close)


class InPrecision(NamedTuple):
    """What `gradient_layout` needs of a plan."""

    real: np.dtype[Any]


def parts_to_broadcast(image: Array) -> Iterator[Array]:
    """Yield the first pixels along some axes, for every set of axes, in every order of memory."""
    for order in itertools.permutations(range(image.ndim)):
        for once in itertools.product((slice(None), slice(1)), repeat=image.ndim):
            yield in_order(image[once], order)


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 3, 4, 5), (2, 1, 4, 5), (2, 3, 1, 2, 4)], ids=str)
def test_the_gradient_of_an_image_in_the_layout_of_a_gradient_has_this_layout(
    shape: tuple[int, ...],
) -> None:
    plan: Any = InPrecision(np.dtype("float64"))
    for part in parts_to_broadcast(np.zeros(shape)):
        like = gradient_layout(plan, layout_of(np.broadcast_to(part, shape)))
        assert layout_of(like.zeros()) == like.layout
        assert gradient_layout(plan, like.layout).layout == like.layout


@pytest.mark.parametrize("missing", ["propagate", "ignore"])
def test_derivatives_of_images_that_are_broadcast_along_some_axes(missing: Any) -> None:
    rng = cases.generator("broadcast", missing)
    planes = rng.normal(size=(1, 2, 3, 4))
    if missing == "ignore":
        planes[planes > 1] = np.nan
    grid, values = rng.uniform(-1, 1, (1, 1, 3, 2)), rng.normal(size=(1, 2, 1, 3))
    tangents = [torch.from_numpy(rng.normal(size=a.shape)) for a in (planes, grid)]
    others = [torch.tensor(array, requires_grad=True) for array in (grid, values)]

    def derivatives(image: torch.Tensor) -> list[torch.Tensor]:
        """Both gradients, and those of their product with the tangents."""
        image = image.detach().requires_grad_()
        sampled = gridsample.grid_sample(image, others[0], missing=missing)
        first = torch.autograd.grad(sampled, (image, others[0]), others[1], create_graph=True)
        return [*first, *torch.autograd.grad(first, (image, *others), tangents)]

    for part in parts_to_broadcast(planes):
        image = torch.from_numpy(part).expand(planes.shape)
        for result, expected in zip(
            derivatives(image), derivatives(image.contiguous()), strict=True
        ):
            torch.testing.assert_close(result, expected, rtol=1e-13, atol=1e-13)
