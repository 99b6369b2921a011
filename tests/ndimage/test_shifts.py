"""Shifts by numbers that are not finite, and of arrays without pixels."""

import itertools

import numpy as np
import pytest

from gridsample import ndimage
from gridsample.ndimage import axes


@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize("order", [0, 1, 3])
@pytest.mark.parametrize("mode", ndimage.MODES)
@pytest.mark.parametrize("by", [(np.nan, 0.5), (0.5, np.inf), (-np.inf, np.nan), (1e300, -2.5)])
def test_shifts_that_are_not_finite_do_not_depend_on_the_size(by, mode, order, monkeypatch):
    """Large arrays are sampled along one axis after the other."""
    image = np.random.default_rng(0).normal(size=(6, 7)) * 10
    result = ndimage.shift(image, by, order=order, mode=mode)
    monkeypatch.setattr(axes, "pays_at_once", lambda *_: False)
    expected = ndimage.shift(image, by, order=order, mode=mode)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", [(0,), (0, 5), (4, 0, 2)])
def test_empty_arrays_have_no_edge_that_shifts_need(shape):
    for order, mode in itertools.product((0, 1, 3), ("constant", "nearest", "mirror")):
        assert ndimage.shift(np.zeros(shape), 0.5, order=order, mode=mode).shape == shape
