"""Resizing along one axis, as data: the inputs of each output, and their weights.

Along an axis, resizing is a product with a matrix that depends only on the sizes and the method.
The matrix is zero outside a band, so it is stored as a `Band`: the first input of each output, the
number of inputs, and their weights.  The matrix of a spline is dense: it is the product of a band
and the prefilter, a `Prefilter`.  The transpose of each has the same type.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.axis import split, weight
from gridsample.definitions.caches import cached_by_size, cached_property
from gridsample.definitions.methods import Method
from gridsample.definitions.plan import method_of
from gridsample.definitions.weights import bspline_table, lanczos_taps

Array = np.ndarray[Any, Any]

# The bytes of the bands that are kept for later calls, and inputs that show whether a method keeps
# pixels as they are.
KEPT, FEW = 1 << 25, 16


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

    @cached_property
    def taps(self) -> int:
        """The greatest count."""
        return int(self.count.max(initial=0))

    @cached_property
    def copies(self) -> bool:
        """Whether every output is a copy of one input."""
        return bool(self.taps == 1 and self.count.all() and (self.weights == 1).all())

    @cached_property
    def gain(self) -> float:
        """The largest sum of a row's absolute weights: how far an output can exceed the inputs."""
        return float(np.abs(self.weights).sum(axis=1).max(initial=0))

    @cached_property
    def is_identity(self) -> bool:
        """Whether every output equals the input of the same index."""
        if self.inputs != self.outputs or not self.count.all():
            return False
        diagonal = np.arange(self.outputs)[:, np.newaxis] - self.first[:, np.newaxis]
        return np.array_equal(self.weights, diagonal == np.arange(self.weights.shape[1]))

    @property
    def bytes(self) -> int:
        """The memory of the tables."""
        tables = [self.first, self.count, self.weights]
        return sum([table.nbytes for table in tables if table.base is None or table.strides[0]])

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

    The spline is a sum of B-splines b times coefficients c, which solve

        sum over k of b(k) c[i + k] = pixel[i];    for the cubic, b is 1/6, 4/6, 1/6.

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
        for tap, value in enumerate(table, start=-(self.order // 2)):
            np.add.at(values, (pixels, fold(pixels + tap, self.n)), value)
        inverse: Array = np.linalg.inv(values)
        return inverse.T if self.adjoint else inverse

    def transpose(self) -> Prefilter:
        """The transpose."""
        return replace(self, adjoint=not self.adjoint)


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
        positions: Array = position(np.arange(self.outputs), self.step, self.align_corners)
        return positions


def position(index: Any, step: Any, align_corners: bool) -> Any:
    """The position of an output; the index may be an array or a value of the vector language."""
    return index * step if align_corners else (index + 0.5) * step - 0.5


@dataclass(frozen=True, eq=False)
class AxisMap:
    """The matrix that resizes one axis: after @ band @ before.

    Attributes:
        before: a prefilter of the inputs.
        after: a prefilter of the outputs.
        axis: the axis, from which the band follows; None if the band is given.
        transposed: whether the band is the transpose of the axis's.
        table: the band if it does not follow from an axis.
    """

    before: Prefilter | None
    after: Prefilter | None
    axis: Axis | None = None
    transposed: bool = False
    table: Band | None = None

    @property
    def band(self) -> Band:
        """The band as tables, whose memory is proportional to its entries."""
        if self.axis is None:
            assert self.table is not None
            return self.table
        return band_of(self.axis, self.transposed)

    @property
    def inputs(self) -> int:
        """The number of columns of the band."""
        if self.axis is None:
            return self.band.inputs
        return self.axis.outputs if self.transposed else self.axis.inputs

    @property
    def outputs(self) -> int:
        """The number of rows of the band."""
        if self.axis is None:
            return self.band.outputs
        return self.axis.inputs if self.transposed else self.axis.outputs

    @cached_property
    def is_identity(self) -> bool:
        """Whether every output equals the input of the same index."""
        if self.before or self.after or self.inputs != self.outputs:
            return False
        if self.axis is None or is_zoom(self.axis.method):
            return self.band.is_identity
        if self.axis.method != "area" and self.axis.inputs > 1 and self.axis.step != 1:
            return False
        few = min(self.axis.inputs, FEW)
        return band_of(self.axis._replace(inputs=few, outputs=few), False).is_identity

    def transpose(self) -> AxisMap:
        """The adjoint."""
        before, after = (
            prefilter and prefilter.transpose() for prefilter in (self.after, self.before)
        )
        if self.axis is not None:
            return AxisMap(before, after, self.axis, not self.transposed)
        return AxisMap(before, after, table=self.band.transpose())

    def dense(self) -> Array:
        """The dense matrix, (outputs, inputs)."""
        matrix = self.band.dense()
        matrix = matrix if self.before is None else matrix @ self.before.dense()
        return matrix if self.after is None else self.after.dense() @ matrix


# Methods for which align_corners has no meaning.
UNALIGNED = ("nearest", "nearest-exact", "area")


def aligns(method: str) -> bool:
    """Whether align_corners has a meaning for a method, in the spelling of `Axis.method`."""
    return method not in UNALIGNED


@functools.lru_cache
def votes(methods: tuple[str, ...]) -> bool:
    """Whether inputs vote, by the methods of all axes in the spelling of `Axis.method`."""
    return any([not is_zoom(method) and method_of(method).votes for method in methods])


# How the spelling of a `gridsample.definitions.zooming.Zoom` begins.
ZOOM = "zoom:"


def is_zoom(method: str) -> bool:
    """Whether a method's spelling is that of a `gridsample.definitions.zooming.Zoom`."""
    return method.startswith(ZOOM)


@functools.lru_cache(maxsize=512)
def axis_map(axis: Axis, transposed: bool = False) -> AxisMap:
    """Return the matrix of an axis, or its transpose."""
    if transposed:
        return axis_map(axis).transpose()
    before = after = None
    if not is_zoom(axis.method) and (order := method_of(axis.method).prefilter) > 1:
        if axis.antialias and axis.step > 1:
            after = interpolation(order, axis.outputs, axis.align_corners)
        else:
            before = interpolation(order, axis.inputs, axis.align_corners)
    return AxisMap(before, after, axis)


@cached_by_size(KEPT, lambda band: band.bytes)
def band_of(axis: Axis, transposed: bool) -> Band:
    """Compute the tables of an axis's band, or of its transpose."""
    if transposed:
        return band_of(axis, False).transpose()
    if is_zoom(axis.method):
        from gridsample.definitions import zooming  # which is written in terms of this module

        return zooming.zoomed(axis)
    formula = kind_of(axis)
    if formula == "copies":
        return copies(axis)
    if formula == "averages":
        return averages(axis)
    band = (smoothed if formula == "smoothed" else interpolated)(axis, method_of(axis.method))
    if band.is_identity:  # drop the zeros next to the ones
        band = chosen(np.arange(axis.outputs), axis.inputs)
    return band


@cached_by_size(KEPT, lambda result: result[0].nbytes + result[1].band.bytes)
def picked(axis: Axis) -> tuple[Array, AxisMap]:
    """The inputs that an axis reads, in ascending order, and its map from these alone."""
    band = band_of(axis, False)
    rows, taps = band._places()
    inputs = np.unique(band.first[rows] + taps)
    first = np.searchsorted(inputs, band.first)
    return inputs, AxisMap(None, None, table=Band(len(inputs), first, band.count, band.weights))


def skips(axis_map: AxisMap) -> bool:
    """Whether an axis reads at most a quarter of its inputs."""
    if (
        axis_map.axis is None
        or axis_map.transposed
        or axis_map.before
        or is_zoom(axis_map.axis.method)
    ):
        return False
    formula, method = kind_of(axis_map.axis), method_of(axis_map.axis.method)
    taps = {"copies": 1, "interpolated": len(tap_offsets(method))}.get(formula, axis_map.inputs)
    return 4 * taps * axis_map.outputs <= axis_map.inputs


def kind_of(axis: Axis) -> str:
    """Return by which formulas an axis is resized: the name of one of the following functions."""
    method = method_of(axis.method)
    if axis.method == "area":
        return "averages"
    if axis.antialias and (method.prefilter <= 1 or axis.step > 1):
        return "smoothed"
    return "copies" if axis.method in ("nearest", "nearest-exact") else "interpolated"


def chosen(index: Array, inputs: int) -> Band:
    """Create a band that copies one input to each output."""
    shape = len(index), 1
    return Band(inputs, index, np.broadcast_to(np.int64(1), shape[:1]), np.broadcast_to(1.0, shape))


def collect(index: Array, weights: Array, inputs: int) -> Band:
    """Create a band from indices (outputs, taps) and weights; those of equal indices are added."""
    first = np.minimum.accumulate(index.min(axis=1)[::-1])[::-1]
    count = np.maximum.accumulate(index.max(axis=1)) + 1 - first
    table = np.zeros((len(index), int(count.max())))
    taps = index.shape[1]
    straight = (index == first[:, np.newaxis] + np.arange(taps)).all(axis=1)
    table[straight, :taps] = weights[straight, : table.shape[1]]
    folded = np.flatnonzero(~straight)
    columns = index[folded] - first[folded, np.newaxis]
    np.add.at(table, (folded[:, np.newaxis], columns), weights[folded])
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


def interpolated(axis: Axis, method: Method) -> Band:
    """Compute the weights around each position; indices outside are folded back in."""
    positions = axis.positions()
    if method.folds_position:
        # PyTorch's linear is constant beyond the last centre.
        positions = np.clip(positions, 0, axis.inputs - 1)
    base, t = split(positions, method.rounding)
    index = base.astype(np.int64)[:, np.newaxis] + tap_offsets(method)
    fold = FOLDS[fold_of(axis)]
    return collect(fold(index, axis.inputs), np.stack(tap_weights(method, t), axis=1), axis.inputs)


def fold_of(axis: Axis) -> str:
    """How indices outside are folded back in: a key of `FOLDS`.

    A spline is extended by reflection, about the last centres if corners are aligned, otherwise
    about the outer edges.
    """
    if method_of(axis.method).prefilter <= 1:
        return "clamp"
    return "mirror" if axis.align_corners else "reflect"


@functools.lru_cache
def follows_formula(method: Method) -> bool:
    """Whether the weights come from the method's kernel, and not from its table.

    Only a table says how ties are broken; and if both are the same, its polynomials are cheaper.
    """
    if not method.formula or method.rounds:
        return False
    if not method.table:
        return True
    t = np.linspace(0, 1, 4 * method.powers, endpoint=False)
    exact = method.kernel()[1](method.offsets - t[:, np.newaxis])
    return bool(np.abs(exact - method.weights(t)).max() > 64 * np.finfo(float).eps)


def tap_offsets(method: Method) -> Array:
    """The indices of an output's taps, relative to the base index."""
    if not follows_formula(method):
        return method.offsets
    reach = math.ceil(method.kernel()[0])
    return np.arange(1 - reach, 1 + reach)


def tap_weights(method: Method, t: Any) -> list[Any]:
    """The weight of each tap at fractions t, which may be values of the vector language."""
    if not follows_formula(method):
        return [weight(t, row, method.powers) + t * 0 for row in method.table]
    if method.formula[0] == "lanczos" and method.formula[1] == int(method.formula[1]):
        return lanczos_taps(t, int(method.formula[1]))
    kernel = method.kernel()[1]
    weights = [kernel(int(offset) - t) for offset in tap_offsets(method)]
    total = weights[0]
    for term in weights[1:]:
        total = total + term
    return [term / total for term in weights]


def smoothed(axis: Axis, method: Method) -> Band:
    """Stretch the kernel by the step if that exceeds 1; inputs outside the image are left out.

    The result equals the tables of Pillow's resize, which PyTorch's antialiasing follows.

    A spline's kernel (the spline through a single 1) is a sum of B-splines that are a step apart.
    Therefore the inputs are smoothed by stretched B-splines, and then the equations of `Prefilter`
    are solved for the outputs.  Source: M. Unser, "Splines: a perfect fit for signal and image
    processing", 1999.
    """
    support, kernel = method.kernel(antialias=True)
    scale = max(axis.step, 1.0)
    centres, first, end = covered(np.arange(axis.outputs), axis.step, support * scale, axis.inputs)
    count = (end - first).astype(np.int64)
    taps = np.arange(count.max())
    distance = first[:, np.newaxis] + taps - centres[:, np.newaxis] + 0.5
    weights = np.where(taps < count[:, np.newaxis], kernel(distance / scale), 0.0)
    total = weights.sum(axis=1, keepdims=True)
    weights /= np.where(total == 0, 1, total)
    return Band(axis.inputs, first.astype(np.int64), count, weights)


def covered(index: Any, step: Any, reach: Any, inputs: Any) -> tuple[Any, Any, Any]:
    """The centre of an output, measured from the outer edge, its first input and their end.

    The arguments may be values of the vector language, the index and all results are floats.
    """
    centre = step * (index + 0.5)
    first = np.minimum(np.maximum(np.floor(centre - reach + 0.5), 0), inputs - 1)
    end = np.minimum(np.maximum(np.floor(centre + reach + 0.5), first + 1), inputs)
    return centre, first, end


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


FOLDS = {"clamp": clamp, "mirror": mirror, "reflect": reflect}


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
    full = axis_map(axis)
    before, band, after = full.before, full.band, full.after
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
    return Window(slice(low, high), AxisMap(*ends, table=part), keep)
