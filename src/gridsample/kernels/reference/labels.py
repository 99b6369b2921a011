"""Sampling of labels in plain loops: the vote that defines ``mode="label"``.

The taps of a point vote for their pixels' values with their linear weights. The value with the
largest sum of weights wins, and the smallest such value if there are several.

>>> import numpy as np
>>> row, grid = np.array([[[7, 7, 3]]], np.uint8), np.array([[[0.5], [1.4], [1.5], [2.6]]])
>>> vote(row, grid, ("label",), ("zeros",), False, coords="pixel")
array([[[7, 7, 3, 0]]], dtype=uint8)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gridsample.kernels.reference import broadcast_items, check, outside, saturate, walk
from gridsample.kernels.reference.axis import Ends, ends_of, locate

Array = npt.NDArray[Any]


def vote(
    image: Array,
    grid: Array,
    modes: Sequence[str],
    boundaries: Sequence[str],
    align_corners: bool,
    *,
    coords: str = "normalized",
    extrapolate: Ends = True,
    fill: Any = 0,
) -> Array:
    """Sample the labels of an image.

    Args:
        image: (N, C, *spatial), of an integer dtype or bool.
        grid: (N, *out, D), the coordinates.
        modes: "label" or "nearest" per axis, in the order x, y, z.
        boundaries: a boundary per axis that does not turn signs, in the order x, y, z.
        align_corners: what -1 and 1 mean.
        coords: what coordinates count: "normalized", "pixel" or "displacement".
        extrapolate: True, or where the image ends, beyond which the fill value is.
        fill: the fill value, a number or one per channel. Taps that "constant" drops vote for it,
            those that "zeros" drops for 0. It is the value of points with a coordinate that is NaN.

    Returns:
        (N, C, *out), of the image's dtype.
    """
    spatial, sizes = image.shape[2:], image.shape[:1:-1]
    ends = ends_of(extrapolate, len(sizes))
    weights = ["linear" if mode == "label" else mode for mode in modes]
    # Under "constant", taps on no pixel are listed; under "zeros" they have the same weights.
    listing = ["constant" if name == "zeros" else name for name in boundaries]
    order = check(grid, spatial, weights, listing, None, coords)
    fills = [saturate(number, image.dtype) for number in np.broadcast_to(fill, image.shape[1:2])]

    image, grid = broadcast_items(image, grid)
    out = np.empty((*image.shape[:2], *grid.shape[1:-1]), image.dtype)
    for n, point, taps in walk(grid, spatial, weights, listing, align_corners, order, coords, True):
        indices = point[::-1] if coords == "displacement" else (0,) * len(sizes)
        positions = [
            locate(x, place, size, align_corners, coords)[0]
            for x, place, size in zip(grid[n, *point].tolist(), indices, sizes, strict=True)
        ]
        beyond = any(
            outside(p, size, align_corners, coords, end)
            for p, size, end in zip(positions, sizes, ends, strict=True)
        )
        for c, known in enumerate(fills):
            if taps is None or beyond:
                out[n, c, *point] = known
                continue
            dropped = 0 if "zeros" in boundaries else known
            sums: dict[int, float] = {}
            for index, weight in taps:
                value = dropped if index is None else image[n, c, *index].item()
                sums[value] = sums.get(value, 0.0) + weight
            highest = max(sums.values())
            out[n, c, *point] = min(value for value, total in sums.items() if total == highest)
    return out
