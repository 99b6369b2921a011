"""Which dtypes images and grids may have, and checks of them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gridsample.messages.links import about

# NumPy has no bfloat16.  Its bits are stored in this dtype, or in that of a package that adds it.
BFLOAT16 = np.dtype([("bfloat16", np.uint16)])
GRID_TYPES = ("float16", "bfloat16", "float32", "float64")
# Images of these dtypes have gradients, and upstream gradients must have one of them.
DIFFERENTIABLE_TYPES = (
    *("float16", "bfloat16", "float32", "float64"),
    *("complex64", "complex128"),
)

# Dtypes whose values or sums need more precision than float32; they are sampled in float64.
WIDE_TYPES = ("float64", "complex128", "int32", "int64", "uint32", "uint64")

NARROW_TYPES = (
    *("bool", "int8", "int16", "uint8", "uint16"),
    *("float16", "bfloat16", "float32", "complex64"),
)


@functools.cache
def type_name(dtype: np.dtype[Any]) -> str:
    """The name of a dtype, regardless of its byte order."""
    return "bfloat16" if dtype == BFLOAT16 else dtype.name


def is_differentiable(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is floating-point or complex."""
    return type_name(dtype) in DIFFERENTIABLE_TYPES


def check_image_type(dtype: np.dtype[Any]) -> None:
    """Raise an error for an image dtype that is not supported."""
    if type_name(dtype) not in WIDE_TYPES + NARROW_TYPES:
        raise TypeError(
            f"input has dtype {dtype}; accepted: bool, int8 to int64, uint8 to uint64, "
            "float16, float32, float64, complex64, complex128"
        )


def check_grid_type(dtype: np.dtype[Any]) -> None:
    """Raise an error for a grid dtype that is not supported."""
    if type_name(dtype) not in GRID_TYPES:
        raise TypeError(
            f"grid has dtype {dtype}; accepted: {', '.join(GRID_TYPES)}, and integers with "
            f"coords='pixel'{about('coords')}"
        )


def grid_type(dtype: np.dtype[Any], coords: Any) -> np.dtype[Any]:
    """The dtype to which a grid is converted; coordinates in pixels may be integers.

    8- and 16-bit integers become float32, which represents them exactly; others become float64.
    """
    if dtype.kind in "iu" and coords == "pixel":
        return np.dtype(np.float64 if type_name(dtype) in WIDE_TYPES else np.float32)
    return dtype


def check_grid_gradient(dtype: Any, is_integer: bool) -> None:
    """Raise an error if the gradient of an integer grid is requested."""
    if is_integer:
        raise TypeError(
            f"grid has dtype {dtype}, which has no gradient; "
            "pass need_grid=False to get only the input's gradient"
        )
