"""Inner loops over the channels of a pixel, where they lie side by side in memory: a run.

One point's taps are listed first (a dropped tap is not), and then whole runs are added up, four at
a time, which is what the machine does best.
"""

from __future__ import annotations

from typing import Any

Array = Any

# Bound by lowering.
real = float
unsigned = int


def load(value: Any) -> Any:
    """A stored value as a number."""
    return value


def list_taps(at: Array, taps: int, width: int, i: int, here: Array, which: Array) -> int:
    """Where the taps of point i are, and which they are; returns how many are not dropped."""
    count = unsigned(0)
    for t in range(unsigned(taps)):
        place = at[t * width + i]
        here[count] = place
        which[count] = t * width + i
        count += unsigned(place >= 0)
    return count


def blend_four(
    acc: Array, a: Array, b: Array, c: Array, d: Array, wa: Any, wb: Any, wc: Any, wd: Any, n: int
) -> None:
    """acc += the weighted sum of four runs."""
    for j in range(n):
        acc[j] += (wa * real(load(a[j])) + wb * real(load(b[j]))) + (
            wc * real(load(c[j])) + wd * real(load(d[j]))
        )


def blend_one(acc: Array, a: Array, wa: Any, n: int) -> None:
    """acc += one run, weighted."""
    for j in range(n):
        acc[j] += wa * real(load(a[j]))


def blend_runs(
    acc: Array, image: Array, here: Array, amount: Array, which: Array, count: int, n: int
) -> None:
    """acc = the weighted sum of ``count`` runs."""
    for j in range(n):
        acc[j] = real(0)
    k, one, two, three, four = unsigned(0), unsigned(1), unsigned(2), unsigned(3), unsigned(4)
    while k + four <= count:
        a, b, c, d = (
            image[here[k] :],
            image[here[k + one] :],
            image[here[k + two] :],
            image[here[k + three] :],
        )
        wa, wb = amount[which[k]], amount[which[k + one]]
        wc, wd = amount[which[k + two]], amount[which[k + three]]
        blend_four(acc, a, b, c, d, wa, wb, wc, wd, n)
        k += four
    while k < count:
        blend_one(acc, image[here[k] :], amount[which[k]], n)
        k += one


def dot(run: Array, g: Array, n: int) -> Any:
    """Inner product of a run with g."""
    total = real(0)
    for j in range(n):
        total += real(load(run[j])) * g[j]
    return total


def add_run(run: Array, g: Array, amount: Any, n: int) -> None:
    """Add amount * g to a run."""
    for j in range(n):
        run[j] += amount * g[j]
