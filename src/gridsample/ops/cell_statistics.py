"""Statistics of the pixels that quadrilateral cells cover: `gridsample.geo.cell_statistics`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.backends import Backend, backend_of, overridable
from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.checks import check_threads
from gridsample.definitions.dtypes import GRID_TYPES
from gridsample.definitions.names import MissingName
from gridsample.definitions.statistics import SUMS, statistic_of
from gridsample.ops.arrays import named_arrays
from gridsample.ops.missing import check_entries, check_ignore, check_min_weight, check_weights


@overridable(arrays=2)
def cell_statistics(
    input: ArrayT,
    corners: ArrayT,
    statistic: str | float = "mean",
    *,
    missing: MissingName = "propagate",
    weights: ArrayT | None = None,
    min_weight: float = 0.0,
    fill_value: float | None = None,
    period: float | None = None,
    threads: int | None = None,
) -> ArrayT:
    """Compute a statistic of the pixels in each cell of a grid of quadrilaterals.

    A pixel is a square with sides of 1 around its centre.  With s the share of a pixel that is in
    the cell, which is computed exactly, v its value, and m its entry of ``weights`` (1 if not
    given), or 0 if v is NaN,

        "sum"     sum(s m v); cells that cover the image preserve the total
        "mean"    sum(s m v) / sum(s m)
        "count"   sum(s m), the number of pixels that count
        "share"   sum(s m) / the area of the cell in pixels
        "min", "max"                of v where m > 0 and s >= min(1, area) / 1024
        "q1", "median", "q3", 0.9   the least v of these such that sum(s m) over those up to it is
                                    0.25, 0.5, 0.75, 0.9 of sum(s m) over all

    Extremes and quantiles are thus pixels, and of an even number the median is the lower one of the
    two in the middle, as `numpy.quantile` with ``method="inverted_cdf"`` and weights computes it.
    Nothing is sampled, so that it does not matter how many pixels a cell covers, or how few.

    Args:
        input: the image, (N, C, H, W); an array or a tensor on the CPU of bool, any integer dtype,
            float16 to float64 or bfloat16.  Integers are exact up to 2**53.
        corners: (N, rows + 1, columns + 1, 2) in pixels, x first, where 0 is the centre of the
            first pixel: the corners of rows * columns cells, which share them.  `affine_grid` with
            ``align_corners=True`` and a size with one more row and column has those of an affine
            map; `gridsample.geo.corners` those of a raster in another projection.
        statistic: a name, or a number from 0 to 1 for the quantile.
        missing: "propagate" makes the statistics of cells with a pixel that is NaN NaN (but for
            "count" and "share"), "ignore" leaves these pixels out.
        weights: (N or 1, C or 1, H, W): how much each pixel counts; finite and not negative.
        min_weight: a cell has no value unless its "share" is more than this, from 0 to below 1.
            Counts and shares always have one.
        fill_value: the number of cells without a value; None for NaN, and 0 in integers.
        period: the distance in pixels after which x is at the same place again, such as that of 360
            degrees: of the ways from a cell's first corner to the others, the shortest is taken.
            If it is W, the image goes round.
        threads: the maximum number of threads; None for the default.

    Returns:
        (N, C, rows, columns), in the dtype of the input; means of integers are rounded, half to
        even, and their sums, counts and shares are float64.  There are no gradients: a tensor that
        requires one raises an error.

    Raises:
        TypeError: a dtype or the type of an option is not accepted, a tensor requires gradients, is
            on a GPU or part of a transform, or an array is one of JAX.
        ValueError: a shape, a name or a number is not accepted.

    Example:
        >>> import numpy as np, gridsample
        >>> from gridsample.geo import cell_statistics
        >>> image = np.arange(16.0).reshape(1, 1, 4, 4)
        >>> whole = np.array([[[1.0, 0, 0], [0, 1, 0]]])
        >>> corners = gridsample.affine_grid(whole, (1, 1, 3, 3), align_corners=True) * 2 + 1.5
        >>> cell_statistics(image, corners, "max")[0, 0]
        array([[ 5.,  7.],
               [13., 15.]])
        >>> cell_statistics(image, corners + 0.5, "sum")[0, 0]
        array([[20., 20.],
               [35., 30.]])
    """
    check_threads(threads)
    record = statistic_of(
        statistic,
        ignores_nan=check_ignore(missing),
        min_weight=check_min_weight(min_weight),
        period=check_period(period),
    )
    arrays = named_arrays(weights, input=input, corners=corners)
    backend = backend_of(**arrays)
    image, points, *counts = backend.asarrays(**arrays)
    check_arrays(backend, image, points, counts)
    # Of integers, sums are float64.
    result_type = backend.type_name(image.dtype)
    if record.name in SUMS and result_type not in GRID_TYPES:
        result_type = "float64"
    record = record._replace(fill=fill_of(fill_value, result_type))
    weight = counts[0] if counts else None
    result = backend.cell_statistics(image, points, weight, record, threads)
    return backend.restore(result, input)


def check_arrays(backend: Backend, image: Any, corners: Any, weights: Sequence[Any]) -> None:
    """Raise an error unless arrays have shapes and dtypes that go together."""
    shape, points = backend.shape(image), backend.shape(corners)
    if len(shape) != 4 or 0 in shape[2:]:
        raise ValueError(f"input must be (N, C, H, W) with H, W > 0, got shape {shape}")
    if len(points) != 4 or points[3] != 2 or 0 in points[1:3]:
        raise ValueError(
            f"corners must be (N, rows + 1, columns + 1, 2), x first; got shape {points}"
        )
    items = max(shape[0], points[0])
    if any(n not in (1, items) for n in (shape[0], points[0])):
        raise ValueError(f"corners must be of 1 or {shape[0]} items, as input is; got {points[0]}")
    for name, array in (("input", image), ("corners", corners)):
        if backend.type_name(array.dtype, name).startswith("complex"):
            raise TypeError(f"{name} has dtype {array.dtype}; accepted: real numbers")
    if backend.type_name(corners.dtype) == "bool":
        raise TypeError("corners has dtype bool; accepted: floats and integers")
    for array in weights:
        check_weights(backend, array, shape, items, False)
        check_entries(backend, array)


def check_period(period: Any) -> float | None:
    """Return the argument ``period`` as a float, or None."""
    if period is None:
        return None
    if isinstance(period, bool) or not isinstance(period, (int, float, np.number)):
        raise TypeError(f"period must be a number of pixels or None, got {type(period).__name__}")
    if not (period > 0 and math.isfinite(period)):
        raise ValueError(f"period must be a positive number of pixels, got {period!r}")
    return float(period)


def fill_of(fill_value: Any, dtype: str) -> float:
    """Return the number of cells without a value, for results of a dtype."""
    if fill_value is None:
        return math.nan if dtype in GRID_TYPES else 0.0
    if isinstance(fill_value, bool) or not isinstance(fill_value, (int, float, np.number)):
        raise TypeError(f"fill_value must be a number or None, got {type(fill_value).__name__}")
    if dtype in GRID_TYPES:
        return float(fill_value)
    low, high = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if not (low <= fill_value <= high and fill_value == int(fill_value)):
        raise ValueError(f"fill_value {fill_value!r} is no number that {dtype} can hold")
    return float(fill_value)
