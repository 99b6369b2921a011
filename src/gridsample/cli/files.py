"""Warp and resize files page by page, with alpha: `gridsample warp` and `gridsample resize`."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample import fields, io, warp
from gridsample.alpha import Alpha, divide, multiply
from gridsample.cli.hints import LabelHint
from gridsample.cli.nodata import nodata_of, with_nodata
from gridsample.cli.terminal import progress_bar
from gridsample.definitions.checks import check_extent
from gridsample.definitions.labels import check_labels, has_labels
from gridsample.definitions.plan import (
    MISSING,
    Mode,
    check_threads,
    find_method,
    listed,
)
from gridsample.io.fields import read_field
from gridsample.ops.missing import check_rule

Progress = Callable[[float], None]


def warp_file(arguments: argparse.Namespace) -> None:
    """Warp every page of a file by a grid or a sequence of steps."""
    steps: list[warp.Step] = arguments.steps
    if arguments.grid and (steps or arguments.size):
        raise ValueError("--grid determines the whole warp; it accepts no steps and no --size")
    if arguments.fill is not None and "constant" not in listed(arguments.padding):
        raise ValueError("--fill requires --padding constant; give both or neither")
    io.check_output(arguments.output, overwrite=arguments.force)
    with io.pages(arguments.input, volume=arguments.volume) as pages:
        warped = [_Warped(page.image, arguments) for page in pages]
        with progress_bar(f"warping {arguments.input.name}") as progress:
            hint = LabelHint(warped[0].mode)
            bands = (
                [one.pixels(page, hint, _part(progress, n, len(pages)))]
                for n, (one, page) in enumerate(zip(warped, pages, strict=True))
            )
            io.write_pages(
                [one.result for one in warped], bands, arguments.output, overwrite=arguments.force
            )
        hint.say()


class _Warped:
    """The warp of one page.  All options are checked before any pixel is read.

    Attributes:
        result: The output page, without its pixels.
    """

    def __init__(self, image: io.Image, arguments: argparse.Namespace) -> None:
        _check_labels(arguments.mode, image)
        size = image.size
        self.arguments, self.size, self.mode = arguments, size, arguments.mode
        if arguments.grid:
            self.grid = _load_grid(arguments.grid, len(size))
            self.canvas = _possible(self.grid.shape[-2::-1], image)
            voxels = warp.fitted(size, self.canvas, arguments.align_corners)
        elif arguments.flow:
            self.grid = _grid_of_flow(arguments.flow, size)
            self.canvas = _possible(self.grid.shape[-2::-1], image)
            voxels = np.eye(len(size) + 1)
        else:
            self.canvas = _possible(_canvas(arguments.size, size), image)
            self.inverse = warp.inverse_map(arguments.steps, size, self.canvas)
            voxels = warp.window(arguments.steps, size, self.canvas)
            if warp.lands_on_pixels(self.inverse):
                self.mode = warp.exact_mode(self.mode, len(size))
        self.result = with_nodata(_result(image, self.canvas, voxels), arguments)
        self.fill = _fill(arguments.fill, image.channels)
        self.alpha = _sampled_alpha(image, arguments)
        copies = warp.copies_pixels(self.mode, len(size)) or has_labels(self.mode)
        copies = copies and MISSING not in listed(arguments.padding)
        self.missing = nodata_of(image, arguments, self.alpha, copies)

    def grid_at(self, rows: slice) -> NDArray[Any]:
        """Return the grid for some rows of the canvas."""
        if self.arguments.grid or self.arguments.flow:
            return self.grid[rows]
        align_corners = self.arguments.align_corners
        return warp.grid_band(self.inverse, rows, self.size, self.canvas, align_corners)

    def pixels(self, page: io.Page, hint: LabelHint, progress: Progress) -> NDArray[Any]:
        """Return the pixels of the output page."""
        array, missing = page.pixels(), self.missing
        hint.look(page.image, array)
        made = warp.sample(
            array if missing is None else missing.opened(array),
            self.grid_at,
            self.canvas[::-1],
            mode=self.mode,
            padding_mode=self.arguments.padding,
            align_corners=self.arguments.align_corners,
            fill_value=self.fill,
            missing="ignore" if missing is not None and missing.ignore else "propagate",
            alpha=self.alpha,
            threads=self.arguments.threads,
            progress=progress,
        )
        return made if missing is None else missing.closed(made)


def resize_file(arguments: argparse.Namespace) -> None:
    """Resize every page of a file in bands of rows."""
    if (arguments.size is None) == (arguments.scale is None):
        raise ValueError("give either --size or --scale")
    io.check_output(arguments.output, overwrite=arguments.force)
    with io.pages(arguments.input, volume=arguments.volume) as pages:
        sizes = [_possible(_resized(arguments, one.image.size), one.image) for one in pages]
        results = [
            with_nodata(
                _result(
                    page.image,
                    size,
                    warp.fitted(page.image.size, size, bool(arguments.align_corners)),
                ),
                arguments,
            )
            for page, size in zip(pages, sizes, strict=True)
        ]
        hint = LabelHint(arguments.mode, arguments.antialias)
        bands = [_resized_bands(arguments, hint, *each) for each in zip(pages, sizes, strict=True)]
        with progress_bar(f"resizing {arguments.input.name}") as progress:
            counted = (
                _counted(rows, sizes[n][-1], _part(progress, n, len(pages)))
                for n, rows in enumerate(bands)
            )
            io.write_pages(results, counted, arguments.output, overwrite=arguments.force)
        hint.say()


def _resized_bands(
    arguments: argparse.Namespace, hint: LabelHint, page: io.Page, size: tuple[int, ...]
) -> Iterator[NDArray[Any]]:
    """The rows of a page's new pixels; options are checked now, pixels read when asked for."""
    from gridsample.ops.resizing import plan_resizing, resize_rows

    image, how = page.image, (arguments.mode, arguments.align_corners)
    shape, size = image.array.shape, size[::-1]
    plan_resizing(shape[:-1], size, None, *how, None, arguments.antialias)
    check_threads(arguments.threads)
    _check_labels(arguments.mode, image)
    dtype, alpha = image.array.dtype.newbyteorder("="), _sampled_alpha(image, arguments)
    methods = [find_method(name, resizing=True) for name in listed(arguments.mode)]
    copies = {one.name for one in methods} <= {"nearest", "nearest-exact"}
    # Labels are copied, too: the number of missing pixels is one of them.
    copies = (copies and not arguments.antialias) or has_labels(arguments.mode)
    missing = nodata_of(image, arguments, alpha, copies)
    if copies:
        alpha = None  # whole pixels are copied
    if missing is not None and missing.ignore:
        check_rule(methods, (), any(one.prefilter > 1 for one in methods))

    def bands() -> Iterator[NDArray[Any]]:
        read = page.open()

        def rows(begin: int, end: int) -> NDArray[Any]:
            stored = read(begin, end)
            hint.look(image, stored)
            if missing is not None:
                return missing.stacked(stored) if missing.ignore else missing.opened(stored)
            return stored if alpha is None else multiply(stored, alpha)

        threads, planes = arguments.threads, shape
        if missing is not None and missing.ignore:
            planes = (*shape[:-1], 2 * shape[-1])  # the mask of each channel comes after it
        made = resize_rows(rows, planes, size, None, *how, arguments.antialias, threads=threads)
        for band in made:
            if missing is not None:
                yield missing.mean(band) if missing.ignore else missing.closed(band)
            else:
                yield band if alpha is None else divide(band, alpha, dtype)

    return bands()


def _resized(arguments: argparse.Namespace, size: tuple[int, ...]) -> tuple[int, ...]:
    """Return the size of the output, x first."""
    if arguments.size:
        return _canvas(arguments.size, size)
    scales = arguments.scale * (len(size) if len(arguments.scale) == 1 else 1)
    if len(scales) != len(size) or not all(math.isfinite(s) and s > 0 for s in scales):
        raise ValueError(
            f"--scale takes one positive number or {len(size)}, got "
            + ",".join(f"{scale:g}" for scale in arguments.scale)
        )
    # The limit is larger than any size, but finite.
    sizes = [math.floor(min(n * s, 1e30)) for n, s in zip(size, scales, strict=True)]
    return tuple(max(1, n) for n in sizes)


def _result(image: io.Image, size: tuple[int, ...], voxels: NDArray[np.float64]) -> io.Image:
    """Return the output page without its pixels."""
    shape = (*size[::-1], image.channels)
    return image.resampled(io.zeros(shape, image.array.dtype), voxels)


def _possible(size: tuple[int, ...], image: io.Image) -> tuple[int, ...]:
    """Return the size of an output page if an array can have it; otherwise raise."""
    check_extent("the output", (*size[::-1], image.channels), image.array.dtype.itemsize)
    return size


def _sampled_alpha(image: io.Image, arguments: argparse.Namespace) -> Alpha | None:
    """Return the channel that colours are multiplied by before sampling, if any."""
    alpha = None if arguments.straight_alpha else io.alpha_of(image, arguments.output)
    known = alpha is not None and not alpha.premultiplied and image.array.dtype.kind in "uif"
    return alpha if known else None


def _fill(given: Sequence[float] | None, channels: int) -> Any:
    """Return the fill value: one number for all channels, or one per channel."""
    if given is None:
        return 0
    if len(given) not in (1, channels):
        raise ValueError(
            f"--fill takes one number or one for each of the {channels} channels, got {len(given)}"
        )
    return given[0] if len(given) == 1 else np.array(given)


def _check_labels(mode: Mode, image: io.Image) -> None:
    """Raise an error if a mode is for labels, and the pixels are no integers."""
    methods = [find_method(one, resizing=True) for one in listed(mode)]
    check_labels(methods, image.array.dtype, image.array.dtype.kind in "biu")


def _part(progress: Progress, n: int, pages: int) -> Progress:
    """Convert the progress of page n to that of all pages."""
    return lambda share: progress((n + share) / pages)


def _counted(
    bands: Iterator[NDArray[Any]], rows: int, progress: Progress
) -> Iterator[NDArray[Any]]:
    """Yield the bands, and report the share of the rows that is done."""
    done = 0
    for band in bands:
        yield band
        done += len(band)
        progress(done / rows)


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


def _grid_of_flow(path: Path, size: tuple[int, ...]) -> NDArray[Any]:
    """Return the normalized grid of a flow for an image of a size, x first."""
    flow = read_field(path).array.astype(np.float64)
    if flow.shape[-1] != len(size):
        raise ValueError(
            f"{path} holds a {flow.shape[-1]}-D field, but the image is {'x'.join(map(str, size))}"
        )
    grid: NDArray[Any] = fields.to_normalized(flow, size[::-1], coords="displacement")[0]
    return grid


def _canvas(asked: tuple[int, ...] | None, size: tuple[int, ...]) -> tuple[int, ...]:
    if asked is None:
        return size
    if len(asked) != len(size):
        raise ValueError(
            f"--size has {len(asked)} numbers, but the input is {'x'.join(map(str, size))}: "
            f"give {'WxH' if len(size) == 2 else 'WxHxD'}"
        )
    return asked
