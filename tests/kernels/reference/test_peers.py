"""The reference against PyTorch where it has the same definition, and against SciPy."""

import itertools

import numpy as np
import pytest
import scipy.ndimage
import torch
from cases import MODES, coordinates, generator
from oracles import TORCH_NAMES, assert_close
from rows import ALIGN, BOUNDARY, MODE

from gridsample.kernels import reference


def identity(spatial, align_corners):
    """Every pixel's own place, rounded as other coordinates are."""
    indices = np.stack(np.indices(spatial)[::-1], axis=-1).astype(float)
    return coordinates(indices, spatial, align_corners)[None]


GRIDS = {
    "random": lambda rng, spatial: rng.uniform(-1.2, 1.2, (2, 4, *spatial[1:], len(spatial))),
    "identity-centres": lambda rng, spatial: np.repeat(identity(spatial, True), 2, axis=0),
    "identity-edges": lambda rng, spatial: np.repeat(identity(spatial, False), 2, axis=0),
    "far-out": lambda rng, spatial: rng.uniform(-30, 30, (2, 4, *spatial[1:], len(spatial))),
    "integers": lambda rng, spatial: rng.integers(-4, 5, (2, 4, *spatial[1:], len(spatial))).astype(
        float
    ),
}


def assert_agrees_with_torch(image, grid, mode, boundary, align_corners, rng):
    torch_image = torch.tensor(image, requires_grad=True)
    torch_grid = torch.tensor(grid, requires_grad=True)
    n = max(len(image), len(grid))
    expected = torch.nn.functional.grid_sample(
        torch_image.expand(n, *image.shape[1:]),
        torch_grid.expand(n, *grid.shape[1:]),
        TORCH_NAMES[mode],
        boundary,
        align_corners,
    )
    grad_output = rng.standard_normal(tuple(expected.shape))
    expected.backward(torch.tensor(grad_output))

    rank = grid.shape[-1]
    options = ((mode,) * rank, (boundary,) * rank, align_corners)
    assert_close(reference.gather(image, grid, *options), expected.detach().numpy())
    grad_input, grad_grid = reference.gradients(grad_output, image, grid, *options)
    assert_close(grad_input, torch_image.grad.numpy())
    assert_close(grad_grid, torch_grid.grad.numpy())


@pytest.mark.covering
@pytest.mark.parametrize("grid_name", GRIDS)
@ALIGN
@BOUNDARY
@pytest.mark.parametrize(
    ("mode", "spatial"),
    [
        ("nearest", (5, 7)),
        ("linear", (5, 7)),
        ("cubic", (5, 7)),
        ("nearest", (3, 4, 5)),
        ("linear", (3, 4, 5)),
    ],
)
def test_agrees_with_torch(mode, spatial, boundary, align_corners, grid_name):
    rng = generator(mode, spatial, boundary, align_corners, grid_name)
    image = rng.standard_normal((2, 2, *spatial))
    grid = GRIDS[grid_name](rng, spatial)
    assert_agrees_with_torch(image, grid, mode, boundary, align_corners, rng)


@pytest.mark.covering
@pytest.mark.parametrize(
    ("mode", "spatial"),
    [
        *itertools.product(MODES, [(1, 6), (7, 1), (1, 1), (63, 2)]),
        *itertools.product(MODES[:2], [(1, 3, 2), (2, 1, 7), (1, 1, 1)]),
    ],
)
@ALIGN
@BOUNDARY
def test_agrees_with_torch_at_awkward_sizes(mode, spatial, boundary, align_corners):
    rng = generator(mode, spatial, boundary, align_corners)
    image = rng.standard_normal((2, 1, *spatial))
    grid = rng.uniform(-4, 4, (2, *[3] * len(spatial), len(spatial)))
    assert_agrees_with_torch(image, grid, mode, boundary, align_corners, rng)


@MODE
@pytest.mark.parametrize(("n_image", "n_grid"), [(1, 3), (3, 1)])
def test_agrees_with_torch_when_items_broadcast(mode, n_image, n_grid):
    rng = generator(mode, n_image)
    image = rng.standard_normal((n_image, 2, 4, 3))
    grid = rng.uniform(-1.2, 1.2, (n_grid, 2, 5, 2))
    assert_agrees_with_torch(image, grid, mode, "reflection", False, rng)


# Against SciPy, at ranks that PyTorch lacks -----------------------------------------------------


@pytest.mark.parametrize("spatial", [(7,), (2, 3, 4), (3, 2, 3, 2)], ids=str)
@ALIGN
@BOUNDARY
def test_linear_agrees_with_scipy_at_any_rank(spatial, boundary, align_corners):
    rng = generator(spatial, boundary, align_corners)
    rank = len(spatial)
    image = rng.standard_normal((1, 1, *spatial))
    positions = rng.uniform(-9, 12, (1, 20, rank))
    scipy_mode = {
        "zeros": "grid-constant",
        "border": "nearest",
        "reflection": "mirror" if align_corners else "reflect",
    }[boundary]
    expected = scipy.ndimage.map_coordinates(
        image[0, 0], positions[0, :, ::-1].T, order=1, mode=scipy_mode
    )
    actual = reference.gather(
        image,
        coordinates(positions, spatial, align_corners),
        ("linear",) * rank,
        (boundary,) * rank,
        align_corners,
    )
    assert_close(actual[0, 0], expected)


SCIPY_MODES = {
    "constant": "grid-constant",
    "border": "nearest",
    "symmetric": "reflect",
    "mirror": "mirror",
    "wrap": "grid-wrap",
}


@pytest.mark.parametrize("spatial", [(7,), (5, 4), (3, 4, 2)], ids=str)
@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("boundary", SCIPY_MODES)
def test_splines_agree_with_scipy(boundary, order, spatial):
    rng, rank = generator(boundary, order, spatial), len(spatial)
    image = rng.standard_normal((1, 1, *spatial))
    positions = rng.uniform(-9, 12, (1, 20, rank))
    expected = scipy.ndimage.map_coordinates(
        image[0, 0],
        positions[0, :, ::-1].T,
        order=order,
        mode=SCIPY_MODES[boundary],
        cval=3.5,
        prefilter=False,
    )
    actual = reference.gather(
        image,
        positions,
        (f"spline{order}",) * rank,
        (boundary,) * rank,
        False,
        coords="pixel",
        fill=3.5,
    )
    assert_close(actual[0, 0], expected)
