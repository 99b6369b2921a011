"""Interpolating splines along an axis: their knots, and the coefficients of values.

The coefficients c of values v at coordinates x solve A c = v, where row i of A has the degree + 1
B-splines that are not 0 at x[i].  Entries of A's inverse decrease exponentially with their distance
from the diagonal.  So a block of coefficients depends on a window of the values alone, and is a
matrix times that window: a few products of matrices for an axis, which every array library has, and
differentiates.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gridsample.backends import Backend
from gridsample.definitions.caches import cached_property
from gridsample.definitions.knots import SplineKnots, check_order
from gridsample.interpolators.arrays import Array, HostArray

# How far a window reaches beyond its block at first, which is enough for cubic splines at equal
# distances; it is doubled until the entries beyond are below the rounding of the largest one.
REACH = 32
# How many windows are solved at once, which bounds memory.
BATCH = 256


class SplineAxis:
    """Interpolates values at the coordinates of an axis by a spline.

    The spline has "not a knot" ends: its first and its last polynomials extend over more than one
    interval between coordinates, so that there are as many coefficients as values.  The knots of an
    even degree are half way between coordinates.

    Attributes:
        coordinates: where the values are, which increase; more of them than the degree.
        degree: the degree, from 1 to 5.
        knots: the knots, from the first to the last of ``ends``.

    Raises:
        ValueError: the coordinates are not finite, or too close.  The message begins with ``name``.
    """

    def __init__(
        self,
        coordinates: HostArray,
        degree: int,
        name: str,
        ends: tuple[float, float] | None = None,
    ) -> None:
        check_order(coordinates, name)
        self.coordinates, self.degree = coordinates, degree
        first, last = ends or (coordinates[0], coordinates[-1])
        inner = coordinates if degree % 2 else (coordinates[1:] + coordinates[:-1]) / 2
        skipped = (degree + 1) // 2 if degree % 2 else degree // 2
        inner = inner[skipped : len(inner) - skipped]
        self.knots = SplineKnots(np.concatenate([[first], inner, [last]]), degree)

    def coefficients(self, backend: Backend, values: Array) -> Array:
        """Return the coefficients of values (n, ...) of floating-point or complex numbers."""
        columns = values.reshape(len(self.coordinates), -1)
        blocks = []
        for start, matrix in self.blocks:
            factor = backend.astype(backend.asarray(matrix, columns), columns.dtype)
            blocks.append(backend.xp.matmul(factor, columns[start : start + matrix.shape[1]]))
        solved = backend.concatenate(blocks, 0) if len(blocks) > 1 else blocks[0]
        return solved.reshape(values.shape)

    @cached_property
    def blocks(self) -> list[tuple[int, HostArray]]:
        """The first value of the window of each block of coefficients, and its matrix."""
        size, reach = len(self.coordinates), REACH
        while 6 * reach < size:
            found = self.blocks_of(reach)
            if found is not None:
                return found
            reach *= 2
        everywhere = np.zeros(1, np.int64)
        return [(0, self.rows_of_inverse(everywhere, size, everywhere, size)[0])]

    def blocks_of(self, reach: int) -> list[tuple[int, HostArray]] | None:
        """Return blocks of as many coefficients as their windows reach beyond.

        The result is None if values beyond some window would count.
        """
        size, width, degree = len(self.coordinates), 3 * reach, self.degree
        begins = np.arange(0, size, reach)
        starts = np.clip(begins - reach, 0, size - width)
        blocks = list[tuple[int, HostArray]]()
        for part in range(0, size, BATCH * reach):
            chosen = slice(part // reach, part // reach + BATCH)
            start, begin = starts[chosen], begins[chosen]
            matrices = self.rows_of_inverse(start, width, begin - start, reach)
            sizes = np.abs(matrices).max(1)
            bound = np.finfo(np.float64).eps * sizes.max(1)
            cut_left = (start > 0) & (sizes[:, :degree].max(1) > bound)
            cut_right = (start < size - width) & (sizes[:, -degree:].max(1) > bound)
            if (cut_left | cut_right).any():
                return None
            blocks += zip(start.tolist(), matrices, strict=True)
        blocks[-1] = blocks[-1][0], blocks[-1][1][: size - int(begins[-1])]
        return blocks

    def rows_of_inverse(
        self, starts: HostArray, width: int, rows: HostArray, count: int
    ) -> HostArray:
        """Return rows of the inverses of parts of A, (parts, count, width).

        Args:
            starts: the first row and column of each part.
            width: the number of rows and columns of a part.
            rows: the first wanted row in each part; those beyond the last one are 0.
            count: the number of wanted rows.
        """
        wanted = rows[:, None] + np.arange(count)
        part, column = np.nonzero(wanted < width)
        columns = np.zeros((len(starts), width, count))
        columns[part, wanted[part, column], column] = 1
        inside = starts[:, None] + np.arange(width)
        return solved(self.diagonals[:, inside], columns).transpose(0, 2, 1)

    @cached_property
    def diagonals(self) -> HostArray:
        """The diagonals of the transpose of A, from the lowest to the highest.

        Entry [degree + d, i] is in row i and column i + d.
        """
        knots, x, degree = self.knots.coordinates, self.coordinates, self.degree
        interval = np.clip(np.searchsorted(knots, x, "right") - 1, 0, len(knots) - 2)
        fraction = (x - knots[interval]) / (knots[interval + 1] - knots[interval])
        powers = fraction[:, None] ** np.arange(degree + 1)
        weights = np.einsum("nkp,np->nk", self.knots.weights[interval], powers)
        diagonals, number = np.zeros((2 * degree + 1, len(x))), np.arange(len(x))
        for k in range(degree + 1):
            row = interval + k
            diagonals[degree + number - row, row] = weights[:, k]
        return diagonals


def solved(diagonals: HostArray, columns: HostArray) -> HostArray:
    """Solve banded systems by elimination, without pivoting.

    Collocation matrices of B-splines are totally positive, so that no pivot is small by itself
    (C. de Boor and A. Pinkus, "Backward error analysis for totally positive linear systems", 1977).

    Args:
        diagonals: (2 k + 1, systems, n); entry [k + d, s, i] is in row i and column i + d of system
            s.  Entries outside a matrix do not count.
        columns: the right-hand sides, (systems, n, m), which are replaced by the solutions.
    """
    k, size, diagonals = len(diagonals) // 2, columns.shape[1], diagonals.copy()
    for i in range(size):
        for below in range(1, min(k, size - 1 - i) + 1):
            factor = diagonals[k - below, :, i + below] / diagonals[k, :, i]
            if factor.any():
                diagonals[k - below : 2 * k + 1 - below, :, i + below] -= (
                    factor * diagonals[k:, :, i]
                )
                columns[:, i + below] -= factor[:, None] * columns[:, i]
    for i in reversed(range(size)):
        for above in range(1, min(k, size - 1 - i) + 1):
            factor = diagonals[k + above, :, i, None]
            if factor.any():
                columns[:, i] -= factor * columns[:, i + above]
        columns[:, i] /= diagonals[k, :, i, None]
    return columns


def spline_coefficients(backend: Backend, axes: Sequence[SplineAxis], table: Array) -> Array:
    """Return the coefficients of a table (*spatial, C) of splines along its axes."""
    rank = len(axes)
    last_first = (rank - 1, *range(rank - 1), rank)
    for axis in reversed(axes):
        # Each axis has been the last in the end, and the order is that of the table.
        table = axis.coefficients(backend, backend.permute(table, last_first))
    return table
