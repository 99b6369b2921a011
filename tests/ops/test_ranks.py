"""Images with more than three axes: every function, against plain loops and SciPy."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import cases
import numpy as np
import pytest
import scipy.ndimage
import torch
from oracles import assert_close

import gridsample
import gridsample.fields
import gridsample.ndimage
from gridsample.definitions.options import Options
from gridsample.definitions.shapes import MAX_RANK, axis_name
from gridsample.kernels import reference

Array = np.ndarray[Any, Any]

# Methods and boundaries of the axes, x first: those of nearest and cubic taps, folded and dropped.
MIXED: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {
    4: (("linear", "cubic", "nearest", "linear"), ("zeros", "mirror", "border", "wrap")),
    8: (("linear",) * 8, ("border",) * 8),
}
LINEAR: dict[str, Any] = {"mode": "linear", "padding_mode": "border", "coords": "pixel"}
RANKS = [4, pytest.param(8, marks=pytest.mark.slow)]


@functools.cache
def arrays(rank: int, points: int = 7) -> tuple[Array, Array]:
    """An image with sizes that differ, and points that are inside and outside it."""
    rng = cases.generator("rank", rank)
    spatial = tuple(itertools.islice(itertools.cycle((3, 2, 4)), rank)) if rank < 6 else (2,) * rank
    return cases.pixels(rng, (1, 2, *spatial)), rng.uniform(-1, 3, (1, points, rank))


def matrix_of(spatial: tuple[int, ...], grid: Array, names: Any) -> Array:
    """The matrix (points, pixels) of sampling, by the reference."""
    pixels = int(np.prod(spatial))
    every = np.eye(pixels).reshape(1, pixels, *spatial)
    result = reference.gather(every, grid, *names, False, coords="pixel")
    return np.asarray(result[0].T)


# Sampling -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", RANKS)
def test_samples_and_gradients_are_those_of_plain_loops(rank: int) -> None:
    image, grid = arrays(rank)
    modes, boundaries = MIXED[rank]
    values = cases.pixels(cases.generator("values"), (1, 2, 7))
    options: dict[str, Any] = {"mode": modes, "padding_mode": boundaries, "coords": "pixel"}
    sampled = gridsample.grid_sample(image, grid, **options)
    names = modes, boundaries, False
    assert_close(sampled, reference.gather(image, grid, *names, coords="pixel"))
    gradients = gridsample.grid_sample_vjp(values, image, grid, **options)
    expected = reference.gradients(values, image, grid, *names, coords="pixel")
    for actual, exact in zip(gradients, expected, strict=True):
        assert_close(actual, exact)
    splatted = gridsample.splat(values, grid, image.shape[2:], **options)
    assert_close(splatted, gradients[0])


def test_linear_samples_are_interpolated_axis_by_axis() -> None:
    for rank in range(5, MAX_RANK + 1):
        image = cases.pixels(cases.generator("corners", rank), (1, 1, *(2,) * rank), "float32")
        t = cases.generator("fractions").uniform(0, 1, rank)
        expected = image[0, 0].astype(float)
        for share in t[::-1]:  # the first axis of the array is the last of the coordinates
            expected = (1 - share) * expected[0] + share * expected[1]
        actual = gridsample.grid_sample(image, t[np.newaxis, np.newaxis], **LINEAR)
        assert abs(actual.item() - expected) < 2.0**-22 * np.abs(image).max()


def test_derivatives_along_the_grid() -> None:
    image, grid = arrays(4)
    options: dict[str, Any] = {"mode": "linear", "padding_mode": "wrap", "coords": "pixel"}
    names = ("linear",) * 4, ("wrap",) * 4, False
    gradient = gridsample.grid_gradient(image, grid, **options)
    hessian = gridsample.grid_hessian(image, grid, **options)
    for a, b in itertools.combinations_with_replacement(range(4), 2):
        order = [(k == a) + (k == b) for k in range(4)]
        expected = reference.gather(image, grid, *names, order, coords="pixel")
        assert_close(hessian[..., a, b], expected)
        np.testing.assert_array_equal(hessian[..., a, b], hessian[..., b, a])
    for a in range(4):
        order = [int(k == a) for k in range(4)]
        expected = reference.gather(image, grid, *names, order, coords="pixel")
        assert_close(gradient[..., a], expected)


def test_channels_last_of_pixels_of_several_numbers() -> None:
    image, grid = arrays(5)
    last = np.ascontiguousarray(np.moveaxis(np.repeat(image, 3, 1), 1, -1).astype("float32"))
    actual = gridsample.grid_sample(last, grid, channel_axis=-1, **LINEAR)
    expected = gridsample.grid_sample(image, grid, **LINEAR)
    np.testing.assert_allclose(actual[..., ::3], np.moveaxis(expected, 1, -1), atol=1e-5)


def test_missing_pixels_weights_mask_and_labels() -> None:
    image, grid = arrays(4, 9)
    spatial, names = image.shape[2:], (("linear",) * 4, ("border",) * 4)
    matrix = matrix_of(spatial, grid, names)
    rng = cases.generator("weights")
    weights, gaps = rng.uniform(0.5, 1, (1, 1, *spatial)), rng.random(image.shape) < 0.1
    holes = np.where(gaps, np.nan, image)
    shares = np.where(gaps, 0, weights).reshape(2, -1)
    result, total = gridsample.grid_sample(
        holes, grid, missing="ignore", weights=weights, return_weight=True, **LINEAR
    )
    assert_close(total[0], shares @ matrix.T)
    assert_close(result[0] * total[0], (shares * image.reshape(2, -1)) @ matrix.T)

    _, mask = gridsample.grid_sample(
        image, grid, "linear", "zeros", coords="pixel", return_mask=True
    )
    inside = matrix_of(spatial, grid, (("linear",) * 4, ("zeros",) * 4)).sum(1)
    assert_close(mask.ravel(), inside)

    labels = rng.integers(0, 3, (1, 1, *spatial)).astype(np.int16)
    votes = [matrix @ (labels.ravel() == label) for label in range(3)]
    winners = gridsample.grid_sample(labels, grid, **{**LINEAR, "mode": "label"})
    np.testing.assert_array_equal(winners.ravel(), np.argmax(votes, axis=0))


def test_affine_maps_are_grids() -> None:
    image, _ = arrays(4)
    size = (1, 2, 2, 3, 2, 2)
    rng = cases.generator("maps")
    theta = np.concatenate([np.eye(4), np.zeros((4, 1))], 1) + rng.uniform(-0.2, 0.2, (1, 4, 5))
    grid = gridsample.affine_grid(theta, size)
    values = cases.pixels(rng, size)
    actual = gridsample.affine_sample(image, theta, size, mode="linear")
    assert_close(actual, gridsample.grid_sample(image, grid, mode="linear"))
    by_image, by_theta = gridsample.affine_sample_vjp(values, image, theta, size, mode="linear")
    expected, by_grid = gridsample.grid_sample_vjp(values, image, grid, mode="linear")
    assert_close(by_image, expected)
    own = gridsample.identity_grid(size, dtype="float64")
    ones = np.concatenate([own, np.ones((*own.shape[:-1], 1))], -1)
    assert_close(by_theta[0], by_grid.reshape(-1, 4).T @ ones.reshape(-1, 5))


def test_resizing_is_that_of_each_axis() -> None:
    image, _ = arrays(4)  # 3, 2, 4, 3
    options: dict[str, Any] = {"mode": "cubic", "antialias": True}
    actual = gridsample.interpolate(image, (2, 3, 2, 5), **options)
    lines = image.reshape(2, 6, 4, 3)
    lines = gridsample.interpolate(lines, (2, 5), **options).reshape(2, 3, 2, 10)
    lines = np.moveaxis(lines, -1, 1).reshape(1, 20, 3, 2)
    lines = gridsample.interpolate(lines, (2, 3), **options).reshape(2, 10, 2, 3)
    assert_close(actual, np.moveaxis(lines, 1, -1).reshape(1, 2, 2, 3, 2, 5))


# SciPy's functions --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["mirror", pytest.param("constant", marks=pytest.mark.slow)])
def test_splines_are_those_of_scipy(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridsample.ndimage.scipys.scipy_originals", None)  # nothing is forwarded
    rng = cases.generator("splines", mode)
    image, places = rng.standard_normal((4, 5, 3, 4)), rng.uniform(-1, 4, (4, 9))
    actual = gridsample.ndimage.map_coordinates(image, places, mode=mode)
    assert_close(actual, scipy.ndimage.map_coordinates(image, places, mode=mode), 1e-13)
    matrix = np.eye(4) + rng.uniform(-0.1, 0.1, (4, 4))
    actual = gridsample.ndimage.affine_transform(image, matrix, 0.2, order=1, mode=mode)
    expected = scipy.ndimage.affine_transform(image, matrix, 0.2, order=1, mode=mode)
    assert_close(actual, expected)


def test_spline_coefficients_and_samples_of_pixels() -> None:
    image, _ = arrays(4)
    filtered = gridsample.spline_filter(image, 3, "mirror")
    assert_close(filtered[0, 1], scipy.ndimage.spline_filter(image[0, 1], 3, mode="mirror"), 1e-13)


# Other libraries ----------------------------------------------------------------------------------


def test_tensors_have_derivatives_and_compile() -> None:
    image, grid = (torch.from_numpy(array[..., :3]) for array in arrays(4, 3))
    image, grid = image[:, :1].clone().requires_grad_(), torch.rand(1, 3, 4, dtype=torch.float64)
    grid = (grid * 0.8 + 0.1).requires_grad_()
    sample = functools.partial(gridsample.grid_sample, **LINEAR)
    assert torch.autograd.gradcheck(sample, (image, grid), fast_mode=True)
    assert torch.autograd.gradgradcheck(sample, (image, grid), fast_mode=True)
    expected = sample(image, grid)
    compiled = torch.compile(sample, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(image, grid), expected)
    stacked = torch.func.vmap(sample)(image[None], grid[None])
    torch.testing.assert_close(stacked[0], expected)


def test_jax_arrays() -> None:
    jax = pytest.importorskip("jax")
    image, grid = (array.astype("float32") for array in arrays(4))
    sample = functools.partial(gridsample.grid_sample, **LINEAR)
    ones = np.ones((1, 2, 7), "float32")
    by_image, by_grid = gridsample.grid_sample_vjp(ones, image, grid, **LINEAR)
    gradients = jax.jit(jax.grad(lambda *both: sample(*both).sum(), (0, 1)))(image, grid)
    np.testing.assert_allclose(gradients[0], by_image, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradients[1], by_grid, rtol=1e-5, atol=1e-5)


def test_dask_arrays() -> None:
    dask = pytest.importorskip("dask.array")
    import gridsample.dask

    image, grid = arrays(4)
    lazy = dask.from_array(image, chunks=(1, 2, 2, 2, 2, 2))
    result = gridsample.dask.grid_sample(lazy, grid, **LINEAR).compute(scheduler="synchronous")
    np.testing.assert_array_equal(result, gridsample.grid_sample(image, grid, **LINEAR))


# Fields -------------------------------------------------------------------------------------------


def test_determinants_of_displacement_fields() -> None:
    field = cases.pixels(cases.generator("field"), (1, 3, 2, 3, 2, 4))
    jacobian = gridsample.fields.jacobian(field)
    assert_close(gridsample.fields.jacobian_determinant(field), np.linalg.det(jacobian))


def test_a_check_of_a_grid_numbers_its_axes() -> None:
    text = str(gridsample.check_grid(np.zeros((1, 3, 5)), (2,) * 5))
    assert "z 0.5 to 0.5, axis 3 0.5 to 0.5, axis 4" in text


# Errors -------------------------------------------------------------------------------------------


def test_ranks_that_are_refused() -> None:
    image, grid = arrays(4)
    with pytest.raises(ValueError, match="1 to 8 spatial axes"):
        gridsample.grid_sample(np.zeros((1,) * 11), np.zeros((1, 3, 9)))
    with pytest.raises(ValueError, match="x, y, z, axis 3; got grid shape"):
        gridsample.grid_sample(image, grid[..., :2])
    with pytest.raises(ValueError, match=r"4 \(x, y, z, axis 3\), got 2"):
        gridsample.grid_sample(image, grid, ("linear", "cubic"))
    with pytest.raises(ValueError, match=r"\(axis 3, depth, height, width\), got 2"):
        gridsample.interpolate(image, (2, 2))
    dense, theta = np.zeros((1, 2, 2, 2, 2, 4)), np.eye(4, 5)[np.newaxis]
    for refused in (
        lambda: gridsample.grid_sample(image, dense, antialias=True),
        lambda: gridsample.affine_sample(image, theta, (1, 2, 2, 2, 2, 2), antialias=True),
        lambda: gridsample.footprint(dense, (3, 2, 4, 3)),
    ):
        with pytest.raises(ValueError, match="footprints in images with 1 to 3 spatial axes"):
            refused()
    assert axis_name(2) == "z"


def test_gpu_kernels_refuse_more_than_three_axes() -> None:
    """Nothing is launched: this holds without a GPU, too."""
    cuda = pytest.importorskip("gridsample.backends.torch.cuda")
    image, grid = (torch.from_numpy(array) for array in arrays(4))
    values = torch.ones(1, 2, 7, dtype=torch.float64)
    options = Options(
        mode=("linear",) * 4, padding_mode=("zeros",) * 4, align_corners=False, order=(0,) * 4
    )
    for refused in (
        lambda: cuda.gather_on_gpu(image, grid, options),
        lambda: cuda.scatter_on_gpu(values, grid, image.shape, options),
        lambda: cuda.backward_on_gpu(values, image, grid, (True, True), options),
    ):
        with pytest.raises(ValueError, match="4 spatial axes; accepted on a GPU: 1 to 3"):
            refused()


def resized_axis_by_axis(image: Array, size: Sequence[int], mode: Any) -> Array:
    """Resize each axis of an image as a line."""
    for axis, n in enumerate(size, start=2):
        lines = np.moveaxis(image, axis, -1)
        rows = np.ascontiguousarray(lines).reshape(1, -1, lines.shape[-1])
        resized = gridsample.interpolate(rows, (n,), mode=mode)
        image = np.moveaxis(resized.reshape(*lines.shape[:-1], n), -1, axis)
    return image


@pytest.mark.covering
@pytest.mark.parametrize("layout", ["contiguous", "gaps", "reversed", "transposed", "swapped"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "catmull-rom", "spline3"])
@pytest.mark.parametrize("dtype", ["int16", "uint8", "float64"])
@pytest.mark.parametrize(
    ("spatial", "size"),
    [((5, 4, 3, 6), (3, 6, 2, 9)), ((2, 3, 1, 2, 4), (3, 2, 2, 1, 7)), ((2,) * 8, (1, 3) * 4)],
)
def test_resizing_in_any_layout(
    spatial: tuple[int, ...], size: tuple[int, ...], dtype: str, mode: Any, layout: str
) -> None:
    """More than three axes: a program reads strides of three, and copies pixels along three."""
    image = cases.pixels(cases.generator("ranks", dtype, len(spatial)), (2, 3, *spatial), dtype)
    other: Any = {
        "contiguous": image,
        "gaps": np.repeat(image, 2, -1)[..., ::2],
        "reversed": image[..., ::-1].copy()[..., ::-1],
        "transposed": np.asfortranarray(image),
        "swapped": image.astype(image.dtype.newbyteorder()),
    }[layout]
    result = gridsample.interpolate(other, size, mode=mode)
    exact = mode == "nearest"
    expected = resized_axis_by_axis(image if exact else image.astype(float), size, mode)
    if exact:
        np.testing.assert_array_equal(result, expected)
        return
    if dtype != "float64":
        limits = np.iinfo(dtype)
        expected = expected.clip(limits.min, limits.max)
    # Integers are summed in single precision, and rounded.
    rounding = 16 * np.finfo(np.float32).eps * np.abs(expected).max()
    near = 1e-12 * np.abs(expected).max() if dtype == "float64" else 0.5 + rounding
    np.testing.assert_allclose(result.astype(float), expected, rtol=0, atol=near)
