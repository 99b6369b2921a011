"""The boundary "dst1": what it is, by writing out the image that it stands for."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest

import gridsample

Array = np.ndarray[Any, Any]


def written_out(image: Array) -> Array:
    """One period of a b c d 0 -d -c -b -a 0 along each spatial axis of (N, C, *spatial)."""
    for axis in range(2, image.ndim):
        zero = np.zeros_like(image.take([0], axis))
        image = np.concatenate([image, zero, -np.flip(image, axis), zero], axis)
    return image


def folded(period: Array, spatial: tuple[int, ...]) -> Array:
    """The adjoint of `written_out`."""
    for axis, n in enumerate(spatial, start=2):
        first, back = period.take(range(n), axis), period.take(range(n + 1, 2 * n + 1), axis)
        period = first - np.flip(back, axis)
    return period


@pytest.mark.covering(ordinary=1, slow=2)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic", "spline3", "spline2"])
@pytest.mark.parametrize("spatial", [(7,), (1,), (5, 4), (1, 6), (3, 4, 2)], ids=str)
def test_dst1_is_an_odd_image_that_repeats(spatial: tuple[int, ...], mode: str) -> None:
    """Values and both gradients, over some periods; a spline's prefilter is exact."""
    rank = len(spatial)
    rng = cases.generator("dst1", spatial, mode)
    image, size = cases.pixels(rng, (2, 2, *spatial)), np.array(spatial[::-1])
    grid = rng.uniform(-3, 4, (2, 60, rank)) * (size + 1)
    grid[:, :20] = np.floor(grid[:, :20])  # whole pixels, and the zeros between them
    values, period = cases.pixels(rng, (2, 2, 60)), written_out(image)
    results = []
    for given, boundary in ((image, "dst1"), (period, "wrap")):
        how: dict[str, Any] = {"mode": mode, "padding_mode": boundary, "coords": "pixel"}
        results.append(
            (
                gridsample.grid_sample(given, grid, **how),
                *gridsample.grid_sample_vjp(values, given, grid, **how),
            )
        )
    (ours, by_image, by_grid), (expected, by_period, by_same) = results
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-13)
    np.testing.assert_allclose(by_image, folded(by_period, spatial), rtol=0, atol=1e-12)
    np.testing.assert_allclose(by_grid, by_same, rtol=0, atol=1e-12)


def test_what_lies_on_the_mirrors_is_not_read() -> None:
    """No pixel is read there: a NaN elsewhere does not come back as 0 times NaN."""
    image = np.array([[[np.nan, 1.0, np.nan]]])
    at = np.array([-1.0, 3.0, 7.0, 1.0, 5.0]).reshape(1, -1, 1)
    result = gridsample.grid_sample(image, at, "nearest", "dst1", coords="pixel")
    assert result.ravel().tolist() == [0, 0, 0, 1, -1]


def test_beside_a_fill_the_zeros_are_zeros() -> None:
    image, at = np.ones((1, 1, 3, 3)), np.array([[[-2.0, -1.0], [-2.0, 1.0], [-2.0, -2.0]]])
    how: dict[str, Any] = {"coords": "pixel", "fill_value": 5}
    result = gridsample.grid_sample(image, at, "linear", ("constant", "dst1"), **how)
    assert result.ravel().tolist() == [0, 5, -5]


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "complex64"])
def test_types(dtype: str) -> None:
    image = (np.arange(12).reshape(1, 1, 12) % 7 + 1).astype(dtype)
    at = np.arange(-14.0, 27).reshape(1, -1, 1)
    result = gridsample.grid_sample(image, at, "linear", "dst1", coords="pixel")
    line = np.resize(written_out(image.astype(complex)), (1, 1, 52))
    expected = np.roll(line, 14, -1)[..., :41]
    expected = expected if dtype == "complex64" else expected.real
    expected = np.maximum(expected, 0) if dtype == "uint8" else expected
    np.testing.assert_array_equal(result, expected.astype(image.dtype))


@pytest.mark.slow
def test_tensors_have_every_derivative() -> None:
    torch = pytest.importorskip("torch")
    rng = cases.generator("dst1 derivatives")
    image = torch.from_numpy(rng.standard_normal((1, 1, 3, 4))).requires_grad_()
    grid = torch.from_numpy(rng.uniform(-9, 9, (1, 5, 2))).requires_grad_()

    def function(image: Any, grid: Any) -> Any:
        return gridsample.grid_sample(image, grid, "cubic", "dst1", coords="pixel")

    assert torch.autograd.gradcheck(function, (image, grid))
    assert torch.autograd.gradgradcheck(function, (image, grid))


NAMES = {
    "dct1": "mirror",
    "dct2": "symmetric",
    "dst1": "dst1",
    "dst2": "antisymmetric",
    "dft": "wrap",
    "replicate": "border",
    "zero": "zeros",
}


@pytest.mark.parametrize("theirs", NAMES)
def test_torch_interpols_names(theirs: str) -> None:
    """Its dst1 reads the first pixel as 0 (version 0.3.0), unlike its documentation."""
    interpol = pytest.importorskip("interpol")
    torch = pytest.importorskip("torch")
    rng = cases.generator("interpol", theirs)
    image = rng.standard_normal((1, 2, 5, 7))
    if theirs == "dst1":
        image[:, :, 0], image[..., 0] = 0, 0
    grid = rng.uniform(-5, 9, (1, 40, 2))
    expected = interpol.grid_pull(
        torch.from_numpy(image), torch.from_numpy(grid[..., ::-1].copy())[:, None],
        interpolation=1, bound=theirs, extrapolate=True,
    )  # fmt: skip
    ours = gridsample.grid_sample(image, grid, "linear", NAMES[theirs], coords="pixel")
    np.testing.assert_allclose(ours, expected[:, :, 0].numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("boundary", ["border", "reflection"])
def test_a_nan_beside_the_last_pixel_is_no_tap_of_it(boundary, order):
    """A position on the last pixel has that tap alone, however pixels are read."""
    image = np.arange(16.0).reshape(1, 1, 4, 4)
    image[..., 2] = np.nan
    image = np.array(image, order=order)
    positions = np.array([[[3, 0], [3, 1.5], [3, 3]]])
    out = gridsample.grid_sample(image, positions, "linear", boundary, coords="pixel")
    assert out[0, 0].tolist() == [3, 9, 15]
