"""Numbers as integers that saturate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def saturated(values: Any, dtype: np.dtype[Any]) -> Array:
    """Convert whole numbers stored as floats to an integer dtype; what is out of range saturates.

    NaN becomes 0.

    Example:
        >>> import numpy as np
        >>> from gridsample.definitions.integers import saturated
        >>> saturated(np.array([-1.0, 2.0**63, np.nan]), np.dtype(np.int64))
        array([                 -1, 9223372036854775807,                   0])
    """
    limits = np.iinfo(dtype)
    low, high = float_limits(limits)
    integers: Array = np.where(np.isnan(values), 0, np.clip(values, low, high)).astype(dtype)
    # The largest integer may not be representable as a float.
    return np.where(values > high, np.array(limits.max, dtype), integers)


def float_limits(limits: Any) -> tuple[float, float]:
    """The smallest and largest float64 within the limits of an integer dtype.

    Example:
        >>> import numpy as np
        >>> from gridsample.definitions.integers import float_limits
        >>> float_limits(np.iinfo(np.uint8))
        (0.0, 255.0)
    """
    top = float(limits.max)
    return float(limits.min), top if top <= limits.max else math.nextafter(top, 0)
