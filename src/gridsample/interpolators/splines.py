"""Interpolating splines along an axis: their knots, and the coefficients of values.

The coefficients c of values v at coordinates x solve A c = v, where row i of A has the degree + 1
B-splines that are not 0 at x[i].  Entries of A's inverse decrease exponentially with their distance
from the diagonal.  So a block of coefficients depends on a window of the values alone, and is a
matrix times that window: a few products of matrices for an axis, which every array library has, and
differentiates.

A spline whose first and last polynomials extend over a single interval has (degree - 1) / 2 more
coefficients at such an end.  There, A has a row for each derivative from the first on, whose value
is given ("clamped") or follows from conditions on higher derivatives ("natural", "periodic"): these
are a few equations for the unknown derivatives, which are solved beforehand for any values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.backends import Backend
from gridsample.definitions.knots import SplineKnots, check_order
from gridsample.interpolators.arrays import Array, HostArray
from gridsample.messages.links import unknown_name

# How far a window reaches beyond its block at first, which is enough for cubic splines at equal
# distances; it is doubled until the entries beyond are below the rounding of the largest one.
REACH = 32
# How many windows are solved at once, which bounds memory.
BATCH = 256

# What holds at an end of a spline of degree 2 m - 1, beside its values.  "not-a-knot": the first m
# intervals have one polynomial.  "natural": derivatives of the orders m to 2 m - 2 are 0.
# "clamped": those of the orders 1 to m - 1 are 0.  "periodic": all are those of the other end.
NOT_A_KNOT, NATURAL, CLAMPED, PERIODIC = "not-a-knot", "natural", "clamped", "periodic"
Ends = tuple[str, str]
ENDS = (NOT_A_KNOT, NATURAL, CLAMPED, PERIODIC)


class SplineAxis:
    """Interpolates values at the coordinates of an axis by a spline.

    The knots of an even degree are half way between coordinates, and its ends are "not-a-knot".

    Attributes:
        coordinates: where the values are, which increase; as many as `least_size` or more.
        degree: the degree, from 1 to 5.
        ends: what holds at the first and at the last coordinate; both or none are "periodic".
        knots: the knots, from the first to the last of ``limits``.
        extra: how many derivatives are unknowns at the first and at the last coordinate.
        size: the number of coefficients.
        rows: the rows of A that have values.
        diagonals: those of the transpose of A, from the lowest to the highest: the entry
            [degree + d, i] is in row i and column i + d.
        blocks: the first value of the window of each block of coefficients, and its matrix.
        derivatives: the derivatives at the ends, of all values, in the order of A's rows:
            (extra, n).

    Raises:
        ValueError: the coordinates are not finite, or too close.  The message begins with ``name``.
    """

    def __init__(
        self,
        coordinates: HostArray,
        degree: int,
        name: str,
        limits: tuple[float, float] | None = None,
        ends: Ends = (NOT_A_KNOT, NOT_A_KNOT),
    ) -> None:
        check_order(coordinates, name)
        self.coordinates, self.degree, self.ends = coordinates, degree, ends
        first, last = limits or (coordinates[0], coordinates[-1])
        self.extra = tuple([0 if end == NOT_A_KNOT else (degree - 1) // 2 for end in ends])
        inner = coordinates if degree % 2 else (coordinates[1:] + coordinates[:-1]) / 2
        skipped = [(degree + 1) // 2 - extra for extra in self.extra]
        inner = inner[skipped[0] : len(inner) - skipped[1]]
        self.knots = SplineKnots(np.concatenate([[first], inner, [last]]), degree)
        self.size = self.knots.pixels
        self.rows = self.extra[0] + np.arange(len(coordinates))
        self.rows[0], self.rows[-1] = 0, self.size - 1
        # Now, as a compiler that traces a call could not follow.
        self.diagonals = self.diagonals_of_transpose()
        self.blocks = self.all_blocks()
        self.derivatives = self.derivatives_of_values()

    def coefficients(self, backend: Backend, values: Array) -> Array:
        """Return the coefficients (N, size, ...) of values (N, n, ...), floating-point or complex.

        With periodic ends, the last value does not count.  Results do not depend on N, bitwise.
        """
        count = len(values)
        columns = values.reshape(count, len(self.coordinates), -1)
        if backend.is_host:  # products depend on strides, too
            columns = np.ascontiguousarray(columns)
        if any(self.extra):
            columns = self.with_derivatives(backend, columns)
        blocks = []
        for start, matrix in self.blocks:
            factor = backend.astype(backend.asarray(matrix, columns), columns.dtype)
            blocks.append(backend.xp.matmul(factor, columns[:, start : start + matrix.shape[1]]))
        solved = backend.concatenate(blocks, 1) if len(blocks) > 1 else blocks[0]
        return solved.reshape(count, self.size, *values.shape[2:])

    def with_derivatives(self, backend: Backend, columns: Array) -> Array:
        """Return values (N, n, K) with the derivatives at the ends among them, (N, size, K)."""
        if PERIODIC in self.ends:
            columns = backend.concatenate([columns[:, :-1], columns[:, :1]], 1)
        matrix = backend.astype(backend.asarray(self.derivatives, columns), columns.dtype)
        found, first = backend.xp.matmul(matrix, columns), self.extra[0]
        inner, last = columns[:, 1:-1], columns[:, -1:]
        parts = [columns[:, :1], found[:, :first], inner, found[:, first:], last]
        return backend.concatenate(parts, 1)

    def derivatives_of_values(self) -> HostArray:
        """Return `derivatives`."""
        if not any(self.extra):
            return np.zeros((0, len(self.coordinates)))
        orders, size = np.arange(1, max(self.extra) + 1), self.size
        # Of each unknown, what the right-hand side has of it; of each equation, its coefficients.
        units = np.zeros((2, len(orders), size))
        units[0, orders - 1, orders] = units[1, orders - 1, size - 1 - orders] = 1
        higher = self.higher_derivatives()
        if PERIODIC in self.ends:
            # They are in units of the first or of the last interval.
            ratio = np.divide(*np.diff(self.coordinates)[[-1, 0]])
            free = units[0] + ratio ** orders[:, None] * units[1]
            equations = higher[1] - ratio ** (len(orders) + orders[:, None]) * higher[0]
        else:
            natural = [end == NATURAL for end in self.ends]
            free, equations = (part[natural].reshape(-1, size) for part in (units, higher))
        solution = np.linalg.solve(equations @ free.T, -equations[:, self.rows])
        return np.delete(free.T @ solution, self.rows, 0)

    def higher_derivatives(self) -> HostArray:
        """Return the derivatives of the orders m to 2 m - 2 at both ends, (2, m - 1, size).

        They are those of values and of lower derivatives, in units of an interval and without the
        factorials of their orders.
        """
        degree, size = self.degree, self.size
        width = self.blocks[0][1].shape[1]
        starts = np.array([0, size - width])
        rows = self.rows_of_inverse(starts, width, np.array([0, width - degree - 1]), degree + 1)
        result = np.zeros((2, (degree - 1) // 2, size))
        for end, start in enumerate(starts.tolist()):
            for k, order in enumerate(range((degree + 1) // 2, degree)):
                result[end, k, start : start + width] = self.derivative_at(end, order) @ rows[end]
        return result

    def derivative_at(self, end: int, order: int) -> HostArray:
        """Return a derivative at an end, of the degree + 1 coefficients there.

        It is in units of an interval, and without the factorial of its order.
        """
        powers = range(self.degree + 1)
        factors = [math.comb(power, order) if end else float(power == order) for power in powers]
        result: HostArray = self.knots.weights[-end] @ np.array(factors)
        return result

    def all_blocks(self) -> list[tuple[int, HostArray]]:
        """Return `blocks`."""
        size, reach = self.size, REACH
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
        size, width, degree = self.size, 3 * reach, self.degree
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

    def diagonals_of_transpose(self) -> HostArray:
        """Return `diagonals`."""
        knots, x, degree = self.knots.coordinates, self.coordinates, self.degree
        interval = np.clip(np.searchsorted(knots, x, "right") - 1, 0, len(knots) - 2)
        fraction = (x - knots[interval]) / (knots[interval + 1] - knots[interval])
        powers = fraction[:, None] ** np.arange(degree + 1)
        weights = np.einsum("nkp,np->nk", self.knots.weights[interval], powers)
        diagonals = np.zeros((2 * degree + 1, self.size))
        for k in range(degree + 1):
            row = interval + k
            diagonals[degree + self.rows - row, row] = weights[:, k]
        for end, extra in enumerate(self.extra):
            row = np.arange(degree + 1) + end * (self.size - degree - 1)
            for order in range(1, extra + 1):
                number = self.size - 1 - order if end else order
                diagonals[degree + number - row, row] = self.derivative_at(end, order)
        return diagonals


def ends_along(ends: Any, rank: int) -> list[Ends]:
    """Return a checked pair of ends for each of the axes.

    ends: a name, or for each axis a name or a pair of names.
    """
    entries = [ends] * rank if isinstance(ends, str) else ends
    if not isinstance(entries, (list, tuple)):
        raise TypeError(f"ends must be a name, or a list with an entry for each axis, got {ends!r}")
    if len(entries) != rank:
        raise ValueError(f"ends needs an entry for each axis, {rank}, got {len(entries)}: {ends!r}")
    result = list[Ends]()
    for entry in entries:
        pair = (entry, entry) if isinstance(entry, str) else entry
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise TypeError(f"an entry of ends must be a name or a pair of names, got {entry!r}")
        for name in pair:
            if name not in ENDS:
                raise unknown_name("ends", name, ENDS)
        if PERIODIC in pair and pair[0] != pair[1]:
            raise ValueError(f"both ends of an axis must be {PERIODIC!r}, or none, got {entry!r}")
        result.append((pair[0], pair[1]))
    return result


def least_size(degree: int, ends: Ends) -> int:
    """Return how many coordinates a spline needs at least, which its ends determine."""
    if ends == (NATURAL, NATURAL):  # polynomials of degree m - 1 meet all conditions
        return (degree + 1) // 2
    return 2 + ends.count(NOT_A_KNOT) * (degree - 1) // 2


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


def spline_coefficients(backend: Backend, axes: Sequence[SplineAxis], images: Array) -> Array:
    """Return the coefficients of images (N, *spatial, C) of splines along their axes."""
    rank = len(axes)
    last_first = (0, rank, *range(1, rank), rank + 1)
    for axis in reversed(axes):
        # Each axis has been the last in the end, and the order is that of the images.
        images = axis.coefficients(backend, backend.permute(images, last_first))
    return images
