"""The oracle against PyTorch and SciPy, against numbers worked out on paper, and against itself.

Where PyTorch has the same definition it must agree to rounding. Where it has none, or contradicts
itself (NaN, infinity, far reflections), the tests state the rule by hand.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.ndimage
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from gridsample.kernels import reference

MODES = ("nearest", "linear", "cubic")
BOUNDARIES = ("zeros", "border", "reflection")
ALIGN = pytest.mark.parametrize("align_corners", [False, True], ids=["edges", "centres"])
MODE = pytest.mark.parametrize("mode", MODES)
BOUNDARY = pytest.mark.parametrize("boundary", BOUNDARIES)
REPEATING = ("symmetric", "mirror", "wrap", "antisymmetric", "antimirror", "dst1")
INF, NAN = math.inf, math.nan


def generator(*key):
    """Random numbers that differ from case to case and are the same in every run."""
    return np.random.default_rng(list(repr(key).encode()))


def coordinate(p, size, align_corners):
    """The coordinate whose position is p: `position` solved for x."""
    return 2 * p / (size - 1) - 1 if align_corners else (2 * p + 1) / size - 1


def coordinates(positions, spatial, align_corners):
    """A grid from positions (..., D), both in the order x, y, z."""
    axes = zip(np.moveaxis(positions, -1, 0), reversed(spatial), strict=True)
    return np.stack([coordinate(p, size, align_corners) for p, size in axes], axis=-1)


def identity(spatial, align_corners):
    indices = np.stack(np.indices(spatial)[::-1], axis=-1).astype(float)
    return coordinates(indices, spatial, align_corners)[None]


def image_1d(*pixels, dtype=float):
    return np.array(pixels, dtype=dtype)[None, None]


def grid_1d(*xs):
    return np.array(xs, dtype=float)[None, :, None]


def line(pixels, xs, mode, boundary, align_corners=False, order=0):
    """Sample a row of pixels at the coordinates xs; return a list of numbers."""
    out = reference.gather(
        image_1d(*pixels), grid_1d(*xs), (mode,), (boundary,), align_corners, (order,)
    )
    return out[0, 0].tolist()


def assert_close(actual, expected, tolerance=1e-12):
    """Equal within the tolerance, relative to the largest number where that is over 1."""
    assert actual.shape == expected.shape
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


# Against PyTorch --------------------------------------------------------------------------------

TORCH_NAMES = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}

GRIDS = {
    "random": lambda rng, spatial: rng.uniform(-1.2, 1.2, (2, 4, *spatial[1:], len(spatial))),
    "identity-centres": lambda rng, spatial: np.repeat(identity(spatial, True), 2, axis=0),
    "identity-edges": lambda rng, spatial: np.repeat(identity(spatial, False), 2, axis=0),
    "far-out": lambda rng, spatial: rng.uniform(-30, 30, (2, 4, *spatial[1:], len(spatial))),
    "integers": lambda rng, spatial: rng.integers(-4, 5, (2, 4, *spatial[1:], len(spatial))).astype(
        float
    ),
}


def assert_agrees_with_torch(image, grid, mode, boundary, align_corners, rng):
    torch_image = torch.tensor(image, requires_grad=True)
    torch_grid = torch.tensor(grid, requires_grad=True)
    n = max(len(image), len(grid))
    expected = torch.nn.functional.grid_sample(
        torch_image.expand(n, *image.shape[1:]),
        torch_grid.expand(n, *grid.shape[1:]),
        TORCH_NAMES[mode],
        boundary,
        align_corners,
    )
    grad_output = rng.standard_normal(tuple(expected.shape))
    expected.backward(torch.tensor(grad_output))

    rank = grid.shape[-1]
    how = ((mode,) * rank, (boundary,) * rank, align_corners)
    assert_close(reference.gather(image, grid, *how), expected.detach().numpy())
    grad_input, grad_grid = reference.gradients(grad_output, image, grid, *how)
    assert_close(grad_input, torch_image.grad.numpy())
    assert_close(grad_grid, torch_grid.grad.numpy())


@pytest.mark.sweep(3)
@pytest.mark.parametrize("kind", GRIDS)
@ALIGN
@BOUNDARY
@pytest.mark.parametrize(
    ("mode", "spatial"),
    [
        ("nearest", (5, 7)),
        ("linear", (5, 7)),
        ("cubic", (5, 7)),
        ("nearest", (3, 4, 5)),
        ("linear", (3, 4, 5)),
    ],
)
def test_agrees_with_torch(mode, spatial, boundary, align_corners, kind):
    rng = generator(mode, spatial, boundary, align_corners, kind)
    image = rng.standard_normal((2, 2, *spatial))
    grid = GRIDS[kind](rng, spatial)
    assert_agrees_with_torch(image, grid, mode, boundary, align_corners, rng)


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("mode", "spatial"),
    [
        *itertools.product(MODES, [(1, 6), (7, 1), (1, 1), (63, 2)]),
        *itertools.product(MODES[:2], [(1, 3, 2), (2, 1, 7), (1, 1, 1)]),
    ],
)
@ALIGN
@BOUNDARY
def test_agrees_with_torch_at_awkward_sizes(mode, spatial, boundary, align_corners):
    rng = generator(mode, spatial, boundary, align_corners)
    image = rng.standard_normal((2, 1, *spatial))
    grid = rng.uniform(-4, 4, (2, *[3] * len(spatial), len(spatial)))
    assert_agrees_with_torch(image, grid, mode, boundary, align_corners, rng)


@MODE
@pytest.mark.parametrize(("n_image", "n_grid"), [(1, 3), (3, 1)])
def test_agrees_with_torch_when_items_broadcast(mode, n_image, n_grid):
    rng = generator(mode, n_image)
    image = rng.standard_normal((n_image, 2, 4, 3))
    grid = rng.uniform(-1.2, 1.2, (n_grid, 2, 5, 2))
    assert_agrees_with_torch(image, grid, mode, "reflection", False, rng)


# Against SciPy, at ranks that PyTorch lacks -----------------------------------------------------


@pytest.mark.parametrize("spatial", [(7,), (2, 3, 4), (3, 2, 3, 2)], ids=str)
@ALIGN
@BOUNDARY
def test_linear_agrees_with_scipy_at_any_rank(spatial, boundary, align_corners):
    rng = generator(spatial, boundary, align_corners)
    rank = len(spatial)
    image = rng.standard_normal((1, 1, *spatial))
    positions = rng.uniform(-9, 12, (1, 20, rank))
    scipy_mode = {
        "zeros": "grid-constant",
        "border": "nearest",
        "reflection": "mirror" if align_corners else "reflect",
    }[boundary]
    expected = scipy.ndimage.map_coordinates(
        image[0, 0], positions[0, :, ::-1].T, order=1, mode=scipy_mode
    )
    actual = reference.gather(
        image,
        coordinates(positions, spatial, align_corners),
        ("linear",) * rank,
        (boundary,) * rank,
        align_corners,
    )
    assert_close(actual[0, 0], expected)


# Worked out on paper: positions and ties --------------------------------------------------------


def test_position_of_the_corners_and_the_middle():
    assert [reference.position(x, 5, True) for x in (-1, -0.5, 0, 1, 2)] == [0, 1, 2, 4, 6]
    assert [reference.position(x, 5, False) for x in (-1, 0, 1, 2)] == [-0.5, 2, 4.5, 7]
    assert reference.slope(5, True) == 2
    assert reference.slope(5, False) == 2.5


def test_nearest_rounds_half_to_even():
    xs = (-1, -0.5, 0, 0.5, 1)  # the positions -0.5, 0.5, 1.5, 2.5, 3.5 in an image of size 4
    assert line((10, 20, 30, 40), xs, "nearest", "zeros") == [10, 10, 30, 30, 0]
    assert line((10, 20, 30, 40), xs, "nearest", "border") == [10, 10, 30, 30, 40]
    assert line((10, 20, 30, 40), xs, "nearest", "reflection") == [10, 10, 30, 30, 40]


# Worked out on paper: linear --------------------------------------------------------------------


def test_linear_zeros_blends_with_zero_within_a_pixel_of_the_edge():
    # positions -1.5, -1, -0.5, 0, 0.25, 3, 3.5, 4
    xs = (-1.5, -1.25, -1, -0.75, -0.625, 0.75, 1, 1.25)
    assert line((10, 20, 30, 40), xs, "linear", "zeros") == [0, 0, 5, 10, 12.5, 40, 20, 0]


def test_bilinear_is_the_textbook_formula():
    nw, ne, sw, se = 1.0, 2.0, 5.0, 11.0
    image = np.array([[[[nw, ne], [sw, se]]]])
    tx, ty = 0.75, 0.25  # x = 2 tx - 1 and y = 2 ty - 1 with corners aligned: slope 1 / 2
    grid = np.array([[[0.5, -0.5]]])
    how = (("linear", "linear"), ("zeros", "zeros"), True)

    out = reference.gather(image, grid, *how)
    assert out.tolist() == [[[(nw * 0.25 + ne * 0.75) * 0.75 + (sw * 0.25 + se * 0.75) * 0.25]]]

    grad_input, grad_grid = reference.gradients(np.full((1, 1, 1), 8.0), image, grid, *how)
    assert grad_input.tolist() == [[[[1.5, 4.5], [0.5, 1.5]]]]
    gx = 8 * ((ne - nw) * (1 - ty) + (se - sw) * ty) / 2
    gy = 8 * ((sw - nw) * (1 - tx) + (se - ne) * tx) / 2
    assert grad_grid.tolist() == [[[gx, gy]]]
    assert reference.gather(image, grid, *how, (1, 1)).item() == (nw - ne - sw + se) / 4


def test_linear_derivative_on_a_pixel_centre_is_the_one_to_its_right():
    # position 1, with a rise of 10 to its left and of 30 to its right, and a slope of 1
    assert line((10, 20, 50), (0,), "linear", "zeros", True, order=1) == [30]


# Worked out on paper: cubic ---------------------------------------------------------------------


def test_cubic_weights_at_a_quarter():
    weights = [-0.10546875, 0.87890625, 0.26171875, -0.03515625]
    assert reference.weigh(3.25, "cubic") == list(zip((2, 3, 4, 5), weights, strict=True))
    mirrored = [weight for _, weight in reference.weigh(3.75, "cubic")]
    assert mirrored == weights[::-1]


def test_cubic_weights_on_a_pixel_centre():
    def weights(order):
        return [weight for _, weight in reference.weigh(2.0, "cubic", order)]

    assert weights(0) == [0, 1, 0, 0]
    assert weights(1) == [-0.75, 0, 0.75, 0]  # a (-1, 0, 1, 0): a central difference
    assert weights(2) == [3, -4.5, 3, -1.5]
    assert weights(3) == [-4.5, 7.5, -7.5, 4.5]
    assert weights(4) == []


@pytest.mark.parametrize("order", range(4))
@pytest.mark.parametrize("t", [0, 0.25, 0.5, 0.875])
def test_weights_sum_to_one_and_their_derivatives_to_zero(t, order):
    for mode in MODES:
        weights = [weight for _, weight in reference.weigh(5 + t, mode, order)]
        assert sum(weights) == (order == 0)


def test_cubic_folds_its_taps_one_by_one():
    # position -0.5, between pixels -1 and 0: the weights (-3, 19, 19, -3) / 32 of -2, -1, 0, 1
    pixels = (32, 64, 128, 256)
    assert line(pixels, (-1,), "cubic", "zeros") == [19 * 1 - 3 * 2]
    assert line(pixels, (-1,), "cubic", "border") == [(-3 + 19 + 19) * 1 - 3 * 2]
    assert line(pixels, (-1,), "cubic", "reflection") == [-3 * 2 + 19 + 19 - 3 * 2]
    # with corners aligned that position is -4 / 3, and the mirror is pixel 0: 2, 1, 0, 1
    x = coordinate(-0.5, 4, True)
    assert line(pixels, (x,), "cubic", "reflection", True) == pytest.approx(
        [-3 * 4 + 19 * 2 + 19 - 3 * 2], rel=1e-14
    )


def test_cubic_gradient_has_no_clamp():
    # position -0.5: only the last tap lies on pixel 1. Its distance d is 1.5, and with a slope of 2
    # its weight changes by -2 a (8 - 10 d + 3 d**2).
    assert line((0, 1, 0, 0), (-1,), "cubic", "border", order=1) == [-0.375]


# Worked out on paper: boundaries ----------------------------------------------------------------


@BOUNDARY
@ALIGN
def test_folded_indices_are_those_of_numpy_pad(boundary, align_corners):
    for size in (2, 3, 7):
        margin = 5 * size
        if boundary == "zeros":
            expected = [None] * margin + list(range(size)) + [None] * margin
        else:
            reflection = "reflect" if align_corners else "symmetric"
            pad = "edge" if boundary == "border" else reflection
            expected = np.pad(np.arange(size), margin, mode=pad).tolist()
        actual = [
            reference.fold_index(i, size, boundary, align_corners)
            for i in range(-margin, size + margin)
        ]
        assert actual == expected


@ALIGN
@given(
    i=st.integers(-100, 100), turns=st.integers(-(10**18), 10**18), size=st.sampled_from([1, 2, 7])
)
def test_folded_indices_repeat_for_ever(align_corners, i, turns, size):
    period = 2 * (size - 1) if align_corners else 2 * size
    near = reference.fold_index(i, size, "reflection", align_corners)
    far = reference.fold_index(i + turns * period, size, "reflection", align_corners)
    assert far == near
    assert 0 <= far < size


@ALIGN
@given(
    p=st.floats(-1e300, 1e300) | st.floats(-100, 100) | st.integers(-(2**53), 2**53).map(float),
    size=st.sampled_from([1, 2, 7, 63]),
)
@example(p=1.75, size=1)
@example(p=1e15 + 0.5, size=7)
@example(p=2.0**53, size=7)
@example(p=-3e9 - 0.25, size=63)
def test_reflection_is_exact_however_far(align_corners, p, size):
    position, sign = reference.reflect(p, size, align_corners)
    low, span = (Fraction(0), size - 1) if align_corners else (Fraction(-1, 2), size)
    if span == 0:
        assert (position, sign) == (0, 0)
        return
    beyond = (Fraction(p) - low) % (2 * span)
    expected = low + min(beyond, 2 * span - beyond)
    rounding = 4 * size * np.finfo(float).eps
    assert abs(Fraction(position) - expected) <= rounding
    if rounding < beyond < span - rounding:
        assert sign == 1
    if span + rounding < beyond < 2 * span - rounding:
        assert sign == -1


def test_reflection_about_edges_and_about_centres():
    pixels = (10, 20, 30, 40)
    positions = (-1.25, -0.5, 3.25, 3.5, 4.25, 7.5, 8.75)
    edges = [coordinate(p, 4, False) for p in positions]
    assert line(pixels, edges, "linear", "reflection") == [12.5, 10, 40, 40, 37.5, 10, 17.5]
    positions = (-1.25, -0.5, 3.25, 3.5, 4.25, 7.5)
    centres = [coordinate(p, 4, True) for p in positions]
    assert line(pixels, centres, "linear", "reflection", True) == pytest.approx(
        [22.5, 15, 37.5, 35, 27.5, 25], rel=1e-14
    )


def test_border_stops_the_gradient_at_and_beyond_the_edge():
    # positions -1, 0, 0.25, 2.75, 3, 4; between pixels the derivative is 10 * 4 / 2
    xs = (-1.25, -0.75, -0.625, 0.625, 0.75, 1.25)
    pixels = (10, 20, 30, 40)
    assert line(pixels, xs, "linear", "border") == [10, 10, 12.5, 37.5, 40, 40]
    assert line(pixels, xs, "linear", "border", order=1) == [0, 0, 20, 20, 0, 0]


def test_reflection_turns_the_gradient_at_each_fold_and_stops_it_on_the_rim():
    pixels = (10, 20, 30, 40)
    positions = np.array(
        [-4.75, -1, -0.75, -0.5, -0.25, 0, 0.25, 3, 3.25, 3.5, 3.75, 4, 4.25, 8.75]
    )
    expected = [0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 0, 0, -20, 20]
    assert line(pixels, positions / 2 - 0.75, "linear", "reflection", order=1) == expected
    # with corners aligned, in an image of size 5
    xs = np.array([-4.5, -4, -1, 0, 0.5, 4, 4.5, 8, 8.5]) / 2 - 1
    expected = [20, 0, -20, 0, 20, 0, -20, 0, 20]
    assert line((10, 20, 30, 40, 50), xs, "linear", "reflection", True, order=1) == expected


def test_identity_grid_has_no_gradient_on_the_clamp():
    image = generator("clamp").standard_normal((1, 1, 3, 5))
    grid = identity((3, 5), True)
    for boundary in ("border", "reflection"):
        how = (("linear", "linear"), (boundary, boundary), True)
        _, grad_grid = reference.gradients(np.ones((1, 1, 3, 5)), image, grid, *how)
        assert not grad_grid[0, :, [0, -1], 0].any()
        assert not grad_grid[0, [0, -1], :, 1].any()
        assert grad_grid[0, :, 1:-1, 0].all()
        assert grad_grid[0, 1:-1, :, 1].all()


# Worked out on paper: a single pixel ------------------------------------------------------------


@MODE
@BOUNDARY
def test_a_single_aligned_pixel_is_everywhere(mode, boundary):
    xs = (-1e300, -7.3, -1, 0, 0.4, 1, 1e300, -INF, INF)
    assert line((5,), xs, mode, boundary, align_corners=True) == [5] * len(xs)
    assert line((5,), xs, mode, boundary, align_corners=True, order=1) == [0] * len(xs)
    assert np.isnan(line((5,), (NAN,), mode, boundary, align_corners=True)).all()


def test_a_single_pixel_has_edges_without_aligned_corners():
    # position x / 2
    assert line((8,), (-3, -1, 0, 0.5, 2), "linear", "zeros") == [0, 4, 8, 6, 0]
    assert line((8,), (-3, -1, 0, 0.5, 2), "linear", "border") == [8] * 5
    assert line((8,), (-3, -1, 0, 0.5, 2), "linear", "reflection") == [8] * 5
    assert line((8,), (-1.5, -1, 1, 1.5), "nearest", "zeros") == [0, 8, 8, 0]


# Worked out on paper: NaN and infinity ----------------------------------------------------------


@MODE
@BOUNDARY
@ALIGN
def test_nan_coordinate(mode, boundary, align_corners):
    rng = generator("nan")
    image = rng.standard_normal((1, 2, 3, 4))
    grid = np.array([[[NAN, 0.1], [0.1, NAN], [NAN, INF], [0.1, 0.2]]])
    how = ((mode, mode), (boundary, boundary), align_corners)

    out = reference.gather(image, grid, *how)
    assert np.isnan(out[:, :, :3]).all()
    assert np.isfinite(out[:, :, 3]).all()
    assert not reference.gather(image, grid, *how, (1, 0))[:, :, :3].any()

    grad_output = rng.standard_normal((1, 2, 4))
    grad_output[:, 0, :3] = NAN  # what a loss makes of a NaN output
    grad_input, grad_grid = reference.gradients(grad_output, image, grid, *how)
    alone, _ = reference.gradients(grad_output[:, :, 3:], image, grid[:, 3:], *how)
    assert np.array_equal(grad_input, alone)
    assert not grad_grid[:, :3].any()
    assert grad_grid[:, 3].any() == (mode != "nearest")


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, bool])
def test_nan_coordinate_in_an_integer_image_is_zero(dtype):
    out = reference.gather(
        image_1d(1, 1, dtype=dtype), grid_1d(NAN, 0.0), ("linear",), ("border",), False
    )
    assert out.dtype == dtype
    assert out.tolist() == [[[0, 1]]]


@MODE
@ALIGN
def test_infinite_coordinate(mode, align_corners):
    pixels = (10, 20, 30)
    assert line(pixels, (-INF, INF), mode, "zeros", align_corners) == [0, 0]
    assert line(pixels, (-INF, INF), mode, "border", align_corners) == [10, 30]
    assert np.isnan(line(pixels, (-INF, INF), mode, "reflection", align_corners)).all()
    for boundary in BOUNDARIES:
        assert line(pixels, (-INF, INF), mode, boundary, align_corners, order=1) == [0, 0]


@MODE
def test_gradients_of_infinite_coordinates(mode):
    image = image_1d(10, 20, 30)
    grid = grid_1d(-INF, INF)
    g = np.array([[[3.0, 5.0]]])
    expected = {"zeros": [0, 0, 0], "border": [3, 0, 5], "reflection": [0, 0, 0]}
    for boundary in BOUNDARIES:
        grad_input, grad_grid = reference.gradients(g, image, grid, (mode,), (boundary,), False)
        assert grad_input[0, 0].tolist() == expected[boundary]
        assert grad_grid.ravel().tolist() == [0, 0]


def test_infinite_coordinates_meet_other_axes():
    image = np.arange(6.0).reshape(1, 1, 2, 3)
    grid = np.array([[[INF, -0.5], [-INF, INF], [INF, NAN]]])
    linear = ("linear", "linear")
    out = reference.gather(image, grid, linear, ("border", "border"), False)
    np.testing.assert_array_equal(out, [[[2, 3, NAN]]])
    out = reference.gather(image, grid, linear, ("zeros", "border"), False)
    np.testing.assert_array_equal(out, [[[0, 0, NAN]]])
    out = reference.gather(image, grid, linear, ("zeros", "reflection"), False)
    np.testing.assert_array_equal(out, [[[0, NAN, NAN]]])
    # The edge still has a gradient along the other axis: y = 0 lies between rows 2 and 5.
    _, grad_grid = reference.gradients(
        np.ones((1, 1, 1)), image, np.array([[[INF, 0.0]]]), linear, ("border", "border"), False
    )
    assert grad_grid.tolist() == [[[0, 3]]]


def test_a_dropped_tap_is_never_read():
    # position -0.5: pixel 0 with half its weight, and nothing else
    assert line((6, NAN), (-1,), "linear", "zeros") == [3]
    # position 1 of size 2, clamped: pixel 1 with weight 1, and index 2, dropped
    assert line((NAN, 6), (9,), "linear", "border") == [6]
    assert line((NAN, 6), (9,), "linear", "zeros") == [0]
    assert line((NAN, 6), (1,), "linear", "reflection", align_corners=True) == [6]
    assert line((6, INF), (9,), "linear", "border") == [INF]
    # a point outside along y drops every tap, whatever x does
    image = np.full((1, 1, 2, 2), NAN)
    grid = np.array([[[0.0, -9.0]]])
    for mode in MODES:
        how = ((mode, mode), ("zeros", "zeros"), False)
        assert reference.gather(image, grid, *how).tolist() == [[[0]]]
        _, grad_grid = reference.gradients(np.ones((1, 1, 1)), image, grid, *how)
        assert grad_grid.tolist() == [[[0, 0]]]


@pytest.mark.parametrize("bad", [NAN, INF])
def test_a_tap_inside_with_weight_zero_is_read(bad):
    # position 0 of size 2: pixel 0 with weight 1, and pixel 1 with weight 0
    assert np.isnan(line((6, bad), (-1,), "linear", "zeros", align_corners=True)).all()
    assert line((bad, 6), (1,), "linear", "zeros", align_corners=True) == [6]
    assert np.isnan(line((bad, 6, 6), (0,), "cubic", "zeros")).all()


def test_nearest_has_no_gradient_even_on_a_nan_pixel():
    assert line((NAN, NAN), (-0.5,), "nearest", "zeros", order=1) == [0]
    assert line((NAN, NAN), (INF,), "nearest", "border", order=1) == [0]
    assert line((NAN, NAN), (-0.5,), "linear", "zeros", order=2) == [0]
    assert line((NAN, NAN), (-0.5,), "cubic", "zeros", order=4) == [0]
    image = np.array([[[[NAN, 1.0], [2.0, 3.0]]]])
    _, grad_grid = reference.gradients(
        np.ones((1, 1, 1)),
        image,
        np.array([[[0.4, 0.4]]]),
        ("nearest", "linear"),
        ("zeros", "zeros"),
        True,
    )
    assert grad_grid.tolist() == [[[0, 1]]]


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
    how = ((mode, mode), (boundary, boundary), False)

    out = reference.gather(image, grid, *how)
    assert out.dtype == np.complex128
    expected = reference.gather(image.real, grid, *how) + 1j * reference.gather(
        image.imag, grid, *how
    )
    assert np.array_equal(out, expected)

    g = rng.standard_normal((2, 2, 5, 2)) @ np.array([1, 1j])
    grad_input, grad_grid = reference.gradients(g, image, grid, *how)
    assert np.array_equal(grad_input, reference.scatter(g, grid, (3, 4), *how))
    for axis in range(2):
        derivative = reference.gather(image, grid, *how, [int(k == axis) for k in range(2)])
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
    how = (("cubic", "linear"), ("zeros", "reflection"), False)

    assert np.array_equal(reference.gather(image, grid, *how), reference.gather(*before[1:], *how))
    for actual, expected in zip(
        reference.gradients(*arguments, *how), reference.gradients(*before, *how), strict=True
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
    how = (("linear", "cubic"), ("zeros", "border"), False)
    flat = grid.reshape(2, -1, 2)

    actual = reference.gather(image, grid, *how)
    assert actual.shape == (2, 2, *out)
    assert np.array_equal(actual.reshape(2, 2, -1), reference.gather(image, flat, *how))
    grad_input, grad_grid = reference.gradients(g, image, grid, *how)
    expected_input, expected_grid = reference.gradients(g.reshape(2, 2, -1), image, flat, *how)
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
    how = (("linear",), ("zeros",), False)
    out = reference.gather(image, grid, *how)
    assert out.size == 0
    grad_input, grad_grid = reference.gradients(np.ones_like(out), image, grid, *how)
    assert (grad_input.shape, grad_grid.shape) == (image_shape, grid_shape)
    assert not grad_input.any()
    assert not grad_grid.any()


# Against itself: what must be true of any sampling ----------------------------------------------


@MODE
@BOUNDARY
@ALIGN
def test_a_line_is_an_image_of_one_row(mode, boundary, align_corners):
    rng = generator(mode, boundary, align_corners)
    image = rng.standard_normal((2, 2, 7))
    x = rng.uniform(-2, 2, (2, 5, 1))
    y = np.zeros_like(x)  # the centre of the row
    g = rng.standard_normal((2, 2, 5))
    one = ((mode,), (boundary,), align_corners)
    two = ((mode, mode), (boundary, boundary), align_corners)
    wide, points = image[:, :, None, :], np.concatenate([x, y], axis=-1)
    tall, swapped = image[:, :, :, None], np.concatenate([y, x], axis=-1)

    expected = reference.gather(image, x, *one)
    assert np.array_equal(reference.gather(wide, points, *two), expected)
    assert np.array_equal(reference.gather(tall, swapped, *two), expected)
    grad_input, grad_grid = reference.gradients(g, image, x, *one)
    wide_input, wide_grid = reference.gradients(g, wide, points, *two)
    tall_input, tall_grid = reference.gradients(g, tall, swapped, *two)
    assert_close(wide_input[:, :, 0, :], grad_input)
    assert_close(tall_input[:, :, :, 0], grad_input)
    assert_close(wide_grid[..., :1], grad_grid)
    assert_close(tall_grid[..., 1:], grad_grid)


axis_case = st.tuples(
    st.integers(1, 4),  # size
    st.sampled_from(MODES),
    st.sampled_from(BOUNDARIES),
    st.integers(0, 3),  # order
    st.floats(-5, 5),  # coordinate
)


@ALIGN
@given(axes=st.lists(axis_case, min_size=1, max_size=4), seed=st.integers(0, 2**32))
def test_axes_are_independent(align_corners, axes, seed):
    """A product of lines, at any rank and with any mix, samples to the product of the samples."""
    rng = np.random.default_rng(seed)
    sizes, modes, boundaries, order, point = zip(*axes, strict=True)
    lines = [rng.integers(-3, 4, size).astype(float) for size in sizes]  # in the order x, y, z
    image = np.ones(())
    for pixels in reversed(lines):
        image = np.multiply.outer(image, pixels)

    factors = [
        line(pixels, (x,), mode, boundary, align_corners, k)[0]
        for pixels, x, mode, boundary, k in zip(lines, point, modes, boundaries, order, strict=True)
    ]
    actual = reference.gather(
        image[None, None], np.array([point]), modes, boundaries, align_corners, order
    )
    largest = math.prod(
        reference.slope(size, align_corners) ** k * 200
        for size, k in zip(sizes, order, strict=True)
    )
    assert actual.shape == (1, 1)
    np.testing.assert_allclose(
        actual.item(), math.prod(factors), rtol=1e-12, atol=1e-14 * max(1.0, largest)
    )


def smooth_points(rng, count, spatial, align_corners):
    """Coordinates inside and outside, whose positions keep clear of pixel centres and folds."""
    shape = (1, count, len(spatial))
    fraction = rng.uniform(0.15, 0.35, shape) + rng.choice([0, 0.5], shape)
    return coordinates(rng.integers(-6, 10, shape) + fraction, spatial, align_corners)


def difference(function, grid, axis):
    """d function / d grid along one axis; exact, but for rounding, for a polynomial of degree 4.

    Two steps are less than 0.15 pixels up to size 7.
    """
    step = np.zeros(grid.shape[-1])
    step[axis] = h = 0.02
    near = function(grid + step) - function(grid - step)
    far = function(grid + 2 * step) - function(grid - 2 * step)
    return (8 * near - far) / (12 * h)


def steepness(spatial, order, align_corners):
    """A bound on derivatives of samples of small numbers, which rounding errors are relative to."""
    slopes = (reference.slope(size, align_corners) for size in reversed(spatial))
    return math.prod((4 * slope) ** k for slope, k in zip(slopes, order, strict=True))


DIFFERENTIABLE = [
    ((7,), ("nearest",)),
    ((7,), ("linear",)),
    ((7,), ("cubic",)),
    ((5, 4), ("cubic", "cubic")),
    ((5, 4), ("cubic", "linear")),
    ((5, 4), ("nearest", "cubic")),
    ((3, 4, 5), ("cubic", "cubic", "cubic")),
    ((3, 4, 5), ("linear", "linear", "linear")),
    ((3, 4, 5), ("linear", "nearest", "cubic")),
    ((3, 4, 5), ("cubic", "linear", "linear")),
]

MIXES = [
    *((boundary,) * 3 for boundary in BOUNDARIES),
    *itertools.permutations(BOUNDARIES),
]


@pytest.mark.parametrize(("spatial", "modes"), DIFFERENTIABLE, ids=str)
@ALIGN
def test_derivatives_of_every_order_are_those_of_finite_differences(spatial, modes, align_corners):
    rank = len(spatial)
    rng = generator(spatial, modes, align_corners)
    image = rng.standard_normal((1, 1, *spatial))
    grid = smooth_points(rng, 6, spatial, align_corners)
    for boundaries in {mix[:rank] for mix in MIXES}:
        for order in itertools.product(range(2), repeat=rank):

            def sample(points, order=order, boundaries=boundaries):
                return reference.gather(image, points, modes, boundaries, align_corners, order)

            for axis in range(rank):
                raised = [k + (axis == i) for i, k in enumerate(order)]
                actual = sample(grid, order=raised)
                expected = difference(sample, grid, axis)
                rounding = 1e-12 * steepness(spatial, raised, align_corners)
                np.testing.assert_allclose(actual, expected, rtol=0, atol=rounding)


@pytest.mark.parametrize(("spatial", "modes"), DIFFERENTIABLE, ids=str)
@ALIGN
def test_gradients_are_those_of_finite_differences(spatial, modes, align_corners):
    rank = len(spatial)
    rng = generator(spatial, modes, align_corners, "gradients")
    image = rng.standard_normal((1, 2, *spatial))
    grid = smooth_points(rng, 6, spatial, align_corners)
    g = rng.standard_normal((1, 2, 6))
    direction = rng.standard_normal(image.shape)
    for boundaries in {mix[:rank] for mix in MIXES}:
        how = (modes, boundaries, align_corners)
        grad_input, grad_grid = reference.gradients(g, image, grid, *how)

        # Sampling is linear in the image: one step of any size gives the derivative.
        change = (g * reference.gather(direction, grid, *how)).sum()
        np.testing.assert_allclose((grad_input * direction).sum(), change, rtol=1e-12, atol=1e-12)

        for axis in range(rank):
            expected = difference(
                lambda points, how=how: (g * reference.gather(image, points, *how)).sum(axis=1),
                grid,
                axis,
            )
            order = [int(k == axis) for k in range(rank)]
            rounding = 1e-12 * steepness(spatial, order, align_corners)
            np.testing.assert_allclose(grad_grid[..., axis], expected, rtol=0, atol=rounding)


def assert_adjoint(rng, spatial, modes, boundaries, align_corners, order, items=(1, 1)):
    """<gather(image), values> = <image, scatter(values)>."""
    n_image, n_grid = items
    image = rng.standard_normal((n_image, 1, *spatial))
    grid = rng.uniform(-2.5, 2.5, (n_grid, 4, len(spatial)))
    how = (modes, boundaries, align_corners, order)
    sampled = reference.gather(image, grid, *how)
    values = rng.standard_normal(sampled.shape)
    spread = reference.scatter(values, grid, spatial, *how, batch=n_image)
    assert spread.shape == image.shape
    left, right = sampled * values, image * spread
    scale = max(1.0, np.abs(left).sum(), np.abs(right).sum())
    assert abs(left.sum() - right.sum()) <= 1e-12 * scale


@MODE
@BOUNDARY
@ALIGN
@pytest.mark.parametrize("order", range(5))
def test_scatter_is_the_adjoint_on_a_line(mode, boundary, align_corners, order):
    rng = generator(mode, boundary, align_corners, order)
    for size, items in itertools.product((1, 2, 7, 63), ((1, 1), (3, 1), (1, 3))):
        assert_adjoint(rng, (size,), (mode,), (boundary,), align_corners, (order,), items)


@ALIGN
@pytest.mark.parametrize("order", [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (3, 2)], ids=str)
def test_scatter_is_the_adjoint_in_2d(align_corners, order):
    rng = generator(align_corners, order)
    for modes in itertools.product(MODES, repeat=2):
        for boundaries in itertools.product(BOUNDARIES, repeat=2):
            assert_adjoint(rng, (3, 4), modes, boundaries, align_corners, order)


@ALIGN
@pytest.mark.parametrize("order", [(0, 0, 0), (1, 0, 0), (0, 1, 2)], ids=str)
def test_scatter_is_the_adjoint_in_3d(align_corners, order):
    rng = generator(align_corners, order)
    for modes in itertools.product(MODES, repeat=3):
        for boundaries in MIXES:
            assert_adjoint(rng, (2, 3, 4), modes, boundaries, align_corners, order)


def test_scatter_adds_up_what_meets_in_a_pixel():
    values = np.array([[[1.0, 10.0, 100.0]]])
    how = (("linear",), ("zeros",), True)
    result = reference.scatter(values, grid_1d(-1, 0, -0.5), (3,), *how)
    assert result.tolist() == [[[51, 60, 0]]]
    result = reference.scatter(values, grid_1d(NAN, INF, -INF), (3,), *how)
    assert result.tolist() == [[[0, 0, 0]]]


def test_scatter_sums_the_items_into_one():
    values = np.array([[[1.0]], [[10.0]]])
    how = (("nearest",), ("zeros",), True)
    assert reference.scatter(values, grid_1d(0), (3,), *how).tolist() == [[[0, 1, 0]], [[0, 10, 0]]]
    assert reference.scatter(values, grid_1d(0), (3,), *how, batch=1).tolist() == [[[0, 11, 0]]]


def test_sums_overflow_without_a_warning():
    how = (("nearest",), ("zeros",), True)
    values = np.array([[[1e308, 1e308, INF, -INF]], [[1, 2, -INF, 3]]])
    grid = grid_1d(-1, -1, 1, 1)
    result = reference.scatter(values, grid, (2,), *how)
    np.testing.assert_array_equal(result, [[[INF, NAN]], [[3, -INF]]])
    result = reference.scatter(-values, grid[:, ::-1], (2,), *how, batch=1)
    np.testing.assert_array_equal(result, [[[NAN, -INF]]])


def test_huge_and_odd_numbers_raise_nothing():
    odd = (1e308, -1e308, INF, -INF, NAN, 5e-324, 2.0**53, -(2.0**63), 1e19, 0.3)
    image = np.array([odd[:5], odd[5:]])[None, None]
    grid = np.array(list(itertools.product(odd, odd)))[None]
    g = np.resize(np.array(odd), (1, 1, 100))
    for mode, boundary in itertools.product(MODES, BOUNDARIES):
        how = ((mode, mode), (boundary, boundary), False)
        assert reference.gather(image, grid, *how).shape == (1, 1, 100)
        grad_input, grad_grid = reference.gradients(g, image, grid, *how)
        assert (grad_input.shape, grad_grid.shape) == (image.shape, grid.shape)


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
def test_gather_refuses_what_does_not_belong_together(change, message):
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


def test_scatter_and_gradients_refuse_values_of_another_shape():
    grid = np.ones((2, 4, 1))
    how = (("linear",), ("zeros",), False)
    with pytest.raises(ValueError, match=r"values has shape \(2, 1, 5\)"):
        reference.scatter(np.ones((2, 1, 5)), grid, (3,), *how)
    with pytest.raises(ValueError, match="batch is 3; accepted are 1 and N = 2"):
        reference.scatter(np.ones((2, 1, 4)), grid, (3,), *how, batch=3)
    with pytest.raises(
        ValueError, match=r"grad_output has shape \(1, 1, 4\); accepted is \(2, 1, 4"
    ):
        reference.gradients(np.ones((1, 1, 4)), np.ones((2, 1, 3)), grid, *how)


# Beyond PyTorch: methods ------------------------------------------------------------------------

WIDE = (
    "catmull-rom",
    "mitchell",
    *(f"spline{n}" for n in range(2, 8)),
    "lanczos2",
    "lanczos3",
    "lanczos4",
)
SCIPY_MODES = {
    "constant": "grid-constant",
    "border": "nearest",
    "symmetric": "reflect",
    "mirror": "mirror",
    "wrap": "grid-wrap",
}


@pytest.mark.parametrize("spatial", [(7,), (5, 4), (3, 4, 2)], ids=str)
@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("boundary", SCIPY_MODES)
def test_splines_agree_with_scipy(boundary, order, spatial):
    rng, rank = generator(boundary, order, spatial), len(spatial)
    image = rng.standard_normal((1, 1, *spatial))
    positions = rng.uniform(-9, 12, (1, 20, rank))
    expected = scipy.ndimage.map_coordinates(
        image[0, 0],
        positions[0, :, ::-1].T,
        order=order,
        mode=SCIPY_MODES[boundary],
        cval=3.5,
        prefilter=False,
    )
    actual = reference.gather(
        image, positions, (f"spline{order}",) * rank, (boundary,) * rank, False,
        coords="pixel", fill=3.5,
    )  # fmt: skip
    assert_close(actual[0, 0], expected)


@pytest.mark.parametrize("mode", WIDE)
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_derivatives_are_differences(mode, order):
    step = 1e-3
    if order >= reference.degree(mode):
        return

    def weights(p, n):
        return np.array([weight for _, weight in reference.weigh(p, mode, n)])

    for p in (7.2, 6.81, 7.45):
        slopes = (8 * (weights(p + step, order) - weights(p - step, order))) / (12 * step)
        slopes -= (weights(p + 2 * step, order) - weights(p - 2 * step, order)) / (12 * step)
        # The error is step**4 / 30 of the fifth derivative above, at most 5**10 of Lanczos'.
        assert_close(weights(p, order + 1), slopes, 1e-7)


@pytest.mark.parametrize("mode", WIDE)
@pytest.mark.parametrize("t", [0, 0.25, 0.5, 0.875])
def test_weights_of_wide_methods_sum_to_one(mode, t):
    for order in range(3):
        weights = [weight for _, weight in reference.weigh(6 + t, mode, order)]
        assert sum(weights) == pytest.approx(float(order == 0), abs=1e-12)


@pytest.mark.parametrize("n", range(2, 8))
def test_splines_reproduce_polynomials(n):
    # Samples of a polynomial of degree n, through coefficients that solve for them.
    far, k = 30, np.arange(-30.0, 31.0)
    value = np.polynomial.Polynomial([0.3, -1, 0.5, 0.25, -0.1, 0.05, 0.02, -0.01][: n + 1])
    matrix = np.zeros((61, 61))
    for row in range(61):
        for i, weight in reference.weigh(float(row), f"spline{n}"):
            matrix[row, min(max(i, 0), 60)] += weight
    # Polynomials' coefficients are polynomials: fit one in place of solving at the far ends.
    inner = slice(n, 61 - n)
    basis = np.polynomial.polynomial.polyvander(k / far, n)
    fit = np.linalg.lstsq((matrix @ basis)[inner], value(k / far)[inner], rcond=None)[0]
    for p in (28.3, 31.5, 25.75):
        found = sum(w * (basis[i] @ fit) for i, w in reference.weigh(p, f"spline{n}"))
        assert found == pytest.approx(value((p - 30) / far), abs=1e-12)


# Beyond PyTorch: boundaries ---------------------------------------------------------------------


def letters(boundary, count=6):
    """What is `count` pixels to each side of an image a b c d, as letters with signs."""
    cells = []
    for i in range(-count, 4 + count):
        pixel = reference.fold_index(i, 4, boundary, False)
        sign = "-" if reference.fold_sign(i, 4, boundary) < 0 else ""
        cells.append("0" if pixel is None else sign + "abcd"[pixel])
    return " ".join((*cells[:count], "|", *cells[count : count + 4], "|", *cells[count + 4 :]))


@pytest.mark.parametrize(
    ("boundary", "drawn"),
    [
        ("symmetric", "c d d c b a | a b c d | d c b a a b"),
        ("mirror", "a b c d c b | a b c d | c b a b c d"),
        ("wrap", "c d a b c d | a b c d | a b c d a b"),
        ("antisymmetric", "c d -d -c -b -a | a b c d | -d -c -b -a a b"),
        ("antimirror", "a b c d -c -b | a b c d | -c -b a b c d"),
        ("dst1", "0 -d -c -b -a 0 | a b c d | 0 -d -c -b -a 0"),
        ("constant", "0 0 0 0 0 0 | a b c d | 0 0 0 0 0 0"),
    ],
)
def test_boundaries_drawn_as_letters(boundary, drawn):
    assert letters(boundary) == drawn
    three = drawn.replace("0", "f" if boundary == "constant" else "0").split(" ")[3:-3]
    assert reference.BOUNDARIES[boundary] == " ".join(three)


@pytest.mark.parametrize("boundary", REPEATING)
def test_repeating_boundaries_repeat(boundary):
    for size in (1, 2, 7):
        period = {"wrap": size, "mirror": 2 * size - 2, "antimirror": 2 * size - 2}
        period["dst1"] = 2 * size + 2
        shift = period.get(boundary, 2 * size) or 1
        for i, turns in itertools.product(range(-9, 9), (1, -3, 10**18)):
            far = i + turns * shift
            for fold in (
                lambda i, n=size: reference.fold_index(i, n, boundary, False),
                lambda i, n=size: reference.fold_sign(i, n, boundary),
            ):
                assert fold(far) == fold(i)


def test_a_sign_is_on_the_gradient_too():
    # position -0.75: pixel -1, which is -10, with weight 0.75, and pixel 0 with weight 0.25
    row = image_1d(10, 20)
    how = (("linear",), ("antisymmetric",), False)
    assert reference.gather(row, grid_1d(-0.75), *how, coords="pixel").tolist() == [[[-5]]]
    grad_input, grad_grid = reference.gradients(
        np.full((1, 1, 1), 2.0), row, grid_1d(-0.75), *how, coords="pixel"
    )
    assert grad_input.tolist() == [[[2 * (0.25 - 0.75), 0]]]
    assert grad_grid.tolist() == [[[2 * (10 + 10)]]]


@pytest.mark.parametrize("boundary", REPEATING)
def test_infinity_is_nowhere_in_an_image_that_repeats(boundary):
    assert np.isnan(line((1, 2, 3), (-INF, INF), "linear", boundary)).all()
    assert line((1, 2, 3), (-INF, INF), "cubic", boundary, order=1) == [0, 0]


# Beyond PyTorch: fill values --------------------------------------------------------------------


def fill_1d(pixels, positions, mode, boundary, fill, **more):
    out = reference.gather(
        image_1d(*pixels), grid_1d(*positions), (mode,), (boundary,), False,
        coords="pixel", fill=fill, **more,
    )  # fmt: skip
    return out[0, 0].tolist()


def test_constant_blends_with_the_fill_value():
    positions = (-2, -0.25, 0, 2, 2.75, 9, INF, -INF)
    expected = [8, 0.25 * 8 + 0.75 * 1, 1, 3, 0.25 * 3 + 0.75 * 8, 8, 8, 8]
    assert fill_1d((1, 2, 3), positions, "linear", "constant", 8) == expected
    assert fill_1d((1, 2, 3), (-0.25,), "linear", "constant", 8, order=(1,)) == [1 - 8]
    assert fill_1d((1, 2, 3), (INF,), "linear", "constant", 8, order=(1,)) == [0]


def test_a_fill_value_of_weight_zero_is_not_read():
    # on the last pixel the tap beyond has weight 0
    assert fill_1d((1, 2, 3), (0, 2), "linear", "constant", NAN) == [1, 3]
    assert fill_1d((1, 2, 3), (0, 2), "cubic", "constant", NAN) == [1, 3]
    assert np.isnan(fill_1d((1, 2, 3), (2.25,), "linear", "constant", NAN)).all()


def test_a_fill_value_per_channel_and_of_an_integer_image():
    image = np.array([[[10, 20], [30, 40]]], dtype=np.uint8)
    how = (("nearest",), ("constant",), False)
    out = reference.gather(image, grid_1d(0, 5, NAN), *how, coords="pixel", fill=(7, 300))
    assert out.tolist() == [[[10, 7, 7], [30, 255, 255]]]


def test_a_fill_value_has_no_gradient_of_the_image_but_one_of_the_grid():
    image, grid = image_1d(1, 2, 3), grid_1d(-0.25, -7)
    grad_input, grad_grid = reference.gradients(
        np.ones((1, 1, 2)), image, grid, ("linear",), ("constant",), False, coords="pixel", fill=8
    )
    assert grad_input.tolist() == [[[0.75, 0, 0]]]
    assert grad_grid.ravel().tolist() == [1 - 8, 0]


@pytest.mark.parametrize("boundary", (*BOUNDARIES, "constant", "mirror", "wrap"))
@ALIGN
def test_without_extrapolation_the_outside_is_filled(boundary, align_corners):
    positions = np.array([-0.75, -0.25, 0, 1.5, 2, 2.25, 2.75])
    xs = [coordinate(p, 3, align_corners) for p in positions]
    how = (image_1d(1, 2, 3), grid_1d(*xs, INF, NAN), ("linear",), (boundary,), align_corners)
    free = reference.gather(*how, fill=8)[0, 0]
    kept = reference.gather(*how, fill=8, extrapolate=False)[0, 0]
    outside = [0, 6] if not align_corners else [0, 1, 5, 6]
    for i in range(9):
        expected = 8 if i in outside or i == 7 else free[i]
        np.testing.assert_equal(kept[i], expected)
    grad_input, grad_grid = reference.gradients(np.ones((1, 1, 9)), *how, fill=8, extrapolate=False)
    assert not grad_grid[0, [*outside, 7, 8]].any()
    inside = [i for i in range(7) if i not in outside]
    assert grad_input.sum() == pytest.approx(
        sum(w for i in inside for j, w in reference.point_taps(
            (xs[i],), (3,), ("linear",), (boundary,), align_corners, (0,)) if j is not None)
    )  # fmt: skip


# Beyond PyTorch: coordinates --------------------------------------------------------------------


@MODE
@ALIGN
def test_pixels_and_displacements_are_positions(mode, align_corners):
    rng = generator(mode, align_corners)
    image = rng.standard_normal((2, 2, 5, 6))
    positions = rng.uniform(-3, 8, (2, 4, 3, 2))
    how = ((mode, mode), ("reflection", "zeros"), align_corners)
    expected = reference.gather(image, coordinates(positions, (5, 6), align_corners), *how)
    assert_close(reference.gather(image, positions, *how, coords="pixel"), expected)
    own = np.stack(np.indices((4, 3))[::-1], axis=-1)
    offsets = positions - own
    assert_close(reference.gather(image, offsets, *how, coords="displacement"), expected)

    g = rng.standard_normal(expected.shape)
    grids = {"pixel": positions, "displacement": offsets}
    slopes = [reference.slope(size, align_corners) for size in (6, 5)]
    wanted = reference.gradients(g, image, coordinates(positions, (5, 6), align_corners), *how)
    for coords, grid in grids.items():
        grad_input, grad_grid = reference.gradients(g, image, grid, *how, coords=coords)
        assert_close(grad_input, wanted[0])
        assert_close(grad_grid * slopes, wanted[1])


def test_no_displacement_is_the_identity():
    image = generator("identity").standard_normal((1, 2, 3, 4))
    for mode in ("nearest", "linear", "cubic", "catmull-rom"):
        out = reference.gather(
            image, np.zeros((1, 3, 4, 2)), (mode, mode), ("zeros",) * 2, False,
            coords="displacement",
        )  # fmt: skip
        assert np.array_equal(out, image)


def test_a_displacement_needs_a_place():
    with pytest.raises(ValueError, match="grid has shape"):
        reference.gather(
            np.zeros((1, 1, 3, 4)), np.zeros((1, 5, 2)), ("linear",) * 2, ("zeros",) * 2, False,
            coords="displacement",
        )  # fmt: skip


# Beyond PyTorch: the transpose, and gradients by differences --------------------------------------


@pytest.mark.sweep(3)
@pytest.mark.parametrize("boundary", reference.BOUNDARIES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "mitchell", "spline4", "lanczos2"])
@pytest.mark.parametrize("extrapolate", [True, False])
def test_everything_is_transposed_and_differentiated(mode, boundary, extrapolate):
    rng = generator(mode, boundary, extrapolate)
    image = rng.standard_normal((1, 1, 4, 3))
    grid = rng.uniform(-2.5, 6.5, (1, 6, 2)).round(1) + 0.03  # away from where slopes jump
    how = ((mode, "linear"), (boundary, "mirror"), False)
    more = {"coords": "pixel", "extrapolate": extrapolate}
    g = rng.standard_normal((1, 1, 6))

    plain = reference.gather(image, grid, *how, **more)
    transposed = reference.scatter(g, grid, (4, 3), *how, **more)
    assert (plain * g).sum() == pytest.approx((image * transposed).sum(), abs=1e-13)

    grad_input, grad_grid = reference.gradients(g, image, grid, *how, **more, fill=2.0)
    assert np.array_equal(grad_input, transposed)
    step = 1e-5
    for place in np.ndindex(grid.shape):
        nudge = np.zeros(grid.shape)
        nudge[place] = step
        ahead, behind = (
            (reference.gather(image, grid + s * nudge, *how, **more, fill=2.0) * g).sum()
            for s in (1, -1)
        )
        assert grad_grid[place] == pytest.approx((ahead - behind) / (2 * step), abs=1e-7)
