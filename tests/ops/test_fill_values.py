"""Which fill values images of a dtype accept, and what integers make of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gridsample

BEYOND = {"float32": 1e39, "float16": [0, 65505], "complex64": 1e39j, "uint8": -1e39}
BEYOND |= {"float64": 10**400}


@pytest.mark.parametrize(("dtype", "fill"), BEYOND.items())
@pytest.mark.parametrize("library", [np.asarray, torch.tensor])
@pytest.mark.parametrize("options", [{}, {"missing": "ignore"}], ids=str)
def test_fill_values_beyond_the_range_of_the_image_are_rejected(
    library: Any, dtype: str, fill: Any, options: dict[str, Any]
) -> None:
    image = library(np.zeros((1, 2, 3, 4), dtype))
    grid = library(np.zeros((1, 5, 2), np.float32))
    with pytest.raises(ValueError, match="fill_value is beyond the range of an input of dtype"):
        gridsample.grid_sample(image, grid, extrapolate=False, fill_value=fill, **options)


def test_fill_values_of_integers_saturate() -> None:
    image, outside = np.full((1, 1, 3, 4), 7, np.uint8), np.full((1, 1, 2), 9.0)
    for fill, expected in ((300, 255), (-1, 0), (2.5, 2), (np.inf, 255), (np.nan, 0)):
        for mode in ("nearest", "bilinear", "bicubic"):
            result = gridsample.grid_sample(image, outside, mode, "constant", fill_value=fill)
            assert result.tolist() == [[[expected]]]
