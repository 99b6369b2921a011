"""Inputs and outputs: conversion of arguments, output arrays, and rounding."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.backends import Backend, backend_of, is_foreign
from gridsample.definitions.checks import as_array, as_reals, check_dense
from gridsample.definitions.integers import float_limits
from gridsample.definitions.shapes import bands_along
from gridsample.ndimage.strips import POINTS

# The numbers of an array that are converted, filtered or sampled at a time.
BAND = 1 << 20


def check_rank(*shapes: Sequence[int]) -> None:
    """Raise an error for arrays without axes."""
    if any(len(shape) < 1 for shape in shapes):
        raise RuntimeError(f"input and output rank must be > 0, got shapes {shapes}")


def foreign_as_numpy(value: Any) -> Any:
    """Convert an array of a library without a backend, such as dask, to NumPy, as SciPy does."""
    return np.asarray(value) if is_foreign(value) else value


def as_image(value: Any, name: str = "input") -> Any:
    """Return a dense array of its own library; convert other objects to NumPy arrays."""
    value = foreign_as_numpy(value)
    (image,) = backend_of(**{name: value}).asarrays(**{name: value})
    return image


def restored(result: Any, like: Any) -> Any:
    """Convert a result to the type and device of the caller's input ``like``."""
    return result if is_foreign(like) else backend_of(like=like).restore(result, like)


def per_axis(value: Any, rank: int, name: str) -> list[Any]:
    """Expand an argument to one entry per axis."""
    value = foreign_as_numpy(value)
    check_dense(**{name: value})
    if isinstance(value, str) or not np.iterable(value):
        return [value] * rank
    entries = list(value)
    if len(entries) != rank:
        raise RuntimeError(
            f"{name}: sequence argument must have length equal to input rank, {rank}, "
            f"got {len(entries)}"
        )
    return entries


def new_output(output: Any, image: Any, shape: tuple[int, ...]) -> Any:
    """Return the output array: the caller's, or a new one of the requested dtype or the image's.

    If results are not written in place (see `Backend.is_host`), a dtype represents a new array.

    Raises:
        RuntimeError: the array has the wrong shape, or is real although the input is complex.
    """
    backend = backend_of(image=image)
    if not backend.is_host:
        return output_or_type(backend, output, image, shape)
    is_complex = image.dtype.kind == "c"
    if output is None:
        return np.empty(shape, image.dtype.newbyteorder("="))
    if isinstance(output, (type, np.dtype, str)):
        dtype = np.dtype(output)
        if is_complex and dtype.kind != "c" and not isinstance(output, str):
            warnings.warn("promoting specified output dtype to complex", stacklevel=3)
            dtype = np.promote_types(dtype, np.complex64)
        output = np.empty(shape, dtype)
    output = as_array(output, "output")
    if output.shape != tuple(shape):
        raise RuntimeError(f"output shape not correct: it must be {shape}, got {output.shape}")
    if is_complex and output.dtype.kind != "c":
        raise RuntimeError(f"output must have complex dtype for complex input, got {output.dtype}")
    if output.dtype.kind not in "biufc":
        raise RuntimeError(f"output must have numeric dtype, got {output.dtype}")
    if not output.flags.writeable:
        raise ValueError("output is read-only")
    return output


def output_or_type(backend: Backend, output: Any, image: Any, shape: tuple[int, ...]) -> Any:
    """Return the given output array, or the dtype of a new one; see `new_output`."""
    if output is None:
        return image.dtype
    dtype = backend.as_dtype(output)
    if dtype is None:
        if tuple(output.shape) != tuple(shape):
            raise RuntimeError(
                f"output shape not correct: it must be {tuple(shape)}, got {tuple(output.shape)}"
            )
        output = as_image(output, "output")
        dtype = output.dtype
    else:
        output = dtype
    if kind_of_dtype(image) == "c" and not backend.type_name(dtype).startswith("complex"):
        raise RuntimeError(f"output must have complex dtype for complex input, got {dtype}")
    return output


def store(values: Any, output: Any) -> Any:
    """Write the result to an output array, or convert it to a dtype."""
    backend = backend_of(values=values)
    if backend.as_dtype(output) is not None:
        return backend.astype(as_type(backend, values, output), output)
    rounds = backend.is_host and values.dtype.kind == "f" and output.dtype.kind in "iub"
    if rounds and values.size > POINTS and not np.may_share_memory(values, output):
        if len(values) == 1:
            store(values[0], output[0])
            return output
        for rows in bands_along(values.shape, POINTS):  # a few at a time are in cache
            store(values[rows], output[rows])
    else:
        output[...] = as_type(backend, values, output.dtype)
    return output


def bands(shape: Sequence[int], axis: int) -> list[tuple[slice, ...]]:
    """Divide an array into bands of about `BAND` numbers, which have all of an axis."""
    others = [k for k in range(len(shape)) if k != axis]
    if not others:
        return [()]
    longest = max(others, key=lambda k: shape[k])
    parts = bands_along(tuple(shape), BAND, longest)
    return [(*(slice(None),) * longest, part) for part in parts]


def as_type(backend: Backend, values: Any, dtype: Any) -> Any:
    """Round values half away from zero and saturate them, if the dtype is an integer type."""
    if kind_of_dtype(values) != "f":
        return values
    name, xp = backend.type_name(dtype), backend.xp
    if name == "bool":
        return xp.trunc(values) != 0
    if not name.startswith(("int", "uint")):
        return values
    low, high = float_limits(np.iinfo(name))
    if backend.is_host:  # the fraction that is left is cut off when numbers are stored
        return shifted_by_half(values, low, high)
    return xp.where(xp.isnan(values), 0, xp.clip(rounded(xp, values), low, high))


def shifted_by_half(values: Any, low: float, high: float) -> Any:
    """Move values away from zero by 1/2, and into [low, high], in float64; NaN becomes 0."""
    values = np.asarray(values, np.float64)
    if low == 0:
        return np.fmin(np.fmax(values, 0) + 0.5, high)
    numbers = np.copysign(0.5, values, out=np.empty_like(values))
    numbers += values
    np.clip(numbers, low, high, out=numbers)
    if np.isnan(numbers.sum()):
        numbers[np.isnan(numbers)] = 0
    return numbers


def rounded(xp: Any, values: Any) -> Any:
    """Round half away from zero."""
    return xp.trunc(values + xp.copysign(xp.full_like(values, 0.5), values))


def kind_of_dtype(array: Any) -> str:
    """The kind of an array's dtype: "f", "c", or "i" for integers and bool."""
    name = backend_of(array=array).type_name(array.dtype)
    return "c" if name.startswith("complex") else "f" if "float" in name else "i"


def as_like(array: Any, like: Any) -> Any:
    """Convert an array to the library and device of another.

    If the backend is not `Backend.is_host`, integers become floating point.
    """
    backend = backend_of(like=like)
    if backend.is_host:
        return array
    array = backend.asarray(array, like)
    return array if kind_of_dtype(array) in "fc" else backend.astype(array, precision(like))


def precision(array: Any) -> Any:
    """The dtype of positions in an array: float32 if it has single or lower precision.

    Otherwise it is float64, also for integers.
    """
    backend = backend_of(array=array)
    name = backend.type_name(array.dtype)
    narrow = name in ("float16", "bfloat16", "float32", "complex64")
    return backend.type("float32" if narrow else "float64")


def as_real(array: Any, like: Any) -> Any:
    """Convert numbers to float64, or to the `precision` of ``like`` if that is not on the host."""
    if backend_of(array=array).is_host:
        array = np.asarray(array, np.float64)
    backend = backend_of(like=like)
    if backend.is_host:
        return np.asarray(array)
    return backend.astype(as_like(array, like), precision(like))


def as_numbers(value: Any, like: Any, name: str) -> Any:
    """Convert numbers to float64, or to the precision of ``like`` if they may have gradients."""
    value = foreign_as_numpy(value)
    if backend_of(like=like).is_host or backend_of(value=value).is_host:
        return as_reals(value, name)
    check_dense(**{name: value})
    if kind_of_dtype(value) == "c":
        raise TypeError(f"{name} must hold real numbers, got dtype {value.dtype}")
    return as_real(as_image(value, name), like)
