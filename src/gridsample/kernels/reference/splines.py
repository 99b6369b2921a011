"""The coefficients of a spline by definition: the solution of a dense system of equations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gridsample.kernels.reference import check, point_taps
from gridsample.kernels.reference.axis import Mode

Array = npt.NDArray[Any]


def at_pixels(
    spatial: Sequence[int], modes: Sequence[Mode], boundaries: Sequence[str], align_corners: bool
) -> tuple[Array, Array]:
    """Write sampling at the centres of all pixels as a matrix.

    Args:
        spatial: the spatial shape of the image.
        modes: a method per axis, in the order x, y, z: a name in `MODES`, or such a tuple.
        boundaries: a name in `BOUNDARIES` per axis, in the order x, y, z.
        align_corners: the meaning of "reflection".

    Returns:
        (matrix, outside). The samples are matrix @ c + outside * fill, for coefficients c in the
        order of the image's memory. `outside` sums the weights of the taps on the fill value.

    >>> matrix, outside = at_pixels((2,), ("spline3",), ("constant",), False)
    >>> (6 * matrix).round(12), (6 * outside).round(12)
    (array([[4., 1.],
           [1., 4.]]), array([1., 1.]))
    """
    rank = len(spatial)
    check(np.zeros((1, rank)), spatial, modes, boundaries, None, "pixel")
    pixels = list(itertools.product(*map(range, spatial)))
    matrix, outside = np.zeros((len(pixels), len(pixels))), np.zeros(len(pixels))
    number = {pixel: k for k, pixel in enumerate(pixels)}
    for k, pixel in enumerate(pixels):
        taps = point_taps(
            [float(i) for i in pixel[::-1]],
            spatial,
            modes,
            boundaries,
            align_corners,
            (0,) * rank,
            coords="pixel",
        )
        for tap, weight in taps or ():
            if tap is None:
                outside[k] += weight
            else:
                matrix[k, number[tap]] += weight
    return matrix, outside


def coefficients(
    image: Array,
    modes: Sequence[Mode],
    boundaries: Sequence[str],
    align_corners: bool,
    *,
    fill: Any = 0,
) -> Array:
    """Find the coefficients with which sampling at each pixel's centre gives that pixel.

    Args:
        image: (N, C, *spatial), real or complex.
        modes: a method per axis, as in `at_pixels`.
        boundaries: a boundary per axis, as in `at_pixels`.
        align_corners: the meaning of "reflection".
        fill: the fill value of "constant", a number or one per channel.

    Returns:
        (N, C, *spatial) in float64, or complex128.

    >>> row = np.array([[[6.0, 6.0]]])
    >>> coefficients(row, ("spline3",), ("zeros",), False).round(12)
    array([[[7.2, 7.2]]])
    >>> coefficients(row, ("spline3",), ("constant",), False, fill=6).round(12)
    array([[[6., 6.]]])
    """
    matrix, outside = at_pixels(image.shape[2:], modes, boundaries, align_corners)
    fills = np.broadcast_to(fill, image.shape[1:2])[:, np.newaxis]
    pixels = image.reshape(*image.shape[:2], -1) - fills * outside
    result: Array = np.linalg.solve(matrix, pixels.reshape(-1, len(matrix)).T).T
    return result.reshape(image.shape)
