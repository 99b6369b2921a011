"""Pyramids: an image and its halved copies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample.chunked.regions import Block, lengths_of
from gridsample.definitions.methods import find_method
from gridsample.definitions.names import MissingName
from gridsample.io.omezarr import Multiscale, blocks_affine, halved, write_metadata
from gridsample.io.stores import ChunkReader, Traffic
from gridsample.ops.resizing import interpolate
from gridsample.zarr.layouts import AS_INPUT, Job, Layout, Progress
from gridsample.zarr.missing import name_number, nodata_of, reader_of, stored
from gridsample.zarr.planes import StoredPlanes, by_planes


def pyramid(
    source: Any,
    output: Any,
    *,
    levels: int | None = None,
    mode: str | None = None,
    axes: str | None = None,
    halve: str | None = None,
    missing: MissingName = "propagate",
    nodata: float | None = None,
    layout: Layout = AS_INPUT,
    threads: int | None = None,
    overwrite: bool = False,
    progress: Progress = lambda share: None,
) -> Traffic:
    """Write an image and its halved copies as an OME-Zarr image.

    Each level has half as many pixels along each spatial axis as the one before, rounded up.  A
    pixel is the mean of two pixels along each axis (of one at the end of an axis with an odd number
    of pixels), or the most frequent of their labels.  Means weight pixels by the part of them that
    lies on the image.  A pixel of level k is therefore the mean of all pixels of the image in its
    block of 2**k pixels, apart from the rounding of integers at each level.  Blocks start at the
    first pixel: level k has exactly the scale 2**k and the translation (2**k - 1) / 2, in units of
    the first level's spacing.

    Args:
        source: the folder or the address of a Zarr array or of an OME-Zarr image, or a Zarr store;
            see `gridsample.io.omezarr.read_multiscale`.  The finest level is read.
        output: the folder to create, or an empty Zarr store or its address.
        levels: the number of levels, the first included; None to halve the image until it fits into
            one chunk.
        mode: "linear" for means, "label" for votes, of which the smallest label wins a tie; None
            for "label" if the source is marked as a label image, otherwise "linear".
        axes: the names of the source's axes, such as "cyx"; None for those in its metadata.
        halve: the names of the axes to halve, such as "yx"; None for all spatial axes.
        missing: "propagate" or "ignore" NaN, as in `gridsample.interpolate`.
        nodata: the number that stands for missing pixels, beside NaN; None for the attribute
            ``_FillValue`` of the source's array, if it has one, and NaN for no number.  Missing
            results have this number, too.
        layout: chunks, shards and Zarr version of the output.
        threads: how many chunks are computed at a time; None for one per core.
        overwrite: whether to replace the output if it exists.
        progress: called with the share of the work that is done, up to 1.0.

    Returns:
        What was read and written.

    Raises:
        FileError: the source is not a Zarr store, or the output cannot be written.
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
    if levels is not None and levels < 1:
        raise ValueError(f"levels must be at least 1, got {levels}")
    job = Job.of(source, output, axes, layout, threads, overwrite, progress)
    image, base, spatial = job.image, job.array, job.spatial
    mode = mode or ("label" if "image-label" in image.extras else "linear")
    check_halving(mode)
    # Errors of the dtype and of options are raised before anything is written.
    missing_pixels = nodata_of(base, nodata, missing, copies=mode == "label")
    pixel = np.zeros((1, 1) + (1,) * len(spatial), reader_of(base, missing_pixels).dtype)
    options: dict[str, Any] = {"mode": mode, "align_corners": False, "missing": missing}
    interpolate(pixel, pixel.shape[2:], **options)
    halving = halved_axes(image, halve)
    shapes, factors = level_shapes(base.shape, halving, job.layout.chunks or base.chunks, levels)
    recipe = {"command": "pyramid", "mode": mode, "missing": missing}
    recipe["nodata"] = "" if missing_pixels is None else repr(missing_pixels.number)
    with job.output(shapes, recipe) as out:
        out.fill(0, ChunkReader(base).__getitem__)
        for level in range(1, len(shapes)):
            finer = reader_of(out.arrays[level - 1], missing_pixels)
            finer_factor, factor = factors[level - 1], factors[level]
            shares = last_shares(base.shape, finer_factor)
            halve_block = partial(
                halved_block,
                steps=[factor[k] // finer_factor[k] for k in spatial],
                mode=mode,
                missing=missing,
                shares=[shares[k] for k in spatial],
            )
            out.fill(level, stored(by_planes(halve_block, finer, spatial), missing_pixels))
        name_number(out.arrays, nodata)
        scales = [blocks_affine(factor) for factor in factors]
        write_metadata(out.group, image, image.affines[0], scales, job.name, mode)
    return job.traffic


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


def halved_block(
    block: Block,
    finer: StoredPlanes,
    steps: Sequence[int],
    mode: str,
    missing: str,
    shares: Sequence[float],
) -> NDArray[Any]:
    """Halve the part of a level that a block of the next one shows.

    Args:
        block: the block of the next level.
        finer: the level.
        steps: the pixels of the level in a pixel of the next one, 1 or 2, along each spatial axis.
        mode, missing: as in `pyramid`.
        shares: see `last_shares`.
    """
    sizes = finer.shape[2:]
    spans = [slice(part.start * n, part.stop * n) for part, n in zip(block, steps, strict=True)]
    inside = [slice(span.start, min(span.stop, n)) for span, n in zip(spans, sizes, strict=True)]
    padding = [span.stop - part.stop for span, part in zip(spans, inside, strict=True)]
    pixels = finer[finer.box(inside)]
    planes = np.pad(pixels, [(0, 0), (0, 0), *((0, n) for n in padding)], mode="edge")
    is_cut_off = [
        span.stop > n or (span.stop == n and share < 1)
        for span, n, share in zip(spans, sizes, shares, strict=True)
    ]
    weights = None
    if find_method(mode).name != "label" and any(is_cut_off):
        weights = np.ones((1, 1, *planes.shape[2:]))
        for k, (span, n, share) in enumerate(zip(spans, sizes, shares, strict=True)):
            line = np.moveaxis(weights, 2 + k, -1)
            line[..., n - span.start :] = 0
            line[..., n - 1 - span.start :][..., :1] *= share
    # In double precision, sums do not depend on the order of axes, which depends on the region.
    precise = {"f": np.float64, "c": np.complex128}.get(planes.dtype.kind, planes.dtype)
    planes, dtype = planes.astype(precise, copy=False), planes.dtype
    options: dict[str, Any] = {"mode": mode, "align_corners": False, "missing": missing}
    result = interpolate(planes, lengths_of(block), **options, weights=weights, threads=1)
    return result.astype(dtype, copy=False)
