"""Conversion of samples to integers, for any backend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.backends.base import Array, Backend, Type


def as_integers(backend: Backend, values: Array, dtype: Type, fill: Sequence[Any]) -> Array:
    """Convert samples (N, C, *out) to bool or integers: round half to even, and saturate.

    NaN becomes the fill value: one number, one per channel, or empty for 0.
    """
    xp, name = backend.xp, backend.type_name(dtype)
    values = xp.round(xp.where(xp.isnan(values), numbers(backend, fill or (0,), values), values))
    if name == "bool":
        return xp.greater(values, 0)
    lowest, highest = int(np.iinfo(name).min), int(np.iinfo(name).max)
    # The largest integer may not be representable as a float, so it is handled separately.
    below = math.nextafter(float(highest), 0)
    with backend.quiet():
        integers = backend.astype(xp.clip(values, lowest, below), dtype)
    top = backend.full(values.shape, highest, dtype, values)
    return xp.where(xp.greater_equal(values, float(highest)), top, integers)


def numbers(backend: Backend, values: Sequence[Any], like: Array) -> Array:
    """Create an array (1, C, 1, ...) of a number or one per channel, in the dtype of ``like``."""
    shape = (1, 1, *(1,) * (len(like.shape) - 2))
    channels = [backend.full(shape, value, like.dtype, like) for value in values]
    return channels[0] if len(channels) == 1 else backend.concatenate(channels, 1)
