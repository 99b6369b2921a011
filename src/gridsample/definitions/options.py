"""The options of a call after they have been checked, each kind as one record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.boundaries import BOUNDARIES, check_boundaries
from gridsample.definitions.caches import cached_call
from gridsample.definitions.cells import AxisMethod
from gridsample.definitions.checks import (
    as_array,
    check_constant,
    check_dense,
    check_flag,
    check_threads,
)
from gridsample.definitions.coords import CONTINUE, MARGINS, check_coords, find_ends
from gridsample.definitions.dtypes import (
    WIDE_TYPES,
    check_grid_type,
    check_image_type,
    type_name,
)
from gridsample.definitions.footprints import Footprint, as_footprint, check_footprint
from gridsample.definitions.knots import Axes, Knots, SplineKnots
from gridsample.definitions.labels import check_label_fill, check_labels, has_labels
from gridsample.definitions.methods import Method, find_method, per_axis
from gridsample.definitions.plan import OutputBlock, Plan
from gridsample.definitions.request import Request, changed, is_default_fill
from gridsample.definitions.shapes import (
    Shape,
    axis_name,
    channels_last,
    check_shapes,
    is_image,
)

# The largest number of images of a dtype, if it is not that of float32.
LARGEST = {"float16": 65504.0, "bfloat16": (2 - 2**-7) * 2.0**127}
LARGEST |= dict.fromkeys(["float64", "complex128"], float(np.finfo(np.float64).max))


class Options(NamedTuple):
    """The options of sampling, checked for an image and a grid, as backends receive them.

    `checked` creates the record from a `Request`.  Tuples have an entry per axis, in x, y, z order.

    Attributes:
        mode: the methods, or their names.
        padding_mode: the names of the boundaries.
        align_corners: whether -1 and 1 are the centres of the corner pixels.
        coords: the units of coordinates: a name, or `Axes`.
        fill_value: the value outside: () for 0, or a tuple with one number or one per channel.
        ends: where the image ends, beyond which the fill value is: a name in `MARGINS`; `CONTINUE`;
            or True if the boundary extends the image.  () if one does along all axes.
        prefilter: whether this image is prefiltered, which is only the case if some axis has a
            spline.
        channel_axis: 1, or -1 if the caller's channels come last.
        threads: the maximum number of threads; None for the default.
        footprint: how the footprints of output points are sampled; None to sample points.
        order: the order of the derivative along each axis.
        block: which part of a larger output the points are; None if they are all of it.
        wide: whether to compute in float64 even if the image and the grid are float32.
        plan: what a backend has computed for arrays of these shapes and types, or None (see
            `Backend.resolve_options`).  It is dropped when a field that it may depend on changes.
    """

    mode: tuple[str | Method, ...]
    padding_mode: tuple[str, ...]
    align_corners: bool = False
    coords: str | Axes = "normalized"
    fill_value: tuple[Any, ...] = ()
    ends: tuple[bool | str, ...] = ()
    prefilter: bool = False
    channel_axis: int = 1
    threads: int | None = None
    footprint: Footprint | None = None
    order: Sequence[int] = ()
    block: OutputBlock | None = None
    wide: bool = False
    plan: Any = None

    def changed(self, **fields: Any) -> Options:
        """Return a copy with other values in some fields, and without the plan."""
        return changed(self, **{"plan": None, **fields})

    # These are methods because before torch 2.9, `torch.compile` does not support properties of a
    # named tuple.

    def channels_last(self) -> bool:
        """Whether the caller's channels come last."""
        return self.channel_axis == -1

    def splines(self) -> tuple[int, ...]:
        """The order of the spline of each axis; less than 2 if the axis needs no prefilter."""
        return tuple([find_method(name).prefilter for name in self.mode])

    def linear(self) -> Options:
        """Return a copy without the fill value, so that sampling is linear in the image."""
        return self.changed(fill_value=()) if self.fill_value else self

    def extrapolates(self) -> bool:
        """Whether the boundary extends the image everywhere."""
        return not self.ends

    def fills(self) -> bool:
        """Whether dropped taps have the fill value, along some axis."""
        return any([BOUNDARIES[name].filled for name in self.padding_mode])

    def may_fill(self) -> bool:
        """Whether some dropped tap or point outside has the fill value."""
        return any([end in MARGINS for end in self.ends]) or self.fills()

    def blends(self) -> bool:
        """Whether sums of taps contain the fill value, so that the grid's derivatives do, too."""
        return self.fills() if self.fill_value else False

    def raised(self, axis: int) -> Options:
        """Return a copy with the order of the derivative along an axis raised by one."""
        return self.changed(order=tuple([n + (k == axis) for k, n in enumerate(self.order)]))


class Averaging(NamedTuple):
    """How samples are means over the pixels that count.

    Attributes:
        min_weight: the weight that a result must exceed; otherwise it is missing.
        missing_value: the value of missing results, or one per channel; empty for NaN.
        ignores_dropped: whether dropped taps count for nothing, too.
        ignores_nan: whether NaN pixels do.
        returns_weights: whether the sums of weights are a second result.
    """

    min_weight: float = 0.0
    missing_value: tuple[float, ...] = ()
    ignores_dropped: bool = False
    ignores_nan: bool = True
    returns_weights: bool = False


class Resizing(NamedTuple):
    """The options of resizing, with axes in the array's order, (depth, height, width).

    Attributes:
        size: the output's spatial shape.
        methods: the method of each axis, or how else it is resized.
        align_corners: whether the centres of the corner pixels stay in place.
        antialias: whether weights are stretched along axes that shrink.
        scales: outputs per input along each axis; 0 if positions follow from the sizes.
        rounding: when integers are rounded.
        channel_axis: 1, or -1 if the caller's channels come last.
        threads: the maximum number of threads; None for the default.
        stretched: False if antialiasing does not stretch weights, but only leaves out the pixels
            outside the image, as `jax.image.resize` does.
    """

    size: Shape
    methods: tuple[AxisMethod, ...]
    align_corners: bool
    antialias: bool
    scales: tuple[float, ...]
    rounding: str = "exact"
    channel_axis: int = 1
    threads: int | None = None
    stretched: bool = True


def checked(request: Request, image: Shape, grid: Shape) -> Options:
    """Validate the options for an image and a grid of these shapes, except for the fill value.

    Raises:
        TypeError: the type of an option is not accepted.
        ValueError: the shapes do not match, or a name is unknown or ambiguous.
    """
    footprint = as_footprint(request.antialias, request.max_samples, request.footprint)
    # An image of the wrong rank raises a more specific error below.
    last = channels_last(request.channel_axis if is_image(image) else 1, len(image))
    check_threads(request.threads)
    rank = check_shapes(image, grid, last)
    mode = per_axis(request.mode, rank, "mode")
    splines = [find_method(name).prefilter for name in mode]
    prefilter = check_flag(request.prefilter, "prefilter")
    aligned = check_flag(request.align_corners, "align_corners")
    spatial = image[1:-1] if last else image[2:]
    coords = check_coords(request.coords, spatial, grid[1:-1])
    check_axes(coords, mode, footprint)
    ends = find_ends(request.extrapolate, coords, aligned, rank)
    check_knots(coords, mode, ends)
    padding_mode = per_axis(request.padding_mode, rank, "padding_mode")
    if CONTINUE in ends:
        padding_mode = continued(mode, padding_mode, ends, footprint)
    padding_mode = check_boundaries(padding_mode)
    footprint = check_footprint(footprint, rank, grid)
    if footprint is not None and request.level is not None:
        footprint = changed(footprint, level=request.level)
    return Options(
        mode=mode,
        padding_mode=padding_mode,
        align_corners=aligned,
        coords=coords,
        ends=ends,
        prefilter=prefilter and max(splines) > 1,
        channel_axis=-1 if last else 1,
        threads=request.threads,
        footprint=footprint,
        order=request.order or (0,) * rank,
        block=request.block,
        wide=request.wide,
    )


def check_axes(coords: str | Axes, mode: Sequence[str | Method], footprint: Any) -> None:
    """Raise an error if axes with coordinates of their own do not go with other options."""
    if not isinstance(coords, Axes):
        return
    if footprint is not None:
        raise ValueError(
            "antialias=True does not accept the coordinates of axes in coords; convert the grid by "
            "gridsample.fields.to_pixel, and pass coords='pixel'"
        )
    for number, (entry, name) in enumerate(zip(coords.entries, mode, strict=True)):
        method = find_method(name)
        if method.by_interval or not isinstance(entry, Knots):
            continue
        if method.taps > 2 and not entry.is_even:
            raise ValueError(
                f"mode {method.name!r} reads {method.taps} pixels along {axis_name(number)}, with "
                "weights for equal distances, but coords there are not equidistant; accepted: "
                "methods that read one pixel or two, such as 'linear' and 'nearest'"
            )


def check_knots(
    coords: str | Axes, mode: Sequence[str | Method], ends: Sequence[bool | str]
) -> None:
    """Raise an error if splines on knots do not go with the knots of an axis, or its end."""
    entries = coords.entries if isinstance(coords, Axes) else (coords,) * len(mode)
    for entry, name, end in zip(entries, mode, ends or (True,) * len(mode), strict=True):
        method, knots = find_method(name), isinstance(entry, SplineKnots)
        degree = entry.degree if isinstance(entry, SplineKnots) else None
        if (knots or method.by_interval) and (
            not method.by_interval
            or degree != method.powers - 1
            or end not in (CONTINUE, "centers")
        ):
            raise ValueError(
                f"mode {method.name!r} with coords {entry!r} and extrapolate {end!r}: splines on "
                "knots need the knots of their degree, and extrapolate='continue' or False"
            )


def continued(
    mode: Sequence[str | Method],
    padding_mode: Sequence[str],
    ends: Sequence[bool | str],
    footprint: Any,
) -> tuple[str, ...]:
    """Return the boundaries of all axes, "border" where the intervals at the ends continue.

    Raises:
        ValueError: they cannot continue under other options of their axis, or over footprints.
    """
    names = list(padding_mode)
    for a, end in enumerate(ends):
        if end != CONTINUE:
            continue
        method = find_method(mode[a])
        if not (method.copies or method.is_linear or method.by_interval):
            raise ValueError(
                f"extrapolate 'continue' does not accept mode {method.name!r}; accepted: 'linear' "
                "and methods of one pixel"
            )
        if names[a] not in ("zeros", "border"):
            raise ValueError(
                "extrapolate 'continue' takes the place of a boundary; accepted with padding_mode "
                f"'border', or none, got {names[a]!r} along {axis_name(a)}"
            )
        names[a] = "border"
    if footprint is not None:
        raise ValueError("extrapolate 'continue' does not accept antialias=True")
    return tuple(names)


@cached_call(1024)
def plan_of(
    image: Shape,
    dtype: np.dtype[Any],
    grid: Shape,
    grid_type: np.dtype[Any],
    options: Options,
    last: bool = False,
) -> Plan:
    """Create the plan of checked options; ``last`` means that the image's channels come last.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: the options do not go with labels.
    """
    check_image_type(dtype)
    check_grid_type(grid_type)
    methods = tuple([find_method(name) for name in options.mode])
    odd = [name for name in options.padding_mode if BOUNDARIES[name].odd]
    summed = not check_labels(methods, dtype, dtype.kind in "biu", odd)
    is_double = grid_type.name == "float64" or (dtype.name in WIDE_TYPES and summed)
    # Single precision would lose the fraction of an interval far along an axis.
    is_double = is_double or options.wide or isinstance(options.coords, Axes)
    return Plan(
        methods=methods,
        boundaries=options.padding_mode,
        align_corners=options.align_corners,
        spatial=image[1:-1] if last else image[2:],
        image_items=image[0],
        grid_items=grid[0],
        channels=image[-1] if last else image[1],
        out=grid[1:-1],
        dtype=dtype.newbyteorder("="),
        real=np.dtype(np.float64 if is_double else np.float32),
        coords=options.coords,
        ends=options.ends,
        footprint=options.footprint,
        block=options.block,
    )


def fill_numbers(
    fill_value: Any, request: Request, used: bool, dtype: Any, channels: int
) -> tuple[Any, ...]:
    """Compute the fill value of checked options: () for 0, one number, or one per channel.

    Args:
        fill_value: the value as the caller gave it.
        request: the other options as the caller gave them.
        used: whether a tap or a point outside has it; see `Options.may_fill`.
        dtype: the dtype of the image, for messages; its name contains "complex" if it is complex.
        channels: the number of channels of the image.

    Raises:
        TypeError: the value does not consist of numbers, or is complex although the image is not.
        ValueError: the value has the wrong shape, is not used, is beyond the dtype's range, or is
            not a label although the image has labels.
    """
    if is_default_fill(fill_value):
        return ()
    check_constant(fill_value=fill_value)
    types = (int, float, complex)
    is_list = isinstance(fill_value, (tuple, list))
    entries = list(fill_value) if is_list else [fill_value]
    if isinstance(fill_value, str) or all([isinstance(entry, types) for entry in entries]):
        shape: Shape = (len(entries),) if is_list else ()
    else:
        if not hasattr(fill_value, "tolist"):
            fill_value = as_array(fill_value, "fill_value")
        check_dense(fill_value=fill_value)
        shape = tuple(fill_value.shape)
        # A broadcast array can have too many entries to be converted to a list.
        few = math.prod(shape) <= max(1, channels)
        entries = fill_value.reshape(-1).tolist() if few else [0]
    numbers = all([isinstance(entry, types) for entry in entries])
    real = numbers and not any([isinstance(entry, complex) for entry in entries])
    if not real and not (numbers and "complex" in str(dtype)):
        raise TypeError(
            f"fill_value must be a real number, or one per channel, or complex for a complex "
            f"input; got {fill_value!r} for an input of dtype {dtype}"
        )
    if len(shape) > 1 or (len(shape) == 1 and shape[0] != channels):
        raise ValueError(
            f"fill_value must be a number or one for each of the {channels} channels, "
            f"got shape {shape}"
        )
    if not any([entry != 0 for entry in entries]):
        return ()
    if not used:
        raise ValueError(
            f"fill_value {fill_value!r} has no effect here; accepted with padding_mode 'constant' "
            "or extrapolate=False, got padding_mode "
            f"{request.padding_mode!r}"
        )
    if has_labels(request.mode):
        check_label_fill(entries, dtype)
    check_fill_range(entries, dtype)
    return tuple(entries)


def check_fill_range(entries: Sequence[Any], dtype: Any) -> None:
    """Raise a ValueError if a finite number is infinite in the dtype of an image, or of its sums.

    dtype: the image's, of NumPy or torch.
    """
    name = type_name(dtype) if isinstance(dtype, np.dtype) else str(dtype).rpartition(".")[2]
    largest = LARGEST.get(name, float(np.finfo(np.float32).max))
    parts = [part for entry in entries for part in (entry.real, entry.imag)]
    wrong = [part for part in parts if largest < abs(part) != math.inf]
    if wrong:
        raise ValueError(
            f"fill_value is beyond the range of an input of dtype {name}; accepted: numbers from "
            f"{-largest} to {largest}, infinity and NaN"
        )


def fill_of_channels(numbers: Sequence[Any], plan: Plan) -> np.ndarray[Any, Any] | None:
    """Convert the fill value of a checked record to a number per channel; None if it is 0."""
    return np.broadcast_to(np.array(numbers), (plan.channels,)) if numbers else None


def fill_array(
    numbers: Sequence[Any], dtype: np.dtype[Any], dimensions: int
) -> np.ndarray[Any, Any]:
    """Convert the fill value of a checked record to an array that broadcasts over (N, C, ...)."""
    return np.array(numbers or (0,)).astype(dtype).reshape(1, -1, *(1,) * (dimensions - 2))
