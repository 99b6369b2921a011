"""The arrays of the reference: dtypes, strides, shapes, and the errors of those that do not fit."""

import numpy as np
import pytest
from cases import BOUNDARIES, coordinates, generator
from oracles import assert_close
from rows import BOUNDARY, INF, MODE, NAN, grid_1d, image_1d

from gridsample.kernels import reference

# Worked out on paper: dtypes, strides, shapes ---------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, ">i4"])
def test_integers_round_half_to_even(dtype):
    xs = np.array([0.5, 1.5, 2.5, 1.25]) * 2 / 3 - 1  # corners aligned, halves exact
    out = reference.gather(
        image_1d(0, 1, 2, 3, dtype=dtype), grid_1d(*xs), ("linear",), ("zeros",), True
    )
    assert out.dtype == np.dtype(dtype)
    assert out.tolist() == [[[0, 2, 2, 1]]]


@pytest.mark.parametrize(
    ("dtype", "pixel", "x", "expected"),
    [
        (np.uint8, 255, 0, 255),  # 255 * 19 / 16, half way between the two pixels
        (np.uint8, 255, -0.7, 0),  # negative weights alone
        (np.int8, -128, 0, -128),
        (np.int64, 2**63 - 1, 0, 2**63 - 1),
        (np.uint64, 2**64 - 1, 0, 2**64 - 1),
    ],
)
def test_integers_saturate_where_cubic_overshoots(dtype, pixel, x, expected):
    image = image_1d(0, 0, pixel, pixel, 0, 0, dtype=dtype)
    out = reference.gather(image, grid_1d(x), ("cubic",), ("zeros",), False)
    assert out.tolist() == [[[expected]]]


def test_bool_is_rounded_too():
    out = reference.gather(
        image_1d(False, True, dtype=bool),
        grid_1d(-0.5, 0, 0.25, 1),
        ("linear",),
        ("border",),
        True,
    )
    assert out.dtype == bool
    assert out.tolist() == [[[False, False, True, True]]]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_nearest_keeps_64_bit_integers_exact(dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    pixels = (low, low + 1, 2**53 + 1, high - 1, high)
    for boundary in BOUNDARIES:
        out = reference.gather(
            image_1d(*pixels, dtype=dtype),
            grid_1d(-1, -0.5, 0, 0.5, 1),
            ("nearest",),
            (boundary,),
            True,
        )
        assert out.dtype == dtype
        assert out[0, 0].tolist() == list(pixels)


def test_the_derivative_of_an_integer_image_is_a_float():
    image = image_1d(0, 1, dtype=np.uint8)
    out = reference.gather(image, grid_1d(0), ("linear",), ("zeros",), True, (1,))
    assert out.dtype == np.float64
    assert out.tolist() == [[[0.5]]]
    grad_input, grad_grid = reference.gradients(
        np.ones((1, 1, 1)), image, grid_1d(0), ("linear",), ("zeros",), True
    )
    assert grad_input.dtype == grad_grid.dtype == np.float64
    assert grad_input.tolist() == [[[0.5, 0.5]]]
    assert grad_grid.tolist() == [[[0.5]]]


@MODE
@BOUNDARY
def test_complex_images_are_two_real_ones(mode, boundary):
    rng = generator(mode, boundary)
    image = rng.standard_normal((2, 2, 3, 4, 2)) @ np.array([1, 1j])
    grid = rng.uniform(-1.5, 1.5, (2, 5, 2))
    options = ((mode, mode), (boundary, boundary), False)

    out = reference.gather(image, grid, *options)
    assert out.dtype == np.complex128
    expected = reference.gather(image.real, grid, *options) + 1j * reference.gather(
        image.imag, grid, *options
    )
    assert np.array_equal(out, expected)

    g = rng.standard_normal((2, 2, 5, 2)) @ np.array([1, 1j])
    grad_input, grad_grid = reference.gradients(g, image, grid, *options)
    assert np.array_equal(grad_input, reference.scatter(g, grid, (3, 4), *options))
    for axis in range(2):
        derivative = reference.gather(image, grid, *options, [int(k == axis) for k in range(2)])
        assert_close(grad_grid[..., axis], (np.conj(g) * derivative).real.sum(axis=1))


def test_parts_of_a_complex_pixel_do_not_mix():
    pixels = (complex(INF, 1), complex(INF, 3), complex(4, INF), complex(8, INF))
    image, positions = image_1d(*pixels, dtype=complex), grid_1d(0.75, 2.25, NAN)
    grid = coordinates(positions, (4,), True)
    out = reference.gather(image, grid, ("linear",), ("zeros",), True)[0, 0]
    np.testing.assert_array_equal(out.real, [INF, 5, NAN])
    np.testing.assert_array_equal(out.imag, [2.5, INF, NAN])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ">f8", np.complex64])
def test_results_are_computed_in_double_precision(dtype):
    image = image_1d(0, 1, dtype=dtype)
    grid = grid_1d(np.float32(-0.3)).astype(np.float32)
    out = reference.gather(image, grid, ("linear",), ("zeros",), True)
    assert out.dtype == (np.complex128 if np.dtype(dtype).kind == "c" else np.float64)
    assert out.item() == (float(np.float32(-0.3)) + 1) / 2


def test_strides_do_not_matter_and_arguments_are_not_changed():
    rng = generator("strides")
    image = rng.standard_normal((2, 4, 5, 3)).transpose(0, 3, 1, 2)[:, :, ::-1]
    grid = rng.uniform(-1, 1, (2, 2, 6)).transpose(0, 2, 1)[:, ::2]
    g = rng.standard_normal((2, 3, 3))[:, :, ::-1]
    arguments = (g, image, grid)
    before = [np.array(a) for a in arguments]
    for a in arguments:
        a.flags.writeable = False
    options = (("cubic", "linear"), ("zeros", "reflection"), False)

    assert np.array_equal(
        reference.gather(image, grid, *options), reference.gather(*before[1:], *options)
    )
    for actual, expected in zip(
        reference.gradients(*arguments, *options),
        reference.gradients(*before, *options),
        strict=True,
    ):
        assert np.array_equal(actual, expected)
    for a, b in zip(arguments, before, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("out", [(), (3,), (2, 3), (2, 1, 3), (1, 2, 1, 3)], ids=str)
def test_out_has_any_rank(out):
    rng = generator("out", out)
    image = rng.standard_normal((2, 2, 3, 4))
    grid = rng.uniform(-1, 1, (2, *out, 2))
    g = rng.standard_normal((2, 2, *out))
    options = (("linear", "cubic"), ("zeros", "border"), False)
    flat = grid.reshape(2, -1, 2)

    actual = reference.gather(image, grid, *options)
    assert actual.shape == (2, 2, *out)
    assert np.array_equal(actual.reshape(2, 2, -1), reference.gather(image, flat, *options))
    grad_input, grad_grid = reference.gradients(g, image, grid, *options)
    expected_input, expected_grid = reference.gradients(g.reshape(2, 2, -1), image, flat, *options)
    assert grad_grid.shape == grid.shape
    assert np.array_equal(grad_input, expected_input)
    assert np.array_equal(grad_grid.reshape(flat.shape), expected_grid)


@pytest.mark.parametrize(
    ("image_shape", "grid_shape"),
    [
        ((0, 2, 3), (0, 4, 1)),
        ((1, 2, 3), (0, 4, 1)),
        ((0, 2, 3), (1, 4, 1)),
        ((2, 0, 3), (2, 4, 1)),
        ((2, 2, 3), (2, 0, 1)),
    ],
    ids=["items", "grid-items", "image-items", "channels", "points"],
)
def test_empty_arrays_give_empty_results(image_shape, grid_shape):
    image, grid = np.ones(image_shape), np.zeros(grid_shape)
    options = (("linear",), ("zeros",), False)
    out = reference.gather(image, grid, *options)
    assert out.size == 0
    grad_input, grad_grid = reference.gradients(np.ones_like(out), image, grid, *options)
    assert (grad_input.shape, grad_grid.shape) == (image_shape, grid_shape)
    assert not grad_input.any()
    assert not grad_grid.any()


# Errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": np.ones((1, 1, 0, 2))}, r"spatial sizes are \(0, 2\)"),
        ({"image": np.ones((1, 1))}, r"spatial sizes are \(\)"),
        ({"grid": np.ones((1, 4, 3))}, r"grid has shape \(1, 4, 3\); accepted is \(N, \*out, 2\)"),
        ({"modes": ("linear",)}, "modes is .* accepted are 2 of nearest, linear, cubic"),
        ({"modes": ("linear", "bilinear")}, "modes is .*bilinear"),
        (
            {"boundaries": ("zeros", "reflect")},
            "boundaries is .*reflect.* zeros, .*border, reflection",
        ),
        ({"order": (1,)}, r"order is \(1,\)"),
        ({"order": (0, -1)}, r"order is \(0, -1\)"),
        ({"grid": np.ones((3, 4, 2)), "image": np.ones((2, 1, 2, 2))}, "broadcast"),
    ],
    ids=str,
)
def test_gather_rejects_inconsistent_arguments(change, message):
    arguments = {
        "image": np.ones((1, 1, 2, 2)),
        "grid": np.ones((1, 4, 2)),
        "modes": ("linear", "linear"),
        "boundaries": ("zeros", "zeros"),
        "align_corners": False,
    }
    reference.gather(**arguments)
    with pytest.raises(ValueError, match=message):
        reference.gather(**(arguments | change))


def test_scatter_and_gradients_reject_values_of_another_shape():
    grid = np.ones((2, 4, 1))
    options = (("linear",), ("zeros",), False)
    with pytest.raises(ValueError, match=r"values has shape \(2, 1, 5\)"):
        reference.scatter(np.ones((2, 1, 5)), grid, (3,), *options)
    with pytest.raises(ValueError, match="batch is 3; accepted are 1 and N = 2"):
        reference.scatter(np.ones((2, 1, 4)), grid, (3,), *options, batch=3)
    with pytest.raises(
        ValueError, match=r"grad_output has shape \(1, 1, 4\); accepted is \(2, 1, 4"
    ):
        reference.gradients(np.ones((1, 1, 4)), np.ones((2, 1, 3)), grid, *options)
