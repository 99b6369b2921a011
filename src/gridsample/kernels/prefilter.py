"""The prefilter of B-splines: from pixels to the coefficients of the spline that meets them.

A spline of order n is a sum of B-splines b, one a pixel, with coefficients c.  At the pixels it is
the convolution of c with b's few values there; the prefilter undoes that convolution.  Its inverse
falls into pairs of recursions, one pair for each root ("pole") z of b's polynomial inside the unit
circle, which run along the line and back:

    there[k] = s[k] + z there[k - 1],        c[k] = z (c[k + 1] - there[k]),

and a gain, the product of (1 - z)(1 - 1 / z).  Source: M. Unser, A. Aldroubi, M. Eden, "B-spline
signal processing", IEEE Trans. Signal Processing 41, 1993.

Where the recursions start is what a boundary decides: the line goes on beyond its ends, and all
that comes before the first entry is a geometric series in the line's own entries, which is summed
exactly.  So a boundary is nothing but weights: the first entry there, and the first one back, are
weighted sums of the line (`ends`).

The matrix of the prefilter is symmetric, but for "mirror", where it is so after the two edge
pixels are halved: hence the adjoint is the same filter with its edges scaled before and after.

The loops are plain Python, lowered to Numba as those of `gridsample.kernels.cpu` are.  Lines whose
entries are neighbours of each other's are filtered together, so that loops vectorise across them;
a line whose own entries are neighbours is filtered by doubling (`along`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.weights import bspline_table
from gridsample.kernels import threads as pool
from gridsample.kernels.compile import forks

Array = np.ndarray[Any, Any]

# How a line goes on under each boundary, as far as the prefilter is concerned.  Of "zeros",
# "constant", "border" and "antimirror" no recursion is exact; they are filtered as SciPy does it.
EXTENSIONS = {
    "mirror": "mirror",
    "symmetric": "symmetric",
    "wrap": "wrap",
    "antisymmetric": "antisymmetric",
    "dst1": "dst1",
    "zeros": "mirror",
    "constant": "mirror",
    "border": "mirror",
    "antimirror": "mirror",
}

# Those of them that turn the sign: there a line of one pixel is not the same everywhere.
ODD = ("antisymmetric", "dst1")

# Lines of a block: so many that the loops across them vectorise, so few that it stays in cache.
FEWEST, MOST, BLOCK = 16, 64, 1 << 15
# Entries that are worth a thread of their own.
SHARE = 1 << 16


def extension(boundary: str, align_corners: bool) -> str:
    """How lines go on under a boundary."""
    if boundary == "reflection":
        return "mirror" if align_corners else "symmetric"
    return EXTENSIONS[boundary]


# ---- the filter as numbers ----------------------------------------------------------------------


@functools.cache
def poles(order: int) -> tuple[float, ...]:
    """The roots z, -1 < z < 0, of the polynomial whose coefficients are b's values at the pixels.

    Example:
        >>> from gridsample.kernels.prefilter import poles
        >>> [round(z, 12) for z in poles(3)]  # sqrt(3) - 2
        [-0.267949192431]
    """
    values = [row[0] for row in bspline_table(order)]
    values = values if order % 2 == 0 else values[:-1]  # the last is 0 at an odd order's pixels
    roots = np.roots([float(value) for value in values])
    polynomial = np.polynomial.Polynomial([float(value) for value in values])
    inner = sorted(root.real for root in roots if abs(root) < 1)
    slope = polynomial.deriv()
    for _ in range(3):  # Newton's steps take away what rounding left
        inner = [root - polynomial(root) / slope(root) for root in inner]
    return tuple(float(root) for root in inner)


def ends(z: float, n: int, extended: str) -> tuple[Array, Array]:
    """The weights of a line's n entries in the first entry there, and the first one back.

    There: the sum over j >= 0 of z^j s[-j], in which s[-j] is an entry of the line again, and each
    comes back after every period.  Back: c[n - 1] by the symmetry of c about the line's end, and
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
    elif extended == "dst1":  # mirrors stand on zeros, so that there c is 0, too
        there = (z ** (2 * n + 2 - k) - z ** (k + 2)) / (1 - z ** (2 * n + 2))
        there[0] += 1
        back[-1] = -z
    else:  # a mirror half a pixel outside; a single pixel that is mirrored about itself is the same
        sign = -1 if extended == "antisymmetric" else 1
        there = (z ** (2 * n - k) + sign * z ** (k + 1)) / (1 - z ** (2 * n))
        there[0] += 1
        back[-1] = -z / (1 - sign * z)
    return there, back


def tiny(real: np.dtype[Any]) -> Any:
    """The factor below which a term is lost in the rounding of a sum."""
    return real.type(np.finfo(real).eps / 64)


class Filter(NamedTuple):
    """The prefilter of lines of one length, as the compiled loops take it."""

    gain: Any
    edges: Array  # (2): what the first and last entry are multiplied by, before and after
    poles: Array  # (pole)
    counts: Array  # (pole, 0: there, 1: back): how many entries make the first one
    places: Array  # (pole, there or back, entry): which ones
    weights: Array  # (pole, there or back, entry): and their weights


@functools.lru_cache(maxsize=64)
def design(order: int, n: int, extended: str, adjoint: bool, real: np.dtype[Any]) -> Filter:
    """The filter of an order for lines of n entries; weights below rounding are left out."""
    roots = poles(order)
    starts = [weights for z in roots for weights in ends(z, n, extended)]
    kept = [np.flatnonzero(np.abs(w) > tiny(real) * np.abs(w).max()) for w in starts]
    shape = (len(roots), 2, max(map(len, kept)))
    places, table = np.zeros((2 * len(roots), shape[2]), np.int64), np.zeros(shape, real)
    for row, weights, at in zip(range(len(kept)), starts, kept, strict=True):
        places[row, : len(at)] = at
        table.reshape(places.shape)[row, : len(at)] = weights[at]
    halved = adjoint and extended == "mirror" and n > 1
    return Filter(
        gain=real.type(np.prod([(1 - z) * (1 - 1 / z) for z in roots])),
        edges=np.array([2, 0.5] if halved else [1, 1], real),
        poles=np.array(roots, real),
        counts=np.array([len(at) for at in kept], np.int64).reshape(shape[:2]),
        places=places.reshape(shape),
        weights=table,
    )


# ---- across lines: the entries k of neighbouring lines are a row, and rows follow each other -----


def scale(row: Any, factor: Any, n: int) -> None:
    """row = row * factor."""
    for i in range(n):
        row[i] *= factor


def copy(source: Any, target: Any, factor: Any, n: int) -> None:
    """target = source * factor."""
    for i in range(n):
        target[i] = source[i] * factor


def pull(row: Any, before: Any, z: Any, n: int) -> None:
    """One step there: row = row + z * before."""
    for i in range(n):
        row[i] += z * before[i]


def push(row: Any, after: Any, z: Any, n: int) -> None:
    """One step back: row = z * (after - row)."""
    for i in range(n):
        row[i] = z * (after[i] - row[i])


def begin(rows: Any, first: Any, places: Any, weights: Any, count: int, width: int) -> None:
    """first = the weighted sum of some rows."""
    copy(rows[places[0] * width :], first, weights[0], width)
    for k in range(1, count):
        pull(first, rows[places[k] * width :], weights[k], width)


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
    """There and back over n rows, for each pole."""
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


# ---- along a line: a recursion by doubling -------------------------------------------------------


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
    """There and back along one line of n entries, of ``inner`` numbers each, for each pole.

    A recursion waits for the entry before.  But with s' = s + z s[k - 1], s'' = s' + z^2 s'[k - 2],
    and so on, each step sums twice as many terms of the series as the one before, waits for
    nothing, and the next is not needed when its power of z is below rounding.  The line ends up in
    ``row``, or, where the result is True, in ``spare``.
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

ONE, TINY = 1.0, 0.0  # bound by lowering, in the precision


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

    A block is ``width`` neighbours along inner, which is filtered across lines; or, where inner is
    too little for that, all of it, filtered along.
    """
    pieces = (inner + width - 1) // width
    for block in range(first, last):
        column = block % pieces * width
        lines = min(width, inner - column)
        place = data[block // pieces * n * inner + column :]
        row, spare, end = scratch[: n * lines], scratch[n * lines :], (n - 1) * lines
        parts, size = (1, n * inner) if pieces == 1 else (n, lines)  # a whole block lies together
        for k in range(parts):
            copy(place[k * inner :], row[k * lines :], by.gain, size)
        scale(row, by.edges[0], lines)
        scale(row[end:], by.edges[0], lines)
        if width >= FEWEST:
            across(row, spare, n, lines, by.poles, by.counts, by.places, by.weights)
        elif along(row, spare, n, lines, by.poles, by.counts, by.places, by.weights):
            row = spare
        scale(row, by.edges[1], lines)
        scale(row[end:], by.edges[1], lines)
        for k in range(parts):
            copy(row[k * lines :], place[k * inner :], ONE, size)


@functools.cache
def driver(real: np.dtype[Any]) -> Any:
    """`filter_blocks`, compiled for a precision."""
    with forks.held():
        from gridsample.kernels.compile.jit import compile_driver, compile_inner, compile_piece
        from gridsample.kernels.compile.lower import fingerprint, lower, rebind

    names: dict[str, Any] = {"ONE": real.type(1), "TINY": tiny(real)}
    tag = f"{real.name}_{fingerprint()}"
    names.update(lower((scale, pull, push, copy, delay, advance), names, compile_piece, tag))
    names.update(lower((begin, across, along), names, compile_inner, tag))
    return compile_driver(rebind(filter_blocks, names, f"filter_blocks_{tag}"))


# ---- arrays -------------------------------------------------------------------------------------


def filter_axis(
    data: Array, axis: int, order: int, extended: str, adjoint: bool, threads: int | None
) -> None:
    """Filter a C-contiguous real array along one axis, in place."""
    n, inner = data.shape[axis], int(np.prod(data.shape[axis + 1 :]))
    if n == 1 and extended not in ODD:  # every tap reads the one pixel
        return
    width = inner if inner < FEWEST else max(FEWEST, min(MOST, BLOCK // n // FEWEST * FEWEST))
    blocks = data.size // (n * inner) * -(-inner // width)
    filter_, real = design(order, n, extended, adjoint, data.dtype), data.dtype
    compiled, flat = driver(real), data.reshape(-1)

    def task(first: int, last: int) -> None:
        scratch = np.empty((n + 1 if width >= FEWEST else 2 * n) * width, real)
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
    """The coefficients of the spline that meets an image, or the adjoint of that, as a new array.

    extended: how lines go on, one of the values of EXTENSIONS for each of ``axes``, which are not
        negative and all different.
    real: float32 or float64, what the result, or each part of a complex one, is made of.
    """
    kind = np.dtype(f"c{2 * real.itemsize}") if image.dtype.kind == "c" else real
    result: Array = np.array(image, kind, order="C", ndmin=1)
    if order < 2 or not result.size:
        return result.reshape(image.shape)
    # Parts of a complex number are neighbours along one more axis.
    parts = result.view(real).reshape(*result.shape, -1)
    for axis, how in zip(axes, extended, strict=True):
        filter_axis(parts, axis, order, how, adjoint, threads)
    return result
