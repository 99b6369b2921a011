"""`interpolate` and its gradient: against dense matrices, and invalid arguments."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from dataclasses import replace
from typing import Any

import cases
import numpy as np
import pytest
import torch
from resized import METHODS, SHAPES, corners, dense, described, matrices, pieces_of, scale_of
from torch.nn import functional

import gridsample
from gridsample.definitions.methods import Method
from gridsample.definitions.tables import axis_map

# The kernels ------------------------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("smooth", [False, True])
def test_every_method_matches_its_matrices_and_transposes(
    rank: int, method: str, smooth: bool
) -> None:
    for (spatial, size), align, axis in cases.covering(SHAPES[rank], (False, True), (1, -1)):
        rng = cases.generator(spatial, size)
        image = cases.pixels(rng, (2, 3, *spatial))
        options = {"mode": method, "antialias": smooth, **corners(method, align)}
        moved = np.moveaxis(image, 1, axis)
        expected = matrices(spatial, size, method, align, smooth)
        out = gridsample.interpolate(moved, size, channel_axis=axis, **options)
        np.testing.assert_allclose(
            np.moveaxis(out, axis, 1), dense(image, expected), rtol=0, atol=1e-12
        )
        values = cases.pixels(rng, (2, 3, *size))
        back = gridsample.interpolate_vjp(
            np.moveaxis(values, 1, axis), moved, size, channel_axis=axis, **options
        )
        transposed = dense(values, [matrix.T for matrix in expected])
        np.testing.assert_allclose(np.moveaxis(back, axis, 1), transposed, rtol=0, atol=1e-11)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("method", ["linear", "spline3", "spline4", "nearest"])
@pytest.mark.parametrize(
    ("channels", "spatial", "size"), [(2, (9, 14), (13, 5)), (21, (5, 4), (7, 4))]
)
def test_every_dtype(
    dtype: str, method: str, channels: int, spatial: tuple[int, ...], size: tuple[int, ...]
) -> None:
    kind = np.dtype(dtype)
    image = cases.pixels(cases.generator(dtype), (2, channels, *spatial), kind)
    out = gridsample.interpolate(image, size, mode=method)
    assert out.dtype == kind
    exact = dense(image, matrices(spatial, size, method, False, False))
    if method == "nearest":
        rows, columns = (
            axis_map(described(n, m, method)).band.first for n, m in zip(spatial, size, strict=True)
        )
        np.testing.assert_array_equal(out, image[:, :, rows[:, np.newaxis], columns])
    elif kind.kind in "fc":
        np.testing.assert_allclose(out, exact, rtol=scale_of(kind), atol=scale_of(kind))
    else:
        low, high = (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max)
        wide = kind.itemsize > 2
        # Half a unit of rounding, and that of sums: in single precision up to 16 bits.
        slack = 0.5 + 8 * float(high) * float(np.finfo("f8" if wide else "f4").eps)
        slack = 1.0 if kind == np.uint8 else slack
        error = np.abs(out.astype(float) - np.clip(exact, low, high))
        assert error.max() <= slack


@pytest.mark.covering
@pytest.mark.parametrize("layout", cases.LAYOUTS)
@pytest.mark.parametrize("method", ["nearest", "cubic"])
def test_any_memory_layout(layout: str, method: str) -> None:
    for dtype in ("float32", "uint8", "complex128"):
        image = cases.pixels(cases.generator(layout), (2, 3, 6, 5), dtype)
        laid = cases.LAYOUTS[layout](image)
        contiguous = np.ascontiguousarray(laid, dtype)
        for axis in (1, -1):
            strided, same = np.moveaxis(laid, 1, axis), np.moveaxis(contiguous, 1, axis)
            out = gridsample.interpolate(strided, (4, 9), mode=method, channel_axis=axis)
            expected = gridsample.interpolate(same, (4, 9), mode=method, channel_axis=axis)
            np.testing.assert_array_equal(out, expected)


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("method", ["nearest", "linear", "cubic", "spline3", "area"])
def test_results_do_not_depend_on_threads_and_pieces(method: str) -> None:
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((1, 2, 90, 70), (150, 33)),
        ((2, 3, 9, 8, 7), (15, 3, 12)),
        ((1, 3, 600), (300,)),
        ((5, 3, 200), (330,)),
    ]
    for (shape, size), axis in itertools.product(shapes, (1, -1)):
        pixels = cases.pixels(cases.generator(shape), shape, "float32")
        image = np.ascontiguousarray(np.moveaxis(pixels, 1, axis))
        options: dict[str, Any] = {"mode": method, "channel_axis": axis}
        with pieces_of(1 << 18):
            expected = gridsample.interpolate(image, size, **options, threads=1)
        for piece, threads in itertools.product((64, 1000), (1, 3)):
            with pieces_of(piece):
                out = gridsample.interpolate(image, size, **options, threads=threads)
            np.testing.assert_array_equal(out, expected)


def test_modes_for_each_axis_are_in_x_y_z_order() -> None:
    image = cases.pixels(cases.generator("axes"), (1, 1, 4, 5, 6))
    out = gridsample.interpolate(image, (7, 3, 9), mode=("nearest", "cubic", "area"))
    pairs = zip(("area", "cubic", "nearest"), (4, 5, 6), (7, 3, 9), strict=True)
    expected = dense(image, [axis_map(described(n, m, name)).dense() for name, n, m in pairs])
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-13)


def test_nothing_outside_a_window_is_read_into_a_sum() -> None:
    image = np.zeros((1, 1, 40, 40))
    image[..., 20, 20] = np.nan
    for method, smooth, reach in (("linear", False, 1), ("cubic", True, 2), ("area", False, 0.5)):
        out = gridsample.interpolate(image, (17, 17), mode=method, antialias=smooth)
        spoiled = np.isnan(out[0, 0]).any(axis=0)
        matrix = axis_map(described(40, 17, method, False, smooth)).band
        uses = (matrix.first <= 20) & (matrix.first + matrix.count > 20)
        np.testing.assert_array_equal(spoiled, uses)
        assert uses.sum() <= 2 * reach * max(1, 17 / 40) + 2


@pytest.mark.parametrize("aligned", [False, True])
def test_resizing_to_width_one_keeps_rows_separate(aligned: bool) -> None:
    """Torch 2.13 repeats the first row there."""
    image = np.arange(20.0).reshape(1, 2, 5, 2) ** 2
    options: Any = {"mode": "linear", "antialias": True, "align_corners": aligned}
    once = gridsample.interpolate(image, (4, 1), **options)
    stepwise = gridsample.interpolate(
        gridsample.interpolate(image, (4, 2), **options), (4, 1), **options
    )
    np.testing.assert_allclose(once, stepwise, rtol=1e-14)
    assert (np.diff(once[..., 0]) > 0).all()


def test_nearest_copies_bits() -> None:
    image = np.array([[[0x7FC00123, 1, 0xFFFFFFFF]]], np.uint32).view(np.float32)
    out = gridsample.interpolate(image, 6)
    np.testing.assert_array_equal(out.view(np.uint32), np.repeat(image.view(np.uint32), 2, -1))
    large = np.array([[[2**63 - 1, -(2**63) + 1]]])
    np.testing.assert_array_equal(gridsample.interpolate(large, 4), np.repeat(large, 2, -1))


# Whatever grid_sample takes -----------------------------------------------------------------------

SMOOTH = Method("smooth", ((1, 0, -3, 2), (0, 0, 3, -2)), first=0)
LOPSIDED = Method("lopsided", ((0.5, -0.5), (0.5, 0.0), (0.0, 0.5)), first=0)
TIES_UP = Method("ties-up", ((1.0,),), first=0, rounds=True, ties_up=True)
SLOPE = Method("slope", ((-1.0,), (1.0,)), first=0, normalized=False)
LIKE_POINTS: tuple[str | Method, ...] = (
    *(name for name in gridsample.methods.names() if name not in ("nearest", "label")),
    *(gridsample.methods.keys(-1.1), gridsample.methods.lanczos(5)),
    *(SMOOTH, LOPSIDED, TIES_UP, SLOPE, replace(gridsample.methods.bspline(3), prefilter=0)),
)


@pytest.mark.covering
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize(("spatial", "size"), SHAPES[2])
@pytest.mark.parametrize("mode", LIKE_POINTS, ids=lambda mode: getattr(mode, "name", mode))
def test_resizing_is_sampling_at_its_positions(
    mode: str | Method, spatial: tuple[int, ...], size: tuple[int, ...], align: bool
) -> None:
    method = gridsample.methods.get(mode) if isinstance(mode, str) else mode
    image = cases.pixels(cases.generator(spatial), (2, 3, *spatial))
    out = gridsample.interpolate(image, size, mode=mode, align_corners=align)
    y, x = (
        described(n, m, "linear", align).positions() for n, m in zip(spatial, size, strict=True)
    )
    grid = np.stack(np.meshgrid(x, y), axis=-1)[np.newaxis]
    outside = ("mirror" if align else "symmetric") if method.prefilter else "border"
    sampled = gridsample.grid_sample(image, grid, mode, outside, coords="pixel")
    # Tables of Lanczos are fits: 1e-9 for each of a few taps along two axes.
    bound = 1e-7 if method.name.startswith("lanczos") else 1e-12
    np.testing.assert_allclose(out, sampled, rtol=0, atol=bound)


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("order", range(2, 8))
def test_splines_resized_to_the_same_size_are_unchanged(order: int) -> None:
    for n in (*range(1, 41), 200):
        image = cases.pixels(cases.generator("own size", n), (2, 3, n))
        for align, smooth in itertools.product((False, True), repeat=2):
            options: dict[str, Any] = {"align_corners": align, "antialias": smooth}
            out = gridsample.interpolate(image, n, mode=f"spline{order}", **options)
            np.testing.assert_allclose(out, image, rtol=0, atol=1e-13)


@pytest.mark.parametrize("mode", [SMOOTH, gridsample.methods.keys(-0.6), LOPSIDED, SLOPE])
def test_unregistered_methods_match_their_matrices_and_transposes(mode: Method) -> None:
    spatial, size = (7, 9), (13, 4)
    rng = cases.generator(mode.name)
    image, values = cases.pixels(rng, (2, 1, *spatial)), cases.pixels(rng, (2, 1, *size))
    for smooth in (False, True)[: 1 + mode.stretches]:
        each = [
            axis_map(described(n, m, mode, False, smooth)).dense()
            for n, m in zip(spatial, size, strict=True)
        ]
        options: dict[str, Any] = {"mode": (mode, mode), "antialias": smooth}
        out = gridsample.interpolate(image, size, **options)
        np.testing.assert_allclose(out, dense(image, each), rtol=0, atol=1e-12)
        back = gridsample.interpolate_vjp(values, image, size, **options)
        transposed = dense(values, [matrix.T for matrix in each])
        np.testing.assert_allclose(back, transposed, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mode", [LOPSIDED, SLOPE])
def test_methods_without_antialiasing_are_rejected(mode: Method) -> None:
    image = np.zeros((1, 1, 4, 5))
    for array in (image, torch.from_numpy(image)):
        with pytest.raises(ValueError, match=f"mode '{mode.name}' do not; accepted: antialias=Fal"):
            gridsample.interpolate(array, 3, mode=("linear", mode), antialias=True)


@pytest.mark.parametrize("mode", ["area", "gaussian", "nearest-exact"])
def test_resizing_only_modes_are_rejected_by_sampling(mode: str) -> None:
    image, grid = np.zeros((1, 1, 4, 5)), np.zeros((1, 3, 2))
    for function in (gridsample.grid_sample, gridsample.grid_gradient):
        for arrays in ((image, grid), (torch.from_numpy(image), torch.from_numpy(grid))):
            with pytest.raises(ValueError, match=f"mode '{mode}' only resizes, in interpolate"):
                function(*arrays, mode)
    with pytest.raises(ValueError, match="only resizes"):
        gridsample.splat(np.zeros((1, 1, 3)), grid, (4, 5), mode)


@pytest.mark.covering
@pytest.mark.parametrize("rounding", ["exact", "pillow", "torch"])
@pytest.mark.parametrize("a", [-1.5, -4.0, -40.0])
def test_bytes_that_overshoot_far_do_not_overflow(a: float, rounding: str) -> None:
    image = cases.generator(a).choice(np.array([0, 255], np.uint8), (1, 1, 20, 21))
    mode = gridsample.methods.keys(a)
    out = gridsample.interpolate(image, (31, 33), mode=mode, rounding=rounding)
    expected = image.astype(float)
    for axis in (3, 2):  # the last comes first
        size = (*image.shape[2:3], 33) if axis == 3 else (31, 33)
        expected = gridsample.interpolate(expected, size, mode=mode)
        if rounding != "exact":
            expected = np.clip(np.rint(expected), 0, 255)
    # Of weights up to 40, fixed point would keep 14 bits less the 6 before the point.
    assert np.abs(out - np.clip(np.rint(expected), 0, 255)).max() <= (
        1 if rounding != "torch" else 2
    )


# Sizes, options, errors ---------------------------------------------------------------------------


def test_sizes_follow_torch() -> None:
    for n, scale in ((7, 1.3), (10, 0.37), (3, 2.5), (5, 1.2), (100, 0.29), (6, 1.1)):
        image = np.zeros((1, 1, n))
        theirs = functional.interpolate(torch.zeros(1, 1, n), scale_factor=scale).shape
        assert gridsample.interpolate(image, scale_factor=scale).shape == tuple(theirs)
        step = gridsample.interpolate(
            np.arange(float(n))[None, None],
            scale_factor=scale,
            mode="linear",
            recompute_scale_factor=True,
        )
        same = gridsample.interpolate(np.arange(float(n))[None, None], theirs[2], mode="linear")
        np.testing.assert_array_equal(step, same)


def test_empty_batches_and_channels() -> None:
    for shape in ((0, 3, 4, 5), (2, 0, 4, 5), (0, 0, 4, 5)):
        for mode in ("nearest", "cubic", "spline3"):
            out = gridsample.interpolate(np.zeros(shape, np.float32), (8, 3), mode=mode)
            assert out.shape == (*shape[:2], 8, 3)
            assert out.dtype == np.float32
            back = gridsample.interpolate_vjp(out, np.zeros(shape, np.float32), (8, 3), mode=mode)
            assert back.shape == shape
            tensor = torch.zeros(shape, requires_grad=True)
            gridsample.interpolate(tensor, (8, 3), mode=mode).sum().backward()
            assert tensor.grad is not None


IMAGE = np.zeros((1, 1, 4, 5))


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({}, ValueError, "either size or scale_factor"),
        ({"size": 3, "scale_factor": 2}, ValueError, "either size or scale_factor"),
        ({"size": (1, 2, 3)}, ValueError, r"size needs one number .* got 3"),
        ({"scale_factor": (1.0,)}, ValueError, r"scale_factor needs one number .* got 1"),
        ({"size": 2.5}, TypeError, "size must be an integer"),
        ({"size": (2, True)}, TypeError, "size must be an integer"),
        ({"size": (0, 3)}, ValueError, r"at least one pixel .* got \(0, 3\)$"),
        ({"scale_factor": 0.1}, ValueError, "at least one pixel .* from scale_factor=.0.1, 0.1"),
        ({"scale_factor": -1}, ValueError, "must be positive"),
        ({"scale_factor": math.nan}, ValueError, "must be positive"),
        ({"scale_factor": "2"}, TypeError, "scale_factor must be a number"),
        ({"size": 3, "recompute_scale_factor": True}, ValueError, "recompute_scale_factor has no"),
        ({"size": 3, "align_corners": False}, ValueError, "no meaning for mode 'nearest'"),
        ({"size": 3, "mode": "area", "align_corners": True}, ValueError, "no meaning for mode"),
        ({"size": 3, "mode": "cubics"}, ValueError, "mode 'cubics' .* did you mean"),
        ({"size": 3, "mode": ("linear",)}, ValueError, "mode needs one entry per axis"),
        ({"size": 3, "mode": "linear", "align_corners": "no"}, TypeError, "align_corners must be"),
        ({"size": 3, "antialias": 1}, TypeError, "antialias must be"),
        ({"size": 3, "channel_axis": 2}, ValueError, "channel_axis must be"),
        ({"size": 3, "threads": 0}, ValueError, "threads must be"),
    ],
)
@pytest.mark.parametrize("library", ["array", "tensor"])
def test_invalid_arguments_are_rejected(
    options: dict[str, Any], error: type[Exception], match: str, library: str
) -> None:
    image: Any = IMAGE if library == "array" else torch.from_numpy(IMAGE)
    with pytest.raises(error, match=match):
        gridsample.interpolate(image, **options)


def test_invalid_images_are_rejected() -> None:
    with pytest.raises(ValueError, match="3 to 10 dimensions"):
        gridsample.interpolate(np.zeros((3, 3)), 2)
    with pytest.raises(ValueError, match="input must have at least one pixel"):
        gridsample.interpolate(np.zeros((1, 1, 0, 3)), 2)
    with pytest.raises(TypeError, match="input has dtype"):
        gridsample.interpolate(np.zeros((1, 1, 3), "M8[s]"), 2)
    with pytest.raises(TypeError, match="masked"):
        gridsample.interpolate(np.ma.zeros((1, 1, 3)), 2)
    with pytest.raises(TypeError, match="no gradient"):
        gridsample.interpolate_vjp(np.zeros((1, 1, 2)), np.zeros((1, 1, 3), int), 2)
    tensor = torch.zeros(1, 1, 2)
    for arguments, match in (
        ((tensor, tensor.int()), "input has dtype .* no gradient"),
        ((tensor.int(), tensor), "grad_output has dtype .* no gradient"),
        ((tensor.to(torch.complex64), tensor), "but input is real"),
        ((tensor.numpy(), tensor), "grad_output is a numpy.ndarray, but input is a tensor"),
    ):
        with pytest.raises(TypeError, match=match):
            gridsample.interpolate_vjp(*arguments, 2)
    with pytest.raises(TypeError, match="but input is real"):
        gridsample.interpolate_vjp(np.ones((1, 1, 2), complex), np.zeros((1, 1, 3)), 2)
    for convert in (np.asarray, torch.from_numpy):
        with pytest.raises(ValueError, match=r"output's shape, \(1, 1, 2\)"):
            gridsample.interpolate_vjp(
                convert(np.zeros((1, 1, 5))), convert(np.zeros((1, 1, 3))), 2
            )


def test_nothing_is_loaded_before_it_is_needed() -> None:
    script = (
        "import sys, numpy, gridsample\n"
        "assert 'llvmlite' not in sys.modules\n"
        "gridsample.interpolate(numpy.ones((1, 1, 4, 4), 'f4'), 8, mode='bilinear')\n"
        "assert not {'torch', 'PIL', 'scipy.ndimage'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_impossible_sizes_are_rejected():
    for size in ((2**40, 2**40), (10**30, 2)):
        with pytest.raises(ValueError, match="which is larger than any array can be"):
            gridsample.interpolate(np.zeros((1, 3, 8, 8), np.float32), size)
        with pytest.raises(ValueError, match="which is larger than any array can be"):
            gridsample.splat(np.zeros((1, 3, 2, 2)), np.zeros((1, 2, 2, 2)), size)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int32", "float16", "float32"])
@pytest.mark.parametrize("mode", ["linear", "area", "cubic"])
def test_long_lines_beside_an_axis_whose_pixels_are_only_copied(mode: str, dtype: str) -> None:
    sizes = [((1536, 1), (1540, 4)), ((2000, 1), (1024, 2)), ((1, 1025), (2, 2050))]
    for shape, size in sizes:
        image = np.arange(math.prod(shape)).reshape(1, 1, *shape) % 2
        result = gridsample.interpolate(image.astype(dtype), size, mode=mode)
        exact = gridsample.interpolate(image.astype(np.float64), size, mode=mode)
        slack = 1e-2 if np.dtype(dtype).kind == "f" else 0.5 + 1e-9
        expected = np.clip(exact, 0, 1) if dtype in ("bool", "uint8") else exact
        np.testing.assert_allclose(result.astype(float), expected, rtol=0, atol=slack)


@pytest.mark.parametrize("mode", ["nearest", "linear", "area"])
def test_results_that_do_not_fit_into_memory_are_refused_before_tables_are_made(
    monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.delattr("gridsample.backends.resizing.axis_maps")
    image = np.zeros((1, 1, 8, 8), np.float32)
    with pytest.raises(MemoryError):
        gridsample.interpolate(image, (10**9, 10**9), mode=mode)
    with pytest.raises(RuntimeError, match="memory"):
        gridsample.interpolate(torch.from_numpy(image), (10**9, 10**9), mode=mode)
