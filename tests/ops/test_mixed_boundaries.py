"""Any boundaries side by side: results and gradients."""

from __future__ import annotations

import numpy as np
import pytest
from missing_images import IGNORE

import gridsample


@pytest.mark.parametrize("boundary", [("zeros", "missing"), ("missing", "constant")])
def test_items_share_one_grid(boundary: tuple[str, str]) -> None:
    image = np.random.default_rng(0).normal(size=(2, 1, 4, 4))
    points, upstream = np.array([[[3.4, 1.3], [1.2, -0.4]]]), np.ones((2, 1, 2))
    options = {"padding_mode": boundary, "coords": "pixel", "fill_value": 2, **IGNORE}
    _, gradient = gridsample.grid_sample_vjp(upstream, image, points, **options)
    each = [
        gridsample.grid_sample_vjp(upstream[:1], item[np.newaxis], points, **options)[1]
        for item in image
    ]
    np.testing.assert_allclose(gradient, sum(each), rtol=1e-12, atol=1e-14)
    if boundary == ("zeros", "missing"):
        np.testing.assert_allclose(gradient[0, 0, 0], -0.6448939, rtol=1e-6)
