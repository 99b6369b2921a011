"""What a point's result is does not depend on the points beside it."""

from __future__ import annotations

import cases
import numpy as np
import pytest

import gridsample
from gridsample.definitions.plan import BOUNDARIES


@pytest.mark.covering(ordinary=1, slow=2)
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic", "spline5", "lanczos3"])
@pytest.mark.parametrize("boundary", [*BOUNDARIES])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_result_does_not_depend_on_neighbours(
    rank: int, mode: str, boundary: str, dtype: type
) -> None:
    rng = cases.generator(rank, mode, boundary)
    spatial, out = (7, 11, 37)[3 - rank :], (3, 4, 61)[3 - rank :]
    image = rng.standard_normal((1, 1, *spatial)).astype(dtype)
    grid = rng.uniform(-1.3, 1.3, (1, *out, rank)).astype(dtype)
    grid[..., 0] = np.sort(grid[..., 0], -1)  # groups at the edges, and groups inside
    options = {"prefilter": False, **({"fill_value": 1.5} if boundary == "constant" else {})}
    expected = gridsample.grid_sample(image, grid, mode, boundary, **options)
    for first, last in ((0, 5), (5, 24), (24, 61)):
        part = gridsample.grid_sample(image, grid[..., first:last, :], mode, boundary, **options)
        np.testing.assert_array_equal(part, expected[..., first:last])
