"""Rows of pixels whose samples are worked out on paper, and shared parameters of tests."""

import math

import numpy as np
import pytest
from cases import BOUNDARIES, MODES

from gridsample.kernels import reference

ALIGN = pytest.mark.parametrize("align_corners", [False, True], ids=["edges", "centres"])
MODE = pytest.mark.parametrize("mode", MODES)
BOUNDARY = pytest.mark.parametrize("boundary", BOUNDARIES)
REPEATING = ("symmetric", "mirror", "wrap", "antisymmetric", "antimirror", "dst1")
INF, NAN = math.inf, math.nan


def coordinate(p, size, align_corners):
    """The coordinate whose position is p: `position` solved for x."""
    return 2 * p / (size - 1) - 1 if align_corners else (2 * p + 1) / size - 1


def image_1d(*pixels, dtype=float):
    return np.array(pixels, dtype=dtype)[None, None]


def grid_1d(*xs):
    return np.array(xs, dtype=float)[None, :, None]


def line(pixels, xs, mode, boundary, align_corners=False, order=0):
    """Sample a row of pixels at the coordinates xs; return a list of numbers."""
    out = reference.gather(
        image_1d(*pixels), grid_1d(*xs), (mode,), (boundary,), align_corners, (order,)
    )
    return out[0, 0].tolist()
