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
from gridsample.definitions.knots import Knots, SplineKnots
from gridsample.definitions.methods import spline_on_knots
from gridsample.definitions.options import Options

# The interpreter's NumPy warns where a GPU does not.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")

# Coordinates that increase, that decrease, and that are equidistant.
KNOTS = (np.array([-2.0, -1.0, 0.5, 4.0, 5.0]), np.array([9.0, 7.5, 7.0, 1.0]), np.arange(3) / 3)

SPLINE_KNOTS = KNOTS[0], np.array([0.0, 2.0, 3.0, 5.0, 9.0])


def inputs(entries: Any, dtype: torch.dtype = torch.float64) -> tuple[Any, ...]:
    """Values, an image, a grid with points outside and at coordinates, and tangents."""
    rank = len(entries)
    entries = [Knots(e) if isinstance(e, np.ndarray) else e for e in entries]
    rng = cases.generator("gpu axes", rank)
    sizes = [entry.pixels if isinstance(entry, Knots) else 4 for entry in entries]
    lines = [e.coordinates if isinstance(e, Knots) else np.array([-1.0, 3.0]) for e in entries]
    ends = [(line.min(), line.max()) for line in lines]
    grid = np.stack([rng.uniform(a - 0.5, b + 0.5, (1, 13)) for a, b in ends], -1)
    grid[0, 0], grid[0, 1] = [a for a, _ in ends], [b for _, b in ends]
    grid[0, 2, 0] = np.nan
    image, by_image = (cases.pixels(rng, (1, 2, *sizes[::-1])) for _ in range(2))
    values = cases.pixels(rng, (1, 2, 13))
    real = torch.float64 if dtype.is_complex else dtype
    of_image = [torch.from_numpy(array).to(dtype) for array in (values, image, by_image)]
    if dtype.is_complex:
        of_image = [array * (1 + 0.5j) for array in of_image]
    of_grid = [torch.from_numpy(a).to(real) for a in (grid, rng.standard_normal(grid.shape))]
    return *of_image[:2], of_grid[0], of_image[2], of_grid[1]


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
        wide = torch.complex128 if mine.is_complex() else torch.float64
        oracles.assert_close(mine.to(wide).numpy(), other.to(wide).numpy(), tolerance)


@pytest.mark.parametrize(
    ("mode", "boundary", "ends"),
    [
        ("linear", "zeros", True),
        pytest.param("linear", "reflection", True, marks=pytest.mark.slow),
        pytest.param("linear", "border", False, marks=pytest.mark.slow),
        ("linear", "border", "continue"),
        pytest.param("nearest", "border", True, marks=pytest.mark.slow),
    ],
)
def test_operators_are_those_of_the_cpu(mode: str, boundary: str, ends: Any) -> None:
    check(KNOTS[:2], options_of(KNOTS[:2], mode, boundary, ends))


@pytest.mark.slow
def test_units_differ_by_axis_in_single_precision() -> None:
    entries = (KNOTS[2], "pixel", "normalized")
    check(entries, options_of(entries, "linear", "border", True), torch.float32)


@pytest.mark.slow
@pytest.mark.parametrize("order", [(1, 0), (1, 1)])
def test_derivatives_of_samples(order: Any) -> None:
    for ends in (True, "continue"):
        check(KNOTS[:2], options_of(KNOTS[:2], "linear", "border", ends, order))


@pytest.mark.slow
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


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        pytest.param(torch.float32, marks=pytest.mark.slow),
        pytest.param(torch.complex128, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    ("degrees", "ends", "order"),
    [
        ((3,), "continue", (0,)),
        ((5,), False, (1,)),
        ((3, 2), False, (0, 0)),
        ((1, 3), "continue", (1, 0)),
    ],
)
def test_splines_are_those_of_the_cpu(degrees: Any, ends: Any, order: Any, dtype: Any) -> None:
    entries = [SplineKnots(k, degree) for k, degree in zip(SPLINE_KNOTS, degrees, strict=False)]
    options = options_of(KNOTS[: len(degrees)], "linear", "border", ends, order)
    options = options.changed(
        mode=tuple([spline_on_knots(degree) for degree in degrees]),
        coords=gridsample.Axes(*entries),
        fill_value=(7.0, 2.0)[: 1 + dtype.is_complex] if ends is False else (),
    )
    check(entries, options, dtype)


def test_splines_along_some_axes_say_that_they_have_no_kernel() -> None:
    options = options_of(KNOTS[:2], "linear", "border", True)
    options = options.changed(coords=gridsample.Axes(SplineKnots(np.arange(4.0), 3), KNOTS[1]))
    with pytest.raises(ValueError, match="along some axes, and other methods along others"):
        cuda.gather_on_gpu(torch.zeros(1, 1, 4, 6), torch.zeros(1, 2, 2), options)
