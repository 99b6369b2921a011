"""Sampling and its gradients: against PyTorch, and against the reference elsewhere."""

import itertools
import tracemalloc

import cases
import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import assert_close
from strategies import calls, examples

import gridsample

ALIGN = pytest.mark.parametrize("align_corners", [False, True], ids=["edges", "centres"])
MODE = pytest.mark.parametrize("mode", cases.MODES)
BOUNDARY = pytest.mark.parametrize("boundary", cases.BOUNDARIES)
GRID_NAME = pytest.mark.parametrize("grid_name", cases.GRIDS)
# Few channels are sampled plane by plane; many interleaved channels pixel by pixel.
LAYOUT = pytest.mark.parametrize(
    ("channels", "channel_axis"), [(2, 1), (3, -1), (9, -1)], ids=["first", "few-last", "many-last"]
)


def converters(channel_axis):
    """Functions that convert arrays from channels first to `channel_axis`, and back."""
    if channel_axis == 1:
        return lambda array: array, lambda array: array
    return (
        lambda array: np.ascontiguousarray(np.moveaxis(array, 1, -1)),
        lambda array: np.moveaxis(array, -1, 1),
    )


def results(values, image, grid, mode, boundary, align_corners, channel_axis=1, threads=None):
    """The output and both gradients, channels first."""
    convert, back = converters(channel_axis)
    options = (mode, boundary, align_corners)
    layout = {"channel_axis": channel_axis, "threads": threads}
    out = gridsample.grid_sample(convert(image), grid, *options, **layout)
    grad_input, grad_grid = gridsample.grid_sample_vjp(
        convert(values), convert(image), grid, *options, **layout
    )
    return back(out), back(grad_input), grad_grid


# Against PyTorch --------------------------------------------------------------------------------


# The modes of each rank that PyTorch has.
MODE_AND_RANK = pytest.mark.parametrize(
    ("mode", "rank"), [*itertools.product(cases.MODES, [2]), ("nearest", 3), ("linear", 3)]
)


@pytest.mark.covering(ordinary=2, slow=3)
@LAYOUT
@GRID_NAME
@ALIGN
@BOUNDARY
@MODE_AND_RANK
def test_agrees_with_torch(mode, rank, boundary, align_corners, grid_name, channels, channel_axis):
    # A derivative jumps at pixel centres.  Between edges they are met exactly at these sizes only;
    # at others PyTorch itself fuses a product and a sum in 2-D, and does not in 3-D.
    exact = grid_name == "identity" and not align_corners
    spatial = ((4, 8) if exact else (5, 7)) if rank == 2 else ((2, 4, 8) if exact else (3, 4, 5))
    rng = cases.generator(mode, rank, boundary, align_corners, grid_name, channels)
    image = cases.pixels(rng, (2, channels, *spatial))
    grid = cases.GRIDS[grid_name](rng, spatial, align_corners, 2)
    values = cases.pixels(rng, (2, channels, *grid.shape[1:-1]))
    options = (mode, boundary, align_corners)
    expected = oracles.torch_results(values, image, grid, *options)
    for threads in (1, 2):
        actual = results(values, image, grid, *options, channel_axis, threads)
        for mine, other in zip(actual, expected, strict=True):
            assert_close(mine, other)


@pytest.mark.covering
@pytest.mark.parametrize(
    ("mode", "spatial"),
    [
        *itertools.product(cases.MODES, [(1, 6), (7, 1), (1, 1), (63, 2)]),
        *itertools.product(cases.MODES[:2], [(1, 3, 2), (2, 1, 7), (1, 1, 1), (3, 63, 7)]),
    ],
)
@ALIGN
@BOUNDARY
def test_agrees_with_torch_at_awkward_sizes(mode, spatial, boundary, align_corners):
    rng = cases.generator(mode, spatial, boundary, align_corners)
    image = cases.pixels(rng, (1, 1, *spatial))
    options = (mode, boundary, align_corners)
    grid = rng.uniform(-4, 4, (1, *[7] * len(spatial), len(spatial)))
    values = cases.pixels(rng, (1, 1, *grid.shape[1:-1]))
    expected = oracles.torch_results(values, image, grid, *options)
    for actual, other in zip(results(values, image, grid, *options), expected, strict=True):
        assert_close(actual, other)

    grid = cases.identity(spatial, align_corners)
    values = cases.pixels(rng, (1, 1, *spatial))
    expected = oracles.torch_results(values, image, grid, *options)
    actual = results(values, image, grid, *options)
    assert_close(actual[0], expected[0])
    assert_close(actual[1], expected[1])
    if align_corners or mode != "linear":  # rounding selects a side of a jump at edges
        assert_close(actual[2], expected[2])


@LAYOUT
@MODE
@pytest.mark.parametrize(("items", "grid_items"), [(1, 3), (3, 1)])
def test_agrees_with_torch_when_items_broadcast(mode, items, grid_items, channels, channel_axis):
    rng = cases.generator(mode, items, channels)
    image = cases.pixels(rng, (items, channels, 4, 3))
    grid = rng.uniform(-1.2, 1.2, (grid_items, 63, 5, 2))
    values = cases.pixels(rng, (3, channels, 63, 5))
    options = (mode, "reflection", False)
    expected = oracles.torch_results(values, image, grid, *options)
    for threads in (1, 4):
        actual = results(values, image, grid, *options, channel_axis, threads)
        for mine, other in zip(actual, expected, strict=True):
            assert_close(mine, other)


# Sizes at which every pixel's coordinate, and what is made of it, is exact in single precision.
EXACT_SIZES = {
    (2, False): (32, 16),
    (2, True): (33, 17),
    (3, False): (8, 16, 4),
    (3, True): (9, 17, 5),
}


@pytest.mark.covering
@LAYOUT
@GRID_NAME
@ALIGN
@BOUNDARY
@MODE_AND_RANK
def test_single_precision_is_no_worse_than_torch(
    mode, rank, boundary, align_corners, grid_name, channels, channel_axis
):
    exact = grid_name in ("identity", "integers")
    awkward = (31, 33) if rank == 2 else (7, 13, 5)
    spatial = EXACT_SIZES[rank, align_corners] if exact else awkward
    rng = cases.generator(mode, rank, boundary, align_corners, grid_name, channels)
    image = cases.pixels(rng, (2, channels, *spatial), "float32")
    grid = cases.GRIDS[grid_name](rng, spatial, align_corners, 2).astype("float32")
    values = cases.pixels(rng, (2, channels, *grid.shape[1:-1]), "float32")
    # At a jump, rounding selects a side, and both are correct.
    certain = oracles.between(cases.positions(grid, spatial, align_corners), spatial) | exact
    assert certain.mean() > 0.5
    values *= certain[:, np.newaxis]

    options = (mode, boundary, align_corners)
    truth = oracles.torch_results(
        values.astype(float), image.astype(float), grid.astype(float), *options
    )
    theirs = oracles.torch_results(values, image, grid, *options)
    ours = results(values, image, grid, *options, channel_axis)
    masks = (certain[:, np.newaxis], True, certain[..., np.newaxis])
    # Pixels that many points share are sums of many terms, which cancel: what a sum may be off by
    # is of the size of its terms, whatever their order is.
    sums = oracles.torch_results(
        abs(values).astype(float), image.astype(float), grid.astype(float), *options
    )[1]
    scales = (truth[0], sums, truth[2])
    for true, their, our, mask, scale in zip(truth, theirs, ours, masks, scales, strict=True):
        assert our.dtype == np.float32
        slack = oracles.ulp(np.float32) * max(map(oracles.magnitude, (true, scale)))
        assert np.max(abs(our - true) * mask) <= 2 * np.max(abs(their - true) * mask) + slack


# Against the reference --------------------------------------------------------------------------

DOUBLE_AND_SINGLE = [("float64", "float64"), ("float32", "float32")]


def tolerance_of(call):
    """The tolerance of a call's results, for images of unit size."""
    wide = call.grid.dtype.itemsize == 8 or call.image.dtype.name in ("float64", "complex128")
    return 1e-12 if wide else 64 * oracles.ulp(np.float32)


@settings(max_examples=examples(80))
@given(calls(DOUBLE_AND_SINGLE), st.data())
def test_output_matches_the_reference(call, data):
    image = call.laid_out(call.image)
    expected = oracles.reference_output(call.image, call.grid, *call.options)
    with oracles.unchanged(image, call.grid):
        out = gridsample.grid_sample(
            image, call.grid, *call.options, channel_axis=call.channel_axis
        )
    assert out.dtype == call.image.dtype.newbyteorder("=")
    assert call.planes(out).shape == call.out_shape
    scale = oracles.magnitude(call.image)
    assert_close(call.planes(out), expected, tolerance_of(call), scale)

    # Into an array of any strides, every entry of which is overwritten.
    layout = data.draw(st.sampled_from(sorted({*cases.LAYOUTS} - UNWRITABLE)))
    mine = cases.LAYOUTS[layout](np.full_like(out, 12345.0))
    with oracles.unchanged(image, call.grid):
        returned = gridsample.grid_sample(
            image, call.grid, *call.options, channel_axis=call.channel_axis, out=mine
        )
    assert returned is mine
    assert_close(call.planes(mine), expected, tolerance_of(call), scale)


# Layouts of arrays that cannot take a result: read-only, with repeated entries, or of another type.
UNWRITABLE = {"read-only", "repeated", "byte-swapped"}


@settings(max_examples=examples(60))
@given(calls(DOUBLE_AND_SINGLE), st.sampled_from([*cases.LAYOUTS]), st.sampled_from([1, 2, 5]))
def test_gradients_match_the_reference(call, layout, threads):
    rng = cases.generator(call.out_shape)
    values = cases.LAYOUTS[layout](
        cases.pixels(rng, call.laid_out(np.empty(call.out_shape)).shape, call.image.dtype.name)
    )
    image = call.laid_out(call.image)
    expected = oracles.reference_gradients(
        call.planes(values), call.image, call.grid, *call.options
    )
    with oracles.unchanged(values, image, call.grid):
        grad_input, grad_grid = gridsample.grid_sample_vjp(
            values, image, call.grid, *call.options, channel_axis=call.channel_axis, threads=threads
        )
    assert grad_input.dtype == call.image.dtype.newbyteorder("=")
    assert grad_grid.dtype == call.grid.dtype.newbyteorder("=")
    assert grad_input.shape == image.shape
    points = max(1, int(np.prod(call.out_shape)))
    terms = oracles.magnitude(values) * points
    assert_close(call.planes(grad_input), expected[0], tolerance_of(call), terms)
    terms = oracles.magnitude(values) * oracles.magnitude(call.image) * 8 * 9 * 3
    assert_close(grad_grid, expected[1], tolerance_of(call), terms)


@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize("boundary", ["zeros", "border"])
def test_gradients_of_images_that_are_broadcast(axis, boundary):
    """Images may be broadcast along any axis: the gradient has all entries."""
    rng = cases.generator("broadcast", axis)
    image = cases.pixels(rng, (2, 3, 5, 6))
    image = np.broadcast_to(image.take([0], axis), image.shape)
    grid = rng.uniform(-1.1, 1.1, (2, 7, 4, 2))
    values = cases.pixels(rng, (2, 3, 7, 4))
    options = ("linear", boundary, boundary == "border")
    expected = oracles.reference_gradients(values, image, grid, *options)
    for result, desired in zip(
        gridsample.grid_sample_vjp(values, image, grid, *options), expected, strict=True
    ):
        assert_close(result, desired)
    with oracles.unchanged(image):
        alone, none = gridsample.grid_sample_vjp(values, image, grid, *options, need_grid=False)
    assert none is None
    assert_close(alone, expected[0])


@pytest.mark.covering
@pytest.mark.parametrize("rank", [1, 2, 3])
@ALIGN
@MODE
def test_every_pair_of_boundaries(mode, align_corners, rank):
    spatial = (3, 4, 5)[:rank]
    rng = cases.generator(mode, align_corners, rank)
    image = cases.pixels(rng, (1, 2, *spatial))
    grid = rng.uniform(-3, 3, (1, 9, rank))
    values = cases.pixels(rng, (1, 2, 9))
    for boundaries in cases.covering(*[cases.BOUNDARIES] * rank):
        options = (mode, boundaries, align_corners)
        out, grad_input, grad_grid = results(values, image, grid, *options)
        assert_close(out, oracles.reference_output(image, grid, *options))
        expected = oracles.reference_gradients(values, image, grid, *options)
        assert_close(grad_input, expected[0])
        assert_close(grad_grid, expected[1])


@pytest.mark.covering
@pytest.mark.parametrize("rank", [2, 3])
@BOUNDARY
def test_every_pair_of_modes(boundary, rank):
    spatial = (3, 4, 5)[:rank]
    rng = cases.generator(boundary, rank)
    image = cases.pixels(rng, (1, 9, *spatial))
    grid = rng.uniform(-2, 2, (1, 9, rank))
    values = cases.pixels(rng, (1, 9, 9))
    for *modes, channel_axis in cases.covering(*[cases.MODES] * rank, [1, -1]):
        options = (tuple(modes), boundary, False)
        out, grad_input, grad_grid = results(values, image, grid, *options, channel_axis)
        assert_close(out, oracles.reference_output(image, grid, *options))
        expected = oracles.reference_gradients(values, image, grid, *options)
        assert_close(grad_input, expected[0])
        assert_close(grad_grid, expected[1])


def test_aliases_give_the_same_result():
    rng = cases.generator("aliases")
    image, grid = cases.pixels(rng, (1, 1, 5, 7)), rng.uniform(-1, 1, (1, 9, 2))
    for name, method in oracles.REFERENCE_NAMES.items():
        for spelling in (name, (name, name), [name, name]):
            np.testing.assert_array_equal(
                gridsample.grid_sample(image, grid, spelling),
                gridsample.grid_sample(image, grid, method),
            )


def test_axes_are_named_in_the_order_of_the_grid():
    image = np.arange(12.0).reshape(1, 1, 3, 4)
    grid = np.array([[[-0.5, 0.3]]])  # the position 0.5 along x, and nearest to row 1 along y
    assert gridsample.grid_sample(image, grid, ("linear", "nearest")).item() == 4.5
    outside = np.array([[[-1.25, 0.0]]])  # x is at -1, outside on the left; y on row 1
    assert gridsample.grid_sample(image, outside, padding_mode=("border", "zeros")).item() == 4
    assert gridsample.grid_sample(image, outside, padding_mode=("zeros", "border")).item() == 0


# A block is 16 to 256 points wide, and so is what a thread takes: sizes around both.
@pytest.mark.covering
@pytest.mark.parametrize("points", [1, 7, 15, 16, 17, 63, 255, 256, 257, 1025])
@pytest.mark.parametrize("channel_axis", [1, -1])
@MODE
def test_any_number_of_points(mode, points, channel_axis):
    rng = cases.generator(mode, points)
    image = cases.pixels(rng, (1, 8, 7, 5))
    grid = rng.uniform(-1.5, 1.5, (1, points, 2))
    grid[:, 250:] *= 0.3  # far enough inside that no tap of a block is dropped
    values = cases.pixels(rng, (1, 8, points))
    options = (mode, "zeros", False)
    out, grad_input, grad_grid = results(values, image, grid, *options, channel_axis)
    assert_close(out, oracles.reference_output(image, grid, *options))
    expected = oracles.reference_gradients(values, image, grid, *options)
    assert_close(grad_input, expected[0])
    assert_close(grad_grid, expected[1])


@pytest.mark.covering
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 7, 8, 15, 16, 17, 33, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_any_number_of_channels(channels, dtype):
    rng = cases.generator(channels, dtype)
    image = cases.pixels(rng, (2, channels, 4, 5), dtype)
    grid = rng.integers(-80, 80, (2, 11, 2)).astype(dtype) / 64
    values = cases.pixels(rng, (2, channels, 11), dtype)
    first = results(values, image, grid, "bilinear", "zeros", False)
    last = results(values, image, grid, "bilinear", "zeros", False, -1)
    exact = oracles.reference_output(image, grid, "linear", "zeros", False)
    truth = (exact, *oracles.reference_gradients(values, image, grid, "linear", "zeros", False))
    for forward, other, true in zip(first, last, truth, strict=True):
        assert_close(forward, true, 16 * oracles.ulp(dtype), channels * oracles.magnitude(true))
        assert_close(other, true, 16 * oracles.ulp(dtype), channels * oracles.magnitude(true))


# Shapes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("out", [(), (5,), (2, 3), (2, 1, 3), (1, 2, 3, 2)], ids=str)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_grids_may_have_any_shape(out, rank):
    rng = cases.generator(out, rank)
    image = cases.pixels(rng, (2, 3, *(3, 4, 5)[:rank]))
    grid = rng.uniform(-1, 1, (2, *out, rank))
    flat = gridsample.grid_sample(image, grid.reshape(2, -1, rank))
    assert gridsample.grid_sample(image, grid).shape == (2, 3, *out)
    np.testing.assert_array_equal(gridsample.grid_sample(image, grid).reshape(flat.shape), flat)
    last = gridsample.grid_sample(np.moveaxis(image, 1, -1), grid, channel_axis=-1)
    assert last.shape == (2, *out, 3)
    np.testing.assert_array_equal(np.moveaxis(last, -1, 1).reshape(flat.shape), flat)
    values = cases.pixels(rng, (2, 3, *out))
    grad_input, grad_grid = gridsample.grid_sample_vjp(values, image, grid)
    assert (grad_input.shape, grad_grid.shape) == (image.shape, grid.shape)


@pytest.mark.parametrize(
    ("image_shape", "grid_shape"),
    [
        ((0, 2, 3, 4), (0, 5, 2)),
        ((0, 2, 3, 4), (1, 5, 2)),
        ((1, 2, 3, 4), (0, 5, 2)),
        ((2, 0, 3, 4), (2, 5, 2)),
        ((2, 2, 3, 4), (2, 0, 2)),
        ((2, 2, 3, 4), (2, 3, 0, 5, 2)),
        ((1, 2, 3, 4), (3, 0, 2)),
        ((3, 0, 3, 4), (1, 5, 2)),
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", cases.MODES)
def test_empty_arrays_have_empty_results(image_shape, grid_shape, mode):
    image, grid = np.ones(image_shape), np.zeros(grid_shape, np.float32)
    out = gridsample.grid_sample(image, grid, mode)
    items = 0 if 0 in (image_shape[0], grid_shape[0]) else max(image_shape[0], grid_shape[0])
    assert out.shape == (items, image_shape[1], *grid_shape[1:-1])
    assert out.size == 0
    assert gridsample.grid_sample(image, grid, mode, out=out) is out
    grad_input, grad_grid = gridsample.grid_sample_vjp(np.ones(out.shape), image, grid, mode)
    assert (grad_input.shape, grad_input.dtype) == (image.shape, image.dtype)
    assert (grad_grid.shape, grad_grid.dtype) == (grid.shape, grid.dtype)
    assert not grad_input.any()
    assert not grad_grid.any()


def test_lists_are_accepted_as_arrays():
    out = gridsample.grid_sample([[[1.0, 2.0, 4.0]]], [[[0.0], [2 / 3]]])
    assert isinstance(out, np.ndarray)
    assert_close(out, np.array([[[2.0, 4.0]]]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("channels", [2, 3, 5])
def test_channels_last_fill_values_per_channel(channels, dtype):
    image = cases.pixels(cases.generator("fills"), (1, 4, 5, channels), dtype)
    fill = tuple(float(c) for c in range(channels))
    # One point alone is outside, and then a register of them.
    grid = np.zeros((1, 1, 40, 2), dtype)
    grid[:, :, [1, *range(16, 40)]] = 3
    out = gridsample.grid_sample(
        image, grid, "cubic", fill_value=fill, extrapolate=False, channel_axis=-1
    )
    np.testing.assert_array_equal(out[0, 0, grid[0, 0, :, 0] > 1], [fill] * 25)


# Memory -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", cases.MODES)
@pytest.mark.parametrize("layout", sorted({*cases.LAYOUTS} - UNWRITABLE))
@pytest.mark.parametrize("channel_axis", [1, -1])
def test_out_may_have_any_strides(mode, layout, channel_axis):
    rng = cases.generator(mode, layout)
    image, grid = cases.pixels(rng, (2, 9, 5, 7)), rng.uniform(-1.2, 1.2, (2, 3, 4, 2))
    image = np.moveaxis(image, 1, channel_axis)
    expected = gridsample.grid_sample(image, grid, mode, channel_axis=channel_axis)
    out = cases.LAYOUTS[layout](np.full_like(expected, np.nan))
    around = oracles.owner(out).copy()
    assert gridsample.grid_sample(image, grid, mode, channel_axis=channel_axis, out=out) is out
    assert_close(out, expected)
    # The memory around the entries is unchanged.
    out[...] = np.nan
    assert oracles.owner(out).tobytes() == around.tobytes()


def test_channels_last_image_is_not_copied():
    image = cases.pixels(cases.generator("copies"), (1, 64, 64, 32), "float32")
    grid = cases.identity((8, 8), False).astype("float32")
    expected = gridsample.grid_sample(image, grid, channel_axis=-1)
    tracemalloc.start()
    out = gridsample.grid_sample(image, grid, channel_axis=-1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_array_equal(out, expected)
    assert peak < image.nbytes / 2


@BOUNDARY
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_points_inside_have_the_same_bits_beside_points_outside(mode, boundary, align_corners):
    rng = cases.generator("beside", mode, boundary)
    image = np.array([[[0.0, 1, -3, 8, 5]]], np.float32)
    inside = np.concatenate([rng.uniform(0, 4, 40), rng.uniform(0, 1e-6, 40), [0, 4]])
    outside = rng.uniform(-20, 20, len(inside))
    mixed = np.stack([inside, outside], 1).ravel()
    alone, beside = (
        gridsample.grid_sample(
            image,
            x.astype(np.float32)[np.newaxis, :, np.newaxis],
            mode,
            boundary,
            align_corners,
            coords="pixel",
        )
        for x in (inside, mixed)
    )
    np.testing.assert_array_equal(alone, beside[..., ::2])
