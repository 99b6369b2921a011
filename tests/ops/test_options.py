"""Methods, boundaries, coordinates, fill values, masks and the prefilter."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Collection
from typing import Any

import cases
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import assert_close
from strategies import examples

import gridsample
from gridsample import grid_sample, grid_sample_vjp
from gridsample.definitions import axis
from gridsample.definitions.methods import NEAREST
from gridsample.kernels import reference
from gridsample.kernels.reference import splines

Array = np.ndarray[Any, Any]

# "spline0" and "spline1" are other names for nearest and linear, and fold the position as those do.
METHODS = tuple(name for name in reference.MODES if name not in ("spline0", "spline1"))
BOUNDARIES = tuple(reference.BOUNDARIES)
FILL = np.array([1.5, -2.0])
CHECKS = ("gradients", "splat", "slope")
FIELDS = {"normalized": (-160, 160, 64), "pixel": (-700, 1000, 64), "displacement": (-500, 500, 64)}

BOUNDARY = pytest.mark.parametrize("boundary", BOUNDARIES)


def tolerance(modes: tuple[str, ...], derivative: bool = False) -> float:
    """The tolerance: rounding and, for Lanczos, the stated error of its fitted weights.

    A polynomial's slope is off by no more than its degree squared times as much (Markov), and an
    axis of Lanczos-a has 2 a taps.
    """
    taps = sum(2 * int(mode[-1]) for mode in modes if mode.startswith("lanczos"))
    return 1e-12 + 1e-9 * taps * 4 * (13**2 if derivative else 1)


def fill_for(boundary: str | tuple[str, ...], extrapolate: bool = True) -> dict[str, Any]:
    """A fill value for each of two channels, where one is used."""
    return {"fill_value": FILL} if "constant" in boundary or not extrapolate else {}


def assert_is_the_reference(
    image: Array,
    grid: Array,
    modes: tuple[str, ...],
    boundaries: tuple[str, ...],
    align_corners: bool,
    checks: Collection[str] = CHECKS,
    **more: Any,
) -> None:
    """Assert that value, gradients, splat and slope match the reference.

    Of a spline, the loops weigh the coefficients; its pixels' gradient is the filter's transpose.
    The value is always checked, and of the others those in `checks`.
    """
    names = (modes, boundaries, align_corners)
    output = {"coords": "normalized", "extrapolate": True} | more
    fill = output.pop("fill_value", 0)
    prefilter = output.pop("prefilter", True)

    def transposed(array: Array) -> Array:
        for a, mode in enumerate(modes):
            if prefilter and mode.startswith("spline"):
                options = {"align_corners": align_corners, "adjoint": True}
                order = int(mode[-1])
                array = gridsample.spline_filter(array, order, boundaries[a], -1 - a, **options)
        return array

    # Methods without a prefilter use the pixels as coefficients.
    filtered = [mode if mode.startswith("spline") else "nearest" for mode in modes]
    weighed = image
    if prefilter and filtered.count("nearest") < len(modes):
        weighed = splines.coefficients(image, filtered, boundaries, align_corners, fill=fill)
    expected = reference.gather(weighed, grid, *names, **output, fill=fill)
    close = tolerance(modes)
    result = gridsample.grid_sample(image, grid, *names, **more)
    assert_close(result, expected, close)

    values = cases.pixels(np.random.default_rng(result.size), result.shape)
    on_input, on_grid = reference.gradients(values, weighed, grid, *names, **output, fill=fill)
    on_input = transposed(on_input)
    if "gradients" in checks:
        grad_input, grad_grid = gridsample.grid_sample_vjp(values, image, grid, *names, **more)
        assert_close(grad_input, on_input, close)
        assert_close(grad_grid, on_grid, tolerance(modes, True), scale(weighed, on_grid, image))

    if "splat" in checks:
        splatting = {name: value for name, value in more.items() if name != "fill_value"}
        pushed = gridsample.splat(values, grid, image.shape[2:], *names, **splatting)
        if len(image) == 1:
            pushed = pushed.sum(axis=0, keepdims=True)
        assert_close(pushed, on_input, close)

    if "slope" in checks:
        slope = gridsample.grid_gradient(image, grid, *names, **more)
        summed = np.sum(slope * values[..., np.newaxis], axis=1)
        summed = summed.sum(axis=0, keepdims=True) if len(grid) == 1 else summed
        assert_close(summed, on_grid, tolerance(modes, True), scale(weighed, on_grid, image))


def scale(coefficients: Array, expected: Array, image: Array) -> float:
    """The magnitude of the terms of a slope's sum: pixels times pixels per unit."""
    spans = max(image.shape[2:]) * max(1.0, float(np.abs(coefficients).max(initial=0)))
    return max(spans, float(np.abs(expected).max(initial=0)))


def exact_grid(rng: np.random.Generator, shape: tuple[int, ...], coords: str) -> Array:
    """Multiples of 1 / 64, folds and pixel centres among them."""
    low, high, unit = FIELDS[coords]
    grid = rng.integers(low, high, shape) / unit
    if grid.size:
        grid.reshape(-1)[:: max(5, grid.size // 7)] = rng.choice([-1.0, 0.0, 1.0, 2.0])
    return grid


# Every method and boundary ------------------------------------------------------------------------


# On a plane every method occurs with every boundary; on a line or in a volume only in slow runs.
@pytest.mark.covering
@pytest.mark.parametrize(("spatial", "points"), [((7,), 16), ((3, 4, 5), 3)], ids=str)
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("align_corners", [False, True], ids=["edges", "centres"])
@BOUNDARY
@pytest.mark.parametrize("mode", METHODS)
def test_every_method_on_a_line_and_in_a_volume(
    mode: str, boundary: str, align_corners: bool, check: str, spatial: tuple[int, ...], points: int
) -> None:
    rng, rank = cases.generator("line", boundary, align_corners), len(spatial)
    image, grid = (
        cases.pixels(rng, (1, 2, *spatial)),
        exact_grid(rng, (1, points, rank), "normalized"),
    )
    names = (mode,) * rank, (boundary,) * rank, align_corners
    assert_is_the_reference(image, grid, *names, [check], **fill_for(boundary))


@pytest.mark.parametrize("part", cases.slow_after(1, range(4)))
@BOUNDARY
def test_every_method_on_a_plane(boundary: str, part: int) -> None:
    rng = cases.generator("plane", boundary)
    image, grid = cases.pixels(rng, (2, 2, 4, 5)), exact_grid(rng, (2, 3, 2), "normalized")
    k = BOUNDARIES.index(boundary)
    half = (len(METHODS) + 1) // 2
    pairs = [*enumerate(zip(METHODS[:half], METHODS[-half:], strict=True))]
    # Every fourth pair; the others occur with other boundaries, and in the slow parts.
    for i, pair in pairs[(k // 2 + part) % 4 :: 4]:
        modes = pair if k % 2 else pair[::-1]
        names = modes, (boundary,) * 2, bool((k + i) % 4 // 2)
        check = CHECKS[(k + i) % len(CHECKS)]
        assert_is_the_reference(image, grid, *names, [check], **fill_for(boundary))


@pytest.mark.parametrize("boundary", cases.slow_after(4, BOUNDARIES))
def test_methods_in_a_volume(boundary: str) -> None:
    rng = cases.generator("volume", boundary)
    image, grid = cases.pixels(rng, (1, 2, 3, 1, 4)), exact_grid(rng, (1, 2, 3), "normalized")
    k = BOUNDARIES.index(boundary)
    modes = (("spline3", "linear", "cubic"), ("nearest", "spline2", "mitchell"))[k % 2]
    names = modes, (boundary,) * 3, bool(k % 4 // 2)
    check = CHECKS[k % len(CHECKS)]
    assert_is_the_reference(image, grid, *names, [check], **fill_for(boundary))


@st.composite
def calls(draw: st.DrawFn) -> tuple[Array, Array, tuple[Any, ...], dict[str, Any]]:
    rank = draw(st.integers(1, 3))
    cheap = METHODS if rank < 3 else ("nearest", "linear", "cubic", "spline2", "mitchell")
    modes = tuple(draw(st.sampled_from(cheap)) for _ in range(rank))
    dropping = draw(st.sampled_from(["zeros", "constant"]))
    others = [dropping, *(name for name in BOUNDARIES if name not in ("zeros", "constant"))]
    boundaries = tuple(draw(st.sampled_from(others)) for _ in range(rank))
    coords = draw(st.sampled_from(list(FIELDS)))
    ends = st.sampled_from([True, True, False, "edges", "centers"])
    extrapolate = tuple(draw(ends) for _ in range(rank))
    items, grid_items = draw(st.sampled_from([(1, 1), (2, 2), (1, 2), (2, 1)]))
    spatial = tuple(draw(st.integers(1, 6)) for _ in range(rank))
    out = tuple(draw(st.integers(1, 3)) for _ in range(rank if coords == "displacement" else 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    image = cases.pixels(rng, (items, 2, *spatial))
    grid = exact_grid(rng, (grid_items, *out, rank), coords)
    more = {
        "coords": coords,
        "extrapolate": extrapolate,
        "prefilter": draw(st.booleans()),
        **fill_for(boundaries, all(end is True for end in extrapolate)),
    }
    return image, grid, (modes, boundaries, draw(st.booleans())), more


@pytest.mark.parametrize("upstream", [1.0, math.nan])
def test_a_fill_counts_with_weights_that_cancel(upstream: float) -> None:
    """No tap is in the image, but an odd boundary turns the sign of one: the slope is not 0."""
    rng = np.random.default_rng(5)
    image, fill = rng.standard_normal((1, 9, 1, 1, 1)), rng.standard_normal(9)
    grid = np.array([[[-1, -2.3, -2.125], [-1, -2.3, 0.1], [-1, math.nan, -2.125]]])
    modes, boundaries = ("nearest", "nearest", "linear"), ("constant", "constant", "antisymmetric")
    assert_is_the_reference(image, grid, modes, boundaries, False, fill_value=fill)
    options = {"mode": modes, "padding_mode": boundaries, "fill_value": fill}
    values = np.full((1, 9, 3), upstream)
    _, slope = gridsample.grid_sample_vjp(values, image, grid, **options)
    # Of two taps along z one has the sign 1 and one -1; half a pixel is a step of 1.
    for point in (0, 1):
        np.testing.assert_allclose(slope[0, point], [0, 0, -fill.sum() * upstream], atol=1e-12)
    np.testing.assert_array_equal(slope[0, 2], 0)  # nowhere
    last, values = np.moveaxis(image, 1, -1), np.moveaxis(values, 1, -1)
    _, other = gridsample.grid_sample_vjp(values, last, grid, **options, channel_axis=-1)
    np.testing.assert_allclose(other, slope, atol=1e-12)


@pytest.mark.covering
@pytest.mark.parametrize("mode_of_y", ["linear", "catmull-rom"])
@pytest.mark.parametrize("mode_of_x", ["catmull-rom", "linear"])
def test_the_slope_at_the_last_pixel_includes_the_fill(mode_of_y: str, mode_of_x: str) -> None:
    """The next tap has no weight there, but its weight's derivative is not 0."""
    image = cases.pixels(cases.generator("last pixel"), (1, 2, 4, 5))
    grid = np.array([[[4, 1.25], [1.5, 3], [4, 3], [0, 0], [4.25, 1], [2, 2]]])
    for fill in (FILL, np.array([math.nan, -2.0])):
        names = (mode_of_y, mode_of_x), ("constant",) * 2, False
        assert_is_the_reference(image, grid, *names, coords="pixel", fill_value=fill)


def test_a_fill_counts_where_an_odd_boundary_comes_first() -> None:
    image = cases.pixels(cases.generator("odd first"), (1, 2, 1, 1, 1))
    grid = np.array([[[1.0, -2.25, -2.125], [-2.5, -1.625, 1.0]]])
    modes, boundaries = ("linear", "nearest", "nearest"), ("antisymmetric", "constant", "constant")
    assert_is_the_reference(image, grid, modes, boundaries, False, fill_value=FILL)


@pytest.mark.slow
@settings(max_examples=examples(200))
@given(calls())
def test_any_combination_matches_the_reference(
    call: tuple[Array, Array, tuple[Any, ...], dict[str, Any]],
) -> None:
    image, grid, options, more = call
    assert_is_the_reference(image, grid, *options, **more)


def test_modes_may_be_methods_or_registered_names() -> None:
    rng = cases.generator("method")
    image, grid = cases.pixels(rng, (1, 1, 9)), rng.uniform(-1, 1, (1, 20, 1))
    result = gridsample.grid_sample(image, grid, gridsample.methods.keys(-0.75))
    assert_close(result, gridsample.grid_sample(image, grid, "cubic"))


# Coordinates --------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid_type", ["float16", "float32", "float64"])
def test_a_zero_displacement_field_is_the_identity(grid_type: str) -> None:
    image = cases.pixels(cases.generator("identity"), (1, 1, 3, 4099), "float32")
    field = np.zeros((1, 3, 4099, 2), grid_type)
    result = gridsample.grid_sample(image, field, "linear", "border", coords="displacement")
    np.testing.assert_array_equal(result, image)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic", "lanczos2"])
def test_pixel_coordinates_start_at_the_centre_of_the_first_pixel(mode: str) -> None:
    image = cases.pixels(cases.generator("pixel"), (1, 2, 5, 7))
    y, x = np.meshgrid(np.arange(5.0), np.arange(7.0), indexing="ij")
    grid = np.stack([x, y], axis=-1)[np.newaxis]
    for align_corners in (False, True):
        result = gridsample.grid_sample(image, grid, mode, "border", align_corners, coords="pixel")
        assert_close(result, image, 1e-8 if mode == "lanczos2" else 1e-12)


@pytest.mark.parametrize("align_corners", [False, True])
def test_gradients_have_the_units_of_the_grid(align_corners: bool) -> None:
    rng = cases.generator("units", align_corners)
    image, positions = cases.pixels(rng, (1, 2, 5, 7)), rng.uniform(-2, 8, (1, 4, 6, 2))
    grids = {
        "normalized": cases.coordinates(positions, (5, 7), align_corners),
        "pixel": positions,
        "displacement": positions - np.stack(np.mgrid[:4, :6][::-1], -1),
    }
    values = cases.pixels(rng, (1, 2, 4, 6))
    per_unit = (np.array([7, 5]) - align_corners) / 2
    options = "cubic", "wrap", align_corners
    expected = gridsample.grid_sample_vjp(values, image, grids["pixel"], *options, coords="pixel")
    for coords, grid in grids.items():
        result = gridsample.grid_sample_vjp(values, image, grid, *options, coords=coords)
        assert_close(result[0], expected[0])
        factor = per_unit if coords == "normalized" else 1.0
        assert_close(result[1], expected[1] * factor)


# Fill values, and what is outside -----------------------------------------------------------------


def test_fill_values_in_worked_examples() -> None:
    image = np.array([[[1.0, 2.0], [3.0, 4.0]]]).transpose(0, 2, 1)  # two channels of two pixels
    grid = np.array([[[-0.5], [0.5], [9.0], [np.nan]]])
    options = {"mode": "linear", "padding_mode": "constant", "coords": "pixel"}
    single = gridsample.grid_sample(image, grid, **options, fill_value=5)
    np.testing.assert_array_equal(single, [[[3, 2, 5, np.nan], [3.5, 3, 5, np.nan]]])
    two = gridsample.grid_sample(image, grid, **options, fill_value=[5, -1])
    np.testing.assert_array_equal(two, [[[3, 2, 5, np.nan], [0.5, 3, -1, np.nan]]])
    last = gridsample.grid_sample(
        np.moveaxis(image, 1, -1), grid, **options, fill_value=(5, -1), channel_axis=-1
    )
    np.testing.assert_array_equal(np.moveaxis(last, -1, 1), two)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("shape", [(2**41,), (1, 2**41), (2, 2**40)])
def test_the_shape_of_a_fill_is_checked_before_its_values(library: str, shape: Any) -> None:
    image, grid = np.zeros((1, 2, 3, 3)), np.zeros((1, 2, 2, 2))
    fill: Any = np.broadcast_to(np.ones(()), shape)
    if library == "torch":
        torch = pytest.importorskip("torch")
        image, grid = torch.from_numpy(image), torch.from_numpy(grid)
        fill = torch.ones(()).expand(shape)
    with pytest.raises(ValueError, match=r"one for each of the 2 channels, got shape \("):
        gridsample.grid_sample(image, grid, "linear", "constant", fill_value=fill)


def test_a_complex_image_may_have_a_complex_fill() -> None:
    image = np.full((1, 2, 3), 1 + 2j)
    grid = np.array([[[9.0], [-0.5]]])
    options = {"padding_mode": "constant", "coords": "pixel"}
    for mode in ("nearest", "linear"):
        result = gridsample.grid_sample(image, grid, mode, **options, fill_value=[3 - 1j, 5])
        expected = [[3 - 1j, 2 + 0.5j], [5, 3 + 1j]]
        if mode == "nearest":  # a tie, which goes to the even pixel
            expected = [[3 - 1j, 1 + 2j], [5, 1 + 2j]]
        np.testing.assert_array_equal(result, [expected])


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_integers_round_and_saturate_their_fill(mode: str) -> None:
    image, grid = np.full((1, 2, 3), 100, np.uint8), np.array([[[9.0], [np.nan]]])
    result = gridsample.grid_sample(
        image, grid, mode, "constant", coords="pixel", fill_value=[300.2, 6.5]
    )
    np.testing.assert_array_equal(result, [[[255, 255], [6, 6]]])
    assert result.dtype == np.uint8


@pytest.mark.parametrize("fill", [np.inf, -np.inf, np.nan])
def test_odd_fills_of_integers(fill: float) -> None:
    image, grid = np.full((1, 1, 3), 100, np.uint8), np.array([[[9.0]]])
    for mode in ("nearest", "linear"):
        result = gridsample.grid_sample(
            image, grid, mode, "constant", coords="pixel", fill_value=fill
        )
        assert result.item() == (255 if fill > 0 else 0)


def test_large_integers_are_filled_exactly() -> None:
    image, grid = np.zeros((1, 1, 3), np.int64), np.array([[[9.0]]])
    for fill in (2**63 - 1, 2**62 + 1, -(2**63)):
        result = gridsample.grid_sample(
            image, grid, "nearest", "constant", coords="pixel", fill_value=fill
        )
        assert result.item() == fill


def test_the_image_ends_at_its_edges() -> None:
    image = np.arange(1.0, 5.0).reshape(1, 1, 4)
    options = {"mode": "linear", "padding_mode": "border", "extrapolate": False, "fill_value": 9}
    xs = np.array([-0.5, -0.4, 0.0, 3.0, 3.4, 3.6])[np.newaxis, :, np.newaxis]
    grid = cases.coordinates(xs, (4,), False)
    assert gridsample.grid_sample(image, grid, **options)[0, 0].tolist() == [1, 1, 1, 4, 4, 9]
    result = gridsample.grid_sample(image, xs, **options, coords="pixel")[0, 0].tolist()
    assert result == [9, 9, 1, 4, 9, 9]


# The mask -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("channel_axis", [1, -1])
@pytest.mark.parametrize("dtype", ["float64", "uint8"])
def test_masks_in_worked_examples(dtype: str, channel_axis: int) -> None:
    image = np.ones((2, 4, 1, 3) if channel_axis == -1 else (2, 3, 4, 1), dtype)
    positions = np.array([[[0.0, 0.0], [0.0, -0.25], [0.0, 5.0], [0.5, 3.5], [np.nan, 0.0]]])
    for boundary in ("zeros", "wrap", "border"):
        options: Any = {"coords": "pixel", "return_mask": True, "channel_axis": channel_axis}
        out, mask = gridsample.grid_sample(image, positions, "linear", boundary, **options)
        assert out.shape[0] == 2
        assert mask.dtype == np.float64
        assert mask.shape == ((1, 5, 1) if channel_axis == -1 else (1, 1, 5))
        assert mask.reshape(-1).tolist() == [1, 0.75, 0, 0.25, 0]


def test_the_mask_is_a_sample_of_ones() -> None:
    rng = cases.generator("mask")
    image, grid = cases.pixels(rng, (2, 3, 5, 7)), rng.uniform(-1.5, 1.5, (2, 30, 2))
    for mode, extrapolate in itertools.product(("nearest", "linear", "spline3"), (True, False)):
        options = {"extrapolate": extrapolate}
        _, mask = gridsample.grid_sample(image, grid, mode, "mirror", return_mask=True, **options)
        ones = np.ones((1, 1, 5, 7))
        expected = gridsample.grid_sample(ones, grid, mode, "zeros", prefilter=False, **options)
        assert_close(mask, expected)
        assert 0 < (mask == 0).mean() < 1


# Splines ------------------------------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("order", range(2, 8))
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("spatial", [(1,), (2,), (9,), (5, 7)], ids=str)
def test_splines_interpolate_the_pixels(
    order: int, boundary: str, align_corners: bool, spatial: tuple[int, ...]
) -> None:
    rng = cases.generator("pixels", order, boundary, spatial)
    image = cases.pixels(rng, (1, 2, *spatial))
    zeros = np.zeros((1, *spatial, len(spatial)))
    more = {"fill_value": (1.5, -70.0)} if boundary == "constant" else {}
    options = f"spline{order}", boundary, align_corners
    result = gridsample.grid_sample(image, zeros, *options, coords="displacement", **more)
    assert_close(result, image)


@pytest.mark.parametrize("order", range(8))
def test_a_spline_reproduces_polynomials_up_to_its_order(order: int) -> None:
    # Far from the edges, whose influence decays by a factor of 0.54 a pixel at most.
    n, x = 160, np.random.default_rng(order).uniform(75, 85, (1, 20, 1))
    for power in range(order + 1):
        image = ((np.arange(n) - 80.0) / 80)[np.newaxis, np.newaxis] ** power
        result = gridsample.grid_sample(image, x, f"spline{order}", "mirror", coords="pixel")
        assert_close(result[0, 0], ((x[0, :, 0] - 80) / 80) ** power)
    if order:  # and the derivative of the last power
        image *= 80**order
        slope = gridsample.grid_gradient(image, x, f"spline{order}", "mirror", coords="pixel")
        expected = order * (x[0, :, 0] - 80) ** (order - 1)
        assert_close(slope[0, 0, :, 0], expected, 1e-13 * 80**order, 1.0)


@pytest.mark.parametrize("mode", [name for name in METHODS if name != "nearest"])
def test_a_constant_stays_constant_and_its_slope_is_zero(mode: str) -> None:
    x = np.random.default_rng(0).uniform(-20, 30, (1, 50, 1))
    image = np.full((1, 1, 9), 3.0)
    k = METHODS.index(mode)
    for boundary in ("symmetric", "mirror", "wrap", "border")[k % 4 :: 4]:
        result = gridsample.grid_sample(image, x, mode, boundary, coords="pixel")
        assert_close(result, np.full((1, 1, 50), 3.0))
        slope = gridsample.grid_gradient(image, x, mode, boundary, coords="pixel")
        assert_close(slope, np.zeros((1, 1, 50, 1)), 1e-11)


@pytest.mark.parametrize("dtype", ["uint8", "bool", "float16", "complex128"])
def test_splines_keep_the_dtype(dtype: str) -> None:
    rng = cases.generator("types", dtype)
    image, grid = cases.pixels(rng, (1, 2, 5, 7), dtype), rng.uniform(-1, 1, (1, 20, 2))
    if dtype == "complex128":
        grid = grid.astype("float64")
    result = gridsample.grid_sample(image, grid, "spline3", "mirror")
    assert result.dtype == image.dtype
    wide = image if dtype == "complex128" else image.astype(float)
    parts = [wide.real, wide.imag] if dtype == "complex128" else [wide]
    exact = [gridsample.grid_sample(part, grid, "spline3", "mirror") for part in parts]
    if dtype == "complex128":
        assert_close(result, exact[0] + 1j * exact[1])
    elif dtype == "float16":
        assert_close(result.astype(float), exact[0], 1e-3)
    else:
        ends = (0, 1) if dtype == "bool" else (0, 255)
        np.testing.assert_array_equal(result, np.clip(np.rint(exact[0]), *ends))


@pytest.mark.parametrize("channel_axis", [1, -1])
@pytest.mark.parametrize("channels", [3, 9])
def test_channels_may_come_last(channels: int, channel_axis: int) -> None:
    rng = cases.generator("last", channels)
    image, grid = cases.pixels(rng, (2, channels, 5, 7)), rng.uniform(-1.5, 1.5, (2, 4, 3, 2))
    values, fill = cases.pixels(rng, (2, channels, 4, 3)), rng.standard_normal(channels)
    options = ("spline3", "linear"), ("constant", "wrap")

    def moved(array: Array) -> Array:
        return np.ascontiguousarray(np.moveaxis(array, 1, channel_axis))

    more = {"fill_value": fill, "channel_axis": channel_axis}
    result = gridsample.grid_sample(moved(image), grid, *options, **more)
    expected = gridsample.grid_sample(image, grid, *options, fill_value=fill)
    assert_close(result, moved(expected))
    result = gridsample.grid_sample_vjp(moved(values), moved(image), grid, *options, **more)
    expected = gridsample.grid_sample_vjp(values, image, grid, *options, fill_value=fill)
    assert_close(result[0], moved(expected[0]))
    assert_close(result[1], expected[1])


def test_inputs_are_not_modified() -> None:
    rng = cases.generator("unchanged")
    image, grid = cases.pixels(rng, (1, 2, 5, 7)), rng.uniform(-1, 1, (1, 9, 2))
    values = cases.pixels(rng, (1, 2, 9))
    before = image.tobytes(), grid.tobytes(), values.tobytes()
    gridsample.grid_sample(image, grid, "spline3", "mirror", return_mask=True)
    gridsample.grid_sample_vjp(values, image, grid, "spline3", "mirror")
    gridsample.splat(values, grid, (5, 7), "spline3", "mirror", normalize=True)
    gridsample.grid_hessian(image, grid, "spline3", "mirror")
    assert (image.tobytes(), grid.tobytes(), values.tobytes()) == before


# Bad input ----------------------------------------------------------------------------------------

IMAGE, GRID = np.ones((1, 2, 5, 7)), np.zeros((1, 4, 2))


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"coords": "pixels"}, ValueError, ["coords 'pixels'", "did you mean 'pixel'"]),
        ({"coords": {"x": 1}}, TypeError, ["coords", "{'x': 1}"]),
        ({"coords": "displacement"}, ValueError, ["displacement", "2, got 1: (4,)"]),
        ({"extrapolate": "no"}, ValueError, ["extrapolate", "'no'", "'edges', 'centers'"]),
        ({"extrapolate": []}, ValueError, ["extrapolate", "one entry per axis", "2 (x, y)", "()"]),
        ({"extrapolate": (True, None)}, TypeError, ["extrapolate", "'continue'", "(True, None)"]),
        ({"prefilter": 1}, TypeError, ["prefilter", "1"]),
        ({"fill_value": 1}, ValueError, ["fill_value 1", "'constant'", "'zeros'"]),
        ({"fill_value": [0, 1]}, ValueError, ["fill_value [0, 1]", "extrapolate=False"]),
        ({"fill_value": [1, 2, 3]}, ValueError, ["fill_value", "2 channels", "(3,)"]),
        ({"fill_value": 1j, "extrapolate": False}, TypeError, ["fill_value", "1j", "float64"]),
        ({"fill_value": "0"}, TypeError, ["fill_value", "'0'"]),
        ({"fill_value": None}, TypeError, ["fill_value", "None"]),
        ({"fill_value": [1, [2]]}, ValueError, ["fill_value"]),
        ({"padding_mode": ("zeros", "constant")}, ValueError, ["mixes"]),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_invalid_options_are_rejected(
    changes: dict[str, Any], error: type[Exception], words: list[str]
) -> None:
    for call in (
        lambda: gridsample.grid_sample(IMAGE, GRID, **changes),
        lambda: gridsample.grid_sample_vjp(np.ones((1, 2, 4)), IMAGE, GRID, **changes),
        lambda: gridsample.grid_gradient(IMAGE, GRID, **changes),
        lambda: gridsample.grid_hessian(IMAGE, GRID, **changes),
    ):
        with pytest.raises(error) as caught:
            call()
        for word in words:
            assert word in str(caught.value)


def test_return_mask_must_be_bool() -> None:
    with pytest.raises(TypeError, match="return_mask must be True or False, got 'yes'"):
        gridsample.grid_sample(IMAGE, GRID, return_mask="yes")


def test_a_fill_of_zero_is_used_anywhere() -> None:
    result = gridsample.grid_sample(IMAGE, GRID, fill_value=[0, -0.0])
    np.testing.assert_array_equal(result, gridsample.grid_sample(IMAGE, GRID))


# Tensors: more in tests/backends/test_torch_options.py -------------------------------------------


@pytest.mark.covering(ordinary=0)
@BOUNDARY
def test_tensors_match_arrays_under_every_boundary(boundary: str) -> None:
    torch = pytest.importorskip("torch")
    rng = cases.generator("tensors", boundary)
    image, grid = cases.pixels(rng, (1, 2, 5, 7)), rng.uniform(-2, 2, (1, 9, 2))
    for mode in ("nearest", "linear", "mitchell"):
        tensors = torch.from_numpy(image), torch.from_numpy(grid)
        result = gridsample.grid_sample(*tensors, mode, boundary).numpy()
        assert_close(result, gridsample.grid_sample(image, grid, mode, boundary))


# ---- ties ----------------------------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("boundary", ["zeros", "border", "wrap", "reflection", "mirror"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_ties_can_round_up(rank, boundary, dtype):
    """Half way between two pixels, the upper one is selected; elsewhere nothing changes."""
    method = dataclasses.replace(NEAREST, ties_up=True)
    rng = np.random.default_rng(rank)
    image = rng.integers(1, 200, (1, 2, *(5, 4, 6)[:rank])).astype(dtype)
    places = rng.integers(-9, 24, (1, 400, rank)) / 4
    upper = places
    if boundary == "reflection":  # the position is mirrored, not the taps
        sizes = np.array(image.shape[:1:-1])
        upper = axis.fold(places, sizes - 1.0, 2.0, axis.REFLECTION, 1)[0]
    upper = np.floor(upper + 0.5)
    options = {"padding_mode": boundary, "coords": "pixel"}
    result = grid_sample(image, places, method, **options)
    np.testing.assert_array_equal(result, grid_sample(image, upper, "nearest", **options))
    ties = (places % 1 == 0.5).any(axis=-1)
    assert ties.any() and (result != grid_sample(image, places, "nearest", **options)).any()
    if dtype == "float32":
        upstream = rng.integers(-9, 9, result.shape).astype(dtype)
        gradient = grid_sample_vjp(upstream, image, places, method, **options)[0]
        other = grid_sample_vjp(upstream, image, upper, "nearest", **options)[0]
        np.testing.assert_array_equal(gradient, other)
