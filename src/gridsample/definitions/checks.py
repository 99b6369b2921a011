"""What every public function refuses as an array, in the same words.

Some objects can be made an array of numbers only by losing something: a mask, a gradient, zeros
that are not stored.  That is left to the caller, and the error says how.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def check_dense(**given: Any) -> None:
    """Refuse arrays and tensors that are masked, sparse, quantized or nested.

    Raises:
        TypeError: one is; the error names it, and the call that makes it dense.
    """
    for name, one in given.items():
        if type(one) is np.ndarray:
            continue
        found = find_fault(one)
        if found is not None:
            what, cure = found
            raise TypeError(
                f"{name} is {what}; accepted: dense arrays and tensors; make it one first: "
                f"{name}.{cure}"
            )


def find_fault(one: Any) -> tuple[str, str] | None:
    """Why an object is no dense array, and the method that makes it one; None if it may be one."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(one, torch.Tensor):
        if type(one).__module__.startswith("torch.masked"):
            return "a masked tensor, whose mask would be lost", "to_tensor(0)"
        if one.is_nested:
            return "a nested tensor", "to_padded_tensor(0)"
        if one.is_quantized:
            return "a quantized tensor", "dequantize()"
        if one.layout != torch.strided:
            return f"a tensor of layout {one.layout}", "to_dense()"
    elif isinstance(one, np.ma.MaskedArray):
        return "a masked array, whose mask would be lost", "filled(0)"
    elif type(one).__module__.startswith("scipy.sparse"):
        return "a sparse array", "toarray()"
    return None


def check_constant(**given: Any) -> None:
    """Refuse a value outside the image that requires a gradient: it would get none.

    Raises:
        TypeError: a tensor requires one.
    """
    for name, one in given.items():
        if getattr(one, "requires_grad", False):
            raise TypeError(
                f"{name} is a tensor that requires a gradient; it has none: {name}.detach()"
            )


def as_array(given: Any, name: str) -> Array:
    """A NumPy array, of one or of what nests numbers.

    Raises:
        TypeError: it is masked or sparse, or is a tensor whose gradient would be lost.
        ValueError: it is ragged, or whatever else makes no array.
    """
    if type(given) is np.ndarray:
        return given
    check_dense(**{name: given})
    if getattr(given, "requires_grad", False):
        raise TypeError(
            f"{name} is a tensor that requires a gradient, and other arguments are NumPy arrays, "
            f"which have none: {name}.detach()"
        )
    try:
        return np.asarray(given)
    except (ValueError, TypeError, RuntimeError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{name} is not an array: {error}") from None


def as_reals(given: Any, name: str) -> Array:
    """Real numbers in float64, as `as_array`.

    Raises:
        TypeError: as `as_array`, or they are complex, or no numbers.
    """
    array = as_array(given, name)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    return array.astype(np.float64, copy=False)
