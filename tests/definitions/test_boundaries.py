"""The boundary "dst1" against the explicitly extended image, and signs of fill values."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest
import torch

import gridsample
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.kernels import reference

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


@pytest.mark.covering
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
    for array, boundary in ((image, "dst1"), (period, "wrap")):
        options: dict[str, Any] = {"mode": mode, "padding_mode": boundary, "coords": "pixel"}
        results.append(
            (
                gridsample.grid_sample(array, grid, **options),
                *gridsample.grid_sample_vjp(values, array, grid, **options),
            )
        )
    (ours, by_image, by_grid), (expected, by_period, by_same) = results
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-13)
    np.testing.assert_allclose(by_image, folded(by_period, spatial), rtol=0, atol=1e-12)
    np.testing.assert_allclose(by_grid, by_same, rtol=0, atol=1e-12)


def test_pixels_on_the_mirrors_are_not_read() -> None:
    """No pixel is read there: a NaN elsewhere does not come back as 0 times NaN."""
    image = np.array([[[np.nan, 1.0, np.nan]]])
    at = np.array([-1.0, 3.0, 7.0, 1.0, 5.0]).reshape(1, -1, 1)
    result = gridsample.grid_sample(image, at, "nearest", "dst1", coords="pixel")
    assert result.ravel().tolist() == [0, 0, 0, 1, -1]


def test_dst1_zeros_stay_zero_beside_a_fill_value() -> None:
    image, at = np.ones((1, 1, 3, 3)), np.array([[[-2.0, -1.0], [-2.0, 1.0], [-2.0, -2.0]]])
    options: dict[str, Any] = {"coords": "pixel", "fill_value": 5}
    result = gridsample.grid_sample(image, at, "linear", ("constant", "dst1"), **options)
    assert result.ravel().tolist() == [0, 5, -5]


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "complex64"])
def test_signs_of_integers_and_complex_numbers(dtype: str) -> None:
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
def test_torch_interpol_names(theirs: str) -> None:
    """Its dst1 reads the first pixel as 0 (version 0.3.0), unlike its documentation."""
    interpol = pytest.importorskip("interpol")
    torch = pytest.importorskip("torch")
    rng = cases.generator("interpol", theirs)
    image = rng.standard_normal((1, 2, 5, 7))
    if theirs == "dst1":
        image[:, :, 0], image[..., 0] = 0, 0
    grid = rng.uniform(-5, 9, (1, 40, 2))
    expected = interpol.grid_pull(
        torch.from_numpy(image),
        torch.from_numpy(grid[..., ::-1].copy())[:, None],
        interpolation=1,
        bound=theirs,
        extrapolate=True,
    )
    ours = gridsample.grid_sample(image, grid, "linear", NAMES[theirs], coords="pixel")
    np.testing.assert_allclose(ours, expected[:, :, 0].numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("boundary", ["border", "reflection"])
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_beside_the_last_pixel_is_not_read(
    boundary: str, order: Any, aligned: bool, value: float
) -> None:
    """A position on the last pixel has that tap alone, however pixels are read."""
    image = np.arange(16.0).reshape(1, 1, 4, 4)
    image[..., 2] = np.nan
    image[..., 2, 3] = value
    image = np.array(image, order=order)
    positions = np.array([[[3, 0], [3, 1.5], [3, 2], [3, 3]]])
    out = gridsample.grid_sample(image, positions, "linear", boundary, aligned, coords="pixel")
    np.testing.assert_array_equal(out[0, 0], [3, value, value, 15])


def test_a_linear_axis_between_cubic_ones_in_a_table_of_taps() -> None:
    """Only its second tap may be dropped: the table must not take the first one for all."""
    image = np.arange(448.0).reshape(1, 4, 7, 4, 4)
    grid = np.array([[[1.5, 6, 2.5], [1.5, 9, 2.5], [1.5, -2, 2.5]]])
    modes, borders = ("cubic", "linear", "cubic"), ("border", "border", "border")
    result = gridsample.grid_sample(image, grid, modes, borders, coords="pixel", channel_axis=-1)
    planes = np.moveaxis(image, -1, 1)
    expected = reference.gather(planes, grid, modes, borders, False, coords="pixel")
    result = np.moveaxis(result, -1, 1)
    np.testing.assert_allclose(result, expected, rtol=1e-13)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 6])
def test_each_channel_has_its_fill_value_beside_points_in_the_image(
    dtype: str, channels: int
) -> None:
    image, fill = np.zeros((1, 8, 8, channels), dtype), 3.0 + np.arange(channels)
    points = np.array([[[20, 20], [3.25, 3.5], [-9, 4]] * 8])
    result = gridsample.grid_sample(
        image, points, "cubic", "constant", coords="pixel", fill_value=fill, channel_axis=-1
    )
    expected = np.tile([fill, 0 * fill, fill], (8, 1))[np.newaxis]
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8])
def test_ties_of_nearest_under_wrap(n: int) -> None:
    """As docs/boundaries.md says: the position is moved by whole periods before it is rounded."""
    x = np.arange(-6 * n, 6 * n + 1) / 2
    for image in (np.arange(float(n)), np.arange(n)):
        result = gridsample.grid_sample(
            image[None, None], x[None, :, None], "nearest", "wrap", coords="pixel"
        )
        np.testing.assert_array_equal(result[0, 0], np.mod(np.rint(np.fmod(x, n)), n))


@pytest.mark.parametrize("odd", [name for name, boundary in BOUNDARIES.items() if boundary.odd])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_the_fill_value_has_the_sign_of_a_pixel(odd: str, mode: str) -> None:
    """Under an odd boundary of another axis, as docs/boundaries.md says."""
    ones = np.ones((1, 1, 5, 5))
    y = np.array([-7.0, -5.5, -3.0, 2.0, 6.0, 8.25])
    outside_points = np.stack([np.full_like(y, 20), y], -1)[
        None
    ]  # x is far outside, where all is filled
    filled = gridsample.grid_sample(
        ones, outside_points, mode, ("constant", odd), coords="pixel", fill_value=7
    )
    column = gridsample.grid_sample(ones[..., 0], y[None, :, None], mode, odd, coords="pixel")
    np.testing.assert_allclose(filled, 7 * column, rtol=0, atol=1e-13)


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("odd", ["antisymmetric", "antimirror"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_the_fill_value_has_the_same_sign_beside_missing(odd: str, mode: str) -> None:
    """Ones are as if extended along an axis with `missing`, in values and in gradients."""
    rng = np.random.default_rng(5)
    ones, points = np.ones((1, 1, 5, 5, 5)), rng.uniform(-4, 9, (1, 200, 3))
    points[..., 0] = rng.uniform(0, 4, 200)  # some tap is in the image
    upstream = rng.standard_normal((1, 1, 200))
    expected, result = (
        (
            gridsample.grid_sample(ones, points, mode, names, coords="pixel", fill_value=7),
            gridsample.grid_sample_vjp(
                upstream, ones, points, mode, names, coords="pixel", fill_value=7
            )[1],
        )
        for names in ((other, "constant", odd) for other in ("border", "missing"))
    )
    assert (expected[0] < -6.9).any() and (expected[0] > 6.9).any()
    for actual, desired in zip(result, expected, strict=True):
        np.testing.assert_allclose(actual, desired, rtol=0, atol=1e-11)


def test_the_image_ends_at_its_edges_without_extrapolation() -> None:
    """By name, or at the outer edges in normalized coordinates that span them, else at centres."""
    row, n = np.ones((1, 1, 4)), 4
    x = np.array([-0.75, -0.25, 0.0, 3.0, 3.25, 3.75])
    edges, centres = [9, 1, 1, 1, 1, 9], [9, 9, 1, 1, 9, 9]
    for grid, options, expected in (
        ((2 * x + 1) / n - 1, {}, edges),
        (2 * x / (n - 1) - 1, {"align_corners": True}, centres),
        (x, {"coords": "pixel"}, centres),
    ):
        for end, ended in ((False, expected), ("edges", edges), ("centers", centres)):
            arguments: Any = (row, grid[None, :, None], "nearest", "border")
            keywords = {**options, "extrapolate": end, "fill_value": 9}
            result = gridsample.grid_sample(*arguments, **keywords)
            assert result[0, 0].tolist() == ended
            tensors = map(torch.from_numpy, arguments[:2])
            theirs = gridsample.grid_sample(*tensors, *arguments[2:], **keywords)
            assert theirs[0, 0].tolist() == ended
