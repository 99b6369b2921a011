"""The conversion of fixed-point maps against NumPy."""

from __future__ import annotations

import cases
import numpy as np
import pytest

from gridsample.backends.fixed_point import positions


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (2, 4), (5, 13), (1, 9), (300, 251)])
@pytest.mark.parametrize("step", [1, -1, 2])
def test_positions_are_pixels_and_fractions(shape: tuple[int, int], step: int) -> None:
    rng = cases.generator("fixed point", shape)
    pixels = rng.integers(-(2**15), 2**15, (*shape, 2)).astype(np.int16)
    fractions = rng.integers(0, 2**16, shape).astype(np.uint16)  # only ten bits count
    pixels, fractions = pixels[:, ::step], fractions[:, ::step]
    parts = np.stack([fractions % 32, fractions // 32 % 32], -1)
    result = positions(pixels, fractions)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, pixels + parts / np.float32(32))


def test_empty_positions() -> None:
    empty = positions(np.empty((0, 5, 2), np.int16), np.empty((0, 5), np.uint16))
    assert empty.shape == (0, 5, 2)
