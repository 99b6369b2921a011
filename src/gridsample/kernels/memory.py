"""Arrays as the kernels see them: flat memory, and the numbers that describe it.

A kernel reads ``flat[plane + sum over axes of index * stride]``, so that channels-first,
channels-last, sliced, transposed and broadcast arrays are all read without a copy.  Each plane of
a complex array counts as two real planes.

The layout of an array is everything about it except its address.  What follows from layouts is
computed once and cached, so that a later call with arrays of the same layouts finds it.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
from collections import deque
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np

from gridsample.definitions.dtypes import BFLOAT16

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
# Shape, strides in bytes, and dtype.
Layout = tuple[Shape, Shape, np.dtype[Any]]


# An array object is the head of every object, and then the address of its first entry: compiled
# extensions read it there, too (`PyArrayObject_fields` in NumPy's C interface).  Python's ways to
# ask for it build a dictionary or an object first, which takes as long as sampling a few points.
HEAD_BYTES = object.__basicsize__
_read_address = ctypes.c_ssize_t.from_address


def address_of(array: Array) -> int:
    """Return the address of an array's first entry."""
    return _read_address(id(array) + HEAD_BYTES).value


def asked_address(array: Array) -> int:
    """Return the address of an array's first entry, as NumPy reports it."""
    address: int = array.__array_interface__["data"][0]
    return address


_probe = np.empty(1)
if address_of(_probe) != asked_address(_probe):  # an interpreter whose objects begin otherwise
    address_of = asked_address

# The arrays whose addresses were taken last, for programs that Python runs with checks.
noted: deque[Array] = deque(maxlen=1000)


def noted_address(array: Array) -> int:
    """Return the address of an array's first entry, and note the array."""
    noted.append(array)
    return asked_address(array)


if os.environ.get("GRIDSAMPLE_INTERPRET"):
    address_of = noted_address


def addresses_of(arrays: Iterable[Array | None]) -> list[int]:
    """Return the addresses of arrays; 0 for None."""
    return [0 if array is None else address_of(array) for array in arrays]


def layout_of(array: Array) -> Layout:
    """Return the layout of an array: everything about it except its address."""
    return array.shape, array.strides, array.dtype


def array_at(address: int, layout: Layout) -> Array:
    """View memory as an array of some layout, for as long as the memory's owner lives."""
    shape, strides, dtype = layout
    kind = f"|V{dtype.itemsize}"  # the interface knows no bfloat16
    interface = {"version": 3, "data": (address, False), "shape": shape, "strides": strides}
    memory = SimpleNamespace(__array_interface__={**interface, "typestr": kind})
    return np.asarray(memory).view(dtype)


@functools.lru_cache(maxsize=1024)
def spacing(layout: Layout) -> tuple[int, int, int] | None:
    """Return the strides of items, points and the last axis of an array (N, *points, D).

    They count elements.  The result is None if the points are unevenly spaced.
    """
    shape, strides, dtype = layout
    steps = [(n, stride) for n, stride in zip(shape[1:-1], strides[1:-1], strict=True) if n > 1]
    for (_, outer), (n, inner) in itertools.pairwise(steps):
        if outer != n * inner:
            return None
    point = steps[-1][1] if steps else shape[-1] * strides[-1]
    item, point, axis = (stride // dtype.itemsize for stride in (strides[0], point, strides[-1]))
    return item, point, axis


def native(array: Array) -> Array:
    """Return the array itself if any kernel can read it, otherwise a copy.

    Kernels read native arrays in any order of memory, at any address.  The copy has the array's
    order of memory; axes along which the array is broadcast are not copied.
    """
    if is_native(array.strides, array.dtype):
        return array
    own = tuple([slice(None) if stride else slice(1) for stride in array.strides])
    copy = array[own].astype(array.dtype.newbyteorder("="), order="K", copy=True)
    return np.broadcast_to(copy, array.shape)


@functools.lru_cache(maxsize=1024)
def is_native(strides: Shape, dtype: np.dtype[Any]) -> bool:
    """Whether any kernel can read an array with these strides and this dtype."""
    return dtype.isnative and all(stride % dtype.itemsize == 0 for stride in strides)


def is_even(values: Array) -> bool:
    """Whether a kernel can write to an array (N, C, *points): it is native and evenly spaced."""
    return is_even_layout(layout_of(values))


@functools.lru_cache(maxsize=1024)
def is_even_layout(layout: Layout) -> bool:
    """Whether an array (N, C, *points) of this layout is native and evenly spaced."""
    shape, strides, dtype = layout
    points = ((*shape[1:], 1), (*strides[1:], dtype.itemsize), dtype)
    return is_native(strides, dtype) and spacing(points) is not None


@functools.lru_cache(maxsize=1024)
def is_dense(layout: Layout, channels_last: bool = False) -> bool:
    """Whether an array (N, C, ...) fills memory in C order, or with its channels last."""
    shape, strides, dtype = layout
    if channels_last:
        shape, strides = (shape[0], *shape[2:], shape[1]), (strides[0], *strides[2:], strides[1])
    step = dtype.itemsize
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n > 1 and stride != step:
            return False
        step *= n
    return dtype.isnative


@functools.lru_cache(maxsize=1024)
def dense_order(layout: Layout) -> tuple[int, ...] | None:
    """Return the axes of an array that fills its memory, slowest first; None if it does not."""
    shape, strides, dtype = layout
    order = sorted(range(len(shape)), key=lambda a: (shape[a] > 1, -strides[a]))
    step = dtype.itemsize
    for a in reversed(order):
        if shape[a] > 1 and strides[a] != step:
            return None
        step *= shape[a]
    return tuple(order)


def as_parts(array: Array) -> Array:
    """View a complex array as reals, with a last axis of 2."""
    part = array.real
    return np.lib.stride_tricks.as_strided(
        part,
        (*array.shape, 2),
        (*array.strides, part.itemsize),
        writeable=array.flags.writeable,
    )


def frozen(array: Array) -> Array:
    """Return a read-only view, so that an input has the same type whether or not it is writable."""
    view = array.view()
    view.flags.writeable = False
    return view


# The bits of a bfloat16 NaN.
BFLOAT_NAN = 0x7FC0


def bfloat_bits(bits: Any) -> Any:
    """Convert the bits of float32 numbers to those of the nearest bfloat16, ties to even.

    This serves NumPy arrays and any other type that adds, shifts and masks 32 bits.  For NaN, the
    result may be infinity.
    """
    return (bits + (bits >> 16 & 1) + 0x7FFF) >> 16


def as_float(image: Array) -> Array:
    """Convert a bfloat16 image, which NumPy only knows as bits, to float32."""
    if image.dtype != BFLOAT16:
        return image
    wide = image.view(np.uint16).astype(np.uint32) << 16  # they are the upper half of a float32
    return wide.view(np.float32)


def converted(array: Array, dtype: np.dtype[Any]) -> Array:
    """Convert numbers to another dtype; numbers that are too large for it become infinite."""
    array = as_float(array)
    if dtype == BFLOAT16:
        rounded: Array = bfloat_bits(array.astype(np.float32, copy=False).view(np.uint32))
        rounded[np.isnan(array)] = BFLOAT_NAN
        return rounded.astype(np.uint16).view(BFLOAT16)
    with np.errstate(all="ignore"):
        return array.astype(dtype, copy=False)
