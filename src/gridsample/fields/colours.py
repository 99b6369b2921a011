"""Optical flow as colours: the hue shows the direction, the saturation the length."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.checks import as_array
from gridsample.fields.arrays import check_positive

# The colour wheel of Baker et al., "A Database and Evaluation Methodology for Optical Flow" (2011):
# the number of equal steps from each of these colours to the next.
_WHEEL = (
    (15, (255, 0, 0)),
    (6, (255, 255, 0)),
    (4, (0, 255, 0)),
    (11, (0, 255, 255)),
    (13, (0, 0, 255)),
    (6, (255, 0, 255)),
)


def flow_colours(flow: ArrayT, largest: float | None = None) -> NDArray[np.uint8]:
    """Show a two-dimensional flow as colours, by the colour wheel of the Middlebury benchmark.

    No motion is white.  Motion to the right is red, down yellow, left cyan, and up blue, and the
    longer it is, the stronger the colour.  Vectors longer than ``largest`` are darker.  Missing
    flow (NaN) is black.

    Args:
        flow: (..., 2) displacements x, y: an array, or a tensor that requires no gradient.
        largest: the length of the strongest colours, in the units of the flow; the longest vector
            if not given.

    Returns:
        (..., 3) red, green and blue from 0 to 255, as a NumPy array.

    Raises:
        TypeError: the flow does not hold real numbers.
        ValueError: the flow has another shape, or largest is not above 0.

    Example:
        >>> import numpy as np
        >>> from gridsample.fields import flow_colours
        >>> flow_colours(np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 0.0], [np.nan, 0.0]]))
        array([[255, 255, 255],
               [255,   0,   0],
               [255, 128, 128],
               [  0,   0,   0]], dtype=uint8)
    """
    vectors = as_array(flow, "flow")
    if vectors.dtype.kind not in "iuf":
        raise TypeError(f"flow must hold real numbers, got dtype {vectors.dtype}")
    if vectors.ndim < 1 or vectors.shape[-1] != 2:
        raise ValueError(f"flow must be (..., 2), with components x, y; got shape {vectors.shape}")
    numbers = vectors.astype(np.float64)
    missing = ~np.isfinite(numbers).all(-1)
    numbers[missing] = 0
    length = np.hypot(numbers[..., 0], numbers[..., 1])
    scale = length.max(initial=0) if largest is None else check_positive(largest, "largest")
    share = (length / (scale or 1))[..., np.newaxis]
    ends = np.cumsum([0, *(count for count, _ in _WHEEL)])
    keys = np.array([colour for _, colour in (*_WHEEL, _WHEEL[0])]) / 255
    angle = np.arctan2(numbers[..., 1], numbers[..., 0]) % (2 * math.pi) / (2 * math.pi) * ends[-1]
    hue = np.stack([np.interp(angle, ends, keys[:, k]) for k in range(3)], -1)
    colours = np.where(share <= 1, 1 - share * (1 - hue), 0.75 * hue)
    colours[missing] = 0
    image: NDArray[np.uint8] = np.rint(colours * 255).astype(np.uint8)
    return image
