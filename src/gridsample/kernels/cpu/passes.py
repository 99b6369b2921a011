"""Inner loops of the planar sweeps: over the points of a block, for one plane.

Pixels are first collected, tap by tap, with plain loads: processors' own gather instructions are
slower than that.  Then they are blended, which vectorises.  Flat arrays, as in
`gridsample.kernels.cpu.taps`.
"""

from __future__ import annotations

from typing import Any

from gridsample.axis import maximum, where

Array = Any

# Bound by lowering.
real = float
integer = int
unsigned = int
address = int


def load(value: Any) -> Any:
    """A stored value as a number."""
    return value


def store(value: Any) -> Any:
    """A number as a stored value."""
    return value


def copy_pair(plane: Array, at: int, pixels: Array, to: int) -> None:
    """Copy two neighbours: one load and one store."""
    pixels[to] = plane[at]
    pixels[to + 1] = plane[at + 1]


def collect(plane: Array, at: Array, pixels: Array, taps: int, width: int, n: int) -> None:
    """Pixels under taps of which none is dropped."""
    for t in range(taps):
        begin = unsigned(t) * width
        for i in range(n):
            pixels[begin + i] = real(load(plane[address(at[begin + i])]))


def collect_pairs(plane: Array, at: Array, pixels: Array, taps: int, width: int, n: int) -> None:
    """As collect, where every second tap is the right neighbour of the one before: half the loads.

    The two pixels of a pair are put side by side: tap t of point i at ``t * width + 2 * i``, for
        even t.
    """
    for t in range(0, taps, 2):
        begin = unsigned(t) * width
        for i in range(n):
            copy_pair(plane, address(at[begin + i]), pixels, begin + i + i)


def collect_present(plane: Array, at: Array, pixels: Array, taps: int, width: int, n: int) -> None:
    """As collect; for a dropped tap some pixel is read, for `mask` to clear."""
    for t in range(taps):
        begin = unsigned(t) * width
        for i in range(n):
            pixels[begin + i] = real(load(plane[address(maximum(at[begin + i], integer(0)))]))


def mask(at: Array, pixels: Array, taps: int, width: int, n: int) -> None:
    """Zero under dropped taps: what was read there never enters a sum."""
    for t in range(taps):
        begin = unsigned(t) * width
        for i in range(n):
            pixels[begin + i] = where(at[begin + i] >= 0, pixels[begin + i], real(0))


def pick(plane: Array, at: Array, out: Array, step: int, n: int) -> None:
    """Copy the bits of one pixel a point."""
    for i in range(n):
        out[i * step] = plane[address(at[i])]


def pick_checked(
    plane: Array, at: Array, lost: Array, hole: Any, out: Array, step: int, n: int
) -> None:
    """As pick; zero under dropped taps, ``hole`` at lost points."""
    for i in range(n):
        bits = plane[address(maximum(at[i], integer(0)))]
        kept = where(at[i] >= 0, bits, bits ^ bits)
        out[i * step] = where(lost[i] != 0, hole, kept)


def blend(acc: Array, pixels: Array, amount: Array, taps: int, width: int, n: int) -> None:
    """acc = sum over taps of pixel * amount.

    Four taps a pass, because each pass loads and stores the sum.
    """
    for i in range(n):
        acc[i] = real(0)
    fours = taps // 4 * 4
    for t in range(0, fours, 4):
        a = unsigned(t) * width
        b, c, d = a + width, a + width + width, a + width + width + width
        for i in range(n):
            acc[i] += (
                amount[a + i] * pixels[a + i]
                + amount[b + i] * pixels[b + i]
                + amount[c + i] * pixels[c + i]
                + amount[d + i] * pixels[d + i]
            )
    for t in range(fours, taps):
        a = unsigned(t) * width
        for i in range(n):
            acc[i] += amount[a + i] * pixels[a + i]


def blend_pairs(acc: Array, pixels: Array, amount: Array, taps: int, width: int, n: int) -> None:
    """As blend, for pixels that were collected in pairs: two neighbours side by side."""
    for i in range(n):
        acc[i] = real(0)
    one = unsigned(1)
    fours = taps // 4 * 4
    for t in range(0, fours, 4):
        a = unsigned(t) * width
        b, c, d = a + width, a + width + width, a + width + width + width
        for i in range(n):
            upper, lower = a + i + i, c + i + i
            acc[i] += (
                amount[a + i] * pixels[upper]
                + amount[b + i] * pixels[upper + one]
                + amount[c + i] * pixels[lower]
                + amount[d + i] * pixels[lower + one]
            )
    for t in range(fours, taps, 2):
        a = unsigned(t) * width
        b = a + width
        for i in range(n):
            left = a + i + i
            acc[i] += amount[a + i] * pixels[left] + amount[b + i] * pixels[left + one]


def share(g: Array, amount: Array, shares: Array, taps: int, width: int, n: int) -> None:
    """What each tap gets of the upstream values."""
    for t in range(taps):
        a = unsigned(t) * width
        for i in range(n):
            shares[a + i] = g[i] * amount[a + i]


def spread(plane: Array, at: Array, shares: Array, taps: int, width: int, n: int) -> None:
    """Add the shares to the plane at taps of which none is dropped: the transpose of collect."""
    for t in range(taps):
        a = unsigned(t) * width
        for i in range(n):
            plane[address(at[a + i])] += shares[a + i]


def spread_checked(
    plane: Array, at: Array, shares: Array, low: int, high: int, taps: int, width: int, n: int
) -> None:
    """As spread, but only to the taps in [low, high), which a dropped one is not."""
    for t in range(taps):
        a = unsigned(t) * width
        for i in range(n):
            if low <= at[a + i] < high:
                plane[address(at[a + i])] += shares[a + i]


def silence(at: Array, g: Array, taps: int, width: int, n: int) -> None:
    """Zero the upstream values of points that have no tap.

    They take part in nothing, and 0 times an upstream NaN must not say otherwise.
    """
    for i in range(n):
        here = at[i]
        for t in range(1, taps):
            here &= at[unsigned(t) * width + i]
        if here < 0:
            g[i] = real(0)


def fetch(values: Array, step: int, numbers: Array, n: int) -> None:
    """Stored values -> numbers."""
    for i in range(n):
        numbers[i] = real(load(values[i * step]))


def settle(numbers: Array, out: Array, step: int, n: int) -> None:
    """Numbers -> stored values."""
    for i in range(n):
        out[i * step] = store(numbers[i])


def blank(numbers: Array, lost: Array, hole: Any, n: int) -> None:
    """Put ``hole`` at the points that are nowhere."""
    for i in range(n):
        if lost[i]:
            numbers[i] = hole


def accumulate(gradient: Array, g: Array, along: Array, n: int) -> None:
    """Add g * along to one axis of a gradient, (point, axis)."""
    for i in range(n):
        gradient[i, 0] += g[i] * along[i]
