"""Inner loops of gradients: values are divided into shares, which are added to pixels or sums."""

from __future__ import annotations

from typing import Any

from gridsample.definitions.axis import ONE, where
from gridsample.kernels.cpu.blocks import DOWN, STAYS, UP

Array = Any
# Bound by lowering.
real = float
integer = int
unsigned = int
address = int
LINEAR = 0  # the rank if all axes are linear
SLIDING = False  # whether some of a block's taps slide
JOINED = False  # whether pairs of taps are contiguous in the memory that is scattered to


def add_pair(plane: Array, at: int, left: Any, right: Any) -> None:
    """Add to two contiguous numbers with one load and one store."""
    plane[at] += left
    plane[at + 1] += right


def unslide_two(first: Any, second: Any, by: Any) -> tuple[Any, Any]:
    """Convert the shares of both taps to those of both pixels: the transpose of `slide_two`."""
    return (
        where(by == integer(STAYS), first, where(by == integer(UP), second, real(0))),
        where(by == integer(STAYS), second, where(by == integer(DOWN), first, real(0))),
    )


def unslide_four(p: Any, q: Any, r: Any, s: Any, x: Any, y: Any) -> tuple[Any, Any, Any, Any]:
    """Apply the transpose of `slide_four`."""
    p, q = unslide_two(p, q, x)
    r, s = unslide_two(r, s, x)
    p, r = unslide_two(p, r, y)
    q, s = unslide_two(q, s, y)
    return p, q, r, s


def share_linear(
    g: Array, shares: Array, x: Array, y: Array, z: Array, slid: Array, width: int, n: int
) -> None:
    """Compute shares if every axis is linear; if taps slide, those of the pixels that are read."""
    b, three = width + width, integer(3)
    c, d = b + b, b + b + b
    if LINEAR == 1:
        for i in range(n):
            p, q = g[i] * (ONE - x[i]), g[i] * x[i]
            if SLIDING:
                p, q = unslide_two(p, q, slid[i])
            shares[i], shares[width + i] = p, q
    elif LINEAR == 2:
        for i in range(n):
            upper, lower = g[i] * (ONE - y[i]), g[i] * y[i]
            p, q = upper * (ONE - x[i]), upper * x[i]
            r, s = lower * (ONE - x[i]), lower * x[i]
            if SLIDING:
                p, q, r, s = unslide_four(p, q, r, s, slid[i] & three, slid[i] >> integer(2))
            shares[i], shares[width + i] = p, q
            shares[b + i], shares[b + width + i] = r, s
    else:
        for i in range(n):
            near, far = g[i] * (ONE - z[i]), g[i] * z[i]
            if SLIDING:
                near, far = unslide_two(near, far, slid[i] >> integer(4))
            upper, lower = near * (ONE - y[i]), near * y[i]
            p, q = upper * (ONE - x[i]), upper * x[i]
            r, s = lower * (ONE - x[i]), lower * x[i]
            upper, lower = far * (ONE - y[i]), far * y[i]
            t, u = upper * (ONE - x[i]), upper * x[i]
            v, w = lower * (ONE - x[i]), lower * x[i]
            if SLIDING:
                across, fall = slid[i] & three, (slid[i] >> integer(2)) & three
                p, q, r, s = unslide_four(p, q, r, s, across, fall)
                t, u, v, w = unslide_four(t, u, v, w, across, fall)
            shares[i], shares[width + i] = p, q
            shares[b + i], shares[b + width + i] = r, s
            shares[c + i], shares[c + width + i] = t, u
            shares[d + i], shares[d + width + i] = v, w


def share(g: Array, amount: Array, shares: Array, taps: int, width: int, n: int) -> None:
    """Compute each tap's share of the upstream values."""
    for t in range(taps):
        a = unsigned(t) * width
        for i in range(n):
            shares[a + i] = g[i] * amount[a + i]


def spread(
    plane: Array, at: Array, shifts: Array, shares: Array, taps: int, width: int, n: int
) -> None:
    """Add the shares of inside points to the plane: the transpose of `collect`."""
    for t in range(taps):
        a, shift = unsigned(t) * width, address(shifts[t])
        for i in range(n):
            plane[address(at[i]) + shift] += shares[a + i]


def spread_pairs(
    plane: Array, at: Array, shifts: Array, shares: Array, taps: int, width: int, n: int
) -> None:
    """Add shares to pairs of contiguous pixels: two taps at once.

    Successive points mostly share pixels, and loading what was just stored with another alignment
    is slow.  Therefore the loop alternates between 32 places in the block.
    """
    turns = unsigned(32)
    far, fours = n // turns, taps // 4 * 4
    for t in range(0, fours, 4):
        a, upper, lower = unsigned(t) * width, address(shifts[t]), address(shifts[t + 2])
        b, c, d = a + width, a + width + width, a + width + width + width
        for i in range(far):
            for turn in range(turns):
                k = i + turn * far
                add_pair(plane, address(at[k]) + upper, shares[a + k], shares[b + k])
                add_pair(plane, address(at[k]) + lower, shares[c + k], shares[d + k])
        for k in range(far * turns, n):
            add_pair(plane, address(at[k]) + upper, shares[a + k], shares[b + k])
            add_pair(plane, address(at[k]) + lower, shares[c + k], shares[d + k])
    for t in range(fours, taps, 2):
        a, upper = unsigned(t) * width, address(shifts[t])
        b = a + width
        for i in range(far):
            for turn in range(turns):
                k = i + turn * far
                add_pair(plane, address(at[k]) + upper, shares[a + k], shares[b + k])
        for k in range(far * turns, n):
            add_pair(plane, address(at[k]) + upper, shares[a + k], shares[b + k])


def spread_band(
    plane: Array, at: Array, shifts: Array, shares: Array, low: int, high: int,
    taps: int, width: int, n: int,
) -> None:  # fmt: skip
    """Add shares to the taps in [low, high) only, in the order of `spread` or `spread_pairs`."""
    turns, together = (unsigned(32), 4 if taps % 4 == 0 else 2) if JOINED else (unsigned(1), 1)
    far = n // turns
    for first in range(0, taps, together):
        for i in range(far):
            for turn in range(turns):
                k = i + turn * far
                for t in range(first, first + together):
                    place = at[k] + shifts[t]
                    if low <= place < high:
                        plane[address(place)] += shares[unsigned(t) * width + k]
        for k in range(far * turns, n):
            for t in range(first, first + together):
                place = at[k] + shifts[t]
                if low <= place < high:
                    plane[address(place)] += shares[unsigned(t) * width + k]


def spread_present(
    plane: Array, at: Array, shares: Array, low: int, high: int, taps: int, width: int, n: int
) -> None:
    """Add the shares of edges to the taps in [low, high), which excludes dropped taps."""
    for t in range(taps):
        a = unsigned(t) * width
        for i in range(n):
            if low <= at[a + i] < high:
                plane[address(at[a + i])] += shares[a + i]


def silence(at: Array, lost: Array, g: Array, fills: bool, taps: int, width: int, n: int) -> None:
    """Set the upstream values of edges without taps to 0.

    Such edges must not contribute, but 0 times a NaN in the upstream values would.  If weights do
    not sum to one and a fill value counts (``fills``), only points that are nowhere have no
    contribution.
    """
    for i in range(n):
        here = at[i]
        for t in range(1, taps):
            here &= at[unsigned(t) * width + i]
        if here < 0 and (lost[i] or not fills):
            g[i] = real(0)


def scale(numbers: Array, factor: Any, n: int) -> None:
    """Multiply by a factor."""
    for i in range(n):
        numbers[i] *= factor


def add(sums: Array, more: Array, n: int) -> None:
    """Add one array to another."""
    for i in range(n):
        sums[i] += more[i]


def accumulate(sums: Array, g: Array, along: Array, state: Array, n: int) -> None:
    """Add g * along to a sum for inside points; other points may hold NaN."""
    for i in range(n):
        sums[i] += where(state[i] == 0, g[i] * along[i], real(0))


def accumulate_edges(sums: Array, g: Array, along: Array, n: int) -> None:
    """Add g * along to a sum for edges."""
    for j in range(n):
        sums[j] += g[j] * along[j]


def settle_axis(sums: Array, gradient: Array, step: int, n: int) -> None:
    """Store sums as one axis of a gradient, whose points are ``step`` apart."""
    for i in range(n):
        gradient[i * step] = sums[i]


def settle_axis_edges(sums: Array, which: Array, gradient: Array, step: int, n: int) -> None:
    """Store sums as one axis of a gradient, at the listed points."""
    for j in range(n):
        gradient[unsigned(which[j]) * step] = sums[j]
