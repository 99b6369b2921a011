"""What points get that are outside the image, or nowhere, as the drivers take it: one a plane."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.plan import BFLOAT16, Plan, is_differentiable, type_name
from gridsample.kernels.memory import BFLOAT_NAN, converted, frozen

Array = np.ndarray[Any, Any]


class Outside(NamedTuple):
    """What each plane has where there is no image, for one item."""

    out: Array  # at points that are out
    dropped: Array  # under dropped taps
    holes: Array  # at points that are nowhere

    def repeat(self, times: int) -> Outside:
        """The same for so many items."""
        return self if times == 1 else Outside(*(np.tile(one, times) for one in self))


@functools.lru_cache(maxsize=256)
def zeros(planes: int, kind: np.dtype[Any]) -> Array:
    """Zero, for each plane."""
    return frozen(np.zeros(planes, kind))


def numbers_outside(plan: Plan, fill: Array | None, differentiated: bool = False) -> Outside:
    """For sums of pixels: the fill, of which a derivative is zero; nowhere is NaN, if a number."""
    hole = math.nan if is_differentiable(plan.dtype) and not differentiated else None
    return surround(plan, as_parts(fill, plan), hole, differentiated)


def bits_outside(plan: Plan, fill: Array | None, kind: np.dtype[Any]) -> Outside:
    """For pixels that are copied as bits of a ``kind``."""
    hole: Any = None
    if type_name(plan.dtype) == "bfloat16":
        hole = BFLOAT_NAN
    elif is_differentiable(plan.dtype):
        hole = np.array(math.nan, f"f{kind.itemsize}").view(kind)[()]
    return surround(plan, as_bits(fill, plan, kind), hole, False)


def surround(plan: Plan, fill: Array, hole: Any, differentiated: bool) -> Outside:
    """What is outside, from the planes' ``fill`` and the ``hole`` of a type that has one."""
    nothing = zeros(len(fill), fill.dtype)
    if hole is None and not differentiated:
        holes = fill
    else:
        holes = np.full(len(fill), 0 if hole is None else hole, fill.dtype)
    filled = plan.filled or not plan.extrapolate
    return Outside(
        fill if filled and not differentiated else nothing,
        fill if plan.filled else nothing,
        holes,
    )


def as_parts(fill: Array | None, plan: Plan) -> Array:
    """The fill of each plane, in the type of the sums; zeros where there is none."""
    parts = 2 if plan.dtype.kind == "c" else 1
    if fill is None:
        return zeros(plan.channels * parts, plan.real)
    return fill.astype(f"c{plan.real.itemsize * 2}" if parts == 2 else plan.real).view(plan.real)


def as_bits(fill: Array | None, plan: Plan, kind: np.dtype[Any]) -> Array:
    """The fill of each plane as it is stored, rounded and saturated; zeros where there is none."""
    dtype = plan.dtype
    if fill is None:
        return zeros(plan.channels * (dtype.itemsize // kind.itemsize), kind)
    if type_name(dtype) == "bfloat16":
        return converted(fill, BFLOAT16).view(kind)
    if dtype.kind in "iub":
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        # Python's numbers compare exactly, and infinity is rounded only when it is none any more.
        numbers = [0 if number != number else number for number in fill.tolist()]
        whole = [round(min(max(number, low), high)) for number in numbers]
        return np.array(whole, dtype).view(kind)
    with np.errstate(over="ignore"):
        return fill.astype(dtype).view(kind)
