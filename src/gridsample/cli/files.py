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
from gridsample.cli.hints import COPYING, LabelHint, ShrinkHint, show_lost_palette, show_lost_texts
from gridsample.cli.maps import Map, canvas_of, check_canvas, map_of_arguments, scaled
from gridsample.cli.nodata import boundary_of_missing, nodata_of, number_of, with_nodata
from gridsample.cli.terminal import progress_bar
from gridsample.definitions.labels import check_labels, has_labels
from gridsample.definitions.methods import Mode, Padding, find_method, listed
from gridsample.ops.missing import check_rule

Progress = Callable[[float], None]
Size = tuple[int, ...]


# The result without its pixels, and a function that yields them in bands and reports its progress.
PreparedPage = tuple[io.Image, Callable[[Progress], io.Bands]]


def convert_file(
    arguments: argparse.Namespace, action: str, prepare: Callable[[io.Page], PreparedPage]
) -> None:
    """Convert every page of a file.

    Args:
        arguments: the input, the output, ``volume``, ``max_pixels`` and ``force``.
        action: what the progress bar says.
        prepare: checks the options for a page, of which no pixel is read yet.
    """
    io.check_output(arguments.output, overwrite=arguments.force)
    limit = arguments.max_pixels
    with io.pages(arguments.input, volume=arguments.volume, max_pixels=limit) as pages:
        prepared = [prepare(page) for page in pages]
        with progress_bar(f"{action} {arguments.input.name}") as progress:

            def page_progress(n: int) -> Progress:
                return lambda share: progress((n + share) / len(pages))

            bands = (pixels(page_progress(n)) for n, (_, pixels) in enumerate(prepared))
            results = [result for result, _ in prepared]
            io.write_pages(results, bands, arguments.output, overwrite=arguments.force)
    show_lost_palette(results, arguments.output)
    show_lost_texts(results, arguments.output)


def warp_file(
    arguments: argparse.Namespace,
    map_of: Callable[[io.Image, argparse.Namespace], Map] = map_of_arguments,
    other: Callable[[io.Page], PreparedPage | None] = lambda page: None,
) -> None:
    """Warp every page of a file by the map that a function makes for it.

    Pages that ``other`` prepares are left to it.
    """
    if arguments.fill is not None and "constant" not in listed(arguments.padding or ""):
        raise ValueError("--fill requires --padding constant; give both or neither")
    hints = LabelHint(arguments.mode, bool(arguments.antialias)), ShrinkHint(arguments)

    def prepare(page: io.Page) -> PreparedPage:
        prepared = other(page)
        if prepared is not None:
            return prepared
        return _warped_page(page, arguments, map_of(page.image, arguments), *hints)

    convert_file(arguments, "warping", prepare)
    for hint in hints:
        hint.show()


def antialiases(arguments: argparse.Namespace, by_default: bool = True) -> bool:
    """Return whether pixels are averaged where they are more than those of the output.

    Unless the user chose, they are by default if the mode copies no pixels along any axis.
    """
    if arguments.antialias is not None:
        return bool(arguments.antialias)
    return by_default and not COPYING & {*listed(arguments.mode)}


def resize_antialiases(
    arguments: argparse.Namespace, size: Sequence[int], new_size: Sequence[int]
) -> bool:
    """Return whether weights are stretched: by default, only if some axis shrinks.

    Where nothing shrinks, antialiasing would only choose another cubic.
    """
    return antialiases(arguments, any(new < n for n, new in zip(size, new_size, strict=True)))


def _warped_page(
    page: io.Page,
    arguments: argparse.Namespace,
    output_map: Map,
    label_hint: LabelHint,
    shrink_hint: ShrinkHint,
) -> PreparedPage:
    """Return a page of `warp_file`."""
    image, mode, rank = page.image, arguments.mode, len(page.image.size)
    antialias = antialiases(arguments, output_map.is_smooth)
    _check_labels(mode, image)
    if output_map.copies:
        mode, antialias = warp.exact_mode(mode, rank), False
    result = with_nodata(_result(image, output_map.canvas, output_map.voxels), arguments)
    if output_map.like is not None:
        result = result.placed(output_map.like)
    alpha = sampled_alpha(image, arguments)
    copies = warp.copies_pixels(mode, rank, antialias=antialias)
    padding, fill = boundary_and_fill(image, arguments, copies)
    copies = warp.copies_pixels(mode, rank, antialias=antialias, padding_mode=padding)
    missing = nodata_of(image, arguments, alpha, copies)

    def pixels(progress: Progress) -> io.Bands:
        array = page.pixels()
        if mode == arguments.mode:  # otherwise, pixels are copied
            label_hint.examine(image, array)
        size, align_corners = array.shape[:-1], output_map.align_corners

        def grid_at(rows: slice) -> NDArray[Any]:
            grid = output_map.grid_at(rows)
            if not antialias:
                shrink_hint.examine(grid, size, align_corners)
            return grid

        warped = warp.sample(
            array if missing is None else missing.with_nan(array),
            grid_at,
            output_map.canvas[::-1],
            mode=mode,
            padding_mode=padding,
            align_corners=align_corners,
            fill_value=fill,
            missing="ignore" if missing is not None and missing.ignore else "propagate",
            antialias=antialias,
            alpha=alpha,
            threads=arguments.threads,
            progress=progress,
        )
        yield warped if missing is None else missing.with_number(warped)

    return result, pixels


def resize_file(arguments: argparse.Namespace) -> None:
    """Resize every page of a file in bands of rows."""
    label_hint, shrink_hint = (
        LabelHint(arguments.mode, antialiases(arguments)),
        ShrinkHint(arguments),
    )

    changes = list[tuple[Size, Size]]()  # of pages that are no reduced copies of others

    def prepare(page: io.Page) -> PreparedPage:
        image = page.image
        if image.is_overview and changes and arguments.spacing:  # it has no spacing of its own
            old, new = changes[-1]
            size = scaled(image.size, [b / a for a, b in zip(old, new, strict=True)], round)
        else:
            size = output_size(arguments, image.size, image.spacing)
            changes.append((image.size, size))
        check_canvas(size, image)
        voxels = warp.fitted(image.size, size, bool(arguments.align_corners))
        result = with_nodata(_result(image, size, voxels), arguments)
        if not resize_antialiases(arguments, image.size, size):
            shrink_hint.compare(image.size, size)
        bands = _resized_bands(arguments, label_hint, page, size)
        return result, lambda progress: _reporting(bands, size[-1], progress)

    convert_file(arguments, "resizing", prepare)
    for hint in (label_hint, shrink_hint):
        hint.show()


def _resized_bands(
    arguments: argparse.Namespace, hint: LabelHint, page: io.Page, size: tuple[int, ...]
) -> Iterator[NDArray[Any]]:
    """Return the rows of a page's new pixels; options are checked now, pixels are read later."""
    from gridsample.definitions.request import ResizeRequest
    from gridsample.ops.resized_parts import resize_rows
    from gridsample.ops.resizing import plan_resizing

    image, antialias = page.image, resize_antialiases(arguments, page.image.size, size)
    shape, size = image.array.shape, size[::-1]
    request = ResizeRequest(arguments.mode, arguments.align_corners, antialias=antialias)
    plan_resizing(shape[:-1], size, None, request)
    _check_labels(arguments.mode, image)
    dtype, alpha = image.array.dtype.newbyteorder("="), sampled_alpha(image, arguments)
    methods = [find_method(name, resizing=True) for name in listed(arguments.mode)]
    copies = warp.copies_pixels(arguments.mode, len(size), antialias=antialias)
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
            rows,
            planes,
            size,
            None,
            arguments.mode,
            arguments.align_corners,
            antialias,
            threads=threads,
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
        raise ValueError("give one of --size, --scale and --spacing, such as --size 50%")
    if arguments.size:
        return canvas_of(arguments.size, size)
    if arguments.scale:
        factors = _for_each_axis("--scale", arguments.scale, len(size))
        return scaled(size, factors, math.floor)
    spacings = _for_each_axis("--spacing", arguments.spacing, len(size))
    if spacing is None:
        raise ValueError(
            "--spacing needs a file with the sizes of its voxels or pixels, NIfTI or GeoTIFF; "
            "give --size or --scale for others"
        )
    return scaled(size, [s / new for s, new in zip(spacing, spacings, strict=True)], round)


def _for_each_axis(option: str, numbers: Sequence[float], rank: int) -> Sequence[float]:
    """Return a positive number for each axis."""
    all_numbers = [*numbers] * (rank if len(numbers) == 1 else 1)
    if len(all_numbers) != rank or not all(math.isfinite(s) and s > 0 for s in all_numbers):
        raise ValueError(
            f"{option} takes one positive number or {rank}, got "
            + ",".join(f"{number:g}" for number in numbers)
        )
    return all_numbers


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


def boundary_and_fill(
    image: io.Image, arguments: argparse.Namespace, copies: bool
) -> tuple[Padding, Any]:
    """Return the boundary, and the value outside as a number that the file would store.

    Outside an image that is scaled, the *value* is 0 or that of --fill.  ``copies`` says whether
    sampling only copies pixels.
    """
    padding, fill = arguments.padding, _fill(arguments.fill, image.channels)
    if padding is None:
        padding, fill = boundary_of_missing(number_of(image, arguments), copies)
        if padding != "zeros":
            return padding, fill
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


def _reporting(
    bands: Iterator[NDArray[Any]], rows: int, progress: Progress
) -> Iterator[NDArray[Any]]:
    """Yield the bands, and report the share of the rows that is done."""
    done = 0
    for band in bands:
        yield band
        done += len(band)
        progress(done / rows)
