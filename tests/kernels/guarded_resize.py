"""Every driver of resizing, on arrays between pages that must not be touched: see `guarded`.

Run in a process of its own by the tests.
"""

from __future__ import annotations

import importlib
import itertools
import sys
from typing import Any

import cases
import numpy as np
from guarded import Guarded, forget, maker

import gridsample
from gridsample.definitions.methods import METHODS

# Numbers of rows and channels for each code path.
SHORT: list[tuple[tuple[int, ...], Any]] = [
    ((3, 2, 11), 23),
    ((1, 3, 17, 9), (8, 31)),
    ((2, 18, 5, 3), (5, 8)),
    ((2, 4, 8, 6), (4, 3)),
    ((1, 5, 9, 12), (20, 31)),
    ((1, 1, 5, 4, 6), (3, 9, 17)),
]
# Long lines, whose weights are computed, or repeat: a few methods stand for all.
LONG: list[tuple[tuple[int, ...], Any]] = [
    ((1, 2, 1030), 1201),
    ((1, 1, 1030), 30),
    ((1, 3, 1200), 600),
    ((1, 1, 600), 1200),
    ((1, 1, 1030, 1), (1201, 3)),
    ((1, 1, 1, 1201), (2, 1030)),
]
# Channels side by side, of which few pixels are read.
SPARSE: list[tuple[tuple[int, ...], Any]] = [
    ((1, channels, 60, 1000), (48, 60)) for channels in (3, 4, 5)
]
METHODS_OF_LONG = ("nearest", "linear", "cubic", "lanczos3", "area", "spline3")


def calls(dtype: str, every: int) -> list[tuple[tuple[int, ...], Any, int, dict[str, Any]]]:
    """Return one in so many calls: the shape of the image, the size, the axis of channels, options.

    Up and down, by every method.
    """
    short = itertools.product(SHORT, (1, -1), METHODS, (False, True))
    long = itertools.product(LONG, (1, -1), METHODS_OF_LONG, (False, True))
    sparse = itertools.product(SPARSE, (-1,), ("linear", "cubic"), (False,))
    most = [call for call in itertools.chain(short, long) if call[2] != "label" or dtype == "uint8"]
    return [
        (shape, size, axis, {"mode": method, "antialias": smooth, "channel_axis": axis})
        for (shape, size), axis, method, smooth in [*most[::every], *sparse]
    ]


def main(dtype: str, every: str) -> None:
    """Resize guarded arrays, and compare the results with those of other arrays."""
    makers, runs = [maker("before"), maker("after")], 0
    numpy = Guarded(makers[0])
    for name in ("backends.numpy", "backends.resizing", "kernels.resize"):
        importlib.import_module(f"gridsample.{name}").np = numpy  # type: ignore[attr-defined]
    for call, numpy.make in itertools.product(calls(dtype, int(every)), makers):
        forget()
        shape, size, axis, options = call
        pixels = np.moveaxis(cases.pixels(cases.generator(shape), shape, dtype), 1, axis)
        image = numpy.zeros(pixels.shape, dtype)
        image[...] = pixels
        for threads in (1, 3):
            out = gridsample.interpolate(image, size, threads=threads, **options)
            expected = gridsample.interpolate(np.array(image), size, threads=threads, **options)
            np.testing.assert_array_equal(out, expected)
        if dtype == "uint8":
            for rounding in ("pillow", "torch"):
                gridsample.interpolate(image, size, rounding=rounding, **options)
        else:
            gridsample.interpolate_vjp(out, image, size, **options)
        runs += 3
    print(f"{runs} runs")


if __name__ == "__main__":
    main(*sys.argv[1:])
