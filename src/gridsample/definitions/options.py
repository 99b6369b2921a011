"""How to sample: one record, made where a call comes in, checked, and handed on whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from gridsample.definitions.checks import as_array, check_constant, check_dense
from gridsample.definitions.plan import (
    BOUNDARIES,
    Shape,
    channels_last,
    check_boundaries,
    check_coords,
    check_flag,
    check_shapes,
    check_threads,
    find_coords,
    find_method,
    hashable,
    per_axis,
)

Record = TypeVar("Record", bound=tuple[Any, ...])


class Options(NamedTuple):
    """How to sample.

    A public function makes the record of its arguments, by name.  `checked` makes sure that they
    mean something for arrays of given shapes, and gives the record that backends take, in which
    there is one entry for each axis, in x, y, z order.

    Attributes:
        mode: how pixels are weighed; a checked record has a tuple of names and methods.
        padding_mode: what is outside; a checked record has a tuple of names.
        align_corners: whether -1 and 1 are the centres of the corner pixels.
        coords: what coordinates count.
        fill_value: what is outside under "constant"; a checked record has () for 0, or a tuple of a
            number or of one for each channel.
        extrapolate: whether a position outside the image has taps, rather than the fill value.
        prefilter: whether an image is filtered where splines weigh it; in a checked record, whether
            this one is: some axis has a spline.
        channel_axis: 1, or -1 where the caller's channels come last.
        threads: how many threads to use; None for as many as there are.
        order: the order of derivative along each axis; only a checked record has it.
        plan: what a backend has worked out for arrays of one shape and type (`Backend.settle`), or
            None.  It is dropped when anything changes that it may depend on.
    """

    mode: Any = "bilinear"
    padding_mode: Any = "zeros"
    align_corners: bool = False
    coords: Any = "normalized"
    fill_value: Any = 0
    extrapolate: bool = True
    prefilter: bool = True
    channel_axis: int = 1
    threads: int | None = None
    order: Sequence[int] = ()
    plan: Any = None

    def changed(self, **fields: Any) -> Options:
        """The same with other values in some fields, and no plan."""
        return changed(self, **{"plan": None, **fields})

    # Methods rather than properties, which `torch.compile` cannot follow in a named tuple before
    # torch 2.9.

    def channels_last(self) -> bool:
        """Whether the caller's channels come last."""
        return self.channel_axis == -1

    def splines(self) -> tuple[int, ...]:
        """The order of each axis's spline whose coefficients are made first; else less than 2."""
        return tuple([find_method(one).prefilter for one in self.mode])

    def linear(self) -> Options:
        """The same without a fill value: what is linear in the image."""
        return self.changed(fill_value=()) if self.fill_value else self

    def blends(self) -> bool:
        """Whether the fill is summed with pixels, so that derivatives along the grid see it."""
        return bool(self.fill_value) and any(BOUNDARIES[name].filled for name in self.padding_mode)

    def raised(self, axis: int) -> Options:
        """The same with the order of derivative along an axis raised by one."""
        return self.changed(order=tuple([n + (k == axis) for k, n in enumerate(self.order)]))


class Resizing(NamedTuple):
    """How to resize; per axis in the array's order, (depth, height, width).

    Attributes:
        size: the output's spatial shape.
        methods: a name of `gridsample.definitions.tables` for each axis.
        align_corners: whether the centres of the corner pixels stay where they are.
        antialias: whether weights are stretched where an axis shrinks.
        scales: outputs per input along each axis; 0 where the sizes tell.
        rounding: when integers are rounded.
        channel_axis: 1, or -1 where the caller's channels come last.
        threads: how many threads to use; None for as many as there are.
    """

    size: Shape
    methods: tuple[str, ...]
    align_corners: bool
    antialias: bool
    scales: tuple[float, ...]
    rounding: str = "exact"
    channel_axis: int = 1
    threads: int | None = None


def changed(record: Record, **fields: Any) -> Record:
    """A named tuple with other values in some fields.

    Before torch 2.9, `torch.compile` cannot follow a named tuple's own `_replace`.
    """
    kind: Any = type(record)
    return kind(*[fields.get(k, one) for k, one in zip(kind._fields, record, strict=True)])  # type: ignore[no-any-return]


def keyed(options: Options) -> Options:
    """The options without the fill value, as a key of a cache.

    Raises:
        TypeError: some option cannot be a key, and means nothing.
    """
    if type(options.coords) is not str:
        find_coords(options.coords)
    if options.threads is not None:
        check_threads(options.threads)
    if type(options.mode) is type(options.padding_mode) is str:
        return options if type(options.fill_value) is int else options._replace(fill_value=0)
    mode, padding_mode = hashable(options.mode), hashable(options.padding_mode)
    return options._replace(mode=mode, padding_mode=padding_mode, fill_value=0)


def looked_up(settled: Any, *key: Any) -> Options:
    """A record from a cached function; by itself where the key has no hash, for the error."""
    try:
        return settled(*key)  # type: ignore[no-any-return]
    except TypeError:
        pass
    return settled.__wrapped__(*key)  # type: ignore[no-any-return]


def checked(options: Options, image: Shape, grid: Shape) -> Options:
    """The record for an image and a grid of these shapes, apart from the fill value.

    Raises:
        TypeError: an option of a type that is not accepted.
        ValueError: shapes that do not go together, or a name that is unknown or ambiguous.
    """
    # An image of a wrong rank has an error of its own, which says more.
    last = channels_last(options.channel_axis if 3 <= len(image) <= 5 else 1, len(image))
    check_threads(options.threads)
    rank = check_shapes(image, grid, last)
    mode = per_axis(options.mode, rank, "mode")
    splines = [find_method(one).prefilter for one in mode]
    wanted = check_flag(options.prefilter, "prefilter")
    return Options(
        mode=mode,
        padding_mode=check_boundaries(per_axis(options.padding_mode, rank, "padding_mode")),
        align_corners=check_flag(options.align_corners, "align_corners"),
        coords=check_coords(options.coords, rank, grid[1:-1]),
        fill_value=(),
        extrapolate=check_flag(options.extrapolate, "extrapolate"),
        prefilter=wanted and max(splines) > 1,
        channel_axis=-1 if last else 1,
        threads=options.threads,
        order=(0,) * rank,
    )


def fill_numbers(options: Options, filled: bool, dtype: Any, channels: int) -> tuple[Any, ...]:
    """The fill value of a checked record: () for 0, one number, or one for each channel.

    Args:
        options: the caller's.
        filled: whether some axis's boundary takes a fill value.
        dtype: the image's, which goes into messages; the name of a complex one says so.
        channels: the image's.

    Raises:
        TypeError: it is not made of numbers, or is complex and the image is not.
        ValueError: its shape is another, or nothing uses it.
    """
    given: Any = options.fill_value
    if type(given) in (int, float) and given == 0:
        return ()
    check_constant(fill_value=given)
    kinds = (int, float, complex)
    several = isinstance(given, (tuple, list))
    entries = list(given) if several else [given]
    if all([isinstance(one, kinds) for one in entries]):
        shape: Shape = (len(entries),) if several else ()
    else:
        if not hasattr(given, "tolist"):
            given = as_array(given, "fill_value")
        check_dense(fill_value=given)
        shape = tuple(given.shape)
        # A broadcast array can have more entries than anybody can look at.
        few = math.prod(shape) <= max(1, channels)
        entries = given.reshape(-1).tolist() if few else [0]
    numbers = all([isinstance(one, kinds) for one in entries])
    real = numbers and not any([isinstance(one, complex) for one in entries])
    if not real and not (numbers and "complex" in str(dtype)):
        raise TypeError(
            f"fill_value must be a real number, or one per channel, or complex for a complex "
            f"input; got {given!r} for an input of dtype {dtype}"
        )
    if len(shape) > 1 or (len(shape) == 1 and shape[0] != channels):
        raise ValueError(
            f"fill_value must be a number or one for each of the {channels} channels, "
            f"got shape {shape}"
        )
    if not any([one != 0 for one in entries]):
        return ()
    if not filled and options.extrapolate:
        raise ValueError(
            f"fill_value {given!r} is used by nothing here; accepted with padding_mode 'constant' "
            "or extrapolate=False, got padding_mode "
            f"{options.padding_mode!r}"
        )
    return tuple(entries)
