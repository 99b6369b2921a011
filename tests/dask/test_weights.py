"""Weights of pixels that are divided in other places than the image is."""

from __future__ import annotations

from typing import Any

import cases
import dask
import dask.array as da
import numpy as np
import pytest

import gridsample
import gridsample.dask

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _in_this_thread() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


def functions(rank: int) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Functions with weights, their arguments after the image, and options."""
    grid = np.full((1, *(2,) * rank, rank), 0.4)
    shift = np.concatenate([np.eye(rank), np.full((rank, 1), 0.4)], 1)[np.newaxis]
    move = np.eye(rank + 1)
    move[:rank, rank] = 0.4
    return [
        ("grid_sample", (grid,), {"coords": "pixel"}),
        ("affine_sample", (shift, (1, 1, *(2,) * rank)), {"coords": "pixel"}),
        ("resample", (np.eye(rank + 1), ((2,) * rank, move)), {}),
    ]


@pytest.mark.parametrize("function", range(3))
@pytest.mark.parametrize("image_chunks", [(1, 1), (2, 3), (1, 3), (2, (1, 2))])
@pytest.mark.parametrize("weight_chunks", [(1, 1), (2, 3), (1, (2, 1))])
def test_weights_are_divided_apart_from_the_image(
    function: int, image_chunks: Any, weight_chunks: Any
) -> None:
    name, arguments, options = functions(1)[function]
    rng = cases.generator(name)
    image = rng.normal(size=(2, 3, 5))
    for shape in ((2, 3, 5), (1, 3, 5), (2, 1, 5)):
        weights = rng.random(shape)
        expected = getattr(gridsample, name)(image, *arguments, weights=weights, **options)
        source = da.from_array(image, chunks=(*image_chunks, 2))
        divided = da.from_array(weights, chunks=-1).rechunk(
            {k: c for k, c in enumerate((*weight_chunks, 3)) if shape[k] > 1}
        )
        for shares in (divided, weights):
            result = getattr(gridsample.dask, name)(source, *arguments, weights=shares, **options)
            np.testing.assert_array_equal(result.compute(), expected)


def test_each_point_of_a_grid_may_have_an_item_of_weights() -> None:
    rng = cases.generator("items")
    image, weights = rng.normal(size=(1, 2, 5, 6)), rng.random((3, 1, 5, 6))
    grid = rng.uniform(-1, 1, (3, 4, 4, 2))
    expected = gridsample.grid_sample(image, grid, weights=weights)
    shares = da.from_array(weights, chunks=((1, 2), 1, 3, 4))
    result = gridsample.dask.grid_sample(da.from_array(image, chunks=2), grid, weights=shares)
    np.testing.assert_array_equal(result.compute(), expected)


def test_weights_of_another_shape_are_refused_at_once() -> None:
    source, grid = da.zeros((2, 3, 5), chunks=2), np.zeros((1, 2, 1))
    for shape in ((2, 2, 5), (2, 3, 4), (3, 3, 5), (3, 5)):
        with pytest.raises(ValueError, match=r"weights must be \(N or 1, 3 or 1, \*\(5,\)\)"):
            gridsample.dask.grid_sample(source, grid, weights=np.ones(shape))
