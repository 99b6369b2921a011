"""The names of SciPy and dask-image, for chunked images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import dask.array as da
import numpy as np

from gridsample.chunked.regions import Bounds, sampling_of
from gridsample.chunked.splines import Line
from gridsample.dask.graphs import as_dask, chunks_for
from gridsample.dask.grids import as_points, at_grid
from gridsample.dask.maps import under_maps
from gridsample.dask.sampling import Points, Preparation
from gridsample.definitions.shapes import Shape
from gridsample.ndimage.axes import step_between_centres
from gridsample.ndimage.maps import theta_of
from gridsample.ndimage.matrices import split_matrix
from gridsample.ndimage.modes import Spline, spline_of, wrap_between_centres
from gridsample.ndimage.prefilter import working_type


def affine_transform(
    image: Any,
    matrix: Any,
    offset: Any = 0.0,
    output_shape: Sequence[int] | None = None,
    order: int = 1,
    output_chunks: Any = None,
    *,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
    threads: int | None = 1,
) -> Any:
    """Sample a chunked image under an affine map, like `dask_image.ndinterp.affine_transform`.

    Output pixel o is the input at ``matrix @ o + offset``, in pixels and in the order of the
    array's axes, as in `scipy.ndimage.affine_transform`.  The results are those of
    `gridsample.ndimage.affine_transform`, except that with order=0 and mode="mirror", positions
    half a pixel beyond the last centre take the last pixel.

    Args:
        image: an array of 1 to 8 axes: a dask array, or an array with chunks.
        matrix, offset: as in `gridsample.ndimage.affine_transform`.
        output_shape: the output's shape; None for the image's.
        order: the order of the spline, 0 to 5.
        output_chunks: the chunks of the output; None for the size of the image's.
        mode: as in `scipy.ndimage.affine_transform`; "grid-wrap" is periodic.
        cval: the value outside, for "constant" and "grid-constant".
        prefilter: whether the image is prefiltered for orders above 1.
        threads: the maximum number of threads of each task.

    Returns:
        A dask array of ``output_shape``, with the image's dtype.

    Raises:
        RuntimeError: an order or a mode is unknown, or the shape of the matrix does not match.
        ValueError: output_shape does not match, or the last row of a homogeneous matrix is not
            0 ... 0 1.

    Example:
        >>> import dask.array as da, gridsample.dask
        >>> image = da.arange(6.0, chunks=2)
        >>> gridsample.dask.affine_transform(image, [0.5], 1.0, (4,)).compute()
        array([1. , 1.5, 2. , 2.5])
    """
    array = as_dask(image, "image")
    rank = array.ndim
    matrix, shift = split_matrix(np.asarray(matrix, np.float64), offset, rank, rank)
    matrix, shift = np.diag(matrix) if matrix.ndim == 1 else matrix, np.array(shift, np.float64)
    shape = tuple(array.shape if output_shape is None else output_shape)
    if len(shape) != rank:
        raise ValueError(f"output_shape must have {rank} axes, as the image, got {shape}")
    source = scipy_source(array, order, mode, cval, prefilter)
    chunks = chunks_for(output_chunks, shape, array.chunks, array.dtype)
    if source.placement.spline.mode.fold:
        places = LinearPositions(matrix, shift)
        return at_positions(source, places, shape, chunks, threads)
    theta, pixels = theta_of(matrix, [*shift], source.placement.spline), source.pixels
    options = {**source.options, "threads": threads, "real": np.float64}
    sampling = sampling_of(pixels.shape, shape, coords="pixel", **options)
    preparation = source.preparation()._replace(placement=None)
    return under_maps(pixels, theta, sampling, chunks, preparation=preparation)[0, 0]


def map_coordinates(
    image: Any,
    coordinates: Any,
    order: int = 1,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
    *,
    bounds: Any = None,
    chunks: Any = None,
    threads: int | None = 1,
) -> Any:
    """Sample a chunked image at coordinates, like `dask_image.ndinterp.map_coordinates`.

    The results are those of `gridsample.ndimage.map_coordinates`; see `affine_transform` about
    splines.

    Args:
        image: an array of 1 to 8 axes: a dask array, or an array with chunks.
        coordinates: (D, *out), in pixels and in the order of the array's axes: an array, or a dask
            array, which need not fit in memory.
        order, mode, cval, prefilter: as in `affine_transform`.
        bounds: for a dask array, the result of ``coordinate_bounds(coordinates, axis=0)``.
        chunks: the chunks of ``out``, as in `grid_sample`.
        threads: the maximum number of threads of each task.

    Returns:
        A dask array of shape ``out``, with the image's dtype.

    Raises:
        RuntimeError: an order or a mode is unknown.
        ValueError: shapes do not match, or bounds are missing.

    Example:
        >>> import dask.array as da, gridsample.dask
        >>> image = da.arange(12.0, chunks=12).reshape(4, 3).rechunk(2)
        >>> gridsample.dask.map_coordinates(image, [[0.5, 2], [0.5, 1]]).compute()
        array([2., 7.])
    """
    array = as_dask(image, "image")
    if not isinstance(coordinates, da.Array):
        coordinates = np.asarray(coordinates)
    if coordinates.shape[0] != array.ndim:
        raise ValueError(
            f"coordinates must have {array.ndim} entries along the first axis, one for each axis "
            f"of the image, got shape {coordinates.shape}"
        )
    source = scipy_source(array, order, mode, cval, prefilter)
    lazy = isinstance(coordinates, da.Array)
    if chunks is None and not lazy and coordinates.ndim - 1 == array.ndim:
        chunks = chunks_for(None, coordinates.shape[1:], array.chunks, array.dtype)
    options = {**source.options, "preparation": source.preparation(), "threads": threads}
    points = as_points(coordinates)
    return at_grid(source.pixels, points, "pixel", bounds, chunks, **options)[0, 0]


def zoom(
    image: Any,
    zoom: float | Sequence[float],
    order: int = 1,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
    *,
    grid_mode: bool = False,
    output_chunks: Any = None,
    threads: int | None = 1,
) -> Any:
    """Enlarge or shrink a chunked image by a factor, like `scipy.ndimage.zoom`.

    Args:
        image: an array of 1 to 8 axes: a dask array, or an array with chunks.
        zoom: the factor, or one per axis; sizes are rounded.
        order, mode, cval, prefilter, threads: as in `affine_transform`.
        grid_mode: whether the outer edges of the image stay in place, rather than the centres of
            the corner pixels.
        output_chunks: the chunks of the output; None for the size of the image's.

    Returns:
        A dask array with the image's dtype.

    Raises:
        RuntimeError, ValueError: as in `affine_transform`.

    Example:
        >>> import dask.array as da, gridsample.dask
        >>> gridsample.dask.zoom(da.from_array([0.0, 2.0, 4.0], chunks=2), 5 / 3).compute()
        array([0., 1., 2., 3., 4.])
    """
    array = as_dask(image, "image")
    factors = np.broadcast_to(np.asarray(zoom, np.float64), (array.ndim,))
    shape = tuple([round(n * z) for n, z in zip(array.shape, factors.tolist(), strict=True)])
    options: dict[str, Any] = {"mode": mode, "cval": cval, "prefilter": prefilter}
    if grid_mode:
        places = EdgePositions(array.shape, shape)
        source = scipy_source(array, order, **options)
        chunks = chunks_for(output_chunks, shape, array.chunks, array.dtype)
        return at_positions(source, places, shape, chunks, threads)
    pairs = zip(array.shape, shape, strict=True)
    steps = [step_between_centres(n, outputs) for n, outputs in pairs]
    options["threads"] = threads
    return affine_transform(array, steps, 0.0, shape, order, output_chunks, **options)


def at_positions(
    source: ScipySource,
    places: LinearPositions | EdgePositions,
    shape: Shape,
    chunks: Any,
    threads: int | None,
) -> Any:
    """Sample an image at positions that are a function of output pixels."""
    options = {**source.options, "preparation": source.preparation(), "threads": threads}
    options["real"], points = np.float64, Points(places.positions, places.bounds)
    return at_grid(source.pixels, points, "pixel", None, chunks, shape, **options)[0, 0]


# Modes --------------------------------------------------------------------------------------------


class ScipyPlacement(NamedTuple):
    """Moves positions as SciPy's modes do, in the order of the image's axes.

    Attributes:
        spline: the options of the call.
        shape: the shape of the image, with the pixels that are added.
    """

    spline: Spline
    shape: Shape

    def points(self, grid: Any) -> Any:
        """Return the positions that are sampled for a grid (1, *points, D)."""
        placed = np.empty(grid.shape)
        for d, n in enumerate(self.shape[::-1]):
            placed[..., d] = self.spline.sampled_positions(np, grid[..., d], n)
        return placed

    def bounds(self, bounds: Bounds) -> Bounds:
        """Return the bounds of the positions that are sampled inside of the image."""
        low, high = (self.spline.padded(np.asarray(x, np.float64)) for x in bounds)
        if self.spline.mode.fold:
            return Bounds(*wrapped_bounds(np.stack([low, high]), self.shape[::-1]))
        return Bounds(low, high + self.spline.has_ties / 2)


class ScipySource(NamedTuple):
    """An image as SciPy's functions sample it.

    Attributes:
        pixels: the image with the pixels that SciPy adds, (1, 1, *spatial).
        placement: how positions are moved.
        options: the options of `gridsample.grid_sample`.
        output: the dtype of the result.
    """

    pixels: Any
    placement: ScipyPlacement
    options: dict[str, Any]
    output: np.dtype[Any]

    def preparation(self) -> Preparation:
        """Return what else is done before and after the image is sampled."""
        spline, dtype = self.placement.spline, self.output
        axes = range(2, self.pixels.ndim) if spline.filters else ()
        lines = tuple([Line(axis, spline.order, spline.mode.prefilter) for axis in axes])
        return Preparation(lines, sampled_type(dtype, spline), dtype, self.placement)


def scipy_source(array: Any, order: int, mode: str, cval: float, prefilter: bool) -> ScipySource:
    """Prepare a dask array (*spatial) for one of SciPy's modes.

    Raises:
        RuntimeError: the order or the mode is unknown.
    """
    spline, dtype = spline_of(order, mode, cval, prefilter), array.dtype.newbyteorder("=")
    if spline.pad:
        values = {"constant_values": cval} if spline.mode.pad == "constant" else {}
        sizes = tuple([padded_sizes(sizes, spline.pad) for sizes in array.chunks])
        pixels = array.astype(sampled_type(dtype, spline))  # it can represent the added ones
        array = da.pad(pixels, spline.pad, mode=spline.mode.pad, **values).rechunk(sizes)
    options = {**spline.options, **spline.outside}
    if spline.mode.fills and order == 1:
        options["padding_mode"] = "border"  # positions inside have no taps outside: it is faster
    placement = ScipyPlacement(spline, array.shape)
    return ScipySource(array[np.newaxis, np.newaxis], placement, options, dtype)


def sampled_type(dtype: np.dtype[Any], spline: Spline) -> np.dtype[Any]:
    """Return the dtype in which an image is sampled: as in memory, but for single precision."""
    return dtype if dtype.char in "fF" else working_type(np.zeros(1, dtype), spline, True)


def padded_sizes(sizes: Sequence[int], pad: int) -> tuple[int, ...]:
    """Return chunks of which the first and the last are longer by some pixels."""
    return tuple([n + pad * (k == 0) + pad * (k == len(sizes) - 1) for k, n in enumerate(sizes)])


# Positions ----------------------------------------------------------------------------------------


class LinearPositions(NamedTuple):
    """Positions under a matrix and an offset.

    Attributes:
        matrix: (D, D), in the order of the axes.
        offset: (D,).
    """

    matrix: Any
    offset: Any

    def positions(self, *indices: Any) -> list[Any]:
        """Return positions, x first, of indices, x first, in the order of SciPy's sums."""
        steps, lines = indices[::-1], []
        for row, start in zip(self.matrix, self.offset, strict=True):
            line = start + row[0] * steps[0]
            for factor, step in zip(row[1:], steps[1:], strict=True):
                line = line + factor * step
            lines.append(line)
        return lines[::-1]

    def bounds(self, first: Any, last: Any) -> Any:
        """Return the bounds of positions between two indices; all are x first."""
        ends = np.array([first[::-1], last[::-1]], np.float64)
        terms = self.matrix * ends[:, np.newaxis]  # (2, D, D)
        low, high = terms.min(0).sum(-1) + self.offset, terms.max(0).sum(-1) + self.offset
        error = 16 * np.finfo(np.float64).eps * (np.abs(terms).max(0).sum(-1) + np.abs(self.offset))
        return (low - error)[::-1], (high + error)[::-1]


class EdgePositions(NamedTuple):
    """Positions of the pixels of a resized image whose outer edges stay in place.

    Attributes:
        shape: the shape of the image.
        out: that of the result.
    """

    shape: Shape
    out: Shape

    def positions(self, *indices: Any) -> list[Any]:
        """Return positions, x first, of indices, x first."""
        sizes = zip(self.shape[::-1], self.out[::-1], indices, strict=True)
        return [(at + 0.5) * (n / outputs) - 0.5 for n, outputs, at in sizes]

    def bounds(self, first: Any, last: Any) -> Any:
        """Return the bounds of positions between two indices; all are x first."""
        return self.positions(*first), self.positions(*last)


def wrapped_bounds(bounds: Any, sizes: Sequence[int]) -> Any:
    """Fold bounds (..., 2, D) of positions, x first: to all of an axis where they cross an end.

    >>> wrapped_bounds(np.array([[11.0, 8.0], [12.0, 12.0]]), (11, 11)).round(6).tolist()
    [[1.0, 0.0], [2.0, 10.0]]
    """
    result = np.array(bounds, np.float64)
    for k, n in enumerate(sizes):
        low, high = result[..., 0, k], result[..., 1, k]
        tolerance = 16 * np.finfo(np.float64).eps * np.maximum(np.abs(low), np.abs(high))
        low, high = low - tolerance, high + tolerance
        first, last = (wrap_between_centres(np, x, n) for x in (low, high))
        crosses = ~((first <= last) & (high - low < n - 1)) & ~np.isnan(low)
        result[..., 0, k] = np.where(crosses, 0, first)
        result[..., 1, k] = np.where(crosses, n - 1, last)
    return result
