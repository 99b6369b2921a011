"""Resizing: sampling on a regular grid, one axis after the other.

What happens along an axis is a matrix (`tables`), and the kernels apply one after the other
(`kernels.resize`).  Resizing is linear in the image, so its gradient is the same with the
transposed matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gridsample.backends import backend_of, hand_over, is_overridden
from gridsample.backends.numpy import channels_second, real_type
from gridsample.definitions import tables
from gridsample.definitions.methods import METHODS, spell
from gridsample.definitions.options import Resizing, changed
from gridsample.definitions.plan import (
    Mode,
    as_whole,
    channels_last,
    check_extent,
    check_flag,
    check_threads,
    find_method,
    per_axis,
    unknown,
)
from gridsample.kernels import of_resizing
from gridsample.ops.arrays import back, is_differentiable, planes

Array = np.ndarray[Any, Any]
Factor = float | Sequence[float]

# When integers are rounded: once, at the end; or after each axis, as Pillow or as PyTorch does it.
ROUNDINGS = ("exact", "pillow", "torch")


# What is asked for --------------------------------------------------------------------------------


def find_methods(mode: Mode, rank: int, antialias: bool) -> tuple[str, ...]:
    """How each axis is weighed, in the array's order, spelled as `tables.Axis` has it."""
    methods = [find_method(one, resizing=True) for one in per_axis(mode, rank, "mode")[::-1]]
    for method in methods:
        if antialias and not method.stretches:
            raise ValueError(
                "antialias stretches weights that depend on nothing but the distance from the "
                f"position and sum to one, which those of mode {method.name!r} do not; accepted: "
                "antialias=False, or one of "
                + ", ".join(repr(name) for name, one in METHODS.items() if one.stretches)
            )
    return tuple([spell(method) for method in methods])


def one_each(given: Any, rank: int, name: str) -> tuple[Any, ...]:
    """A number for each axis, from one for all or one per axis."""
    if not isinstance(given, (tuple, list)):
        return (given,) * rank
    if len(given) != rank:
        raise ValueError(
            f"{name} needs one number for all spatial axes of the input, or one for each of its "
            f"{rank} (depth, height, width), got {len(given)}: {tuple(given)}"
        )
    return tuple(given)


def check_size(given: Any, rank: int) -> tuple[int, ...]:
    """The output's spatial shape."""
    try:
        return tuple([as_whole(n) for n in one_each(given, rank, "size")])
    except TypeError:
        raise TypeError(f"size must be an integer, or one for each axis, got {given!r}") from None


def check_scales(given: Any, rank: int) -> tuple[float, ...]:
    """The factors by which each axis is resized."""
    scales = one_each(given, rank, "scale_factor")
    for scale in scales:
        symbolic = type(scale).__name__ in ("SymInt", "SymFloat")
        if isinstance(scale, bool) or not (isinstance(scale, (int, float, np.number)) or symbolic):
            raise TypeError(f"scale_factor must be a number, or one for each axis, got {given!r}")
        if not (math.isfinite(scale) and scale > 0):
            raise ValueError(f"scale_factor must be positive and finite, got {given!r}")
    return tuple([float(scale) for scale in scales])


def plan_resizing(
    spatial: Sequence[int],
    size: Any,
    scale_factor: Any,
    mode: Mode,
    align_corners: bool | None,
    recompute_scale_factor: bool | None,
    antialias: bool,
    *,
    rounding: str = "exact",
    channel_axis: int = 1,
    threads: int | None = None,
) -> Resizing:
    """Validate a call, by PyTorch's rules; ``spatial`` is the image's shape."""
    rank = len(spatial)
    smooths = check_flag(antialias, "antialias")
    methods = find_methods(mode, rank, smooths)
    if align_corners is not None and not any(tables.aligns(method) for method in methods):
        raise ValueError(
            f"align_corners has no meaning for mode {mode!r}; leave it out (None), or choose one "
            f"of {', '.join(repr(name) for name in METHODS if tables.aligns(name))}"
        )
    recompute = check_flag(recompute_scale_factor, "recompute_scale_factor")
    if (size is None) == (scale_factor is None):
        raise ValueError(
            f"give either size or scale_factor, got size={size!r} and scale_factor={scale_factor!r}"
        )
    if size is not None:
        if recompute:
            raise ValueError(f"recompute_scale_factor has no meaning with a size, got size={size}")
        outputs, scales = check_size(size, rank), (0.0,) * rank
    else:
        scales = check_scales(scale_factor, rank)
        outputs = tuple([math.floor(n * s) for n, s in zip(spatial, scales, strict=True)])
        if recompute:
            scales = (0.0,) * rank
    for name, sizes in (("input", tuple(spatial)), ("output", outputs)):
        if any(n < 1 for n in sizes):
            raise ValueError(
                f"{name} must have at least one pixel along each spatial axis, got {sizes}"
                + (f" from scale_factor={scale_factor!r}" if name == "output" else "")
            )
    return Resizing(
        size=outputs,
        methods=methods,
        align_corners=check_flag(align_corners, "align_corners"),
        antialias=smooths,
        scales=scales,
        rounding=check_rounding(rounding),
        channel_axis=channel_axis,
        threads=threads,
    )


def check_rounding(rounding: Any) -> str:
    """When integers are rounded, if it is a name of such."""
    if not isinstance(rounding, str):
        raise TypeError(
            f"rounding must be one of {', '.join(map(repr, ROUNDINGS))}, got {rounding!r}"
        )
    if rounding not in ROUNDINGS:
        raise unknown("rounding", rounding, ROUNDINGS)
    return rounding


def check_image(shape: Sequence[int], channel_axis: int, threads: int | None) -> bool:
    """Refuse a shape that is no image; whether channels come last otherwise."""
    check_threads(threads)
    if not 3 <= len(shape) <= 5:
        raise ValueError(
            "input must have 3 to 5 dimensions, (N, C, *spatial) with 1 to 3 spatial axes, "
            f"got {len(shape)} in shape {tuple(shape)}"
        )
    return channels_last(channel_axis, len(shape))


# The public functions -----------------------------------------------------------------------------


def interpolate(
    input: Any,
    size: int | Sequence[int] | None = None,
    scale_factor: Factor | None = None,
    mode: Mode = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    *,
    rounding: str = "exact",
    channel_axis: int = 1,
    threads: int | None = None,
) -> Any:
    """Resize an image, to a size or by a factor.

    The arguments are those of `torch.nn.functional.interpolate`, whose results these are wherever
    it has any.  With a step of input pixels between two outputs, output i lies at the position

        i * (inputs - 1) / (outputs - 1)       align_corners=True
        (i + 1/2) * step - 1/2                 align_corners=False; the step is inputs / outputs,
                                               or 1 / scale_factor where that is given

    and is a weighted sum of the pixels around it, along one axis after the other.  The weights are
    those of a method: every mode of `grid_sample` is one here, and "area", "gaussian" and
    "nearest-exact" besides.  Along an axis, with the distance s of a pixel from the position:

    ========================  ==================================================================
    "nearest"                 pixel floor(i * step), as in PyTorch
    "nearest-exact"           pixel floor((i + 1/2) * step)
    "linear"                  1 - s; also "bilinear", "trilinear"
    "cubic"                   Keys, a = -0.75 (antialiased -0.5); also "bicubic", "tricubic"
    "catmull-rom"             Keys, a = -0.5
    "mitchell"                Mitchell and Netravali, B = C = 1/3
    "lanczos2" to "lanczos4"  sinc(s) sinc(s / a), divided by the sum of all; "lanczos" has a = 3
    "spline2" to "spline7"    the spline through all pixels, mirrored at the ends:
                              `scipy.ndimage.zoom` with mode="reflect", grid_mode=True, and with
                              mode="mirror", grid_mode=False for align_corners=True
    "area"                    the mean of all pixels that the output overlaps
    "gaussian"                exp(-2 s^2), divided by the sum of all
    ========================  ==================================================================

    Pixels outside are the edge pixel, but for splines.  So with any method other than "nearest",
    "nearest-exact", "area" and "gaussian" the result is that of `grid_sample` at these positions
    with padding_mode="border" (splines: "symmetric", or "mirror" with align_corners=True).

    Any method goes with any number of axes.

    Args:
        input: the image, (N, C, *spatial) with 1 to 3 spatial axes; an array or a tensor of
            bool, any integer type, float16 to float64 (tensors also bfloat16), complex64 or
            complex128; any strides.  bool and integers are rounded and saturate; uint8 images
            are summed in fixed point, within 1 of the rounded real result.
        size: the output's spatial shape, slowest axis first; one number for all axes the same.
        scale_factor: outputs per input, one number or one an axis, slowest first; the size is
            then floor(inputs * scale_factor).
        mode: a name of the table, any other of `gridsample.methods.names()`, or a
            `gridsample.methods.Method`; or a tuple with one for each axis in x, y, z order.
        align_corners: whether the centres of the corner pixels stay where they are, rather than
            the outer edges; None for False.  Not with nearest and area, which know no corners.
        recompute_scale_factor: with a scale_factor, whether the step follows from the sizes all
            the same.
        antialias: whether the weights are stretched by the step where that is more than 1, so
            that nothing is skipped (the tables of Pillow); for nearest, too, which then is the
            mean of a box.  "area" skips nothing anyhow.  A method of your own can be stretched if
            its weights sum to one and depend on the distance alone (`Method.stretches`).
        rounding: when integers are rounded.  "exact": once, at the end.  "pillow", "torch": after
            each axis, to whole numbers that the type holds (uint8: 0 to 255).  For uint8 the result
            is then that of Pillow, or of PyTorch on the CPU, where they have the method; it can be
            60 away from the exact one where a method overshoots.  The two differ in the precision
            of their weights, and Pillow (since 13) begins with the height where an image loses more
            than twice as many rows as columns, while PyTorch always begins with the width.
            Floating images are not rounded; on a GPU PyTorch's own functions resize, which round
            once.
        channel_axis: 1, or -1 for channels-last input and output, (N, *spatial, C).
        threads: how many threads to use at most; None for one a core, or as many as torch uses
            for tensors.  The result does not depend on it.

    Returns:
        (N, C, *size), with the input's dtype.

    Raises:
        TypeError: a dtype, or an option of a type, that is not accepted.
        ValueError: a shape or size that cannot be, options that contradict each other, or a name
            that is unknown.

    Example:
        >>> import numpy as np, gridsample
        >>> image = np.array([[[[0.0, 4.0], [8.0, 12.0]]]])
        >>> gridsample.interpolate(image, scale_factor=2, mode="bilinear")[0, 0]
        array([[ 0.,  1.,  3.,  4.],
               [ 2.,  3.,  5.,  6.],
               [ 6.,  7.,  9., 10.],
               [ 8.,  9., 11., 12.]])
        >>> gridsample.interpolate(image, size=(1, 2), mode="area")
        array([[[[4., 8.]]]])
    """
    if is_overridden(input):
        return hand_over(interpolate, locals(), input)
    backend = backend_of(input=input)
    (image,) = backend.take(input=input)
    last = check_image(backend.shape(image), channel_axis, threads)
    pixels = planes(backend, image, last)
    asked = plan_resizing(
        pixels.shape[2:], size, scale_factor, mode, align_corners, recompute_scale_factor,
        antialias, rounding=rounding, channel_axis=-1 if last else 1, threads=threads,
    )  # fmt: skip
    return backend.give(back(backend, backend.resize(pixels, asked, False), last), input)


def interpolate_vjp(
    grad_output: Any,
    input: Any,
    size: int | Sequence[int] | None = None,
    scale_factor: Factor | None = None,
    mode: Mode = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    *,
    channel_axis: int = 1,
    threads: int | None = None,
) -> Any:
    """The gradient of `interpolate`: the vector-Jacobian product with ``grad_output``.

    Resizing is linear in the image, one matrix an axis, so this is the same with each matrix
    transposed: every pixel of the input gets the sum of the outputs that it was part of, with the
    same weights.

    Args:
        grad_output: upstream gradient, of the output's shape; floating, or complex for a complex
            input.
        input: the image, as in `interpolate`; of it only shape and dtype matter.
        size: as in `interpolate`, like all that follow.
        scale_factor: see there.
        mode: see there.
        align_corners: see there.
        recompute_scale_factor: see there.
        antialias: see there.
        channel_axis: see there; it holds for grad_output and the result too.
        threads: see there.

    Returns:
        The gradient, with the input's shape and dtype.

    Raises:
        TypeError: as `interpolate`, or an input without a gradient.
        ValueError: as `interpolate`, or grad_output has not the output's shape.

    Example:
        >>> import numpy as np, gridsample
        >>> image = np.zeros((1, 1, 3))
        >>> gridsample.interpolate_vjp(np.ones((1, 1, 5)), image, 5, mode="linear")
        array([[[1.6, 1.8, 1.6]]])
    """
    if is_overridden(grad_output, input):
        return hand_over(interpolate_vjp, locals(), grad_output, input)
    backend = backend_of(input=input, grad_output=grad_output)
    image, values = backend.take(input=input, grad_output=grad_output)
    for name, array in (("input", image), ("grad_output", values)):
        if not is_differentiable(backend, array):
            raise TypeError(f"{name} has dtype {array.dtype}, of which there is no gradient")
    names = [backend.type_name(array.dtype) for array in (image, values)]
    if [one.startswith("complex") for one in names] == [False, True]:
        raise TypeError(f"grad_output has dtype {values.dtype}, but input is real: {image.dtype}")
    last = check_image(backend.shape(image), channel_axis, threads)
    check_image(backend.shape(values), channel_axis, threads)
    pixels, values = planes(backend, image, last), planes(backend, values, last)
    asked = plan_resizing(
        pixels.shape[2:], size, scale_factor, mode, align_corners, recompute_scale_factor,
        antialias, channel_axis=-1 if last else 1, threads=threads,
    )  # fmt: skip
    check_upstream(values.shape, pixels.shape, asked)
    asked = changed(asked, size=tuple(pixels.shape[2:]))
    result = backend.astype(backend.resize(values, asked, True), image.dtype)
    return backend.give(back(backend, result, last), input)


def check_upstream(values: Sequence[int], image: Sequence[int], asked: Resizing) -> None:
    """Refuse an upstream gradient that has not the output's shape."""
    shape = (*image[:2], *asked.size)
    if tuple(values) != shape:
        raise ValueError(
            f"grad_output must have the output's shape, {shape} with the channels first, "
            f"got {tuple(values)}"
        )


# A band of rows at a time -------------------------------------------------------------------------


def resize_rows(
    read: Callable[[int, int], Array],
    shape: Sequence[int],
    size: int | Sequence[int] | None = None,
    scale_factor: Factor | None = None,
    mode: Mode = "nearest",
    align_corners: bool | None = None,
    antialias: bool = False,
    *,
    rows: int = 0,
    threads: int | None = None,
) -> Iterator[Array]:
    """Resize a channels-last image of which only a band of rows is ever in memory.

    Args:
        read: gives rows ``begin`` to ``end`` of the image (in a volume, slices), (end - begin,
            ..., C); it is called with bands that go down the image and overlap a little.
        shape: the image's shape, (H, W, C) or (D, H, W, C).
        size: as in `interpolate`.
        scale_factor: as in `interpolate`.
        mode: as in `interpolate`.
        align_corners: as in `interpolate`.
        antialias: as in `interpolate`.
        rows: how many rows of the output to make at once; 0 for some million numbers.
        threads: as in `interpolate`.

    Yields:
        The output's rows from first to last, a band at a time: (rows, ..., C).

    Raises:
        TypeError: as `interpolate`.
        ValueError: as `interpolate`.

    Example:
        >>> import numpy as np
        >>> from gridsample.ops.resizing import resize_rows
        >>> image = np.arange(24.0).reshape(6, 4, 1)
        >>> bands = resize_rows(lambda a, b: image[a:b], (6, 4, 1), (3, 2), mode="area", rows=2)
        >>> [band[..., 0].tolist() for band in bands]
        [[[2.5, 4.5], [10.5, 12.5]], [[18.5, 20.5]]]
    """
    kernels = of_resizing()
    check_image((1, *shape), -1, threads)
    spatial = tuple(shape[:-1])
    asked = plan_resizing(spatial, size, scale_factor, mode, align_corners, None, antialias)
    check_extent("a row of the result", (*asked.size[1:], shape[-1]), 16)
    others = tables.axis_maps(
        spatial[1:],
        asked.size[1:],
        asked.methods[1:],
        asked.align_corners,
        asked.antialias,
        asked.scales[1:],
    )
    name = asked.methods[0]
    leading = tables.Axis(
        spatial[0], asked.size[0], name,
        asked.align_corners and tables.aligns(name), asked.antialias, asked.scales[0],
    )  # fmt: skip
    row_in, row_out = math.prod(shape[1:]), math.prod(asked.size[1:]) * shape[-1]
    rows = rows or max(1, int(BAND_NUMBERS / max(row_out, row_in * spatial[0] / asked.size[0])))
    for begin in range(0, asked.size[0], rows):
        part = tables.window(leading, slice(begin, min(begin + rows, asked.size[0])))
        band = read(part.inputs.start, part.inputs.stop)
        made = np.empty((1, part.map.band.outputs, *asked.size[1:], shape[-1]), band.dtype)
        kernels.resize(
            [part.map, *others], channels_second(band[np.newaxis]), channels_second(made),
            real_type(band.dtype), threads,
        )  # fmt: skip
        yield made[0, part.keep]


# Numbers in a band of rows, before or after.
BAND_NUMBERS = 1 << 23
