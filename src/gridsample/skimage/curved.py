"""Maps that are not projective: `warp_polar` and `swirl`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gridsample.backends import backend_of
from gridsample.skimage.images import as_image, as_integers
from gridsample.skimage.warping import warp

SCALINGS = ("linear", "log")


def warp_polar(
    image: Any,
    center: Sequence[float] | None = None,
    *,
    radius: float | None = None,
    output_shape: Sequence[int] | None = None,
    scaling: str = "linear",
    channel_axis: int | None = None,
    order: int | None = None,
    mode: str = "constant",
    cval: float = 0.0,
    clip: bool = True,
    preserve_range: bool = False,
) -> Any:
    """Convert an image to polar coordinates, like `skimage.transform.warp_polar`.

    Row i of the result is the angle ``2 pi i / rows``, clockwise from the direction of columns, and
    column j the distance ``j radius / columns`` from the centre, or with scaling="log"
    ``exp(j log(radius) / columns)``.

    Args:
        image: (rows, columns), or with channel_axis an image with one more axis; an array or a
            tensor, as in `warp`.
        center: (row, column); None for the image's centre.
        radius: the distance at the right edge of the result, in pixels; None for that of the
            corners.
        output_shape: the output's (rows, columns); None for (360, ceil(radius)).
        scaling: "linear" or "log".
        channel_axis: the axis of channels; None for an image without channels.
        order, mode, cval, clip, preserve_range: as in `warp`.

    Returns:
        The image in polar coordinates, as in `warp`; its channels are on the same axis.

    Raises:
        ValueError: the image's rank does not suit channel_axis, the scaling is not known, or an
            option is not accepted by `warp`.

    Example:
        >>> import numpy as np
        >>> from gridsample import skimage
        >>> cross = np.array([[0, 0.2, 0], [0.3, 0.5, 0.1], [0, 0.4, 0]])
        >>> skimage.warp_polar(cross, radius=2, output_shape=(4, 2)).round(9)
        array([[0.5, 0.1],
               [0.5, 0.4],
               [0.5, 0.3],
               [0.5, 0.2]])
    """
    source = as_image(image)
    rank = 2 if channel_axis is None else 3
    if source.ndim != rank:
        raise ValueError(
            f"Input array must be {rank}-dimensional when `channel_axis` is "
            f"{'None' if rank == 2 else 'specified'}, got {source.ndim}"
            + "; for colours on the last axis, pass channel_axis=-1"
            * (source.ndim == 3)
        )
    if scaling not in SCALINGS:
        raise ValueError(f"scaling must be in {{'linear', 'log'}}, got {scaling!r}")
    xp = backend_of(image=image).xp
    if channel_axis is not None:
        source = xp.moveaxis(source, channel_axis, -1)
    half = [n / 2 for n in source.shape[:2]]
    row, column = [n - 0.5 for n in half] if center is None else center
    reach = math.hypot(*half) if radius is None else radius
    shape = (
        (360, math.ceil(reach))
        if output_shape is None
        else as_integers(output_shape, "output_shape")
    )
    rows, columns = shape[:2]

    def to_image(xy: Any) -> Any:
        """Map (column, row) in the polar image to (column, row) in the image."""
        angle, share = xy[:, 1] * (2 * math.pi / rows), xy[:, 0] / columns
        distance = xp.exp(share * math.log(reach)) if scaling == "log" else share * reach
        return xp.stack([distance * xp.cos(angle) + column, distance * xp.sin(angle) + row], -1)

    result = warp(source, to_image, None, shape, order, mode, cval, clip, preserve_range)
    if channel_axis is not None:
        result = xp.moveaxis(result, -1, channel_axis)
    return backend_of(image=image).restore(result, image)


def swirl(
    image: Any,
    center: Sequence[float] | None = None,
    strength: float = 1,
    radius: float = 100,
    rotation: float = 0,
    output_shape: Sequence[int] | None = None,
    order: int | None = None,
    mode: str = "reflect",
    cval: float = 0,
    clip: bool = True,
    preserve_range: bool = False,
) -> Any:
    """Swirl an image about a point, like `skimage.transform.swirl`.

    The output pixel at the distance d from the centre shows the image at the same distance, turned
    by ``rotation + strength exp(-5 d / (radius log 2))``, clockwise.

    Args:
        image: (rows, columns) or (rows, columns, channels), as in `warp`.
        center: (column, row) of the point; None for half of the image's size.
        strength: the angle in radians at the centre.
        radius: the distance in pixels at which the swirl is about 1/1000 of its strength.
        rotation: the angle in radians by which the whole image is turned.
        output_shape: the output's (rows, columns); None for the image's.
        order, mode, cval, clip, preserve_range: as in `warp`.

    Returns:
        The swirled image, as in `warp`.

    Raises:
        ValueError: an argument is not accepted by `warp`.

    Example:
        >>> import numpy as np
        >>> from gridsample import skimage
        >>> stripes = np.array([[0.0, 1, 0], [0, 1, 0], [0, 1, 0]])
        >>> skimage.swirl(stripes, center=(1, 1), strength=0, rotation=np.pi / 2).round(9)
        array([[0., 0., 0.],
               [1., 1., 1.],
               [0., 0., 0.]])
    """
    source = as_image(image)
    x0, y0 = [n / 2 for n in source.shape[1::-1]] if center is None else center
    decay = radius / 5 * math.log(2)

    def turned(xy: Any) -> Any:
        """Map (column, row) in the result to (column, row) in the image."""
        xp = backend_of(xy=xy).xp
        x, y = xy[:, 0] - x0, xy[:, 1] - y0
        distance = xp.sqrt(x * x + y * y)
        angle = rotation + strength * xp.exp(-distance / decay) + xp.arctan2(y, x)
        return xp.stack([x0 + distance * xp.cos(angle), y0 + distance * xp.sin(angle)], -1)

    result = warp(source, turned, None, output_shape, order, mode, cval, clip, preserve_range)
    return backend_of(image=image).restore(result, image)
