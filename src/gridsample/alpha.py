"""Alpha: colours are multiplied by alpha before sampling, and divided by it afterwards.

The colour of a transparent pixel has no meaning, so it must not bleed into its neighbours. A sample
is therefore a mean of colours weighted by their alpha:

    alpha' = sum(w * alpha)        colour' = sum(w * alpha * colour) / alpha'

Opaque red next to transparent black remains red at every intermediate alpha.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsample.definitions.dtypes import WIDE_TYPES
from gridsample.definitions.integers import saturated


class Alpha(NamedTuple):
    """The alpha channel of an image.

    Attributes:
        channel: the index of the alpha channel.
        colours: the number of colour channels, which come first. Further channels are neither.
        premultiplied: whether the colours are stored multiplied by alpha.
    """

    channel: int
    colours: int
    premultiplied: bool = False


def multiply(
    pixels: NDArray[Any], alpha: Alpha, dtype: np.dtype[Any] | None = None
) -> NDArray[Any]:
    """Multiply the colours of channels-last pixels by their alpha, scaled to 0 to 1.

    For integers, the largest value of the dtype means alpha 1.

    Args:
        pixels: `(..., C)` of an integer or floating-point dtype.
        alpha: which channels are colours and alpha.
        dtype: the dtype that determines the scale of alpha; that of `pixels` by default.

    Returns:
        A new float32 array `(..., C)`; float64 for float64 and for 32- and 64-bit integers.

    >>> multiply(np.array([[200, 51]], np.uint8), Alpha(channel=1, colours=1))
    array([[40., 51.]], dtype=float32)
    """
    dtype = pixels.dtype if dtype is None else dtype
    real = np.float64 if dtype.name in WIDE_TYPES else np.float32
    product: NDArray[Any] = pixels.astype(real)
    colours = product[..., : alpha.colours]
    np.multiply(colours, _share(product, alpha, dtype), out=colours)
    return product


def divide(product: NDArray[Any], alpha: Alpha, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Divide the colours by alpha after sampling, and convert to a dtype.

    Integers are rounded half to even and saturate. Where alpha is 0 or less, or rounds to 0,
    colours are 0.

    Args:
        product: `(..., C)`, floating-point. It is overwritten.
        alpha: which channels are colours and alpha.
        dtype: the dtype of the result.

    >>> divide(np.array([[40.0, 51.0], [40.0, 0.0]]), Alpha(1, 1), np.dtype(np.uint8))
    array([[200,  51],
           [  0,   0]], dtype=uint8)
    """
    share, is_integer = _share(product, alpha, dtype), dtype.kind in "iu"
    stored = np.rint(product[..., alpha.channel]) if is_integer else product[..., alpha.channel]
    hidden = (stored <= 0)[..., None]
    colours = product[..., : alpha.colours]
    np.divide(colours, share, out=colours, where=~hidden)
    np.copyto(colours, 0, where=hidden)
    return saturated(np.rint(product), dtype) if is_integer else product.astype(dtype, copy=False)


def _share(pixels: NDArray[Any], alpha: Alpha, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return alpha scaled to 0 to 1, (..., 1), of pixels whose dtype in the file is `dtype`."""
    full = float(np.iinfo(dtype).max) if dtype.kind in "iu" else 1.0
    share: NDArray[Any] = pixels[..., alpha.channel, None] / pixels.dtype.type(full)
    return share
