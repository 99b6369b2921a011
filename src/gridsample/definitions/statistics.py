"""Statistics of the pixels that a cell covers: their names, and what each is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.dtypes import BFLOAT16

# Quantiles that have a name.
QUANTILES = {"q1": 0.25, "median": 0.5, "q3": 0.75}
# Statistics whose values are pixels, besides quantiles.
EXTREMES = ("min", "max")
# Sums over shares of pixels, which are no integers; the last two do not depend on their values.
SUMS = ("sum", "count", "share")
NAMES = (*EXTREMES, *QUANTILES, "mean", *SUMS)

# Extremes and quantiles leave out pixels less than this part of which, or of the cell, is in both:
# outlines that meet have a rounding error, and so have positions.
LEAST = 2.0**-10


class Statistic(NamedTuple):
    """What is computed for each cell.

    Attributes:
        name: one of `NAMES`, or "quantile".
        part: the part of the weights of pixels that are below a quantile.
        ignores_nan: whether pixels that are NaN are left out, rather than make results NaN.
        min_weight: the share of a cell that must be exceeded by pixels that count.
        fill: the number of cells without a value.
        period: of x in pixels, or None.
    """

    name: str
    part: float = 0.0
    ignores_nan: bool = True
    min_weight: float = 0.0
    fill: float = float("nan")
    period: float | None = None

    @property
    def is_quantile(self) -> bool:
        """Whether the values of a cell are ranked."""
        return self.name == "quantile"

    def result_type(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of the results for an image."""
        if self.name in SUMS and dtype.kind in "biu":
            return np.dtype(np.float64)
        return dtype if dtype == BFLOAT16 else dtype.newbyteorder("=")


def statistic_of(name: Any, **options: Any) -> Statistic:
    """Return the statistic of a name or of a number, which stands for a quantile.

    Raises:
        TypeError: it is neither.
        ValueError: there is no such statistic.
    """
    if isinstance(name, str):
        if name not in NAMES:
            raise ValueError(
                f"statistic must be one of {', '.join(NAMES)}, or a number from 0 to 1 for another "
                f"quantile; got {name!r}"
            )
        if name in QUANTILES:
            return Statistic("quantile", QUANTILES[name], **options)
        return Statistic(name, **options)
    if isinstance(name, bool) or not isinstance(name, (int, float, np.number)):
        raise TypeError(
            f"statistic must be a name or a number from 0 to 1, got {type(name).__name__}"
        )
    if not 0 <= name <= 1:
        raise ValueError(f"statistic must be a quantile from 0 to 1, or a name; got {name!r}")
    return Statistic("quantile", float(name), **options)
