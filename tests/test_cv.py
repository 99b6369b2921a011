"""`gridsample.cv` against plain loops, and against OpenCV within its fixed-point error."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridsample import cv
from gridsample.cv import warping

BORDERS = {
    cv.BORDER_REPLICATE: lambda i, n: min(max(i, 0), n - 1),
    cv.BORDER_REFLECT: lambda i, n: min(i % (2 * n), 2 * n - 1 - i % (2 * n)),
    cv.BORDER_REFLECT_101: lambda i, n: min(i % (2 * n - 2), 2 * n - 2 - i % (2 * n - 2)),
    cv.BORDER_WRAP: lambda i, n: i % n,
    cv.BORDER_CONSTANT: lambda i, n: i if 0 <= i < n else None,
}


def cubic(s, a=-0.75):
    s = abs(s)
    if s <= 1:
        return (a + 2) * s**3 - (a + 3) * s**2 + 1
    return a * s**3 - 5 * a * s**2 + 8 * a * s - 4 * a if s < 2 else 0.0


def sinc4(s):
    return float(np.sinc(s) * np.sinc(s / 4)) if abs(s) < 4 else 0.0


KERNELS = {
    cv.INTER_LINEAR: (1, lambda s: max(1 - abs(s), 0.0)),
    cv.INTER_CUBIC: (2, cubic),
    cv.INTER_LANCZOS4: (4, sinc4),
}


def pixel(image, x, y, interpolation, border, value):
    """One output pixel of `remap`, written out."""
    reach, kernel = KERNELS[interpolation]
    columns = range(math.floor(x) - reach + 1, math.floor(x) + reach + 1)
    rows = range(math.floor(y) - reach + 1, math.floor(y) + reach + 1)
    wx, wy = [kernel(x - i) for i in columns], [kernel(y - j) for j in rows]
    total = 0.0
    for j, wj in zip(rows, wy, strict=True):
        for i, wi in zip(columns, wx, strict=True):
            at = BORDERS[border](j, image.shape[0]), BORDERS[border](i, image.shape[1])
            total = total + wi * wj * (value if None in at else image[at])
    return total / (sum(wx) * sum(wy))


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("interpolation", [cv.INTER_NEAREST, cv.INTER_LINEAR, cv.INTER_CUBIC])
def test_two_maps_are_not_copied(first, interpolation, monkeypatch):
    """Whichever of them comes first in memory, and whatever lies between them: here, the result."""
    rng, shape = np.random.default_rng(3), (200, 210)
    image = rng.integers(0, 256, (50, 60, 3), np.uint8)
    maps = rng.uniform(-5, 65, (2, *shape)).astype(np.float32)
    memory = np.empty((3, *shape), np.float32)
    memory[0], memory[2] = maps[first], maps[1 - first]
    x, y = memory[2 * first], memory[2 - 2 * first]
    np.testing.assert_array_equal(y, maps[1])
    dst = memory[1].view(np.uint8).reshape(-1)[: image.shape[2] * x.size].reshape(*shape, 3)
    joined = warping.as_grid_view(x, y)
    np.testing.assert_array_equal(joined, np.moveaxis(maps, 0, -1))
    assert joined.base is not None and np.shares_memory(joined[..., 1], y)
    result = cv.remap(image, x, y, interpolation)
    assert cv.remap(image, x, y, interpolation, dst=dst) is dst
    monkeypatch.setattr(warping, "as_grid_view", lambda *_: None)
    expected = cv.remap(image, x, y, interpolation)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(dst, expected)
    np.testing.assert_array_equal(maps, [x, y])


def test_maps_that_no_stride_joins_are_copied():
    x = np.zeros((300, 300), np.float32)
    odd = np.zeros(4 * x.size + 1, np.uint8)[1:].view(np.float32).reshape(x.shape)
    assert warping.as_grid_view(x, np.zeros_like(x)) is not None
    for other in (x, odd, np.zeros(x.shape), np.zeros((300, 600), np.float32)[:, ::2], x[:-1]):
        assert warping.as_grid_view(x, other) is None
    assert warping.as_grid_view(x[:9], x[9:18]) is None  # so few are faster copied


@pytest.mark.parametrize(
    ("value", "numbers"),
    [
        *((0, [0, 0, 0, 0, 0]), (7, [7, 0, 0, 0, 7]), (2.5, [2.5, 0, 0, 0, 2.5])),
        *(((), [0] * 5), ((0, 0, 0), [0] * 5), ([1, 2], [1, 2, 0, 0, 1])),
        *(((1, 2, 3, 4), [1, 2, 3, 4, 1]), (np.array([3, 4]), [3, 4, 0, 0, 3])),
        *((True, [1, 0, 0, 0, 1]), (np.float32(1.5), [1.5, 0, 0, 0, 1.5])),
    ],
)
def test_border_values_are_padded_to_four_channels_and_repeated(value, numbers):
    image, at = np.ones((2, 2, 5)), np.full((1, 1), 9.0, np.float32)
    result = cv.remap(image, at, at, cv.INTER_LINEAR, borderValue=value)
    np.testing.assert_array_equal(result[0, 0], numbers)


@pytest.mark.parametrize("value", [10**400, (10**400,), "1", (1, 2, 3, 4, 5), [[1]], 1j, None])
def test_wrong_border_values_are_errors(value):
    image, at = np.ones((2, 2, 5)), np.full((1, 1), 9.0, np.float32)
    with pytest.raises((TypeError, ValueError), match="borderValue"):
        cv.remap(image, at, at, cv.INTER_LINEAR, borderValue=value)


@pytest.mark.covering
@pytest.mark.parametrize("interpolation", KERNELS)
@pytest.mark.parametrize("border", BORDERS)
def test_remap_matches_its_formula(interpolation, border):
    rng = np.random.default_rng(0)
    image = rng.normal(size=(7, 9, 3))
    x, y = rng.uniform(-4, 13, (5, 6)), rng.uniform(-4, 11, (5, 6))
    value = np.array([3.0, 4.0, 5.0])
    result = cv.remap(image, x, y, interpolation, borderMode=border, borderValue=tuple(value))
    expected = [
        pixel(image, *at, interpolation, border, value)
        for at in zip(x.ravel(), y.ravel(), strict=True)
    ]
    expected = np.reshape(expected, (*x.shape, 3))
    # Lanczos is a fitted table, whose weights err by 1e-9 each; 64 taps of up to 3.
    bound = 64 * 3 * 1e-9 if interpolation == cv.INTER_LANCZOS4 else 1e-13
    np.testing.assert_allclose(result, expected, rtol=0, atol=bound)


def test_nearest_rounds_ties_to_even():
    image = np.arange(5, dtype=np.int16)[None]
    x = np.array([[-0.5, 0.5, 1.5, 2.4, 9.0]])
    result = cv.remap(image, x, np.zeros_like(x), cv.INTER_NEAREST, borderValue=-7)
    assert result.tolist() == [[0, 0, 2, 2, -7]]


@given(
    st.lists(st.tuples(st.integers(-1, 12), st.integers(0, 31)), min_size=1, max_size=40),
    st.booleans(),
)
def test_nearest_rounds_halves_of_fixed_point_up(positions, along_y):
    pixels, fractions = np.array(positions).T
    image = np.arange(1, 12, dtype=np.uint8)[:, None] if along_y else np.arange(1, 12)[None]
    whole = np.zeros((1, len(pixels), 2), np.int16)
    whole[..., int(along_y)] = pixels
    table = (fractions * (32 if along_y else 1)).astype(np.uint16)[None]
    expected = np.pad(np.arange(1, 12), 3)[pixels + (fractions >= 16) + 3]
    assert cv.remap(image, whole, table, cv.INTER_NEAREST)[0].tolist() == expected.tolist()


def test_forms_of_maps():
    rng = np.random.default_rng(1)
    image = rng.integers(0, 255, (20, 30, 3), np.uint8)
    x = (rng.integers(-64, 32 * 32, (7, 8)) / 32).astype(np.float32)
    y = (rng.integers(-64, 22 * 32, (7, 8)) / 32).astype(np.float32)
    expected = cv.remap(image, x, y, cv.INTER_LINEAR)
    together = np.stack([x, y], -1)
    assert np.array_equal(cv.remap(image, together, None, cv.INTER_LINEAR), expected)
    floors = np.floor(together)
    part = ((together - floors) * 32).astype(np.uint16)
    fixed = floors.astype(np.int16), part[..., 0] + 32 * part[..., 1]
    assert np.array_equal(cv.remap(image, *fixed, cv.INTER_LINEAR), expected)
    rounded = np.floor(together + 0.5)
    nearest = cv.remap(image, rounded[..., 0], rounded[..., 1], cv.INTER_NEAREST)
    assert np.array_equal(cv.remap(image, *fixed, cv.INTER_NEAREST), nearest)
    floored = cv.remap(image, floors[..., 0], floors[..., 1], cv.INTER_NEAREST)
    assert np.array_equal(cv.remap(image, fixed[0], None, cv.INTER_LINEAR), floored)
    rows, columns = np.indices(x.shape, np.float32)
    relative = cv.INTER_LINEAR | cv.WARP_RELATIVE_MAP
    assert np.array_equal(cv.remap(image, x - columns, y - rows, relative), expected)


@pytest.mark.covering
@pytest.mark.parametrize("interpolation", [cv.INTER_NEAREST, cv.INTER_LINEAR, cv.INTER_CUBIC])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "int64", "bool"])
def test_transparent_taps_read_the_destination(dtype, interpolation):
    """As a constant border of that value would, point by point."""
    rng = np.random.default_rng(4)
    image, dst = ((rng.random(shape) * 200).astype(dtype) for shape in ((5, 7), (6, 9)))
    if dtype == "bool":
        image, dst = (rng.random(shape) < 0.5 for shape in (image.shape, dst.shape))
    x, y = (rng.uniform(-3, n + 2, dst.shape) for n in (7, 5))
    x[0, :7], y[0, :7] = [-1, -0.5, 0, 6, 6.5, 7, 3], 2
    result = cv.remap(image, x, y, interpolation, dst.copy(), cv.BORDER_TRANSPARENT)
    for at in np.ndindex(dst.shape):
        real = image if interpolation == cv.INTER_NEAREST else image.astype(float)
        alone = cv.remap(
            real,
            x[at].reshape(1, 1),
            y[at].reshape(1, 1),
            interpolation,
            borderValue=float(dst[at]),
        )[0, 0]
        alone = np.clip(alone, 0, 255) if dtype == "uint8" else alone
        # Half a unit for integers; a few roundings of float32 near 1000.
        bound = 1e-3 if dtype == "float32" else 0.5 + 1e-9
        assert abs(float(result[at]) - float(alone)) <= bound


def test_transparent_leaves_arbitrary_destinations_unchanged():
    image = np.ones((3, 4), np.float32)
    x = np.array([[1.3, -9.0, 2.2]])
    dst = np.array([[np.nan, np.inf, np.inf]], np.float32)
    result = cv.remap(image, x, x * 0 + 1.4, cv.INTER_LINEAR, dst, cv.BORDER_TRANSPARENT)
    np.testing.assert_allclose(result, [[1, np.inf, 1]], rtol=1e-6)


def test_nearest_exact_uses_sizes_and_nearest_uses_factors():
    image = np.arange(64)[None]
    for sizes in ({"dsize": (6, 1)}, {"dsize": None, "fx": 0.1, "fy": 1}):
        exact = cv.resize(image, interpolation=cv.INTER_NEAREST_EXACT, **sizes)
        assert exact.tolist() == [[5, 16, 26, 37, 47, 58]]  # 4.5 steps of 32 / 3 fall below 48
    by_factor = cv.resize(image, None, fx=0.1, fy=1, interpolation=cv.INTER_NEAREST)
    assert by_factor.tolist() == [[0, 10, 20, 30, 40, 50]]


def test_transparent_leaves_what_is_outside():
    image = np.full((4, 4, 2), 9, np.uint8)
    x = np.array([[-0.1, 0.0, 3.0, 3.1, np.nan]])
    dst = np.full((1, 5, 2), 200, np.uint8)
    options = {"dst": dst, "borderMode": cv.BORDER_TRANSPARENT}
    assert cv.remap(image, x, np.zeros_like(x), cv.INTER_NEAREST, **options) is dst
    assert dst[0, :, 0].tolist() == [9, 9, 9, 9, 200]
    dst[...] = 200
    assert cv.remap(image, x, np.zeros_like(x), cv.INTER_LINEAR, **options) is dst
    assert dst[0, :, 0].tolist() == [28, 9, 9, 28, 200]  # 0.9 * 9 + 0.1 * 200
    dst[...] = 200
    assert cv.remap(image, x, np.zeros_like(x), cv.INTER_LANCZOS4, **options) is dst
    assert dst[0, :, 0].tolist() == [200, 9, 9, 9, 200]
    with pytest.raises(ValueError, match="dst must be an array with BORDER_TRANSPARENT"):
        cv.remap(image, x, x, cv.INTER_LINEAR, borderMode=cv.BORDER_TRANSPARENT)


def test_beyond_32767_pixels():
    image = np.arange(70_000, dtype=np.float64)[None]
    x = np.array([[40_000.25, 65_535.5, 69_998.75]])
    assert cv.remap(image, x, np.zeros_like(x), cv.INTER_LINEAR).tolist() == x.tolist()
    shifted = cv.warpAffine(image, np.float64([[1, 0, 0.25], [0, 1, 0]]), (70_000, 1))
    assert shifted[0, 1:].tolist() == (image[0, 1:] - 0.25).tolist()


def test_warps_are_remaps():
    rng = np.random.default_rng(2)
    image = rng.normal(size=(11, 13))
    to_source = np.array([[0.9, 0.2, -1.5], [-0.1, 1.1, 0.5], [0.01, 0.02, 1]])
    rows, columns = np.indices((8, 10))
    for matrix, warp in ((to_source[:2], cv.warpAffine), (to_source, cv.warpPerspective)):
        full = np.vstack([matrix, [0, 0, 1]])[:3]
        u, v, w = np.tensordot(full, [columns, rows, np.ones_like(rows)], 1)
        expected = cv.remap(image, u / w, v / w, cv.INTER_CUBIC)
        flags = cv.INTER_CUBIC | cv.WARP_INVERSE_MAP
        result = warp(image, matrix, (10, 8), flags=flags)
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)
        forward = np.linalg.inv(full)
        forward = forward[:2] if len(matrix) == 2 else forward
        result = warp(image, forward, (10, 8), flags=cv.INTER_CUBIC)
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-11)


@pytest.mark.covering
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(2, 1), (3, 70), (150, 4)])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
@pytest.mark.parametrize("border", [cv.BORDER_CONSTANT, cv.BORDER_REFLECT_101, cv.BORDER_WRAP])
def test_projective_maps_need_no_positions(channels, size, dtype, border):
    """Few points, many, and rows; positions in float32 and float64."""
    rng = np.random.default_rng(5)
    image = rng.integers(0, 100, (9, 12, channels)).astype(dtype)
    matrix = np.array([[0.0625, 0.05, -1.5], [-0.01, 0.11, 0.5], [1e-3, -2e-3, 1.1]])
    rows, columns = np.indices(size[::-1])
    u, v, w = np.tensordot(matrix, [columns, rows, np.ones_like(rows)], 1)
    options = {"borderMode": border, "borderValue": 7}
    expected = cv.remap(image, u / w, v / w, cv.INTER_LINEAR, **options)
    flags = cv.INTER_LINEAR | cv.WARP_INVERSE_MAP
    result = cv.warpPerspective(image, matrix, size, flags=flags, **options)
    tolerance = {"float64": 1e-11, "float32": 1e-3}.get(dtype, 1)  # positions, or a rounded tie
    np.testing.assert_allclose(result.astype(float), expected.astype(float), rtol=0, atol=tolerance)


def test_a_line_at_infinity_reads_the_corner():
    matrix = np.array([[1, 0, 0], [0, 1, 0], [1, 0, -2.0]])
    image = np.arange(1.0, 13).reshape(3, 4)
    result = cv.warpPerspective(image, matrix, (4, 1), flags=cv.WARP_INVERSE_MAP)
    assert result[0, 2] == 1


SINGULAR = [
    np.zeros((3, 3)),
    np.array([[1, 2, 3], [2, 4, 6], [0, 0, 1.0]]),
    np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9.0]]),  # its rounded inverse would have large entries
    np.array([[0.1, 0.2, 1], [0.3, 0.6, 1], [0.1, 0.2, 1]]),
]


@pytest.mark.parametrize("flags", [cv.INTER_NEAREST, cv.INTER_LINEAR, cv.INTER_LANCZOS4])
@pytest.mark.parametrize("matrix", SINGULAR)
def test_a_singular_matrix_reads_the_corner(matrix, flags):
    image = np.arange(1.0, 13).reshape(3, 4)
    np.testing.assert_allclose(cv.warpPerspective(image, matrix, (5, 2), flags=flags), 1, rtol=1e-8)


def test_a_matrix_that_is_singular_but_for_rounding_is_accepted():
    matrix = np.array([[2, -3, 2], [0, -1, -2], [4, -4, 8]]) * 1e-3  # a zero pivot, a determinant
    image = np.ones((3, 4))
    assert cv.warpPerspective(image, matrix, (5, 2), borderMode=cv.BORDER_REPLICATE).min() == 1


def test_a_singular_affine_matrix_reads_the_corner():
    image = np.arange(1.0, 13).reshape(3, 4)
    for matrix in ([[1, 2, 3], [2, 4, 6]], np.zeros((2, 3)), [[1, 0, 1], [0, 0, 1]]):
        assert (cv.warpAffine(image, matrix, (5, 2)) == 1).all()


def test_area_is_the_mean_of_the_covered_pixels():
    image = np.arange(12.0).reshape(3, 4)
    half = cv.resize(image, (2, 3), interpolation=cv.INTER_AREA)
    assert half.tolist() == [[0.5, 2.5], [4.5, 6.5], [8.5, 10.5]]
    image[:, 3] = np.inf
    part = cv.resize(image, (3, 3), interpolation=cv.INTER_AREA)
    assert np.isfinite(part[:, :2]).all() and np.isinf(part[:, 2]).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cv.remap(np.ones(3), np.ones((1, 1)), np.ones((1, 1)), 1), "src must be"),
        (lambda: cv.remap(np.ones((0, 3)), np.ones((1, 1)), np.ones((1, 1)), 1), "src must be"),
        (lambda: cv.remap(np.ones((2, 2)), np.ones((1, 1)), np.ones((2, 1)), 1), "map1 and map2"),
        (lambda: cv.remap(np.ones((2, 2)), np.ones((1, 1), int), None, 1), "map1 and map2"),
        (lambda: cv.remap(np.ones((2, 2)), np.ones((1, 1)), np.ones((1, 1)), 7), "interpolation"),
        (lambda: cv.remap(np.ones((2, 2)), np.ones((1, 1)), np.ones((1, 1)), 1, None, 9), "border"),
        (lambda: cv.warpAffine(np.ones((2, 2)), np.eye(3), (2, 2)), "M must be a 2 x 3"),
        (lambda: cv.warpPerspective(np.ones((2, 2)), np.eye(3), (0, 2)), "dsize must be positive"),
        (lambda: cv.resize(np.ones((2, 2)), None), "give dsize, or fx and fy"),
        (lambda: cv.resize(np.ones((2, 2)), (2, 3), np.ones((2, 3))), "dst must be"),
    ],
)
def test_arguments_that_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


class TestOpenCV:
    """Fractions of 1/32 are given where positions are, so that only weights are rounded."""

    @pytest.fixture
    def cv2(self):
        return pytest.importorskip("cv2")

    @pytest.fixture(params=[(np.uint8, 255, 1), (np.float32, 1, 1e-4)], ids=["uint8", "float32"])
    def pixel_type(self, request):
        return request.param

    def image(self, pixel_type, *channels):
        return (np.random.default_rng(0).random((23, 31, *channels)) * pixel_type[1]).astype(
            pixel_type[0]
        )

    def test_constants(self, cv2):
        for name in cv.__all__:
            if name.startswith("CV_"):
                continue  # OpenCV 5 numbers these types anew; see `test_types_of_maps`
            if name.isupper() and hasattr(cv2, name):
                assert getattr(cv2, name) == getattr(cv, name)

    @pytest.mark.covering
    @pytest.mark.parametrize("channels", [(), (3,)])
    @pytest.mark.parametrize("border", BORDERS)
    @pytest.mark.parametrize("interpolation", [0, 1, 2, 4])  # area differs on purpose
    def test_remap_agrees(self, cv2, pixel_type, channels, border, interpolation):
        rng, image = np.random.default_rng(1), self.image(pixel_type, *channels)
        # Away from ties, of which the two send some to different sides when they wrap.
        x = (rng.integers(-320, 1280, (17, 19)) / 32 + (interpolation == 0) / 64).astype("f4")
        y = (rng.integers(-320, 1024, (17, 19)) / 32 + (interpolation == 0) / 64).astype("f4")
        options = {"borderMode": border, "borderValue": (0.25, 0.5, 1)}
        theirs = cv2.remap(image, x, y, interpolation, **options)
        ours = cv.remap(image, x, y, interpolation, **options)
        np.testing.assert_allclose(ours.astype(float), theirs, rtol=0, atol=pixel_type[2])

    @pytest.mark.parametrize("interpolation", [1, 2, 4])
    def test_warps_agree(self, cv2, pixel_type, interpolation):
        """A fraction that is off by 1/64 moves a value by that much of the image's range."""
        image = self.image(pixel_type, 3)
        matrix = np.array([[1.1, 0.2, -3], [-0.15, 0.9, 2], [0.001, 0.002, 1]])
        for name, rows in (("warpAffine", matrix[:2]), ("warpPerspective", matrix)):
            for flags in (interpolation, interpolation | cv.WARP_INVERSE_MAP):
                theirs = getattr(cv2, name)(image, rows, (25, 27), flags=flags)
                ours = getattr(cv, name)(image, rows, (25, 27), flags=flags)
                atol = pixel_type[1] * 5 / 64 + 1
                np.testing.assert_allclose(
                    ours.astype(float), theirs, rtol=0, atol=atol if pixel_type[1] > 1 else 5 / 64
                )

    @pytest.mark.parametrize("matrix", SINGULAR)
    def test_singular_matrices(self, cv2, pixel_type, matrix):
        """Lanczos is the interpolation for which OpenCV 5 does what OpenCV 4 does for all."""
        image = self.image(pixel_type, 3)
        theirs = cv2.warpPerspective(image, matrix, (5, 4), flags=cv2.INTER_LANCZOS4)
        ours = cv.warpPerspective(image, matrix, (5, 4), flags=cv.INTER_LANCZOS4)
        np.testing.assert_allclose(ours.astype(float), theirs, rtol=0, atol=pixel_type[2])
        if np.linalg.det(matrix[:2, :2]) == 0:
            theirs, ours = (m.warpAffine(image, matrix[:2], (5, 4)) for m in (cv2, cv))
            np.testing.assert_allclose(ours.astype(float), theirs, rtol=0, atol=pixel_type[2])

    def test_matrices_are_inverted_to_the_last_bit(self, cv2):
        """Also those that are nearly singular, in whose inverse nothing else is right."""
        rng = np.random.default_rng(0)
        for _ in range(300):
            matrix = rng.integers(-3, 4, (3, 3)) * rng.choice([1, 0.1, 1e-3, 1 / 3])
            if rng.random() < 0.5:
                matrix[2] = rng.integers(-2, 3, 2) @ matrix[:2]
            np.testing.assert_array_equal(warping.inverse(matrix, 3, 0), cv2.invert(matrix)[1])

    @pytest.mark.parametrize("interpolation", [0, 1, 4])  # area differs on purpose
    @pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32", "float64"])
    def test_transparent(self, cv2, dtype, interpolation):
        """Not cubic, for which OpenCV 5.0.0 reads eight pixels' first in the place of each."""
        rng = np.random.default_rng(2)
        image, dst = ((rng.random(n) * 200).astype(dtype) for n in ((9, 12, 3), (20, 30, 3)))
        # Away from ties.
        x, y = (
            (rng.integers(-128, 32 * (n + 4), dst.shape[:2]) / 32 + (interpolation == 0) / 64)
            for n in (12, 9)
        )
        arguments = x.astype("f4"), y.astype("f4"), interpolation
        theirs = cv2.remap(image, *arguments, dst=dst.copy(), borderMode=cv2.BORDER_TRANSPARENT)
        ours = cv.remap(image, *arguments, dst=dst.copy(), borderMode=cv.BORDER_TRANSPARENT)
        bound = 1 if image.dtype.kind in "iu" else 1e-2
        np.testing.assert_allclose(ours.astype(float), theirs, rtol=0, atol=bound)

    @pytest.mark.covering
    @pytest.mark.parametrize("interpolation", range(7))
    @pytest.mark.parametrize("factor", [0.1, 0.37, 0.62, 1.1, 1.7, 2.5, 3.7])
    def test_resize_by_factors(self, cv2, pixel_type, interpolation, factor):
        image = self.image(pixel_type)
        options = {"dsize": None, "fx": factor, "fy": 1.27, "interpolation": interpolation}
        theirs, ours = cv2.resize(image, **options), cv.resize(image, **options)
        np.testing.assert_allclose(ours.astype(float), theirs, rtol=0, atol=pixel_type[2])

    @pytest.mark.covering
    @pytest.mark.parametrize("interpolation", range(7))
    @pytest.mark.parametrize("size", [(31, 23), (62, 46), (15, 11), (10, 8), (20, 40), (93, 69)])
    def test_resize_matches_skimage(self, cv2, pixel_type, interpolation, size):
        for channels in ((), (3,)):
            image = self.image(pixel_type, *channels)
            theirs = cv2.resize(image, size, interpolation=interpolation)
            ours = cv.resize(image, size, interpolation=interpolation)
            np.testing.assert_allclose(ours.astype(float), theirs, rtol=0, atol=pixel_type[2])


def test_tensors_are_rejected_with_advice():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"src is a torch\.Tensor; accepted: NumPy arrays"):
        cv.resize(torch.ones(4, 5), (2, 2))


def test_destinations_that_are_read_only_remain() -> None:
    image, dst = np.ones((8, 9, 3), np.uint8), np.zeros((4, 5, 3), np.uint8)
    dst.flags.writeable = False
    x = np.ones((4, 5), np.float32)
    for call in (
        lambda: cv.resize(image, (5, 4), dst),
        lambda: cv.remap(image, x, x, cv.INTER_LINEAR, dst),
        lambda: cv.warpAffine(image, np.eye(2, 3), (5, 4), dst),
    ):
        with pytest.raises(ValueError, match="read-only"):
            call()
    assert not dst.any()


CAMERA = np.array([[50.0, 0, 31], [0, 55, 22], [0, 0, 1]])


class TestMapsAgainstOpenCV:
    @pytest.fixture
    def cv2(self):
        return pytest.importorskip("cv2")

    @pytest.mark.parametrize("new", ["given", "none", "projection"])
    @pytest.mark.parametrize("count", [0, 4, 5, 8, 12, 14])
    def test_maps_of_lenses(self, cv2, new, count):
        lens = np.array([0.1, -0.05, 0.01, -0.02, 0.03, 0.02, 0.01, *[1e-3] * 5, 0.02, 0.01])[
            :count
        ]
        rotation = cv2.Rodrigues(np.array([0.05, 0.1, 0.02]))[0]
        target = np.array([[45.0, 0, 30], [0, 48, 20], [0, 0, 1]])
        target = {"given": target, "none": None, "projection": np.eye(3, 4) * 40}[new]
        if new == "projection":
            target[2, 2] = 1
        arguments = CAMERA, lens if count else None, rotation, target, (64, 48)
        for kind in ("CV_32FC1", "CV_32FC2", "CV_16SC2"):
            ours = cv.initUndistortRectifyMap(*arguments, getattr(cv, kind))
            again = cv.initUndistortRectifyMap(*arguments, getattr(cv2, kind))
            theirs = cv2.initUndistortRectifyMap(*arguments, getattr(cv2, kind))
            for first, second, third in zip(ours, again, theirs, strict=True):
                if first is None:
                    assert second is third is None
                elif kind == "CV_16SC2":  # a tie may be rounded the other way
                    assert (first != third).mean() < 0.01 and (first == second).all()
                else:
                    np.testing.assert_allclose(first, third, rtol=0, atol=1e-4)
                    assert first.dtype == third.dtype and (first == second).all()

    @pytest.mark.parametrize("nearest", [False, True])
    def test_conversion_to_fixed_point(self, cv2, nearest):
        x, y = (np.random.default_rng(0).random((2, 20, 30)) * 100 - 20).astype("f4")
        ours = cv.convertMaps(x, y, cv.CV_16SC2, nninterpolation=nearest)
        theirs = cv2.convertMaps(x, y, cv2.CV_16SC2, nninterpolation=nearest)
        steps = np.rint(np.stack([x, y], -1) * np.float32(32)).astype(int)
        if nearest:
            assert ours[1] is theirs[1] is None
            assert (ours[0] == theirs[0]).all()
        else:
            assert (ours[0] * 32 + np.stack([ours[1] & 31, ours[1] >> 5], -1) == steps).all()
            assert (ours[1] == theirs[1]).all()

    def test_matrices_of_rotations(self, cv2):
        for angle in (0, 33, -90, 400.5):
            arguments = (3.0, 4.5), angle, 1.3
            ours, theirs = (m.getRotationMatrix2D(*arguments) for m in (cv, cv2))
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"cameraMatrix": np.eye(2)}, "cameraMatrix must be a 3 x 3 matrix, got shape"),
        ({"distCoeffs": np.zeros(3)}, "distCoeffs must have 4, 5, 8, 12 or 14 coefficients"),
        ({"size": (0, 4)}, "size must be positive"),
        ({"m1type": 99}, "type of maps is not known: 99; accepted: CV_32FC1"),
    ],
)
def test_wrong_lenses_are_refused(change, text):
    arguments = {
        "cameraMatrix": CAMERA,
        "distCoeffs": None,
        "R": None,
        "newCameraMatrix": None,
        "size": (6, 4),
        "m1type": cv.CV_32FC1,
    }
    with pytest.raises(ValueError, match=text):
        cv.initUndistortRectifyMap(**arguments | change)


class TestPyramidsAgainstOpenCV:
    @pytest.fixture
    def cv2(self):
        return pytest.importorskip("cv2")

    @staticmethod
    def image(dtype, *shape):
        return (np.random.default_rng(3).random(shape) * 200).astype(dtype)

    @staticmethod
    def agree(ours, theirs):
        """Integers differ where a sum is half way between two."""
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        bound = 1 if ours.dtype.kind in "iu" else 1e-4 if ours.dtype == np.float32 else 1e-11
        np.testing.assert_allclose(ours.astype(float), theirs, rtol=0, atol=bound)

    @pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
    @pytest.mark.parametrize("shape", [(23, 30, 3), (4, 5), (1, 2)])
    def test_halved(self, cv2, dtype, shape):
        image = self.image(dtype, *shape)
        for border in (cv.BORDER_REPLICATE, cv.BORDER_REFLECT, cv.BORDER_WRAP, cv.BORDER_DEFAULT):
            self.agree(cv.pyrDown(image, None, None, border), cv2.pyrDown(image, borderType=border))
        if shape[0] > 4:
            for size in ((15, 11), (14, 12)):
                self.agree(cv.pyrDown(image, dstsize=size), cv2.pyrDown(image, dstsize=size))

    @pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
    @pytest.mark.parametrize("shape", [(23, 30, 3), (4, 5), (1, 2)])
    def test_doubled(self, cv2, dtype, shape):
        image = self.image(dtype, *shape)
        self.agree(cv.pyrUp(image), cv2.pyrUp(image))
        size = 2 * shape[1] - 1, 2 * shape[0] - 1
        self.agree(cv.pyrUp(image, None, size), cv2.pyrUp(image, dstsize=size))

    def test_a_column_more_than_half(self, cv2):
        """OpenCV repeats the last column for widths; for heights, it extends the image."""
        image = self.image("float64", 22, 30)
        ours, theirs = (m.pyrDown(image, dstsize=(16, 12)) for m in (cv, cv2))
        self.agree(ours[:, :-1], theirs[:, :-1])
        self.agree(
            cv.pyrUp(image, dstsize=(61, 45))[:, :-1], cv2.pyrUp(image, dstsize=(61, 45))[:, :-1]
        )

    def test_results_are_written_to_dst(self):
        image, half = self.image("float32", 8, 6), np.zeros((4, 3), np.float32)
        assert cv.pyrDown(image, half) is half and half.any()
        assert cv.pyrUp(half, image[::-1]).base is image


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: cv.pyrDown(np.ones((4, 6)), None, (5, 2)), r"within 1 of half .* = \(6, 4\)"),
        (lambda: cv.pyrDown(np.ones((4, 6)), borderType=0), "borderType is not known: 0"),
        (lambda: cv.pyrUp(np.ones((4, 6)), None, (12, 10)), "within 1 of twice"),
        (lambda: cv.pyrUp(np.ones((4, 6)), borderType=1), "borderType is not known: 1"),
        (lambda: cv.warpPolar(np.ones((4, 6)), (3, 4), (1, 1), 0, 1), "maxRadius must be finite"),
        (lambda: cv.warpPolar(np.ones((4, 6)), (3, 4), (1, 1), 1, 257), "above 1, got 1"),
        (lambda: cv.warpPolar(np.ones((4, 6)), (3, 4), (1,), 3, 1), r"center must be \(x, y\)"),
        (lambda: cv.warpPolar(np.ones((4, 6)), (0, 4), (1, 1), 3, 1), "dsize must be positive"),
        (lambda: cv.undistortPoints(np.ones((4, 3)), np.eye(3), None), r"src must be \(N, 2\)"),
        (lambda: cv.undistortPoints(np.ones((1, 2)), np.eye(3), [1]), "distCoeffs must have 4"),
        (lambda: cv.undistort(np.ones((4, 3)), np.eye(2), None), "cameraMatrix must be a 3 x 3"),
    ],
)
def test_polar_images_pyramids_and_lenses_are_checked(call, text):
    with pytest.raises(ValueError, match=text):
        call()


class TestPolarAgainstOpenCV:
    @pytest.fixture
    def cv2(self):
        return pytest.importorskip("cv2")

    @pytest.mark.covering
    @pytest.mark.parametrize("dtype", ["uint8", "float32"])
    @pytest.mark.parametrize("interpolation", [0, 1, 4])
    @pytest.mark.parametrize("log", [0, cv.WARP_POLAR_LOG])
    @pytest.mark.parametrize("fill", [0, cv.WARP_FILL_OUTLIERS])
    @pytest.mark.parametrize("size", [(40, 50), (0, 0), (20, -1)])
    def test_there_and_back(self, cv2, dtype, interpolation, log, fill, size):
        """Smooth images: OpenCV rounds positions to 1/32, and angles to 0.3 degrees."""
        y, x = np.mgrid[0:40, 0:50]
        image = (100 + 90 * np.sin(x / 9) * np.cos(y / 7)).astype(dtype)
        bound = 12 if interpolation == 0 else 3
        flags, place = interpolation | log | fill, ((25.3, 20.2), 19.0)
        shape = cv.warpPolar(image, size, *place, flags).shape
        ours, theirs = (m.warpPolar(image, size, *place, flags) for m in (cv, cv2))
        assert shape == ours.shape == theirs.shape
        assert np.quantile(abs(ours.astype(float) - theirs), 0.99) <= bound
        # Without WARP_FILL_OUTLIERS, OpenCV 5.0.0 returns memory that nothing was written to.
        flags |= cv.WARP_FILL_OUTLIERS | cv.WARP_INVERSE_MAP
        back, expected = (m.warpPolar(ours, (50, 40), *place, flags) for m in (cv, cv2))
        # Up to 3 rows from the angle 0, OpenCV does not wrap lanczos around.
        across, down = x - place[0][0], y - place[0][1]
        row = np.arctan2(down, across) % (2 * np.pi) * (shape[0] / 2 / np.pi)
        shown = (np.hypot(across, down) < 16) & (abs(row - shape[0] / 2) < shape[0] / 2 - 4)
        difference = abs(back.astype(float) - expected)[shown]
        assert np.quantile(difference, 0.99) <= bound

    def test_pixels_outside_keep_their_values(self, cv2):
        image, values = np.full((9, 12), 5, np.uint8), np.full((16, 20), 77, np.uint8)
        arguments = (20, 16), (2.0, 3.0), 9.0, cv.INTER_NEAREST
        ours, theirs = (m.warpPolar(image, *arguments, values.copy()) for m in (cv, cv2))
        assert set(np.unique(ours)) == {5, 77} and (ours != theirs).mean() < 0.02
        arguments = (12, 9), (5.0, 4.0), 3.0, cv.INTER_LINEAR | cv.WARP_INVERSE_MAP
        back = cv.warpPolar(np.full((16, 20), 5, np.uint8), *arguments, np.full((9, 12), 77, "u1"))
        assert back[4, 5] == back[4, 7] == back[2, 5] == 5 and back[0, 0] == back[4, 9] == 77


class TestLensesAgainstOpenCV:
    @pytest.fixture
    def cv2(self):
        return pytest.importorskip("cv2")

    LENS = np.array([-0.3, 0.12, 2e-3, -1e-3, -0.02])

    @pytest.mark.parametrize("new", [None, CAMERA * [[0.8], [0.8], [1]]])
    @pytest.mark.parametrize("dtype", ["uint8", "float32"])
    def test_images(self, cv2, dtype, new):
        y, x = np.mgrid[0:48, 0:64]
        grey = 100 + 90 * np.sin(x / 9) * np.cos(y / 7)
        image = np.stack([grey, y, x], -1).astype(dtype)
        ours, theirs = (
            m.undistort(image, CAMERA, self.LENS, newCameraMatrix=new) for m in (cv, cv2)
        )
        # OpenCV rounds positions to 1/32; beyond the edge, values fall from 190 to 0 in a pixel.
        np.testing.assert_allclose(ours.astype(float), theirs, rtol=0, atol=190 / 64 + 1)
        maps = cv.initUndistortRectifyMap(
            CAMERA, self.LENS, None, CAMERA if new is None else new, (64, 48), cv.CV_32FC1
        )
        again = cv.remap(image, *maps, cv.INTER_LINEAR)
        np.testing.assert_allclose(
            ours.astype(float), again, rtol=0, atol=1e-2 if dtype == "float32" else 1
        )
        target = np.empty_like(image)
        assert cv.undistort(image, CAMERA, self.LENS, target, new) is target
        np.testing.assert_array_equal(target, ours)

    @pytest.mark.parametrize("shape", [(-1, 2), (-1, 1, 2), (1, -1, 2)])
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_points(self, cv2, dtype, shape):
        points = (np.random.default_rng(0).random((20, 2)) * [64, 48]).astype(dtype).reshape(shape)
        turn = cv2.Rodrigues(np.array([0.05, 0.1, 0.02]))[0]
        for options in ({}, {"P": CAMERA}, {"R": turn}, {"R": turn, "P": np.eye(3, 4) * 40}):
            # The iteration of OpenCV takes five steps by default.
            criteria = {"criteria": (cv2.TERM_CRITERIA_COUNT, 200, 0)}
            theirs = cv2.undistortPoints(points, CAMERA, self.LENS, **options, **criteria)
            ours = cv.undistortPoints(points, CAMERA, self.LENS, **options)
            assert ours.shape == theirs.shape == (20, 1, 2) and ours.dtype == theirs.dtype
            bound = 1e-3 if dtype == "float32" else 1e-9
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=bound)
        flat = points.reshape(-1, 2)
        np.testing.assert_array_equal(
            cv.undistortPoints(flat.T, CAMERA, self.LENS, P=CAMERA),
            cv.undistortPoints(flat, CAMERA, self.LENS, P=CAMERA),
        )

    def test_points_that_a_lens_does_not_image_are_nan(self, cv2):
        """OpenCV returns a point somewhere else."""
        far, lens = np.array([[3000.0, 2000.0]]), [-0.2, 0, 0, 0]
        assert np.isfinite(cv2.undistortPoints(far, CAMERA, np.array(lens))).all()
        assert np.isnan(cv.undistortPoints(far, CAMERA, lens)).all()
