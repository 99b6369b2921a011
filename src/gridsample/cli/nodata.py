"""Missing pixels in files: NaN, and the number that a file stores in their place.

While pixels are sampled, missing ones are NaN.  Afterwards, missing results get the file's number.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsample import io
from gridsample.alpha import Alpha


class NoData(NamedTuple):
    """Which pixels of a page are missing, and how they are treated.

    Attributes:
        ignore: whether other pixels make up for missing ones; otherwise results are missing, too.
        number: the number that stands for a missing pixel; None if only NaN is missing.
        dtype: the dtype of the page.
    """

    ignore: bool
    number: Any
    dtype: np.dtype[Any]

    def with_nan(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return pixels in floating point, with NaN where they are missing."""
        result = array.astype(self.sampling_dtype, copy=self.number is not None)
        if self.number is not None:
            result[array == self.number] = np.nan
        return result

    def with_number(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return results in the dtype of the page, with its number where they are NaN."""
        missing = np.isnan(array)
        if self.number is not None:
            array = np.where(missing, self.number, array)
        if self.dtype.kind not in "iu":
            return array.astype(self.dtype, copy=False)
        limits = np.iinfo(self.dtype)
        # The largest integers may not be representable as floats.
        high = np.nextafter(float(limits.max) + 1, 0) if limits.bits > 32 else limits.max
        result: NDArray[Any] = np.rint(array).clip(limits.min, high).astype(self.dtype)
        result[missing] = self.number
        return result

    @property
    def sampling_dtype(self) -> np.dtype[Any]:
        """The dtype in which pixels are sampled."""
        if self.dtype.kind in "fc":
            return self.dtype.newbyteorder("=")
        return np.dtype(np.float64 if self.dtype.itemsize > 2 else np.float32)

    def stacked(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return pixels, with 0 where they are missing, followed by a mask for each channel."""
        pixels = self.with_nan(array)
        missing = np.isnan(pixels)
        return np.concatenate([np.where(missing, 0, pixels), ~missing], -1, dtype=pixels.dtype)

    def mean(self, both: NDArray[Any]) -> NDArray[Any]:
        """Divide weighted sums of `stacked` pixels by those of the masks."""
        sums, weights = np.split(both, 2, -1)
        known = weights.real > 0
        missing = np.full_like(sums, np.nan)
        return self.with_number(np.divide(sums, weights.real, out=missing, where=known))


def nodata_of(
    image: io.Image, arguments: argparse.Namespace, alpha: Alpha | None, copies: bool
) -> NoData | None:
    """Return how missing pixels of a page are treated; None if every pixel is sampled as it is.

    Args:
        image: the page.
        arguments: the arguments ``missing`` and ``nodata``.
        alpha: the channel that colours are multiplied by before sampling, or None.
        copies: whether sampling only copies pixels, missing ones included.
    """
    number, requested = image.extras.get("nodata"), arguments.nodata
    dtype = image.array.dtype
    if requested is not None:
        number = requested
        if not storable(requested, dtype):
            raise ValueError(f"--nodata {requested:g} cannot be stored in pixels of dtype {dtype}")
    elif number is not None and not storable(number, dtype):
        number = None  # no pixel has it
    ignore = arguments.missing == "ignore" or (arguments.missing is None and number is not None)
    if dtype.kind == "b" or copies or not (ignore or number is not None):
        return None
    if number is None and dtype.kind not in "fc":
        return None  # nothing is missing
    if alpha is not None:
        raise ValueError(
            "missing pixels and alpha cannot be combined; give --straight-alpha to sample colours "
            "independently of alpha"
        )
    return NoData(ignore, number, dtype)


def with_nodata(image: io.Image, arguments: argparse.Namespace) -> io.Image:
    """Return the output page with the number of missing pixels that its file is to name."""
    if arguments.nodata is None:
        return image
    return replace(image, extras={**image.extras, "nodata": arguments.nodata})


def storable(number: float, dtype: np.dtype[Any]) -> bool:
    """Whether a dtype has a number."""
    if dtype.kind in "fc":
        return True
    if dtype.kind not in "iu" or number != number or number != int(number):
        return False
    limits = np.iinfo(dtype)
    return bool(limits.min <= number <= limits.max)
