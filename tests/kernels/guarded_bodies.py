"""Short pixels, labels, means over what is not NaN, and footprints, on arrays between pages that
must not be touched (see `guarded`), against the reference.

Run in a process of its own by the tests, which may choose another processor.
"""

from __future__ import annotations

import importlib
import itertools
import sys
from typing import Any, NamedTuple

import cases
import numpy as np
import plans
import pytest
from guarded import Guarded, maker, prefer

import gridsample
from gridsample.definitions.footprints import Footprint
from gridsample.definitions.options import Averaging
from gridsample.definitions.plan import Plan
from gridsample.kernels import reference, sampling
from gridsample.kernels.reference import footprints, labels

Array = np.ndarray[Any, Any]

BOUNDARIES = ("zeros", "constant", "border", "reflection", "wrap")


class Shapes(NamedTuple):
    """The shapes of an image and of a grid."""

    image: tuple[int, ...]
    grid: tuple[int, ...]


SHAPES = (
    Shapes((1, 1, 40), (1, 21, 1)),
    Shapes((2, 2, 7, 9), (2, 5, 3, 2)),  # a few points of each item
    Shapes((1, 3, 1, 8), (3, 1, 2, 2)),
    Shapes((1, 3, 12, 11), (1, 2, 131, 2)),  # long rows
    Shapes((1, 3, 20, 24), (1, 5, 9, 2)),  # rows that are shorter than a register
    Shapes((1, 1, 5, 6, 7), (1, 2, 4, 3, 3)),
)


def guarded(zeros: Any, shape: tuple[int, ...], dtype: Any, last: bool) -> Array:
    """Allocate an array (N, C, *rest) between guard pages, perhaps with the channels last."""
    if not last:
        array: Array = zeros(shape, dtype)
        return array
    return np.moveaxis(zeros((shape[0], *shape[2:], shape[1]), dtype), -1, 1)


class Case(NamedTuple):
    """One call.

    Attributes:
        number: which of the calls it is.
        image: the image.
        grid: the grid.
        boundary: the boundary along all axes.
        aligned: `align_corners`.
        coords: the units of coordinates.
        inside: whether positions outside have the fill value.
    """

    number: int
    image: Array
    grid: Array
    boundary: str
    aligned: bool
    coords: str
    inside: bool

    def plan(self, mode: Any, **options: Any) -> Plan:
        """Return the plan of a call."""
        return plans.plan_for(
            self.image.shape,
            self.image.dtype,
            self.grid.shape,
            self.grid.dtype,
            mode,
            self.boundary,
            self.aligned,
            coords=self.coords,
            extrapolate=not self.inside,
            **options,
        )

    def run(self, mode: Any, zeros: Any, **options: Any) -> Array:
        """Sample with the programs, on guarded arrays; ``last`` means that channels are last."""
        means, footprint = options.get("means"), options.get("footprint")
        weights = options.get("weights")
        plan = self.plan(mode, footprint=footprint)
        last = options.get("last", False)
        arrays = [guarded(zeros, self.image.shape, self.image.dtype, last)]
        arrays.append(zeros(self.grid.shape, self.grid.dtype))
        arrays[0][...], arrays[1][...] = self.image, self.grid
        out = guarded(zeros, plan.shape, plan.dtype, last)
        fill = np.full(plan.channels, FILL) if self.filled else None
        if means is None:
            sampling.gather(plan, *arrays, out, fill=fill, threads=2)
            return out
        if weights is not None:
            copy = zeros(weights.shape, weights.dtype)
            copy[...] = weights
            weights = copy
        shares = zeros(plan.shape, plan.real) if means.returns_weights else None
        call_arrays = sampling.CallArrays(*arrays, out, weights, shares, fill)
        sampling.average(plan, call_arrays, means, threads=2)
        return out if shares is None else (out, shares)

    def values(self, rng: np.random.Generator) -> Array:
        """Return upstream values."""
        items = max(len(self.image), len(self.grid))
        return rng.standard_normal((items, self.image.shape[1], *self.grid.shape[1:-1]))

    def differentiate(
        self,
        mode: Any,
        zeros: Any,
        values: Array,
        averaging: Averaging,
        weights: Array | None,
        needed: tuple[bool, bool, bool],
    ) -> tuple[Array | None, ...]:
        """Compute gradients of means with the programs, on guarded arrays."""
        plan = self.plan(mode)
        numbers = [values, self.image, self.grid, *([] if weights is None else [weights])]
        arrays = [zeros(a.shape, a.dtype) for a in numbers]
        for array, contents in zip(arrays, numbers, strict=True):
            array[...] = contents
        fill = np.full(plan.channels, FILL) if self.filled else None
        upstream, image, grid = arrays[:3]
        pixel_weights = arrays[3] if arrays[3:] else None
        call_arrays = sampling.CallArrays(image, grid, upstream, pixel_weights, fill=fill)
        needs = sampling.NeededGradients(*needed, plan.dtype)
        gradients = sampling.average_backward(plan, call_arrays, averaging, needs, 2)
        assert not gradients.invalid_weights
        return gradients.image, gradients.grid, gradients.weights

    def differentiate_footprints(self, mode: Any, zeros: Any) -> None:
        """Compare gradients of guarded arrays, whose channels come last, with those of planes."""
        plan = self.plan(mode, footprint=Footprint(3))
        values = self.values(cases.generator("bodies", "footprints", self.number))
        arrays = [guarded(zeros, a.shape, a.dtype, True) for a in (self.image, values)]
        arrays.insert(1, zeros(self.grid.shape, self.grid.dtype))
        for array, contents in zip(arrays, (self.image, self.grid, values), strict=True):
            array[...] = contents
        image, grid, upstream = arrays
        needs = sampling.NeededGradients()
        result = sampling.backward(
            plan, sampling.CallArrays(image, grid, upstream), needs, threads=2
        )
        planes = sampling.CallArrays(self.image, self.grid, values)
        expected = sampling.backward(plan, planes, needs, threads=2)
        for mine, other in zip(result[:2], expected[:2], strict=True):
            assert mine is not None and other is not None
            size = np.nanmax(np.abs(other), initial=1.0)
            np.testing.assert_allclose(mine, other, rtol=0, atol=1e-11 * size)

    @property
    def filled(self) -> bool:
        """Whether there is a fill value."""
        return self.boundary == "constant" or self.inside

    def expect(
        self,
        compute: Any,
        modes: Any,
        *,
        image: Array | None = None,
        boundary: str = "",
        fill: float | None = None,
        **more: Any,
    ) -> Array:
        """Sample by the reference."""
        rank = self.grid.shape[-1]
        modes = modes if isinstance(modes, tuple) else (modes,) * rank
        fill = FILL * self.filled if fill is None else fill
        result: Array = compute(
            self.image if image is None else image,
            self.grid,
            modes,
            (boundary or self.boundary,) * rank,
            self.aligned,
            coords=self.coords,
            extrapolate=not self.inside,
            fill=fill,
            **more,
        )
        return result


FILL = 3.0
# Of the calls of each body, one in so many is made; for the next body these are others.
EVERY = int(sys.argv[2]) if __name__ == "__main__" else 1
turns = itertools.count()


def calls(dtypes: tuple[str, ...], shrink: float, nans: float = 0.0) -> list[Case]:
    """Return calls of all shapes; the other choices take turns."""
    results, case_number = [], next(turns)
    for n, (shapes, boundary) in enumerate(itertools.product(SHAPES, BOUNDARIES)):
        if n % 2 or (n // 2 + case_number) % EVERY:
            continue
        dtype, coords = dtypes[n // 2 % len(dtypes)], ("normalized", "pixel", "displacement")[n % 3]
        rng = cases.generator("bodies", n, dtype)
        if np.dtype(dtype).kind in "biu":
            image = cases.pixels(rng, (4,), dtype)[rng.integers(0, 4, shapes.image)]
        else:
            image = cases.pixels(rng, shapes.image, dtype)
            image[rng.random(shapes.image) < nans] = np.nan
        rank, spatial = len(shapes.image) - 2, shapes.image[2:]
        lines = np.meshgrid(
            *(np.linspace(-0.9, 0.9, size) for size in shapes.grid[1:-1]), indexing="ij"
        )
        skew = np.eye(rank) + 0.2 * rng.standard_normal((rank, rank))
        grid = shrink * np.stack(lines[::-1], -1) @ skew
        # Multiples of a power of two, and positions away from ties and edges of every rounding.
        grid = np.round(grid * 64) / 64 + 0.0037 * np.arange(1, rank + 1)
        grid = np.repeat(grid[np.newaxis], shapes.grid[0], 0)
        if coords != "normalized":
            grid = (grid + (coords == "pixel")) / 2 * np.array(spatial[::-1])
        grid.reshape(-1)[5] = np.nan
        results.append(Case(n // 2, image, grid, boundary, n % 4 == 2, coords, n % 10 > 6))
    return results


def close(result: Array, expected: Array) -> None:
    """Compare real numbers, in double precision or as integers."""
    slack = 1e-9 if result.dtype.kind == "f" else 1  # a half may be rounded up or down
    np.testing.assert_allclose(result.astype(float), expected.astype(float), rtol=0, atol=slack)


def sample_short_pixels(zeros: Any) -> int:
    """Pixels of 2 to 8 channels, which come last: copies, and rows of numbers."""
    runs, kinds = 0, ("float32", "uint8", "float64", "int16")
    for mode in ("nearest", "linear", "cubic", "lanczos4"):
        for case in calls(kinds, 1.1) + calls(kinds, 0.6):
            channels = np.arange(2 + runs % 7) % case.image.shape[1]
            expected = case.expect(reference.gather, mode)[:, channels]
            short = case._replace(image=case.image[:, channels])
            result = short.run(mode, zeros, last=True)
            if mode == "nearest":
                np.testing.assert_array_equal(result, expected.astype(result.dtype))
            elif result.dtype == np.float32:
                np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5)
            else:
                close(result, expected)
            runs += 1
    return runs


def sample_labels(zeros: Any) -> int:
    """Votes of taps, and of the taps of footprints."""
    runs = 0
    kinds = ("uint8", "int64", "bool", "int16", "uint64", "int32")
    for case in calls(kinds, 1.3):
        n = case.number
        rank = case.grid.shape[-1]
        modes = ("label",) * rank if n % 3 else ("nearest", *("label",) * (rank - 1))
        modes = modes if "label" in modes else ("label",)
        np.testing.assert_array_equal(case.run(modes, zeros), case.expect(labels.vote, modes))
        runs += 1
    for case in calls(("uint8", "int16", "int8"), 1.1):
        result = case.run("label", zeros, footprint=Footprint(4))
        expected = case.expect(footprints.vote, "label", max_samples=4)
        assert (result != expected).mean() < 0.02  # near ties
        runs += 1
    return runs


def sample_footprints(zeros: Any) -> int:
    """Means over footprints."""
    runs = 0
    for mode, dtypes in (("linear", ("float64", "uint8", "int32")), ("cubic", ("float64",))):
        for case in calls(dtypes, 1.1):
            expected = case.expect(footprints.gather, mode, max_samples=3)
            close(case.run(mode, zeros, footprint=Footprint(3)), expected)
            runs += 1
    for mode, many in (("linear", 9), ("cubic", 17)):  # channels that are lanes
        for case in calls(("float64", "int32"), 1.1):
            expected = case.expect(footprints.gather, mode, max_samples=3)
            long = case._replace(image=np.repeat(case.image, many, 1))
            result = long.run(mode, zeros, footprint=Footprint(3), last=True)
            close(result, np.repeat(expected, many, 1))
            runs += 1
            if case.image.dtype.kind == "f":
                long.differentiate_footprints(mode, zeros)
                runs += 1
    for case in calls(("uint8",), 1.3):  # whose channels are read as words
        expected = case.expect(footprints.gather, "linear", max_samples=16)
        close(case.run("linear", zeros, footprint=Footprint(16), last=True), expected)
        runs += 1
    return runs


def sample_means(zeros: Any) -> int:
    """Means over the pixels that are not NaN."""
    runs = 0
    for mode, share in (("linear", 0.2), ("cubic", 0.02)):
        for case in calls(("float64",), 1.3, share):
            marks = np.isfinite(case.image).astype(float)
            above = case.expect(reference.gather, mode, image=np.nan_to_num(case.image))
            # Results outside are known.
            known = "constant" if case.boundary == "zeros" else case.boundary
            below = case.expect(reference.gather, mode, image=marks, boundary=known, fill=1.0)
            with np.errstate(all="ignore"):
                expected = np.where(below > 0.25, above / below, 7.0)
            expected = np.where(np.isnan(below), np.nan, expected)
            result = case.run(mode, zeros, means=Averaging(0.25, (7.0,)))
            certain = ~(np.abs(below - 0.25) < 1e-9)
            np.testing.assert_allclose(result[certain], expected[certain], rtol=0, atol=1e-8)
            runs += 1
    return runs


def sample_weighted_means(zeros: Any) -> int:
    """Means over weighted pixels, and the sums of their weights."""
    runs, kinds = 0, ("float64", "bool", "float32", "int16", "float16")
    for mode, ignores in (("linear", True), ("cubic", False), ("nearest", True)):
        for case in calls(("float64", "int32"), 1.3, 0.2 * ignores):
            n = case.number
            rng = cases.generator("bodies", "weights", n)
            items, channels, *spatial = case.image.shape
            shape = (items if n % 2 else 1, channels if n % 3 else 1, *spatial)
            weights = (rng.integers(0, 4, shape) / 4).astype(kinds[n % len(kinds)])
            drops, real = case.boundary == "zeros" and n % 4 > 1, case.image.dtype.kind == "f"
            marks = np.isfinite(case.image) * weights.astype(float)
            image = np.nan_to_num(case.image.astype(float)) * marks
            fill = FILL * case.filled * (not drops)
            known = "zeros" if drops else "constant" if case.boundary == "zeros" else case.boundary
            above = case.expect(reference.gather, mode, image=image, fill=fill)
            below = case.expect(
                reference.gather, mode, image=marks, boundary=known, fill=float(not drops)
            )
            averaging = Averaging(0.25, (7.0,), drops, ignores, True)
            result, shares = case.run(mode, zeros, means=averaging, weights=weights)
            np.testing.assert_allclose(shares, np.nan_to_num(below), rtol=0, atol=1e-12)
            with np.errstate(all="ignore"):
                expected = np.where(below > 0.25, above / below, 7.0)
            expected = np.where(np.isnan(below), np.nan if real else 7.0, expected)
            certain = ~(np.abs(below - 0.25) < 1e-9)
            slack = 1e-8 if real else 0.500001
            if not real:
                limits = np.iinfo(result.dtype)
                expected = expected.clip(limits.min, limits.max)
            np.testing.assert_allclose(result[certain], expected[certain], rtol=0, atol=slack)
            runs += 1
    return runs


def differentiate_means(zeros: Any) -> int:
    """Gradients of means, which are also those of two sums that are sampled and divided."""
    runs, kinds = 0, ("float64", "bool", "float32", "int16")
    for mode, ignores in (("linear", True), ("cubic", True), ("linear", False)):
        for case in calls(("float64",), 1.3, 0.2 * ignores):
            n = case.number
            rng = cases.generator("bodies", "gradients of means", n)
            items, channels, *spatial = case.image.shape
            shape = (items if n % 2 else 1, channels if n % 3 else 1, *spatial)
            weights = (rng.integers(0, 4, shape) / 4).astype(kinds[n % len(kinds)])
            weights = None if ignores and n % 5 == 0 else weights
            options = {
                "mode": mode,
                "padding_mode": case.boundary,
                "align_corners": case.aligned,
                "coords": case.coords,
                "extrapolate": not case.inside,
                "min_weight": 0.2,
                "missing": "ignore" if ignores else "propagate",
                "fill_value": FILL * case.filled,
                "weights": weights,
            }
            values = case.values(rng)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("gridsample.ops.means.resolve_averaging", lambda *_: None)
                expected = gridsample.grid_sample_vjp(values, case.image, case.grid, **options)
            needed = True, n % 4 < 3, weights is not None
            averaging = Averaging(0.2, (), False, ignores)
            result = case.differentiate(mode, zeros, values, averaging, weights, needed)
            for mine, other in zip(result, expected, strict=False):
                if mine is not None:
                    slack = 1e-8 + 4 * np.finfo(other.dtype).eps * np.abs(other).max()
                    np.testing.assert_allclose(mine, other, rtol=0, atol=slack)
            runs += 1
    return runs


def main(side: str) -> None:
    """Run all bodies."""
    zeros = maker(side)
    for name in ("sampling.antialiasing", "sampling.averages", "sampling.layouts", "run"):
        importlib.import_module(f"gridsample.kernels.{name}").np = Guarded(zeros)  # type: ignore[attr-defined]
    runs = sample_short_pixels(zeros) + sample_labels(zeros)
    runs += sample_footprints(zeros) + sample_means(zeros)
    runs += sample_weighted_means(zeros) + differentiate_means(zeros)
    print(f"{runs} runs")


if __name__ == "__main__":
    prefer(sys.argv[3])
    main(sys.argv[1])
