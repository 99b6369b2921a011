"""The kernels' contract: gather matches the reference at any order; scatter is its transpose."""

import itertools

import cases
import numpy as np
import plans
import pytest
from oracles import assert_close

from gridsample.kernels import reference, sampling

ALIGN = pytest.mark.parametrize("align_corners", [False, True], ids=["edges", "centres"])
MODE = pytest.mark.parametrize("mode", cases.MODES)
BOUNDARY = pytest.mark.parametrize("boundary", cases.BOUNDARIES)
ITEMS = pytest.mark.parametrize(("items", "grid_items"), [(2, 2), (1, 3), (3, 1)])


def plan_of(image, grid, modes, boundaries, align_corners):
    return plans.plan_for(
        *(image.shape, image.dtype, grid.shape, grid.dtype), modes, boundaries, align_corners
    )


def gather(plan, image, grid, order=None, threads=None):
    out = np.full(plan.shape, 1e300, plan.dtype)
    sampling.gather(plan, image, grid, out, order=order, threads=threads)
    return out


def inner(a, b):
    """<a, b>, and the sum of the terms' magnitudes, to which rounding errors are relative."""
    return np.sum(a * b), np.sum(abs(a * b))


@pytest.mark.covering
@ITEMS
@pytest.mark.parametrize("rank", [1, 2, 3])
@ALIGN
@BOUNDARY
@MODE
def test_scatter_is_the_adjoint_of_gather(mode, boundary, align_corners, rank, items, grid_items):
    rng = cases.generator("adjoint", mode, boundary, align_corners, rank, items)
    image = cases.pixels(rng, (items, 2, *(5, 3, 7)[:rank]))
    grid = rng.uniform(-2, 2, (grid_items, 63, rank))
    plan = plan_of(image, grid, mode, boundary, align_corners)
    values = cases.pixels(rng, plan.shape)
    for order in itertools.product((0, 1), repeat=rank):
        for threads in (1, 3):
            forward, scale = inner(gather(plan, image, grid, order, threads), values)
            back, _ = inner(
                image, sampling.scatter(plan, values, grid, order=order, threads=threads)
            )
            assert abs(forward - back) <= 1e-12 * max(1, scale)


# Multiples of 1 / 64 that are met exactly, pixel centres and folds among them.
def exact_grid(rng, items, points, rank):
    grid = rng.integers(-160, 160, (items, points, rank)) / 64
    grid[:, :4] = rng.choice([-1.0, 0.0, 1.0, 2.0], (items, 4, rank))
    return grid


@pytest.mark.covering
@pytest.mark.parametrize("spatial", [(7,), (1, 4), (2, 5, 4)], ids=str)
@ALIGN
@BOUNDARY
def test_every_derivative_order_matches_the_reference(boundary, align_corners, spatial):
    rank = len(spatial)
    rng = cases.generator("orders", boundary, align_corners, spatial)
    image = cases.pixels(rng, (1, 2, *spatial))
    grid = exact_grid(rng, 2, 9, rank)
    values = cases.pixels(rng, (2, 2, 9))
    for modes in set(itertools.permutations((*cases.MODES, "cubic"), rank)):
        order = tuple(rng.integers(0, 4, rank).tolist())
        names = modes, (boundary,) * rank, align_corners
        plan = plan_of(image, grid, *names)
        expected = reference.gather(image, grid, *names, order)
        assert_close(gather(plan, image, grid, order), expected)
        expected = reference.scatter(values, grid, spatial, *names, order, batch=1)
        assert_close(sampling.scatter(plan, values, grid, order=order), expected)


@pytest.mark.covering(ordinary=0, slow=1)
@ALIGN
def test_backward_of_a_derivative_raises_its_order_by_one(align_corners):
    rng = cases.generator("backward", align_corners)
    image, grid = cases.pixels(rng, (2, 3, 4, 5)), exact_grid(rng, 2, 63, 2)
    plan = plan_of(image, grid, "cubic", ("reflection", "border"), align_corners)
    values = cases.pixels(rng, plan.shape)
    for order in ((0, 0), (1, 2), (2, 1)):
        call_arrays = sampling.CallArrays(image, grid, values)
        grad_image, gradient, *_ = sampling.backward(
            plan, call_arrays, sampling.NeededGradients(), order=order
        )
        assert_close(grad_image, sampling.scatter(plan, values, grid, order=order))
        for axis in range(2):
            raised = tuple(k + (a == axis) for a, k in enumerate(order))
            expected = np.sum(values * gather(plan, image, grid, raised), axis=1)
            assert_close(gradient[..., axis], expected)


def test_complex_values_are_scattered_as_two_real_ones():
    rng = cases.generator("complex")
    image, grid = cases.pixels(rng, (1, 2, 4, 5), "complex128"), rng.uniform(-1, 1, (2, 9, 2))
    plan = plan_of(image, grid, "linear", "zeros", False)
    values = cases.pixels(rng, plan.shape, "complex128")
    total = sampling.scatter(plan, values, grid)
    real = plan_of(image.real, grid, "linear", "zeros", False)
    for part in (np.real, np.imag):
        assert_close(part(total), sampling.scatter(real, part(values), grid))


@pytest.mark.parametrize("boundary", cases.BOUNDARIES)
def test_a_derivative_is_zero_where_a_coordinate_is_not_a_number(boundary):
    rng = cases.generator("nan", boundary)
    image, grid = cases.pixels(rng, (1, 2, 4, 5)), np.full((1, 3, 2), np.nan)
    grid[0, 1, 1] = 0.5
    plan = plan_of(image, grid, "linear", boundary, False)
    for order in ((1, 0), (0, 1), (1, 1)):
        assert not gather(plan, image, grid, order).any()
        assert not sampling.scatter(plan, np.full((1, 2, 3), np.nan), grid, order=order).any()
    assert np.isnan(gather(plan, image, grid)).all()
