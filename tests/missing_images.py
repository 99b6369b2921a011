"""Images with missing pixels, and a context that samples them without the kernels of means."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import cases
import numpy as np
import pytest
from oracles import Array

IGNORE = {"missing": "ignore"}


def pixels_with_nan(rng: np.random.Generator, shape: tuple[int, ...], share: float = 0.3) -> Array:
    """Pixels of which some are NaN."""
    image = cases.pixels(rng, shape)
    image[rng.random(shape) < share] = np.nan
    return image


@contextlib.contextmanager
def without_kernels() -> Iterator[None]:
    """Let means be quotients of two sampled images, as on backends without such kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gridsample.ops.means.resolve_averaging", lambda *_: None)
        yield


def pixel_grid(rng: np.random.Generator, items: int, out: tuple[int, ...], sizes: Any) -> Array:
    """A grid in pixels, some of whose points are outside."""
    return rng.uniform(-2.5, np.array(sizes)[::-1] + 1.5, (items, *out, len(sizes)))
