"""Interpolates tables at points, with gridsample and with SciPy: time for each point.

    python -m benchmarks.tables                  every method
    python -m benchmarks.tables cubic --rank 3   one of them

Results are compared first, and contenders take turns.  SciPy's splines are those of its direct
solver, as its default one is not exact.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np

from benchmarks.timing import Call, interleave

METHODS = ("nearest", "linear", "cubic", "quintic", "pchip", "RectBivariateSpline")
POINTS = 10_000
# Of SciPy's pchip, which runs Python for each point.
SLOW_POINTS = 50
SIZES = {1: 200, 2: 60, 3: 20, 4: 10}


def contenders(method: str, rank: int) -> tuple[list[Call], list[float], list[int]]:
    """Return the calls of gridsample and of SciPy, how long they took to make, and their points.

    SciPy's points may be the first ones of ours.
    """
    import scipy.interpolate
    from scipy.sparse.linalg import spsolve

    import gridsample.interpolators

    rng = np.random.default_rng(0)
    axes = [np.cumsum(rng.uniform(0.3, 2, SIZES[rank])) for _ in range(rank)]
    table = rng.standard_normal([SIZES[rank]] * rank)
    every = np.stack([rng.uniform(axis[0], axis[-1], POINTS) for axis in axes], -1)
    counts = [POINTS, SLOW_POINTS if method == "pchip" else POINTS]
    calls, seconds = list[Call](), list[float]()
    modules = gridsample.interpolators, scipy.interpolate
    for module, count in zip(modules, counts, strict=True):
        points, start = every[:count], time.perf_counter()
        if method == "RectBivariateSpline":
            spline = module.RectBivariateSpline(*axes, table)
            calls.append(lambda spline=spline, points=points: spline.ev(*points.T))
        else:
            exact = module is scipy.interpolate and method in ("cubic", "quintic")
            options: dict[str, Any] = {"solver": spsolve} if exact else {}
            interpolator = module.RegularGridInterpolator(axes, table, method, **options)
            calls.append(lambda function=interpolator, points=points: function(points))
        seconds.append(time.perf_counter() - start)
    return calls, seconds, counts


def main() -> None:
    """Print a line for each method and rank."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables")
    parser.add_argument("methods", nargs="*", default=METHODS, help=", ".join(METHODS))
    parser.add_argument("--rank", type=int, choices=SIZES, action="append")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each line")
    arguments = parser.parse_args()
    for method in arguments.methods:
        for rank in [2] if method == "RectBivariateSpline" else arguments.rank or [1, 2, 3]:
            (ours, theirs), made, counts = contenders(method, rank)
            np.testing.assert_allclose(ours()[: counts[1]], theirs(), rtol=0, atol=1e-10)
            times = interleave(ours, theirs, arguments.seconds)
            each = [
                statistics.median(part) / count * 1e9
                for part, count in zip(times, counts, strict=True)
            ]
            print(
                f"{method}, rank {rank}: {each[0]:.0f} ns a point, SciPy {each[1]:.0f}, "
                f"{each[1] / each[0]:.1f} times; made in {made[0] * 1e3:.1f} ms, "
                f"SciPy {made[1] * 1e3:.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
