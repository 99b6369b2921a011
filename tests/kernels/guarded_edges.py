"""Points at the edges of images, many of which are narrower than taps, on arrays between pages that
must not be touched (see `guarded`), in all directions.

Run in a process of its own by the tests, which may choose another processor.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import cases
import numpy as np
import plans
from guarded import ALLOCATING, Guarded, maker, prefer
from missing_images import without_kernels
from oracles import assert_close, reference_gradients, reference_output

import gridsample
from gridsample.kernels import sampling

Array = np.ndarray[Any, Any]

SIZES = (
    (4,), (3,), (1,), (9, 4), (7, 3), (40, 2), (6, 1), (1, 9), (2, 13), (5, 6), (12, 8), (1, 1),
    (5, 4, 3), (6, 1, 1), (1, 2, 9), (3, 5, 7),
)  # fmt: skip
MODES = ("linear", "cubic", "spline5", "spline2")
BOUNDARIES = ("zeros", "border", "reflection", "wrap", "mirror", "antisymmetric", "dst1")


class Call:
    """A call, whose arrays are guarded."""

    def __init__(self, zeros: Any, sizes: tuple[int, ...], mode: str, boundary: str, dtype: str):
        self.rng = cases.generator("edges", sizes, mode, boundary, dtype)
        self.zeros, self.dtype = zeros, dtype
        self.options = mode, boundary, bool(self.rng.integers(2))
        rank, few = len(sizes), int(self.rng.integers(2))
        items, points = ((5, 3), (1, 37))[few]  # few points of each item, or of one
        self.image = self.guard(self.rng.standard_normal((items, 1, *sizes)))
        self.grid = self.guard(self.rng.uniform(-2.3, 2.3, (items, points, rank)))
        self.values = self.guard(self.rng.standard_normal((items, 1, points)))
        self.tolerance = (1e-9 if dtype == "float64" else 2e-3) * max(sizes)

    def guard(self, numbers: Array) -> Array:
        """Copy numbers to guarded memory."""
        array = self.zeros(numbers.shape, self.dtype)
        array[...] = numbers
        return array

    def sample(self) -> None:
        """Sample an image of which some pixels are NaN, and its derivatives."""
        image = self.guard(self.image)
        image[self.rng.random(image.shape) < 0.1] = np.nan
        plan = self.plan()
        for axis in range(-1, len(plan.spatial)):
            order = tuple(int(a == axis) for a in range(len(plan.spatial)))
            out = self.zeros(plan.shape, self.dtype)
            sampling.gather(plan, image, self.grid, out, order=order)
            expected = reference_output(image, self.grid, *self.options, order)
            if axis < 0 or not np.isnan(expected).any():
                assert_close(out, expected, self.tolerance)

    def plan(self) -> Any:
        """Return the plan of the call."""
        image, grid = self.image, self.grid
        return plans.plan_for(image.shape, image.dtype, grid.shape, grid.dtype, *self.options)

    def differentiate(self) -> None:
        """Compute first derivatives; some are NaN."""
        arrays = self.guard(self.values), self.image, self.grid
        if self.options[0] != "linear":  # a pair's second pixel may get NaN with the weight 0
            arrays[0][0, 0, 1] = np.nan
        gradients = gridsample.grid_sample_vjp(*arrays, *self.options, prefilter=False)
        for mine, expected in zip(
            gradients, reference_gradients(*arrays, *self.options), strict=True
        ):
            assert_close(mine, expected, self.tolerance)

    def differentiate_twice(self) -> None:
        """Compute second derivatives, those of <u, image's gradient> + <d, grid's gradient>."""
        u, d = (self.guard(self.rng.standard_normal(a.shape)) for a in (self.image, self.grid))
        call_arrays = sampling.CallArrays(self.image, self.grid, self.values)
        needs = sampling.NeededGradients(values=True)
        values, image, grid = sampling.backward_twice(self.plan(), call_arrays, u, d, needs)

        def product(grid: Array) -> tuple[float, float]:
            arrays = (a.astype(float) for a in (self.values, self.image, grid))
            of_image, of_grid = reference_gradients(*arrays, *self.options)
            return float((u * of_image).sum()), float((d * of_grid).sum())

        # The product is linear in the values, and its second part in the image.
        first, second = product(self.grid)
        scale = self.tolerance * self.values.size
        np.testing.assert_allclose((values * self.values).sum(), first + second, atol=scale)
        np.testing.assert_allclose((image * self.image).sum(), second, atol=scale)
        # Positions are piecewise smooth: a point that meets a pixel or a fold is rare.
        step = 1e-6 * self.rng.standard_normal(grid.shape)
        exact = self.grid.astype(float)
        slope = (sum(product(exact + step)) - sum(product(exact - step))) / 2e-6
        if self.options[0] != "linear":
            bound = 20 * scale + 1e-4 * np.abs(grid).sum()
            np.testing.assert_allclose((grid * step).sum() * 1e6, slope, atol=bound)

    def average(self) -> None:
        """Average what is not missing, with weights, and differentiate that."""
        image, weights = self.guard(self.image), self.guard(self.rng.random(self.image.shape))
        image[self.rng.random(image.shape) < 0.1] = np.nan
        mode, boundary, aligned = self.options
        if boundary in ("antisymmetric", "dst1"):
            return
        options = {
            "mode": mode,
            "padding_mode": boundary,
            "align_corners": aligned,
            "prefilter": False,
            "missing": "ignore",
            "weights": weights,
            "min_weight": 0.3,
        }

        def results() -> list[Array]:
            out = gridsample.grid_sample(image, self.grid, **options)
            return [out, *gridsample.grid_sample_vjp(self.values, image, self.grid, **options)]

        guarded_results = results()
        with without_kernels():
            expected = results()
        for mine, theirs in zip(guarded_results, expected, strict=True):
            assert_close(mine, theirs, self.tolerance)


def main(side: str, every: str) -> None:
    """Run all calls, or one of some."""
    zeros = maker(side)
    for name in ALLOCATING:
        importlib.import_module(f"gridsample.{name}").np = Guarded(zeros)  # type: ignore[attr-defined]
    calls = [((1, 9), "linear", "zeros", "float32"), ((1, 2, 9), "linear", "zeros", "float64")]
    calls += cases.covering(SIZES, MODES, BOUNDARIES, ("float32", "float64"))[:: int(every)]
    for arguments in calls:
        call = Call(zeros, *arguments)
        try:
            call.sample()
            call.differentiate()
            call.differentiate_twice()
            call.average()
        except AssertionError as error:
            raise AssertionError(f"{arguments} {call.options}") from error
    print(f"{len(calls)} runs")


if __name__ == "__main__":
    prefer(sys.argv[3])
    main(*sys.argv[1:3])
