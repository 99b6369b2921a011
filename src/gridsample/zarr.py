"""Warping, resizing and pyramids of images in Zarr stores, which may be larger than memory.

Input and output are folders with Zarr arrays or OME-Zarr images, of Zarr version 2 or 3, with
shards or without.  The output is computed chunk by chunk, or shard by shard, by several threads.
It appears at its path when it is complete.  A call that was ended, even by `kill -9`, continues
when it is repeated: what is finished is not computed again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsample._version import __version__
from gridsample.definitions.plan import check_threads, find_method
from gridsample.io.image import FileError, require
from gridsample.io.omezarr import (
    Multiscale,
    blocks_affine,
    create_array,
    halved,
    moved,
    read_multiscale,
    write_metadata,
)
from gridsample.io.stores import (
    ChunkReader,
    Region,
    Traffic,
    count_files,
    counting_store,
    fill,
    resumable,
)
from gridsample.ops.resizing import interpolate

__all__ = ["Traffic", "pyramid"]

Progress = Callable[[float], None]


class Layout(NamedTuple):
    """How an output is stored.

    Attributes:
        chunks: the shape of a chunk, for the spatial axes or for all; None for the input's.
        shards: the shape of a shard, in the same way; None for no shards, or for the input's if
            chunks are the input's.
        zarr_format: 2 or 3; None for the input's.
    """

    chunks: Sequence[int] | None = None
    shards: Sequence[int] | None = None
    zarr_format: int | None = None


AS_INPUT = Layout()


def pyramid(
    source: Path | str,
    output: Path | str,
    *,
    levels: int | None = None,
    mode: str | None = None,
    axes: str | None = None,
    halve: str | None = None,
    missing: str = "propagate",
    layout: Layout = AS_INPUT,
    threads: int | None = None,
    overwrite: bool = False,
    progress: Progress = lambda share: None,
) -> Traffic:
    """Write an image and its halved copies as an OME-Zarr image.

    Each level has half as many pixels along each spatial axis as the one before, rounded up.  A
    pixel is the mean of two pixels along each axis, or the most frequent of their labels.  At the
    end of an odd axis there is only one; means weight pixels by the part that is on the image.  So
    the pixels of level k are the means of blocks of 2**k pixels, as far as these exist, apart from
    the rounding of integers at each level.  Blocks start at the first pixel: level k has exactly
    the scale 2**k and the translation (2**k - 1) / 2, in units of the first level's spacing.

    Args:
        source: the folder of a Zarr array or of an OME-Zarr image, whose finest level is read.
        output: the folder to create.
        levels: the number of levels, the first included; None until the image fits into one chunk.
        mode: "linear" for means, "label" for votes, of which the smallest label wins a tie; None
            for "label" if the source is marked as a label image, otherwise "linear".
        axes: the names of the source's axes, such as "cyx"; None for those in its metadata.
        halve: the names of the axes to halve, such as "yx"; None for all spatial axes.
        missing: "propagate" or "ignore" NaN, as in `gridsample.interpolate`.
        layout: chunks, shards and Zarr version of the output.
        threads: how many chunks are computed at a time; None for one per core.
        overwrite: whether to replace the output if it exists.
        progress: called with the share of the work that is done, up to 1.0.

    Returns:
        What was read and written.

    Raises:
        FileError: the source is no Zarr store, or the output cannot be written.
        MissingExtraError: `zarr` is not installed.
        TypeError: the pixels cannot be averaged, or labels are not integers.
        ValueError: an argument is not accepted.

    Example:
        >>> import tempfile
        >>> import numpy as np, zarr, gridsample.zarr
        >>> folder = tempfile.mkdtemp()
        >>> _ = zarr.create_array(folder + "/in", data=np.arange(5.0), chunks=(2,))
        >>> _ = gridsample.zarr.pyramid(folder + "/in", folder + "/out")
        >>> [zarr.open(folder + "/out")[level][:].tolist() for level in ("1", "2")]
        [[0.5, 2.5, 4.0], [1.5, 4.0]]
    """
    check_threads(threads)
    if levels is not None and levels < 1:
        raise ValueError(f"levels must be at least 1, got {levels}")
    traffic = Traffic()
    image = opened(source, axes, traffic)
    mode = mode or ("label" if "image-label" in image.extras else "linear")
    check_halving(mode)
    base = image.arrays[0]
    halving = halved_axes(image, halve)
    stored = stored_as(base, image.spatial, layout)
    shapes, factors = level_shapes(base.shape, halving, stored.chunks, levels)
    recipe = {
        "command": "pyramid", "version": __version__, "source": described(source, base),
        "mode": mode, "missing": missing, "shapes": shapes, "layout": stored._asdict(),
    }  # fmt: skip
    with resumable(Path(output), recipe, overwrite=overwrite) as folder:
        group, arrays = created(folder, image, shapes, base.dtype, stored, traffic)
        report = reporter(arrays, traffic, progress)
        workers = threads or os.cpu_count() or 1
        reader = ChunkReader(base)
        for level, array in enumerate(arrays):
            if level == 0:
                fill(array, folder, reader.__getitem__, traffic, workers, report)
                continue
            steps = [b // a for a, b in zip(factors[level - 1], factors[level], strict=True)]
            finer = ChunkReader(arrays[level - 1])

            halve_region = partial(
                halved_region, finer=finer, steps=steps, spatial=image.spatial, mode=mode,
                missing=missing, shares=last_shares(base.shape, factors[level - 1]),
            )  # fmt: skip
            fill(array, folder, halve_region, traffic, workers, report)
        affines = [
            moved(image.affines[0], blocks_affine([each[k] for k in image.spatial]), image.spatial)
            for each in factors
        ]
        write_metadata(group, image.axes, affines, image.extras, image.name, mode)
    return traffic


def opened(source: Path | str, axes: str | None, traffic: Traffic) -> Multiscale:
    """Open an image whose reads are counted."""
    path = Path(source)
    if not path.is_dir():
        raise FileError(f"there is no folder {path}")
    return read_multiscale(path, axes, counting_store(path, traffic, read_only=True))


def check_halving(mode: str) -> None:
    """Raise an error unless a method at half scale reads exactly two pixels along an axis."""
    if find_method(mode).name not in ("linear", "label"):
        raise ValueError(f"mode must be 'linear' or 'label' for a pyramid, got {mode!r}")


def halved_axes(image: Multiscale, names: str | None) -> tuple[int, ...]:
    """Return the axes to halve by their names."""
    known = {image.axes[k]["name"]: k for k in image.spatial}
    if names is None:
        return image.spatial
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ValueError(
            f"halve must name some of the spatial axes {''.join(known)}, got {names!r}"
        )
    return tuple(known[name] for name in names)


def level_shapes(
    shape: tuple[int, ...], halving: Sequence[int], chunks: Sequence[int], levels: int | None
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Return the shape of each level, and the pixels of the first level in one of its pixels.

    >>> level_shapes((1, 9, 5), (1, 2), (1, 4, 4), None)
    ([(1, 9, 5), (1, 5, 3), (1, 3, 2)], [(1, 1, 1), (1, 2, 2), (1, 4, 4)])
    """
    shapes, factors = [shape], [(1,) * len(shape)]
    while levels is None or len(shapes) < levels:
        last = shapes[-1]
        is_small = all(last[k] <= chunks[k] for k in halving)
        steps = [2 if k in halving and n > 1 else 1 for k, n in enumerate(last)]
        if max(steps) == 1 or (levels is None and is_small):
            break
        shapes.append(halved(last, steps))
        factors.append(tuple(a * b for a, b in zip(factors[-1], steps, strict=True)))
    return shapes, factors


def last_shares(shape: Sequence[int], factors: Sequence[int]) -> tuple[float, ...]:
    """Return the part of a level's last pixel that is on the image, along each axis.

    >>> last_shares((5, 8), (4, 4))
    (0.25, 1.0)
    """
    return tuple(((n - 1) % factor + 1) / factor for n, factor in zip(shape, factors, strict=True))


def halved_region(
    region: Region,
    finer: ChunkReader,
    steps: Sequence[int],
    spatial: Sequence[int],
    mode: str,
    missing: str,
    shares: Sequence[float],
) -> NDArray[Any]:
    """Halve the part of a level that a region of the next one shows.

    Args:
        region: the region of the next level.
        finer: the level.
        steps: the pixels of the level in a pixel of the next one, 1 or 2, along each axis.
        spatial: which axes are spatial.
        mode, missing: as in `pyramid`.
        shares: see `last_shares`.
    """
    whole = [slice(part.start * n, part.stop * n) for part, n in zip(region, steps, strict=True)]
    sizes = finer.shape
    inside = tuple(
        slice(part.start, min(part.stop, n)) for part, n in zip(whole, sizes, strict=True)
    )
    odd = [(0, a.stop - b.stop) for a, b in zip(whole, inside, strict=True)]
    pixels = np.pad(finer[inside], odd, mode="edge")
    order = [k for k in range(pixels.ndim) if k not in spatial] + list(spatial)
    planes = pixels.transpose(order)
    lead, tail = planes.shape[: -len(spatial)], planes.shape[-len(spatial) :]
    weights = None
    if find_method(mode).name != "label" and any(
        whole[k].stop >= sizes[k] and (odd[k][1] or shares[k] < 1) for k in spatial
    ):
        weights = np.ones((1, 1, *tail))
        for axis, k in enumerate(spatial, 2):
            line = np.moveaxis(weights, axis, -1)
            line[..., sizes[k] - whole[k].start :] = 0
            line[..., sizes[k] - 1 - whole[k].start :][..., :1] *= shares[k]
    size = [region[k].stop - region[k].start for k in spatial]
    result = interpolate(
        planes.reshape(-1, 1, *tail), size, mode=mode, align_corners=False, missing=missing,
        weights=weights, threads=1,
    )  # fmt: skip
    return result.reshape(*lead, *size).transpose(np.argsort(order))


# Outputs ------------------------------------------------------------------------------------------


def stored_as(array: Any, spatial: Sequence[int], layout: Layout) -> Layout:
    """Return a layout with a number for each axis, and everything that it leaves open."""
    chunks, shards, zarr_format = layout
    if shards is None and chunks is None:
        shards = array.shards
    full = each_axis(chunks, array.chunks, spatial, "chunks")
    if shards is not None:
        shards = each_axis(shards, [1] * array.ndim, spatial, "shards")
        uneven = [n % m for n, m in zip(shards, full, strict=True)]
        if any(uneven):
            raise ValueError(f"shards must be multiples of chunks, got {shards} and {full}")
    chosen = zarr_format or array.metadata.zarr_format
    if chosen not in (2, 3):
        raise ValueError(f"zarr_format must be 2 or 3, got {zarr_format!r}")
    if chosen == 2 and layout.shards is None:
        shards = None
    return Layout(full, shards, chosen)


def each_axis(
    numbers: Sequence[int] | None, others: Sequence[int], spatial: Sequence[int], name: str
) -> tuple[int, ...]:
    """Complete numbers for the spatial axes by those of the other axes."""
    full = list(others)
    if numbers is None:
        return tuple(full)
    if len(numbers) not in (len(spatial), len(full)) or min(numbers) < 1:
        raise ValueError(
            f"{name} must be a positive number for each of the {len(spatial)} spatial axes, or of "
            f"all {len(full)}, got {tuple(numbers)}"
        )
    axes = spatial if len(numbers) == len(spatial) else range(len(full))
    for k, n in zip(axes, numbers, strict=True):
        full[k] = int(n)
    return tuple(full)


def described(source: Path | str, array: Any) -> dict[str, Any]:
    """Describe an input array, so that a call is continued only for the same one."""
    path = Path(source).resolve()
    return {"path": str(path), "shape": array.shape, "dtype": str(array.dtype)}


def created(
    folder: Path,
    image: Multiscale,
    shapes: Sequence[tuple[int, ...]],
    dtype: Any,
    layout: Layout,
    traffic: Traffic,
) -> tuple[Any, list[Any]]:
    """Create the group of an output and its arrays, or open what an ended call has created."""
    zarr = require("zarr", "zarr")
    store = counting_store(folder, traffic, read_only=False)
    group = zarr.open_group(store, mode="a", zarr_format=layout.zarr_format)
    names = [axis["name"] for axis in image.axes]
    arrays = []
    for level, shape in enumerate(shapes):
        if str(level) in group:
            array = group[str(level)].with_config({"write_empty_chunks": True})
        else:
            array = create_array(
                group, str(level), shape, dtype, layout.chunks or shape, layout.shards, names
            )
        arrays.append(array)
    return group, arrays


def reporter(arrays: Sequence[Any], traffic: Traffic, progress: Progress) -> Callable[[], None]:
    """Return a function that reports the share of an output's files that are done."""
    total = sum(count_files(array.shape, array.shards or array.chunks) for array in arrays)
    return lambda: progress(min(1.0, (traffic.done + traffic.done_before) / total))
