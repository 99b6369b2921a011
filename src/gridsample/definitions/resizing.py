"""Resizing: its options, checked for the shape of an image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions import tables
from gridsample.definitions.checks import check_flag, check_threads
from gridsample.definitions.methods import METHODS, Method, ResizingMode, find_method, per_axis
from gridsample.definitions.options import Resizing
from gridsample.definitions.request import ResizeRequest
from gridsample.definitions.shapes import (
    MAX_RANK,
    Shape,
    as_whole,
    axis_name,
    channels_last,
    image_hint,
    is_image,
)
from gridsample.messages.links import unknown_name

# When integers are rounded: once, at the end; or after each axis, like Pillow or like PyTorch.
ROUNDINGS = ("exact", "pillow", "torch")


class Sizes(NamedTuple):
    """How large a resized image is, as the caller says it: a size, or outputs per input.

    Attributes:
        size: the output's spatial shape, or a number for all axes; None for a factor.
        scale_factor: a number, or one per axis; None for a size.
        types: those of all numbers, because 2.0 equals 2.
    """

    size: Any
    scale_factor: Any
    types: tuple[type, ...]


def plain_resizing(request: ResizeRequest, image: Sequence[int], sizes: Sizes) -> Resizing | None:
    """Validate a call with an image (N, C, *spatial); None if the request is not plain."""
    axis = request.channel_axis
    if not request.is_plain() or type(axis) is not int or axis != 1:
        return None
    check_image(image, 1, request.threads)
    rank = len(image) - 2
    size = None if sizes.size is None else check_size(sizes.size, rank)
    scales = None if sizes.scale_factor is None else check_scales(sizes.scale_factor, rank)
    return checked_resizing(tuple(image[2:]), size, scales, request)


def find_methods(mode: ResizingMode, rank: int, antialias: bool) -> tuple[Method, ...]:
    """Return the method of each axis in the array's order."""
    methods = [find_method(entry, resizing=True) for entry in per_axis(mode, rank, "mode")[::-1]]
    for method in methods:
        if antialias and not method.stretches:
            raise ValueError(
                "antialias requires weights that depend only on the distance from the position and "
                f"sum to one, but those of mode {method.name!r} do not; accepted: "
                "antialias=False, or one of "
                + ", ".join(repr(name) for name, method in METHODS.items() if method.stretches)
            )
    return tuple(methods)


def numbers_per_axis(value: Any, rank: int, name: str) -> tuple[Any, ...]:
    """Expand a number to one per axis; several are returned if there is one per axis."""
    if not isinstance(value, (tuple, list)):
        return (value,) * rank
    if len(value) != rank:
        further = [axis_name(axis) for axis in reversed(range(3, rank))]
        axes = ", ".join((*further, "depth", "height", "width")[-rank:])
        advice = "; an image without a batch axis is given as input[None]"
        advice += ", one that is (H, W, C) with channel_axis=-1" * (rank == 1)
        raise ValueError(
            f"{name} needs one number for all spatial axes of the input, or one for each: "
            f"({axes}{',' * (rank == 1)}), got {len(value)}: {tuple(value)}"
            + advice
            * (len(value) > rank)
        )
    return tuple(value)


def check_size(size: Any, rank: int) -> tuple[int, ...]:
    """Return the output's spatial shape, or raise an error if it is not valid."""
    try:
        return tuple([as_whole(n) for n in numbers_per_axis(size, rank, "size")])
    except TypeError:
        hint = f"; did you mean scale_factor={size!r}?" if isinstance(size, float) else ""
        raise TypeError(
            f"size must be an integer, or one for each axis, got {size!r}{hint}"
        ) from None


def check_scales(scale_factor: Any, rank: int) -> tuple[float, ...]:
    """Return the scale factor of each axis, or raise an error if they are not valid."""
    scales = numbers_per_axis(scale_factor, rank, "scale_factor")
    for scale in scales:
        symbolic = type(scale).__name__ in ("SymInt", "SymFloat")
        if isinstance(scale, bool) or not (isinstance(scale, (int, float, np.number)) or symbolic):
            raise TypeError(
                f"scale_factor must be a number, or one for each axis, got {scale_factor!r}"
            )
        if not (math.isfinite(scale) and scale > 0):
            raise ValueError(f"scale_factor must be positive and finite, got {scale_factor!r}")
    return tuple([float(scale) for scale in scales])


def checked_resizing(
    spatial: Shape,
    size: Shape | None,
    scale_factor: tuple[float, ...] | None,
    request: ResizeRequest,
    last: bool = False,
) -> Resizing:
    """Validate a call with valid sizes and scales, by PyTorch's rules.

    Args:
        spatial: the image's spatial shape.
        size: the output's spatial shape, or None.
        scale_factor: outputs per input along each axis, or None.
        request: the options as the caller gave them.
        last: whether the caller's channels come last.

    Raises:
        TypeError: the type of an option is not accepted.
        ValueError: options contradict each other, or a name is unknown.
    """
    rank, mode, align_corners = len(spatial), request.mode, request.align_corners
    smooths = check_flag(request.antialias, "antialias")
    methods = find_methods(mode, rank, smooths)
    if align_corners is not None and not any(tables.aligns(method) for method in methods):
        raise ValueError(
            f"align_corners has no meaning for mode {mode!r}; leave it out (None), or choose one "
            f"of {', '.join(repr(name) for name in METHODS if tables.aligns(METHODS[name]))}"
        )
    recompute = check_flag(request.recompute_scale_factor, "recompute_scale_factor")
    if (size is None) == (scale_factor is None):
        raise ValueError(
            f"give either size or scale_factor, got size={size!r} and scale_factor={scale_factor!r}"
        )
    if size is not None:
        if recompute:
            raise ValueError(f"recompute_scale_factor has no meaning with a size, got size={size}")
        outputs, scales = size, (0.0,) * rank
    else:
        assert scale_factor is not None
        scales = scale_factor
        outputs = tuple([math.floor(n * s) for n, s in zip(spatial, scales, strict=True)])
        if recompute:
            scales = (0.0,) * rank
    for name, sizes in (("input", spatial), ("output", outputs)):
        if any(n < 1 for n in sizes):
            scaled = name == "output" and size is None
            raise ValueError(
                f"{name} must have at least one pixel along each spatial axis, got {sizes}"
                + (f" from scale_factor={scale_factor!r}" if scaled else "")
            )
    return Resizing(
        size=outputs,
        methods=methods,
        align_corners=check_flag(align_corners, "align_corners"),
        antialias=smooths,
        scales=scales,
        rounding=check_rounding(request.rounding),
        channel_axis=-1 if last else 1,
        threads=request.threads,
    )


def check_rounding(rounding: Any) -> str:
    """Return ``rounding``, or raise an error if it is not a known name."""
    if not isinstance(rounding, str):
        raise TypeError(
            f"rounding must be one of {', '.join(map(repr, ROUNDINGS))}, got {rounding!r}"
        )
    if rounding not in ROUNDINGS:
        raise unknown_name("rounding", rounding, ROUNDINGS)
    return rounding


def check_image(shape: Sequence[int], channel_axis: int, threads: int | None) -> bool:
    """Return whether channels come last, or raise an error if the shape is not that of an image."""
    check_threads(threads)
    if not is_image(tuple(shape)):
        raise ValueError(
            f"input must have 3 to {MAX_RANK + 2} dimensions, (N, C, *spatial) with 1 to "
            f"{MAX_RANK} spatial axes, got {len(shape)} in shape {tuple(shape)}"
            f"{image_hint(tuple(shape), (2,))}"
        )
    return channels_last(channel_axis, len(shape))
