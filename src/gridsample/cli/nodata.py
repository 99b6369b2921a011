"""How commands treat missing pixels: what their options and their files say of these."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from gridsample import io
from gridsample.alpha import Alpha
from gridsample.definitions.boundaries import MISSING
from gridsample.definitions.methods import Padding
from gridsample.io.nodata import NoData, storable


def number_of(image: io.Image, arguments: argparse.Namespace) -> Any:
    """Return the number that stands for missing pixels of a page, or None."""
    number, requested = image.extras.get("nodata"), arguments.nodata
    dtype = image.array.dtype
    if requested is not None:
        if not storable(requested, dtype):
            raise ValueError(f"--nodata {requested:g} cannot be stored in pixels of dtype {dtype}")
        return requested
    return number if number is not None and storable(number, dtype) else None  # no pixel has it


def missing_by_default(missing: str | None, number: Any) -> str:
    """Return ``--missing``; by default, missing pixels are ignored if there is a number, or NaN."""
    return missing or ("propagate" if number is None else "ignore")


def boundary_of_missing(number: Any, copies: bool) -> tuple[Padding, Any]:
    """Return the default boundary and fill value: outside is missing if a number stands for that.

    Args:
        number: the number, or None.
        copies: whether sampling only copies pixels, missing ones included.
    """
    if number is None:
        return "zeros", 0
    return ("constant", number) if copies else (MISSING, 0)


def nodata_of(
    image: io.Image, arguments: argparse.Namespace, alpha: Alpha | None, copies: bool
) -> NoData | None:
    """Return how missing pixels of a page are treated; None if every pixel is sampled as it is.

    Args:
        image: the page.
        arguments: the arguments ``missing`` and ``nodata``.
        alpha: the channel that colours are multiplied by before sampling, or None.
        copies: whether results are copies of pixels, see `gridsample.warp.copies_pixels`.
    """
    number = number_of(image, arguments)
    missing = missing_by_default(arguments.missing, number)
    nodata = NoData.of(number, missing, image.array.dtype, copies)
    if nodata is not None and alpha is not None:
        raise ValueError(
            "missing pixels and alpha cannot be combined; give --straight-alpha to sample colours "
            "independently of alpha"
        )
    return nodata


def with_nodata(image: io.Image, arguments: argparse.Namespace) -> io.Image:
    """Return the output page with the nodata value that its file is to name."""
    if arguments.nodata is None:
        return image
    return replace(image, extras={**image.extras, "nodata": arguments.nodata})
