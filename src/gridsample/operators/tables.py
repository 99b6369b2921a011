"""Colour tables, also called lookup tables (LUTs): an image whose axes are colours."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from gridsample.backends import Backend, backend_of, overridable
from gridsample.backends.rounding import as_integers
from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.checks import check_threads
from gridsample.definitions.dtypes import GRID_TYPES
from gridsample.definitions.methods import Mode, find_method, per_axis
from gridsample.definitions.shapes import MAX_RANK, bands_along, channels_last
from gridsample.operators.sums import weighted_sum
from gridsample.ops.arrays import Array, back, planes, sum_type
from gridsample.ops.sampling import sample_at_pixels

TETRAHEDRAL = "tetrahedral"
# Pixels of an image in memory that are converted, sampled and stored before the next ones are.
BLOCK = 1 << 16


@overridable(arrays=2)
def apply_lut(
    image: ArrayT,
    table: ArrayT,
    mode: Mode | Literal["tetrahedral"] = "linear",
    *,
    domain: Any = (0.0, 1.0),
    channel_axis: int = 1,
    threads: int | None = None,
) -> ArrayT:
    """Replace each colour of an image by an entry of a table, or a mean of neighbouring entries.

    A table of D axes takes D channels.  Channel d of a pixel is a coordinate along axis d, where
    the first channel is x, which runs along the *last* axis of the table, as in `grid_sample`:

        position[d] = (value[d] - low[d]) / (high[d] - low[d]) * (size[d] - 1)

    in entries of the table.  Positions outside are moved to the edge.  With mode="tetrahedral",
    the cell of 2**D entries around a position is divided into D! simplices (tetrahedra for D = 3),
    and the result is the linear function on the simplex through its D + 1 entries.  If f are the
    fractions of the position in falling order, and v[k] is the entry one step further along the
    axes of the first k of them,

        result = (1 - f[1]) v[0] + (f[1] - f[2]) v[1] + ... + f[D] v[D]

    so that greys, where all fractions are equal, depend on greys only (J. Kasson et al.,
    "Performing color space conversions with three-dimensional linear interpolation", 1995).

    Args:
        image: (N, C, *spatial); any integer dtype, float16 to float64, or bfloat16.
            Integers stand for numbers up to 1: they are divided by the largest one of their dtype.
        table: (1, K, *sizes) with D axes, or (N, K, *sizes) for each item; any such dtype.  If D is
            1, each of C channels is looked up in its own row of the table (K = C) or in the same
            one (K = 1), and an image of one channel in all rows, as by a colour map.
        mode: the method, as in `gridsample.grid_sample`, or "tetrahedral".
        domain: the values (low, high) of the first and last entries, as floats; two numbers, or two
            sequences with a number for each channel.
        channel_axis: 1, or -1 for (N, *spatial, C); the table always has its channels first.
        threads: the maximum number of threads; None for the default.

    Returns:
        (N, K, *spatial), or (N, *spatial, K); K is C if D is 1 and C is not.  The dtype is that of
        the image.  Integers are rounded half to even and saturate.  Tensors and JAX arrays have
        derivatives, by the image and by the table.

    Raises:
        TypeError: a dtype or the type of an option is not accepted.
        ValueError: shapes do not match, or an option is not accepted.

    Example:
        >>> import numpy as np
        >>> from gridsample.operators import apply_lut
        >>> photo = np.array([0, 51, 255], np.uint8).reshape(1, 1, 3)
        >>> apply_lut(photo, np.array([[[1.0, 0.0]]]))  # the negative
        array([[[255, 204,   0]]], dtype=uint8)
        >>> corners = np.zeros((1, 1, 2, 2))
        >>> corners[0, 0, 1, 1] = 1.0  # both channels
        >>> colour = np.array([0.5, 0.25]).reshape(1, 2, 1)
        >>> apply_lut(colour, corners).item(), apply_lut(colour, corners, "tetrahedral").item()
        (0.125, 0.25)
    """
    backend = backend_of(image=image, table=table)
    pixels, entries = backend.to_device(image=image, table=table)
    last = channels_last(channel_axis, len(pixels.shape))
    if len(pixels.shape) < 2:
        raise ValueError(f"image must be (N, C, *spatial), got shape {tuple(pixels.shape)}")
    call = prepare(backend, planes(backend, pixels, last), entries, mode, domain, threads)
    return backend.restore(back(backend, call.run(), last), image)


class Lookup(NamedTuple):
    """A checked call.

    Attributes:
        backend: the backend of the arrays.
        image: (N, C, *spatial).
        table: (N or 1, K, *sizes), in the dtype of sums.
        mode: the method.
        scale, shift: for each channel, the factor and the summand that make positions of values,
            which are integers for an integer image.
        threads: the maximum number of threads.
    """

    backend: Backend
    image: Array
    table: Array
    mode: Any
    scale: Sequence[float]
    shift: Sequence[float]
    threads: int | None

    def run(self) -> Array:
        """Compute the result, (N, K, *spatial)."""
        result = self.in_one_pass()
        if result is not None:
            return result
        if not self.backend.is_host or len(self.image.shape) < 3:
            return self.look_up()
        shape = self.image.shape
        curves = len(self.table.shape) == 3 and self.table.shape[1] == 1
        channels = shape[1] if curves else self.table.shape[1]
        # In the image's own order of memory: channels may come last there.
        result = np.empty_like(self.image, shape=(shape[0], channels, *shape[2:]))
        for part in parts_of(shape):
            result[part] = self._replace(image=self.image[part], table=self.entries(part)).look_up()
        return result

    def in_one_pass(self) -> Array | None:
        """Compute the result by a kernel, if there is one."""
        is_linear = self.mode in ("linear", "bilinear")
        if not (is_linear or self.mode == TETRAHEDRAL):
            return None
        factors = self.scale, self.shift, float(largest(self.backend, self.image) or 1)
        return self.backend.look_up(self.image, self.table, not is_linear, factors, self.threads)

    def entries(self, part: tuple[slice, ...]) -> Array:
        """Return the tables of a part of the image."""
        return self.table if self.table.shape[0] == 1 else self.table[part[0]]

    def look_up(self) -> Array:
        """Compute the result at once."""
        backend, positions = self.backend, self.positions()
        channels, curves, axes = positions.shape[-1], self.table.shape[1], len(self.table.shape) - 2
        if axes == channels:
            result = self.samples(self.table, positions)
        else:  # curves: one for all channels, or one for each
            lines = [self.table[:, k % curves][:, None] for k in range(channels)]
            each = [self.samples(lines[k], positions[..., k : k + 1]) for k in range(channels)]
            result = backend.concatenate(each, 1)
        top = largest(backend, self.image)
        if top is None:
            return backend.astype(result, self.image.dtype)
        return as_integers(backend, result * top, self.image.dtype, ())

    def positions(self) -> Array:
        """Return the positions (N, *spatial, C) in entries, x first."""
        backend = self.backend
        values = backend.astype(self.image, self.table.dtype)
        values = backend.permute(values, (0, *range(2, len(values.shape)), 1))
        values = values * self.numbers(self.scale)
        return values + self.numbers(self.shift) if any(self.shift) else values

    def numbers(self, each: Sequence[float]) -> Any:
        """Return numbers for the channels as an array, or as one number if all are equal."""
        if len(set(each)) == 1:
            return each[0]
        numbers = np.array(each, self.backend.type_name(self.table.dtype))
        return self.backend.asarray(numbers, self.table)

    def samples(self, table: Array, positions: Array) -> Array:
        """Sample tables at positions (N, *spatial, D)."""
        if self.mode == TETRAHEDRAL and positions.shape[-1] > 1:
            return simplex_sums(self.backend, table, positions, self.threads)
        mode = "linear" if self.mode == TETRAHEDRAL else self.mode
        return sample_at_pixels(
            table, positions, mode=mode, padding_mode="border", threads=self.threads
        )


def parts_of(shape: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    """Yield the index of each part of an image (N, C, rows, ...): rows of an item."""
    for item in range(shape[0]):
        for rows in bands_along(tuple(shape[2:]), BLOCK):
            yield slice(item, item + 1), slice(None), rows


def simplex_sums(backend: Backend, table: Array, positions: Array, threads: int | None) -> Array:
    """Interpolate linearly on simplices: (N, K, *spatial).

    Each position is a query of `weighted_sum`, whose points are the D + 1 entries of its simplex in
    the flattened table.
    """
    xp, sizes = backend.xp, table.shape[2:]
    if math.prod(sizes) > 1 << 24:  # a float32 holds the indices of entries up to this one
        positions = backend.astype(positions, backend.type("float64"))
        if backend.type_name(positions.dtype) != "float64":
            raise ValueError(
                f"a table of {math.prod(sizes)} entries needs float64, which JAX has with "
                "jax_enable_x64"
            )
    bases, fractions, steps = [], [], []
    for axis in range(len(sizes)):  # x, the last axis, first
        size, step = sizes[-1 - axis], math.prod(sizes[len(sizes) - axis :])
        place = xp.clip(positions[..., axis], 0, size - 1)
        base = xp.floor(place)
        bases.append(base * step)
        fractions.append(place - base)
        # The last entry has no next one, but the fraction is 0 there.
        steps.append(xp.where(base < size - 1, xp.zeros_like(base) + step, 0))
    falling, ordered = sorted_steps(backend, fractions, steps)
    offsets = [*itertools.accumulate([functools.reduce(operator.add, bases), *ordered])]
    between = [a - b for a, b in itertools.pairwise(falling)]
    shares = [falling[0] * -1 + 1, *between, falling[-1]]
    return sums_of(backend, table, xp.stack(offsets, -1), xp.stack(shares, -1), threads)


def sorted_steps(
    backend: Backend, fractions: Sequence[Array], steps: Sequence[Array]
) -> tuple[list[Array], list[Array]]:
    """Sort fractions elementwise in falling order, and with them the steps of their axes."""
    xp = backend.xp
    keys, values = [*fractions], [*steps]
    for end in range(len(keys) - 1, 0, -1):
        for k in range(end):  # exchange neighbours, the smallest one moves to the end
            (a, b), (first, second) = keys[k : k + 2], values[k : k + 2]
            rises = b > a
            keys[k : k + 2] = xp.maximum(a, b), xp.minimum(a, b)
            values[k : k + 2] = xp.where(rises, second, first), xp.where(rises, first, second)
    return keys, values


def sums_of(
    backend: Backend, table: Array, offsets: Array, shares: Array, threads: int | None
) -> Array:
    """Sum the entries at offsets (N, *spatial, D + 1) of the flattened table, with shares."""
    xp, (tables, channels, *sizes) = backend.xp, table.shape
    (items, *spatial, each), count = shares.shape, math.prod(sizes)
    queries = items * math.prod(spatial) // tables
    entries = backend.permute(table, (0, *range(2, 2 + len(sizes)), 1))
    sums = weighted_sum(
        xp.reshape(entries, (tables, count, 1, channels)),
        xp.reshape(offsets, (tables, queries, 1, 1, each, 1)),
        xp.reshape(shares, (tables, queries, 1, 1, each)),
        [(count,)], "nearest", "border", coords="pixel", threads=threads,
    )  # fmt: skip
    result = xp.reshape(sums, (items, *spatial, channels))
    return backend.permute(result, (0, len(spatial) + 1, *range(1, len(spatial) + 1)))


# Checks -------------------------------------------------------------------------------------------


def prepare(
    backend: Backend, image: Array, table: Array, mode: Any, domain: Any, threads: int | None
) -> Lookup:
    """Check a call of `apply_lut`; the image has its channels on the second axis."""
    check_threads(threads)
    axes = check_shapes(backend.shape(image), backend.shape(table))
    if not (isinstance(mode, str) and mode == TETRAHEDRAL):
        for name in per_axis(mode, axes, "mode"):
            find_method(name)
    entry, top = largest(backend, table, "table"), largest(backend, image, "image")
    real = sum_type(backend, image, table)
    entries = backend.astype(table, real)
    low, high = check_domain(domain, image.shape[1])
    sizes = [table.shape[-1 - k % axes] for k in range(image.shape[1])]
    # On an axis of one entry, all positions are moved to it, also those of infinite values.
    scale = [max(n - 1, 1) / (b - a) for n, a, b in zip(sizes, low, high, strict=True)]
    shift = [-a * factor for a, factor in zip(low, scale, strict=True)]
    if max(map(abs, [*scale, *shift])) > np.finfo(backend.type_name(real)).max:
        raise ValueError(f"domain {domain!r} is too narrow for {backend.type_name(real)}")
    return Lookup(
        backend,
        image,
        entries if entry is None else entries / entry,
        mode,
        [factor / (top or 1) for factor in scale],
        shift,
        threads,
    )


def check_shapes(image: Sequence[int], table: Sequence[int]) -> int:
    """Check the shapes of an image, channels first, and a table; return the table's axes."""
    if image[1] == 0:
        raise ValueError(f"image must have at least one channel, got shape {tuple(image)}")
    axes = len(table) - 2
    if not 1 <= axes <= MAX_RANK or 0 in table:
        raise ValueError(
            f"table must be (N, K, *sizes) with 1 to {MAX_RANK} sizes, none of them 0; got shape "
            f"{tuple(table)}"
        )
    if table[0] not in (1, image[0]):
        raise ValueError(f"there are {table[0]} tables for {image[0]} images; accepted: 1, or N")
    if axes > 1 and image[1] != axes:
        advice = ""
        if image[-1] == axes:
            advice = "; pass channel_axis=-1 if channels are its last axis"
        elif image[1] == axes + 1:
            advice = f"; pass its first {axes} if the last one is opacity"
        raise ValueError(
            f"a table of {axes} axes takes {axes} channels, but the image has {image[1]}{advice}"
        )
    if axes == 1 and 1 not in (table[1], image[1]) and table[1] != image[1]:
        raise ValueError(
            f"the table has {table[1]} curves, but the image has {image[1]} channels; accepted: "
            "one curve, one channel, or as many of both"
        )
    return axes


def check_domain(domain: Any, channels: int) -> tuple[list[float], list[float]]:
    """Return the values of the first and last entries for each channel."""
    try:
        ends = [np.broadcast_to(np.asarray(end, float), channels).tolist() for end in domain]
        low, high = ends
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"domain must be (low, high), each a number or {channels}; got {domain!r}"
        ) from None
    if not all(math.isfinite(b - a) and a < b for a, b in zip(low, high, strict=True)):
        raise ValueError(
            f"domain must be (low, high) with low < high and a finite width, got {domain!r}"
        )
    return low, high


def largest(backend: Backend, array: Array, name: str = "image") -> int | None:
    """Return the integer that stands for 1 in an array; None if it is floating-point.

    Raises:
        TypeError: the array is bool or complex.
    """
    dtype = backend.type_name(array.dtype, name)
    if dtype in GRID_TYPES:
        return None
    if not dtype.startswith(("int", "uint")):
        raise TypeError(f"{name} has dtype {dtype}; accepted: integers, {', '.join(GRID_TYPES)}")
    return int(np.iinfo(dtype).max)
