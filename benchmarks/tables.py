"""Interpolates tables at points, with gridsample and with others: time for each point.

    python -m benchmarks.tables                  every method, beside SciPy
    python -m benchmarks.tables cubic --rank 3   one of them
    python -m benchmarks.tables nearest linear --rank 1 2 3 4 5 6 --points 100 1e3 1e5 1e7
    python -m benchmarks.tables linear --peer interpolation     EconForge's interpolation.py
    python -m benchmarks.tables linear --peer jax               jitted gradients beside JAX's
    python -m benchmarks.tables linear nearest --peer xarray --rank 2 --points 1e6

Results are compared first, and contenders take turns.  SciPy's splines are those of its direct
solver, as its default one is not exact.  "interp" is compared with `numpy.interp`.  Gradients are
those of a sum of squares in the table and the points.  EconForge's functions use one thread; let
ours do so, too, by `taskset -c 1`.  With xarray, a line is about points, and one about coordinates
that are independent, as many results in all.
"""

from __future__ import annotations

import argparse
import functools
import importlib
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
        method: one of `METHODS`; of xarray, "nearest on a grid" or "linear on a grid", too.
        rank: the number of axes.
        spacing: whether coordinates are "even" or "uneven".
        points: the number of points.
        peer: one of `PEERS`.
    """

    method: str
    rank: int
    spacing: str
    points: int
    peer: str

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
        """Return the calls of gridsample and the peer, how long they took to make, their points.

        SciPy's points may be the first ones of ours.
        """
        if self.peer != "scipy":
            return PEERS[self.peer](self), [0.0, 0.0], [self.points] * 2

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


def of_econforge(case: Case) -> list[Call]:
    """Return linear interpolation of gridsample and of EconForge's interpolation.py."""
    from gridsample.interpolators import RegularGridInterpolator

    splines: Any = importlib.import_module("interpolation.splines")
    axes, table, points = case.inputs()
    interpolator = RegularGridInterpolator(axes, table)
    grid = splines.CGrid(*axes)
    if case.spacing == "even":
        grid = splines.UCGrid(*[(axis[0], axis[-1], len(axis)) for axis in axes])
    return [lambda: interpolator(points), lambda: splines.eval_linear(grid, table, points)]


def of_jax(case: Case) -> list[Call]:
    """Return the jitted gradients in table and points of gridsample and of JAX, one array each."""
    import jax
    import jax.scipy.interpolate

    import gridsample.interpolators

    jax.config.update("jax_enable_x64", True)
    axes, table, points = case.inputs()
    arrays = jax.numpy.asarray(table), jax.numpy.asarray(points)

    def gradients(module: Any) -> Call:
        def loss(table: Any, points: Any) -> Any:
            interpolator = module.RegularGridInterpolator(
                axes, table, case.method, bounds_error=False
            )
            return (interpolator(points) ** 2).sum()

        def joined(*arrays: Any) -> Any:
            found = jax.grad(loss, (0, 1))(*arrays)
            return jax.numpy.concatenate([gradient.reshape(-1) for gradient in found])

        function = jax.jit(joined)
        return lambda: jax.block_until_ready(function(*arrays))

    return [gradients(module) for module in (gridsample.interpolators, jax.scipy.interpolate)]


def of_xarray(case: Case) -> list[Call]:
    """Return the interpolation of a DataArray by gridsample and by xarray."""
    import xarray

    import gridsample.xarray

    axes, table, points = case.inputs()
    names = [f"x{k}" for k in range(case.rank)]
    array = xarray.DataArray(table, dict(zip(names, axes, strict=True)), names)
    method, _, on_grid = case.method.partition(" on a ")
    if on_grid:
        count = round(case.points ** (1 / case.rank))
        places: Any = [np.linspace(axis[0], axis[-1], count) for axis in axes]
    else:
        places = [xarray.DataArray(column, dims="point") for column in points.T]
    new: Any = dict(zip(names, places, strict=True))

    def flat(interpolate: Any) -> Any:
        return np.ravel(interpolate(new, method))

    ours = functools.partial(gridsample.xarray.interp, array)
    return [functools.partial(flat, each) for each in (ours, array.interp)]


PEERS: dict[str, Any] = {
    "scipy": None,
    "interpolation": of_econforge,
    "jax": of_jax,
    "xarray": of_xarray,
}


def measure(case: Case, seconds: float) -> float:
    """Print the times of a case, and return how many times ours the peer's is."""
    (ours, theirs), made, counts = case.contenders()
    expected = theirs()
    np.testing.assert_allclose(ours()[: len(expected)], expected, rtol=1e-9, atol=1e-9)
    times = interleave(ours, theirs, seconds)
    each = [
        statistics.median(part) / count * 1e9 for part, count in zip(times, counts, strict=True)
    ]
    print(
        f"{case.method}, rank {case.rank}, {case.spacing}, {case.points} points: {each[0]:.3g} ns "
        f"a point, {case.peer} {each[1]:.3g}, {each[1] / each[0]:.1f} times; "
        f"made in {made[0] * 1e3:.1f} ms, {case.peer} {made[1] * 1e3:.1f}",
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
    parser.add_argument("--peer", choices=PEERS, default="scipy")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each line")
    arguments = parser.parse_args()
    ratios = defaultdict[tuple[str, int], list[float]](list)
    methods = [*arguments.methods]
    if arguments.peer == "xarray":
        methods += [f"{method} on a grid" for method in methods]
    for method in methods:
        for rank in [OWN_RANKS[method]] if method in OWN_RANKS else arguments.rank:
            for spacing in arguments.spacing:
                for points in map(int, arguments.points):
                    case = Case(method, rank, spacing, points, arguments.peer)
                    ratio = measure(case, arguments.seconds)
                    ratios[method, points].append(ratio)
    for (method, points), each in ratios.items():
        print(
            f"{method}, {points} points: {statistics.mean(each):.1f} times, least {min(each):.1f}"
        )


if __name__ == "__main__":
    main()
