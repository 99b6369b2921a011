"""Chunks at the points of lattices are those of the whole."""

from __future__ import annotations

import pickle
from typing import Any

import dask.array as da
import numpy as np
import pytest

import gridsample
import gridsample.dask


@pytest.mark.parametrize("name", ["linear", "catmull-rom", "spline3"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_chunks_are_those_of_the_whole(name: Any, dtype: Any) -> None:
    rng, size = np.random.default_rng(1), (1, 2, 31, 40)
    image = rng.normal(size=(1, 2, 30, 33)).astype(dtype)
    lattice = (rng.normal(size=(1, 5, 4, 2)) * 8).astype(dtype)  # beyond the ends, too
    geometry: Any = {"spacing": (8, 4), "origin": (-2.5, 3)}
    points = gridsample.dask.lattice_points(lattice, size, name, **geometry)
    lazy = da.from_array(image, chunks=(1, 1, 11, 9))
    options: Any = {"mode": "cubic", "padding_mode": "border", "coords": "displacement"}
    result = gridsample.dask.grid_sample(lazy, points, size=size[2:], chunks=(7, 16), **options)
    grid = gridsample.lattice_grid(lattice, size, name, **geometry)
    expected = gridsample.grid_sample(image, grid, **options)
    np.testing.assert_array_equal(result.compute(), expected)

    moved = pickle.loads(pickle.dumps(points))
    for first, last in (((0, 0), (39, 30)), ((5, 7), (6, 20)), ((39, 30), (39, 30))):
        low, high = moved.bounds(first, last)
        block = grid[0, first[1] : last[1] + 1, first[0] : last[0] + 1]
        assert (low <= block.min((0, 1))).all()
        assert (high >= block.max((0, 1))).all()


def test_unknown_control_points_have_no_bounds() -> None:
    lattice = np.array([[[0.0], [np.nan], [2.0], [np.nan], [np.nan]]])
    points = gridsample.dask.lattice_points(lattice, (1, 1, 9), "linear")
    low, high = points.bounds([0], [4])
    assert -1e-6 < low[0] <= 0
    assert 2 <= high[0] < 2 + 1e-6
    assert np.isnan(points.bounds([7], [8])).all()


def test_wrong_lattices() -> None:
    with pytest.raises(ValueError, match="lattice must be a single one, N = 1, got N = 2"):
        gridsample.dask.lattice_points(np.zeros((2, 3, 1)), (2, 1, 5))
    with pytest.raises(TypeError, match="lattice has dtype int64"):
        gridsample.dask.lattice_points(np.zeros((1, 3, 1), int), (1, 1, 5))
