"""Warp and resize files page by page, with alpha: `gridsample warp` and `gridsample resize`."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample import io, warp
from gridsample.alpha import Alpha, divide, multiply
from gridsample.cli.hints import LabelHint, ShrinkHint
from gridsample.cli.maps import Map, canvas_of, check_canvas, map_of_arguments
from gridsample.cli.nodata import nodata_of, with_nodata
from gridsample.cli.terminal import progress_bar
from gridsample.definitions.boundaries import MISSING
from gridsample.definitions.checks import check_threads
from gridsample.definitions.labels import check_labels, has_labels
from gridsample.definitions.methods import Mode, find_method, listed
from gridsample.ops.missing import check_rule

Progress = Callable[[float], None]


def warp_file(
    arguments: argparse.Namespace,
    map_of: Callable[[io.Image, argparse.Namespace], Map] = map_of_arguments,
) -> None:
    """Warp every page of a file by the map that a function makes for it."""
    if arguments.fill is not None and "constant" not in listed(arguments.padding):
        raise ValueError("--fill requires --padding constant; give both or neither")
    io.check_output(arguments.output, overwrite=arguments.force)
    with io.pages(arguments.input, volume=arguments.volume) as pages:
        warped = [_PageWarp(page.image, arguments, map_of(page.image, arguments)) for page in pages]
        with progress_bar(f"warping {arguments.input.name}") as progress:
            hint, shrinks = LabelHint(warped[0].mode), ShrinkHint(arguments)
            bands = (
                [warped_page.pixels(page, hint, shrinks, page_progress(progress, n, len(pages)))]
                for n, (warped_page, page) in enumerate(zip(warped, pages, strict=True))
            )
            io.write_pages(
                [warped_page.result for warped_page in warped],
                bands,
                arguments.output,
                overwrite=arguments.force,
            )
        hint.show()
        shrinks.show()


class _PageWarp:
    """The warp of one page.  All options are checked before any pixel is read.

    Attributes:
        result: The output page, without its pixels.
    """

    def __init__(self, image: io.Image, arguments: argparse.Namespace, output_map: Map) -> None:
        _check_labels(arguments.mode, image)
        rank = len(image.size)
        self.arguments, self.map, self.mode = arguments, output_map, arguments.mode
        if output_map.copies:
            self.mode = warp.exact_mode(self.mode, rank)
        self.result = with_nodata(_result(image, output_map.canvas, output_map.voxels), arguments)
        if output_map.like is not None:
            self.result = self.result.placed(output_map.like)
        self.padding, self.fill = boundary_and_fill(image, arguments)
        self.alpha = sampled_alpha(image, arguments)
        copies = warp.copies_pixels(self.mode, rank) or has_labels(self.mode)
        copies = copies and MISSING not in listed(arguments.padding)
        self.missing = nodata_of(image, arguments, self.alpha, copies)

    def pixels(
        self, page: io.Page, hint: LabelHint, shrinks: ShrinkHint, progress: Progress
    ) -> NDArray[Any]:
        """Return the pixels of the output page."""
        array, missing = page.pixels(), self.missing
        hint.examine(page.image, array)
        size = array.shape[:-1]
        result = warp.sample(
            array if missing is None else missing.with_nan(array),
            lambda rows: shrinks.examine(self.map.grid_at(rows), size, self.map.align_corners),
            self.map.canvas[::-1],
            mode=self.mode,
            padding_mode=self.padding,
            align_corners=self.map.align_corners,
            fill_value=self.fill,
            missing="ignore" if missing is not None and missing.ignore else "propagate",
            antialias=self.arguments.antialias,
            alpha=self.alpha,
            threads=self.arguments.threads,
            progress=progress,
        )
        return result if missing is None else missing.with_number(result)


def resize_file(arguments: argparse.Namespace) -> None:
    """Resize every page of a file in bands of rows."""
    io.check_output(arguments.output, overwrite=arguments.force)
    with io.pages(arguments.input, volume=arguments.volume) as pages:
        sizes = [
            check_canvas(output_size(arguments, page.image.size, page.image.spacing), page.image)
            for page in pages
        ]
        hint = LabelHint(arguments.mode, arguments.antialias)
        results, bands = [], []
        for page, size in zip(pages, sizes, strict=True):
            voxels = warp.fitted(page.image.size, size, bool(arguments.align_corners))
            results.append(with_nodata(_result(page.image, size, voxels), arguments))
            bands.append(_resized_bands(arguments, hint, page, size))
        with progress_bar(f"resizing {arguments.input.name}") as progress:
            counted = (
                _reporting(rows, sizes[n][-1], page_progress(progress, n, len(pages)))
                for n, rows in enumerate(bands)
            )
            io.write_pages(results, counted, arguments.output, overwrite=arguments.force)
        hint.show()


def _resized_bands(
    arguments: argparse.Namespace, hint: LabelHint, page: io.Page, size: tuple[int, ...]
) -> Iterator[NDArray[Any]]:
    """Return the rows of a page's new pixels; options are checked now, pixels are read later."""
    from gridsample.ops.resized_parts import resize_rows
    from gridsample.ops.resizing import plan_resizing

    image, method_options = page.image, (arguments.mode, arguments.align_corners)
    shape, size = image.array.shape, size[::-1]
    plan_resizing(shape[:-1], size, None, *method_options, None, arguments.antialias)
    check_threads(arguments.threads)
    _check_labels(arguments.mode, image)
    dtype, alpha = image.array.dtype.newbyteorder("="), sampled_alpha(image, arguments)
    methods = [find_method(name, resizing=True) for name in listed(arguments.mode)]
    copies = {method.name for method in methods} <= {"nearest", "nearest-exact"}
    # Labels are copied, too: the number of missing pixels is one of them.
    copies = (copies and not arguments.antialias) or has_labels(arguments.mode)
    missing = nodata_of(image, arguments, alpha, copies)
    if copies:
        alpha = None  # whole pixels are copied
    if missing is not None and missing.ignore:
        check_rule(methods, (), any(method.prefilter > 1 for method in methods))

    def bands() -> Iterator[NDArray[Any]]:
        read = page.open()

        def rows(begin: int, end: int) -> NDArray[Any]:
            stored = read(begin, end)
            hint.examine(image, stored)
            if missing is not None:
                return missing.stacked(stored) if missing.ignore else missing.with_nan(stored)
            return stored if alpha is None else multiply(stored, alpha)

        threads, planes = arguments.threads, shape
        if missing is not None and missing.ignore:
            planes = (*shape[:-1], 2 * shape[-1])  # the mask of each channel comes after it
        result = resize_rows(
            rows, planes, size, None, *method_options, arguments.antialias, threads=threads
        )
        for band in result:
            if missing is not None:
                yield missing.mean(band) if missing.ignore else missing.with_number(band)
            else:
                yield band if alpha is None else divide(band, alpha, dtype)

    return bands()


def output_size(
    arguments: argparse.Namespace, size: tuple[int, ...], spacing: tuple[float, ...] | None = None
) -> tuple[int, ...]:
    """Return the size of the output, x first, for the size and the spacing of the input."""
    if [arguments.size, arguments.scale, arguments.spacing].count(None) != 2:
        raise ValueError("give one of --size, --scale and --spacing")
    if arguments.size:
        return canvas_of(arguments.size, size)
    if arguments.scale:
        factors = _for_each_axis("--scale", arguments.scale, len(size))
        return _scaled(size, factors, math.floor)
    spacings = _for_each_axis("--spacing", arguments.spacing, len(size))
    if spacing is None:
        raise ValueError(
            "--spacing needs a file with the sizes of its voxels or pixels, NIfTI or GeoTIFF; "
            "give --size or --scale for others"
        )
    return _scaled(size, [s / new for s, new in zip(spacing, spacings, strict=True)], round)


def _for_each_axis(option: str, numbers: Sequence[float], rank: int) -> Sequence[float]:
    """Return a positive number for each axis."""
    all_numbers = [*numbers] * (rank if len(numbers) == 1 else 1)
    if len(all_numbers) != rank or not all(math.isfinite(s) and s > 0 for s in all_numbers):
        raise ValueError(
            f"{option} takes one positive number or {rank}, got "
            + ",".join(f"{number:g}" for number in numbers)
        )
    return all_numbers


def _scaled(
    size: Sequence[int], factors: Sequence[float], rounding: Callable[[float], int]
) -> tuple[int, ...]:
    """Return a size times factors, in whole pixels, at least one."""
    # The limit is larger than any size, but finite.
    return tuple(max(1, rounding(min(n * s, 1e30))) for n, s in zip(size, factors, strict=True))


def _result(image: io.Image, size: tuple[int, ...], voxels: NDArray[np.float64]) -> io.Image:
    """Return the output page without its pixels."""
    shape = (*size[::-1], image.channels)
    return image.resampled(io.zeros(shape, image.array.dtype), voxels)


def sampled_alpha(image: io.Image, arguments: argparse.Namespace) -> Alpha | None:
    """Return the channel that colours are multiplied by before sampling, if any."""
    alpha = None if arguments.straight_alpha else io.alpha_of(image, arguments.output)
    known = alpha is not None and not alpha.premultiplied and image.array.dtype.kind in "uif"
    return alpha if known else None


def _fill(numbers: Sequence[float] | None, channels: int) -> Any:
    """Return the fill value: one number for all channels, or one per channel."""
    if numbers is None:
        return 0
    if len(numbers) not in (1, channels):
        raise ValueError(
            f"--fill takes one number or one for each of the {channels} channels, "
            f"got {len(numbers)}"
        )
    return numbers[0] if len(numbers) == 1 else np.array(numbers)


def boundary_and_fill(image: io.Image, arguments: argparse.Namespace) -> tuple[Mode, Any]:
    """Return the boundary, and the value outside as a number that the file would store.

    Outside an image that is scaled, the *value* is 0 or that of --fill.
    """
    padding, fill = arguments.padding, _fill(arguments.fill, image.channels)
    slope, inter = image.scaling
    names = [{"zeros": "constant"}.get(name, name) for name in listed(padding)]
    if (slope, inter) == (1, 0) or "constant" not in names:
        return padding, fill
    fill = (np.asarray(fill) - inter) / slope
    if has_labels(arguments.mode) and image.array.dtype.kind in "iu":
        limits = np.iinfo(image.array.dtype)
        fill = np.rint(fill).clip(limits.min, limits.max)
    return names[0] if isinstance(padding, str) else tuple(names), fill


def _check_labels(mode: Mode, image: io.Image) -> None:
    """Raise an error if a mode is for labels, and the pixels are no integers."""
    methods = [find_method(name, resizing=True) for name in listed(mode)]
    check_labels(methods, image.array.dtype, image.array.dtype.kind in "biu")


def page_progress(progress: Progress, n: int, pages: int) -> Progress:
    """Convert the progress of page n to that of all pages."""
    return lambda share: progress((n + share) / pages)


def _reporting(
    bands: Iterator[NDArray[Any]], rows: int, progress: Progress
) -> Iterator[NDArray[Any]]:
    """Yield the bands, and report the share of the rows that is done."""
    done = 0
    for band in bands:
        yield band
        done += len(band)
        progress(done / rows)
