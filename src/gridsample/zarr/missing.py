"""Missing pixels of Zarr arrays: NaN, and the number that an array stores in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample.io.nodata import ATTRIBUTE, NoData, attribute_of, number_in, number_of_array
from gridsample.io.stores import ChunkReader, Region


class WithNaN:
    """An image with NaN where pixels are missing.

    Attributes:
        shape: that of the image.
        chunks: what is read at once.
        dtype: the dtype in which it is sampled.
    """

    def __init__(self, array: Any, nodata: NoData) -> None:
        self.array, self.nodata, self.dtype = array, nodata, nodata.sampling_dtype
        self.shape, self.chunks = array.shape, array.chunks

    def __getitem__(self, region: Region) -> NDArray[Any]:
        """Read a region."""
        return self.nodata.with_nan(np.asarray(self.array[region]))


def nodata_of(array: Any, number: Any, missing: str, copies: bool) -> NoData | None:
    """Return how missing pixels are treated; None if every pixel is sampled as it is.

    Args:
        array: the Zarr array.
        number: the number that stands for a missing pixel, as `number_of_array` takes it.
        missing: "propagate" or "ignore".
        copies: whether results are copies of pixels, see `gridsample.warp.copies_pixels`.

    Raises:
        TypeError, ValueError: the number is not accepted.
    """
    return NoData.of(number_of_array(array, number), missing, np.dtype(array.dtype), copies)


def reader_of(array: Any, nodata: NoData | None) -> ChunkReader:
    """Return a reader of an array, with NaN where pixels are missing."""
    return ChunkReader(array if nodata is None else WithNaN(array, nodata))


def stored(
    compute: Callable[[Region], NDArray[Any]], nodata: NoData | None
) -> Callable[[Region], NDArray[Any]]:
    """Return a function that computes a region and stores the number where results are missing."""
    if nodata is None:
        return compute
    return lambda region: nodata.with_number(compute(region))


def name_number(arrays: Any, number: Any) -> None:
    """State the nodata value in the attributes of an output's arrays."""
    if number is None or number != number:
        return
    for array in arrays:
        if number_in(array.attrs) != number:
            version = array.metadata.zarr_format
            array.attrs[ATTRIBUTE] = attribute_of(number, np.dtype(array.dtype), version)
