"""Positions in fixed point, of arrays in host memory, by the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridsample.kernels import of_fixed_point

Array = np.ndarray[Any, Any]


def positions(pixels: Array, fractions: Array) -> Array:
    """Convert whole pixels, int16 (h, w, 2), and ten bits of fractions, (h, w), to float32."""
    result: Array = of_fixed_point().positions(pixels, fractions)
    return result
