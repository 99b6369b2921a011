"""Checks of arrays and of single options that public functions share.

Converting some objects to an array would lose information: a mask, a gradient, a sparse layout.
The caller has to convert these, and the error says how.
"""

from __future__ import annotations

import math
import numbers
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def check_dense(**arguments: Any) -> None:
    """Reject arrays and tensors that are masked, sparse, quantized or nested.

    Raises:
        TypeError: an argument is one of these; the error names the call that makes it dense.
    """
    for name, value in arguments.items():
        if type(value) is np.ndarray:
            continue
        fault = find_fault(value)
        if fault is not None:
            form, cure = fault
            raise TypeError(
                f"{name} is {form}; accepted: dense arrays and tensors; convert it first: "
                f"{name}.{cure}"
            )


def find_fault(value: Any) -> tuple[str, str] | None:
    """Say why an object is not a dense array, and which method converts it; None if it may be."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        # A compiler cannot look at the class of parameters.
        is_parameter = isinstance(value, torch.nn.Parameter)
        if not is_parameter and type(value).__module__.startswith("torch.masked"):
            return "a masked tensor, whose mask would be lost", "to_tensor(0)"
        if value.is_nested:
            return "a nested tensor", "to_padded_tensor(0)"
        if value.is_quantized:
            return "a quantized tensor", "dequantize()"
        if value.layout != torch.strided:
            return f"a tensor of layout {value.layout}", "to_dense()"
    elif isinstance(value, np.ma.MaskedArray):
        return "a masked array, whose mask would be lost", "filled(0)"
    elif type(value).__module__.startswith("scipy.sparse"):
        return "a sparse array", "toarray()"
    return None


def check_constant(**arguments: Any) -> None:
    """Reject tensors that require a gradient, for arguments that have no gradient.

    Raises:
        TypeError: a tensor requires a gradient.
    """
    for name, value in arguments.items():
        if getattr(value, "requires_grad", False):
            raise TypeError(
                f"{name} is a tensor that requires a gradient, which this argument cannot have; "
                f"use {name}.detach()"
            )


def as_array(value: Any, name: str) -> Array:
    """Convert an array-like object to a NumPy array.

    Raises:
        TypeError: it is masked or sparse, None or a string, or a tensor that requires a gradient.
        ValueError: it is ragged, or cannot be converted for another reason.
    """
    if type(value) is np.ndarray:
        return value
    if value is None or isinstance(value, (str, bytes, os.PathLike)):
        got = "None" if value is None else f"{value!r}, a {type(value).__name__}"
        hint = "" if value is None else "; read the file first: gridsample.io.read(path).array"
        raise TypeError(f"{name} is {got}; accepted: arrays and tensors{hint}")
    check_dense(**{name: value})
    if getattr(value, "requires_grad", False):
        raise TypeError(
            f"{name} is a tensor that requires a gradient, and other arguments are NumPy arrays, "
            f"which have no gradient; use {name}.detach()"
        )
    try:
        return np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        error_type = ValueError if isinstance(error, ValueError) else TypeError
        raise error_type(f"{name} is not an array: {error}") from None


def as_reals(value: Any, name: str) -> Array:
    """Convert an array-like object to a float64 array; see `as_array`.

    Raises:
        TypeError: an argument that `as_array` rejects, or one that does not hold real numbers.
    """
    array = as_array(value, name)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    return array.astype(np.float64, copy=False)


def check_extent(name: str, shape: Sequence[int], itemsize: int) -> None:
    """Raise an error for a shape whose size in bytes exceeds the address space."""
    limit = np.iinfo(np.intp).max // itemsize
    if math.prod(shape) > limit:
        raise ValueError(
            f"{name} would have the shape {tuple(shape)}, which is larger than any array can be: "
            f"{limit} numbers"
        )


def check_flag(value: Any, name: str) -> bool:
    """Return a flag as a bool, or raise an error; None means False, as in PyTorch."""
    if type(value) is bool:
        return value  # the usual case, checked first
    if value is None or isinstance(value, np.bool_):
        return bool(value)
    raise TypeError(f"{name} must be True or False, got {value!r}")


def check_number(value: Any, name: str) -> None:
    """Raise an error unless an option is a number, or an array of one number."""
    if isinstance(value, bool) or not (
        isinstance(value, numbers.Real) or getattr(value, "shape", None) == ()
    ):
        raise TypeError(f"{name} must be a number, got {value!r}")


def check_threads(threads: Any) -> None:
    """Raise an error unless ``threads`` is a positive integer or None."""
    if threads is None:
        return
    if not isinstance(threads, (int, np.integer)) or isinstance(threads, bool):
        raise TypeError(f"threads must be a positive integer or None, got {threads!r}")
    if threads < 1:
        raise ValueError(f"threads must be at least 1, or None for every core, got {threads}")
