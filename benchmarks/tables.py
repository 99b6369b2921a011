"""Interpolates tables at points, with gridsample and with SciPy: time for each point.

    python -m benchmarks.tables                  every method
    python -m benchmarks.tables cubic --rank 3   one of them
    python -m benchmarks.tables nearest linear --rank 1 2 3 4 5 6 --points 100 1e3 1e5 1e7

Results are compared first, and contenders take turns.  SciPy's splines are those of its direct
solver, as its default one is not exact.  "interp" is compared with `numpy.interp`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np

from benchmarks.timing import Call, interleave

SMOOTH = ("cubic", "quintic", "pchip", "RectBivariateSpline")
METHODS = ("nearest", "linear", *SMOOTH, "interp", "interp sorted")
# The ranks of methods that have a single one.
OWN_RANKS = {"RectBivariateSpline": 2, "interp": 1, "interp sorted": 1}
SPACINGS = ("even", "uneven")
POINTS = 10_000
# Of SciPy's pchip, which runs Python for each point.
SLOW_POINTS = 50
# The coordinates of an axis, for each rank; and where SciPy's equations are solved beforehand.
SIZES = {1: 4000, 2: 300, 3: 64, 4: 24, 5: 12, 6: 8}
SOLVED_SIZES = {1: 200, 2: 60, 3: 20, 4: 10, 5: 7, 6: 6}


class Case(NamedTuple):
    """What is interpolated.

    Attributes:
        method: one of `METHODS`.
        rank: the number of axes.
        spacing: whether coordinates are "even" or "uneven".
        points: the number of points.
    """

    method: str
    rank: int
    spacing: str
    points: int

    def inputs(self) -> tuple[list[Any], Any, Any]:
        """Return axes, a table, and points inside."""
        rng = np.random.default_rng(0)
        size = (SOLVED_SIZES if self.method in SMOOTH else SIZES)[self.rank]
        if self.spacing == "even":
            axes = [np.arange(float(size)) for _ in range(self.rank)]
        else:
            axes = [np.cumsum(rng.uniform(0.3, 2, size)) for _ in range(self.rank)]
        table = rng.standard_normal([size] * self.rank)
        points = np.stack([rng.uniform(a[0], a[-1], self.points) for a in axes], -1)
        return axes, table, np.sort(points, 0) if "sorted" in self.method else points

    def contenders(self) -> tuple[list[Call], list[float], list[int]]:
        """Return the calls of gridsample and SciPy, how long they took to make, and their points.

        SciPy's points may be the first ones of ours.
        """
        import scipy.interpolate

        import gridsample.interpolators

        axes, table, every = self.inputs()
        slow = SLOW_POINTS if self.method == "pchip" else self.points
        counts, calls, seconds = [self.points, slow], list[Call](), list[float]()
        modules = gridsample.interpolators, scipy.interpolate
        for module, count in zip(modules, counts, strict=True):
            start = time.perf_counter()
            calls.append(self.call(module, axes, table, every[:count]))
            seconds.append(time.perf_counter() - start)
        return calls, seconds, counts

    def call(self, module: Any, axes: list[Any], table: Any, points: Any) -> Call:
        """Return a call of one of two modules, whose interpolator is made."""
        ours = module.__name__.startswith("gridsample")
        if self.method.startswith("interp"):
            interp, x = module.interp if ours else np.interp, points[:, 0]
            return lambda: interp(x, axes[0], table)
        if self.method == "RectBivariateSpline":
            spline = module.RectBivariateSpline(*axes, table)
            return lambda: spline.ev(*points.T)
        options: dict[str, Any] = {}
        if not ours and self.method in ("cubic", "quintic"):
            from scipy.sparse.linalg import spsolve

            options["solver"] = spsolve
        interpolator = module.RegularGridInterpolator(axes, table, self.method, **options)
        return lambda: interpolator(points)


def measure(case: Case, seconds: float) -> float:
    """Print the times of a case, and return how many times ours SciPy's is."""
    (ours, theirs), made, counts = case.contenders()
    np.testing.assert_allclose(ours()[: counts[1]], theirs(), rtol=0, atol=1e-9)
    times = interleave(ours, theirs, seconds)
    each = [
        statistics.median(part) / count * 1e9 for part, count in zip(times, counts, strict=True)
    ]
    print(
        f"{case.method}, rank {case.rank}, {case.spacing}, {case.points} points: {each[0]:.3g} ns "
        f"a point, SciPy {each[1]:.3g}, {each[1] / each[0]:.1f} times; "
        f"made in {made[0] * 1e3:.1f} ms, SciPy {made[1] * 1e3:.1f}",
        flush=True,
    )
    return each[1] / each[0]


def main() -> None:
    """Print a line for each case, and the ratios of each method and number of points."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables")
    parser.add_argument("methods", nargs="*", default=METHODS, help=", ".join(METHODS))
    parser.add_argument("--rank", type=int, choices=SIZES, nargs="+", default=[1, 2, 3])
    parser.add_argument("--spacing", choices=SPACINGS, nargs="+", default=["uneven"])
    parser.add_argument("--points", type=float, nargs="+", default=[POINTS])
    parser.add_argument("--seconds", type=float, default=0.5, help="for each line")
    arguments = parser.parse_args()
    ratios = defaultdict[tuple[str, int], list[float]](list)
    for method in arguments.methods:
        for rank in [OWN_RANKS[method]] if method in OWN_RANKS else arguments.rank:
            for spacing in arguments.spacing:
                for points in map(int, arguments.points):
                    ratio = measure(Case(method, rank, spacing, points), arguments.seconds)
                    ratios[method, points].append(ratio)
    for (method, points), each in ratios.items():
        print(
            f"{method}, {points} points: {statistics.mean(each):.1f} times, least {min(each):.1f}"
        )


if __name__ == "__main__":
    main()
