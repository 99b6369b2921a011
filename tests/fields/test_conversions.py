"""Conversions of coordinates and matrices: round trips, and comparisons with other libraries."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
import skimage.transform
import torch
from scipy import ndimage

import gridsample
from gridsample import fields

Array = np.ndarray[Any, Any]

SIZES = [((63,), (7,)), ((5, 7), (4, 9)), ((1, 6), (3, 1)), ((5, 1, 6), (2, 4, 3))]
CONVENTIONS = ("opencv", "skimage", "scipy", "pixel")


def matrices(rank: int, items: int = 2) -> Array:
    """Random affine maps that are well away from singular."""
    rng = np.random.default_rng(rank)
    return rng.uniform(-0.4, 0.4, (items, rank, rank + 1)) + 1.5 * np.eye(rank, rank + 1)


def completed(maps: Array) -> Array:
    last = np.broadcast_to(np.eye(maps.shape[-1])[-1:], (len(maps), 1, maps.shape[-1]))
    return np.concatenate([maps, last], 1)


# Coordinates --------------------------------------------------------------------------------------


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [(63,), (5, 7), (3, 4, 6)], ids=str)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_units_round_trip(size: tuple[int, ...], align: bool, library: str) -> None:
    rank = len(size)
    grid: Any = np.random.default_rng(0).uniform(-20, 20, (2, *(4, 3, 2)[:rank], rank))
    if library == "torch":
        grid = torch.from_numpy(grid)
    for units in ("pixel", "displacement"):
        normalized = fields.to_normalized(grid, size, align, coords=units)
        convert = fields.to_pixel if units == "pixel" else fields.to_displacement
        assert type(normalized) is type(grid)
        assert normalized.dtype == grid.dtype
        np.testing.assert_allclose(convert(normalized, size, align), grid, rtol=0, atol=1e-12)
    positions = fields.to_pixel(grid, coords="displacement")
    back = fields.to_displacement(positions, coords="pixel")
    np.testing.assert_allclose(back, grid, rtol=0, atol=1e-12)


@pytest.mark.parametrize("align", [False, True])
def test_units_mean_what_sampling_means(align: bool) -> None:
    image = np.random.default_rng(0).standard_normal((2, 1, 5, 7))
    grid = np.random.default_rng(1).uniform(-1.1, 1.1, (2, 5, 7, 2))
    expected = gridsample.grid_sample(image, grid, "bicubic", "border", align)
    for units, convert in (("pixel", fields.to_pixel), ("displacement", fields.to_displacement)):
        turned = convert(grid, (5, 7), align)
        result = gridsample.grid_sample(image, turned, "bicubic", "border", coords=units)
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-13)


def test_an_axis_of_one_pixel_has_one_position() -> None:
    assert fields.to_pixel(np.array([[3.0]]), (1,), True) == 0
    assert fields.to_normalized(np.array([[0.0]]), (1,), True) == 0


def test_dtypes_are_kept_and_integers_are_pixels() -> None:
    for dtype in ("float16", "float32", "float64"):
        assert fields.to_normalized(np.zeros((2, 2), dtype), (4, 4)).dtype == dtype
    half = torch.zeros(2, 2, dtype=torch.bfloat16)
    assert fields.to_pixel(half, (4, 4)).dtype == torch.bfloat16
    assert fields.to_normalized([[0, 3]], (4, 4)).tolist() == [[-0.75, 0.75]]


def test_errors_of_units() -> None:
    grid = np.zeros((1, 3, 2))
    with pytest.raises(ValueError, match="size is missing"):
        fields.to_pixel(grid)
    with pytest.raises(ValueError, match=r"size must have 2 entries.* without N and C"):
        fields.to_pixel(grid, (1, 1, 4, 4))
    with pytest.raises(ValueError, match=r"size must be the spatial shape"):
        fields.to_pixel(grid, (0, 4))
    with pytest.raises(TypeError, match="size must be a sequence of integers"):
        fields.to_normalized(grid, (4.0, 4.0))
    with pytest.raises(ValueError, match="coords"):
        fields.to_normalized(grid, (4, 4), coords="pixels")
    with pytest.raises(ValueError, match=r"grid must be \(N, \*spatial, D\)"):
        fields.to_pixel(grid, coords="displacement")
    with pytest.raises(ValueError, match=r"movedim\(1, -1\)"):
        fields.to_displacement(np.zeros((1, 2, 5, 6)), coords="pixel")
    with pytest.raises(ValueError, match="1 to 8 components"):
        fields.to_pixel(np.zeros((1, 9)), (4,) * 9)
    with pytest.raises(TypeError, match="grid has dtype complex128"):
        fields.to_pixel(grid + 1j, (4, 4))


# Matrices -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize(("source", "target"), SIZES, ids=str)
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_matrices_round_trip(
    source: tuple[int, ...], target: tuple[int, ...], align: bool, convention: str
) -> None:
    rank = len(source)
    if convention == "skimage" and rank != 2:
        with pytest.raises(ValueError, match="convention 'skimage'"):
            fields.theta_from_matrix(matrices(rank), source, target, align, convention)
        return
    arrays = matrices(rank)
    theta = fields.theta_from_matrix(arrays, source, target, align, convention)
    back = fields.matrix_from_theta(theta, source, target, align, convention)
    np.testing.assert_allclose(back, completed(arrays), rtol=0, atol=1e-12)
    grid = gridsample.affine_grid(theta, (2, 1, *target), align)
    other = fields.homography_grid(arrays, source, target, align, convention)
    np.testing.assert_allclose(other, grid, rtol=0, atol=1e-12)
    single = fields.theta_from_matrix(completed(arrays)[1], source, target, align, convention)
    np.testing.assert_allclose(single, theta[1:], rtol=0, atol=1e-14)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_theta_round_trips_through_its_inverse(rank: int, align: bool) -> None:
    theta = matrices(rank)
    product = completed(fields.invert_theta(theta)) @ completed(theta)
    np.testing.assert_allclose(product, completed(np.eye(rank, rank + 1)[None])[[0, 0]], atol=1e-12)
    grid = gridsample.affine_grid(theta, (2, 1, *(4, 7, 63)[:rank]), align)
    np.testing.assert_allclose(fields.theta_from_grid(grid, align), theta, rtol=0, atol=1e-12)
    noise = np.random.default_rng(0).standard_normal(grid.shape)
    points = gridsample.identity_grid((2, 1, *grid.shape[1:-1]), align, dtype="float64")
    ones = np.ones((*points.shape[:-1], 1))
    flat = np.concatenate([points, ones], -1)[0].reshape(-1, rank + 1)
    best = [
        np.linalg.lstsq(flat, point.reshape(-1, rank), rcond=None)[0].T for point in grid + noise
    ]
    np.testing.assert_allclose(fields.theta_from_grid(grid + noise, align), best, atol=1e-12)


def ramps(size: tuple[int, ...]) -> Array:
    """Images of the positions x, y, z, which show where a sample was taken: (D, *size)."""
    return np.stack(np.meshgrid(*map(np.arange, size), indexing="ij")[::-1]).astype(float)


def places(maps: Array, source: tuple[int, ...], target: tuple[int, ...], convention: str) -> Array:
    """Where the grid of a matrix samples, in pixels, and NaN outside: (D, *target)."""
    theta = fields.theta_from_matrix(maps, source, target, convention=convention)
    grid = gridsample.affine_grid(theta, (1, 1, *target))
    fill = np.full(len(source), np.nan)
    result: Array = gridsample.grid_sample(
        ramps(source)[np.newaxis], grid, "bilinear", "constant", fill_value=fill, extrapolate=False
    )
    return result[0]


def assert_same_places(ours: Array, theirs: Array, atol: float) -> None:
    both = np.isfinite(ours) & np.isfinite(theirs)
    assert both.mean() > 0.3
    np.testing.assert_allclose(ours[both], theirs[both], rtol=0, atol=atol)


def test_matrices_of_opencv() -> None:
    source, target = (31, 40), (27, 50)
    # OpenCV rounds positions to 1/32 pixel; these are multiples of it.
    inverse = np.array([[0.75, 0.25, 3.0], [-0.25, 0.875, 4.5]])
    forward = cv2.invertAffineTransform(inverse)
    for matrix, flags, convention in ((forward, 1, "opencv"), (inverse, 17, "pixel")):
        theirs = [
            cv2.warpAffine(ramp, matrix, target[::-1], flags=flags, borderValue=float("nan"))
            for ramp in ramps(source)
        ]
        assert flags in (cv2.INTER_LINEAR, cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)
        assert_same_places(places(matrix, source, target, convention), np.stack(theirs), 1e-4)
    points = ramps(target).transpose(1, 2, 0)
    tilted = np.vstack([forward, [1e-3, 2e-3, 1]])
    theirs = cv2.perspectiveTransform(points, np.linalg.inv(tilted))
    grid = fields.homography_grid(tilted, source, target)
    np.testing.assert_allclose(fields.to_pixel(grid, source)[0], theirs, rtol=0, atol=1e-10)


def warped(image: Array, matrix: Array, target: tuple[int, ...]) -> Array:
    result: Array = skimage.transform.warp(
        image, matrix, output_shape=target, order=1, cval=np.nan, preserve_range=True
    )
    return result


def test_matrices_of_skimage() -> None:
    source, target = (31, 40), (27, 50)
    transform = skimage.transform.AffineTransform(
        scale=(1.1, 0.8), rotation=0.3, shear=0.1, translation=(3, -2)
    )
    matrix = transform.inverse.params
    theirs = [warped(ramp, matrix, target) for ramp in ramps(source)]
    assert_same_places(places(matrix, source, target, "skimage"), np.stack(theirs), 1e-10)
    forward = fields.theta_from_matrix(transform.params, source, target)
    theta = fields.theta_from_matrix(matrix, source, target, convention="skimage")
    np.testing.assert_allclose(forward, theta, rtol=0, atol=1e-12)
    tilted = matrix + np.array([[0, 0, 0], [0, 0, 0], [1e-3, 2e-3, 0]])
    theirs = [warped(ramp, tilted, target) for ramp in ramps(source)]
    grid = fields.homography_grid(tilted, source, target, convention="skimage", coords="pixel")
    assert_same_places(np.moveaxis(grid[0], -1, 0), np.stack(theirs), 1e-10)


@pytest.mark.parametrize(("source", "target"), [((31, 40), (27, 50)), ((9, 12, 10), (11, 8, 9))])
def test_matrices_of_scipy(source: tuple[int, ...], target: tuple[int, ...]) -> None:
    rank = len(source)
    matrix = matrices(rank)[0] * 0.6
    matrix[:, -1] = np.arange(rank)
    theirs = [
        ndimage.affine_transform(
            ramp, matrix[:, :-1], matrix[:, -1], target, order=1, mode="constant", cval=np.nan
        )
        for ramp in ramps(source)
    ]
    assert_same_places(places(matrix, source, target, "scipy"), np.stack(theirs), 1e-10)


def test_points_at_infinity_are_nan() -> None:
    tilt = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-0.5, 0.0, 1.0]])
    grid = fields.homography_grid(tilt, (2, 4), (2, 4), convention="pixel", coords="pixel")
    np.testing.assert_array_equal(grid[0, 0, :, 0], [0, 2, np.nan, -6])
    leaf = torch.tensor(tilt, requires_grad=True)
    result = fields.homography_grid(leaf, (2, 4), (2, 4), convention="pixel")
    (slope,) = torch.autograd.grad(result.nansum(), leaf)
    assert torch.isfinite(slope).all()


def test_errors_of_matrices() -> None:
    flat = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    size = (4, 4)
    with pytest.raises(ValueError, match="matrix is singular"):
        fields.theta_from_matrix(flat, size, size)
    with pytest.raises(ValueError, match="theta is singular"):
        fields.invert_theta(flat)
    with pytest.raises(ValueError, match="theta is singular"):
        fields.matrix_from_theta(flat, size, size)
    tilt = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.0, 1.0]])
    with pytest.raises(ValueError, match=r"matrix is not affine.*use homography_grid"):
        fields.theta_from_matrix(tilt, size, size)
    with pytest.raises(ValueError, match=r"matrix must be \(2, 3\) or \(3, 3\)"):
        fields.theta_from_matrix(np.eye(4), size, size)
    with pytest.raises(ValueError, match="output_size must have 2 entries"):
        fields.theta_from_matrix(flat, size, (4,))
    with pytest.raises(ValueError, match="convention"):
        fields.theta_from_matrix(flat, size, size, convention="cv2")
    with pytest.raises(ValueError, match=r"theta must be"):
        fields.invert_theta(np.zeros(3))
    with pytest.raises(ValueError, match="coords"):
        fields.homography_grid(tilt, size, size, coords="displacement")


# Tensors ------------------------------------------------------------------------------------------


def chain(matrix: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    """All conversions, one after another."""
    theta = fields.theta_from_matrix(matrix, (4, 5), (3, 2), True)
    theta = fields.invert_theta(theta) + fields.theta_from_grid(grid)
    again = fields.matrix_from_theta(theta, (4, 5), (3, 2), convention="scipy")
    result = fields.homography_grid(again, (4, 5), (3, 2), convention="scipy")
    result = fields.to_displacement(result + grid, (4, 5))
    return fields.to_normalized(result, (4, 5), coords="displacement")


def tensors() -> tuple[torch.Tensor, torch.Tensor]:
    grid = gridsample.identity_grid((1, 1, 3, 2), dtype="float64").copy()
    return torch.from_numpy(matrices(2, 1)), torch.from_numpy(grid)


def test_tensors_are_arrays_and_differentiable() -> None:
    leaves = [tensor.requires_grad_() for tensor in tensors()]
    arrays = chain(*[tensor.detach().numpy() for tensor in leaves])  # type: ignore[arg-type]
    np.testing.assert_allclose(chain(*leaves).detach(), arrays, rtol=0, atol=1e-13)
    assert torch.autograd.gradcheck(chain, leaves)
    assert torch.autograd.gradgradcheck(chain, leaves)


@pytest.mark.slow
def test_conversions_compile_without_a_break() -> None:
    leaves = tensors()
    torch.compiler.reset()
    compiled = torch.compile(chain, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*leaves), chain(*leaves))
