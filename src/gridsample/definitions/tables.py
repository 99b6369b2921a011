"""Resizing along one axis, as data: which inputs each output is made of, and how they are weighed.

Along an axis, resizing is a matrix that depends on the sizes and the method alone.  All but a band
of it is zero, so it is kept as a `Band`: the first input of each output, how many there are, and
their weights.  The matrix of a spline is full: it is the product of a band and the prefilter.  The
prefilter of the cubic spline is the inverse of a matrix with three diagonals, a `Solve`; that of
others is a `Prefilter`.  The transpose of each is again one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.axis import split
from gridsample.definitions.methods import Method
from gridsample.definitions.plan import method_of
from gridsample.definitions.weights import bspline_table

Array = np.ndarray[Any, Any]


# A matrix along one axis --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Band:
    """A matrix (outputs, inputs) that is zero outside a band.

    Attributes:
        inputs: the number of its columns.
        first: the first column of each row that is not dropped; never falling from row to row.
        count: how many columns follow each other from there, perhaps none.
        weights: (outputs, the greatest count), zero past each row's count.
    """

    inputs: int
    first: Array
    count: Array
    weights: Array

    @property
    def outputs(self) -> int:
        """The number of rows."""
        return len(self.first)

    @functools.cached_property
    def taps(self) -> int:
        """The greatest count."""
        return int(self.count.max(initial=0))

    @functools.cached_property
    def copies(self) -> bool:
        """Whether every output is one input as it is."""
        return bool(self.taps == 1 and self.count.all() and (self.weights == 1).all())

    @functools.cached_property
    def gain(self) -> float:
        """The largest sum of a row's absolute weights: how far an output can exceed the inputs."""
        return float(np.abs(self.weights).sum(axis=1).max(initial=0))

    @functools.cached_property
    def is_of_pairs(self) -> bool:
        """Whether every output is made of two inputs."""
        return bool((self.count == 2).all())

    @functools.cached_property
    def is_identity(self) -> bool:
        """Whether every output is the input of its number."""
        if self.inputs != self.outputs or not self.count.all():
            return False
        own = np.arange(self.outputs)[:, np.newaxis] - self.first[:, np.newaxis]
        return np.array_equal(self.weights, own == np.arange(self.weights.shape[1]))

    def _places(self) -> tuple[Array, Array]:
        """Row and tap of every entry in the band."""
        rows, taps = np.nonzero(np.arange(self.weights.shape[1]) < self.count[:, np.newaxis])
        return rows, taps

    def dense(self) -> Array:
        """The matrix itself, (outputs, inputs)."""
        matrix = np.zeros((self.outputs, self.inputs))
        rows, taps = self._places()
        matrix[rows, self.first[rows] + taps] = self.weights[rows, taps]
        return matrix

    def transpose(self) -> Band:
        """The matrix with rows and columns exchanged."""
        columns = np.arange(self.inputs)
        first = np.searchsorted(self.first + self.count, columns, side="right")
        count = np.maximum(np.searchsorted(self.first, columns, side="right") - first, 0)
        weights = np.zeros((self.inputs, int(count.max(initial=0))))
        rows, taps = self._places()
        inputs = self.first[rows] + taps
        weights[inputs, rows - first[inputs]] = self.weights[rows, taps]
        return Band(self.outputs, first, count, weights)


@dataclass(frozen=True, eq=False)
class Solve:
    """The inverse of a matrix with three diagonals.

    Attributes:
        below: the entries left of the diagonal; the first is 0.
        diagonal: the entries on it.
        above: the entries right of it; the last is 0.
    """

    below: Array
    diagonal: Array
    above: Array

    def dense(self) -> Array:
        """The inverse, written out."""
        matrix = np.diag(self.diagonal) + np.diag(self.below[1:], -1) + np.diag(self.above[:-1], 1)
        inverse: Array = np.linalg.inv(matrix)
        return inverse

    def transpose(self) -> Solve:
        """The transpose of the inverse, which is the inverse of the transpose."""
        return Solve(np.roll(self.above, 1), self.diagonal, np.roll(self.below, -1))

    @functools.cached_property
    def recursion(self) -> Array:
        """What the two sweeps that solve it multiply by: (3, n), as in Gaussian elimination.

            forward:   x[i] = (x[i] - below[i] * x[i - 1]) * inverse[i]
            backward:  x[i] = x[i] - beyond[i] * x[i + 1]

        Row 0 is ``below``, row 1 ``inverse``, row 2 ``beyond``.
        """
        inverse, beyond = np.empty_like(self.diagonal), np.empty_like(self.above)
        previous = 0.0
        for i, (b, d, a) in enumerate(zip(self.below, self.diagonal, self.above, strict=True)):
            inverse[i] = 1 / (d - b * previous)
            beyond[i] = previous = a * inverse[i]
        return np.stack([self.below, inverse, beyond])


@dataclass(frozen=True)
class Prefilter:
    """From pixels to the coefficients of a spline of any order, or the transpose of that.

    Attributes:
        order: the order of the spline.
        n: how many pixels the axis has.
        extended: how the signal goes on: "mirror" about the last centres, "symmetric" about the
            outer edges.
        adjoint: whether it is the transpose.
    """

    order: int
    n: int
    extended: str
    adjoint: bool = False

    def dense(self) -> Array:
        """The matrix, written out: the inverse of the spline's values at the pixels."""
        table = np.array([row[0] for row in bspline_table(self.order)], float)
        fold = mirror if self.extended == "mirror" else reflect
        values = np.zeros((self.n, self.n))
        pixels = np.arange(self.n)
        for tap, weight in enumerate(table, start=-(self.order // 2)):
            np.add.at(values, (pixels, fold(pixels + tap, self.n)), weight)
        inverse: Array = np.linalg.inv(values)
        return inverse.T if self.adjoint else inverse

    def transpose(self) -> Prefilter:
        """The transpose."""
        return replace(self, adjoint=not self.adjoint)


class AxisMap(NamedTuple):
    """What resizing does along one axis: after @ band @ before."""

    before: Solve | Prefilter | None
    band: Band
    after: Solve | Prefilter | None

    def transpose(self) -> AxisMap:
        """The adjoint."""
        return AxisMap(
            self.after and self.after.transpose(),
            self.band.transpose(),
            self.before and self.before.transpose(),
        )

    def dense(self) -> Array:
        """The whole matrix, (outputs, inputs)."""
        matrix = self.band.dense()
        matrix = matrix if self.before is None else matrix @ self.before.dense()
        return matrix if self.after is None else self.after.dense() @ matrix


# From sizes to a matrix ---------------------------------------------------------------------------


class Axis(NamedTuple):
    """An axis to resize.

    ``method`` is a string, as `gridsample.definitions.methods.spell` writes it.  ``scale`` is the
    factor that the caller gave, from which positions then follow; 0 where they follow from the
    sizes.
    """

    inputs: int
    outputs: int
    method: str
    align_corners: bool = False
    antialias: bool = False
    scale: float = 0.0

    @property
    def step(self) -> float:
        """How many inputs lie between two outputs."""
        if self.align_corners:
            return (self.inputs - 1) / (self.outputs - 1) if self.outputs > 1 else 0.0
        return 1 / self.scale if self.scale > 0 else self.inputs / self.outputs

    def positions(self) -> Array:
        """Where each output lies among the inputs, whose centres are 0, 1, 2 ..."""
        index = np.arange(self.outputs)
        return index * self.step if self.align_corners else (index + 0.5) * self.step - 0.5


# Methods for which the centres of the corner pixels mean nothing.
UNALIGNED = ("nearest", "nearest-exact", "area")


def aligns(method: str) -> bool:
    """Whether align_corners has a meaning for a method, given as `Axis` has it."""
    return method not in UNALIGNED


@functools.lru_cache(maxsize=512)
def axis_map(axis: Axis, transposed: bool = False) -> AxisMap:
    """The matrix of an axis, or its transpose."""
    if transposed:
        return axis_map(axis).transpose()
    method = method_of(axis.method)
    if method.prefilter > 1:
        return spline(axis, method)
    if axis.method == "area":
        band = averages(axis)
    elif axis.antialias:
        band = smoothed(axis, method)
    elif axis.method in ("nearest", "nearest-exact"):
        band = copies(axis)
    else:
        band = interpolated(axis, method, clamp)
    if band.is_identity:  # whose zeros beside the ones need not be multiplied by
        band = chosen(np.arange(axis.outputs), axis.inputs)
    return AxisMap(None, band, None)


def chosen(index: Array, inputs: int) -> Band:
    """The band that copies one input to each output."""
    one = np.ones(len(index), np.int64)
    return Band(inputs, index, one, one[:, np.newaxis].astype(float))


def collect(index: Array, weights: Array, inputs: int) -> Band:
    """A band from inputs (outputs, taps) and their weights, which add up where inputs repeat."""
    first = np.minimum.accumulate(index.min(axis=1)[::-1])[::-1]
    count = np.maximum.accumulate(index.max(axis=1)) + 1 - first
    table = np.zeros((len(index), int(count.max())))
    np.add.at(table, (np.arange(len(index))[:, np.newaxis], index - first[:, np.newaxis]), weights)
    return Band(inputs, first, count, table)


def copies(axis: Axis) -> Band:
    """The nearest input: floor(i * step), or for "nearest-exact" floor((i + 1/2) * step).

    In single precision, as PyTorch counts, lest the two differ where a product is nearly whole.
    """
    middle = np.float32(0.5 if axis.method == "nearest-exact" else 0)
    index = np.arange(axis.outputs, dtype=np.float32) + middle
    first = np.floor(index * np.float32(axis.step)).astype(np.int64)
    return chosen(np.clip(first, 0, axis.inputs - 1), axis.inputs)


def averages(axis: Axis) -> Band:
    """Means over the inputs that an output overlaps, as PyTorch's adaptive pooling has them."""
    index = np.arange(axis.outputs)
    first = index * axis.inputs // axis.outputs
    count = -(-(index + 1) * axis.inputs // axis.outputs) - first
    taps = np.arange(count.max())
    weights = (taps < count[:, np.newaxis]) / count[:, np.newaxis]
    return Band(axis.inputs, first, count, weights)


def interpolated(axis: Axis, method: Method, fold: Callable[[Array, int], Array]) -> Band:
    """The weights around each position; what lies outside is folded back in."""
    positions = axis.positions()
    if method.folds_position:
        # Past the last centre, PyTorch's linear is constant.
        positions = np.clip(positions, 0, axis.inputs - 1)
    if method.formula and not method.rounds:  # a table knows which way a tie goes
        support, kernel = method.kernel()
        reach = math.ceil(support)
        base = np.floor(positions).astype(np.int64)
        index = base[:, np.newaxis] + np.arange(1 - reach, 1 + reach)
        weights = kernel(index - positions[:, np.newaxis])
        weights /= weights.sum(axis=1, keepdims=True)
    else:
        whole, t = split(positions, method.rounding)
        index = whole.astype(np.int64)[:, np.newaxis] + method.offsets
        weights = method.weights(t)
    return collect(fold(index, axis.inputs), weights, axis.inputs)


def smoothed(axis: Axis, method: Method) -> Band:
    """The kernel, stretched by the step where that is above 1; what lies outside is left out.

    These are the tables of Pillow's resize, which PyTorch's antialiasing follows.
    """
    support, kernel = method.kernel(antialias=True)
    stretch = max(axis.step, 1.0)
    reach = support * stretch
    centres = axis.step * (np.arange(axis.outputs) + 0.5)
    first = np.clip((centres - reach + 0.5).astype(np.int64), 0, axis.inputs - 1)
    end = np.clip((centres + reach + 0.5).astype(np.int64), first + 1, axis.inputs)
    count = end - first
    taps = np.arange(count.max())
    distance = first[:, np.newaxis] + taps - centres[:, np.newaxis] + 0.5
    weights = np.where(taps < count[:, np.newaxis], kernel(distance / stretch), 0.0)
    total = weights.sum(axis=1, keepdims=True)
    return Band(axis.inputs, first, count, weights / np.where(total == 0, 1, total))


def spline(axis: Axis, method: Method) -> AxisMap:
    """The spline through the inputs, or its kernel stretched.

    The spline is a sum of B-splines b times coefficients c, which solve the interpolation

        sum over k of b(k) c[i + k] = input[i];    for the cubic b is 1/6, 4/6, 1/6;

    the signal goes on mirrored, about the last centres if corners are aligned, else about the outer
    edges.  Stretched by a step above 1, the kernel (the spline through a single 1) is a sum of
    B-splines that are a step apart: so the inputs are first smoothed by stretched B-splines, and
    then the outputs solve the interpolation.
    Source: M. Unser, "Splines: a perfect fit for signal and image processing", 1999.
    """
    order = method.prefilter
    if axis.antialias and axis.step > 1:
        band = smoothed(axis, method)
        return AxisMap(None, band, interpolation(order, axis.outputs, axis.align_corners))
    band = interpolated(axis, method, mirror if axis.align_corners else reflect)
    return AxisMap(interpolation(order, axis.inputs, axis.align_corners), band, None)


def interpolation(order: int, n: int, align_corners: bool) -> Solve | Prefilter | None:
    """From n values of a spline to its coefficients; None where they are the same."""
    if n == 1:
        return None
    if order != 3:
        return Prefilter(order, n, "mirror" if align_corners else "symmetric")
    below, diagonal, above = np.full(n, 1 / 6), np.full(n, 4 / 6), np.full(n, 1 / 6)
    below[0] = above[-1] = 0
    if align_corners:
        above[0] = below[-1] = 2 / 6
    else:
        diagonal[0] = diagonal[-1] = 5 / 6
    return Solve(below, diagonal, above)


def clamp(index: Array, n: int) -> Array:
    """The nearest index inside."""
    return np.clip(index, 0, n - 1)


def mirror(index: Array, n: int) -> Array:
    """Reflection about the first and the last centre: d c b | a b c d | c b a."""
    period = max(2 * n - 2, 1)
    index = index % period
    return np.minimum(index, period - index) if n > 1 else index


def reflect(index: Array, n: int) -> Array:
    """Reflection about the outer edges: c b a | a b c d | d c b."""
    index = index % (2 * n)
    folded: Array = np.minimum(index, 2 * n - 1 - index)
    return folded


# All axes -----------------------------------------------------------------------------------------


def axis_maps(
    inputs: Sequence[int],
    outputs: Sequence[int],
    methods: Sequence[str],
    align_corners: bool,
    antialias: bool,
    scales: Sequence[float],
    transposed: bool = False,
) -> list[AxisMap]:
    """The matrices of some axes, or their transposes, which lead back from outputs to inputs."""
    return [
        axis_map(Axis(n, m, name, align_corners and aligns(name), antialias, scale), transposed)
        for n, m, name, scale in zip(inputs, outputs, methods, scales, strict=True)
    ]


def rounded_order(inputs: Sequence[int], outputs: Sequence[int], rounding: str) -> list[int]:
    """The order of axes where numbers are rounded between them, so that it shows.

    The last axis comes first; but Pillow, since its version 13, begins with the height of an image
    that loses more than twice as many rows as columns.
    """
    axes = list(range(len(inputs)))[::-1]
    if rounding == "pillow" and len(axes) == 2:
        rows, columns = (n - m for n, m in zip(inputs, outputs, strict=True))
        if rows > max(0, 2 * columns):
            axes.reverse()
    return axes


def margin(order: int) -> int:
    """Rows away from where a spline is cut off, at which that is no longer seen.

    The effect falls by the spline's largest pole from row to row.  That is 0.27 for the cubic, and
    0.27 ** 32 is less than what double precision resolves; for the orders 5 and 7 it is 0.43 and
    0.54.
    """
    return 16 * (order // 2 + 1)


class Window(NamedTuple):
    """What part of an axis is made of."""

    inputs: slice
    map: AxisMap
    keep: slice  # of the outputs that the map makes


def window(axis: Axis, rows: slice) -> Window:
    """The part of an axis that makes some neighbouring outputs."""
    before, band, after = axis_map(axis)
    order = method_of(axis.method).prefilter
    around = margin(order) if after else 0
    begin, end = max(0, rows.start - around), min(axis.outputs, rows.stop + around)
    first, count = band.first[begin:end], band.count[begin:end]
    around = margin(order) if before else 0
    low = max(0, int(first[0]) - around)
    high = min(axis.inputs, int((first + count).max()) + around)
    part = Band(high - low, first - low, count, band.weights[begin:end])
    ends = (
        before and interpolation(order, high - low, axis.align_corners),
        after and interpolation(order, end - begin, axis.align_corners),
    )
    keep = slice(rows.start - begin, rows.stop - begin)
    return Window(slice(low, high), AxisMap(ends[0], part, ends[1]), keep)
