"""Sampling of chunked images under affine maps: in normalized coordinates, pixels, millimetres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import dask.array as da
import numpy as np

from gridsample.chunked.blocks import check_sides, longest_side
from gridsample.chunked.regions import Sampling, real_type, sampling_of
from gridsample.chunked.splines import Line
from gridsample.dask.graphs import Source, as_dask, chunks_for
from gridsample.dask.sampling import Call, bounds_under, dry_run, sampled
from gridsample.dask.splines import image_lines
from gridsample.definitions.plan import Mode, Shape
from gridsample.definitions.sizes import check_output, check_theta
from gridsample.ndimage.modes import spline_of
from gridsample.ops.affine import check_map_coords
from gridsample.world import prepared, to_edges


def affine_sample(
    input: Any,
    theta: Any,
    size: Sequence[int],
    mode: Mode = "bilinear",
    padding_mode: Any = "zeros",
    align_corners: bool = False,
    *,
    coords: str = "normalized",
    chunks: Any = None,
    weights: Any = None,
    **options: Any,
) -> Any:
    """Sample a chunked image under an affine map: `gridsample.affine_sample`, with its bits.

    Args:
        input: the image, (N, C, *spatial): a dask array, or an array with chunks.
        theta: (N, D, D + 1) maps, as in `gridsample.affine_sample`; a NumPy array.
        size: the output's shape, (N, C, *out); C is not used.
        mode, padding_mode, align_corners, coords: as in `gridsample.affine_sample`.
        chunks: the chunks of ``out``, as dask takes them; None for the size of the image's.
        weights: the weights of pixels, chunked as the image is or not.
        options: other options of `gridsample.affine_sample`.  ``threads`` is 1 by default, because
            workers have threads of their own.

    Returns:
        A dask array (N, C, *out), or a tuple if ``return_weight`` is set.  N and C have the chunks
        of the image.

    Raises:
        TypeError, ValueError: as in `gridsample.affine_sample`; or footprints are longer than
            ``max_samples``, or missing pixels are combined with antialias or an odd boundary.

    Example:
        >>> import dask.array as da, numpy as np, gridsample.dask
        >>> image = da.from_array(np.arange(16.0).reshape(1, 1, 4, 4), chunks=(1, 1, 2, 2))
        >>> mirror = np.array([[[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
        >>> gridsample.dask.affine_sample(image, mirror, (1, 1, 4, 4))[0, 0, 0].compute()
        array([3., 2., 1., 0.])
    """
    image, maps = as_dask(input, "input"), np.asarray(theta)
    shape = check_output(size, 3, 5)
    check_theta(maps.shape, shape)
    keywords = {"coords": check_map_coords(coords), "threads": 1, **options}
    sampling = sampling_of(
        image.shape, shape[2:], mode, padding_mode, align_corners,
        real=real_type(image.dtype, maps.dtype), **keywords,
    )  # fmt: skip
    return under_maps(image, maps, sampling, chunks, weights)


def under_maps(
    image: Any,
    theta: Any,
    sampling: Sampling,
    chunks: Any,
    weights: Any = None,
    lines: tuple[Line, ...] = (),
) -> Any:
    """Make the array of a call with maps; ``lines`` are filtered where the mode needs no filter."""
    last = -1 if sampling.options.channels_last() else 1
    lead = 1 if last == -1 else 2
    spatial = image.chunks[lead : lead + len(sampling.spatial)]
    shares = None if weights is None else as_dask(weights, "weights")
    call = Call(
        sampling, Source.of(image, last), image.dtype, theta.dtype, theta,
        weights=None if shares is None else Source.of(shares, last),
        lines=lines or image_lines(sampling, image),
    )  # fmt: skip
    check_sides(sampling, longest_side(sampling, steps_of(theta, sampling)))
    dry_run(call, image.shape[last], len(theta))
    outs = chunks_for(chunks, sampling.out, spatial, image.dtype)
    bounds = bounds_under(sampling, theta, outs)
    return sampled(image, call, outs, bounds, len(theta), weights=shares)


def steps_of(theta: Any, sampling: Sampling) -> list[Any]:
    """Return the differences of coordinates of neighbours along each axis of the result."""
    rank, aligned = len(sampling.out), sampling.options.align_corners
    pixel = sampling.options.coords == "pixel"
    return [
        theta[..., rank - 1 - k].astype(np.float64) * (1.0 if pixel else 2 / max(n - aligned, 1))
        for k, n in enumerate(sampling.out)
    ]


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
        image: an array of 1 to 3 axes: a dask array, or an array with chunks.
        matrix: (D, D); (D,), a diagonal; or (D, D + 1) or (D + 1, D + 1) with the offset in the
            last column.
        offset: a number, or one per axis.
        output_shape: the output's shape; None for the image's.
        order: the order of the spline, 0 to 5.
        output_chunks: the chunks of the output; None for the size of the image's.
        mode: as in `scipy.ndimage.affine_transform`, except for "wrap"; "grid-wrap" is periodic.
        cval: the value outside, for "constant" and "grid-constant".
        prefilter: whether the image is prefiltered for orders above 1.
        threads: the maximum number of threads of each task.

    Returns:
        A dask array of ``output_shape``, with the image's dtype.

    Raises:
        RuntimeError: an order or a mode is unknown.
        ValueError: shapes do not match, or the mode is "wrap".

    Example:
        >>> import dask.array as da, gridsample.dask
        >>> image = da.arange(6.0, chunks=2)
        >>> gridsample.dask.affine_transform(image, [0.5], 1.0, (4,)).compute()
        array([1. , 1.5, 2. , 2.5])
    """
    array = as_dask(image, "image")
    rank = array.ndim
    matrix, shift = pixel_matrix(matrix, offset, rank)
    shape = tuple(array.shape if output_shape is None else output_shape)
    if len(shape) != rank:
        raise ValueError(f"output_shape must have {rank} axes, as the image, got {shape}")
    source = scipy_source(array, order, mode, cval, prefilter)
    theta = np.concatenate([matrix, shift[:, np.newaxis] + source.pad], 1)
    # From z, y, x to x, y, z.
    theta = np.concatenate([theta[::-1, :rank][:, ::-1], theta[::-1, rank:]], 1)
    sampling = sampling_of(
        source.pixels.shape, shape, coords="pixel", real=np.float64, threads=threads,
        **source.options,
    )  # fmt: skip
    chunks = chunks_for(output_chunks, shape, array.chunks, array.dtype)
    result = under_maps(source.pixels, theta[np.newaxis], sampling, chunks, lines=source.lines)
    return result[0, 0]


class ScipySource(NamedTuple):
    """An image as SciPy's functions sample it.

    Attributes:
        pixels: the image with the pixels that SciPy adds, (1, 1, *spatial).
        lines: how it is filtered.
        pad: the number of pixels that are added at each end.
        options: the options of `gridsample.grid_sample`.
    """

    pixels: Any
    lines: tuple[Line, ...]
    pad: int
    options: dict[str, Any]


def scipy_source(array: Any, order: int, mode: str, cval: float, prefilter: bool) -> ScipySource:
    """Prepare a dask array (*spatial) for one of SciPy's modes.

    Raises:
        RuntimeError: the order or the mode is unknown.
        ValueError: the mode is "wrap".
    """
    spline = spline_of(order, mode, cval, prefilter)
    if spline.mode.fold is not None:
        raise ValueError("mode 'wrap' is not supported in chunks; accepted: 'grid-wrap' and others")
    if spline.pad:
        values = {"constant_values": cval} if spline.mode.pad == "constant" else {}
        padded = da.pad(array, spline.pad, mode=spline.mode.pad, **values)
        array = padded.rechunk(tuple([joined(sizes, spline.pad) for sizes in array.chunks]))
    axes = range(2, 2 + array.ndim) if spline.filters else ()
    lines = tuple([Line(axis, order, spline.mode.prefilter) for axis in axes])
    options = {**spline.options, **spline.beyond}
    if spline.mode.fills and order == 1:
        options["padding_mode"] = "border"  # positions inside have no taps outside: it is faster
    return ScipySource(array[np.newaxis, np.newaxis], lines, spline.pad, options)


def joined(sizes: Sequence[int], pad: int) -> tuple[int, ...]:
    """Return chunks of which the first and the last are longer by some pixels."""
    return tuple([n + pad * (k == 0) + pad * (k == len(sizes) - 1) for k, n in enumerate(sizes)])


def pixel_matrix(matrix: Any, offset: Any, rank: int) -> tuple[Any, Any]:
    """Return a matrix (D, D) and an offset (D,) from what SciPy accepts."""
    numbers = np.array(matrix, np.float64)
    shift = np.broadcast_to(np.asarray(offset, np.float64), (rank,))
    if numbers.shape == (rank,):
        return np.diag(numbers), shift
    if numbers.shape == (rank + 1, rank + 1) and np.array_equal(
        numbers[rank], [*[0.0] * rank, 1.0]
    ):
        numbers = numbers[:rank]
    if numbers.shape == (rank, rank + 1):
        return numbers[:, :rank], numbers[:, rank]
    if numbers.shape != (rank, rank):
        raise ValueError(
            f"matrix must be (D, D), (D,), (D, D + 1) or (D + 1, D + 1) with the last row "
            f"0 ... 0 1, for an image of {rank} axes, got shape {numbers.shape}"
        )
    return numbers, shift


def resample(
    image: Any,
    affine: Any,
    like: tuple[Sequence[int], Any],
    transform: Any = None,
    mode: Mode = "bilinear",
    padding_mode: Any = "zeros",
    *,
    axes: str = "ijk",
    chunks: Any = None,
    extrapolate: bool | str = True,
    weights: Any = None,
    **options: Any,
) -> Any:
    """Resample a chunked image to the voxels of another one: `gridsample.resample`, with its bits.

    Args:
        image: (*spatial), (C, *spatial) or (N, C, *spatial): a dask array, or one with chunks.
        affine, like, mode, padding_mode, axes, extrapolate: as in `gridsample.resample`.
        transform: a matrix, or a list of matrices, in millimetres; None for the identity.
        chunks: the chunks of the output's spatial axes; None for the size of the image's.
        weights: the weights of voxels, with as many axes as the image.
        options: other options of `gridsample.resample`.

    Returns:
        A dask array with the axes of the image, or a tuple if ``return_weight`` is set.

    Raises:
        TypeError, ValueError: as in `gridsample.resample`; or the transform is a field or a
            function, which `grid_sample` takes.

    Example:
        >>> import dask.array as da, gridsample.dask
        >>> image = da.from_array([0.0, 10.0, 20.0], chunks=2)  # a voxel each 2 mm
        >>> each_mm = (4,), [[1.0, 1.0], [0.0, 1.0]]  # from 1 mm on
        >>> gridsample.dask.resample(image, [[2.0, 0.0], [0.0, 1.0]], each_mm).compute()
        array([ 5., 10., 15., 20.])
    """
    array = as_dask(image, "image")
    stand_in = np.broadcast_to(np.zeros((), array.dtype), array.shape)
    steps = transform if isinstance(transform, (list, tuple)) else [transform]
    if any(callable(step) or hasattr(step, "vectors") for step in steps):
        raise ValueError(
            "transform must be a matrix or a list of matrices in chunks; for a displacement field "
            "or a function, sample with gridsample.dask.grid_sample"
        )
    call = prepared(stand_in, affine, like, transform, axes, {})
    assert call.theta is not None
    front = (np.newaxis,) * (2 - call.lead)
    pixels = array[front]
    shares = None if weights is None else as_dask(weights, "weights")[front]
    keywords = {"threads": 1, **options, "coords": "pixel", "extrapolate": to_edges(extrapolate)}
    sampling = sampling_of(
        pixels.shape, call.size[2:], mode, padding_mode,
        real=real_type(array.dtype, call.theta.dtype), **keywords,
    )  # fmt: skip
    result = under_maps(pixels, call.theta, sampling, chunks, shares)
    lead: Shape = (0,) * (2 - call.lead)
    return tuple(part[lead] for part in result) if isinstance(result, tuple) else result[lead]
