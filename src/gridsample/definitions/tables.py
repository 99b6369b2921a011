"""Resizing along one axis, as data: the inputs of each output, and their weights.

Along an axis, resizing is a product with a matrix that depends only on the sizes and the method.
The matrix is zero outside a band, so it is stored as a `Band`.  The matrix of a spline is dense: it
is the product of a band and the prefilter, a `Prefilter`.  The transpose of each has the same type.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.axis import split, weight
from gridsample.definitions.bands import CACHE_BYTES, Band, collect, copying_band
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.definitions.caches import cached_by_size, cached_property
from gridsample.definitions.cells import AxisMethod, CellMeans
from gridsample.definitions.control_points import ControlAxis
from gridsample.definitions.methods import AREA, NEAREST, NEAREST_EXACT, Method
from gridsample.definitions.options import Resizing
from gridsample.definitions.shapes import Shape
from gridsample.definitions.splines import Prefilter, extension, reach
from gridsample.definitions.weights import lanczos_taps
from gridsample.definitions.zooming import Zoom, zoomed

Array = np.ndarray[Any, Any]

# Inputs that show whether a method keeps pixels as they are.
FEW = 16


# From sizes to a matrix ---------------------------------------------------------------------------


class Axis(NamedTuple):
    """An axis to resize.

    ``scale`` is the factor that determines the positions, or 0 if they follow from the sizes, and
    ``stretched`` as in `Resizing`.
    """

    inputs: int
    outputs: int
    method: AxisMethod
    align_corners: bool = False
    antialias: bool = False
    scale: float = 0.0
    stretched: bool = True

    @property
    def step(self) -> float:
        """The distance between two outputs, in input pixels."""
        if self.align_corners:
            return (self.inputs - 1) / (self.outputs - 1) if self.outputs > 1 else 0.0
        return 1 / self.scale if self.scale > 0 else self.inputs / self.outputs

    @property
    def stretch(self) -> float:
        """The factor by which antialiasing stretches weights."""
        return max(self.step, 1.0) if self.stretched else 1.0

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
        if self.axis is None or not isinstance(self.axis.method, Method):
            return self.band.is_identity
        if self.axis.method != AREA and self.axis.inputs > 1 and self.axis.step != 1:
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
UNALIGNED = (NEAREST, NEAREST_EXACT, AREA)


def aligns(method: AxisMethod) -> bool:
    """Whether align_corners has a meaning for a method."""
    return method not in UNALIGNED


def votes(methods: Sequence[AxisMethod]) -> bool:
    """Whether inputs vote, by the methods of all axes."""
    return any([isinstance(method, Method) and method.votes for method in methods])


@functools.lru_cache(maxsize=512)
def axis_map(axis: Axis, transposed: bool = False) -> AxisMap:
    """Return the matrix of an axis, or its transpose."""
    if transposed:
        return axis_map(axis).transpose()
    before = after = None
    method = axis.method
    if isinstance(method, Method) and method.prefilter > 1:
        if axis.antialias and axis.step > 1:
            after = prefilter_of(method, axis.outputs, axis.align_corners)
        else:
            before = prefilter_of(method, axis.inputs, axis.align_corners)
    return AxisMap(before, after, axis)


def unchanged(n: int) -> AxisMap:
    """Return the identity map of an axis."""
    return axis_map(Axis(n, n, NEAREST))


@cached_by_size(CACHE_BYTES, lambda band: band.bytes)
def band_of(axis: Axis, transposed: bool) -> Band:
    """Compute the tables of an axis's band, or of its transpose."""
    if transposed:
        return band_of(axis, False).transpose()
    if isinstance(axis.method, Zoom):
        return zoomed(axis.method, axis.inputs, axis.outputs)
    if isinstance(axis.method, CellMeans):
        return axis.method.band
    if isinstance(axis.method, ControlAxis):
        return axis.method.band()
    formula = formula_of(axis)
    if formula == "copies":
        return copies(axis)
    if formula == "averages":
        return averages(axis)
    band = (smoothed if formula == "smoothed" else interpolated)(axis, axis.method)
    if band.is_identity:  # drop the zeros next to the ones
        band = copying_band(np.arange(axis.outputs), axis.inputs)
    return band


def map_of_band(band: Band) -> AxisMap:
    """Return the map that has a band and no prefilters."""
    return AxisMap(None, None, table=band)


def split_off_copies(axis_map: AxisMap) -> tuple[AxisMap, AxisMap]:
    """Return the map that copies the inputs that an axis reads, if few, and the map from these."""
    if axis_map.axis and skips_inputs(axis_map):
        return used_inputs(axis_map.axis)
    return unchanged(axis_map.inputs), axis_map


@cached_by_size(CACHE_BYTES, lambda maps: sum([axis_map.band.bytes for axis_map in maps]))
def used_inputs(axis: Axis) -> tuple[AxisMap, AxisMap]:
    """Return the map that copies the inputs that an axis reads, and its map from these alone."""
    band = band_of(axis, False)
    return map_of_band(copying_band(band.used, band.inputs)), map_of_band(band.compact)


def skips_inputs(axis_map: AxisMap) -> bool:
    """Whether an axis reads at most a quarter of its inputs."""
    axis = axis_map.axis
    if axis is None or axis_map.transposed or axis_map.before:
        return False
    if not isinstance(axis.method, Method):
        return False
    formula, offsets = formula_of(axis), tap_offsets(axis.method)
    taps = {"copies": 1, "interpolated": len(offsets)}.get(formula, axis_map.inputs)
    return 4 * taps * axis_map.outputs <= axis_map.inputs


def formula_of(axis: Axis) -> str:
    """Return how an axis is resized: the name of one of the following functions.

    The axis has a method, and is not zoomed.
    """
    method: Any = axis.method
    if method == AREA:
        return "averages"
    if axis.antialias and (method.prefilter <= 1 or axis.step > 1):
        return "smoothed"
    return "copies" if method in (NEAREST, NEAREST_EXACT) else "interpolated"


def copies(axis: Axis) -> Band:
    """Copy the input floor(i * step), or for "nearest-exact" floor((i + 1/2) * step).

    The product is computed in single precision, as in PyTorch.  Otherwise the results would differ
    where it is nearly an integer.
    """
    middle = np.float32(0.5 if axis.method == NEAREST_EXACT else 0)
    index = np.arange(axis.outputs, dtype=np.float32) + middle
    first = np.floor(index * np.float32(axis.step)).astype(np.int64)
    return copying_band(np.clip(first, 0, axis.inputs - 1), axis.inputs)


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
    pixels = BOUNDARIES[boundary_of(method, axis.align_corners)].fold_index(index, axis.inputs)
    return collect(pixels, np.stack(tap_weights(method, t), axis=1), axis.inputs)


def boundary_of(method: Method, align_corners: bool) -> Any:
    """The boundary by which indices outside are folded.

    A spline is mirrored, about the last centres if corners are aligned, otherwise about the outer
    edges.
    """
    if method.prefilter <= 1:
        return "border"
    return extension("reflection", align_corners)


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
    """Stretch the kernel by `Axis.stretch`; inputs outside the image are left out.

    The result equals the tables of Pillow's resize, which PyTorch's antialiasing follows.

    A spline's kernel (the spline through a single 1) is a sum of B-splines that are a step apart.
    Therefore the inputs are smoothed by stretched B-splines, and then the equations of `Prefilter`
    are solved for the outputs.  Source: M. Unser, "Splines: a perfect fit for signal and image
    processing", 1999.
    """
    support, kernel = method.kernel(antialias=True)
    centres, first, end = covered_inputs(
        np.arange(axis.outputs), axis.step, support * axis.stretch, axis.inputs
    )
    count = (end - first).astype(np.int64)
    taps = np.arange(count.max())
    distance = first[:, np.newaxis] + taps - centres[:, np.newaxis] + 0.5
    weights = np.where(taps < count[:, np.newaxis], kernel(distance / axis.stretch), 0.0)
    total = weights.sum(axis=1, keepdims=True)
    weights /= np.where(total == 0, 1, total)
    return Band(axis.inputs, first.astype(np.int64), count, weights)


def covered_inputs(index: Any, step: Any, reach: Any, inputs: Any) -> tuple[Any, Any, Any]:
    """The centre of an output, measured from the outer edge, its first input and their end.

    The arguments may be values of the vector language, the index and all results are floats.
    """
    centre = step * (index + 0.5)
    first = np.minimum(np.maximum(np.floor(centre - reach + 0.5), 0), inputs - 1)
    end = np.minimum(np.maximum(np.floor(centre + reach + 0.5), first + 1), inputs)
    return centre, first, end


def prefilter_of(method: Method, n: int, align_corners: bool) -> Prefilter | None:
    """The map from n values of a spline to its coefficients; None if it is the identity."""
    if n == 1:
        return None
    return Prefilter(method.prefilter, n, boundary_of(method, align_corners))


# All axes -----------------------------------------------------------------------------------------


def axes_of(spatial: Sequence[int], resizing: Resizing, transposed: bool = False) -> list[Axis]:
    """Return the axes of an image to resize, or to which the adjoint is applied."""
    ends = (resizing.size, spatial) if transposed else (spatial, resizing.size)
    aligned, antialias, stretched = (resizing.align_corners, resizing.antialias, resizing.stretched)
    return [
        Axis(n, m, method, aligned and aligns(method), antialias, scale, stretched)
        for n, m, method, scale in zip(*ends, resizing.methods, resizing.scales, strict=True)
    ]


def axis_maps(spatial: Shape, resizing: Resizing, transposed: bool = False) -> tuple[AxisMap, ...]:
    """Compute the matrices of the axes of an image, or their transposes."""
    return tuple([axis_map(axis, transposed) for axis in axes_of(spatial, resizing, transposed)])


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


class Window(NamedTuple):
    """The inputs of a part of an axis, and the map to its outputs."""

    inputs: slice
    map: AxisMap
    keep: slice  # the part of the map's outputs that is needed


def window(axis: Axis, rows: slice) -> Window:
    """Compute the part of an axis that some neighbouring outputs need."""
    full = axis_map(axis)
    before, band, after = full.before, full.band, full.after
    method: Any = axis.method
    margin = reach(method.prefilter, np.dtype(float)) if before or after else 0
    around = margin if after else 0
    begin, end = max(0, rows.start - around), min(axis.outputs, rows.stop + around)
    first, count = band.first[begin:end], band.count[begin:end]
    around = margin if before else 0
    low = max(0, int(first[0]) - around)
    high = min(axis.inputs, int((first + count).max()) + around)
    part = Band(high - low, first - low, count, band.weights[begin:end])
    ends = (
        before and prefilter_of(method, high - low, axis.align_corners),
        after and prefilter_of(method, end - begin, axis.align_corners),
    )
    keep = slice(rows.start - begin, rows.stop - begin)
    return Window(slice(low, high), AxisMap(*ends, table=part), keep)
