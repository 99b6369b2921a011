"""CPU kernels for resizing: one axis after the other, one piece of the image at a time.

    resize(maps, source, out)     out = (map of the last axis x ... x map of the first) source

with an `AxisMap` for each spatial axis.  The adjoint uses the adjoint maps in the same way.

A piece is a few planes, or a band of rows (in a volume, slices) of one plane.  It passes through
all axes before the next piece is started, so that intermediate results stay in cache and need
little memory.  No two pieces write to the same place, and results do not depend on the number of
threads.
"""

from __future__ import annotations

import functools
import itertools
import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.tables import AxisMap, Band, Prefilter, Solve, chosen, rounded_order
from gridsample.kernels import threads as pool
from gridsample.kernels.memory import as_parts, frozen, stored
from gridsample.kernels.prefilter import filter_axis
from gridsample.kernels.resize.build import CHUNK, LANES, ROWS, Spec, driver_for
from gridsample.kernels.resize.votes import vote

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

# The maximum size of a piece between two axes, in numbers, and the minimum number of rows per tap
# in its band: rows at the edges of bands are computed twice.
PIECE, ROWS_PER_TAP = 1 << 19, 6
# The number of taps from which the leading axis is resized first if a band of so many rows would
# otherwise be larger than two pieces.
WIDE = 16
# The number of contiguous values from which a line is long enough to be processed in place.
LONG = 16
# The size, in bytes, of the buffer between two axes that a thread keeps.
KEPT = 8 * PIECE
# The size of a result, in bytes, from which stores bypass the caches.
STREAM = 1 << 25
# The cost of transposing a number, in products.
TURN = 3.0
# The cost of a product that uses only a part of a vector.
PART = 2.5
# Numbers of channels of a pixel that are copied together, and that are summed together.
GROUPS, PIXELS = (3, 4), (2, 3, 4)


# Layout -------------------------------------------------------------------------------------------


def is_channels_last(array: Array) -> bool:
    """Whether the channels of a pixel of (N, C, *spatial) are contiguous in memory."""
    return array.shape[1] > 1 and array.strides[1] == array.itemsize and not is_packed(array)


def is_packed(array: Array) -> bool:
    """Whether an array is contiguous, aligned and in native byte order."""
    return array.flags.c_contiguous and is_plain(array)


def is_plain(array: Array) -> bool:
    """Whether an array is aligned and in native byte order."""
    return array.flags.aligned and array.dtype.isnative


def packed(array: Array) -> Array:
    """Return the array itself if it is packed, otherwise a packed copy."""
    if is_packed(array):
        return array
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))


def as_planes(array: Array, last: bool) -> Array:
    """View (N, C, *spatial) as (N, *spatial, C) or (N * C, *spatial, 1); copy if necessary."""
    if last:
        return array.transpose(0, *range(2, array.ndim), 1)
    return array.reshape(-1, *array.shape[2:], 1)


def as_numbers(planes: Array) -> Array:
    """View planes (outer, *spatial, inner) as real numbers of a dtype that kernels have."""
    if planes.dtype.kind == "c":
        parts = as_parts(planes)
        return parts.reshape(*planes.shape[:-1], 2 * planes.shape[-1])
    return stored(planes)


def code(dtype: np.dtype[Any]) -> str:
    """Return the code of a storage type in a Spec; a complex type is stored as its parts."""
    return f"f{dtype.itemsize // 2}" if dtype.kind == "c" else f"{dtype.kind}{dtype.itemsize}"


# Numbers ------------------------------------------------------------------------------------------

# In fixed point, weights have 14 bits after the point and intermediate results have 6.  A product
# thus needs 30 bits, which leaves room for a sum that overshoots by less than a factor of two.
WEIGHT_BITS, BETWEEN_BITS = 14, 6
# If intermediate results are bytes, Pillow's weights have the bits that bytes leave in 32.
# PyTorch's weights have 16 bits, with as many after the point as the largest weight allows.
PILLOW_BITS = 22
# A weight's error is at most 2**-15, so that of a product with 255 is at most 1/128; with 64 taps
# in total, the error stays within half a unit.
FIXED_TAPS = 64
# The greatest sum of absolute weights for which all of these have enough bits.
FIXED_GAIN = 1.9


class Numbers(NamedTuple):
    """The type of sums and that of intermediate results between two axes."""

    sums: str
    between: str
    rounding: str = "exact"

    def bits(self, band: Band) -> int:
        """Return the number of bits after the point in a band's weights."""
        if self.rounding == "exact":
            return WEIGHT_BITS
        if self.rounding == "pillow":
            return PILLOW_BITS
        most = float(band.weights.max(initial=0))
        return next((n for n in range(PILLOW_BITS) if 0.5 + most * 2 ** (n + 1) >= 2**15), 22)

    def weights(self, band: Band) -> Array:
        """Return a band's weights as factors.

        By default, fixed-point weights are rounded such that their running sums are right, and
        therefore their total.  Pillow and PyTorch round each weight separately, and halves away
        from zero.
        """
        if self.sums != "i4":
            return band.weights.astype(self.sums)
        if self.rounding != "exact":
            scaled = band.weights * 2.0 ** self.bits(band)
            wide = np.int32 if self.rounding == "pillow" else np.int16
            return np.trunc(scaled + np.copysign(0.5, scaled)).astype(wide)
        running = np.rint(np.cumsum(band.weights, axis=1) * 2**WEIGHT_BITS)
        taken = np.arange(band.weights.shape[1]) < band.count[:, np.newaxis]
        return np.where(taken, np.diff(running, axis=1, prepend=0), 0).astype(np.int16)

    def shift(self, band: Band, source: str, target: str) -> int:
        """Return by how many bits a sum must be shifted right before it is stored."""
        bits = {"u1": 0, "i2": BETWEEN_BITS}
        return self.bits(band) + bits[source] - bits[target] if self.sums == "i4" else 0


def are_plain(maps: Sequence[AxisMap]) -> bool:
    """Whether all maps are bands only, without filters before or after."""
    return all(one.before is None and one.after is None for one in maps)


def are_fixed(stored_as: str, maps: Sequence[AxisMap]) -> bool:
    """Whether to sum an image in fixed point: bytes, with bands that do not overshoot much."""
    return stored_as == "u1" and are_plain(maps) and all(m.band.gain < FIXED_GAIN for m in maps)


def choose_numbers(
    stored_as: str, real: np.dtype[Any], maps: Sequence[AxisMap], rounding: str
) -> Numbers:
    """Choose fixed point for bytes if it is exact enough; otherwise keep the dtype of sums."""
    if are_fixed(stored_as, maps):
        if rounding != "exact":
            return Numbers("i4", "u1", rounding)
        if sum(one.band.taps for one in maps) <= FIXED_TAPS:
            return Numbers("i4", "i2")
    return Numbers(code(real), code(real))


# One axis of a piece ------------------------------------------------------------------------------


class Pass(NamedTuple):
    """One axis: its index, its band, and the factors that represent the weights."""

    axis: int
    band: Band
    first: Array
    counts: Array
    weights: Array

    def needs(self, rows: slice) -> slice:
        """Return the range of inputs that a range of outputs needs."""
        low = int(self.first[rows.start])
        return slice(low, max(low, int(self.first[rows.stop - 1] + self.counts[rows.stop - 1])))

    def shape(self, given: Shape, rows: slice) -> Shape:
        """Return the shape (outer, *spatial, inner) of a range of outputs."""
        k = self.axis + 1
        return *given[:k], rows.stop - rows.start, *given[k + 1 :]

    def run(
        self, numbers: Numbers, data: Array, rows: slice, base: int, result: Array, streams: bool
    ) -> None:
        """Resize one axis of (outer, *spatial, inner); ``base`` is the index of its first input."""
        k = self.axis + 1
        outer, inner = math.prod(data.shape[:k]), math.prod(data.shape[k + 1 :])
        source, target = code(data.dtype), code(result.dtype)
        way, pixel = "along_lines", 1
        if inner < LONG:
            few = inner in PIXELS and outer >= ROWS
            way, pixel = ("across_pixels", inner) if few else ("across_lines", 1)
        driver = driver_for(Spec(way, source, target, numbers.sums, pixel))
        more: tuple[Any, ...] = ()
        if way == "along_lines":
            more = (streams,)
        if way == "across_lines":
            wide = inner * LANES
            more = (
                np.empty(reach(self.band, CHUNK) * wide, source),
                np.empty(CHUNK * wide, target),
            )
        driver(
            frozen(data.reshape(-1)), result.reshape(-1), self.first[rows], self.counts[rows],
            self.weights[rows], numbers.shift(self.band, source, target), base, outer,
            data.shape[k], inner, *more,
        )  # fmt: skip


class Scratch(threading.local):
    """Buffers for intermediate results, which each thread reuses while they are still in cache.

    Each thread keeps the buffers of a piece of usual size, also between calls.
    """

    def __init__(self) -> None:
        """Start without buffers."""
        self.kept: dict[int, Array] = {}

    def array(self, number: int, shape: Shape, kind: str) -> Array:
        """Return an array for the result of a pass."""
        size = math.prod(shape)
        needed = size * int(kind[1:])
        memory = self.kept.get(number)
        if memory is None or memory.size < needed:
            memory = np.empty(needed, np.uint8)
            if needed <= KEPT:
                self.kept[number] = memory
        return memory[:needed].view(kind).reshape(shape)


scratch = Scratch()


@functools.lru_cache(maxsize=512)
def reach(band: Band, outputs: int) -> int:
    """Return the greatest number of inputs that ``outputs`` adjacent outputs need.

    This is the maximum over all first outputs, because a band of rows may start anywhere in a
    plane.
    """
    last = np.minimum(np.arange(band.outputs) + outputs, band.outputs) - 1
    return int((band.first[last] + band.count[last] - band.first).max(initial=0))


@functools.lru_cache(maxsize=512)
def make_pass(axis: int, band: Band, numbers: Numbers) -> Pass:
    """Make a pass; it is cached, because the same sizes recur."""
    return Pass(axis, band, frozen(band.first), frozen(band.count), frozen(numbers.weights(band)))


@functools.lru_cache(maxsize=512)
def best_order(bands: tuple[Band, ...], inner: int) -> tuple[int, ...]:
    """Return the order of axes with the lowest cost; axes that are not resized are left out."""

    def cost(order: Sequence[int]) -> float:
        shape = [band.inputs for band in bands]
        total = 0.0
        for axis in order:
            band = bands[axis]
            shape[axis] = band.outputs
            work: float = band.outputs * (band.taps + 1)
            line = inner * math.prod(shape[axis + 1 :])
            if line in PIXELS:
                work *= PART
            elif line < LONG:
                work += TURN * (band.inputs + band.outputs)
            total += work * math.prod(shape) / band.outputs
        return total

    axes = [axis for axis, band in enumerate(bands) if not band.is_identity]
    return min(itertools.permutations(axes), key=cost) or (0,)


# Two axes at once ---------------------------------------------------------------------------------


def are_squares(passes: Sequence[Pass], shape: Shape, numbers: Numbers) -> bool:
    """Whether the resizing of (outer, height, width, inner) only sums 2 x 2 pixels per output.

    In that case, there is no advantage in processing one axis after the other.
    """
    return (
        numbers.sums != "i4"
        and shape[-1] in PIXELS
        and len(passes) == len(shape) - 2 == 2
        and all(one.band.is_of_pairs for one in passes)
    )


def resize_squares(
    passes: Sequence[Pass], kind: str, data: Array, rows: slice, base: int, result: Array
) -> None:
    """Resize both axes of (outer, height, width, inner); `Pass.run` resizes one."""
    down, across = sorted(passes, key=lambda one: one.axis)
    outer, height, width, inner = data.shape
    driver_for(Spec("squares", kind, kind, kind, inner))(
        frozen(data.reshape(-1)), result.reshape(-1), down.first[rows], down.weights[rows],
        across.first, across.weights, base, outer, height, width,
    )  # fmt: skip


# The whole ----------------------------------------------------------------------------------------


def pieces(
    outer: int, size: int, rows: int, least: int, threads: int, whole: bool = False
) -> Iterator[tuple[slice, slice]]:
    """Divide planes of ``size`` numbers, and their rows, into pieces: (planes, rows).

    If there is no intermediate result, a single thread gets one ``whole`` piece.
    """
    if not outer:
        return
    target = outer * size // threads
    if threads > 1 or not whole:
        target = max(1, min(PIECE, target))
    if size <= target or rows <= least:
        step = max(1, target // max(1, size))
        for begin in range(0, outer, step):
            yield slice(begin, min(begin + step, outer)), slice(0, rows)
        return
    step = max(least, rows * target // size)
    if step > LANES:
        step -= step % LANES  # whole groups of rows to transpose
    for plane in range(outer):
        for begin in range(0, rows, step):
            yield slice(plane, plane + 1), slice(begin, min(begin + step, rows))


def resize(
    maps: Sequence[AxisMap],
    source: Array,
    out: Array,
    real: np.dtype[Any],
    threads: int | None = None,
    rounding: str = "exact",
    votes: bool = False,
) -> None:
    """Resize (N, C, *spatial) into ``out``, which has the same dtype; see above.

    Args:
        maps: the map of each spatial axis, in the array's order.
        source: the image, with any strides; if it is not packed, it is copied, one piece at a time
            where possible.
        out: receives the result.
        real: the dtype of sums.
        threads: the maximum number of threads.
        rounding: "exact", or "pillow" or "torch" to round integers after each axis.
        votes: whether inputs vote for their values, which are labels.
    """
    if votes:
        vote(maps, source, out, threads)
        return
    last = is_channels_last(source)
    given = as_planes(source, last)
    wanted = as_planes(out, last)
    direct = is_packed(wanted) and np.may_share_memory(wanted, out)
    result = wanted if direct else np.empty(wanted.shape, given.dtype.newbyteorder("="))
    run(maps, given, result, real, threads or pool.cores(), rounding)
    if not direct:
        back = (
            result.transpose(0, -1, *range(1, out.ndim - 1)) if last else result.reshape(out.shape)
        )
        out[...] = back


def run(
    maps: Sequence[AxisMap], given: Array, result: Array, real: np.dtype[Any], threads: int,
    rounding: str = "exact",
) -> None:  # fmt: skip
    """Resize planes (outer, *spatial, inner) into packed planes."""
    copies = all(one.band.copies and one.before is one.after is None for one in maps)
    rounds = rounding != "exact" and not copies and given.dtype.kind in "iub"
    if rounds and not are_fixed(code(given.dtype), maps):
        run_stepwise(maps, given, result, real, threads, rounding)
        return
    # Other arrays are packed one piece at a time.
    if copies or any(one.before for one in maps) or not is_plain(given):
        given = packed(given)
    if copies:
        copy_pixels([one.band for one in maps], given, result, threads)
        return
    kind = code(given.dtype)
    source, target = as_numbers(given), as_numbers(result)
    numbers = choose_numbers("" if given.dtype == np.bool_ else kind, real, maps, rounding)
    kinds = kind, kind
    if any(one.before for one in maps):
        source = (
            np.array(source, numbers.sums)
            if kind == numbers.sums
            else widen(source, kind, numbers.sums)
        )
        for axis, one in enumerate(maps):
            solve(one.before, source, axis, threads)
        kinds = numbers.sums, kinds[1]
    whole = target
    if any(one.after for one in maps):
        whole = target if kind == numbers.sums else np.empty(target.shape, numbers.sums)
        kinds = kinds[0], numbers.sums
    resize_bands([one.band for one in maps], source, whole, numbers, kinds, threads)
    if any(one.after for one in maps):
        for axis, one in enumerate(maps):
            solve(one.after, whole, axis, threads)
        if whole is not target:
            change(whole, target, numbers.sums, kind)


def run_stepwise(
    maps: Sequence[AxisMap], given: Array, result: Array, real: np.dtype[Any], threads: int,
    rounding: str,
) -> None:  # fmt: skip
    """Resize as `run` does, but one whole axis after the other, with a separate result for each."""
    axes = [k for k, one in enumerate(maps) if not (one.band.is_identity and are_plain([one]))]
    sizes = given.shape[1:-1], result.shape[1:-1]
    axes = [axis for axis in rounded_order(*sizes, rounding) if axis in axes]
    for axis in axes:
        alone = [one if k == axis else unchanged(given.shape[k + 1]) for k, one in enumerate(maps)]
        shape = [*given.shape[: axis + 1], maps[axis].band.outputs, *given.shape[axis + 2 :]]
        made = result if axis == axes[-1] else np.empty(shape, result.dtype)
        run(alone, given, made, real, threads)
        given = made


@functools.lru_cache(maxsize=64)
def unchanged(n: int) -> AxisMap:
    """Return the identity map of an axis."""
    return AxisMap(None, chosen(np.arange(n), n), None)


def resize_bands(
    bands: Sequence[Band], source: Array, target: Array, numbers: Numbers,
    kinds: tuple[str, str], threads: int,
) -> None:  # fmt: skip
    """Apply all bands to planes (outer, *spatial, inner), whose storage types are ``kinds``."""
    order = best_order(tuple(bands), source.shape[-1])
    if numbers.rounding != "exact":
        sizes = [band.inputs for band in bands], [band.outputs for band in bands]
        order = tuple(axis for axis in rounded_order(*sizes, numbers.rounding) if axis in order)
    passes = [make_pass(axis, bands[axis], numbers) for axis in order]
    native, direct = (numbers.sums in (kind, "i4") for kind in kinds)
    leading = next((one for one in passes if one.axis == 0), None)
    if leading and leading.band.taps > WIDE and numbers.rounding == "exact":
        rows = min(target.shape[1], ROWS_PER_TAP * leading.band.taps)
        if rows * between(passes, source.shape[1:], False) // target.shape[1] > 2 * PIECE:
            passes.sort(key=lambda one: one.axis != 0)
    streams = target.nbytes > STREAM
    squares = native and direct and are_squares(passes, source.shape, numbers)

    def task(planes: slice, rows: slice) -> None:
        inputs = leading.needs(rows) if leading else rows
        data = packed(source[planes, inputs])
        final = target[planes, rows]
        if not native:
            data = widen(data, kinds[0], numbers.sums)
        if squares:
            resize_squares(passes, numbers.sums, data, rows, inputs.start, final)
            return
        for k, one in enumerate(passes):
            part = rows if one.axis == 0 else slice(0, one.band.outputs)
            base = inputs.start if one.axis == 0 else 0
            if direct and one is passes[-1]:
                result = final
            else:
                result = scratch.array(k, one.shape(data.shape, part), numbers.between)
            one.run(numbers, data, part, base, result, streams and result is final)
            data = result
        if not direct:
            change(data, final, numbers.sums, kinds[1])

    # Rows at the edges of bands are computed twice unless their axis comes first.
    least = ROWS_PER_TAP * leading.band.taps if leading and passes[0] is not leading else 1
    size = between(passes, source.shape[1:], direct)
    cut = pieces(len(source), size, target.shape[1], least, threads, squares)
    pool.run([functools.partial(task, *piece) for piece in cut], threads)


def between(passes: Sequence[Pass], shape: Shape, direct: bool) -> int:
    """Return the size of the largest intermediate result of a plane, in numbers.

    The result of the last of several passes does not count if it is stored directly in ``out``.
    """
    sizes, now = [], list(shape)
    for one in passes:
        now[one.axis] = one.band.outputs
        sizes.append(math.prod(now))
    return max((sizes[:-1] if direct else []) or sizes)


def change(source: Array, target: Array, before: str, after: str) -> None:
    """Convert packed numbers to another dtype."""
    sums = after if after in ("f4", "f8") else before
    driver = driver_for(Spec("convert", before, after, sums))
    driver(frozen(source.reshape(-1)), target.reshape(-1))


def widen(source: Array, kind: str, sums: str) -> Array:
    """Convert packed numbers to the dtype of sums."""
    wide = np.empty(source.shape, sums)
    change(source, wide, kind, sums)
    return wide


def solve(one: Solve | Prefilter | None, data: Array, axis: int, threads: int) -> None:
    """Prefilter packed planes (outer, *spatial, inner) along an axis, in place."""
    if one is None:
        return
    if isinstance(one, Prefilter):
        filter_axis(data, axis + 1, one.order, one.extended, one.adjoint, threads)
        return
    k = axis + 1
    n, kind = data.shape[k], code(data.dtype)
    outer, inner = math.prod(data.shape[:k]), math.prod(data.shape[k + 1 :])
    recursion = frozen(one.recursion.astype(data.dtype))
    if inner >= LONG:
        driver_for(Spec("solve_lines", kind, kind, kind))(
            data.reshape(-1), recursion, outer, n, inner
        )
    else:
        side = np.empty(n * inner * LANES, data.dtype)
        driver_for(Spec("solve_across", kind, kind, kind))(
            data.reshape(-1), recursion, outer, n, inner, side
        )


@functools.lru_cache(maxsize=512)
def columns_of(band: Band, inner: int, group: int) -> Array:
    """Return where each group of a line's outputs starts; an output has ``inner`` numbers."""
    columns: Array = band.first[:, np.newaxis] * inner + np.arange(0, inner, group)
    return frozen(columns.reshape(-1))


def copy_pixels(bands: Sequence[Band], given: Array, result: Array, threads: int) -> None:
    """Apply bands in which each output is one input: copy the bits, whatever the dtype."""
    parts = 2 if given.dtype.itemsize == 16 else 1
    bits = np.dtype(f"u{given.dtype.itemsize // parts}")
    shape = (*given.shape[:-1], parts * given.shape[-1])
    # There are always three axes; the last one holds the numbers of all its pixels.
    missing = 3 - len(bands)
    outer, inner = shape[0], shape[-1]
    depth, height, width = [1] * missing + list(shape[1:-1])
    tables = [np.zeros(1, np.int64)] * missing + [band.first for band in bands]
    slices, rows, _ = tables
    group = inner if inner in GROUPS else 1
    columns = columns_of(bands[-1], inner, group)
    source = given.reshape(-1).view(bits).reshape(outer, depth, height, width * inner)
    target = result.reshape(-1).view(bits).reshape(outer, len(slices), len(rows), -1)
    driver = driver_for(Spec("pick", bits.str[1:], bits.str[1:], bits.str[1:]))

    def task(planes: slice, band: slice) -> None:
        given = source[planes]
        # A band consists of slices, or of rows if there is one slice.
        cut = (slices[band], rows) if len(slices) > 1 else (slices, rows[band])
        part = target[planes, band] if len(slices) > 1 else target[planes, :, band]
        driver(
            frozen(given.reshape(-1)), part.reshape(-1), *map(frozen, cut), columns,
            np.array(given.shape), group,
        )  # fmt: skip

    leading = len(slices) if len(slices) > 1 else len(rows)
    cuts = pieces(outer, math.prod(target.shape[1:]), leading, 1, threads, whole=True)
    pool.run([functools.partial(task, *piece) for piece in cuts], threads)
