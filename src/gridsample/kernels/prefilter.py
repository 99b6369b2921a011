"""The B-spline prefilter: it converts pixels to the coefficients of the interpolating spline.

A spline of order n is a sum of B-splines b, one for each pixel, with coefficients c.  At the pixels
it is the convolution of c with the few values of b there, and the prefilter inverts that
convolution.  The inverse factors into pairs of recursions, one pair for each root ("pole") z of the
polynomial of b inside the unit circle.  One runs forward along the line, the other backward:

    there[k] = s[k] + z there[k - 1],        c[k] = z (c[k + 1] - there[k]),

and a gain, the product of (1 - z)(1 - 1 / z).  Source: M. Unser, A. Aldroubi, M. Eden, "B-spline
signal processing", IEEE Trans. Signal Processing 41, 1993.

A boundary determines where the recursions start.  If it extends the line to a periodic one, all
that comes before the first entry is a geometric series in the line's own entries, which is summed
exactly.  The first entry there, and the first one back, are then weighted sums of the line
(`ends`).

The other boundaries ("zeros", "border", "antimirror") have no such series.  The spline's values at
the pixels are A c, where A is a banded matrix, and A differs from the matrix S of a recursive
boundary (`recursive`) only in the first and last few rows.  Hence

    c = A^-1 s = S^-1 (S A^-1) s,        S A^-1 = 1 - (A - S) A^-1,

so the first and last few entries of the line are replaced by weighted sums of the line, and then it
is filtered as under the recursive boundary (`correction`).  The weights decrease from the ends as
fast as the largest pole's powers.

The matrix of each recursion is symmetric, except for "mirror", where it is symmetric after the two
edge pixels are halved.  The adjoint is therefore the same filter with its edges scaled before and
after, and the transpose of the weighted sums comes last.

The loops are plain Python, lowered to Numba as those of `gridsample.kernels.cpu` are.  If entries
with the same index are contiguous, their lines are filtered together, and loops vectorise across
lines.  A line whose own entries are contiguous is filtered by recursive doubling (`along`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.axis import DROPPED, ZEROS, fold_index, fold_sign
from gridsample.definitions.plan import BOUNDARIES
from gridsample.definitions.weights import bspline_table
from gridsample.kernels import threads as pool
from gridsample.kernels.compile import forks

Array = np.ndarray[Any, Any]

# The boundaries whose recursions are exact.  Others are corrected at the ends.
RECURSIVE = ("mirror", "symmetric", "wrap", "antisymmetric", "dst1")

# Lines of a block: enough for loops to vectorise across them, few enough to stay in cache.
FEWEST, MOST, BLOCK = 16, 64, 1 << 15
# The number of entries that are worth a thread of their own.
SHARE = 1 << 16


def extension(boundary: str, align_corners: bool) -> str:
    """Return the boundary of the filter under a boundary of sampling.

    "constant" is filtered as "zeros": what its fill value adds does not depend on the image
    (`gridsample.ops.arrays.add_fill`).
    """
    if boundary == "reflection":
        return "mirror" if align_corners else "symmetric"
    return "zeros" if BOUNDARIES[boundary].code == ZEROS else boundary


def recursive(extended: str) -> str:
    """The boundary whose recursion is used: where there is none, one with equal pixels outside.

    The fewer pixels outside differ, the fewer entries must be corrected.
    """
    if extended in RECURSIVE:
        return extended
    return "dst1" if extended == "zeros" else "symmetric"


# ---- the filter as numbers ----------------------------------------------------------------------


@functools.cache
def poles(order: int) -> tuple[float, ...]:
    """Return the roots z, -1 < z < 0, of the polynomial with b's values as coefficients.

    Example:
        >>> from gridsample.kernels.prefilter import poles
        >>> [round(z, 12) for z in poles(3)]  # sqrt(3) - 2
        [-0.267949192431]
    """
    values = [row[0] for row in bspline_table(order)]
    values = values if order % 2 == 0 else values[:-1]  # the last value is 0 for odd orders
    roots = np.roots([float(value) for value in values])
    polynomial = np.polynomial.Polynomial([float(value) for value in values])
    inner = sorted(root.real for root in roots if abs(root) < 1)
    slope = polynomial.deriv()
    for _ in range(3):  # Newton's method removes rounding errors
        inner = [root - polynomial(root) / slope(root) for root in inner]
    return tuple(float(root) for root in inner)


def ends(z: float, n: int, extended: str) -> tuple[Array, Array]:
    """Return the weights of a line's n entries in the first entry of each recursion.

    Forward: the sum over j >= 0 of z^j s[-j], where s[-j] is again an entry of the line, and each
    recurs after every period.  Backward: c[n - 1], by the symmetry of c about the line's end, or
    for "wrap" the sum over j >= 0 of -z^(j + 1) there[n - 1 + j].
    """
    k = np.arange(n)
    there: Array = np.zeros(n)
    back: Array = np.zeros(n)
    if extended == "wrap":
        there = z ** ((n - k) % n) / (1 - z**n)
        back = -z * z ** ((k + 1) % n) / (1 - z**n)
    elif extended == "mirror" and n > 1:
        there = z**k + np.where((k > 0) & (k < n - 1), z ** (2 * n - 2 - k), 0.0)
        there /= 1 - z ** (2 * n - 2)
        back[-2:] = z * z / (z * z - 1), z / (z * z - 1)
    elif extended == "dst1":  # the mirrors are at zeros, where c is 0 too
        there = (z ** (2 * n + 2 - k) - z ** (k + 2)) / (1 - z ** (2 * n + 2))
        there[0] += 1
        back[-1] = -z
    else:  # the mirror is half a pixel outside; for one pixel, all mirrors give the same
        sign = -1 if extended == "antisymmetric" else 1
        there = (z ** (2 * n - k) + sign * z ** (k + 1)) / (1 - z ** (2 * n))
        there[0] += 1
        back[-1] = -z / (1 - sign * z)
    return there, back


def at_pixels(order: int, n: int, extended: str) -> Array:
    """The matrix (pixel, coefficient) of a spline's values at the n pixels of a line.

    Example:
        >>> from gridsample.kernels.prefilter import at_pixels
        >>> 6 * at_pixels(3, 3, "border")
        array([[5., 1., 0.],
               [1., 4., 1.],
               [0., 1., 5.]])
    """
    boundary, matrix, pixels = BOUNDARIES[extended], np.zeros((n, n)), np.arange(n)
    for k, row in enumerate(bspline_table(order), start=-(order // 2)):
        how = (pixels + k, n, boundary.code, boundary.edge)
        sign = fold_sign(*how) if boundary.odd else np.ones(n)
        tap = fold_index(*how)
        read = tap != DROPPED
        np.add.at(matrix, (pixels[read], tap[read]), float(row[0]) * sign[read])
    return matrix


@functools.lru_cache(maxsize=64)
def correction(order: int, n: int, extended: str) -> tuple[Array, Array]:
    """The entries of a line that are replaced, and what is added to them, (entry, weight).

    The weights are rows of (S - A) A^-1; see the top of this module.
    """
    ours = at_pixels(order, n, extended)
    difference = at_pixels(order, n, recursive(extended)) - ours
    changed = np.flatnonzero(np.abs(difference).max(axis=1) > np.finfo(float).eps)
    added: Array = np.linalg.solve(ours.T, difference[changed].T).T
    return changed, added


def reach(order: int) -> int:
    """The number of entries at an end of a line that have weights above rounding."""
    return math.ceil(math.log(tiny(np.dtype(float))) / math.log(abs(poles(order)[0]))) + order


def corrections(order: int, n: int, extended: str, least: float) -> tuple[Array, Array, Array]:
    """Compute the entries that change, and the spans and weights of what is added, as in `Filter`.

    The weights at one end of a long line depend neither on its length nor on the other end, so that
    they are those of a shorter line.
    """
    if extended in RECURSIVE:
        return np.zeros(0, np.int64), np.zeros((0, 2), np.int64), np.zeros((0, 0))
    near = reach(order)
    short = min(n, 2 * near)
    changed, added = correction(order, short, extended)
    late = changed >= near
    if n > short:
        added = np.where(late[:, np.newaxis] == (np.arange(short) >= near), added, 0)
    spans, shares = narrowed(added, least)
    moved = np.where(late, n - short, 0)
    spans[:, 0] += moved
    return changed + moved, spans, shares


def tiny(real: np.dtype[Any]) -> Any:
    """Return the factor below which a term is lost in the rounding of a sum."""
    return real.type(np.finfo(real).eps / 64)


class Filter(NamedTuple):
    """The prefilter for lines of one length, as the compiled loops take it."""

    gain: Any
    adjoint: bool
    edges: Array  # (2): factors of the first and last entry, before and after the recursions
    poles: Array  # (pole)
    counts: Array  # (pole, 0: forward, 1: backward): the number of terms in the first entry
    places: Array  # (pole, direction, term): the indices of these terms in the line
    weights: Array  # (pole, direction, term): their weights
    changed: Array  # (change): the entries that are corrected
    spans: Array  # (change, 0: first, 1: count): the entries that are added to it
    shares: Array  # (change, entry from the first on): their weights


@functools.lru_cache(maxsize=64)
def design(order: int, n: int, extended: str, adjoint: bool, real: np.dtype[Any]) -> Filter:
    """Compute the filter of an order for lines of n entries; weights below rounding are dropped."""
    roots, recursion = poles(order), recursive(extended)
    starts = [weights for z in roots for weights in ends(z, n, recursion)]
    kept = [np.flatnonzero(np.abs(w) > tiny(real) * np.abs(w).max()) for w in starts]
    shape = (len(roots), 2, max(map(len, kept)))
    places, table = np.zeros((2 * len(roots), shape[2]), np.int64), np.zeros(shape, real)
    for row, weights, at in zip(range(len(kept)), starts, kept, strict=True):
        places[row, : len(at)] = at
        table.reshape(places.shape)[row, : len(at)] = weights[at]
    halved = adjoint and extended == "mirror" and n > 1
    changed, spans, shares = corrections(order, n, extended, tiny(real))
    return Filter(
        gain=real.type(np.prod([(1 - z) * (1 - 1 / z) for z in roots])),
        adjoint=adjoint,
        edges=np.array([2, 0.5] if halved else [1, 1], real),
        poles=np.array(roots, real),
        counts=np.array([len(at) for at in kept], np.int64).reshape(shape[:2]),
        places=places.reshape(shape),
        weights=table,
        changed=changed,
        spans=spans,
        shares=shares.astype(real),
    )


def narrowed(rows: Array, least: float) -> tuple[Array, Array]:
    """The span (first, count) of each row's entries above ``least``, at least one, and these."""
    above = np.abs(rows) > least
    first = above.argmax(axis=1)
    count = np.maximum(rows.shape[1] - above[:, ::-1].argmax(axis=1) - first, 1)
    parts: Array = np.zeros((len(rows), int(count.max(initial=0))))
    for row, part, low, size in zip(rows, parts, first, count, strict=True):
        part[:size] = row[low : low + size]
    return np.stack([first, count], axis=1).astype(np.int64), parts


# ---- across lines: entries k of neighbouring lines form row k, and rows are contiguous -----------


def scale(row: Any, factor: Any, n: int) -> None:
    """row = row * factor."""
    for i in range(n):
        row[i] *= factor


def copy(source: Any, target: Any, factor: Any, n: int) -> None:
    """target = source * factor."""
    for i in range(n):
        target[i] = source[i] * factor


def pull(row: Any, before: Any, z: Any, n: int) -> None:
    """One step of the forward recursion: row = row + z * before."""
    for i in range(n):
        row[i] += z * before[i]


def push(row: Any, after: Any, z: Any, n: int) -> None:
    """One step of the backward recursion: row = z * (after - row)."""
    for i in range(n):
        row[i] = z * (after[i] - row[i])


def begin(rows: Any, first: Any, places: Any, weights: Any, count: int, width: int) -> None:
    """first = the weighted sum of some rows."""
    copy(rows[places[0] * width :], first, weights[0], width)
    for k in range(1, count):
        pull(first, rows[places[k] * width :], weights[k], width)


def dot(row: Any, weights: Any, n: int) -> Any:
    """The weighted sum of n numbers."""
    total = row[0] * weights[0]
    for i in range(1, n):
        total += row[i] * weights[i]
    return total


def correct(rows: Any, side: Any, changed: Any, spans: Any, shares: Any, width: int) -> None:
    """Add weighted sums of all rows to a few; the sums are those before any row changes."""
    for c in range(len(changed)):
        total, first, count = side[c * width :], spans[c, 0], spans[c, 1]
        copy(rows[changed[c] * width :], total, ONE, width)
        if width == 1:
            total[0] += dot(rows[first:], shares[c], count)
        else:
            for k in range(count):
                pull(total, rows[(first + k) * width :], shares[c, k], width)
    for c in range(len(changed)):
        copy(side[c * width :], rows[changed[c] * width :], ONE, width)


def correct_back(rows: Any, side: Any, changed: Any, spans: Any, shares: Any, width: int) -> None:
    """Apply the transpose of `correct`."""
    for c in range(len(changed)):
        copy(rows[changed[c] * width :], side[c * width :], ONE, width)
    for c in range(len(changed)):
        total, first, count = side[c * width :], spans[c, 0], spans[c, 1]
        if width == 1:
            pull(rows[first:], shares[c], total[0], count)
        else:
            for k in range(count):
                pull(rows[(first + k) * width :], total, shares[c, k], width)


def across(
    rows: Any,
    spare: Any,
    n: int,
    width: int,
    poles: Any,
    counts: Any,
    places: Any,
    weights: Any,
) -> None:
    """Run both recursions over n rows, for each pole."""
    for p in range(len(poles)):
        z = poles[p]
        begin(rows, spare, places[p, 0], weights[p, 0], counts[p, 0], width)
        copy(spare, rows, ONE, width)
        for k in range(1, n):
            pull(rows[k * width :], rows[(k - 1) * width :], z, width)
        begin(rows, spare, places[p, 1], weights[p, 1], counts[p, 1], width)
        copy(spare, rows[(n - 1) * width :], ONE, width)
        for k in range(n - 2, -1, -1):
            push(rows[k * width :], rows[(k + 1) * width :], z, width)


# ---- along a line: the recursions by doubling ----------------------------------------------------


def delay(source: Any, target: Any, factor: Any, shift: int, n: int) -> None:
    """target[i] = source[i] + factor * source[i - shift]."""
    for i in range(shift):
        target[i] = source[i]
    here, ahead = source[shift:], target[shift:]
    for i in range(n - shift):
        ahead[i] = here[i] + factor * source[i]


def advance(source: Any, target: Any, factor: Any, shift: int, n: int) -> None:
    """target[i] = source[i] + factor * source[i + shift]."""
    ahead = source[shift:]
    for i in range(n - shift):
        target[i] = source[i] + factor * ahead[i]
    for i in range(n - shift, n):
        target[i] = source[i]


def along(
    row: Any,
    spare: Any,
    n: int,
    inner: int,
    poles: Any,
    counts: Any,
    places: Any,
    weights: Any,
) -> bool:
    """Run both recursions along one line of n entries, of ``inner`` numbers each, for each pole.

    In a recursion, each entry depends on the one before.  But with s' = s + z s[k - 1],
    s'' = s' + z^2 s'[k - 2], and so on, each step sums twice as many terms of the series as the
    step before, without such a dependency, and the steps end when the power of z is below rounding.
    The line ends up in ``row``, or in ``spare`` if the result is True.
    """
    size, last, swapped = n * inner, (n - 1) * inner, False
    for p in range(len(poles)):
        z = poles[p]
        begin(row, spare, places[p, 0], weights[p, 0], counts[p, 0], inner)
        copy(spare, row, ONE, inner)
        shift, factor = inner, z
        while shift < size and abs(factor) > TINY:
            delay(row, spare, factor, shift, size)
            row, spare, swapped = spare, row, not swapped
            shift, factor = shift + shift, factor * factor
        begin(row, spare, places[p, 1], weights[p, 1], counts[p, 1], inner)
        scale(row, -z, last)
        copy(spare, row[last:], ONE, inner)
        shift, factor = inner, z
        while shift < size and abs(factor) > TINY:
            advance(row, spare, factor, shift, size)
            row, spare, swapped = spare, row, not swapped
            shift, factor = shift + shift, factor * factor
    return swapped


# ---- all lines of an axis ------------------------------------------------------------------------

ONE, TINY = 1.0, 0.0  # bound by lowering, in the kernel's precision


def filter_blocks(
    data: Any,
    first: int,
    last: int,
    n: int,
    inner: int,
    width: int,
    scratch: Any,
    by: Filter,
) -> None:
    """Filter blocks ``first`` to ``last`` of flat data (outer, n, inner) along n, in place.

    A block is ``width`` contiguous columns along inner, filtered across lines.  If inner is too
    short for that, a block is all of inner, filtered along the line.
    """
    pieces = (inner + width - 1) // width
    for block in range(first, last):
        column = block % pieces * width
        lines = min(width, inner - column)
        place = data[block // pieces * n * inner + column :]
        row, spare, end = scratch[: n * lines], scratch[n * lines :], (n - 1) * lines
        side = scratch[len(scratch) - len(by.changed) * lines :]
        parts, size = (1, n * inner) if pieces == 1 else (n, lines)  # the whole block is contiguous
        for k in range(parts):
            copy(place[k * inner :], row[k * lines :], by.gain, size)
        scale(row, by.edges[0], lines)
        scale(row[end:], by.edges[0], lines)
        if not by.adjoint:
            correct(row, side, by.changed, by.spans, by.shares, lines)
        if width >= FEWEST:
            across(row, spare, n, lines, by.poles, by.counts, by.places, by.weights)
        elif along(row, spare, n, lines, by.poles, by.counts, by.places, by.weights):
            row = spare
        if by.adjoint:
            correct_back(row, side, by.changed, by.spans, by.shares, lines)
        scale(row, by.edges[1], lines)
        scale(row[end:], by.edges[1], lines)
        for k in range(parts):
            copy(row[k * lines :], place[k * inner :], ONE, size)


@functools.cache
def driver(real: np.dtype[Any]) -> Any:
    """Compile `filter_blocks` for a precision."""
    with forks.held():
        from gridsample.kernels.compile.jit import (
            compile_driver,
            compile_inner,
            compile_piece,
            compile_sum,
        )
        from gridsample.kernels.compile.lower import fingerprint, lower, rebind

    names: dict[str, Any] = {"ONE": real.type(1), "TINY": tiny(real)}
    tag = f"{real.name}_{fingerprint()}"
    names.update(lower((scale, pull, push, copy, delay, advance), names, compile_piece, tag))
    names.update(lower((dot,), names, compile_sum, tag))
    names.update(lower((begin, correct, correct_back, across, along), names, compile_inner, tag))
    return compile_driver(rebind(filter_blocks, names, f"filter_blocks_{tag}"))


# ---- arrays -------------------------------------------------------------------------------------


def filter_axis(
    data: Array, axis: int, order: int, extended: str, adjoint: bool, threads: int | None
) -> None:
    """Filter a C-contiguous real array along one axis, in place."""
    n, inner = data.shape[axis], int(np.prod(data.shape[axis + 1 :]))
    if n == 1 and math.isclose(at_pixels(order, n, extended).item(), 1):
        return  # every tap reads the one pixel, with its sign
    width = inner if inner < FEWEST else max(FEWEST, min(MOST, BLOCK // n // FEWEST * FEWEST))
    blocks = data.size // (n * inner) * -(-inner // width)
    filter_, real = design(order, n, extended, adjoint, data.dtype), data.dtype
    compiled, flat = driver(real), data.reshape(-1)

    def task(first: int, last: int) -> None:
        size = (n + 1 if width >= FEWEST else 2 * n) + len(filter_.changed)
        scratch = np.empty(size * width, real)
        compiled(flat, first, last, n, inner, width, scratch, *filter_)

    count = threads or pool.cores()
    share = max(1, SHARE // (n * width), -(-blocks // (4 * count)))
    ranges = [(first, min(first + share, blocks)) for first in range(0, blocks, share)]
    pool.run([functools.partial(task, *one) for one in ranges], count)


def coefficients(
    image: Array,
    order: int,
    extended: Sequence[str],
    axes: Sequence[int],
    *,
    real: np.dtype[Any],
    adjoint: bool = False,
    threads: int | None = None,
) -> Array:
    """Compute the coefficients of an image's interpolating spline, or the adjoint, as a new array.

    extended: the boundary for each of ``axes``, as `extension` returns it.  The axes are
        nonnegative and all different.
    real: float32 or float64, the dtype of the result or, if it is complex, of its parts.
    """
    kind = np.dtype(f"c{2 * real.itemsize}") if image.dtype.kind == "c" else real
    result: Array = np.array(image, kind, order="C", ndmin=1)
    if order < 2 or not result.size:
        return result.reshape(image.shape)
    # The parts of a complex number are contiguous along one more axis.
    parts = result.view(real).reshape(*result.shape, -1)
    for axis, how in zip(axes, extended, strict=True):
        filter_axis(parts, axis, order, how, adjoint, threads)
    return result
