"""Coordinates of axes: tables whose pixels are at any distances, sampled in one call."""

from __future__ import annotations

import gc
import pickle
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from scipy.interpolate import RegularGridInterpolator

import gridsample
from gridsample import Axes
from gridsample.definitions import caches
from gridsample.fields import to_pixel

Array = np.ndarray[Any, Any]

# x increases, y decreases, z is equidistant but for rounding.
X = np.array([-3.0, -1.0, 0.5, 0.75, 4.0])
Y = np.array([9.0, 7.5, 7.0, 1.0])
Z = np.linspace(2, 2.7, 7)
AXES = Axes(X, Y, Z)


def table(items: int = 1, channels: int = 2) -> Array:
    return np.random.default_rng(1).standard_normal((items, channels, 7, 4, 5))


def points(beyond: float = 1.0, count: int = 100) -> Array:
    """Points (1, n, 3), of which some are outside, or not numbers."""
    rng = np.random.default_rng(0)
    grid = np.stack([rng.uniform(min(a) - beyond, max(a) + beyond, (1, count)) for a in AXES_], -1)
    grid[0, 3, 1] = np.nan
    return grid


AXES_ = X, Y, Z


def slopes(grid: Array) -> Array:
    """Pixels per unit of the coordinates at the points of a grid."""
    columns = []
    for a, axis in enumerate(AXES_):
        rising = axis if axis[-1] > axis[0] else axis[::-1]
        number = np.searchsorted(rising, grid[..., a], "right") - 1
        steps = 1 / np.diff(rising)
        steps = steps if rising is axis else -steps
        columns.append(steps[np.clip(number, 0, len(axis) - 2)])
    return np.stack(columns, -1)


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_linear_samples_are_those_of_scipy(rank: int) -> None:
    rng = np.random.default_rng(rank)
    axes = [np.cumsum(rng.uniform(0.1, 3, n)) for n in (9, 6, 3, 4)[:rank]]
    axes[-1] = axes[-1][::-1].astype("float32")
    values = rng.standard_normal([len(a) for a in axes])
    inside = np.stack([rng.uniform(a.min(), a.max(), 300) for a in axes], -1)
    inside[: len(axes[0]), 0] = axes[0]  # at the coordinates themselves, the ends included
    actual = gridsample.grid_sample(
        values[None, None], inside[None, :, ::-1], "linear", "border", coords=axes[::-1]
    )
    expected = RegularGridInterpolator(axes, values)(inside)
    np.testing.assert_allclose(actual[0, 0], expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("mode", "padding_mode"),
    [
        ("linear", "zeros"),
        ("linear", "border"),
        ("linear", "antimirror"),
        ("nearest", "reflection"),
    ],
)
def test_samples_and_gradients_are_those_at_the_positions(mode: str, padding_mode: str) -> None:
    """Also where pixels are long, whose channels are lanes, and in lists of a few points."""
    for channels, grid in ((2, points(9)), (12, points(9)), (2, points(9, 5))):
        values, pixels = table(1, channels), to_pixel(grid, coords=AXES_)
        values = values.transpose(0, 2, 3, 4, 1) if channels > 2 else values
        options: dict[str, Any] = {"channel_axis": -1 if channels > 2 else 1}
        plain = gridsample.grid_sample(
            values, pixels, mode, padding_mode, coords="pixel", **options
        )
        actual = gridsample.grid_sample(values, grid, mode, padding_mode, coords=AXES, **options)
        np.testing.assert_allclose(actual, plain, rtol=0, atol=1e-12)
        upstream = np.random.default_rng(2).standard_normal(actual.shape)
        arrays = upstream, values
        expected = gridsample.grid_sample_vjp(
            *arrays, pixels, mode, padding_mode, coords="pixel", **options
        )
        gradients = gridsample.grid_sample_vjp(
            *arrays, grid, mode, padding_mode, coords=AXES, **options
        )
        np.testing.assert_allclose(gradients[0], expected[0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(gradients[1], expected[1] * slopes(grid), rtol=0, atol=1e-10)


def test_the_other_operations_take_the_same_units() -> None:
    grid, values = points(0.2), table()
    pixels = to_pixel(grid, coords=AXES_)
    holes = values.copy()
    holes[0, 0, 2:4, 1, 2] = np.nan
    weights, labels = np.abs(table(1, 1)), (table() * 3).astype(int)
    flags = {"missing": "ignore", "return_mask": True, "return_weight": True}

    def same(function: Any, *arrays: Any, **options: Any) -> tuple[Any, Any]:
        """Compute the result of both units, and compare the parts that are no derivatives."""
        actual = function(*arrays, coords=AXES, **options)
        at = function(*[pixels if a is grid else a for a in arrays], coords="pixel", **options)
        return actual, at

    for actual, expected in zip(
        *same(gridsample.grid_sample, holes, grid, weights=weights, **flags), strict=True
    ):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(*same(gridsample.grid_sample, labels, grid, mode="label"))
    np.testing.assert_allclose(
        *same(gridsample.splat, table()[:, :, 0, 0][..., :1] + np.zeros(100), grid, (7, 4, 5)),
        rtol=0,
        atol=1e-11,
    )
    gradient, in_pixels = same(gridsample.grid_gradient, values, grid)
    factors = slopes(grid)[:, np.newaxis]
    np.testing.assert_allclose(gradient, in_pixels * factors, rtol=0, atol=1e-10)
    hessian, in_pixels = same(gridsample.grid_hessian, values, grid)
    scaled = in_pixels * factors[..., np.newaxis] * factors[..., np.newaxis, :]
    np.testing.assert_allclose(hessian, scaled, rtol=0, atol=1e-8)


def test_single_precision_does_not_lose_the_place_in_an_interval() -> None:
    axis = np.cumsum(np.random.default_rng(0).uniform(0.5, 1.5, 4000)) / 4000
    grid = np.random.default_rng(1).uniform(axis[0], axis[-1], (1, 1000, 1)).astype("float32")
    numbers = (np.arange(4000) % 2)[None, None].astype("float32")
    left = np.searchsorted(axis, grid[0, :, 0].astype(float), "right") - 1
    exact = (grid[0, :, 0] - axis[left]) / np.diff(axis)[left]
    expected = np.where(left % 2 == 0, exact, 1 - exact)
    for array in (numbers, torch.from_numpy(numbers), jnp.asarray(numbers)):
        library = {np.ndarray: np, torch.Tensor: torch}.get(type(array), jnp)
        sampled = gridsample.grid_sample(array, library.asarray(grid), coords=(axis,))
        assert str(sampled.dtype).endswith("float32")
        np.testing.assert_allclose(np.asarray(sampled)[0, 0], expected, rtol=0, atol=3e-7)


@pytest.mark.parametrize("kind", ["clustered", "logarithmic", "integers", "two"])
def test_axes_of_all_kinds_are_searched(kind: str) -> None:
    rng = np.random.default_rng(0)
    axis = {
        "clustered": np.concatenate([np.linspace(0, 1e-9, 300), [0.5], 7 + 1e-9 * np.arange(70)]),
        "logarithmic": np.geomspace(1e-9, 1e9, 500),
        "integers": np.cumsum(rng.integers(1, 9, 100)).astype("int16"),
        "two": np.array([3.0, 5.0]),
    }[kind]
    numbers = np.arange(len(axis), dtype=float)[None, None]
    middles = (axis[1:] * 0.5 + axis[:-1] * 0.5).astype(float)
    for given in (axis, axis[::-1]):
        at = np.concatenate([given, middles, rng.permutation(middles)])[None, :, None]
        expected = to_pixel(at.astype(float), coords=(given,))[..., 0]
        actual = gridsample.grid_sample(
            numbers, at.astype(float), padding_mode="border", coords=(given,)
        )
        np.testing.assert_allclose(actual[0], expected, rtol=1e-15, atol=1e-15)


def test_the_coordinates_at_the_ends_are_not_outside() -> None:
    """Where the image ends at its outermost centres; also if equidistant numbers are rounded."""
    rng = np.random.default_rng(0)
    for low, high in rng.uniform(-9, 9, (60, 2)):
        for axis in (np.linspace(low, high, 37), np.sort(rng.uniform(-9, 9, 37))):
            sampled = gridsample.grid_sample(
                np.ones((1, 1, 37)), axis[None, :, None], coords=(axis,), extrapolate=False
            )
            np.testing.assert_allclose(sampled, 1, rtol=1e-14)
            beyond = np.nextafter([axis.min(), axis.max()], [-99, 99])[None, :, None]
            for given in (axis, axis[::-1]):
                sampled = gridsample.grid_sample(
                    np.ones((1, 1, 37)), beyond, coords=(given,), extrapolate=False
                )
                assert not sampled.any()


def test_a_pixel_beside_a_coordinate_of_the_axis_counts_only_on_its_right() -> None:
    values = np.array([[[0.0, 1.0, np.nan, 3.0, 4.0]]])
    at = X[None, :, None]
    sampled = gridsample.grid_sample(values, at, padding_mode="border", coords=(X,))
    np.testing.assert_array_equal(sampled[0, 0], [0, np.nan, np.nan, 3, 4])


def test_the_slope_at_a_coordinate_of_the_axis_is_that_on_its_right() -> None:
    """Pixels and the slope of the position are those of one interval."""
    values = np.array([[[0.0, 1.0, 5.0, 3.0, 4.0]]])
    right = np.diff(values[0, 0]) / np.diff(X)
    for axis, pixels in ((X, values), (-X, values)):
        at = axis[None, :-1, None]
        slope = gridsample.grid_gradient(pixels, at, padding_mode="wrap", coords=(axis,))
        np.testing.assert_allclose(slope[0, 0, :, 0], right * np.sign(axis[-1] - axis[0]))


def test_names_and_arrays_are_mixed() -> None:
    grid = points(0)
    grid[..., 1:] = np.random.default_rng(3).uniform(-1, 1, grid[..., 1:].shape)
    mixed = X, "normalized", "pixel"
    np.testing.assert_allclose(
        gridsample.grid_sample(table(), grid, "linear", "border", coords=mixed),
        gridsample.grid_sample(
            table(), to_pixel(grid, (7, 4, 5), coords=mixed), "linear", "border", coords="pixel"
        ),
        rtol=0,
        atol=1e-14,
    )


def test_wide_methods_need_equal_distances() -> None:
    grid, values = points(), table()
    modes = "linear", "nearest", "cubic"
    np.testing.assert_allclose(
        gridsample.grid_sample(values, grid, modes, coords=AXES),
        gridsample.grid_sample(values, to_pixel(grid, coords=AXES_), modes, coords="pixel"),
        rtol=0,
        atol=1e-13,
    )
    with pytest.raises(ValueError, match=r"mode 'cubic' reads 4 pixels along y, .* for equal"):
        gridsample.grid_sample(values, grid, ("linear", "cubic", "linear"), coords=AXES)


@pytest.mark.parametrize(
    ("coords", "error", "words"),
    [
        ((X, Y), ValueError, r"one entry per axis of the image: 3 \(x, y, z\), got 2"),
        ((X[:4], Y, Z), ValueError, "along x has 4 entries, but the image has 5 pixels there"),
        ((X, np.array([4.0, 3, 3, 1]), Z), ValueError, "along y .* entry 2 is 3.0, after 3.0"),
        ((X, Y, np.full(7, np.nan)), ValueError, "along z must be finite .* entry 0 is nan"),
        (([1.0], Y, Z), ValueError, r"along x must be 1-D with two entries or more, got .*\(1,\)"),
        ((X, [-1e308, 0, 5, 1e308], Z), ValueError, "along y .* an extent of inf"),
        ((X, Y * 1e-310, Z), ValueError, "along y must have distances of at least 1e-300"),
        (X, TypeError, "coords must be one of 'normalized', .* or have an entry for each axis"),
        ((X[None], Y, Z), ValueError, r"along x must be 1-D .* got shape \(1, 5\)"),
        ((X, "displacement", Z), ValueError, "'displacement' is not accepted for a single axis"),
        ((X, Y * 1j, Z), TypeError, "along y must hold real numbers, got dtype complex128"),
        ((X, None, Z), TypeError, "along y is None"),
        (
            (2**62 + np.arange(5), Y, Z),
            ValueError,
            "along x .* entry 1 is",  # the same number in double precision
        ),
        (
            (torch.tensor(X, requires_grad=True), Y, Z),
            TypeError,
            "along x requires a gradient, .*to_pixel",
        ),
    ],
)
def test_wrong_axes_are_one_error(coords: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        gridsample.grid_sample(table(), points(), coords=coords)


def test_footprints_and_maps_do_not_take_axes() -> None:
    with pytest.raises(ValueError, match="antialias=True does not accept the coordinates of axes"):
        gridsample.grid_sample(table(), points()[:, :, None, None], coords=AXES, antialias=True)
    with pytest.raises(ValueError, match="coords must be 'normalized' or 'pixel'"):
        gridsample.affine_sample(table(), np.eye(3, 4)[None], (1, 2, 7, 4, 5), coords=AXES)
    with pytest.raises(ValueError, match="explain does not accept the coordinates of axes"):
        gridsample.explain((5,), (0.5,), coords=(X,))


def test_records_equal_their_copies() -> None:
    copy = pickle.loads(pickle.dumps(AXES))
    assert copy == AXES == Axes(X.copy(), Y, Z) != Axes(X, Y, Z + 1)
    assert hash(copy) == hash(AXES)
    assert repr(Axes(X, "pixel")) == "Axes(<5 from -3 to 4>, 'pixel')"
    changed = X.copy()
    record = Axes(changed)
    changed[:] = 0
    np.testing.assert_array_equal(record.entries[0].coordinates, X)


def test_kept_calls_hold_few_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "MAX_AXES_BYTES", 10 * 5 * 8 * 1000)
    rng, alive = np.random.default_rng(0), weakref.WeakSet[Any]()
    for size in [1000] * 24:
        axis = np.cumsum(rng.uniform(0.5, 1, size))
        record = Axes(axis)
        alive.add(record.entries[0])
        gridsample.grid_sample(axis[None, None], np.full((1, 1, 1), 3.0), coords=record)
    del record
    gc.collect()
    assert len(alive) <= 11  # one more is in a call


# Other libraries ----------------------------------------------------------------------------------


def tensors() -> tuple[torch.Tensor, torch.Tensor]:
    grid = np.delete(points(), 3, axis=1)[:, :6]
    return torch.tensor(table(1, 1), requires_grad=True), torch.tensor(grid, requires_grad=True)


def at_axes(image: Any, grid: Any) -> Any:
    return gridsample.grid_sample(image, grid, padding_mode="border", coords=AXES)


def test_tensors_have_all_derivatives() -> None:
    arrays = tensors()
    assert torch.autograd.gradcheck(at_axes, arrays)
    assert torch.autograd.gradgradcheck(at_axes, arrays)
    batched = torch.vmap(lambda point: at_axes(arrays[0], point[None, None])[0, 0, 0])
    torch.testing.assert_close(batched(arrays[1][0]), at_axes(*arrays)[0, 0])


@pytest.mark.slow
def test_programs_of_torch_contain_the_axes() -> None:
    image, grid = tensors()
    compiled = torch.compile(at_axes, fullgraph=True)
    torch.testing.assert_close(compiled(image, grid), at_axes(image, grid))

    class Model(torch.nn.Module):
        def forward(self, image: Any, grid: Any) -> Any:
            return at_axes(image, grid)

    exported = torch.export.export(Model(), (image, grid))
    torch.testing.assert_close(exported.module()(image, grid), at_axes(image, grid))


def test_modules_take_axes() -> None:
    image, grid = tensors()
    layer = gridsample.nn.GridSample(padding_mode="border", coords=(X, Y, Z))
    torch.testing.assert_close(layer(image, grid), at_axes(image, grid))
    assert "coords=Axes(<5 from -3 to 4>" in repr(layer)


def test_jax_has_the_gradients_of_torch() -> None:
    image, grid = tensors()
    sums = (at_axes(image, grid) ** 2).sum()
    expected = torch.autograd.grad(sums, (image, grid))
    with jax.enable_x64(True):
        arrays = jnp.asarray(image.detach().numpy()), jnp.asarray(grid.detach().numpy())
        gradients = jax.jit(jax.grad(lambda *arrays: (at_axes(*arrays) ** 2).sum(), (0, 1)))(
            *arrays
        )
    for actual, other in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(actual, other, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_jax_has_second_derivatives() -> None:
    """They are 0 along an axis, and those of the product of weights along two."""
    grid = np.delete(points(), 3, axis=1)[:, :3]
    expected = gridsample.grid_hessian(table(1, 1), grid, padding_mode="border", coords=AXES)
    with jax.enable_x64(True):
        image, places = jnp.asarray(table(1, 1)), jnp.asarray(grid)
        actual = gridsample.grid_hessian(image, places, padding_mode="border", coords=AXES)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)
        hessian = jax.hessian(lambda point: at_axes(image, point[None, None])[0, 0, 0])
        np.testing.assert_allclose(jax.vmap(hessian)(places[0]), expected[0, 0], rtol=0, atol=1e-12)
