"""CuPy arrays, by a stand-in: a class of a module called cupy that exposes its memory."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

import gridsample

CUPY = types.ModuleType("cupy")


class ndarray:
    """An array that has no operations, and only exposes the address of its memory."""

    def __init__(self, memory: Any) -> None:
        self.memory = memory

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.memory.shape)

    def __dlpack__(self, **options: Any) -> Any:
        return self.memory.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.memory.__dlpack_device__()


ndarray.__module__ = "cupy"


@pytest.fixture(autouse=True)
def cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    CUPY.from_dlpack = lambda tensor: ndarray(np.from_dlpack(tensor))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", CUPY)


def inputs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((1, 2, 4, 5)), rng.uniform(-1, 1, (1, 3, 6, 2))


@pytest.mark.parametrize("axis", [1, -1])
def test_cupy_arrays_return_cupy_arrays(axis: int) -> None:
    image, grid = inputs()
    image = image if axis == 1 else np.ascontiguousarray(np.moveaxis(image, 1, -1))
    expected = gridsample.grid_sample(image, grid, "bicubic", channel_axis=axis)
    out = gridsample.grid_sample(ndarray(image), ndarray(grid), "bicubic", channel_axis=axis)
    assert type(out) is ndarray
    np.testing.assert_array_equal(out.memory, expected)
    arguments = np.ones_like(expected), image, grid
    results = gridsample.grid_sample_vjp(*map(ndarray, arguments), "bicubic", channel_axis=axis)
    for mine, other in zip(
        results, gridsample.grid_sample_vjp(*arguments, "bicubic", channel_axis=axis), strict=True
    ):
        np.testing.assert_array_equal(mine.memory, other)
    some = gridsample.grid_sample_vjp(
        *map(ndarray, arguments), "bicubic", channel_axis=axis, need_grid=False
    )
    assert some[1] is None


def test_affine_grids_are_created_on_the_device_of_theta() -> None:
    theta = np.eye(2, 3)[np.newaxis] * 0.5
    grid = gridsample.affine_grid(ndarray(theta), (1, 1, 3, 4))
    assert type(grid) is ndarray
    np.testing.assert_allclose(grid.memory, gridsample.affine_grid(theta, (1, 1, 3, 4)), atol=1e-15)


@pytest.mark.slow
def test_resizing_maps_and_drop_ins_accept_cupy_arrays() -> None:
    from gridsample import ndimage

    image, _ = inputs()
    theta, size = np.eye(2, 3)[np.newaxis] * 0.5, (1, 1, 3, 6)
    upstream = np.ones((1, 2, 3, 6))
    for function, *arrays in (
        (lambda i: gridsample.interpolate(i, (7, 3), mode="cubic"), image),
        (lambda u, i: gridsample.interpolate_vjp(u, i, (3, 6), mode="linear"), upstream, image),
        (lambda i, t: gridsample.affine_sample(i, t, size), image, theta),
        (lambda u, i, t: gridsample.affine_sample_vjp(u, i, t, size)[1], upstream, image, theta),
        (lambda i: ndimage.zoom(i, 1.5, order=1), image[0, 0]),
        (ndimage.map_coordinates, image[0, 0], np.ones((2, 3))),
        (lambda i: ndimage.rotate(i, 30), image[0, 0]),
        (ndimage.spline_filter, image[0, 0]),
    ):
        result = function(*map(ndarray, arrays))
        assert type(result) is ndarray
        np.testing.assert_allclose(result.memory, function(*arrays), rtol=1e-12, atol=1e-12)


def test_mixed_array_libraries_are_rejected() -> None:
    image, grid = inputs()
    with pytest.raises(TypeError, match=r"grid is a numpy\.ndarray.*CuPy arrays for all"):
        gridsample.grid_sample(ndarray(image), grid)


@pytest.mark.slow
def test_related_operations_accept_cupy_arrays() -> None:
    image, grid = inputs()
    values = np.ones((1, 2, 3, 6))
    for function, *arrays in (
        (lambda v, g: gridsample.splat(v, g, (4, 5), "spline2"), values, grid),
        (lambda g: gridsample.splat_count(g, (4, 5)), grid),
        (gridsample.grid_gradient, image, grid),
        (gridsample.grid_hessian, image, grid),
        (gridsample.spline_filter, image),
        (lambda i, g: gridsample.grid_sample(i, g, return_mask=True)[1], image, grid),
    ):
        result = function(*map(ndarray, arrays))
        assert type(result) is ndarray
        np.testing.assert_allclose(result.memory, function(*arrays), rtol=1e-12, atol=1e-12)
