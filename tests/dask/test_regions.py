"""The pixels that a block reads, as intervals, against the formula that folds single indices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

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
