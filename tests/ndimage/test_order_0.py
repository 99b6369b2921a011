"""Order 0, which copies pixels: `gridsample.ndimage` against SciPy, and against NumPy's indices."""

import cases
import numpy as np
import pytest

from gridsample import ndimage

scipy_ndimage = pytest.importorskip("scipy.ndimage")

SHAPES = [(13,), (9, 14), (140, 150), (5, 8, 6), (24, 31, 36), (3, 4, 5, 2)]
CALLS = {
    "shift": ([1.3, -2.6],),
    "zoom": ([1.7, 0.6],),
    "map_coordinates": (np.array([[-3.0, 1.2, 2.0], [1.0, 2.0, 9.0]]),),
    "affine_transform": (np.eye(2) * 1.5, -2.0),
}


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("cval", [5, 300.7, -3.5, np.nan])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16"])
@pytest.mark.parametrize("name", CALLS)
def test_numbers_outside_need_not_be_of_the_images_dtype(name, dtype, cval):
    image = cases.pixels(cases.generator("cval"), (6, 7), dtype)
    for mode in ("constant", "grid-constant", "mirror"):
        options = {"order": 0, "mode": mode, "cval": cval, "output": np.float64}
        result = getattr(ndimage, name)(image, *CALLS[name], **options)
        expected = getattr(scipy_ndimage, name)(image, *CALLS[name], **options)
        np.testing.assert_array_equal(result, expected, strict=True)


@pytest.mark.usefixtures("both_ways")
def test_numbers_outside_saturate():
    image = np.full((2, 2), 7, np.uint8)
    for cval, number in ((300.7, 255), (-1, 0), (2.5, 3)):
        result = ndimage.shift(image, 1, order=0, cval=cval)
        np.testing.assert_array_equal(result, [[number, number], [number, 7]])


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("mode", ["constant", "nearest", "grid-constant", "grid-wrap", "mirror"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pixels_are_copied_along_every_axis(shape, mode):
    """Forwards by the kernels; back, and along more than three axes, by NumPy."""
    rng = cases.generator("order 0", mode, *shape)
    image = rng.normal(size=shape)
    for view in (image, image[::-1], image.T, image.repeat(2, axis=-1)[..., ::2]):
        shift = rng.uniform(-9, 9, view.ndim)
        for dtype in (np.float64, np.float32):
            mine, theirs = (
                of.shift(view, shift, dtype, order=0, mode=mode, cval=2.0)
                for of in (ndimage, scipy_ndimage)
            )
            np.testing.assert_array_equal(mine, theirs, strict=True)
        zoom = rng.uniform(0.4, 3, view.ndim)
        mine, theirs = (
            of.zoom(view, zoom, order=0, mode=mode, cval=2.0) for of in (ndimage, scipy_ndimage)
        )
        np.testing.assert_array_equal(mine, theirs, strict=True)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("dtype", ["int64", "uint64", "float32", "float64", "complex64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_copies_have_the_bits_of_pixels(shape, dtype):
    image = cases.pixels(cases.generator("bits"), shape, dtype)
    if image.dtype.kind == "f":
        # Zeros with a sign, and NaN with bits of its own.
        image.flat[:2] = -0.0, np.inf
        bits = image.view(f"u{image.itemsize}")
        bits.flat[2] = np.array(np.nan, dtype).view(bits.dtype) + 5
    result = ndimage.zoom(image, 3, order=0, grid_mode=True, mode="nearest")
    expected = image
    for axis in range(image.ndim):
        expected = expected.repeat(3, axis)
    assert result.tobytes() == expected.tobytes()


@pytest.mark.usefixtures("both_ways")
def test_numbers_outside_of_any_size():
    image = np.full((2, 2), 7, np.uint8)
    for cval in (2**64, 10**30, -(10**30), np.inf):
        result = ndimage.shift(image, 1, float, order=0, cval=cval)
        np.testing.assert_array_equal(result, np.array([[cval, cval], [cval, 7]], float))
    for call in (
        lambda of: of.zoom(image, (0, 1), order=0, cval=300),
        lambda of: of.map_coordinates(image[:0], [[0.0], [0.0]], float, order=0, cval=300),
    ):
        np.testing.assert_array_equal(call(ndimage), call(scipy_ndimage), strict=True)
    with pytest.raises(TypeError):
        ndimage.shift(image, 1, order=0, cval=1 + 1j)


@pytest.mark.usefixtures("both_ways")
def test_numbers_outside_are_filtered_like_pixels():
    image = cases.pixels(cases.generator("filtered"), (9, 8), "uint8")
    options = {"order": 3, "mode": "grid-constant", "cval": 300.7, "output": float}
    result = ndimage.shift(image, 1.5, **options)
    expected = scipy_ndimage.shift(image.astype(float), 1.5, **options)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-10)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32", "int64"])
@pytest.mark.parametrize("pixels", ["float16", "float32", "float64"])
def test_pixels_are_rounded_and_saturate(pixels, dtype):
    small = [2.5, -2.5, 0.4375, -1e4, np.nan, np.inf, -np.inf]
    large = [8388609.0, 1e10, -1e10] if pixels != "float16" else []
    numbers, ends = np.array([*small, *large], pixels), np.iinfo(dtype)
    result = ndimage.shift(numbers, 0.1, dtype, order=0, mode="nearest")
    away = {2.5: 3, -2.5: -3, np.inf: ends.max, -np.inf: ends.min}
    whole = [away[x] if x in away else 0 if x != x else round(x) for x in numbers.tolist()]
    expected = [float(min(max(n, ends.min), ends.max)) for n in whole]
    # The greatest int64 is not a float64.
    np.testing.assert_allclose(result.astype(float), expected, rtol=1e-15)


@pytest.mark.usefixtures("both_ways")
def test_outputs_that_are_read_only_remain():
    output = np.zeros((200, 200))
    output.flags.writeable = False
    for order in (0, 1, 3):
        with pytest.raises(ValueError, match="read-only"):
            ndimage.shift(np.ones((200, 200)), (1, 2), output, order=order, mode="nearest")
        with pytest.raises(ValueError, match="read-only"):
            ndimage.map_coordinates(np.ones((9, 9)), np.zeros((2, 200, 200)), output, order=order)
    assert not output.any()


@pytest.mark.usefixtures("both_ways")
def test_an_output_may_be_a_view_of_the_image():
    memory = np.arange(48.0).reshape(6, 8)
    expected = scipy_ndimage.shift(memory.copy(), (1, 2), order=0)
    ndimage.shift(memory, (1, 2), order=0, output=memory)
    np.testing.assert_array_equal(memory, expected)
    columns = np.zeros((6, 16))[:, ::2]
    ndimage.shift(memory, (1, 2), order=0, output=columns)
    np.testing.assert_array_equal(columns, scipy_ndimage.shift(memory, (1, 2), order=0))
