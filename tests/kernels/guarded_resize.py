"""Every driver of resizing, on arrays between pages that must not be touched: see `guarded`."""

from __future__ import annotations

import importlib
import itertools
import sys
from typing import Any

import cases
import numpy as np
from guarded import Guarded, maker

import gridsample
from gridsample.definitions.methods import METHODS

LONG = ("nearest", "linear", "cubic", "lanczos3", "area", "spline3")


def main(side: str, dtype: str) -> None:
    """Resize up and down, with as few and as many rows as there are ways to go about them."""
    zeros = maker(side)
    for name in ("backends.numpy", "ops.resizing", "kernels.resize"):
        importlib.import_module(f"gridsample.{name}").np = Guarded(zeros)  # type: ignore[attr-defined]
    runs = 0
    shapes: list[tuple[tuple[int, ...], Any]] = [
        ((3, 2, 11), 23),
        ((1, 3, 17, 9), (8, 31)),
        ((2, 18, 5, 3), (5, 8)),
        ((1, 1, 5, 4, 6), (3, 9, 17)),
    ]
    # Long lines, whose weights are computed, or repeat: a few methods stand for all.
    long: list[tuple[tuple[int, ...], Any]] = [
        ((1, 2, 1030), 1201), ((1, 1, 1030), 30), ((1, 3, 1200), 600), ((1, 1, 600), 1200),
        ((1, 1, 1030, 1), (1201, 3)), ((1, 1, 1, 1201), (2, 1030)),
    ]  # fmt: skip
    for shape, size in [*shapes, *long]:
        pixels = cases.pixels(cases.generator(shape), shape, dtype)
        for axis, method, smooth in itertools.product((1, -1), METHODS, (False, True)):
            if method == "label" and dtype != "uint8":
                continue
            if max(shape) >= 600 and method not in LONG:
                continue
            given = np.moveaxis(pixels, 1, axis)
            image = zeros(given.shape, given.dtype)
            image[...] = given
            how = {"mode": method, "antialias": smooth, "channel_axis": axis}
            for threads in (1, 3):
                out = gridsample.interpolate(image, size, threads=threads, **how)
            for rounding in ("pillow", "torch") if dtype == "uint8" else ():
                gridsample.interpolate(image, size, rounding=rounding, **how)
            if dtype != "uint8":
                gridsample.interpolate_vjp(out, image, size, **how)
            runs += 3
    print(f"{runs} runs")


if __name__ == "__main__":
    main(*sys.argv[1:])
