"""Plain calls of ordinary arrays are repeated before their arguments are looked at."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import cases
import numpy as np
import pytest
import torch

import gridsample
from gridsample.ops import resizing, sampling

LIBRARIES: tuple[Callable[[Any], Any], ...] = (np.asarray, torch.as_tensor)
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"mode": "bicubic", "padding_mode": "border", "align_corners": True},
    {"mode": "nearest", "coords": "pixel", "threads": 1, "extrapolate": False},
    {"padding_mode": ("wrap", "zeros"), "prefilter": False, "max_samples": 16, "channel_axis": 1},
)


def arrays(of: Callable[[Any], Any], seed: Any = 0) -> tuple[Any, Any]:
    rng = cases.generator("shortcuts", seed)
    return of(rng.standard_normal((1, 2, 5, 7))), of(rng.uniform(-1.2, 1.2, (1, 4, 6, 2)))


def fails(*_: Any, **__: Any) -> Any:
    raise AssertionError("the shortcut was not taken")


@pytest.mark.parametrize("of", LIBRARIES)
@pytest.mark.parametrize("options", OPTIONS)
def test_repeated_calls_take_a_shortcut(
    of: Callable[[Any], Any], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With arrays by position and by name, and with other numbers than in the first call."""
    image, grid = arrays(of)
    other_image, other_grid = arrays(of, 1)
    expected = gridsample.grid_sample(other_image, other_grid, fill_value=0, **options)
    gridsample.grid_sample(image, grid, **options)
    monkeypatch.setattr(sampling, "backend_of", fails)
    for result in (
        gridsample.grid_sample(other_image, other_grid, **options),
        gridsample.grid_sample(other_image, grid=other_grid, **options),
        gridsample.grid_sample(grid=other_grid, input=other_image, **options),
    ):
        np.testing.assert_array_equal(result, expected)
    with pytest.raises(AssertionError, match="not taken"):
        gridsample.grid_sample(image, grid, fill_value=0, **options)


@pytest.mark.parametrize("of", LIBRARIES)
def test_repeated_resizing_takes_a_shortcut(
    of: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with the size as a list, and with the usual axis of channels."""
    image, other = (arrays(of, k)[0] for k in range(2))
    expected = gridsample.interpolate(
        other, (3, 4), mode="bilinear", weights=of(np.ones((1, 1, 5, 7)))
    )
    gridsample.interpolate(image, (3, 4), mode="bilinear")
    monkeypatch.setattr(resizing, "backend_of", fails)
    for result in (
        gridsample.interpolate(other, (3, 4), mode="bilinear"),
        gridsample.interpolate(other, [3, 4], mode="bilinear", channel_axis=1),
        gridsample.interpolate(size=(3, 4), input=other, mode="bilinear"),
    ):
        np.testing.assert_allclose(result, expected, rtol=1e-14, atol=1e-14)
    with pytest.raises(AssertionError, match="not taken"):
        gridsample.interpolate(image, (3, 4), mode="bilinear", missing="ignore")


@pytest.mark.parametrize("of", LIBRARIES)
@pytest.mark.parametrize(
    ("first", "second", "error"),
    [
        ({"align_corners": True}, {"align_corners": 1}, "align_corners must be True or False"),
        ({"max_samples": 1, "antialias": True}, {"max_samples": True}, "max_samples must be an"),
        ({"threads": 1}, {"threads": 1.0}, "threads must be a positive integer"),
        ({"channel_axis": 1}, {"channel_axis": 1.0}, "channel_axis must be"),
        ({"extrapolate": True}, {"extrapolate": 1}, "extrapolate must be"),
    ],
)
def test_options_that_equal_others_are_still_wrong(
    of: Callable[[Any], Any], first: dict[str, Any], second: dict[str, Any], error: str
) -> None:
    """1 equals True, and 1.0 equals 1, but a call with one is not repeated for the other."""
    image, grid = arrays(of)
    gridsample.grid_sample(image, grid, **first)
    with pytest.raises((TypeError, ValueError), match=error):
        gridsample.grid_sample(image, grid, **second)


@pytest.mark.parametrize("of", LIBRARIES)
@pytest.mark.parametrize("name", ["weights", "coords", "padding_mode", "mode", "channel_axis"])
def test_no_array_is_kept(of: Callable[[Any], Any], name: str) -> None:
    """Neither weights nor an array that is an option by mistake."""
    image, grid = arrays(of)
    array = of(np.ones((1, 1, 5, 7)))
    seen = weakref.ref(array)
    try:
        gridsample.grid_sample(image, grid, **{name: array})
    except (TypeError, ValueError):
        assert name != "weights"
    del array
    gc.collect()
    assert seen() is None
