"""The prefilter on arrays between pages that must not be touched: see `guarded`.

Run in a process of its own by the tests, which may choose another processor.
"""

from __future__ import annotations

import itertools
import sys

import numpy as np
from guarded import maker

from gridsample.definitions import splines
from gridsample.kernels.spline import coefficients

SHAPES = [(1, 1), (2, 3), (3, 67), (67, 3), (17, 16), (5, 33), (33, 5), (140, 65), (900, 3)]


def main(every: str) -> None:
    """Filter arrays of several shapes, dtypes and layouts; check the results of one in so many."""
    makers, rng, runs = [maker("before"), maker("after")], np.random.default_rng(0), 0
    kinds = ["bool", "uint8", "int64", "float16", "float32", "float64"]
    for shape, axis, dtype in [*itertools.product(SHAPES, (0, 1), kinds)][:: int(every)]:
        pixels = rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
        matrix = splines.at_pixels(3, shape[axis], "zeros")
        expected = np.linalg.solve(matrix, np.moveaxis(pixels.astype(float), axis, 0))
        expected = np.moveaxis(expected, 0, axis)
        orders = itertools.product("CF", "CF", (False, True), makers)
        for source_order, target_order, adjoint, zeros in orders:
            image = zeros(shape if source_order == "C" else shape[::-1], dtype)
            image = image if source_order == "C" else image.T
            image[...] = pixels
            real = np.float64 if dtype in ("int64", "float64") else np.float32
            out = zeros(shape if target_order == "C" else shape[::-1], real)
            out = out if target_order == "C" else out.T
            coefficients(image, 3, ["zeros"], [axis], out, adjoint=adjoint, threads=2)
            # The matrix under "zeros" is symmetric.
            slack = 64 * np.finfo(real).eps * np.abs(expected).max()
            np.testing.assert_allclose(out, expected, rtol=0, atol=slack)
            runs += 1
    print(f"{runs} runs")


if __name__ == "__main__":
    main(*sys.argv[1:])
