"""`gridsample.ndimage` against SciPy itself, and by SciPy's own tests."""

import itertools
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridsample import ndimage
from gridsample.definitions.originals import originals
from gridsample.ndimage import arrays, positions, strips

scipy_ndimage = pytest.importorskip("scipy.ndimage")

MODES = list(ndimage.MODES)
# Sums of at most 6^3 products of numbers near 10, and prefilters that amplify up to 7-fold an axis.
TOLERANCE = 1e-10
# SciPy's "reflect" prefilter errs by the pole to the power 2 n - 1: 1e-14 at order 5 from here on.
LONG = 22


def image_of(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape) * 10


def agree(name, *arguments, **options):
    """Assert that our function has the results of SciPy's."""
    expected = getattr(scipy_ndimage, name)(*arguments, **options)
    result = getattr(ndimage, name)(*arguments, **options)
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=0, atol=TOLERANCE)


def long_enough(shape, mode):
    """A shape of which SciPy's prefilter is exact."""
    return tuple(max(n, LONG) for n in shape) if mode in ("reflect", "grid-mirror") else shape


@pytest.mark.covering
@pytest.mark.parametrize("prefilter", [True, False])
@pytest.mark.parametrize("order", range(6))
@pytest.mark.parametrize("mode", MODES)
class TestEveryModeAndOrder:
    @pytest.fixture(params=[(7,), (6, 9), (2, 5, 3), (1,), (1, 4)], ids=str)
    def image(self, request, mode):
        return image_of(long_enough(request.param, mode))

    @pytest.fixture
    def options(self, mode, order, prefilter):
        return {"mode": mode, "order": order, "prefilter": prefilter, "cval": 1.7}

    def test_map_coordinates(self, image, options):
        sizes = np.array(image.shape)[:, None]
        places = np.random.default_rng(1).uniform(-3, 4, (image.ndim, 50)) * sizes
        agree("map_coordinates", image, places, **options)
        agree("map_coordinates", image, np.round(2 * places) / 2, **options)  # pixels and ties

    def test_affine_transform(self, image, options):
        rng, rank = np.random.default_rng(2), image.ndim
        matrix = np.eye(rank) + rng.normal(size=(rank, rank)) / 3
        agree("affine_transform", image, matrix, rng.normal(size=rank), **options)
        agree("affine_transform", image, rng.normal(size=rank), 0.3, **options)

    @pytest.mark.usefixtures("both_ways")
    def test_zoom_and_shift(self, image, options):
        agree("zoom", image, 1.7, **options)
        agree("zoom", image, 0.6, **options)
        if options["mode"] not in ("constant", "wrap"):
            agree("zoom", image, 2.3, grid_mode=True, **options)
        agree("shift", image, [1.3, -2.5, 0.25][: image.ndim], **options)
        agree("shift", image, [1, 0, -4][: image.ndim], **options)

    @pytest.mark.parametrize("angle", [90, 30, -45])
    def test_rotate_matches_scipy(self, angle, options, mode):
        agree("rotate", image_of(long_enough((6, 9), mode)), angle, **options)


@pytest.mark.parametrize("order", range(2, 6))
@pytest.mark.parametrize("mode", MODES)
def test_spline_filters_agree(mode, order):
    image = image_of((LONG, LONG + 3))
    agree("spline_filter", image, order, mode=mode)
    agree("spline_filter1d", image, order, 0, mode=mode)
    agree("spline_filter", image, order, output=np.int16, mode=mode)
    agree("spline_filter", image + 1j * image[::-1], order, output=np.complex128, mode=mode)


@pytest.mark.parametrize("order", range(2, 6))
@pytest.mark.parametrize("mode", ["reflect", "mirror", "grid-wrap", "constant"])
def test_splines_interpolate_the_pixels_of_short_lines(mode, order):
    """SciPy's "reflect" does not."""
    image = image_of((3, 5))
    result = ndimage.map_coordinates(image, np.indices(image.shape), order=order, mode=mode)
    # A prefilter of order 5 amplifies rounding about 50-fold in two dimensions.
    np.testing.assert_allclose(result, image, rtol=0, atol=50 * 16 * 40 * np.finfo(float).eps)


NUMBERS = ["b", "B", "h", "I", "l", "f", "d", ">f4", ">i2", "F", "D"]


# Of bools, sums just below 1 are cut off to 0, and which ones are is rounding's choice.
@pytest.mark.parametrize(("dtype", "order"), [("?", 0), *itertools.product(NUMBERS, [0, 1, 3])])
def test_dtypes_of_results_agree(dtype, order):
    image = (image_of((8, 9)) * 7).astype(dtype)
    places = np.random.default_rng(1).uniform(-1, 9, (2, 40))
    options = {"order": order, "mode": "nearest"}
    expected = scipy_ndimage.map_coordinates(image, places, **options)
    result = ndimage.map_coordinates(image, places, **options)
    assert result.dtype == expected.dtype
    # float32 results are rounded from float64 here and there.
    bound = np.finfo(np.float32).eps * 512 if expected.dtype.char in "fF" else TOLERANCE
    np.testing.assert_allclose(
        np.asarray(result, complex), np.asarray(expected, complex), rtol=0, atol=bound
    )


@pytest.mark.parametrize("output", [bool, "int8", np.uint8, np.int32, np.uint32, "float32", ">f8"])
def test_output_types_round_and_saturate_as_in_scipy(output):
    values = np.array([-300.7, -2.5, -1.5, -0.7, -0.5, 0.3, 0.5, 0.7, 1.5, 2.5, 254.5, 300.2])
    places = [np.arange(values.size)]
    if output is np.uint32:
        values = abs(values)  # the conversion of negative numbers is undefined in C
    agree("map_coordinates", values, places, order=1, output=output)


def test_integers_stay_exact_at_order_0():
    image = np.array([2**53 + 1, -(2**62) - 1])
    result = ndimage.map_coordinates(image, [[0.8, 0.4]], order=0)
    assert result.tolist() == [-(2**62) - 1, 2**53 + 1]


def test_output_arrays_are_filled():
    image, places = image_of((6, 7)), np.indices((4, 5)) + 0.25
    expected = scipy_ndimage.map_coordinates(image, places)
    for output in (
        np.full((4, 5), np.nan),
        np.full((5, 4), np.nan).T,
        np.full((8, 10), np.nan)[::-2, ::2],
        np.full((4, 5), np.nan, ">f8"),
    ):
        assert ndimage.map_coordinates(image, places, output) is output
        np.testing.assert_allclose(output, expected, rtol=0, atol=TOLERANCE)
    aliased = image.copy()
    assert ndimage.shift(aliased, 1.5, aliased, order=1) is aliased
    np.testing.assert_allclose(aliased, scipy_ndimage.shift(image, 1.5, order=1), atol=TOLERANCE)
    aliased = image.copy()
    ndimage.affine_transform(aliased, [[0.5, 0.1], [0, 1]], output=aliased, order=1)
    expected = scipy_ndimage.affine_transform(image, [[0.5, 0.1], [0, 1]], order=1)
    np.testing.assert_allclose(aliased, expected, atol=TOLERANCE)


@pytest.mark.parametrize("points", [1, 7, 10**9])
def test_results_do_not_depend_on_strips(points, monkeypatch):
    image, places = image_of((9, 8, 7)), np.random.default_rng(1).uniform(-1, 9, (3, 5, 4, 3))
    expected = scipy_ndimage.map_coordinates(image, places, mode="mirror")
    monkeypatch.setattr(strips, "POINTS", points)
    result = ndimage.map_coordinates(image, places, mode="mirror")
    np.testing.assert_allclose(result, expected, rtol=0, atol=TOLERANCE)
    matrix = np.array([[0.9, 0.1, 0], [0.2, 0.8, 0.1], [0, 0.3, 1]])
    agree("affine_transform", image, matrix, [0.5, 0, -1], (5, 6, 4))


@pytest.mark.parametrize("numbers", [1, 50])
def test_results_do_not_depend_on_bands(numbers, monkeypatch):
    monkeypatch.setattr(arrays, "BAND", numbers)
    for dtype, mode in itertools.product(("uint8", "float64"), ("constant", "nearest", "mirror")):
        image = np.abs(image_of((9, 23, 4))).astype(dtype)
        agree("zoom", image, (1.4, 0.6, 1), mode=mode, cval=3)
        agree("shift", image, (-1.5, 0.3, 2), mode=mode, cval=3)
        agree("rotate", image, 33, mode=mode, cval=3)
        agree("rotate", image[..., 0], 33, mode=mode, cval=3)
        agree("spline_filter", image, mode="mirror")
        places = np.random.default_rng(1).uniform(-1, 9, (3, 7, 5))
        agree("map_coordinates", image, places, mode=mode, cval=3)
        agree("map_coordinates", image, places.astype("float32"), mode=mode, cval=3)
        agree("map_coordinates", image, places.astype("int16"), mode=mode, cval=3)


# Added to 0.5 in float32, it is rounded to 1, in float64 it is not.
BELOW_HALF = np.nextafter(np.float32(0.5), np.float32(0))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int64", "float16", "float32", ">f4"])
def test_coordinates_of_every_dtype_count_as_doubles(dtype):
    random = np.random.default_rng(1)
    places = np.concatenate([random.uniform(-6, 16, (2, 9, 5)), np.full((2, 9, 1), BELOW_HALF)], 2)
    places = places.astype(dtype)
    pixels = image_of((9, 11))
    for mode, order, image in itertools.product(
        MODES, (0, 1, 3), (pixels, pixels.astype("float32"), np.abs(pixels).astype("uint8"))
    ):
        result = ndimage.map_coordinates(image, places, order=order, mode=mode, cval=3)
        exact = ndimage.map_coordinates(image, places.astype(float), order=order, mode=mode, cval=3)
        np.testing.assert_array_equal(result, exact)


@pytest.mark.parametrize(
    ("name", "arguments", "dtype", "order", "allowed"),
    [
        ("zoom", (0.5,), "float32", 1, 2),
        ("zoom", (0.5,), "float32", 3, 2),
        ("shift", (3.3,), "float32", 3, 2),
        ("rotate", (30, (1, 0), False), "float32", 1, 1),  # the new output, which is not touched
        ("map_coordinates", (), "float32", 3, 2),
        ("map_coordinates", (), "uint8", 1, 8),  # coefficients in double precision
    ],
)
def test_copies_are_limited_in_size(name, arguments, dtype, order, allowed, monkeypatch):
    image = np.abs(image_of((800, 810))).astype(dtype)
    if name == "map_coordinates":
        arguments = (np.indices(image.shape) + 0.3,)
    monkeypatch.setattr(arrays, "BAND", 10000)
    call = getattr(ndimage, name)
    call(image, *arguments, order=order)  # compiles what it needs
    tracemalloc.start()
    result = call(image, *arguments, order=order)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    slack = 50 * arrays.BAND + 200_000
    assert peak <= result.nbytes + allowed * image.nbytes + slack


def test_rotation_of_planes_and_more():
    image = image_of((5, 4, 6, 3))
    for axes in ((1, 0), (0, 2), (-1, 1)):
        for reshape in (True, False):
            agree("rotate", image, 33, axes, reshape)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["float64", "uint8", "bool", "complex128"])
@pytest.mark.parametrize("order", [0, 1, 3])
@pytest.mark.parametrize("shape", [(13, 11), (1, 5), (30,), (200, 201)])
@pytest.mark.parametrize("by", [5, 9.7, -3.5, 250, np.nan])
def test_shifts_by_almost_the_full_image(by, shape, order, dtype):
    image = np.abs(image_of(shape)).astype(dtype)
    for mode in ("constant", "grid-constant", "mirror"):
        if by == by or mode == "constant":  # elsewhere, SciPy reads unspecified memory for NaN
            agree("shift", image, by, order=order, mode=mode, cval=1)


@pytest.mark.parametrize("name", ["shift", "zoom"])
def test_any_rank_axis_by_axis(name):
    agree(name, image_of((3, 4, 2, 5)), 1.5, mode="mirror")


def test_more_than_three_axes_go_to_scipy():
    image = image_of((3, 4, 2, 5))
    agree("map_coordinates", image, np.random.default_rng(1).uniform(0, 2, (4, 10)))
    agree("affine_transform", image, np.eye(4) + 0.05, order=1)
    agree("geometric_transform", image, lambda at: tuple(x / 2 for x in at), order=1)


@pytest.mark.parametrize("wrapped", [False, True])
def test_more_than_three_axes_with_our_functions_over_scipys_names(wrapped, monkeypatch):
    """Our functions must not call themselves in place of SciPy's."""
    image = image_of((3, 4, 2, 3))
    at = np.random.default_rng(0).uniform(0, 2, (4, 20))
    matrix = np.eye(4)[::-1].copy()
    calls = {
        "map_coordinates": (image, at),
        "affine_transform": (image, matrix),
        "geometric_transform": (image, lambda place: place[::-1]),
    }
    expected = {name: getattr(scipy_ndimage, name)(*arguments) for name, arguments in calls.items()}
    originals.cache_clear()
    for name in ndimage.__all__:
        ours = getattr(ndimage, name)
        replacement = (
            (lambda *arguments, f=ours, **options: f(*arguments, **options)) if wrapped else ours
        )
        for module in (scipy_ndimage, scipy_ndimage._interpolation):
            monkeypatch.setattr(module, name, replacement)
    for name, arguments in calls.items():
        result = getattr(scipy_ndimage, name)(*arguments)
        np.testing.assert_allclose(result, expected[name], rtol=0, atol=TOLERANCE)
    originals.cache_clear()


def test_outputs_of_other_ranks():
    image = image_of((5, 6))
    agree("affine_transform", image, [[0.5], [1]], 0.2, (4,))
    agree("geometric_transform", image, lambda at: (at[0] / 2, at[2] + at[1] / 3), (3, 2, 4))


def test_a_nan_coordinate_is_outside_in_constant_mode():
    for order in (0, 1, 3):
        result = ndimage.map_coordinates(np.ones(9), [[np.nan, np.inf, 2]], order=order, cval=7)
        np.testing.assert_allclose(result, [7, 7, 1], atol=TOLERANCE)


def test_empty_images_and_outputs():
    assert ndimage.map_coordinates(np.zeros((0, 3)), np.zeros((2, 2)), cval=5).tolist() == [5, 5]
    assert ndimage.map_coordinates(np.ones(3), np.zeros((1, 0))).shape == (0,)
    assert ndimage.zoom(np.ones(4), 0.1).shape == (0,)
    with pytest.raises(RuntimeError, match="input is empty"):
        ndimage.map_coordinates(np.zeros((0, 3)), np.zeros((2, 2)), mode="mirror")


def test_inputs_are_not_modified():
    image = image_of((6, 7))
    before = image.copy()
    for name, argument in (("zoom", 1), ("zoom", 2), ("shift", 0), ("rotate", 20)):
        result = getattr(ndimage, name)(image, argument)
        assert not np.may_share_memory(result, image)
    assert np.array_equal(image, before)


@pytest.mark.parametrize(
    ("name", "arguments", "options"),
    [
        ("map_coordinates", (np.ones((3, 3)), np.zeros((3, 4))), {}),
        ("map_coordinates", (np.ones((3, 3)), np.zeros((2, 4), complex)), {}),
        ("map_coordinates", (np.ones((3, 3)), np.zeros(2)), {}),
        ("map_coordinates", (np.ones(3), np.zeros((1, 4))), {"order": 6}),
        ("map_coordinates", (np.ones(3), np.zeros((1, 4))), {"order": -1}),
        ("map_coordinates", (np.ones(3), np.zeros((1, 4))), {"mode": "edge"}),
        ("map_coordinates", (np.ones(3), np.zeros((1, 4))), {"output": np.zeros(5)}),
        ("map_coordinates", (np.ones(3, complex), np.zeros((1, 4))), {"output": np.zeros(4)}),
        ("affine_transform", (np.ones((3, 3)), np.eye(4)), {}),
        ("affine_transform", (np.ones((3, 3)), np.ones((2, 5))), {}),
        ("affine_transform", (np.ones((3, 3)), np.ones((3, 3))), {}),
        ("affine_transform", (np.ones((3, 3)), np.eye(2)), {"offset": [1, 2, 3]}),
        ("affine_transform", (np.ones((3, 3)), np.float64(2)), {}),
        ("shift", (np.ones((3, 3)), [1, 2, 3]), {}),
        ("shift", (np.float64(3), 1), {}),
        ("zoom", (np.ones((3, 3)), [1, 2, 3]), {}),
        ("rotate", (np.ones((3, 3)), 30), {"axes": (0, 2)}),
        ("rotate", (np.ones((3, 3)), 30), {"axes": (0, 1, 2)}),
        ("rotate", (np.ones((3, 3)), 30), {"axes": (0, 0.5)}),
        ("rotate", (np.ones(3), 30), {}),
        ("spline_filter", (np.ones(3),), {"order": 1}),
        ("spline_filter1d", (np.ones(3),), {"axis": 2}),
        ("geometric_transform", (np.ones((3, 3)), lambda at: at[:1]), {}),
    ],
)
def test_errors_have_scipys_types(name, arguments, options):
    with pytest.raises(Exception) as theirs:
        getattr(scipy_ndimage, name)(*arguments, **options)
    with pytest.raises(theirs.type) as ours:
        getattr(ndimage, name)(*arguments, **options)
    assert str(ours.value)


def lazy(array):
    """An array of a library that has no backend, which NumPy can convert, as one of dask's."""

    class Array:
        dtype, shape, ndim = array.dtype, array.shape, array.ndim

        def __array__(self, dtype=None, copy=None):
            return np.array(array, dtype)

        def __iter__(self):
            return map(lazy, array)

    Array.__module__ = "dask.array.core"
    return Array()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("affine_transform", ([[0.9, 0.2], [-0.1, 1.1]], [0.5, -0.5])),
        ("affine_transform", ([0.9, 1.1], [0.5, -0.5])),
        ("geometric_transform", (lambda at: (at[1], at[0]),)),
        ("map_coordinates", (np.array([[0.5, 2, 3.25], [1, 0.5, 2.75]]),)),
        ("rotate", (20,)),
        ("shift", ([0.5, 1.25],)),
        ("spline_filter", ()),
        ("spline_filter1d", ()),
        ("zoom", ([1.5, 0.7],)),
    ],
)
def test_arrays_of_libraries_without_a_backend_become_numpys(name, arguments):
    """As in SciPy, and without a warning (warnings are errors)."""
    image = image_of((6, 7))
    late = [
        lazy(np.array(argument)) if isinstance(argument, (list, np.ndarray)) else argument
        for argument in arguments
    ]
    expected = getattr(ndimage, name)(image, *arguments)
    for call in ((lazy(image), *arguments), (image, *late), (lazy(image), *late)):
        result = getattr(ndimage, name)(*call)
        assert type(result) is np.ndarray
        np.testing.assert_array_equal(result, expected)
    out = np.empty_like(expected)
    if name != "spline_filter1d":
        assert getattr(ndimage, name)(lazy(image), *late, output=out) is out
        np.testing.assert_array_equal(out, expected)


def test_grid_mode_warns_like_scipy():
    with pytest.warns(UserWarning, match="recommended to use mode"):
        ndimage.zoom(np.ones(3), 2, grid_mode=True)


def test_signatures():
    import inspect

    for name in ndimage.__all__:
        ours = inspect.signature(getattr(ndimage, name)).parameters.values()
        theirs = inspect.signature(getattr(scipy_ndimage, name)).parameters.values()
        assert [(p.name, p.kind) for p in ours] == [(p.name, p.kind) for p in theirs]
        for our, their in zip(ours, theirs, strict=True):
            assert our.default == their.default or {our.default, their.default} == {(), None}


# Tensors ------------------------------------------------------------------------------------------

CALLS = (
    ("map_coordinates", np.random.default_rng(1).uniform(-9, 30, (2, 4, 5))),
    ("affine_transform", np.array([[0.9, 0.2], [-0.1, 1.1]]), 0.3),
    ("affine_transform", np.array([0.9, 1.1]), [0.3, -0.7]),
    ("zoom", 1.4),
    ("shift", [1.3, -2.5]),
    ("rotate", 33),
    ("geometric_transform", lambda at: (0.9 * at[0], at[1] + 0.3 * at[0])),
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(9,), (7, 8), (5, 6, 4), (1, 5)])
def test_ties_round_like_scipy(shape, mode):
    """Also the one that goes the other way: half a pixel past the last one, under a mirror."""
    image, options = image_of(shape), {"order": 0, "mode": mode, "cval": 1.7}
    matrix, out = np.eye(len(shape)) / 2, tuple(5 * n for n in shape)
    for offset in (-3.25, -7.0):
        agree("affine_transform", image, matrix, offset, out, **options)


def tensor(array):
    torch = pytest.importorskip("torch")
    return torch.tensor(array) if isinstance(array, np.ndarray) else array


@pytest.mark.covering
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", [0, 1, 3])
def test_tensors_match_arrays_and_scipy(mode, order):
    image = image_of((7, 9))
    options = {"mode": mode, "order": order, "cval": 1.7}
    for name, *arguments in CALLS:
        expected = getattr(ndimage, name)(image, *arguments, **options)
        result = getattr(ndimage, name)(tensor(image), *map(tensor, arguments), **options)
        assert type(result).__name__ == "Tensor"
        np.testing.assert_allclose(result, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.covering(ordinary=0, slow=1)
@pytest.mark.parametrize("mode", ["nearest", "grid-constant", "constant", "wrap"])
def test_tensors_are_differentiable(mode):
    torch = pytest.importorskip("torch")
    from torch.autograd import gradcheck, gradgradcheck

    image = torch.tensor(image_of((4, 5)), requires_grad=True)
    options = {"mode": mode, "cval": 1.7}
    places = torch.rand(2, 3, 2, dtype=torch.float64, requires_grad=True) + torch.arange(2.0)
    matrix = torch.tensor([[0.91, 0.23], [-0.13, 1.07]], dtype=torch.float64, requires_grad=True)
    by = torch.tensor([0.31, -1.72], dtype=torch.float64, requires_grad=True)
    for function, arguments in (
        (lambda i, x: ndimage.map_coordinates(i, x, **options), (image, places.detach())),
        (lambda i, m, b: ndimage.affine_transform(i, m, b, **options), (image, matrix, by)),
        (
            lambda i, m, b: ndimage.affine_transform(i, m.diagonal(), b, **options),
            (image, matrix, by),
        ),
        (lambda i, b: ndimage.shift(i, b, **options), (image, by)),
        (lambda i: ndimage.zoom(i, 1.4, **options), (image,)),
        (lambda i: ndimage.rotate(i, 33, **options), (image,)),
        (lambda i: ndimage.spline_filter(i, mode=mode), (image,)),
        (
            lambda i, m: ndimage.geometric_transform(
                i, lambda at: (m[0, 0] * at[0] + 0.2, m[0, 1] + 0.4 * at[1]), (2, 3), **options
            ),
            (image, matrix),
        ),
    ):
        leaves = tuple(array.detach().requires_grad_() for array in arguments)
        assert gradcheck(function, leaves, fast_mode=True)
    assert gradgradcheck(lambda b: ndimage.shift(image, b, **options), (by,), fast_mode=True)


@pytest.mark.slow
def test_tensors_are_batched_and_compiled():
    torch = pytest.importorskip("torch")
    torch.compiler.reset()
    image = torch.tensor(image_of((7, 9)))
    for name, *arguments in CALLS[:-1]:
        tensors = [tensor(argument) for argument in arguments]

        def call(image, name=name, tensors=tensors):
            return getattr(ndimage, name)(image, *tensors, mode="reflect")

        batch = torch.stack([image, image.square()])
        expected = torch.stack([call(argument) for argument in batch])
        torch.testing.assert_close(torch.vmap(call)(batch), expected, rtol=1e-12, atol=1e-12)
        if np.ndim(arguments[0]) < 2:  # compiled as the matrix of `affine_transform` is
            continue
        is_map = name == "map_coordinates"  # matrices are prepared by NumPy
        compiled = torch.compile(call, backend="aot_eager", fullgraph=is_map)
        torch.testing.assert_close(compiled(image), expected[0], rtol=1e-12, atol=1e-12)


def test_zero_shifts_are_skipped_only_for_numbers():
    torch = pytest.importorskip("torch")
    image = torch.tensor(image_of((4, 5)))
    assert torch.equal(ndimage.shift(image, 0), image)
    by = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(ndimage.shift(image, by, mode="mirror").square().sum(), by)
    assert slope.abs().min() > 0


def test_outputs_of_tensors():
    torch = pytest.importorskip("torch")
    array = image_of((4, 5)) * 100
    image = torch.tensor(array)
    for output in (torch.float32, torch.int16, torch.uint8, np.float32, "int64", float):
        dtype = output if isinstance(output, torch.dtype) else np.dtype(output).name
        name = str(dtype).removeprefix("torch.")
        result = ndimage.zoom(image, 1.5, output)
        np.testing.assert_allclose(result, ndimage.zoom(array, 1.5, name), rtol=1e-6, strict=True)
        place = torch.empty(6, 8, dtype=getattr(torch, name))
        assert ndimage.zoom(image, 1.5, place) is place and torch.equal(place, result)
        assert ndimage.spline_filter(image, output=torch.empty(4, 5)).dtype == torch.float32
    with pytest.raises(RuntimeError, match="output shape not correct"):
        ndimage.zoom(image, 1.5, torch.empty(4, 5))
    with pytest.raises(RuntimeError, match="complex dtype"):
        ndimage.zoom(image * 1j, 1.5, torch.empty(6, 8))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "uint8", "complex64"])
def test_tensors_keep_their_precision(dtype):
    torch = pytest.importorskip("torch")
    image = torch.tensor(np.abs(image_of((4, 200))) * 20).to(getattr(torch, dtype))
    exact = image.to(torch.complex128 if image.is_complex() else torch.float64)
    for name, *arguments in (("shift", [0.3, 101.6]), ("map_coordinates", CALLS[0][1])):
        tensors = [tensor(argument) for argument in arguments]
        result = getattr(ndimage, name)(image, *tensors, order=1)
        truth = getattr(ndimage, name)(exact, *tensors, order=1)
        assert result.dtype == image.dtype
        # Half a unit in the last place of an integer; else of the type, and that of a position in
        # float32, along which the image may change by twice its largest number.
        unit = 1 if dtype == "uint8" else torch.finfo(image.dtype).eps * exact.abs().max()
        error = unit / 2 + 2 * exact.abs().max() * 200 * torch.finfo(torch.float32).eps
        assert (result.to(truth.dtype) - truth).abs().max() <= error


PLUGIN = """
import pytest

def pytest_collection_finish(session):
    import scipy.ndimage
    import gridsample.ndimage
    for name in gridsample.ndimage.__all__:
        setattr(scipy.ndimage, name, getattr(gridsample.ndimage, name))
"""


@pytest.mark.slow
def test_scipys_own_tests_pass_with_our_functions(tmp_path):
    """991 of them in SciPy 1.17; none is left out."""
    folder = Path(scipy_ndimage.__file__).parent
    if not (folder / "tests" / "test_interpolation.py").exists():
        pytest.skip("this SciPy comes without its tests")
    (tmp_path / "ours_for_theirs.py").write_text(PLUGIN)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-c", os.devnull, f"--rootdir={folder.parent}", "-q"),
            *("-p", "ours_for_theirs", "-p", "no:cacheprovider", "-p", "no:xdist"),
            *("--pyargs", "scipy.ndimage.tests.test_interpolation"),
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert " passed" in run.stdout and " failed" not in run.stdout


@given(data=st.data())
def test_few_points_of_a_large_image_are_as_if_all_of_it_were_converted(data) -> None:
    rank = data.draw(st.integers(1, 3))
    shape = tuple(data.draw(st.integers(1, {1: 200, 2: 30, 3: 12}[rank])) for _ in range(rank))
    dtype = data.draw(st.sampled_from(("u1", "i2", "f2", ">f8", ">f4", "?", "u8", "c8")))
    image = (np.random.default_rng(0).random(shape) * 200 - (dtype[0] in "i>") * 90).astype(dtype)
    place = st.one_of(st.floats(-3, 33), st.integers(-6, 60).map(lambda n: n / 2), st.floats())
    points = data.draw(st.lists(st.tuples(*[place] * rank), min_size=1, max_size=4))
    options = {
        "output": data.draw(st.sampled_from((None, *([] if dtype == "c8" else ["f8", "f4"])))),
        "order": data.draw(st.integers(0, 1)),
        "mode": data.draw(st.sampled_from(MODES)),
        "cval": data.draw(st.sampled_from((0, 3, 300, -1.5))),
    }
    places = np.array(points).T
    result = ndimage.map_coordinates(image, places, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(positions, "is_sparse", lambda *sizes: False)
        expected = ndimage.map_coordinates(image, places, **options)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", ["u1", "f2", ">f8"])
def test_few_points_do_not_convert_the_whole_image(tmp_path, dtype: str) -> None:
    path = tmp_path / "image"
    image = np.memmap(path, dtype, "w+", shape=(4000, 3000))
    image[1000:1002, 500:502] = [[1, 2], [3, 4]]
    matrix, offset = np.array([[0.0, 1.0], [1.0, 0.0]]), (1000.5, 500.5)
    tracemalloc.start()
    sampled = ndimage.map_coordinates(image, [[1000.5, 3e3], [500.5, 2e3]], np.float64, order=1)
    mapped = ndimage.affine_transform(image, matrix, offset, (1, 1), np.float64, order=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (sampled.tolist(), mapped.tolist()) == ([2.5, 0.0], [[2.5]])
    assert peak < image.size


def test_positions_at_the_end_of_the_range_of_numbers_do_not_warn() -> None:
    far = np.array([[1.79e308, -1.79e308]])
    result = ndimage.map_coordinates(np.arange(4.0), far, order=1, mode="wrap")
    assert ((result >= 0) & (result <= 3)).all()
