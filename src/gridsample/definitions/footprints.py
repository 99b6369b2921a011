"""Footprints of output points, for antialiased warps: their numbers, without arrays of points.

The footprint of an output point is the parallelogram (in 3-D, the parallelepiped) that the
differences of the grid along the output's own axes span.  Its samples are spread evenly over it:
n_k along side k, where n_k is the length of the side in pixels, rounded up.  An image that would
need too many of them is halved first, which makes a `Level`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from gridsample.definitions.axis import WRAP
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.definitions.knots import Axes, Knots

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

# A side may be longer than a whole number of pixels by this much before it gets another sample, so
# that the rounding of coordinates adds none: a rotation has one sample.
SLACK = 1 / 64

# The maximum number of samples along a side of a footprint: by default, and at most.
MAX_SAMPLES, MAX_SAMPLES_LIMIT = 16, 64
# The most axes of an image: the number of samples grows with their power.
MAX_RANK = 3

# Whether the gradient of the grid contains that of the footprint's sides.
ATTACH: Final = "attach"
DETACH: Final = "detach"


class Footprint(NamedTuple):
    """How footprints are sampled.

    Attributes:
        max_samples: the maximum number of samples along a side; a longer side is sampled in a
            smaller copy of the image.
        attached: whether the gradient of the grid includes that of the footprint's sides, which
            are differences of grid points.  The numbers of samples count as constants.
        level: how often the image has been halved that all points are sampled in, as windows of
            `gridsample.chunked` are, which are NumPy arrays; a longer side then has this many
            samples.  None if the image is halved as often as points need.
    """

    max_samples: int = MAX_SAMPLES
    attached: bool = True
    level: int | None = None


class Level(NamedTuple):
    """The area-halved copy of an image, and how sample coordinates are written in it.

    A coordinate is gain * x + shift, where x is the coordinate in the original image, plus the
    index of the output point if coordinates are displacements.

    Attributes:
        spatial: the shape of the copy, in the array's order.
        coords: the units of coordinates in the copy.
        gain: the factor of each axis, x first.
        shift: the summand of each axis, x first.
    """

    spatial: Shape
    coords: str
    gain: tuple[float, ...]
    shift: tuple[float, ...]


def as_footprint(antialias: Any, max_samples: Any, footprint: Any = ATTACH) -> Footprint | None:
    """Create the record from the arguments of a public function; None without antialiasing.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: ``max_samples`` is out of range, or ``footprint`` is unknown.
    """
    if antialias is False and max_samples is MAX_SAMPLES and footprint is ATTACH:
        return None  # the usual case, checked first
    if antialias is None or not isinstance(antialias, (bool, np.bool_)):
        raise TypeError(f"antialias must be True or False, got {antialias!r}")
    if isinstance(max_samples, (bool, np.bool_)) or not hasattr(max_samples, "__index__"):
        raise TypeError(f"max_samples must be an integer, got {max_samples!r}")
    if not 1 <= int(max_samples) <= MAX_SAMPLES_LIMIT:
        raise ValueError(f"max_samples must be from 1 to {MAX_SAMPLES_LIMIT}, got {max_samples}")
    if footprint not in (ATTACH, DETACH):
        raise ValueError(f"footprint must be {ATTACH!r} or {DETACH!r}, got {footprint!r}")
    return Footprint(int(max_samples), footprint == ATTACH) if antialias else None


def check_footprint(footprint: Footprint | None, rank: int, grid: Shape) -> Footprint | None:
    """Return the record, or raise an error if the call does not support footprints.

    Raises:
        ValueError: the grid is a list of points, which have no footprint, or the image has more
            than 3 axes.
    """
    if footprint is None:
        return None
    if rank > MAX_RANK:
        raise ValueError(
            f"antialias=True samples footprints in images with 1 to {MAX_RANK} spatial axes, "
            f"got {rank}"
        )
    if len(grid) != rank + 2:
        raise ValueError(
            f"antialias=True needs a grid with the image's {rank} axes between its first and its "
            f"last, because footprints are differences between neighbours; got grid shape {grid}"
        )
    return footprint


def halved(spatial: Sequence[int]) -> Shape:
    """The shape of an area-halved image: half of every axis, rounded up.

    Example:
        >>> from gridsample.definitions.footprints import halved
        >>> halved((1, 6, 7))
        (1, 3, 4)
    """
    return tuple((n + 1) // 2 for n in spatial)


@functools.lru_cache(maxsize=256)
def levels(spatial: Shape, coords: str, align_corners: bool, count: int) -> tuple[Level, ...]:
    """Describe an image and ``count`` halved copies; there are fewer if one pixel is left.

    A copy covers the same area, so pixel p of an axis of n pixels is at (p + 1/2) m / n - 1/2 in
    a copy of m pixels.  Coordinates whose -1 and 1 are the outer edges stay the same.
    """
    rank = len(spatial)
    own_coords = coords if coords == "normalized" else "pixel"
    result = [Level(spatial, own_coords, (1.0,) * rank, (0.0,) * rank)]
    # Position p is gain * x + middle - 1/2.
    gains = pixels_per_unit(spatial, coords, align_corners)
    middles = [n / 2 if coords == "normalized" else 0.5 for n in reversed(spatial)]
    while len(result) <= count and max(result[-1].spatial) > 1:
        smaller = halved(result[-1].spatial)
        if coords == "normalized" and not align_corners:
            result.append(result[0]._replace(spatial=smaller))
            continue
        ratios = [m / n for m, n in zip(reversed(smaller), reversed(spatial), strict=True)]
        gain = tuple(r * g for r, g in zip(ratios, gains, strict=True))
        shift = tuple(r * middle - 0.5 for r, middle in zip(ratios, middles, strict=True))
        result.append(Level(smaller, "pixel", gain, shift))
    return tuple(result)


def deepest(spatial: Sequence[int]) -> int:
    """The number of times that an image can be halved until one pixel is left."""
    return math.ceil(math.log2(max(spatial)))


def pixels_per_unit(
    spatial: Sequence[int], coords: str | Axes, align_corners: bool
) -> tuple[float, ...]:
    """The number of pixels in one unit of the coordinates along each axis, x first."""
    if isinstance(coords, Axes):  # in the mean
        normal = pixels_per_unit(spatial, "normalized", align_corners)
        return tuple(
            entry.scale if isinstance(entry, Knots) else unit if entry == "normalized" else 1.0
            for entry, unit in zip(coords.entries, normal, strict=True)
        )
    if coords != "normalized":
        return (1.0,) * len(spatial)
    return tuple((n - align_corners) / 2 for n in reversed(spatial))


def periods(
    spatial: Sequence[int], coords: str | Axes, align_corners: bool, padding_mode: Sequence[str]
) -> tuple[float | None, ...]:
    """The period of the coordinates along each axis, x first; None if positions are no circle.

    Example:
        >>> from gridsample.definitions.footprints import periods
        >>> periods((5, 8), "normalized", False, ("wrap", "border"))
        (2.0, None)
    """
    units = pixels_per_unit(spatial, coords, align_corners)
    # All coordinates of a single pixel may be its centre.
    return tuple(
        (n / unit if unit else 1.0) if BOUNDARIES[name].code == WRAP else None
        for n, unit, name in zip(reversed(spatial), units, padding_mode, strict=True)
    )


def tie(spatial: Sequence[int], rounding: float) -> float:
    """The difference, per sample, within which the weights of two labels are equal.

    It is the error of a position in pixels, if numbers are rounded by ``rounding`` relative to 1.
    """
    return rounding * max(spatial)


def halved_type(dtype: np.dtype[Any], level: int, sums: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the copy of an image that is halved ``level`` times.

    It is that of sums, except for the largest copy of 8-bit integers.  The mean of four pixels (of
    eight in a volume) is exact in float16, and other means are within 1/16.  In float32, the copy
    would be as large as the image.
    """
    if level == 1 and dtype.kind in "iub" and dtype.itemsize == 1:
        return np.dtype(np.float16)
    return sums


@functools.lru_cache(maxsize=256)
def halving(n: int) -> tuple[Array, Array]:
    """The pixels of each entry of a halved line, and their weights, both (m, 3).

    Entry i covers the interval from i n / m to (i + 1) n / m of the line.

    Example:
        >>> from gridsample.definitions.footprints import halving
        >>> pixels, weights = halving(3)
        >>> pixels
        array([[0, 1, 2],
               [1, 2, 2]])
        >>> weights * 3
        array([[2., 1., 0.],
               [1., 2., 0.]])
    """
    m = (n + 1) // 2
    i, k = np.arange(m)[:, np.newaxis], np.arange(3)
    first = i * n // m
    # In units of 1/m of a pixel, so that all numbers are whole.
    shared = np.minimum((i + 1) * n, (first + k + 1) * m) - np.maximum(i * n, (first + k) * m)
    return np.minimum(first + k, n - 1), np.maximum(shared, 0) / n


@functools.lru_cache(maxsize=256)
def unhalving(n: int) -> tuple[Array, Array]:
    """The entries of a halved line that contain each pixel, and their weights, both (n, 2).

    This is the transpose of `halving`.

    Example:
        >>> from gridsample.definitions.footprints import unhalving
        >>> entries, weights = unhalving(3)
        >>> entries
        array([[0, 1],
               [0, 1],
               [1, 1]])
        >>> weights * 3
        array([[2., 0.],
               [1., 1.],
               [2., 0.]])
    """
    m = (n + 1) // 2
    j, k = np.arange(n)[:, np.newaxis], np.arange(2)
    first = j * m // n
    shared = np.minimum((first + k + 1) * n, (j + 1) * m) - np.maximum((first + k) * n, j * m)
    return np.minimum(first + k, m - 1), np.maximum(shared, 0) / n
