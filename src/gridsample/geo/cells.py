"""Statistics of the pixels in each output cell of a plan, in memory or lazy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.shapes import bands_along
from gridsample.definitions.statistics import statistic_of
from gridsample.geo.plans import Positions, corners
from gridsample.geo.rasters import Raster
from gridsample.ops.cell_statistics import cell_statistics

BAND = 2**18  # corners that are in memory at once


class Summary(NamedTuple):
    """How the pixels of a cell are summarised.

    Attributes:
        statistic: a name or a quantile, as `cell_statistics` takes it.
        nodata: the value of missing pixels, or None: NaN, and 0 for outputs of integers.
        min_weight: as in `cell_statistics`.
        threads: as in `cell_statistics`; None for the default.
    """

    statistic: str | float
    nodata: Any = None
    min_weight: float = 0.0
    threads: int | None = None

    def plan(self, source: Raster, target: Raster, tolerance: float = 0.05) -> Positions:
        """Return where the corners of the target's pixels are."""
        return corners(source, target, tolerance)

    def shape(self, plan: Positions) -> tuple[int, int]:
        """Return the rows and columns of results: those of cells, not of their corners."""
        rows, columns = plan.shape
        return rows - 1, columns - 1

    def dtype(self, image: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of results."""
        return statistic_of(self.statistic).result_type(image)

    def weights(self, values: Any) -> Any:
        """Return which pixels count; None for all but NaN."""
        is_number = self.nodata is not None and self.nodata == self.nodata
        return values != self.nodata if is_number else None

    def options(self, image: np.dtype[Any]) -> dict[str, Any]:
        """Return the options of `cell_statistics` for an image."""
        fill = self.nodata if self.dtype(image) == image else None
        return {
            "statistic": self.statistic,
            "missing": "ignore",
            "min_weight": self.min_weight,
            "fill_value": fill,
            "threads": self.threads,
        }

    def bands(self, values: Any, plan: Positions) -> Iterator[Any]:
        """Summarise an image in memory, (1, C, rows, columns); yield results in bands of rows."""
        options, weights = self.options(values.dtype), self.weights(values)
        period = plan.source.period()
        for cells in bands_along(self.shape(plan), BAND):
            points = plan(slice(cells.start, cells.stop + 1), threads=self.threads)
            yield cell_statistics(values, points, weights=weights, period=period, **options)

    def lazily(self, values: Any, plan: Positions, chunks: Any) -> Any:
        """Summarise a Dask array; each chunk of the result reads the chunks that it needs."""
        from gridsample.dask.cells import statistics_at

        options = {**self.options(values.dtype), "period": plan.source.period()}
        options["threads"] = 1 if self.threads is None else self.threads
        weights = self.weights(values)
        return statistics_at(values, plan, weights, chunks, self.dtype(values.dtype), options)
