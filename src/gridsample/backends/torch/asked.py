"""What a call on tensors asks for: checked, and in the form that the operators take."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gridsample.backends.torch import operators
from gridsample.backends.torch.contacts import shape_of
from gridsample.backends.torch.operators import How
from gridsample.backends.torch.quick import TYPES
from gridsample.definitions.checks import check_constant, check_dense
from gridsample.definitions.methods import spell
from gridsample.definitions.options import Options, check_fill
from gridsample.definitions.plan import (
    WIDE_TYPES,
    Shape,
    channels_last,
    check_coords,
    check_flag,
    check_shapes,
    find_coords,
    find_method,
    hashable,
    per_axis,
    type_name,
)


def check_tensors(**given: Any) -> None:
    """Refuse what is no dense tensor, and tensors that are not on one device."""
    check_dense(**given)
    tensors = [name for name, one in given.items() if isinstance(one, Tensor)]
    for name, one in given.items():
        if not isinstance(one, Tensor):
            kind, other = type(one), tensors[0]
            raise TypeError(
                f"{name} is a {kind.__module__}.{kind.__qualname__}, but {other} is a tensor; "
                f"accepted: torch.Tensor for all; make it one: "
                f"{name} = torch.as_tensor({name}, device={other}.device)"
            )
    first, *others = given.items()
    for name, one in others:
        if one.device != first[1].device:
            raise ValueError(
                f"{first[0]} and {name} must be on one device, "
                f"got {first[1].device} and {one.device}"
            )


# What grids of integers become: see `gridsample.definitions.plan.grid_type`.
INTEGERS = {
    kind: torch.float64 if type_name(array) in WIDE_TYPES else torch.float32
    for kind, array in TYPES.items()
    if array.kind in "iu"
}


def as_grid(grid: Tensor, options: Options) -> Tensor:
    """A grid; one of integers that count pixels becomes floating."""
    if options.coords == "pixel" and grid.dtype in INTEGERS:
        return grid.to(INTEGERS[grid.dtype])
    return grid


class Asked(NamedTuple):
    """How a call samples, by its options, but for what is data: the fill, and threads.

    Attributes:
        last: whether channels come last.
        how: as the operators take it.
        orders: for each axis, the order of the spline whose coefficients are to be made first, or
            less than 2.
    """

    last: bool
    how: How
    orders: tuple[int, ...]


def check_call(image: Shape, grid: Shape, options: Options) -> Asked:
    """How a call samples, if its shapes go together and its options are such."""
    # Of an image of a wrong rank, the shape is what the error is to be about.
    last = channels_last(options.channel_axis if 3 <= len(image) <= 5 else 1, len(image))
    rank = check_shapes(image, grid, last)
    mode = per_axis(options.mode, rank, "mode")
    wanted = check_flag(options.prefilter, "prefilter")
    how = How(
        tuple([spell(one) for one in mode]),
        per_axis(options.padding_mode, rank, "padding_mode"),
        check_flag(options.align_corners, "align_corners"),
        (0,) * rank,
        check_coords(options.coords, rank, grid[1:-1]),
        check_flag(options.extrapolate, "extrapolate"),
    )
    orders = tuple([find_method(one).prefilter if wanted else 0 for one in mode])
    return Asked(last, how, orders if max(orders) > 1 else ())


@functools.lru_cache(maxsize=1024, typed=True)
def prepare(
    image: torch.Size, image_type: torch.dtype, grid: torch.Size, grid_type: torch.dtype,
    *options: Any,
) -> tuple[Asked, operators.Call]:  # fmt: skip
    """All that is checked and worked out before tensors of plain memory are sampled."""
    given = tuple(image)
    asked = check_call(given, tuple(grid), Options(*options))
    size = (given[0], given[-1], *given[1:-1]) if asked.last else given
    sized = size, image_type, tuple(grid), grid_type
    return asked, operators.find_call(*sized, *asked.how[:6])


def keyed(options: Options) -> Options:
    """The options without data, as a key; what cannot be one is refused."""
    if type(options.coords) is not str:
        find_coords(options.coords)
    usual = type(options.fill_value) is int and options.threads is None
    if usual and type(options.mode) is type(options.padding_mode) is str:
        return options
    mode, padding_mode = hashable(options.mode), hashable(options.padding_mode)
    return options._replace(mode=mode, padding_mode=padding_mode, fill_value=0, threads=None)


def as_fill(image: Tensor, options: Options, asked: Asked) -> list[float]:
    """The fill value, as the operators take it."""
    given: Any = options.fill_value
    check_constant(fill_value=given)
    kinds = (int, float, complex)
    channels = shape_of(image)[-1 if asked.last else 1]
    if isinstance(given, (*kinds, tuple, list)) or not hasattr(given, "tolist"):
        several = isinstance(given, (tuple, list))
        entries = [*given] if several else [given]
        shape = (len(entries),) if several else ()
    else:
        check_dense(fill_value=given)
        shape = tuple(given.shape)
        # A broadcast array can have more entries than anybody can look at.
        few = math.prod(shape) <= max(1, channels)
        entries = given.reshape(-1).tolist() if few else [0.0]
    real = all([isinstance(one, kinds[:2]) for one in entries])
    kind = "f" if real else "c" if all([isinstance(one, kinds) for one in entries]) else "O"
    used = kind != "O" and any([one != 0 for one in entries])
    filled = "constant" in asked.how.padding_mode
    check_fill(options, kind, shape, used, image.dtype, channels, filled)
    if not used:
        return []
    if any([isinstance(one, int) and int(float(one)) != one for one in entries]):
        raise ValueError(f"fill_value of tensors must be exact in float64, got {given!r}")
    if not image.is_complex():
        return [float(one) for one in entries]
    return [part for one in entries for part in (complex(one).real, complex(one).imag)]
