"""Missing pixels in files: NaN, and the number that a file stores in their place.

While pixels are sampled, missing ones are NaN.  Afterwards, missing results get the file's number.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


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

    @classmethod
    def of(cls, number: Any, missing: str, dtype: np.dtype[Any], copies: bool) -> NoData | None:
        """Return how missing pixels are treated; None if every pixel is sampled as it is.

        Args:
            number: the number that stands for a missing pixel, beside NaN; None or NaN for none.
            missing: "propagate" or "ignore".
            dtype: the dtype of the page.
            copies: whether results are copies of pixels, see `gridsample.warp.copies_pixels`: those
                of missing pixels have their number.
        """
        if number is None or number != number:
            number = None
        else:
            # NumPy's scalars would make pixels wider where these are compared.
            number = float(number) if dtype.kind in "fc" else int(number)
        ignore = missing == "ignore"
        has_missing = number is not None or (ignore and dtype.kind in "fc")
        return (
            None if copies or dtype.kind == "b" or not has_missing else cls(ignore, number, dtype)
        )

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

    def stacked(self, array: NDArray[Any], axis: int = -1) -> NDArray[Any]:
        """Return pixels, with 0 where they are missing, followed by a mask for each channel.

        They are in single precision at least, as sums of them are not rounded before `mean`.
        """
        pixels = self.with_nan(array)
        missing, dtype = np.isnan(pixels), np.result_type(pixels.dtype, np.float32)
        return np.concatenate([np.where(missing, 0, pixels), ~missing], axis, dtype=dtype)

    def mean(self, both: NDArray[Any], axis: int = -1) -> NDArray[Any]:
        """Divide weighted sums of `stacked` pixels by those of the masks."""
        sums, weights = np.split(both, 2, axis)
        known = weights.real > 0
        missing = np.full_like(sums, np.nan)
        return self.with_number(np.divide(sums, weights.real, out=missing, where=known))


def storable(number: float, dtype: np.dtype[Any]) -> bool:
    """Whether a dtype has a number."""
    if dtype.kind in "fc":
        return not isinstance(number, int) or abs(number) <= sys.float_info.max
    is_finite = number == number and abs(number) != math.inf
    if dtype.kind not in "iu" or not is_finite or number != int(number):
        return False
    limits = np.iinfo(dtype)
    return bool(limits.min <= number <= limits.max)


# In the attributes of arrays ----------------------------------------------------------------------

ATTRIBUTE = "_FillValue"


def number_in(attributes: Mapping[str, Any]) -> Any:
    """Return the nodata value that an array's attributes name, or None.

    Xarray writes it as a number or, in Zarr version 3, as the bytes of a float64 in base64.

    >>> number_in({"_FillValue": -9999}), number_in({"_FillValue": "AAAAAICHw8A="}), number_in({})
    (-9999, -9999.0, None)
    """
    value = attributes.get(ATTRIBUTE)
    if isinstance(value, str):
        try:
            (number,) = struct.unpack("<d", base64.b64decode(value, validate=True))
        except (binascii.Error, struct.error):
            return None
        return number
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def number_of_array(array: Any, requested: Any = None) -> Any:
    """Return the number that stands for missing pixels of a Zarr array, or None.

    Args:
        array: the array.
        requested: the number that the caller gives; NaN for none; None for that of the attributes.

    Raises:
        TypeError: the requested number is none.
        ValueError: pixels cannot have it.
    """
    dtype = np.dtype(array.dtype)
    if requested is None:
        number = number_in(array.attrs)
        return number if number is not None and storable(number, dtype) else None
    if not isinstance(requested, (int, float, np.integer, np.floating)):
        raise TypeError(f"nodata must be a number or None, got {requested!r}")
    number = requested.item() if isinstance(requested, np.generic) else requested
    if number != number:
        return None
    if not storable(number, dtype):
        raise ValueError(f"nodata {requested!r} cannot be stored in pixels of dtype {dtype}")
    return number


def attribute_of(number: Any, dtype: np.dtype[Any], zarr_format: int) -> Any:
    """Return the attribute that names a number; see `number_in`."""
    if dtype.kind in "iu":
        return int(number)
    if zarr_format == 2:
        return float(number)
    return base64.b64encode(struct.pack("<d", float(number))).decode()
