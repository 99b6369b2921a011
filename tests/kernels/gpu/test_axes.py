"""Axes with coordinates of their own, and intervals that continue, on GPUs: as on the CPU."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import oracles
import pytest
import torch

pytest.importorskip("triton")

from interpreted import DOUBLE, SINGLE

import gridsample
from gridsample.backends.torch import cuda, operators
from gridsample.definitions.knots import SplineKnots
from gridsample.definitions.options import Options

# The interpreter's NumPy warns where a GPU does not.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")

# Coordinates that increase, that decrease, and that are equidistant.
KNOTS = (np.array([-2.0, -1.0, 0.5, 4.0, 5.0]), np.array([9.0, 7.5, 7.0, 1.0]), np.arange(3) / 3)


def inputs(entries: Any, dtype: torch.dtype = torch.float64) -> tuple[Any, ...]:
    """Values, an image, a grid with points outside and at coordinates, and tangents."""
    rank = len(entries)
    rng = cases.generator("gpu axes", rank)
    sizes = [len(entry) if isinstance(entry, np.ndarray) else 4 for entry in entries]
    ends = [(e.min(), e.max()) if isinstance(e, np.ndarray) else (-1, 3) for e in entries]
    grid = np.stack([rng.uniform(a - 0.5, b + 0.5, (1, 13)) for a, b in ends], -1)
    grid[0, 0], grid[0, 1] = [a for a, _ in ends], [b for _, b in ends]
    grid[0, 2, 0] = np.nan
    image, by_image = (cases.pixels(rng, (1, 2, *sizes[::-1])) for _ in range(2))
    values = cases.pixels(rng, (1, 2, 13))
    arrays = values, image, grid, by_image, rng.standard_normal(grid.shape)
    return tuple([torch.from_numpy(array).to(dtype) for array in arrays])


def options_of(entries: Any, mode: str, boundary: str, ends: Any, order: Any = None) -> Options:
    rank = len(entries)
    names = {False: "centers"}
    return Options(
        mode=(mode,) * rank,
        padding_mode=(boundary,) * rank,
        align_corners=False,
        coords=gridsample.Axes(*entries) if isinstance(entries[0], np.ndarray) else "pixel",
        fill_value=(7.0,) if ends is False else (),
        ends=() if ends is True else (names.get(ends, ends),) * rank,
        order=order or (0,) * rank,
    )


def check(entries: Any, options: Options, dtype: torch.dtype = torch.float64) -> None:
    """Compare all operators that have GPU kernels with those of the CPU."""
    values, image, grid, by_image, by_grid = inputs(entries, dtype)
    pairs: list[tuple[Any, Any]] = [
        (cuda.gather_on_gpu(image, grid, options), operators.gather_on_cpu(image, grid, options))
    ]
    sizes = image.shape, options
    ours = cuda.scatter_on_gpu(values, grid, *sizes)
    pairs.append((ours, operators.scatter_on_cpu(values, grid, *sizes)))
    arguments = values, image, grid, (True, True), options
    both = cuda.backward_on_gpu(*arguments), operators.backward_on_cpu(*arguments)
    pairs += zip(*both, strict=True)
    twice = values, image, grid, by_image, by_grid, (True, True, True), options
    both = cuda.double_backward_on_gpu(*twice), operators.double_backward_on_cpu(*twice)
    pairs += zip(*both, strict=True)
    tolerance = 8 * (SINGLE if dtype == torch.float32 else DOUBLE)
    for mine, other in pairs:
        assert (mine.shape, mine.dtype) == (other.shape, other.dtype)
        oracles.assert_close(mine.double().numpy(), other.double().numpy(), tolerance)


@pytest.mark.parametrize(
    ("mode", "boundary", "ends"),
    [
        ("linear", "zeros", True),
        ("linear", "reflection", True),
        ("linear", "border", False),
        ("linear", "border", "continue"),
        ("nearest", "border", True),
    ],
)
def test_operators_are_those_of_the_cpu(mode: str, boundary: str, ends: Any) -> None:
    check(KNOTS[:2], options_of(KNOTS[:2], mode, boundary, ends))


def test_units_differ_by_axis_in_single_precision() -> None:
    entries = (KNOTS[2], "pixel", "normalized")
    check(entries, options_of(entries, "linear", "border", True), torch.float32)


@pytest.mark.parametrize("order", [(1, 0), (1, 1)])
def test_derivatives_of_samples(order: Any) -> None:
    for ends in (True, "continue"):
        check(KNOTS[:2], options_of(KNOTS[:2], "linear", "border", ends, order))


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_intervals_of_pixels_continue(mode: str) -> None:
    check(("pixel",) * 2, options_of(("pixel",) * 2, mode, "border", "continue"))


def test_neighbours_of_the_ends_are_outside() -> None:
    for axis in (np.linspace(0.1, 0.7, 7), np.linspace(0.7, 0.1, 7), KNOTS[0]):
        ends = np.array([axis.min(), axis.max()])
        points = torch.tensor([*ends, *np.nextafter(ends, [-99, 99])])[None, :, None]
        options = options_of((axis,), "linear", "border", False)
        image = torch.zeros((1, 1, len(axis)), dtype=torch.float64)
        result = cuda.gather_on_gpu(image, points, options)
        assert result.flatten().tolist() == [0, 0, 7, 7]


def test_splines_say_that_they_have_no_kernel() -> None:
    options = options_of(KNOTS[:1], "linear", "border", True)
    options = options.changed(coords=gridsample.Axes(SplineKnots(np.arange(4.0), 3)))
    with pytest.raises(ValueError, match="splines of degree 3 on knots, along x, have no GPU"):
        cuda.gather_on_gpu(torch.zeros(1, 1, 6), torch.zeros(1, 2, 1), options)
