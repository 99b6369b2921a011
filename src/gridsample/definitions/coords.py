"""The units of coordinates, and where an image ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.definitions.knots import Axes, axes_for
from gridsample.definitions.methods import per_axis
from gridsample.definitions.names import EndName
from gridsample.definitions.shapes import Shape
from gridsample.messages.links import about, unknown_name

# The units of coordinates: -1 to 1 across the image; pixels; or pixels from the output's position.
COORDS = ("normalized", "pixel", "displacement")

# Where an image ends that is not extrapolated, by the name that users write: how far beyond its
# outermost pixel centres, in pixels.
MARGINS = {"edges": 0.5, "centers": 0.0}

# The value of `extrapolate` that continues the first and the last interval, in place of a boundary.
CONTINUE = "continue"
ENDS = (*MARGINS, CONTINUE)

# What users write: one for all axes, or one for each axis, x first.
Extrapolate = bool | EndName | Sequence[bool | EndName]


def coordinates(size: int, align_corners: bool, dtype: Any = np.float64) -> Any:
    """Compute the coordinates of an axis's pixel centres, from the first to the last.

    With align_corners, they range from -1 to 1; otherwise from -1 + 1/size to 1 - 1/size.  A single
    pixel is at 0.

    Example:
        >>> from gridsample.definitions.coords import coordinates
        >>> coordinates(3, align_corners=True), coordinates(4, align_corners=False)
        (array([-1.,  0.,  1.]), array([-0.75, -0.25,  0.25,  0.75]))
    """
    index = np.arange(size, dtype=np.float64)
    if align_corners:
        steps = (2 * index - (size - 1)) / max(size - 1, 1)
    else:
        steps = (2 * index + (1 - size)) / max(size, 1)
    return steps.astype(dtype)


def map_factors(
    spatial: Sequence[Any], out: Sequence[Any], coords: str | Axes, align_corners: bool
) -> tuple[list[list[float]], list[float]]:
    """Return what converts affine maps of coordinates to maps of positions in pixels.

    A map's entries times ``scale``, plus ``centre`` in the last column, take an output point with
    index i of n to its position.  For normalized coordinates, they take it as the whole number
    2 i + 1 - n.  So the positions of whole pixels are exact, which coordinates at them are not.

    Args:
        spatial: the image's spatial shape.
        out: the output's, with as many axes.
        coords: "normalized", or another unit, which is pixels.
        align_corners: whether -1 and 1 are the centres of the corner pixels.

    Returns:
        scale: D rows of D + 1 factors, x first.
        centre: D summands.

    Example:
        >>> from gridsample.definitions.coords import map_factors
        >>> map_factors((7,), (7,), "normalized", align_corners=False)
        ([[0.5, 3.5]], [3.0])
    """
    rank = len(spatial)
    if coords != "normalized":
        return [[1.0] * (rank + 1)] * rank, [0.0] * rank
    gaps = [max(n - align_corners, 1) for n in reversed(out)]
    units = [(n - align_corners) / 2 for n in reversed(spatial)]
    scale = [[*[unit / gap for gap in gaps], unit] for unit in units]
    return scale, [(n - 1) / 2 for n in reversed(spatial)]


def find_coords(coords: Any) -> Any:
    """Return the units of coordinates, or raise an error if the name is unknown."""
    if not isinstance(coords, str):
        raise TypeError(
            f"coords must be one of {', '.join(map(repr, COORDS))}, or have an entry for each axis "
            f"of the image, x first; got {coords!r}"
        )
    if coords not in COORDS:
        raise unknown_name("coords", coords, COORDS)
    return coords


def find_units(coords: Any) -> str | Axes:
    """Return the units of coordinates for images of any shape: a name, or a record of axes."""
    if isinstance(coords, (tuple, list)):
        return Axes(*coords)
    return coords if isinstance(coords, Axes) else find_coords(coords)


def check_coords(coords: Any, spatial: Shape, out: Shape) -> str | Axes:
    """Return the units of coordinates, or raise an error if they do not match the shapes.

    Args:
        coords: a name, `Axes`, or a tuple or list of their entries.
        spatial: the image's spatial shape.
        out: the grid's, between its first and its last axis.
    """
    if isinstance(coords, (Axes, tuple, list)):
        return axes_for(coords, spatial)
    rank = len(spatial)
    if find_coords(coords) == "displacement" and len(out) != rank:
        raise ValueError(
            "coords 'displacement' is relative to each output point's position, so the grid must "
            "have as many axes between its first and its last as the image has spatial axes: "
            f"{rank}, got {len(out)}: {out}{about('displacement')}"
        )
    return str(coords)


def require_boundary(ends: Any, target: str) -> None:
    """Raise an error if intervals at ends continue, which a target does not support.

    ends: what a user has written, or one entry for each axis.
    """
    if CONTINUE in (ends if isinstance(ends, (tuple, list)) else (ends,)):
        raise ValueError(
            f"{target} does not accept extrapolate 'continue'; accepted: True with a padding_mode, "
            f"False, {', '.join(map(repr, MARGINS))}"
        )


def find_ends(
    extrapolate: Any, coords: str | Axes, align_corners: bool, rank: int
) -> tuple[bool | str, ...]:
    """Return where an image ends along each axis, x first: a name in ENDS.

    It is True if a boundary extends the image; () stands for that along all axes.  False means the
    outer edges if these are the coordinates -1 and 1 along the axis, otherwise the centres.

    Example:
        >>> from gridsample.definitions.coords import find_ends
        >>> find_ends(False, "normalized", align_corners=False, rank=2)
        ('edges', 'edges')
        >>> find_ends((True, False), "pixel", align_corners=False, rank=2)
        (True, 'centers')
        >>> find_ends((True, True), "pixel", align_corners=False, rank=2)
        ()
    """
    if extrapolate is True:
        return ()  # the usual case, checked first
    units = coords.entries if isinstance(coords, Axes) else (coords,) * rank
    ends = [check_end(end) for end in per_axis(extrapolate, rank, "extrapolate")]
    edges = [isinstance(u, str) and u == "normalized" and not align_corners for u in units]
    if all([end is True for end in ends]):
        return ()
    return tuple(
        [end or ("edges" if own else "centers") for end, own in zip(ends, edges, strict=True)]
    )


def check_end(end: bool | str) -> bool | str:
    """Return where an image ends along one axis, or raise an error if the name is unknown."""
    if not isinstance(end, str):
        return bool(end)
    if end not in ENDS:
        raise unknown_name("extrapolate", end, ENDS, "is neither True, False nor a name")
    return end
