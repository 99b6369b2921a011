"""Resizing along one axis, as data: the inputs of each output, and their weights.

Along an axis, resizing is a product with a matrix that depends only on the sizes and the method.
The matrix is zero outside a band, so it is stored as a `Band`: the first input of each output, the
number of inputs, and their weights.  The matrix of a spline is dense: it is the product of a band
and the prefilter, a `Prefilter`.  The transpose of each has the same type.
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
        inputs: the number of columns.
        first: the first column of the band in each row; it never decreases from row to row.
        count: the number of columns of the band in each row, which may be 0.
        weights: (outputs, the greatest count), zero beyond each row's count.
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
        """Whether every output is a copy of one input."""
        return bool(self.taps == 1 and self.count.all() and (self.weights == 1).all())

    @functools.cached_property
    def gain(self) -> float:
        """The largest sum of a row's absolute weights: how far an output can exceed the inputs."""
        return float(np.abs(self.weights).sum(axis=1).max(initial=0))

    @functools.cached_property
    def is_identity(self) -> bool:
        """Whether every output equals the input of the same index."""
        if self.inputs != self.outputs or not self.count.all():
            return False
        own = np.arange(self.outputs)[:, np.newaxis] - self.first[:, np.newaxis]
        return np.array_equal(self.weights, own == np.arange(self.weights.shape[1]))

    def _places(self) -> tuple[Array, Array]:
        """The rows and taps of all entries in the band."""
        rows, taps = np.nonzero(np.arange(self.weights.shape[1]) < self.count[:, np.newaxis])
        return rows, taps

    def dense(self) -> Array:
        """The dense matrix, (outputs, inputs)."""
        matrix = np.zeros((self.outputs, self.inputs))
        rows, taps = self._places()
        matrix[rows, self.first[rows] + taps] = self.weights[rows, taps]
        return matrix

    def transpose(self) -> Band:
        """The transposed matrix."""
        columns = np.arange(self.inputs)
        first = np.searchsorted(self.first + self.count, columns, side="right")
        count = np.maximum(np.searchsorted(self.first, columns, side="right") - first, 0)
        weights = np.zeros((self.inputs, int(count.max(initial=0))))
        rows, taps = self._places()
        inputs = self.first[rows] + taps
        weights[inputs, rows - first[inputs]] = self.weights[rows, taps]
        return Band(self.outputs, first, count, weights)


@dataclass(frozen=True)
class Prefilter:
    """The map from pixels to the coefficients of a spline of any order, or its transpose.

    Attributes:
        order: the order of the spline.
        n: the number of pixels along the axis.
        extended: the extension of the signal: "mirror" about the last centres, or "symmetric"
            about the outer edges.
        adjoint: whether this is the transpose.
    """

    order: int
    n: int
    extended: str
    adjoint: bool = False

    @property
    def options(self) -> tuple[int, str, bool]:
        """The order, the extension, and whether it is transposed."""
        return self.order, self.extended, self.adjoint

    def dense(self) -> Array:
        """The dense matrix, which is the inverse of the spline's values at the pixels."""
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
    """The matrix that resizes one axis: after @ band @ before."""

    before: Prefilter | None
    band: Band
    after: Prefilter | None

    def transpose(self) -> AxisMap:
        """The adjoint."""
        return AxisMap(
            self.after and self.after.transpose(),
            self.band.transpose(),
            self.before and self.before.transpose(),
        )

    def dense(self) -> Array:
        """The dense matrix, (outputs, inputs)."""
        matrix = self.band.dense()
        matrix = matrix if self.before is None else matrix @ self.before.dense()
        return matrix if self.after is None else self.after.dense() @ matrix


# From sizes to a matrix ---------------------------------------------------------------------------


class Axis(NamedTuple):
    """An axis to resize.

    ``method`` is a string, as `gridsample.definitions.methods.spell` writes it.  ``scale`` is the
    factor that determines the positions, or 0 if they follow from the sizes.
    """

    inputs: int
    outputs: int
    method: str
    align_corners: bool = False
    antialias: bool = False
    scale: float = 0.0

    @property
    def step(self) -> float:
        """The distance between two outputs, in input pixels."""
        if self.align_corners:
            return (self.inputs - 1) / (self.outputs - 1) if self.outputs > 1 else 0.0
        return 1 / self.scale if self.scale > 0 else self.inputs / self.outputs

    def positions(self) -> Array:
        """The position of each output among the inputs, whose centres are 0, 1, 2, ..."""
        index = np.arange(self.outputs)
        return index * self.step if self.align_corners else (index + 0.5) * self.step - 0.5


# Methods for which align_corners has no meaning.
UNALIGNED = ("nearest", "nearest-exact", "area")


def aligns(method: str) -> bool:
    """Whether align_corners has a meaning for a method, in the spelling of `Axis.method`."""
    return method not in UNALIGNED


@functools.lru_cache
def votes(methods: tuple[str, ...]) -> bool:
    """Whether inputs vote, by the methods of all axes in the spelling of `Axis.method`."""
    from gridsample.definitions.zooming import is_zoom  # which is written in terms of this module

    return any([not is_zoom(one) and method_of(one).votes for one in methods])


@functools.lru_cache(maxsize=512)
def axis_map(axis: Axis, transposed: bool = False) -> AxisMap:
    """Compute the matrix of an axis, or its transpose."""
    if transposed:
        return axis_map(axis).transpose()
    from gridsample.definitions import zooming  # which is written in terms of this module

    if zooming.is_zoom(axis.method):
        return AxisMap(None, zooming.zoomed(axis), None)
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
    if band.is_identity:  # drop the zeros next to the ones
        band = chosen(np.arange(axis.outputs), axis.inputs)
    return AxisMap(None, band, None)


def chosen(index: Array, inputs: int) -> Band:
    """Create a band that copies one input to each output."""
    one = np.ones(len(index), np.int64)
    return Band(inputs, index, one, one[:, np.newaxis].astype(float))


def collect(index: Array, weights: Array, inputs: int) -> Band:
    """Create a band from indices (outputs, taps) and weights; those of equal indices are added."""
    first = np.minimum.accumulate(index.min(axis=1)[::-1])[::-1]
    count = np.maximum.accumulate(index.max(axis=1)) + 1 - first
    table = np.zeros((len(index), int(count.max())))
    np.add.at(table, (np.arange(len(index))[:, np.newaxis], index - first[:, np.newaxis]), weights)
    return Band(inputs, first, count, table)


def copies(axis: Axis) -> Band:
    """Copy the input floor(i * step), or for "nearest-exact" floor((i + 1/2) * step).

    The product is computed in single precision, as in PyTorch.  Otherwise the results would differ
    where it is nearly an integer.
    """
    middle = np.float32(0.5 if axis.method == "nearest-exact" else 0)
    index = np.arange(axis.outputs, dtype=np.float32) + middle
    first = np.floor(index * np.float32(axis.step)).astype(np.int64)
    return chosen(np.clip(first, 0, axis.inputs - 1), axis.inputs)


def averages(axis: Axis) -> Band:
    """Average the inputs that an output overlaps, as in PyTorch's adaptive pooling."""
    index = np.arange(axis.outputs)
    first = index * axis.inputs // axis.outputs
    count = -(-(index + 1) * axis.inputs // axis.outputs) - first
    taps = np.arange(count.max())
    weights = (taps < count[:, np.newaxis]) / count[:, np.newaxis]
    return Band(axis.inputs, first, count, weights)


def interpolated(axis: Axis, method: Method, fold: Callable[[Array, int], Array]) -> Band:
    """Compute the weights around each position; indices outside are folded back in."""
    positions = axis.positions()
    if method.folds_position:
        # PyTorch's linear is constant beyond the last centre.
        positions = np.clip(positions, 0, axis.inputs - 1)
    if method.formula and not method.rounds:  # only a table says how ties are broken
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
    """Stretch the kernel by the step if that exceeds 1; inputs outside the image are left out.

    The result equals the tables of Pillow's resize, which PyTorch's antialiasing follows.
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
    """Interpolate by a spline through the inputs, or by its stretched kernel.

    The spline is a sum of B-splines b times coefficients c, which solve

        sum over k of b(k) c[i + k] = input[i];    for the cubic, b is 1/6, 4/6, 1/6.

    The signal is extended by reflection, about the last centres if corners are aligned, otherwise
    about the outer edges.  If the kernel (the spline through a single 1) is stretched by a step
    above 1, it is a sum of B-splines that are a step apart.  Therefore the inputs are first
    smoothed by stretched B-splines, and then the same equations are solved for the outputs.
    Source: M. Unser, "Splines: a perfect fit for signal and image processing", 1999.
    """
    order = method.prefilter
    if axis.antialias and axis.step > 1:
        band = smoothed(axis, method)
        return AxisMap(None, band, interpolation(order, axis.outputs, axis.align_corners))
    band = interpolated(axis, method, mirror if axis.align_corners else reflect)
    return AxisMap(interpolation(order, axis.inputs, axis.align_corners), band, None)


def interpolation(order: int, n: int, align_corners: bool) -> Prefilter | None:
    """The map from n values of a spline to its coefficients; None if it is the identity."""
    if n == 1:
        return None
    return Prefilter(order, n, "mirror" if align_corners else "symmetric")


def clamp(index: Array, n: int) -> Array:
    """Clamp indices to 0 ... n - 1."""
    return np.clip(index, 0, n - 1)


def mirror(index: Array, n: int) -> Array:
    """Reflect indices about the first and the last centre: d c b | a b c d | c b a."""
    period = max(2 * n - 2, 1)
    index = index % period
    return np.minimum(index, period - index) if n > 1 else index


def reflect(index: Array, n: int) -> Array:
    """Reflect indices about the outer edges: c b a | a b c d | d c b."""
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
    """Compute the matrices of some axes, or their transposes, which map outputs to inputs."""
    return [
        axis_map(Axis(n, m, name, align_corners and aligns(name), antialias, scale), transposed)
        for n, m, name, scale in zip(inputs, outputs, methods, scales, strict=True)
    ]


def rounded_order(inputs: Sequence[int], outputs: Sequence[int], rounding: str) -> list[int]:
    """The order of the axes if numbers are rounded between them, which makes the order matter.

    The last axis comes first, with one exception: since version 13, Pillow begins with the height
    if the image loses more than twice as many rows as columns.
    """
    axes = list(range(len(inputs)))[::-1]
    if rounding == "pillow" and len(axes) == 2:
        rows, columns = (n - m for n, m in zip(inputs, outputs, strict=True))
        if rows > max(0, 2 * columns):
            axes.reverse()
    return axes


def margin(order: int) -> int:
    """The distance in rows at which cutting off a spline no longer has an effect.

    The effect decreases by the spline's largest pole from row to row.  For the cubic, the pole is
    0.27, and 0.27 ** 32 is below double precision; for orders 5 and 7, it is 0.43 and 0.54.
    """
    return 16 * (order // 2 + 1)


class Window(NamedTuple):
    """The inputs of a part of an axis, and the map to its outputs."""

    inputs: slice
    map: AxisMap
    keep: slice  # the part of the map's outputs that is needed


def window(axis: Axis, rows: slice) -> Window:
    """Compute the part of an axis that some neighbouring outputs need."""
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
