"""Resizing of arrays between pages that must not be touched; see `guarded`.

Run in a process of its own by the tests.
"""

from __future__ import annotations

import itertools
import sys

import cases
import numpy as np
from guarded import Guarded, maker

import gridsample
from gridsample.backends import numpy as binding
from gridsample.kernels import resize as kernels
from gridsample.ops import resizing

SIZES = (((9, 12), (4, 6)), ((9, 12), (20, 31)), ((5, 8), (9, 3)), ((8, 6), (4, 3)))


def main(side: str) -> None:
    """Run every driver on guarded arrays."""
    zeros = maker(side)
    for module in (binding, resizing, kernels):
        module.np = Guarded(zeros)  # type: ignore[attr-defined]
    count = 0
    for dtype, channels, axis in itertools.product(
        ("float32", "float64", "uint8", "float16"), (1, 2, 3, 4, 5, 17), (1, -1)
    ):
        rng = cases.generator("guarded", dtype, channels)
        for spatial, size in SIZES:
            for mode, smooth in itertools.product(
                ("nearest", "linear", "cubic", "area", "spline3"), (False, True)
            ):
                image = zeros(np.moveaxis(np.empty((2, channels, *spatial)), 1, axis).shape, dtype)
                image[...] = cases.pixels(rng, image.shape, dtype)
                how = {"mode": mode, "antialias": smooth, "channel_axis": axis}
                out = gridsample.interpolate(image, size, **how, threads=1)
                plain = gridsample.interpolate(np.array(image), size, **how, threads=1)
                np.testing.assert_array_equal(out, plain)
                count += 1
                if np.dtype(dtype).kind == "f":
                    gridsample.interpolate_vjp(out, image, size, **how, threads=1)
    print(f"{count} runs of the drivers")


if __name__ == "__main__":
    main(sys.argv[1])
