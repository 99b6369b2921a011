"""Every type of image and grid: what is exact, how it is rounded, and what comes back.

A pair of types costs a few compiled drivers, so the ordinary run tries every type of image with
float32 grids and every type of grid with float32 images; the product is marked slow.
"""

import itertools

import cases
import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from oracles import assert_close, assert_stored
from strategies import calls, examples

import gridsample
from gridsample.definitions.dtypes import BFLOAT16

NUMBERS = (*cases.REALS, *cases.COMPLEXES)
IMAGE_TYPE = pytest.mark.parametrize("image_type", cases.DTYPES)
GRID_TYPE = pytest.mark.parametrize("grid_type", cases.REALS)
INTEGER = pytest.mark.parametrize("image_type", cases.INTEGERS)


def exact_grid(rng, items, points, rank, dtype="float32"):
    """Multiples of 1 / 64, which half precision holds, and one coordinate that is not a number."""
    grid = rng.integers(-100, 101, (items, points, rank)) / 64
    grid[-1, -1, 0] = np.nan
    return grid.astype(dtype)


def precision(image_type, grid_type):
    """The unit of rounding of the dtype of sums."""
    single = ("bool", "int8", "int16", "uint8", "uint16", "float16", "float32", "complex64")
    narrow = image_type in single and grid_type != "float64"
    return oracles.ulp(np.float32 if narrow else np.float64)


def assert_samples(image_type, grid_type, mode, boundary, channel_axis=1, channels=None):
    rng = cases.generator(image_type, grid_type, mode, boundary)
    channels = channels or (3 if channel_axis == 1 else 8)
    image = cases.pixels(rng, (2, channels, 5, 7), image_type)
    grid = exact_grid(rng, 2, 33, 2, grid_type)
    exact = oracles.reference_output(image, grid, mode, boundary, False)
    laid_out = np.ascontiguousarray(np.moveaxis(image, 1, channel_axis))
    out = gridsample.grid_sample(laid_out, grid, mode, boundary, channel_axis=channel_axis)
    assert out.dtype == image_type
    tolerance = 32 * precision(image_type, grid_type)
    assert_stored(np.moveaxis(out, channel_axis, 1), exact, tolerance, oracles.magnitude(image))


def assert_gradients(image_type, grid_type, mode, boundary, channel_axis=1):
    rng = cases.generator(image_type, grid_type, mode, boundary)
    image = cases.pixels(rng, (2, 3 if channel_axis == 1 else 8, 5, 7), image_type)
    grid = exact_grid(rng, 2, 33, 2, grid_type)
    values = cases.pixels(
        rng, (*image.shape[:2], 33), image_type if image_type in NUMBERS else "float32"
    )
    expected = oracles.reference_gradients(values, image, grid, mode, boundary, False)
    laid_out = [
        np.ascontiguousarray(np.moveaxis(array, 1, channel_axis)) for array in (values, image)
    ]
    grad_input, grad_grid = gridsample.grid_sample_vjp(
        *laid_out, grid, mode, boundary, channel_axis=channel_axis, need_input=image_type in NUMBERS
    )
    tolerance = 32 * precision(image_type, grid_type)
    if image_type in NUMBERS:
        assert grad_input.dtype == image_type
        scale = oracles.magnitude(expected[0])
        assert_stored(np.moveaxis(grad_input, channel_axis, 1), expected[0], tolerance, scale)
    else:
        assert grad_input is None
    assert grad_grid.dtype == grid_type
    scale = oracles.magnitude(image) * oracles.magnitude(values) * image.shape[1] * 8
    with np.errstate(over="ignore"):  # too large for half precision
        stored = expected[1].astype(grid_type).astype(float)
    fits = np.isfinite(stored)
    np.testing.assert_array_equal(grad_grid[~fits], stored[~fits])
    assert_stored(grad_grid[fits], expected[1][fits], tolerance, scale)


# Every type with float32 ------------------------------------------------------------------------


@pytest.mark.covering
@IMAGE_TYPE
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("boundary", cases.BOUNDARIES)
def test_every_image_dtype(image_type, mode, boundary):
    assert_samples(image_type, "float32", mode, boundary)


@GRID_TYPE
def test_every_grid_dtype(grid_type):
    for mode, boundary in itertools.product(cases.MODES, cases.BOUNDARIES):
        assert_samples("float32", grid_type, mode, boundary)


@pytest.mark.parametrize("image_type", ["float16", "complex64", "complex128", "uint8"])
def test_gradients_of_dtypes_wider_than_sums_or_rounded(image_type):
    for boundary in cases.BOUNDARIES:
        assert_gradients(image_type, "float32", "linear", boundary)


@settings(max_examples=examples(60))
@given(calls([("uint8", "float32"), ("complex64", "float32")]))
def test_any_strides_and_options(call):
    exact = oracles.reference_output(call.image, call.grid, *call.options)
    image = call.laid_out(call.image)
    with oracles.unchanged(image, call.grid):
        out = gridsample.grid_sample(
            image, call.grid, *call.options, channel_axis=call.channel_axis
        )
    assert out.dtype == call.image.dtype.newbyteorder("=")
    tolerance = 64 * oracles.ulp(np.float32)
    assert_stored(call.planes(out), exact, tolerance, oracles.magnitude(call.image))


EVERY_KIND = pytest.mark.parametrize(
    ("image_type", "grid_type", "mode", "boundary", "channel_axis"),
    cases.covering(cases.DTYPES, cases.REALS, cases.MODES, cases.BOUNDARIES, (1, -1)),
)


@pytest.mark.slow
@EVERY_KIND
def test_every_image_dtype_with_every_grid_dtype(
    image_type, grid_type, mode, boundary, channel_axis
):
    assert_samples(image_type, grid_type, mode, boundary, channel_axis)


@pytest.mark.slow
@EVERY_KIND
def test_gradients_of_every_image_dtype_with_every_grid_dtype(
    image_type, grid_type, mode, boundary, channel_axis
):
    assert_gradients(image_type, grid_type, mode, boundary, channel_axis)


# Nearest copies bits ----------------------------------------------------------------------------


@IMAGE_TYPE
@pytest.mark.parametrize("channel_axis", [1, -1])
def test_nearest_copies_every_bit(image_type, channel_axis):
    rng = cases.generator("bits", image_type)
    dtype = np.dtype(image_type)
    if dtype.kind == "b":
        image = cases.pixels(rng, (1, 8, 5, 7), dtype)
    else:  # signalling NaNs, their payloads and subnormals among them
        image = np.frombuffer(rng.bytes(8 * 35 * dtype.itemsize), dtype).reshape(1, 8, 5, 7)
    grid = cases.identity((5, 7), False)[:, ::-1].astype("float32")
    laid_out = np.ascontiguousarray(np.moveaxis(image, 1, channel_axis))
    out = gridsample.grid_sample(laid_out, grid, "nearest", channel_axis=channel_axis)
    assert np.moveaxis(out, channel_axis, 1).tobytes() == image[:, :, ::-1].tobytes()


@pytest.mark.parametrize("image_type", ["float32", "complex64", "uint8"])
def test_nearest_outside_is_zero_whatever_the_edge(image_type):
    image = np.full((1, 1, 3), np.nan if image_type != "uint8" else 255, image_type)
    grid = np.array([-1.5, 1.5, np.inf], "float32").reshape(1, 3, 1)
    out = gridsample.grid_sample(image, grid, "nearest", "zeros")
    assert out.tobytes() == bytes(out.nbytes)  # +0, not -0


# Integers are rounded half to even, and saturate --------------------------------------------------


@INTEGER
def test_rounding_half_to_even(image_type):
    pixels = np.arange(8) - (4 if image_type.startswith("int") else 0)
    image = pixels.astype(image_type).reshape(1, 1, 8)
    middles = cases.coordinates(np.arange(7).reshape(1, 7, 1) + 0.5, (8,), False)
    out = gridsample.grid_sample(image, middles.astype("float32"))
    # Python's round is half to even.
    assert out[0, 0].tolist() == [round(pixel + 0.5) for pixel in pixels[:-1].tolist()]


@INTEGER
def test_saturation_where_cubic_overshoots(image_type):
    ends = np.iinfo(image_type)
    row = [ends.min] * 3 + [ends.max] * 3
    image = np.array(row, image_type).reshape(1, 1, 6)
    grid = cases.coordinates(np.array([[[1.5], [3.5]]]), (6,), False).astype("float32")
    out = gridsample.grid_sample(image, grid, "cubic", "border")
    assert out[0, 0].tolist() == [ends.min, ends.max]


@INTEGER
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_limits_of_integers_are_exact(image_type, mode):
    ends = np.iinfo(image_type)
    grid = np.linspace(-1, 1, 63, dtype="float32").reshape(1, -1, 1)
    for value in (ends.min, ends.max):
        image = np.full((1, 1, 5), value, image_type)
        out = gridsample.grid_sample(image, grid, mode, "border")
        if image.itemsize < 4:
            assert (out == value).all()
        else:  # weights sum to one but for rounding
            assert_close(out.astype(float), np.full(out.shape, float(value)), 1e-15)


def test_bool_is_true_from_above_a_half():
    image = np.array([[[False, True, True]]])
    positions = np.array([0, 0.25, 0.5, 0.75, 1, 1.5])
    grid = cases.coordinates(positions.reshape(1, -1, 1), (3,), False).astype("float32")
    out = gridsample.grid_sample(image, grid)
    assert out.dtype == bool
    assert out[0, 0].tolist() == [False, False, False, True, True, True]
    assert out.view(np.uint8).max() == 1


# Half precision ---------------------------------------------------------------------------------


def test_half_precision_is_rounded_once():
    rng = cases.generator("half")
    image = cases.pixels(rng, (1, 2, 31, 33), "float16") * np.float16(100)
    grid = exact_grid(rng, 1, 1000, 2)[:, :-1]
    out = gridsample.grid_sample(image, grid)
    exact = oracles.reference_output(image, grid, "linear", "zeros", False)
    # Half a unit in the last place, and what float32 sums lose, which may tip a tie.
    unit = np.spacing(np.abs(exact).astype("float16")).astype(float)
    slack = 8 * oracles.ulp(np.float32) * oracles.magnitude(image)
    assert (np.abs(out - exact) <= unit / 2 + slack).all()
    correctly_rounded = np.mean(out == exact.astype("float16"))
    assert correctly_rounded > 0.99


def test_half_precision_overflows_to_infinity_without_a_warning():
    image = np.array([0, 0, 0, 6e4, 6e4, 6e4], "float16").reshape(1, 1, 6)
    grid = cases.coordinates(np.array([[[3.5], [1.5]]]), (6,), False).astype("float32")
    out = gridsample.grid_sample(image, grid, "cubic", "border")
    assert out[0, 0].tolist() == [np.inf, -5624]  # 6e4 times 35 / 32 and -3 / 32
    image[...] = 6e4
    values = np.full((1, 1, 2), 6e4, "float16")
    grid[...] = 0
    grad_input, _ = gridsample.grid_sample_vjp(values, image, grid, "nearest")
    assert grad_input.max() == np.inf


@pytest.mark.parametrize("grid_type", ["float16", "float32"])
def test_coordinates_are_widened_first(grid_type):
    rng = cases.generator("widened", grid_type)
    wide = "float32" if grid_type == "float16" else "float64"
    image = cases.pixels(rng, (1, 2, 31, 33), wide)
    grid = rng.uniform(-1.5, 1.5, (1, 63, 2)).astype(grid_type)
    np.testing.assert_array_equal(
        gridsample.grid_sample(image, grid), gridsample.grid_sample(image, grid.astype(wide))
    )


@pytest.mark.parametrize("image_type", ["int32", "int64", "uint32", "uint64"])
def test_integers_of_32_bits_and_more_are_summed_in_double_precision(image_type):
    top = min(np.iinfo(image_type).max, 2**53)
    image = np.array([top - 4, top - 2], image_type).reshape(1, 1, 2)
    out = gridsample.grid_sample(image, np.zeros((1, 1, 1), "float32"))
    assert out.item() == top - 3


# Complex ----------------------------------------------------------------------------------------


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("mode", cases.MODES)
@pytest.mark.parametrize("channel_axis", [1, -1])
def test_a_complex_image_is_sampled_as_two_real_images(mode, channel_axis):
    rng = cases.generator("complex", mode)
    shape = (2, 3, 5, 7) if channel_axis == 1 else (2, 5, 7, 9)
    image = cases.pixels(rng, shape, "complex64")
    grid = exact_grid(rng, 2, 17, 2)[:, :-1]
    options = {"mode": mode, "channel_axis": channel_axis}
    out = gridsample.grid_sample(image, grid, **options)
    values = cases.pixels(rng, out.shape, "complex64")
    grad_input, grad_grid = gridsample.grid_sample_vjp(values, image, grid, **options)
    grids = []
    for part in (np.real, np.imag):
        assert_close(
            part(out), gridsample.grid_sample(part(image), grid, **options), oracles.ulp("f4") * 8
        )
        grad_image, other = gridsample.grid_sample_vjp(part(values), part(image), grid, **options)
        assert_close(part(grad_input), grad_image, 32 * oracles.ulp("f4"))
        grids.append(other)
    assert_close(grad_grid, sum(grids), 64 * oracles.ulp("f4"), 64)


def test_real_values_are_like_complex_values_without_imaginary_part():
    rng = cases.generator("real values")
    image = cases.pixels(rng, (1, 2, 5, 7), "complex64")
    grid = exact_grid(rng, 1, 9, 2)
    values = cases.pixels(rng, (1, 2, 9), "float32")
    expected = gridsample.grid_sample_vjp(values.astype("complex64"), image, grid)
    for gradient, other in zip(
        gridsample.grid_sample_vjp(values, image, grid), expected, strict=True
    ):
        np.testing.assert_array_equal(gradient, other)


def test_parts_of_a_complex_pixel_do_not_mix():
    image = np.array([complex(np.inf, 1), complex(np.inf, 2)], "complex64").reshape(1, 1, 2)
    out = gridsample.grid_sample(image, np.zeros((1, 1, 1), "float32")).item()
    assert (out.real, out.imag) == (np.inf, 1.5)


# bfloat16, which NumPy stores as bits -------------------------------------------------------------


def upper_half(array):
    """A float32 array as bfloat16, rounded towards zero."""
    return (array.view(np.uint32) >> 16).astype(np.uint16).view(BFLOAT16)


def in_full(array):
    """A bfloat16 array as float32."""
    return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


@pytest.mark.slow
def test_bfloat16_in_gradients_and_filters():
    rng = cases.generator("bfloat16")
    numbers = [
        in_full(upper_half(rng.standard_normal(shape).astype(np.float32)))
        for shape in ((1, 2, 9), (1, 2, 5, 7), (1, 9, 2))
    ]
    image, grid = numbers[1:]
    grid[0, 0] = np.nan
    for mode in ("linear", "spline3"):
        results = gridsample.grid_sample_vjp(*map(upper_half, numbers), mode, "mirror")
        exact = gridsample.grid_sample_vjp(*numbers, mode, "mirror")
        for gradient, truth in zip(results, exact, strict=True):
            assert gradient.dtype == BFLOAT16 and gradient.shape == truth.shape
            # One rounding, to 8 bits.
            assert_close(in_full(gradient), truth, 2.0**-8)
    results = gridsample.spline_filter(upper_half(image))
    np.testing.assert_array_equal(results, gridsample.spline_filter(image), strict=True)
    for number, bits in ((1 + 2.0**-8, 0x3F80), (1 + 3 * 2.0**-8, 0x3F82), (np.inf, 0x7F80)):
        ones, centre = np.full((1, 1, 1), number, np.float32), np.zeros((1, 1, 1), np.float32)
        grad_image, _ = gridsample.grid_sample_vjp(
            ones, upper_half(np.ones_like(ones)), centre, "nearest"
        )
        assert grad_image.view(np.uint16).item() == bits  # a tie goes to the even number


@pytest.mark.parametrize(
    "image_type", ["bool", "int8", "uint16", "int32", "int64", "float16", "complex64"]
)
def test_three_interleaved_channels(image_type):
    """They are processed together, in the dtype of sums."""
    assert_samples(image_type, "float32", "linear", "zeros", -1, 3)


@pytest.mark.slow
@IMAGE_TYPE
@pytest.mark.parametrize("channels", [2, 3, 4, 7])
def test_few_channels_of_every_dtype(image_type, channels):
    for boundary in ("border", "mirror"):
        assert_samples(image_type, "float32", "linear", boundary, -1, channels)


@pytest.mark.parametrize(("image_type", "channels"), [("uint8", 3), ("float64", 4)])
@pytest.mark.parametrize(
    ("mode", "boundary"),
    [
        ("linear", "border"),
        ("cubic", "zeros"),
        ("spline2", "mirror"),
        (("linear", "cubic"), "reflection"),
        (("nearest", "linear"), "zeros"),
    ],
)
def test_few_interleaved_channels(image_type, channels, mode, boundary):
    """Rows of taps are read together, but where pixels are apart."""
    rng = cases.generator("few", image_type, channels)
    image = cases.pixels(rng, (2, channels, 6, 7), image_type)
    grid = exact_grid(rng, 2, 40, 2)
    exact = oracles.reference_output(image, grid, mode, boundary, False)
    packed = np.ascontiguousarray(np.moveaxis(image, 1, -1))
    apart = np.zeros((2, 6, 14, channels), image.dtype)[:, :, ::2]
    apart[...] = packed
    options = {"mode": mode, "padding_mode": boundary, "channel_axis": -1, "prefilter": False}
    for pixels in (packed, apart) if mode == "linear" else (packed,):
        out = np.moveaxis(gridsample.grid_sample(pixels, grid, **options), -1, 1)
        tolerance = 32 * precision(image_type, "float32")
        assert_stored(out, exact, tolerance, oracles.magnitude(image))


@pytest.mark.slow
def test_interleaved_bfloat16_channels():
    rng = cases.generator("bfloat16", "few")
    image = in_full(upper_half(rng.standard_normal((1, 6, 7, 3)).astype(np.float32)))
    grid = exact_grid(rng, 1, 40, 2)
    for mode in ("linear", "cubic"):
        out = gridsample.grid_sample(upper_half(image), grid, mode, channel_axis=-1)
        exact = gridsample.grid_sample(image, grid, mode, channel_axis=-1)
        assert out.dtype == BFLOAT16 and np.isnan(exact[0, -1]).all()
        assert_close(in_full(out), exact, 2.0**-8)
