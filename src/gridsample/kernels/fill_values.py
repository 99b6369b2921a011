"""The values of points outside the image, and of invalid points, as programs take them."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.dtypes import BFLOAT16, is_differentiable, type_name
from gridsample.definitions.options import Averaging
from gridsample.definitions.plan import Plan
from gridsample.kernels.memory import BFLOAT_NAN, converted, frozen

Array = np.ndarray[Any, Any]


class FillValues(NamedTuple):
    """The values of each plane where there is no image, for one item."""

    outside: Array  # at points that are outside
    dropped: Array  # of dropped taps
    invalid: Array  # at points whose coordinate is not valid

    def repeat(self, times: int) -> FillValues:
        """Return the values repeated for ``times`` items."""
        return self if times == 1 else FillValues(*(np.tile(values, times) for values in self))


class MeanValues(NamedTuple):
    """What else programs that average take of each plane, for one item."""

    missing_values: Array  # the values of missing results
    min_weights: Array  # sums of weights up to which a result is missing


@functools.lru_cache(maxsize=256)
def zeros(planes: int, kind: np.dtype[Any]) -> Array:
    """Return a zero for each plane."""
    return frozen(np.zeros(planes, kind))


def fill_values_of_sums(plan: Plan, fill: Array | None, differentiated: bool = False) -> FillValues:
    """Return the values for sums: the fill (of a derivative, 0), and NaN where it is possible."""
    invalid_value = math.nan if is_differentiable(plan.dtype) and not differentiated else None
    return surround(plan, fill_of_planes(fill, plan), invalid_value, differentiated)


def fill_values_of_means(
    plan: Plan, fill: Array | None, means: Averaging
) -> tuple[FillValues, MeanValues]:
    """Return the values for means."""
    around, is_complex = fill_values_of_sums(plan, fill), plan.dtype.kind == "c"
    nan = complex(math.nan, math.nan) if is_complex else math.nan
    missing_value: Any = means.missing_value or nan
    kind = np.dtype(f"c{2 * plan.real.itemsize}") if is_complex else plan.real
    numbers = np.array(np.broadcast_to(missing_value, (plan.channels,)), kind)
    missing_values = numbers.view(plan.real)
    if not is_differentiable(plan.dtype):
        around = around._replace(invalid=missing_values)
    if means.ignores_dropped:
        unknown = np.full(len(missing_values), math.nan, plan.real)
        around = around._replace(outside=missing_values, dropped=unknown)
    min_weights = np.full(len(missing_values), means.min_weight, plan.real)
    return around, MeanValues(missing_values, min_weights)


def fill_values_of_bits(plan: Plan, fill: Array | None, kind: np.dtype[Any]) -> FillValues:
    """Return the values for pixels that are copied as bits of dtype ``kind``."""
    invalid_value: Any = None
    if type_name(plan.dtype) == "bfloat16":
        invalid_value = BFLOAT_NAN
    elif is_differentiable(plan.dtype):
        invalid_value = np.array(math.nan, f"f{kind.itemsize}").view(kind)[()]
    return surround(plan, as_bits(fill, plan, kind), invalid_value, False)


def surround(plan: Plan, fill: Array, invalid_value: Any, differentiated: bool) -> FillValues:
    """Combine the planes' ``fill`` and the value of invalid points, None if that is the fill."""
    nothing = zeros(len(fill), fill.dtype)
    if invalid_value is None and not differentiated:
        invalid = fill
    else:
        invalid = np.full(len(fill), 0 if invalid_value is None else invalid_value, fill.dtype)
    filled = plan.filled or not plan.extrapolate
    return FillValues(
        fill if filled and not differentiated else nothing,
        fill if plan.filled else nothing,
        invalid,
    )


def fill_of_planes(fill: Array | None, plan: Plan) -> Array:
    """Return the fill of each plane in the dtype of the sums; zeros if there is no fill."""
    parts = 2 if plan.dtype.kind == "c" else 1
    if fill is None:
        return zeros(plan.channels * parts, plan.real)
    return fill.astype(f"c{plan.real.itemsize * 2}" if parts == 2 else plan.real).view(plan.real)


def as_bits(fill: Array | None, plan: Plan, kind: np.dtype[Any]) -> Array:
    """Return the fill of each plane as stored, rounded and saturated; zeros if there is no fill."""
    dtype = plan.dtype
    if fill is None:
        return zeros(plan.channels * (dtype.itemsize // kind.itemsize), kind)
    if type_name(dtype) == "bfloat16":
        return converted(fill, BFLOAT16).view(kind)
    if dtype.kind in "iub":
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        # Python compares numbers exactly.  Infinity is clamped before it is rounded.
        numbers = [0 if number != number else number for number in fill.tolist()]
        rounded = [round(min(max(number, low), high)) for number in numbers]
        return np.array(rounded, dtype).view(kind)
    with np.errstate(over="ignore"):
        return fill.astype(dtype).view(kind)
