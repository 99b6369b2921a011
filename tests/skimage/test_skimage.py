"""`gridsample.skimage` against scikit-image itself."""

import tracemalloc
import warnings

import numpy as np
import pytest
import torch

import gridsample.skimage as ours
from gridsample.skimage import warping

theirs = pytest.importorskip("skimage.transform")

MODES = ["constant", "edge", "symmetric", "reflect", "wrap"]
rng = np.random.default_rng(0)
# SciPy's spline of mode "reflect" misses pixels on short lines, so axes are longer than those.
PLANE = rng.random((23, 31))
IMAGES = {
    "float64": PLANE,
    "float32": PLANE.astype(np.float32),
    "float16": PLANE.astype(np.float16),
    "uint8": (PLANE * 255).astype(np.uint8),
    "int16": (PLANE * 6000 - 3000).astype(np.int16),
    "uint64": (PLANE * 2**60).astype(np.uint64),
    "bool": PLANE > 0.4,
}
PROJECTIVE = np.array([[1.1, 0.1, -3], [0.05, 0.9, 2], [0.001, 0.002, 1]])


def outcome(function, *arguments, **options):
    """The result, and the warnings; or the type of error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(*arguments, **options)
        except Exception as error:
            return error, []
    return result, sorted({warning.category.__name__ for warning in caught})


def agree(name, *arguments, tolerance=1e-10, **options):
    """Assert that our function has the results, warnings and errors of scikit-image's."""
    expected, expected_warnings = outcome(getattr(theirs, name), *arguments, **options)
    result, warned = outcome(getattr(ours, name), *arguments, **options)
    if isinstance(expected, Exception):
        assert isinstance(result, type(expected)), result
        return
    if isinstance(result, Exception):
        raise result
    assert warned == expected_warnings
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    exact = result.dtype.kind != "f"
    scale = 1.0 if exact else np.nanmax(np.abs(expected), initial=1)
    np.testing.assert_allclose(
        result.astype(float),
        expected.astype(float),
        rtol=1e-15 if result.dtype == np.uint64 else 0,  # whose sums are not exact
        atol=0 if exact else tolerance * scale,
    )


def tolerance_of(image):
    # Sums in single precision; positions of scikit-image's, too.
    return 1e-10 if image.dtype.itemsize == 8 or image.dtype.kind in "iu" else 2e-6


@pytest.mark.covering
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", [None, 0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("dtype", IMAGES)
def test_resize_matches_skimage(dtype, order, mode):
    image = IMAGES[dtype]
    tolerance = tolerance_of(image)
    for shape in ((17, 40), (12, 9)):
        agree("resize", image, shape, order, mode, tolerance=tolerance)
        agree("resize", image, shape, order, mode, 0.3, False, True, False, tolerance=tolerance)
    agree("resize", image, (12, 9), order, mode, anti_aliasing=True, tolerance=tolerance)


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("mode", MODES)
def test_resize_of_other_ranks(mode):
    for shape, size in (
        ((23,), (11,)),
        ((23, 24, 3), (11, 30)),
        ((23, 24, 3), (11, 30, 2)),
        ((23, 24), (30, 20, 2)),
        ((22, 23, 24), (11, 23, 40)),
        ((5, 6, 7, 8), (4, 6, 9, 3)),
        ((5, 6, 7), (4,)),
    ):
        agree("resize", rng.random(shape), size, 1, mode, cval=0.4)
    with pytest.raises(ValueError, match="at least one pixel"):
        ours.resize(PLANE, (0, 5))


@pytest.mark.parametrize(
    "options",
    [
        {"order": 6},
        {"order": -1},
        {"mode": "nearest"},
        {"anti_aliasing_sigma": -1.0},
        {"anti_aliasing_sigma": (1, 2)},
        {"anti_aliasing_sigma": (1, 2, 3)},
        {"anti_aliasing_sigma": 2, "anti_aliasing": True},
        {"anti_aliasing_sigma": 2.0},
        {"mode": "constant", "cval": np.nan},
        {"mode": "constant", "cval": 7.0, "order": 3},
    ],
)
def test_arguments_of_resize(options):
    if "cval" not in options:  # SciPy multiplies NaN by 0 along an axis that does not change
        agree("resize", PLANE, (11, 31), **options)
    agree("resize", PLANE, (11, 12), **options)
    agree("resize", IMAGES["bool"], (11, 12), anti_aliasing=True)
    agree("resize", IMAGES["bool"], (11, 12), 1)


def test_an_image_with_nan_is_clipped_to_its_numbers():
    image = PLANE.copy()
    image[:3] = np.nan
    result = ours.resize(image, (69, 31), 1, "edge", anti_aliasing=False)
    expected = theirs.resize(image, (69, 31), 1, "edge", anti_aliasing=False)
    np.testing.assert_allclose(result[12:], expected[12:], atol=1e-12)
    assert np.isnan(result[:9]).all()
    assert np.isnan(ours.resize(np.full((3, 3), np.nan), (5, 5))).all()


@pytest.mark.parametrize("name", ["resize", "rescale", "downscale_local_mean"])
def test_unchanged_images_are_copied(name):
    for array in (PLANE.copy(), torch.from_numpy(PLANE.copy())):
        result = getattr(ours, name)(array, PLANE.shape if name == "resize" else 1)
        result += 1
        np.testing.assert_array_equal(np.asarray(array), PLANE)


def test_rescale_matches_skimage():
    image = rng.random((23, 24, 3))
    for scale in (0.5, 1.3, (0.7, 1.9), 0.001, (0.5, 0.5, 2), (1, 2, 3, 4)):
        agree("rescale", image, scale)
        agree("rescale", PLANE, scale, order=3, mode="edge")
        for axis in (-1, 0, 1, (2,), (0, 1), 7):
            agree("rescale", image, scale, channel_axis=axis, anti_aliasing=True)


@pytest.mark.parametrize("dtype", IMAGES)
def test_downscale_local_mean(dtype):
    image = IMAGES[dtype]
    for factors in (2, 3, (4, 5), (40, 40), 0, (2, 2, 2), (1, 1)):
        for cval in (0, 2.5):
            tolerance = 2e-3 if dtype == "float16" else 1e-6 if dtype == "float32" else 1e-12
            agree("downscale_local_mean", image, factors, cval, tolerance=tolerance)
    with pytest.raises(ValueError, match="integers"):
        ours.downscale_local_mean(image, 1.5)


# Warping ------------------------------------------------------------------------------------------


def wave(xy, by=1.0):
    xy[:, 0] += by * np.sin(xy[:, 1] / 5)
    xy[:, 1] += 2.5
    return xy


def maps():
    similar = theirs.SimilarityTransform(scale=1.3, rotation=0.3, translation=(3.2, -2.1))
    return {
        "transform": (similar, {}),
        "inverse": (similar.inverse, {"preserve_range": True, "clip": False}),
        "matrix": (similar.params, {"output_shape": (20.0, 50)}),
        "shift": (np.array([[1.0, 0, 2], [0, 1, -3], [0, 0, 1]]), {}),
        "projective": (theirs.ProjectiveTransform(matrix=PROJECTIVE), {"cval": 0.4}),
        "polynomial": (theirs.PolynomialTransform(params=np.array([[1.0, 1, 0], [2, 0, 1]])), {}),
        "function": (wave, {"output_shape": (11, 13)}),
        "map_args": (wave, {"map_args": {"by": 2.0}, "cval": -0.3}),
        "coordinates": (np.mgrid[-3:27:1.7, -4:37:2.3], {"cval": 3.0}),
    }


@pytest.mark.covering
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", [None, 0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", maps())
def test_warp_matches_skimage(name, order, mode):
    function, options = maps()[name]
    for dtype in ("float64", "float32", "uint8", "bool"):
        image = IMAGES[dtype]
        tolerance = 1e-9 if dtype != "float32" else 1e-4
        agree("warp", image, function, order=order, mode=mode, tolerance=tolerance, **options)
    # SciPy's spline of mode "reflect" misses the pixels of three channels.
    if name != "coordinates" and (mode != "symmetric" or order in (None, 0, 1)):
        image = np.stack([PLANE, 1 - PLANE, PLANE**2], -1)
        agree("warp", image, function, order=order, mode=mode, **options)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["float64", "float32", "uint8", "bool"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "rows",
    [[(0.5, 0, -0.25), (0, 0.5, -3.5)], [(0, -1, 20.5), (1, 0, -0.5)], [(1, 0, np.inf), (0, 1, 2)]],
)
def test_the_nearest_pixel_of_ties_and_of_infinity(rows, mode, dtype):
    if np.isinf(rows[0][2]):
        mode = "constant"  # elsewhere, scikit-image converts NaN to an integer, with any result
    matrix = np.array([*rows, (0, 0, 1)])
    for image in (IMAGES[dtype], np.stack([IMAGES[dtype]] * 3, -1)):
        agree("warp", image, matrix, order=0, mode=mode, output_shape=(40, 50))


def test_warp_of_other_ranks():
    volume = rng.random((5, 6, 7))
    places = np.mgrid[0:4:0.7, 0:5:0.9, 0:6:1.3]
    for order in (0, 1, 3):
        agree("warp", volume, places, order=order)
    for image in (np.ones(4), np.ones((2, 2, 2, 2)), np.ones((0, 3))):
        agree("warp", image, np.eye(3))
        agree("warp", image, wave)
    for options in ({"order": 7}, {"mode": "nearest"}, {"output_shape": (2.5, 3)}):
        agree("warp", PLANE, np.eye(3), **options)
    agree("warp", PLANE, np.ones((3, 4, 5)))
    for shape in ((4, 5, 9), (4,)):
        with pytest.raises(ValueError, match="output_shape"):
            ours.warp(volume, wave, output_shape=shape)
    with pytest.raises(ValueError, match="inverse_map must return"):
        ours.warp(PLANE, lambda xy: xy[:3])


@pytest.mark.parametrize("cval", [0.0, np.nan])
def test_a_shift_by_whole_pixels_keeps_nan_where_it_is(cval):
    image = PLANE.copy()
    image[3, 4] = image[10] = np.nan
    for by in ((2, -3), (0.5, 0)):
        matrix = np.array([[1.0, 0, by[0]], [0, 1, by[1]], [0, 0, 1]])
        agree("warp", image, matrix, cval=cval)


@pytest.mark.covering
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", [None, 0, 1, 3, 5])
def test_rotate_matches_skimage(order, mode):
    for angle in (0, 90, 33.3, -180):
        for options in ({}, {"resize": True}, {"center": (4, 3.0)}):
            agree("rotate", PLANE, angle, order=order, mode=mode, **options)
    agree("rotate", IMAGES["float16"], 20, order=order, mode=mode, tolerance=1e-4)
    if mode != "symmetric":  # see above
        agree("rotate", np.stack([PLANE, PLANE**2], -1), 20, True, order=order, mode=mode)


# Tensors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda x: ours.resize(x, (9, 40), 3, "edge"),
        lambda x: ours.resize(x, (9, 40), 1, "wrap", clip=False, preserve_range=True),
        lambda x: ours.resize(x, (9, 40), 0, anti_aliasing=True),
        lambda x: ours.rescale(x, 0.7, 2, "constant", 0.5),
        lambda x: ours.downscale_local_mean(x, (2, 5), 1),
        lambda x: ours.warp(x, PROJECTIVE, cval=0.2),
        lambda x: ours.warp(x, np.eye(3), order=3, mode="edge"),
        lambda x: ours.warp(x, lambda xy: xy * 0.9 + 1, order=3),
        lambda x: ours.warp(x, PROJECTIVE, order=0),
        lambda x: ours.warp(x, theirs.PolynomialTransform(params=np.eye(2, 3, 1))),
        lambda x: ours.rotate(x, 30, order=1),
    ],
)
def test_tensors_match_arrays(call):
    for dtype in ("float64", "float32", "uint8", "int16"):
        image = IMAGES[dtype]
        expected, result = call(image), call(torch.from_numpy(image))
        assert isinstance(result, torch.Tensor)
        assert result.dtype == torch.from_numpy(expected).dtype
        np.testing.assert_allclose(result.numpy(), expected, rtol=0, atol=2e-5 * np.ptp(expected))


def test_tensors_have_derivatives():
    image = torch.rand(5, 6, dtype=torch.float64, requires_grad=True)
    check = torch.autograd.gradcheck
    matrix = torch.tensor(PROJECTIVE * [[1, 1, 0.3], [1, 1, 0.4], [1, 1, 1]], requires_grad=True)
    places = (torch.rand(2, 4, dtype=torch.float64) * 4 + 0.3).requires_grad_()
    options = {"clip": False, "output_shape": (4, 3)}
    assert check(lambda x: ours.resize(x, (3, 9), 3, "edge", clip=False), image)
    assert check(lambda x: ours.downscale_local_mean(x, 2), image)
    assert check(lambda x, m: ours.warp(x, m, order=3, cval=0.5, **options), (image, matrix))
    assert check(lambda x, m: ours.warp(x, m, order=5, mode="edge", **options), (image, matrix))
    assert check(lambda x, p: ours.warp(x, p, order=1, clip=False), (image, places))
    assert check(lambda x: ours.rotate(x, 20, clip=False), image)
    clip_range = ours.resize(image, (10, 12), 3)
    clip_range.sum().backward()
    assert image.min() <= clip_range.min() and clip_range.max() <= image.max()


def test_half_precision_is_computed_in_single():
    for dtype in (torch.float16, torch.bfloat16):
        image = torch.rand(9, 8).to(dtype)
        assert ours.resize(image, (5, 5)).dtype == torch.float32
        assert ours.warp(image, np.eye(3)).dtype == torch.float32
        assert ours.rotate(image, 3, order=0).dtype == torch.float32


@pytest.mark.parametrize("name", ["resize", "warp"])
def test_complex_images_are_refused(name):
    with pytest.raises(ValueError, match="complex"):
        getattr(ours, name)(np.ones((3, 3), complex), (3, 3) if name == "resize" else np.eye(3))


@pytest.mark.slow
def test_resizing_a_volume_needs_little_memory():
    volume = rng.random((256, 256, 256), dtype=np.float32)
    options = {"order": 3, "mode": "edge", "anti_aliasing": False}
    ours.resize(volume, (200, 200, 200), **options)  # loads kernels
    tracemalloc.start()
    try:
        result = ours.resize(volume, (200, 200, 200), **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.2 * result.nbytes
    part = theirs.resize(volume, (200, 200, 200), **options)
    np.testing.assert_allclose(result, part, rtol=0, atol=1e-5)


def few_places(kind):
    """A map of each type that `warp` takes, to 2 x 3 points."""
    matrix = np.array([[4.0, 0.5, -3], [0.3, 5.0, 2], [0, 0, 1]])
    homography = matrix + np.array([[0], [0], [1]]) * (0.01, 0.02, 0)
    coordinates = np.array([[[-0.5, 3.25, 9], [22.5, 4, 30]], [[1, 2.5, 30.5], [2, 3, 4]]])
    return {
        "affine": matrix,
        "projective": homography,
        "function": lambda xy: xy * 3.25 - 0.5,
        "coordinates": coordinates,
    }[kind]


@pytest.mark.parametrize("kind", ["affine", "projective", "function", "coordinates"])
@pytest.mark.parametrize("mode", MODES)
def test_few_points_of_integers_are_as_if_all_pixels_were_converted(kind, mode, monkeypatch):
    image = np.tile(IMAGES["int16"], (3, 3))
    for order in (1, 3):
        options = {"output_shape": (2, 3), "order": order, "mode": mode, "cval": 0.3}
        result = ours.warp(image, few_places(kind), **options)
        monkeypatch.setattr(warping, "is_sparse", lambda *sizes: False)
        expected = ours.warp(image, few_places(kind), **options)
        monkeypatch.undo()
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-14)
        theirs_result = theirs.warp(image, few_places(kind), **options)
        np.testing.assert_allclose(result, theirs_result, rtol=0, atol=1e-10)


def test_few_points_of_integers_do_not_convert_the_whole_image():
    image = np.zeros((4000, 3000), np.uint8)
    image[2, 1:3] = 102, 204
    tracemalloc.start()
    results = [
        ours.warp(image, place, output_shape=(1, 1), preserve_range=True)
        for place in (
            np.array([[1, 0, 1.5], [0, 1, 2], [0, 0, 1]]),
            lambda xy: np.add(xy, (1.5, 2)),
        )
    ]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [result.tolist() for result in results] == [[[153]]] * 2
    assert peak < image.size


@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["float64", "uint8"])
@pytest.mark.parametrize("order", [None, 0, 3])
@pytest.mark.parametrize("scaling", ["linear", "log"])
def test_polar_images_match_skimage(scaling, order, dtype):
    image = IMAGES[dtype]
    options = {"scaling": scaling, "order": order}
    agree("warp_polar", image, **options)
    options |= {"radius": 9.5, "output_shape": (20, 17.0), "preserve_range": True, "mode": "edge"}
    agree("warp_polar", image, (7.3, 11), **options)
    colours = np.stack([image, image[::-1]], 1)
    agree("warp_polar", colours, (7, 11), channel_axis=1, **options)


def test_polar_images_refuse_what_skimage_does():
    agree("warp_polar", PLANE, channel_axis=-1)
    agree("warp_polar", PLANE[..., None])
    agree("warp_polar", PLANE, scaling="logarithm")


@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["float64", "uint8"])
@pytest.mark.parametrize("order", [None, 0, 3])
@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_swirls_match_skimage(mode, order, dtype):
    image = IMAGES[dtype]
    agree("swirl", image, order=order, mode=mode, strength=3, radius=20)
    arguments = {"center": (9.5, 4), "rotation": 0.4, "cval": 0.3, "clip": False}
    colours = np.stack([image, image[::-1]], -1)
    agree("swirl", colours, strength=-2, output_shape=(9, 14), order=order, mode=mode, **arguments)


def test_curved_maps_of_tensors_have_gradients():
    image = torch.from_numpy(PLANE[:5, :6].copy()).requires_grad_()
    for call in (
        lambda image: ours.warp_polar(image, radius=3, output_shape=(5, 4)),
        lambda image: ours.swirl(image, radius=4),
    ):
        result = call(image)
        np.testing.assert_allclose(
            result.detach().numpy(), call(image.detach().numpy()), rtol=0, atol=1e-12
        )
        assert torch.autograd.gradcheck(call, image)
