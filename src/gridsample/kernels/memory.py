"""Arrays as the kernels see them: a flat run of memory and the numbers that describe it.

A kernel reads ``flat[plane + sum over axes of index * stride]``, so that channels-first,
channels-last, sliced, transposed and broadcast arrays are all taken as they are.  A complex array
is two real planes for each of its own.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Memory(NamedTuple):
    """An array (N, C, *rest) of planes.

    Attributes:
        flat: the memory between the array's first and last element, one-dimensional.
        item: distance between items, in elements; 0 where one item serves all.
        planes: where each plane of an item starts.
        strides: distance between neighbours along each axis of ``rest``, last axis first (x, y, z).
        run: numbers that lie side by side at every place of a plane, when all planes of an item
            together are such runs; otherwise 0.
    """

    flat: Array
    item: int
    planes: Array
    strides: tuple[int, ...]
    run: int


def plain(array: Array) -> Array:
    """The array itself where a kernel can read it, otherwise a copy.

    It must be native, aligned, and without negative strides.
    """
    size = array.itemsize
    if (
        array.dtype.isnative
        and array.flags.aligned
        and all(stride >= 0 and stride % size == 0 for stride in array.strides)
    ):
        return array
    return array.astype(array.dtype.newbyteorder("="), order="C", copy=True)


def as_parts(array: Array) -> Array:
    """A complex array as reals, with a last axis of 2."""
    part = array.real
    return np.lib.stride_tricks.as_strided(
        part,
        (*array.shape, 2),
        (*array.strides, part.itemsize),
        writeable=array.flags.writeable,
    )


def flatten(array: Array) -> Array:
    """The memory from an array's first element to its last."""
    if array.flags.c_contiguous:
        return array.reshape(-1)
    size = array.itemsize
    extent = 1 + sum(
        (n - 1) * (stride // size) for n, stride in zip(array.shape, array.strides, strict=True)
    )
    return np.lib.stride_tricks.as_strided(
        array, (extent,), (size,), writeable=array.flags.writeable
    )


def stored(array: Array) -> Array:
    """The array as a type that kernels have: bool as uint8, 16-bit floats as bits of uint16."""
    if array.dtype == np.bool_:
        return array.view(np.uint8)
    if array.dtype.kind in "fV" and array.itemsize == 2:
        return array.view(np.uint16)
    return array


def describe(array: Array, items: int, as_bits: bool = False) -> Memory:
    """A plain array (N, C, *rest) as the kernels see it, for a call with so many items."""
    is_complex = array.dtype.kind == "c"
    real = as_parts(array) if is_complex else array
    real = real.view(f"u{real.itemsize}") if as_bits else stored(real)
    size = real.itemsize
    strides = tuple([stride // size for stride in array.strides])
    return Memory(flatten(real), *lay_out(array.shape, strides, 2 if is_complex else 1, items))


@functools.lru_cache(maxsize=1024)
def lay_out(
    shape: tuple[int, ...], strides: tuple[int, ...], parts: int, items: int
) -> tuple[int, Array, tuple[int, ...], int]:
    """All of a Memory but its first entry, for numbers that are so many parts each."""
    channels, (item, channel, *rest) = shape[1], strides
    starts = np.arange(channels, dtype=np.int64)[:, np.newaxis] * channel + np.arange(parts)
    side_by_side = channels * parts > 1 and (channels == 1 or channel == parts)
    return (
        item if shape[0] == items else 0,
        frozen(starts.reshape(-1)),
        tuple(rest[::-1]),
        channels * parts if side_by_side else 0,
    )


def frozen(array: Array) -> Array:
    """A read-only view: what is only read has one type, whoever else may write to it."""
    view = array.view()
    view.flags.writeable = False
    return view
