"""Images that are not contiguous, between pages that must not be touched: see `guarded`.

Run in a process of its own by the tests.
"""

from __future__ import annotations

import importlib
import itertools

import cases
import numpy as np
from guarded import Guarded, forget, maker

import gridsample

TYPES = ("uint8", "float16", "float32", "float64")
SIZES = ((1, 1), (2, 3), (3, 17), (2, 64), (2, 131), (5, 40))
# The steps of rows, pixels and the numbers of a pixel.
STEPS = [(r, p, n) for r in (1, -1) for p in (1, -1, 2, -3) for n in (1, -1, 2)]


def main() -> None:
    """Resize views, and compare with NumPy's copies of them."""
    makers, views = [maker("before"), maker("after")], 0
    numpy = Guarded(makers[0])
    for name in ("backends.numpy", "backends.resizing", "kernels.resize"):
        importlib.import_module(f"gridsample.{name}").np = numpy  # type: ignore[attr-defined]
    for kind, (height, width), channels in cases.covering(TYPES, SIZES, (1, 2, 3, 4, 5)):
        for steps, numpy.make in zip(STEPS, itertools.cycle(makers), strict=False):
            forget()
            stored = [
                (n - 1) * abs(step) + 1
                for n, step in zip((height, width, channels), steps, strict=True)
            ]
            memory = numpy.zeros(stored, kind)
            memory[...] = cases.pixels(cases.generator(kind, *stored), tuple(stored), kind)
            view = memory[:: steps[0], :: steps[1], :: steps[2]]
            copy = np.ascontiguousarray(view)
            for mode, size in (("linear", (3, 50)), ("nearest", (3, 50)), ("nearest", (3, 9))):
                resized = [
                    gridsample.interpolate(image[np.newaxis], size, mode=mode, channel_axis=-1)
                    for image in (view, copy)
                ]
                slack = 0 if mode == "nearest" else 1 if kind == "uint8" else 1e-2
                np.testing.assert_allclose(*resized, rtol=0, atol=slack)
            views += 1
    print("checked", views)


if __name__ == "__main__":
    main()
