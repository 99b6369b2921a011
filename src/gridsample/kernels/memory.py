"""Arrays as the kernels see them: flat memory and the numbers that describe it.

A kernel reads ``flat[plane + sum over axes of index * stride]``, so that channels-first,
channels-last, sliced, transposed and broadcast arrays are all taken as they are.  A complex array
is two real planes for each of its own.

What there is to know of an array but where it is, is its layout.  All that follows from layouts is
worked out once and remembered: a call on arrays laid out as earlier ones finds it.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.plan import BFLOAT16

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
# Shape, distances in bytes, and type.
Layout = tuple[Shape, Shape, np.dtype[Any]]


def layout_of(array: Array) -> Layout:
    """All that there is to know of an array but where it is."""
    return array.shape, array.strides, array.dtype


class Flat(NamedTuple):
    """How the memory of an array, from its first element to its last, becomes a flat array.

    Attributes:
        order: as which the array is flat without a copy: "C", "K" in order of its distances, or
            "" where there are gaps in it or entries share memory.
        extent: how many elements there are between the first and the last, both counted.
        kind: the type that they are read as; None for their own.
    """

    order: str
    extent: int
    kind: np.dtype[Any] | None

    def view(self, array: Array) -> Array:
        """The memory of an array of the layout."""
        if self.order == "C":
            flat = array.reshape(-1)
        elif self.order == "K":
            flat = array.ravel("K")
        else:
            flat = np.lib.stride_tricks.as_strided(
                array, (self.extent,), (array.itemsize,), writeable=array.flags.writeable
            )
        return flat if self.kind is None else flat.view(self.kind)


def flat_of(layout: Layout, kind: np.dtype[Any]) -> Flat:
    """How an array is flat, read as a ``kind``."""
    shape, strides, dtype = layout
    steps = [(stride, n) for n, stride in zip(shape, strides, strict=True) if n > 1]
    extent = 1 + sum((n - 1) * (stride // dtype.itemsize) for stride, n in steps)
    order = ""
    if side_by_side(steps[::-1], dtype.itemsize):
        order = "C"
    elif side_by_side(sorted(steps), dtype.itemsize):
        order = "K"
    return Flat(order, extent, None if kind == dtype else kind)


def side_by_side(steps: list[tuple[int, int]], size: int) -> bool:
    """Whether elements fill memory without a gap, by distances and counts, nearest first."""
    for stride, n in steps:
        if stride != size:
            return False
        size *= n
    return True


class Memory(NamedTuple):
    """An array (N, C, *rest) of planes.

    Attributes:
        flat: its memory.
        item: distance between items, in elements; 0 where one item serves all.
        planes: where each plane of an item starts.
        strides: distance between neighbours along each axis of ``rest``, last axis first (x, y, z).
        run: numbers that lie side by side at every place of a plane, when all planes of an item
            together are such runs; otherwise 0.
    """

    flat: Flat
    item: int
    planes: Array
    strides: Shape
    run: int


@functools.lru_cache(maxsize=256)
def describe(layout: Layout, items: int, as_bits: bool = False) -> Memory:
    """A plain array (N, C, *rest) as the kernels see it, for a call with so many items."""
    shape, strides, dtype = layout
    parts = 2 if dtype.kind == "c" else 1
    size = dtype.itemsize // parts
    channels, (item, channel, *rest) = shape[1], (stride // size for stride in strides)
    starts = np.arange(channels, dtype=np.int64)[:, np.newaxis] * channel + np.arange(parts)
    run = channels * parts > 1 and (channels == 1 or channel == parts)
    return Memory(
        flat_of(layout, np.dtype(f"u{size}") if as_bits else kind_of(dtype)),
        item if shape[0] == items else 0,
        frozen(starts.reshape(-1)),
        tuple(rest[::-1]),
        channels * parts if run else 0,
    )


def kind_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type that kernels read: bool as uint8, 16-bit floats as bits, complex as its parts."""
    if dtype.kind == "c":
        return np.dtype(f"f{dtype.itemsize // 2}")
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    return np.dtype(np.uint16) if dtype.kind in "fV" and dtype.itemsize == 2 else dtype


def sign_bit(dtype: np.dtype[Any], bits: int) -> int:
    """The bit to flip so that the bits of a dtype, as a signed integer, have their values' order.

    What has fewer bits than that integer is extended with zeros.
    """
    if (dtype.kind == "i") == (dtype.itemsize * 8 == bits):
        return 0
    return -(1 << 63) if dtype.itemsize == 8 else 1 << (dtype.itemsize * 8 - 1)


@functools.lru_cache(maxsize=1024)
def spacing(layout: Layout) -> tuple[int, int, int] | None:
    """Distances in elements between items, points and last entries of an array (N, *points, D).

    None where the points are unevenly spaced.
    """
    shape, strides, dtype = layout
    steps = [(n, stride) for n, stride in zip(shape[1:-1], strides[1:-1], strict=True) if n > 1]
    for (_, outer), (n, inner) in itertools.pairwise(steps):
        if outer != n * inner:
            return None
    point = steps[-1][1] if steps else shape[-1] * strides[-1]
    item, point, axis = (stride // dtype.itemsize for stride in (strides[0], point, strides[-1]))
    return item, point, axis


def plain(array: Array) -> Array:
    """The array itself where a kernel can read it, otherwise a copy.

    It must be native, aligned, and without negative strides.
    """
    if is_plain(array.strides, array.dtype) and array.flags.aligned:
        return array
    return array.astype(array.dtype.newbyteorder("="), order="C", copy=True)


@functools.lru_cache(maxsize=1024)
def is_plain(strides: Shape, dtype: np.dtype[Any]) -> bool:
    """Whether a kernel can read an array that is laid out so."""
    return dtype.isnative and all(
        stride >= 0 and stride % dtype.itemsize == 0 for stride in strides
    )


def even(points: Array) -> Array:
    """An array (N, *points, D) itself where a kernel can read it, otherwise a copy.

    Its last axis may run backwards, as that of coordinates in the order of an array's axes does.
    """
    upward = raised(points)
    if plain(upward) is upward and spacing(layout_of(upward)):
        return points
    return np.ascontiguousarray(plain(points))


def raised(points: Array) -> Array:
    """An array whose last axis runs forwards: the given one, or its view from its lowest entry."""
    return points[..., ::-1] if points.strides[-1] < 0 else points


def is_even(values: Array) -> bool:
    """Whether a kernel can write to an array (N, C, *points): plain, and evenly spaced."""
    return values.flags.aligned and is_even_layout(layout_of(values))


@functools.lru_cache(maxsize=1024)
def is_even_layout(layout: Layout) -> bool:
    """Whether values (N, C, *points) that are laid out so are evenly spaced, and plain."""
    shape, strides, dtype = layout
    points = ((*shape[1:], 1), (*strides[1:], dtype.itemsize), dtype)
    return is_plain(strides, dtype) and spacing(points) is not None


def as_parts(array: Array) -> Array:
    """A complex array as reals, with a last axis of 2."""
    part = array.real
    return np.lib.stride_tricks.as_strided(
        part,
        (*array.shape, 2),
        (*array.strides, part.itemsize),
        writeable=array.flags.writeable,
    )


def stored(array: Array) -> Array:
    """The array as a type that kernels have: bool as uint8, 16-bit floats as bits of uint16."""
    if array.dtype == np.bool_:
        return array.view(np.uint8)
    if array.dtype.kind in "fV" and array.itemsize == 2:
        return array.view(np.uint16)
    return array


def frozen(array: Array) -> Array:
    """A read-only view: what is only read has one type, whoever else may write to it."""
    view = array.view()
    view.flags.writeable = False
    return view


# The bits of a bfloat16 that is no number.
BFLOAT_NAN = 0x7FC0


def bfloat_bits(bits: Any) -> Any:
    """The bits of a number in single precision -> those of the nearest bfloat16, ties to even.

    Written once, for arrays of NumPy and for whatever else adds, shifts and masks 32 bits.  Of NaN
    the result may be infinity.
    """
    return (bits + (bits >> 16 & 1) + 0x7FFF) >> 16


def converted(array: Array, dtype: np.dtype[Any]) -> Array:
    """Numbers in another type: one too large for it is infinite, as in any arithmetic."""
    if dtype == BFLOAT16:
        rounded: Array = bfloat_bits(array.astype(np.float32, copy=False).view(np.uint32))
        rounded[np.isnan(array)] = BFLOAT_NAN
        return rounded.astype(np.uint16).view(BFLOAT16)
    with np.errstate(all="ignore"):
        return array.astype(dtype, copy=False)
