"""Inputs that tests and benchmarks share: images, grids, and memory layouts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = np.ndarray[Any, Any]

MODES = ("nearest", "linear", "cubic")
BOUNDARIES = ("zeros", "border", "reflection")
REALS = ("float16", "float32", "float64")
COMPLEXES = ("complex64", "complex128")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*REALS, *COMPLEXES, *INTEGERS, "bool")


def generator(*key: object) -> np.random.Generator:
    """Random numbers that differ from case to case and are the same in every run."""
    return np.random.default_rng(list(repr(key).encode()))


# Choices, of which every pair occurs in some case ----------------------------------------------


def numbers(values: Iterable[Any]) -> Array:
    """Equal values as equal numbers, counted from 0."""
    seen: dict[Any, int] = {}
    return np.array([seen.setdefault(value, len(seen)) for value in values])


def cover(
    rows: Sequence[tuple[Any, ...]], strength: int = 2, taken: Sequence[int] = ()
) -> list[int]:
    """The indices of some rows with every combination of values of any `strength` columns.

    `taken` are the indices of rows that are among them.
    """
    if not rows:
        return []
    columns = [numbers(column) for column in zip(*rows, strict=True)]
    # Of each row, the numbers of the combinations that it shows.
    numbered, count = list[Array](), 0
    for some in itertools.combinations(columns, min(strength, len(columns))):
        number, sizes = np.zeros(len(rows), int), [column.max() + 1 for column in some]
        for column, size in zip(some, sizes, strict=True):
            number = number * size + column
        numbered.append(count + number)
        count += math.prod(sizes)
    shows = np.stack(numbered, axis=1)
    left = np.zeros(count, bool)
    left[shows] = True
    left[shows[[*taken]]] = False
    chosen = list(taken)
    # The number that a row adds only decreases, so it is counted again only where the last count
    # was sufficient.
    adds = left[shows].sum(1)
    # The rows that show most come first, as far as one pass over them tells.
    for new in range(adds.max(), 0, -1):
        for i in np.flatnonzero(adds >= new):
            adds[i] = np.count_nonzero(left[shows[i]])
            if adds[i] >= new:
                left[shows[i]] = False
                adds[i] = 0
                chosen.append(int(i))
    return sorted(chosen)


def covering(*choices: Sequence[Any], strength: int = 2) -> list[tuple[Any, ...]]:
    """Rows of the product of choices in which every pair (or `strength` values) occurs together."""
    rows = [*itertools.product(*(range(len(choice)) for choice in choices))]
    return [
        tuple(choice[k] for choice, k in zip(choices, rows[i], strict=True))
        for i in cover(rows, strength)
    ]


def slow_after(count: int, values: Iterable[Any]) -> list[Any]:
    """Parameters of a test, of which all but the first `count` are marked slow."""
    import pytest  # benchmarks, which also use this file, do not need it

    return [
        value
        if i < count
        else pytest.param(*(value if type(value) is tuple else (value,)), marks=pytest.mark.slow)
        for i, value in enumerate(values)
    ]


# Images -----------------------------------------------------------------------------------------


def pixels(rng: np.random.Generator, shape: Sequence[int], dtype: npt.DTypeLike = float) -> Array:
    """An image of noise: standard normal, or over the whole range of an integer type."""
    element_type = np.dtype(dtype)
    if element_type.kind == "b":
        return rng.integers(0, 2, shape).astype(element_type)
    if element_type.kind in "iu":
        ends = np.iinfo(element_type)
        return rng.integers(ends.min, ends.max, shape, dtype=element_type, endpoint=True)
    if element_type.kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(element_type)
    return rng.standard_normal(shape).astype(element_type)


# Grids: (items, *out, D), from the image's spatial shape -----------------------------------------


def coordinates(positions: Array, spatial: Sequence[int], align_corners: bool) -> Array:
    """A grid from positions (..., D) in pixels, both in the order x, y, z."""
    size = np.array(spatial[::-1], float)
    if align_corners:
        return 2 * positions / np.maximum(size - 1, 1) - 1
    return (2 * positions + 1) / size - 1


def positions(grid: Array, spatial: Sequence[int], align_corners: bool) -> Array:
    """Positions in pixels from a grid, in float64."""
    size = np.array(spatial[::-1], float)
    grid = grid.astype(float)
    return (grid + 1) / 2 * (size - 1) if align_corners else ((grid + 1) * size - 1) / 2


def identity(spatial: Sequence[int], align_corners: bool, items: int = 1) -> Array:
    """The grid of every pixel's own position."""
    axes = []
    for n in spatial:
        index = np.arange(n)
        axes.append((2 * index + 1 - n) / (max(n - 1, 1) if align_corners else n))
    grid = np.stack(np.meshgrid(*axes, indexing="ij")[::-1], axis=-1)
    return np.repeat(grid[np.newaxis], items, axis=0)


def rotation(
    spatial: Sequence[int], align_corners: bool, items: int = 1, degrees: float = 30
) -> Array:
    """A rotation about the image's centre, in the plane of x and y, and equally out of it."""
    grid = identity(spatial, align_corners, items)
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    for a in range(len(spatial) - 1):
        near, far = grid[..., a].copy(), grid[..., a + 1].copy()
        grid[..., a] = cosine * near - sine * far
        grid[..., a + 1] = sine * near + cosine * far
    return grid


def grid_shape(spatial: Sequence[int], items: int) -> tuple[int, ...]:
    """The shape of a grid of about as many points as pixels, with different axes."""
    return (items, *(n + 2 for n in spatial), len(spatial))


Grid = Callable[[np.random.Generator, Sequence[int], bool, int], Array]

GRIDS: dict[str, Grid] = {
    "random": lambda rng, spatial, align, items: rng.uniform(-1.2, 1.2, grid_shape(spatial, items)),
    "identity": lambda rng, spatial, align, items: identity(spatial, align, items),
    "rotation": lambda rng, spatial, align, items: rotation(spatial, align, items),
    "far": lambda rng, spatial, align, items: rng.uniform(-30, 30, grid_shape(spatial, items)),
    "integers": lambda rng, spatial, align, items: rng.integers(
        -4, 5, grid_shape(spatial, items)
    ).astype(float),
}


# The ways in which an array lies in memory --------------------------------------------------------


def junk(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Memory that must not be read: NaN, or large numbers for types without NaN."""
    return np.full(shape, np.nan if dtype.kind in "fc" else np.ones((), dtype) * 113, dtype)


def spaced(array: Array) -> Array:
    """Every second entry along each axis of a larger array."""
    memory = junk([2 * n + 1 for n in array.shape], array.dtype)
    view = memory[tuple(slice(1, 2 * n + 1, 2) for n in array.shape)]
    view[...] = array
    return view


def reversed_axes(array: Array) -> Array:
    """All strides negative."""
    back = (slice(None, None, -1),) * array.ndim
    return array[back].copy()[back]


def unaligned(array: Array) -> Array:
    """One byte beyond an aligned address."""
    memory = np.empty(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    memory[...] = array
    return memory


def field(array: Array) -> Array:
    """One field of records, whose size is no multiple of the type's."""
    records = np.zeros(array.shape, np.dtype([("before", "u1"), ("value", array.dtype)]))
    records["value"] = array
    return records["value"]


def rolled(array: Array) -> Array:
    """The second axis last in memory: channels-last, or a grid whose axis is not the fastest."""
    return np.moveaxis(np.moveaxis(array, 1, -1).copy(), -1, 1)


def read_only(array: Array) -> Array:
    """An array that is read-only."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def repeated(array: Array) -> Array:
    """The first entry of the last axis but one for all of them, in the same memory: new values."""
    return np.broadcast_to(array[..., :1, :].copy(), array.shape)


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "contiguous": lambda array: array,
    "fortran": np.asfortranarray,
    "spaced": spaced,
    "reversed": reversed_axes,
    "unaligned": unaligned,
    "field": field,
    "rolled": rolled,
    "read-only": read_only,
    "repeated": repeated,
    "byte-swapped": lambda array: array.astype(array.dtype.newbyteorder()),
}
