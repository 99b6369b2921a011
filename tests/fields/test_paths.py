"""Paths from the voxels of a lattice to those of an image."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import gridsample
from gridsample.fields.paths import Path, path_between, position_type
from gridsample.world import BoundedTransform, Displacement, Lattice

Array = np.ndarray[Any, Any]


def bend(points: Array) -> Array:
    return points + np.sin(points / 5)


def bounds_of_bend(low: Array, high: Array) -> tuple[Array, Array]:
    return low - 1, high + 1


def path_through_everything(dtype: str) -> Path:
    rng = np.random.default_rng(3)
    turn = np.array([[0.9, 0.2, 1], [-0.2, 1.1, 2], [0, 0, 1]])
    field = Displacement(rng.normal(size=(5, 6, 2)), np.diag([6.0, 7, 1]))
    steps = [turn, field, BoundedTransform(bend, bounds_of_bend), turn]
    affine, like = np.diag([0.7, 1.3, 1]), Lattice((33, 41), np.diag([0.9, 1.1, 1]))
    return path_between(affine, like, steps, dtype=dtype)


def test_positions_are_exact_at_whole_pixels() -> None:
    """Also through a world in which these have no exact coordinates."""
    affine = np.array([[0.7, 0, -12.3], [0, 1.1, 7.7], [0, 0, 1]])
    still = Displacement(np.zeros((2, 2, 2)), np.eye(3))
    path = path_between(affine, ((300, 4000), affine), [still, lambda points: points], "ijk")
    expected = np.stack(np.meshgrid(*map(np.arange, (4000, 300))), -1)[np.newaxis]
    assert np.abs(path.positions() - expected).max() < 1e-12
    path = path_between(affine, ((300, 4000), affine), still, "ijk", "float32")
    np.testing.assert_array_equal(path.positions(), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_positions_do_not_depend_on_the_block_and_are_within_bounds(dtype: str) -> None:
    path = pickle.loads(pickle.dumps(path_through_everything(dtype)))
    whole = path.positions()
    assert whole.dtype == dtype
    rng = np.random.default_rng(1)
    for _ in range(20):
        ends = [np.sort(rng.choice(n + 1, 2, replace=False)).tolist() for n in path.out]
        block = tuple(slice(*pair) for pair in ends)
        part = path.positions(block)
        np.testing.assert_array_equal(part, whole[:, *block])
        low, high = path.bounds([a for a, _ in ends[::-1]], [b - 1 for _, b in ends[::-1]])
        assert (part >= low).all() and (part <= high).all()


def test_the_dtype_of_positions_is_that_of_the_image_or_wide_on_long_axes() -> None:
    assert position_type("complex128", (2, 2)) == "float64"
    assert position_type("int64", (2, 2)) == "float32"
    assert position_type("uint8", (2, 1 << 14), (3, 3)) == "float32"
    assert position_type("uint8", (2, 2), (3, 1 + (1 << 14))) == "float64"
    steps, long = np.arange(30_000, dtype="float32"), np.array([[1, 0.1], [0, 1]])
    result = gridsample.resample(steps, np.eye(2), ((29_000,), long))
    np.testing.assert_array_equal(result, (np.arange(29_000) + 0.1).astype("float32"))


def test_batches_have_one_length() -> None:
    with pytest.raises(ValueError, match="must be batches of the same length, or single ones"):
        path_between(np.stack([np.eye(2)] * 2), ((3,), np.stack([np.eye(2)] * 3)), None)


def test_descriptions_of_fields_of_several_shapes_differ() -> None:
    vectors = np.arange(24.0)

    def description(*shape: int) -> list[Any]:
        field = Displacement(vectors.reshape(*shape, 2), np.eye(3))
        return path_between(np.eye(3), ((3, 3), np.eye(3)), field).description()

    assert description(3, 4) == description(3, 4)
    assert description(3, 4) != description(4, 3)


def test_rows_of_a_matrix_may_hold_numbers_of_numpy() -> None:
    rows = [[np.float32(1), np.int64(2)], [np.uint8(0), np.float64(1)]]
    path = path_between(np.eye(2), ((3,), np.eye(2)), rows)
    assert path.positions().ravel().tolist() == [2, 3, 4]


def test_bounds_of_unknown_vectors_and_of_infinity() -> None:
    """Bounds may be infinite; without numbers, there are none."""
    vectors = np.random.default_rng(5).normal(size=(5, 6, 2))
    vectors[2, 3] = np.nan
    field, turn = Displacement(vectors, np.eye(3)), [[0.9, 0, 1], [-0.2, 1.1, 2], [0, 0, 1]]
    path = path_between(np.eye(3), ((4, 5), np.eye(3)), [field, turn])
    points = path.positions()
    low, high = path.bounds([0, 0], [4, 3])
    assert np.isnan(points).any() and np.isfinite([low, high]).all()
    assert (np.nanmin(points, (0, 1, 2)) >= low).all()
    assert (np.nanmax(points, (0, 1, 2)) <= high).all()
    along_y = BoundedTransform(bend, lambda low, high: ([-np.inf, low[1]], [np.inf, high[1]]))
    path = path_between(np.eye(3), ((4, 5), np.eye(3)), [along_y, np.diag([2.0, 3, 1]), field])
    low, high = path.bounds([0, 0], [4, 3])  # x, y
    assert low[1] == -np.inf and high[1] == np.inf
    assert -4 < low[0] < 0 and 12 < high[0] < 16


@pytest.mark.parametrize("returned", [None, (1, 2, 3), ("low", "high"), (np.zeros(3), np.ones(3))])
def test_bounds_are_pairs_of_coordinates(returned: Any) -> None:
    function = BoundedTransform(bend, lambda low, high: returned)
    path = path_between(np.eye(3), ((4, 5), np.eye(3)), function)
    with pytest.raises(TypeError, match="must be a pair of the least and the greatest coordinates"):
        path.bounds([0, 0], [1, 1])
