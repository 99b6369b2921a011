"""The pixels that a block reads, as intervals, against the formula that folds single indices."""

from __future__ import annotations

import itertools

import dask.array as da
import numpy as np
import pytest

import gridsample
import gridsample.dask
from gridsample.chunked.regions import folded
from gridsample.definitions.axis import DROPPED
from gridsample.definitions.boundaries import BOUNDARIES


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("name", BOUNDARIES)
def test_folded_intervals_are_the_pixels_that_taps_read(name: str, aligned: bool) -> None:
    boundary = BOUNDARIES[name]
    for size, first, length in itertools.product((1, 2, 7), range(-20, 21), (1, 2, 5, 9, 20)):
        indices = boundary.fold_index(np.arange(first, first + length), size, aligned)
        expected = sorted({*indices.tolist()} - {DROPPED})
        intervals = folded(first, first + length - 1, size, boundary, aligned)
        pixels = [k for start, stop in intervals for k in range(start, stop)]
        assert pixels == expected, (size, first, length)


@pytest.mark.parametrize("boundary", ["border", "zeros", "constant", "mirror", "wrap"])
@pytest.mark.parametrize("antialias", [False, True])
def test_points_at_infinity_read_the_edge(boundary: str, antialias: bool) -> None:
    """A chunk whose coordinates are all infinite, or infinite and NaN, has finite results, too."""
    image = np.arange(24.0).reshape(1, 1, 4, 6) + 1
    source = da.from_array(image, chunks=(1, 1, 2, 2))
    options = {"padding_mode": boundary, "antialias": antialias, "coords": "pixel"}
    for x, y in itertools.product((np.inf, -np.inf, np.nan, 2.5), repeat=2):
        grid = np.full((1, 4, 4, 2), (x, y))
        grid[0, 2:] = [1.2, 0.7]
        expected = gridsample.grid_sample(image, grid, **options)
        result = gridsample.dask.grid_sample(source, grid, chunks=2, **options)
        np.testing.assert_array_equal(result.compute(scheduler="synchronous"), expected)


@pytest.mark.covering
@pytest.mark.parametrize("boundary", ["border", "zeros", "mirror"])
@pytest.mark.parametrize("entry", range(6))
@pytest.mark.parametrize("coords", ["pixel", "normalized"])
def test_maps_to_infinity_read_the_edge(boundary: str, entry: int, coords: str) -> None:
    image = np.arange(24.0).reshape(1, 1, 4, 6) + 1
    source = da.from_array(image, chunks=(1, 1, 2, 2))
    for numbers in ((np.inf,), (-np.inf,), (np.nan,), (np.inf, -np.inf), (1e30,)):
        theta = np.array([[[0.5, 0.1, 0.3], [0.1, 0.5, 0.2]]])
        theta.reshape(-1)[[(entry + k) % 6 for k in range(len(numbers))]] = numbers
        options = {"padding_mode": boundary, "coords": coords}
        expected = gridsample.affine_sample(image, theta, (1, 1, 4, 5), **options)
        result = gridsample.dask.affine_sample(source, theta, (1, 1, 4, 5), chunks=2, **options)
        np.testing.assert_array_equal(result.compute(scheduler="synchronous"), expected)
