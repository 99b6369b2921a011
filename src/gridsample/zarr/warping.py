"""Warps: sampling an image block by block, each from the part of the image that it shows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsample.chunked.blocks import (
    check_footprints,
    sample_grid,
    sample_maps,
    with_level,
    with_neighbours,
)
from gridsample.chunked.means import check_means
from gridsample.chunked.regions import (
    Block,
    Sampling,
    bounds_of_grid,
    bounds_of_maps,
    region_of,
    sampling_of,
    sum_type,
)
from gridsample.chunked.splines import fill_of, lines_of
from gridsample.chunked.windows import Window
from gridsample.definitions.boundaries import MISSING
from gridsample.definitions.footprints import MAX_SAMPLES
from gridsample.definitions.labels import has_labels
from gridsample.definitions.methods import Mode, listed
from gridsample.io.image import FileError
from gridsample.io.omezarr import (
    Affine,
    Multiscale,
    check_voxels,
    read_multiscale,
    resampled_affine,
    write_metadata,
)
from gridsample.io.stores import ChunkReader, Region, Traffic
from gridsample.ops.affine import affine_sample
from gridsample.ops.sampling import grid_sample
from gridsample.warp import copies_pixels
from gridsample.world import Displacement
from gridsample.zarr.computed import Coefficients, at_level
from gridsample.zarr.layouts import AS_INPUT, Job, Layout, Progress, from_planes, planes_of
from gridsample.zarr.missing import name_number, nodata_of, reader_of, stored

Array = NDArray[Any]


def warp(
    source: Any,
    output: Any,
    matrix: Any = None,
    size: Sequence[int] | None = None,
    mode: Mode = "linear",
    padding_mode: Mode = "zeros",
    *,
    like: Any = None,
    transform: Sequence[Any] = (),
    voxels: Any = None,
    fill_value: Any = 0,
    extrapolate: bool | str = True,
    prefilter: bool = True,
    antialias: bool = False,
    max_samples: int = MAX_SAMPLES,
    missing: str = "propagate",
    min_weight: float = 0.0,
    nodata: float | None = None,
    axes: str | None = None,
    layout: Layout = AS_INPUT,
    threads: int | None = None,
    overwrite: bool = False,
    progress: Progress = lambda share: None,
) -> Traffic:
    """Sample an image of a Zarr store at new positions, and write the result to another store.

    The results are those of `gridsample.affine_sample` or `gridsample.grid_sample` for the whole
    image in memory, bit for bit; splines differ by rounding.  Each chunk of the output is
    computed from those chunks of the source that it shows.

    Without ``like`` and ``transform``, the output pixel with the indices v shows the image at the
    indices ``matrix @ v``.  With them, it shows the image at

        inverse(affine) @ transform(like_affine @ v)

    where the affines are those of the OME-Zarr metadata, as in `gridsample.resample`.

    Args:
        source: the folder or the address of a Zarr array or of an OME-Zarr image, or a Zarr store;
            see `gridsample.io.omezarr.read_multiscale`.  The finest level is read.
        output: the folder to create, or an empty Zarr store or its address,
            for an OME-Zarr image with one level.
        matrix: (D + 1, D + 1) or (D, D + 1) for D spatial axes in the order of the array, z, y, x;
            None for the identity.
        size: the output's size along the spatial axes; None for the source's, or that of ``like``.
        mode: the interpolation method, as in `grid_sample`.
        padding_mode: the boundary, as in `grid_sample`.
        like: an image whose pixels the output has: its size, and its position in the world.
        transform: matrices (D + 1, D + 1) and `gridsample.world.Displacement`s from the output's
            world to the source's, the first applied first, in the order of the axes, such as
            `gridsample.io.rfc5.read_transformations` returns.
        voxels: (D + 1, D + 1), from the output's pixels to the source's pixels at the same place in
            the world, for the metadata of the output; None for the identity.
        fill_value: the value outside, as in `grid_sample`; one number for all channels.
        extrapolate, prefilter, antialias, max_samples, missing, min_weight: as in `grid_sample`.
        nodata: the number that stands for missing pixels, beside NaN; None for the attribute
            ``_FillValue`` of the source's array, if it has one, and NaN for no number.  Missing
            results have this number, too.
        axes: the names of the source's axes, such as "cyx"; None for those in its metadata.
        layout: chunks, shards and Zarr version of the output.
        threads: how many chunks are computed at a time; None for one per core.
        overwrite: whether to replace the output if it exists.
        progress: called with the share of the work that is done, up to 1.0.

    Returns:
        What was read and written.

    Raises:
        FileError: a source is not a Zarr store, or the output cannot be written.
        MissingExtraError: `zarr` is not installed.
        TypeError: an argument is not accepted.
        ValueError: an argument is not accepted.

    Example:
        >>> import tempfile
        >>> import numpy as np, zarr, gridsample.zarr
        >>> folder = tempfile.mkdtemp()
        >>> _ = zarr.create_array(folder + "/in", data=np.arange(5.0), chunks=(2,))
        >>> _ = gridsample.zarr.warp(folder + "/in", folder + "/out", [[1.0, 0.5], [0.0, 1.0]])
        >>> zarr.open(folder + "/out")["0"][:]
        array([0.5, 1.5, 2.5, 3.5, 2. ])
    """
    job = Job.of(source, output, axes, layout, threads, overwrite, progress)
    pixel_map = pixel_map_of(job.image, matrix, size, like, transform, voxels)
    check_voxels(pixel_map.affine, job.layout.zarr_format)
    if np.size(fill_value) != 1:
        raise ValueError(f"fill_value must be one number for Zarr stores, got {fill_value!r}")
    options: dict[str, Any] = {
        "mode": mode,
        "padding_mode": padding_mode,
        "fill_value": fill_value,
        "extrapolate": extrapolate,
        "prefilter": prefilter,
        "antialias": antialias,
        "max_samples": max_samples,
        "missing": missing,
        "min_weight": min_weight,
        "threads": 1,
    }
    copies = (copies_pixels(mode, len(job.spatial)) and not antialias) or has_labels(mode)
    copies = copies and (has_labels(mode) or MISSING not in listed(padding_mode))
    missing_pixels = nodata_of(job.array, nodata, missing, copies)
    reader = reader_of(job.array, missing_pixels)
    call = call_of(job, pixel_map, options, reader.dtype)
    steps = [describe_step(step) for step in pixel_map.steps]
    recipe = {"command": "warp", "affine": pixel_map.affine.tolist(), "steps": steps}
    recipe["options"] = repr(sorted(options.items()))
    recipe["nodata"] = None if missing_pixels is None else repr(missing_pixels.number)
    with job.output([job.shape(pixel_map.size)], recipe) as out:
        dtype = reader.dtype
        lines = lines_of(call, job.spatial, fill_of(call, dtype, 1, 0))
        if lines:
            wide = sum_type(dtype, wide=True)
            reader = ChunkReader(Coefficients(reader, lines, wide))
        reader = at_level(reader, job.spatial, call)
        warper = Warper(call, pixel_map, reader, job.spatial, dtype)
        out.fill(0, stored(warper.compute, missing_pixels))
        name_number(out.arrays, nodata)
        write_metadata(out.group, job.image, pixel_map.affine, name=job.name)
    return job.traffic


# From the output to the image ---------------------------------------------------------------------


class PixelMap(NamedTuple):
    """The map from the pixels of an output to those of the image.

    Attributes:
        size: the output's spatial shape.
        steps: matrices (D + 1, D + 1) and displacement fields, the first applied first, in the
            order of the axes; the first starts from pixels of the output.
        affine: from indices of the output to the world, for all axes.
    """

    size: tuple[int, ...]
    steps: tuple[Any, ...]
    affine: Affine


def pixel_map_of(
    image: Multiscale, matrix: Any, size: Any, like: Any, transform: Sequence[Any], voxels: Any
) -> PixelMap:
    """Check the arguments that describe a warp."""
    spatial, rank = image.spatial, len(image.spatial)
    if rank not in (1, 2, 3):
        raise FileError(f"the image has {rank} spatial axes; 1 to 3 are accepted")
    is_world = like is not None or len(transform) > 0
    if is_world and (matrix is not None or voxels is not None):
        raise ValueError("give either a matrix of pixels, or like and transform")
    default_size = tuple(image.arrays[0].shape[k] for k in spatial)
    affine = image.affines[0]
    if like is not None:
        other = read_multiscale(like)
        if len(other.spatial) != rank:
            raise FileError(f"{like} has {len(other.spatial)} spatial axes, but the image {rank}")
        default_size = tuple(other.arrays[0].shape[k] for k in other.spatial)
        kept_axes = [*spatial, len(affine) - 1]
        affine = affine.copy()
        affine[np.ix_(kept_axes, kept_axes)] = other.spatial_affine()
    shape = default_size if size is None else tuple(int(n) for n in size)
    if len(shape) != rank or min(shape) < 1:
        raise ValueError(f"size must be {rank} positive integers, got {size!r}")
    if not is_world:
        new_voxels = np.eye(rank + 1) if voxels is None else check_matrix(voxels, rank, "voxels")
        full_matrix = np.eye(rank + 1) if matrix is None else check_matrix(matrix, rank, "matrix")
        return PixelMap(shape, (full_matrix,), resampled_affine(affine, new_voxels, spatial))
    start, end = affine[np.ix_([*spatial, -1], [*spatial, -1])], image.spatial_affine()
    try:
        inverse = np.linalg.inv(end)
    except np.linalg.LinAlgError:
        raise FileError("the affine map of the image is singular") from None
    steps = [start, *transform, inverse]
    for step in steps:
        check_matrix(step.affine if isinstance(step, Displacement) else step, rank, "transform")
    return PixelMap(shape, merge_matrices(steps), affine)


def check_matrix(matrix: Any, rank: int, name: str) -> Affine:
    """Return a matrix as (D + 1, D + 1), or raise an error."""
    full_matrix = np.eye(rank + 1)
    values = np.asarray(matrix, np.float64)
    is_matrix = values.shape in ((rank, rank + 1), (rank + 1, rank + 1))
    if not is_matrix or not np.isfinite(values).all():
        raise ValueError(
            f"{name} must be a matrix of finite numbers, ({rank + 1}, {rank + 1}), for "
            f"{rank} spatial axes; got the shape {values.shape}"
        )
    full_matrix[: len(values)] = values
    if not np.array_equal(full_matrix[-1], np.eye(rank + 1)[-1]):
        raise ValueError(f"{name} must be affine: its last row must be 0 ... 0 1")
    return full_matrix


def merge_matrices(steps: Sequence[Any]) -> tuple[Any, ...]:
    """Multiply matrices that follow each other."""
    result: list[Any] = []
    for step in steps:
        is_field = isinstance(step, Displacement)
        if is_field or not result or isinstance(result[-1], Displacement):
            result.append(step if is_field else np.asarray(step, np.float64))
        else:
            result[-1] = step @ result[-1]
    return tuple(result)


def describe_step(step: Any) -> Any:
    """Describe a step, so that a warp is continued only with the same ones."""
    if not isinstance(step, Displacement):
        return step.tolist()
    digest = hashlib.sha256(np.ascontiguousarray(step.vectors).tobytes()).hexdigest()
    return [digest, np.asarray(step.affine).tolist()]


# Blocks -------------------------------------------------------------------------------------------


def call_of(
    job: Job, pixel_map: PixelMap, options: dict[str, Any], dtype: np.dtype[Any]
) -> Sampling:
    """Check the options of sampling pixels of a dtype."""
    rank, real = len(job.spatial), np.float64
    call = sampling_of((1, 1, *job.inputs), pixel_map.size, coords="pixel", real=real, **options)
    # Errors of the dtype, and of combinations, are raised before anything is written.
    pixel, identity = np.zeros((1, 1) + (1,) * rank, dtype), np.eye(rank, rank + 1)[np.newaxis]
    affine_sample(pixel, identity, pixel.shape, coords="pixel", **options)
    if len(pixel_map.steps) == 1:
        theta = theta_of(pixel_map.steps[0])
        call = with_level(call, [theta[..., d] for d in range(rank)])
    check_means(call, dtype)
    return call


def theta_of(matrix: Affine) -> Array:
    """Convert a matrix of indices in the order of the axes to one of x, y, z, (1, D, D + 1)."""
    rank = len(matrix) - 1
    order = [*range(rank - 1, -1, -1), rank]
    return np.ascontiguousarray(matrix[np.ix_(order, order)][np.newaxis, :rank])


class Warper(NamedTuple):
    """Computes regions of a warped image.

    Attributes:
        call: the call of the whole image.
        pixel_map: from the output to the image.
        reader: reads the image, or its coefficients.
        spatial: which axes are spatial.
        dtype: the dtype of the image.
    """

    call: Sampling
    pixel_map: PixelMap
    reader: ChunkReader
    spatial: tuple[int, ...]
    dtype: np.dtype[Any]

    def compute(self, region: Region) -> Array:
        """Compute a region of the output, with all axes."""
        block: Block = tuple(region[k] for k in self.spatial)
        shape = [part.stop - part.start for part in region]
        if len(self.pixel_map.steps) == 1:
            theta = theta_of(self.pixel_map.steps[0])
            window = self.window(bounds_of_maps(self.call, theta, block), region)
            planes = sample_maps(self.call, window, theta, block, dtype=self.dtype)
        else:
            grid = self.positions(with_neighbours(self.call, block))
            check_footprints(self.call, grid, block)  # before much of the image is read
            window = self.window(bounds_of_grid(self.call, grid), region)
            planes = sample_grid(self.call, window, grid, block, dtype=self.dtype)
        return from_planes(planes, shape, self.spatial)

    def window(self, bounds: Any, region: Region) -> Window:
        """Read the pixels that a region needs."""
        needed = region_of(self.call, bounds)
        others = [k for k in range(len(region)) if k not in self.spatial]
        planes = int(np.prod([region[k].stop - region[k].start for k in others], dtype=int))
        window = Window(needed, (1, planes, *self.call.spatial), self.reader.dtype)
        for box in needed.boxes():
            source_region = list(region)
            for k, part in zip(self.spatial, box, strict=True):
                source_region[k] = part
            window.write(box, planes_of(self.reader[tuple(source_region)], self.spatial))
        return window

    def positions(self, block: Block) -> Array:
        """Return the grid of a block's points in pixels, (1, *block, D), x first.

        Each point is computed by itself, so that it does not depend on the block.
        """
        indices = np.meshgrid(
            *(np.arange(part.start, part.stop, dtype=np.float64) for part in block), indexing="ij"
        )
        points = np.stack(indices, -1)
        for step in self.pixel_map.steps:
            if isinstance(step, Displacement):
                points = points + displacements(step, points)
            else:
                points = apply_matrix(step, points)
        return np.ascontiguousarray(points[np.newaxis, ..., ::-1])


def apply_matrix(matrix: Affine, points: Array) -> Array:
    """Apply a matrix to points (..., D); every sum is taken in the same order."""
    rank = points.shape[-1]
    result = np.empty_like(points)
    for k in range(rank):
        line = points[..., 0] * matrix[k, 0]
        for j in range(1, rank):
            line += points[..., j] * matrix[k, j]
        result[..., k] = line + matrix[k, rank]
    return result


def displacements(step: Displacement, points: Array) -> Array:
    """Interpolate a displacement field at points of the world; beyond its voxels, it is 0."""
    # With channels first, the bits of a point do not depend on the points beside it.
    vectors = np.ascontiguousarray(np.moveaxis(np.asarray(step.vectors, np.float64), -1, 0))
    positions = apply_matrix(np.linalg.inv(np.asarray(step.affine, np.float64)), points)
    grid = np.ascontiguousarray(positions.reshape(1, -1, positions.shape[-1])[..., ::-1])
    options: dict[str, Any] = {"coords": "pixel", "extrapolate": "edges", "threads": 1}
    sampled = grid_sample(vectors[np.newaxis], grid, "linear", "border", **options)
    result: Array = np.moveaxis(sampled[0], 0, -1).reshape(points.shape)
    return result
