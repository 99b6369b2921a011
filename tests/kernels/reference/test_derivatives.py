"""The reference's derivatives are those of finite differences, and its scatter is the adjoint."""

import itertools
import math

import numpy as np
import pytest
from cases import BOUNDARIES, MODES, coordinates, covering, generator
from rows import ALIGN, BOUNDARY, INF, MODE, NAN, grid_1d

from gridsample.kernels import reference


def smooth_points(rng, count, spatial, align_corners):
    """Coordinates inside and outside, whose positions keep clear of pixel centres and folds."""
    shape = (1, count, len(spatial))
    fraction = rng.uniform(0.15, 0.35, shape) + rng.choice([0, 0.5], shape)
    return coordinates(rng.integers(-6, 10, shape) + fraction, spatial, align_corners)


def difference(function, grid, axis):
    """d function / d grid along one axis; exact, but for rounding, for a polynomial of degree 4.

    Two steps are less than 0.15 pixels up to size 7.
    """
    step = np.zeros(grid.shape[-1])
    step[axis] = h = 0.02
    near = function(grid + step) - function(grid - step)
    far = function(grid + 2 * step) - function(grid - 2 * step)
    return (8 * near - far) / (12 * h)


def steepness(spatial, order, align_corners):
    """A bound on derivatives of samples of small numbers, which rounding errors are relative to."""
    slopes = (reference.slope(size, align_corners) for size in reversed(spatial))
    return math.prod((4 * slope) ** k for slope, k in zip(slopes, order, strict=True))


DIFFERENTIABLE = [
    ((7,), ("nearest",)),
    ((7,), ("linear",)),
    ((7,), ("cubic",)),
    ((5, 4), ("cubic", "cubic")),
    ((5, 4), ("cubic", "linear")),
    ((5, 4), ("nearest", "cubic")),
    ((3, 4, 5), ("cubic", "cubic", "cubic")),
    ((3, 4, 5), ("linear", "linear", "linear")),
    ((3, 4, 5), ("linear", "nearest", "cubic")),
    ((3, 4, 5), ("cubic", "linear", "linear")),
]

MIXES = [
    *((boundary,) * 3 for boundary in BOUNDARIES),
    *itertools.permutations(BOUNDARIES),
]


@pytest.mark.covering
@pytest.mark.parametrize(("spatial", "modes"), DIFFERENTIABLE, ids=str)
@ALIGN
def test_derivatives_of_every_order_match_finite_differences(spatial, modes, align_corners):
    rank = len(spatial)
    rng = generator(spatial, modes, align_corners)
    image = rng.standard_normal((1, 1, *spatial))
    grid = smooth_points(rng, 6, spatial, align_corners)
    # In a volume, every third mix, and orders of which every pair occurs.
    mixes = sorted({mix[:rank] for mix in MIXES})
    for boundaries in mixes[align_corners::3] if rank == 3 else mixes:
        for order in covering(*[(0, 1)] * rank):

            def sample(points, order=order, boundaries=boundaries):
                return reference.gather(image, points, modes, boundaries, align_corners, order)

            for axis in range(rank):
                raised = [k + (axis == i) for i, k in enumerate(order)]
                actual = sample(grid, order=raised)
                expected = difference(sample, grid, axis)
                rounding = 1e-12 * steepness(spatial, raised, align_corners)
                np.testing.assert_allclose(actual, expected, rtol=0, atol=rounding)


@pytest.mark.covering
@pytest.mark.parametrize(("spatial", "modes"), DIFFERENTIABLE, ids=str)
@ALIGN
def test_gradients_match_finite_differences(spatial, modes, align_corners):
    rank = len(spatial)
    rng = generator(spatial, modes, align_corners, "gradients")
    image = rng.standard_normal((1, 2, *spatial))
    grid = smooth_points(rng, 6, spatial, align_corners)
    g = rng.standard_normal((1, 2, 6))
    direction = rng.standard_normal(image.shape)
    for boundaries in {mix[:rank] for mix in MIXES}:
        options = (modes, boundaries, align_corners)
        grad_input, grad_grid = reference.gradients(g, image, grid, *options)

        # Sampling is linear in the image: one step of any size gives the derivative.
        change = (g * reference.gather(direction, grid, *options)).sum()
        np.testing.assert_allclose((grad_input * direction).sum(), change, rtol=1e-12, atol=1e-12)

        for axis in range(rank):
            expected = difference(
                lambda points, options=options: (g * reference.gather(image, points, *options)).sum(
                    axis=1
                ),
                grid,
                axis,
            )
            order = [int(k == axis) for k in range(rank)]
            rounding = 1e-12 * steepness(spatial, order, align_corners)
            np.testing.assert_allclose(grad_grid[..., axis], expected, rtol=0, atol=rounding)


def assert_adjoint(rng, spatial, modes, boundaries, align_corners, order, items=(1, 1)):
    """<gather(image), values> = <image, scatter(values)>."""
    n_image, n_grid = items
    image = rng.standard_normal((n_image, 1, *spatial))
    grid = rng.uniform(-2.5, 2.5, (n_grid, 4, len(spatial)))
    options = (modes, boundaries, align_corners, order)
    sampled = reference.gather(image, grid, *options)
    values = rng.standard_normal(sampled.shape)
    scattered = reference.scatter(values, grid, spatial, *options, batch=n_image)
    assert scattered.shape == image.shape
    left, right = sampled * values, image * scattered
    scale = max(1.0, np.abs(left).sum(), np.abs(right).sum())
    assert abs(left.sum() - right.sum()) <= 1e-12 * scale


@MODE
@BOUNDARY
@ALIGN
@pytest.mark.parametrize("order", range(5))
def test_scatter_is_the_adjoint_on_a_line(mode, boundary, align_corners, order):
    rng = generator(mode, boundary, align_corners, order)
    for size, items in itertools.product((1, 2, 7, 63), ((1, 1), (3, 1), (1, 3))):
        assert_adjoint(rng, (size,), (mode,), (boundary,), align_corners, (order,), items)


@ALIGN
@pytest.mark.parametrize("order", [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (3, 2)], ids=str)
def test_scatter_is_the_adjoint_in_2d(align_corners, order):
    rng = generator(align_corners, order)
    for modes in itertools.product(MODES, repeat=2):
        for boundaries in itertools.product(BOUNDARIES, repeat=2):
            assert_adjoint(rng, (3, 4), modes, boundaries, align_corners, order)


@pytest.mark.covering
@ALIGN
@pytest.mark.parametrize("order", [(0, 0, 0), (1, 0, 0), (0, 1, 2)], ids=str)
def test_scatter_is_the_adjoint_in_3d(align_corners, order):
    rng = generator(align_corners, order)
    for modes in itertools.product(MODES, repeat=3):
        for boundaries in MIXES:
            assert_adjoint(rng, (2, 3, 4), modes, boundaries, align_corners, order)


def test_scatter_accumulates_in_shared_pixels():
    values = np.array([[[1.0, 10.0, 100.0]]])
    options = (("linear",), ("zeros",), True)
    result = reference.scatter(values, grid_1d(-1, 0, -0.5), (3,), *options)
    assert result.tolist() == [[[51, 60, 0]]]
    result = reference.scatter(values, grid_1d(NAN, INF, -INF), (3,), *options)
    assert result.tolist() == [[[0, 0, 0]]]


def test_scatter_sums_the_items_into_one():
    values = np.array([[[1.0]], [[10.0]]])
    options = (("nearest",), ("zeros",), True)
    assert reference.scatter(values, grid_1d(0), (3,), *options).tolist() == [
        [[0, 1, 0]],
        [[0, 10, 0]],
    ]
    assert reference.scatter(values, grid_1d(0), (3,), *options, batch=1).tolist() == [[[0, 11, 0]]]


def test_sums_overflow_without_a_warning():
    options = (("nearest",), ("zeros",), True)
    values = np.array([[[1e308, 1e308, INF, -INF]], [[1, 2, -INF, 3]]])
    grid = grid_1d(-1, -1, 1, 1)
    result = reference.scatter(values, grid, (2,), *options)
    np.testing.assert_array_equal(result, [[[INF, NAN]], [[3, -INF]]])
    result = reference.scatter(-values, grid[:, ::-1], (2,), *options, batch=1)
    np.testing.assert_array_equal(result, [[[NAN, -INF]]])


def test_extreme_numbers_raise_no_error():
    odd = (1e308, -1e308, INF, -INF, NAN, 5e-324, 2.0**53, -(2.0**63), 1e19, 0.3)
    image = np.array([odd[:5], odd[5:]])[None, None]
    grid = np.array(list(itertools.product(odd, odd)))[None]
    g = np.resize(np.array(odd), (1, 1, 100))
    for mode, boundary in itertools.product(MODES, BOUNDARIES):
        options = ((mode, mode), (boundary, boundary), False)
        assert reference.gather(image, grid, *options).shape == (1, 1, 100)
        grad_input, grad_grid = reference.gradients(g, image, grid, *options)
        assert (grad_input.shape, grad_grid.shape) == (image.shape, grid.shape)


# Beyond PyTorch: the transpose, and gradients by differences --------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("boundary", reference.BOUNDARIES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "mitchell", "spline4", "lanczos2"])
@pytest.mark.parametrize("extrapolate", [True, False])
def test_every_combination_has_adjoints_and_derivatives(mode, boundary, extrapolate):
    rng = generator(mode, boundary, extrapolate)
    image = rng.standard_normal((1, 1, 4, 3))
    grid = rng.uniform(-2.5, 6.5, (1, 6, 2)).round(1) + 0.03  # away from where slopes jump
    options = ((mode, "linear"), (boundary, "mirror"), False)
    more = {"coords": "pixel", "extrapolate": extrapolate}
    g = rng.standard_normal((1, 1, 6))

    expected = reference.gather(image, grid, *options, **more)
    transposed = reference.scatter(g, grid, (4, 3), *options, **more)
    assert (expected * g).sum() == pytest.approx((image * transposed).sum(), abs=1e-13)

    grad_input, grad_grid = reference.gradients(g, image, grid, *options, **more, fill=2.0)
    assert np.array_equal(grad_input, transposed)
    step = 1e-5
    for place in np.ndindex(grid.shape):
        nudge = np.zeros(grid.shape)
        nudge[place] = step
        ahead, behind = (
            (reference.gather(image, grid + s * nudge, *options, **more, fill=2.0) * g).sum()
            for s in (1, -1)
        )
        assert grad_grid[place] == pytest.approx((ahead - behind) / (2 * step), abs=1e-7)
