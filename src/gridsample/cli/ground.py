"""GeoTIFFs in other coordinate systems: `gridsample warp --crs`, and `--like` in another system."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gridsample import io, warp
from gridsample.alpha import divide, multiply
from gridsample.cli.files import PreparedPage, antialiases, sampled_alpha
from gridsample.cli.maps import check_canvas, georeference_of
from gridsample.cli.nodata import nodata_of, number_of, with_nodata
from gridsample.geo.cells import Summary
from gridsample.geo.rasters import Raster, covering, crs_of
from gridsample.geo.warping import Resampling, method_of, shrinks
from gridsample.io.geotiff import GeoReference

# Options of `warp` that have no meaning here.
OTHERS = (
    *("steps", "size", "grid", "transform", "padding", "fill", "missing", "align_corners"),
    "volume",
)


class Reprojection:
    """Prepares the pages of a file whose pixels are brought to another coordinate system.

    Attributes:
        arguments: those of the command.
        sizes: the sizes of the last page that is no reduced copy, before and after, x first.
        source: where its pixels are.
        target: where the pixels of its result are.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.sizes: tuple[tuple[int, ...], tuple[int, ...]] = (), ()
        self.source: Raster | None = None
        self.target: Raster | None = None

    def __call__(self, page: io.Page) -> PreparedPage | None:
        """Return a page; None if it stays in its coordinate system."""
        image, arguments = page.image, self.arguments
        if image.is_overview and self.source is not None and self.target is not None:
            source, target = self.reduced(image.size)
        else:
            found = self.rasters(image)
            if found is None:
                if self.arguments.statistic is not None:
                    raise ValueError(
                        "--statistic is of the areas of pixels in another coordinate system: give "
                        "--crs"
                    )
                return None
            source, target = self.source, self.target = found
            self.sizes = image.size, (target.shape[1], target.shape[0])
        method = method_of_arguments(arguments, source, target)
        method = method._replace(nodata=number_of(image, arguments))
        return reprojected_page(page, arguments, source, target, method)

    def rasters(self, image: io.Image) -> tuple[Raster, Raster] | None:
        """Return the rasters of a page and of its result; None if no system changes."""
        arguments = self.arguments
        place: GeoReference | None = image.extras.get("geotiff")
        if arguments.crs is None:
            if arguments.resolution is not None:
                raise ValueError("--resolution is the size of pixels in a new system: give --crs")
            if place is None or arguments.like is None or arguments.transform:
                return None
            like, like_place = georeference_of(arguments.like)
            if like_place.has_system_of(place):
                return None
            self.check_options("--like with another coordinate system")
            source = raster_of(place, image.size, "the input")
            return source, raster_of(like_place, like.size, f"--like {arguments.like}")
        if place is None:
            raise ValueError(
                f"--crs needs a GeoTIFF with a coordinate system; the input is {image.format} "
                "without one"
            )
        self.check_options("--crs", "like")
        source = raster_of(place, image.size, "the input")
        return source, covering(source, arguments.crs, arguments.resolution)

    def check_options(self, option: str, *further: str) -> None:
        """Raise an error for options that do not go with one, or an output that loses the place."""
        check_others(self.arguments, option, *further)
        if self.arguments.output.suffix.lower() not in (".tif", ".tiff", ""):
            raise ValueError(
                f"{option} writes GeoTIFFs (.tif), which name the coordinate system; the output is "
                f"{self.arguments.output}"
            )

    def reduced(self, size: tuple[int, ...]) -> tuple[Raster, Raster]:
        """Return the rasters of a reduced copy of the last page, and of its result."""
        assert self.source is not None and self.target is not None
        old, new = self.sizes
        shares = [n / m for n, m in zip(size, old, strict=True)]
        reduced = [max(1, round(n * share)) for n, share in zip(new, shares, strict=True)]
        return resized(self.source, size), resized(self.target, tuple(reduced))


def check_others(arguments: argparse.Namespace, option: str, *further: str) -> None:
    """Raise an error for options that do not go with one that determines the whole warp."""
    for name in (*OTHERS, *further):
        if getattr(arguments, name):
            given = "steps such as --rotate" if name == "steps" else f"--{name}"
            raise ValueError(f"{option} determines the whole warp; it does not accept {given}")


def method_of_arguments(
    arguments: argparse.Namespace, source: Raster, target: Raster
) -> Resampling | Summary:
    """Return how values are computed, without the nodata value."""
    if arguments.statistic is not None:
        if arguments.mode != "bilinear" or arguments.antialias is not None:
            raise ValueError("--statistic is in place of --mode and --antialias; give one of them")
        return method_of(arguments.statistic, min_weight=None, threads=arguments.threads)
    antialias = antialiases(arguments)
    if antialias and arguments.antialias is None:
        antialias = shrinks(source, target)
    return Resampling(arguments.mode, antialias, threads=arguments.threads)


def raster_of_file(path: Path) -> Raster:
    """Return the raster of the GeoTIFF that --like names."""
    like, place = georeference_of(path)
    return raster_of(place, like.size, f"--like {path}")


def raster_of(place: GeoReference, size: tuple[int, ...], name: str) -> Raster:
    """Return the raster of a page of a size, x first."""
    if place.epsg is None:
        raise ValueError(
            f"the coordinate system of {name} has no EPSG code in its GeoTIFF keys; set one, "
            "with gdal_edit.py -a_srs, or use gridsample.xarray.reproject"
        )
    corner = np.eye(3)
    corner[:2, 2] = -0.5
    (a, b, c), (d, e, f), _ = (place.affine @ corner).tolist()
    return Raster.of((f"EPSG:{place.epsg}", (a, b, c, d, e, f), size[::-1]), name)


def resized(raster: Raster, size: tuple[int, ...]) -> Raster:
    """Return a raster of the same place with other numbers of pixels, x first."""
    (rows, columns), (width, height) = raster.shape, size
    a, b, c, d, e, f = raster.transform
    x, y = columns / width, rows / height
    return raster._replace(transform=(a * x, b * y, c, d * x, e * y, f), shape=(height, width))


def place_of(raster: Raster, arguments: argparse.Namespace) -> GeoReference:
    """Return where a GeoTIFF says that its pixels are."""
    known = crs_of(raster.crs)
    code = known.to_epsg()
    place = None
    if code is not None:
        place = GeoReference.of_epsg(raster.centres(), code, known.is_geographic)
    if place is None:
        raise ValueError(
            f"--crs {arguments.crs} has no EPSG code, which GeoTIFF keys need; use "
            "gridsample.xarray.reproject and rioxarray"
        )
    return place


def reprojected_page(
    page: io.Page,
    arguments: argparse.Namespace,
    source: Raster,
    target: Raster,
    method: Resampling | Summary,
) -> PreparedPage:
    """Return a page of the output, the pixels of which are computed in bands."""
    image, (rows, columns) = page.image, target.shape
    canvas = check_canvas((columns, rows), image)
    place, plan = place_of(target, arguments), method.plan(source, target)
    alpha = sampled_alpha(image, arguments)
    # The channels of a statistic are independent.
    copies = isinstance(method, Summary) or warp.copies_pixels(
        arguments.mode, 2, antialias=method.antialias
    )
    nodata_of(image, arguments, alpha, copies)  # an error if there are both
    alpha = None if copies else alpha
    new = io.zeros((*canvas[::-1], image.channels), method.dtype(image.array.dtype))
    result = with_nodata(image.resampled(new, np.eye(3)), arguments)
    extras = {**result.extras, "geotiff": place}
    if new.dtype != image.array.dtype.newbyteorder("="):  # what is missing is NaN
        extras.pop("nodata", None)
    if image.is_overview:  # its place is that of the page before
        del extras["geotiff"]

    def pixels(progress: Callable[[float], None]) -> io.Bands:
        array, done = page.pixels(), 0
        dtype = array.dtype.newbyteorder("=")
        values: Any = array if alpha is None else multiply(array, alpha)
        for band in method.bands(np.moveaxis(values, -1, 0)[np.newaxis], plan):
            last = np.moveaxis(band[0], 0, -1)
            yield last if alpha is None else divide(last, alpha, dtype)
            done += len(last)
            progress(done / rows)

    return replace(result, extras=extras), pixels
