"""The maps of commands that warp files: the grid of each output pixel, band by band."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsample import fields, io, warp
from gridsample.cli.parsers import RelativeSize
from gridsample.definitions.checks import check_extent
from gridsample.fields.paths import Displacement, path_between
from gridsample.io.fields import read_field
from gridsample.io.geotiff import GeoReference
from gridsample.io.nifti import Header, affine_of_rank, read_geometry
from gridsample.io.transforms import read_transforms

Matrix = NDArray[Any]

# Voxels whose positions differ by less coincide: affines in files have seven digits.
TOLERANCE = 1e-4


class Map(NamedTuple):
    """Where each pixel of an output page is in the input page.

    Attributes:
        canvas: the size of the output, x first.
        grid_at: returns the normalized grid for some rows (slices, for a volume) of the canvas.
        voxels: the map from new to old voxels that the affine of a NIfTI file is multiplied by.
        align_corners: the convention of the grid.
        copies: whether every output pixel shows exactly one input pixel.
        like: the header whose affine the output gets, if it is not that of the input.
        is_smooth: whether neighbours of the output are known to be neighbours of the input, so that
            the area between them can be averaged by default.
    """

    canvas: tuple[int, ...]
    grid_at: Callable[[slice], NDArray[Any]]
    voxels: Matrix
    align_corners: bool = False
    copies: bool = False
    like: Header | None = None
    is_smooth: bool = True


def map_of_arguments(image: io.Image, arguments: argparse.Namespace) -> Map:
    """Return the map that the arguments of `gridsample warp` describe."""
    steps: list[warp.Step] = arguments.steps
    if arguments.grid and (steps or arguments.size):
        raise ValueError("--grid determines the whole warp; it accepts no steps and no --size")
    if arguments.like or arguments.transform:
        if arguments.grid or steps or arguments.size:
            raise ValueError(
                "--like and --transform determine the whole warp; they accept no --grid, no steps "
                "and no --size"
            )
        if "geotiff" in image.extras and not arguments.transform:
            return map_over_ground(image, arguments.like)
        return map_through_world(image, arguments.like, arguments.transform)
    if arguments.grid:
        return map_of_grid(image, arguments.grid, arguments.align_corners)
    canvas = check_canvas(canvas_of(arguments.size, image.size), image)
    inverse = warp.inverse_map(steps, image.size, canvas)
    voxels = warp.window(steps, image.size, canvas)
    return map_of_matrix(image, canvas, inverse, voxels, arguments.align_corners)


def map_of_matrix(
    image: io.Image,
    canvas: tuple[int, ...],
    inverse: Matrix,
    voxels: Matrix,
    align_corners: bool = False,
    like: Header | None = None,
) -> Map:
    """Return the map of a matrix from pixels of the canvas to pixels of the image."""

    def grid_at(rows: slice) -> NDArray[Any]:
        return warp.grid_band(inverse, rows, image.size, canvas, align_corners)

    copies = warp.lands_on_pixels(inverse)
    return Map(canvas, grid_at, voxels, align_corners, copies, like)


def map_of_grid(image: io.Image, path: Path, align_corners: bool) -> Map:
    """Return the map of a file with a normalized grid."""
    grid = _load_grid(path, len(image.size))
    canvas = check_canvas(grid.shape[-2::-1], image)
    voxels = warp.fitted(image.size, canvas, align_corners)
    return Map(canvas, lambda rows: grid[rows], voxels, align_corners, is_smooth=False)


def map_of_flow(image: io.Image, arguments: argparse.Namespace) -> Map:
    """Return the map of a file with displacements in pixels."""
    size, path = image.size, arguments.flow
    flow = read_field(path).array.astype(np.float64)
    if flow.shape[-1] != len(size):
        raise ValueError(
            f"{path} holds a {flow.shape[-1]}-D field, but the image is {'x'.join(map(str, size))}"
        )
    grid = fields.to_normalized(flow, size[::-1], coords="displacement")[0]
    canvas = check_canvas(grid.shape[-2::-1], image)
    return Map(canvas, lambda rows: grid[rows], np.eye(len(size) + 1), is_smooth=False)


def map_over_ground(image: io.Image, path: Path) -> Map:
    """Return the map from the pixels of a GeoTIFF, over the ground, to those of the image."""
    source: GeoReference = image.extras["geotiff"]
    like, target = georeference_of(path)
    inverse: Matrix = np.linalg.inv(source.affine) @ target.affine
    shifts = np.abs(inverse - np.rint(inverse))[:-1] @ [*like.size, 1]  # of the last pixel
    if shifts.max() < TOLERANCE:
        inverse = np.rint(inverse)
    return map_of_matrix(image, check_canvas(like.size, image), inverse, inverse)


def georeference_of(path: Path) -> tuple[io.Image, GeoReference]:
    """Return the first page of the file that --like names, and where its pixels are."""
    with io.pages(path) as pages:
        like = pages[0].image
    target: GeoReference | None = like.extras.get("geotiff")
    if target is None:
        raise ValueError(f"--like {path} is not georeferenced, but the input is")
    return like, target


def map_through_world(image: io.Image, path: Path | None, transforms: Sequence[Path]) -> Map:
    """Return the map from the voxels of a NIfTI file, through the world, to those of the image.

    Args:
        image: the image, from a NIfTI file.
        path: the file that has the voxels of the output; None for those of the image.
        transforms: files with transforms, the first of which is applied first.
    """
    header: Header | None = image.extras.get("nifti")
    if header is None:
        raise ValueError(
            "--like and --transform need NIfTI files, which store the voxels' positions, or --like "
            f"GeoTIFFs; the input is {image.format}"
        )
    rank = len(image.size)
    canvas, like = (image.size, header) if path is None else read_geometry(path)
    if len(canvas) != rank:
        raise ValueError(f"--like {path} is {len(canvas)}-D, but the input is {rank}-D")
    source, target = affine_of_rank(header.affine, rank), affine_of_rank(like.affine, rank)
    canvas = check_canvas(canvas, image)
    steps = [transform for file in transforms for transform in read_transforms(file)]
    for transform in steps:
        matrix = transform.affine if isinstance(transform, Displacement) else transform
        if len(matrix) != rank + 1:
            raise ValueError(f"--transform is {len(matrix) - 1}-D, but the input is {rank}-D")
    path_through = path_between(source, (canvas[::-1], target), steps, "xyz")
    if not path_through.steps:
        inverse: Matrix = np.vstack([path_through.maps[0], np.eye(rank + 1)[rank:]])
        shifts = np.abs(inverse - np.rint(inverse))[:-1] @ [*canvas, 1]  # of the last voxel
        if shifts.max() < TOLERANCE:
            inverse = np.rint(inverse)
        return map_of_matrix(image, canvas, inverse, np.eye(rank + 1), like=like)

    def grid_at(rows: slice) -> NDArray[Any]:
        block = (rows, *(slice(0, n) for n in canvas[-2::-1]))
        grid = path_through.positions(block)[0]
        normalized: NDArray[Any] = fields.to_normalized(grid, image.size[::-1], coords="pixel")
        return normalized

    return Map(canvas, grid_at, np.eye(rank + 1), like=like)


# What is common to maps ---------------------------------------------------------------------------


def check_canvas(size: tuple[int, ...], image: io.Image) -> tuple[int, ...]:
    """Return the size of an output page, or raise an error if no array can have it."""
    check_extent("the output", (*size[::-1], image.channels), image.array.dtype.itemsize)
    return size


def canvas_of(requested: RelativeSize | None, size: tuple[int, ...]) -> tuple[int, ...]:
    """Return the requested size, or that of the input.

    >>> canvas_of(RelativeSize((640,)), (1280, 960)), canvas_of(RelativeSize((), 0.5), (1280, 960))
    ((640, 480), (640, 480))
    """
    if requested is None:
        return size
    if not requested.lengths:
        return scaled(size, [requested.share] * len(size), math.floor)
    lengths = requested.lengths + (None,) * (len(size) - len(requested.lengths))
    known = [(k, length) for k, length in enumerate(lengths) if length is not None]
    if len(lengths) != len(size) or 1 < len(known) < len(size):
        form = "WxH" if len(size) == 2 else "WxHxD"
        raise ValueError(
            f"--size has {len(known)} numbers, but the input is {'x'.join(map(str, size))}: give "
            f"{form}, or one number, and the others follow"
        )
    if len(known) == len(size):
        return tuple(length for _, length in known)
    ((axis, length),) = known
    others = scaled(size, [length / size[axis]] * len(size), round)
    return (*others[:axis], length, *others[axis + 1 :])


def scaled(
    size: Sequence[int], factors: Sequence[float], rounding: Callable[[float], int]
) -> tuple[int, ...]:
    """Return a size times factors, in whole pixels, at least one.

    A product that floating point has moved off an integer is that integer.

    >>> scaled((100,), [0.29], math.floor)
    (29,)
    """
    # The limit is larger than any size, but finite.
    products = (min(n * s, 1e30) for n, s in zip(size, factors, strict=True))
    whole = (round(p) if math.isclose(p, round(p), rel_tol=1e-9) else rounding(p) for p in products)
    return tuple(max(1, n) for n in whole)


def _load_grid(path: Path, rank: int) -> NDArray[Any]:
    """Memory-map a grid file: (H', W', 2), (1, H', W', 2), or for volumes (D', H', W', 3)."""
    grid = io.load_npy(path)
    if grid.ndim == rank + 2 and grid.shape[0] == 1:
        grid = grid[0]
    if grid.dtype.kind != "f" or grid.ndim != rank + 1 or grid.shape[-1] != rank:
        accepted = "(H', W', 2) for a picture" if rank == 2 else "(D', H', W', 3) for a volume"
        raise ValueError(
            f"--grid {path} has shape {grid.shape} and dtype {grid.dtype}; "
            f"accepted: floating-point {accepted}"
        )
    return grid
