"""Warps: sampling an image block by block, each from the part of the image that it shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsample.chunked.blocks import sample_block, with_level, with_neighbours
from gridsample.chunked.means import check_means
from gridsample.chunked.regions import Block, Sampling, real_type, sampling_of, sum_type
from gridsample.chunked.splines import fill_of, lines_of
from gridsample.definitions.coords import Extrapolate
from gridsample.definitions.footprints import MAX_SAMPLES
from gridsample.definitions.lattice import Lattice
from gridsample.definitions.methods import Mode, Padding
from gridsample.definitions.names import MissingName
from gridsample.definitions.shapes import Shape
from gridsample.fields.arrays import check_size
from gridsample.fields.paths import Path, named_steps, path_between, position_type
from gridsample.io.image import FileError
from gridsample.io.omezarr import (
    Affine,
    Multiscale,
    check_voxels,
    read_multiscale,
    resampled_affine,
    write_metadata,
)
from gridsample.io.stores import Traffic
from gridsample.ops.affine import affine_sample
from gridsample.warp import copies_pixels
from gridsample.world import to_edges
from gridsample.zarr.computed import at_level, filtered
from gridsample.zarr.layouts import AS_INPUT, Job, Layout, Progress
from gridsample.zarr.missing import name_number, nodata_of, reader_of, stored
from gridsample.zarr.planes import StoredPlanes, by_planes

Array = NDArray[Any]


def warp(
    source: Any,
    output: Any,
    matrix: Any = None,
    size: Sequence[int] | None = None,
    mode: Mode = "linear",
    padding_mode: Padding = "zeros",
    *,
    like: Any = None,
    transform: Any = (),
    voxels: Any = None,
    fill_value: Any = 0,
    extrapolate: Extrapolate = True,
    prefilter: bool = True,
    antialias: bool = False,
    max_samples: int = MAX_SAMPLES,
    missing: MissingName = "propagate",
    min_weight: float = 0.0,
    nodata: float | None = None,
    axes: str | None = None,
    layout: Layout = AS_INPUT,
    threads: int | None = None,
    overwrite: bool = False,
    progress: Progress = lambda share: None,
) -> Traffic:
    """Sample an image of a Zarr store at new positions, and write the result to another store.

    The results are those of calls for the whole image in memory, bit for bit; splines differ by
    rounding.  Each chunk of the output is computed from those chunks of the source that it shows.

    Without ``like`` and ``transform``, the output pixel with the indices v shows the image at the
    indices ``matrix @ v``, as in `gridsample.affine_sample` with that matrix in float64.  With
    them, it shows the image at

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
        like: the output's size and its position in the world: a store of an image whose pixels it
            has, a `gridsample.world.Lattice`, or (shape, affine).  Its units, if it states any, are
            those of the source.
        transform: from the output's world to the source's, as in `gridsample.resample`: a matrix
            (D + 1, D + 1), a `gridsample.world.Displacement`, a function of points, or a list of
            these, the first applied first, such as `gridsample.io.rfc5.read_transformations`
            returns.  The axes of the world are in the order of the array's.  A function gets the
            points of a block; an output that was interrupted does not continue with it.
        voxels: (D + 1, D + 1), from the output's pixels to the source's pixels at the same place in
            the world, for the metadata of the output; None for the identity.
        fill_value: the value outside, as in `grid_sample`; one number for all channels.
        extrapolate: as in `grid_sample`; with ``like`` or ``transform``, as in
            `gridsample.resample`, where False stands for "edges".
        prefilter, antialias, max_samples, missing, min_weight: as in `grid_sample`.
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
        "extrapolate": to_edges(extrapolate) if pixel_map.is_world else extrapolate,
        "prefilter": prefilter,
        "antialias": antialias,
        "max_samples": max_samples,
        "missing": missing,
        "min_weight": min_weight,
        "threads": 1,
    }
    copies = copies_pixels(mode, len(job.spatial), antialias=antialias, padding_mode=padding_mode)
    missing_pixels = nodata_of(job.array, nodata, missing, copies)
    reader = reader_of(job.array, missing_pixels)
    pixel_map = pixel_map.for_pixels(reader.dtype, job.inputs)
    call = call_of(job, pixel_map, options, reader.dtype)
    recipe = {"command": "warp", "affine": pixel_map.affine.tolist()}
    recipe["steps"] = pixel_map.path.description()
    recipe["options"] = repr(sorted(options.items()))
    recipe["nodata"] = None if missing_pixels is None else repr(missing_pixels.number)
    with job.output([job.shape(pixel_map.path.out)], recipe) as out:
        dtype = reader.dtype
        lines = lines_of(call, job.spatial, fill_of(call, dtype, 1, 0))
        wide = sum_type(dtype, wide=pixel_map.path.dtype == np.float64)
        reader = at_level(filtered(reader, lines, wide), job.spatial, call)
        warp_block = partial(warped_block, call=call, path=pixel_map.path, dtype=dtype)
        out.fill(0, stored(by_planes(warp_block, reader, job.spatial), missing_pixels))
        name_number(out.arrays, nodata)
        write_metadata(out.group, job.image, pixel_map.affine, name=job.name)
    return job.traffic


# From the output to the image ---------------------------------------------------------------------


class PixelMap(NamedTuple):
    """The map from the pixels of an output to those of the image.

    Attributes:
        path: the path.
        affine: from indices of the output to the world, for all axes.
        is_world: whether the path leads through the world, rather than being a matrix of pixels.
    """

    path: Path
    affine: Affine
    is_world: bool

    def for_pixels(self, dtype: np.dtype[Any], spatial: Shape) -> PixelMap:
        """Return the map for an image of a dtype and a spatial shape."""
        if not self.is_world:
            return self
        real = np.dtype(position_type(dtype.name, spatial, self.path.out))
        return self._replace(path=replace(self.path, dtype=real))


def pixel_map_of(
    image: Multiscale, matrix: Any, size: Any, like: Any, transform: Any, voxels: Any
) -> PixelMap:
    """Check the arguments that describe a warp."""
    spatial, rank = image.spatial, len(image.spatial)
    if rank not in (1, 2, 3):
        raise FileError(f"the image has {rank} spatial axes; 1 to 3 are accepted")
    is_world = like is not None or len(named_steps(transform)) > 0
    if is_world and (matrix is not None or voxels is not None):
        raise ValueError("give either a matrix of pixels, or like and transform")
    lattice = image.lattice() if like is None else lattice_of(like, rank)
    check_units(image.lattice(), lattice)
    shape = check_size(lattice.shape if size is None else size, rank, "size")
    affine = image.affines[0]
    if not is_world:
        new_voxels = np.eye(rank + 1) if voxels is None else check_matrix(voxels, rank, "voxels")
        full_matrix = np.eye(rank + 1) if matrix is None else check_matrix(matrix, rank, "matrix")
        path = Path(shape, theta_of(full_matrix), (), np.dtype(np.float64))
        return PixelMap(path, resampled_affine(affine, new_voxels, spatial), is_world)
    source = image.spatial_affine()
    if np.linalg.matrix_rank(source) <= rank:
        raise FileError("the affine map of the image is singular")
    path = path_between(source, (shape, lattice.affine), transform)
    if path.items > 1:
        raise ValueError("like and transform must not be batches for Zarr stores")
    kept_axes = [*spatial, len(affine) - 1]
    affine = affine.copy()
    affine[np.ix_(kept_axes, kept_axes)] = lattice.affine
    return PixelMap(path, affine, is_world)


def lattice_of(like: Any, rank: int) -> Lattice:
    """Return the lattice of an argument ``like``, which may be an image's store."""
    if isinstance(like, (Lattice, tuple, list)):
        given = Lattice.of(like)
        shape = check_size(given.shape, rank, "like[0]")
        return replace(given, shape=shape, affine=check_matrix(given.affine, rank, "like[1]"))
    other = read_multiscale(like)
    if len(other.spatial) != rank:
        raise FileError(f"{like} has {len(other.spatial)} spatial axes, but the image {rank}")
    return other.lattice()


def check_units(image: Lattice, like: Lattice) -> None:
    """Raise an error if an axis of the world has one unit in an image and another one in a like."""
    for axis, (own, other) in enumerate(zip(image.units, like.units, strict=False)):
        if own and other and own != other:
            raise ValueError(
                f"like must have the units of the image, {own!r} along the spatial axis {axis}, "
                f"got {other!r}; scale its affine"
            )


def check_matrix(matrix: Any, rank: int, name: str) -> Affine:
    """Return a matrix as (D + 1, D + 1), or raise an error; a batch of one is a matrix."""
    full_matrix = np.eye(rank + 1)
    try:
        given = np.asarray(matrix)
    except ValueError:  # rows of several lengths
        given = np.asarray(None)
    if given.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be a matrix of real numbers, got {matrix!r}")
    values = given.astype(np.float64)
    if values.ndim == 3 and len(values) == 1:
        values = values[0]
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


def theta_of(matrix: Affine) -> Array:
    """Convert a matrix of indices in the order of the axes to one of x, y, z, (1, D, D + 1)."""
    rank = len(matrix) - 1
    order = [*range(rank - 1, -1, -1), rank]
    return np.ascontiguousarray(matrix[np.ix_(order, order)][np.newaxis, :rank])


# Blocks -------------------------------------------------------------------------------------------


def call_of(
    job: Job, pixel_map: PixelMap, options: dict[str, Any], dtype: np.dtype[Any]
) -> Sampling:
    """Check the options of sampling pixels of a dtype."""
    path, rank = pixel_map.path, len(job.spatial)
    real = real_type(dtype, path.dtype)
    call = sampling_of((1, 1, *job.inputs), path.out, coords="pixel", real=real, **options)
    # Errors of the dtype, and of combinations, are raised before anything is written.
    pixel, identity = np.zeros((1, 1) + (1,) * rank, dtype), np.eye(rank, rank + 1)[np.newaxis]
    affine_sample(pixel, identity, pixel.shape, coords="pixel", **options)
    if path.steps:
        path.positions((slice(0, 1),) * rank, threads=1)
    else:
        theta = path.theta()
        call = with_level(call, [theta[..., d] for d in range(rank)])
    check_means(call, dtype)
    return call


def warped_block(
    block: Block, image: StoredPlanes, call: Sampling, path: Path, dtype: np.dtype[Any]
) -> Array:
    """Compute a block of a warped image.

    Args:
        block: the block.
        image: the image, its coefficients, or its copy at the level of the call.
        call: the call of the whole image.
        path: from the output to the image.
        dtype: the dtype of the image itself.
    """
    points = path.theta()
    if path.steps:
        points = path.positions(with_neighbours(call, block), threads=1)
    planes: Array = sample_block(call, block, points, image, dtype)
    return planes
