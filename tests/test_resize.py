"""interpolate and its gradient: against torch, Pillow, SciPy and the matrices written out."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cases
import numpy as np
import pytest
import scipy.ndimage
import torch
from PIL import Image
from torch.nn import functional

import gridsample
from gridsample.definitions import tables
from gridsample.definitions.methods import Method
from gridsample.definitions.tables import Axis, axis_map
from gridsample.kernels.resize import PIECE
from gridsample.ops.resizing import resize_rows

Array = np.ndarray[Any, Any]

# Labels vote, which is not linear: see test_labels.py.
METHODS = tuple(name for name in gridsample.methods.names(resizing=True) if name != "label")
# Up and down at once; primes; ones; planes that are cut, and lines that are not whole blocks.
SHAPES: dict[int, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {
    1: [((7,), (13,)), ((1,), (5,)), ((37,), (1,)), ((131,), (67,))],
    2: [((5, 7), (3, 11)), ((1, 9), (4, 1)), ((17, 33), (34, 19)), ((19, 1), (7, 3))],
    3: [((3, 5, 7), (4, 2, 11)), ((1, 6, 4), (2, 1, 9)), ((5, 4, 3), (5, 9, 3))],
}


def scale_of(dtype: np.dtype[Any]) -> float:
    """Rounding of sums in the type that they are made in, and of storing them."""
    kind = dtype.type(0).real.dtype
    sums = np.float64 if kind.itemsize == 8 else np.float32
    return 64 * float(np.finfo(sums).eps) + float(np.finfo(kind).eps)


def dense(image: Array, matrices: Sequence[Array]) -> Array:
    """Each axis multiplied by its matrix, in double precision."""
    out = image.astype(complex if image.dtype.kind == "c" else float)
    for axis, matrix in enumerate(matrices, start=2):
        out = np.moveaxis(np.tensordot(matrix, out, axes=(1, axis)), 0, axis)
    return out


def matrices(
    spatial: Sequence[int], size: Sequence[int], method: str, align: bool, smooth: bool
) -> list[Array]:
    align = align and tables.aligns(method)
    return [
        axis_map(Axis(n, m, method, align, smooth)).dense()
        for n, m in zip(spatial, size, strict=True)
    ]


def corners(method: str, align: bool) -> dict[str, Any]:
    return {"align_corners": align} if tables.aligns(method) else {}


# The kernels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("smooth", [False, True])
def test_every_method_is_its_matrices_and_their_transposes(
    rank: int, method: str, smooth: bool
) -> None:
    for (spatial, size), align, axis in itertools.product(SHAPES[rank], (False, True), (1, -1)):
        rng = cases.generator(spatial, size)
        image = cases.pixels(rng, (2, 3, *spatial))
        how = {"mode": method, "antialias": smooth, **corners(method, align)}
        given = np.moveaxis(image, 1, axis)
        expected = matrices(spatial, size, method, align, smooth)
        out = gridsample.interpolate(given, size, channel_axis=axis, **how)
        np.testing.assert_allclose(
            np.moveaxis(out, axis, 1), dense(image, expected), rtol=0, atol=1e-12
        )
        values = cases.pixels(rng, (2, 3, *size))
        back = gridsample.interpolate_vjp(
            np.moveaxis(values, 1, axis), given, size, channel_axis=axis, **how
        )
        transposed = dense(values, [matrix.T for matrix in expected])
        np.testing.assert_allclose(np.moveaxis(back, axis, 1), transposed, rtol=0, atol=1e-11)


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("method", ["linear", "spline3", "spline4", "nearest"])
def test_every_dtype(dtype: str, method: str) -> None:
    kind = np.dtype(dtype)
    for channels, (spatial, size) in ((2, ((9, 14), (13, 5))), (21, ((5, 4), (7, 4)))):
        image = cases.pixels(cases.generator(dtype), (2, channels, *spatial), kind)
        out = gridsample.interpolate(image, size, mode=method)
        assert out.dtype == kind
        exact = dense(image, matrices(spatial, size, method, False, False))
        if method == "nearest":
            rows, columns = (
                axis_map(Axis(n, m, method)).band.first for n, m in zip(spatial, size, strict=True)
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
            off = np.abs(out.astype(float) - np.clip(exact, low, high))
            assert off.max() <= slack


@pytest.mark.parametrize("layout", cases.LAYOUTS)
@pytest.mark.parametrize("method", ["nearest", "cubic"])
def test_however_it_lies_in_memory(layout: str, method: str) -> None:
    for dtype in ("float32", "uint8", "complex128"):
        image = cases.pixels(cases.generator(layout), (2, 3, 6, 5), dtype)
        laid = cases.LAYOUTS[layout](image)
        plain = np.ascontiguousarray(laid, dtype)
        for axis in (1, -1):
            given, same = np.moveaxis(laid, 1, axis), np.moveaxis(plain, 1, axis)
            out = gridsample.interpolate(given, (4, 9), mode=method, channel_axis=axis)
            expected = gridsample.interpolate(same, (4, 9), mode=method, channel_axis=axis)
            np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("method", ["nearest", "linear", "cubic", "spline3", "area"])
def test_threads_and_pieces_change_nothing(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from gridsample.kernels import resize

    for shape, size in (((1, 2, 90, 70), (150, 33)), ((2, 3, 9, 8, 7), (15, 3, 12))):
        image = cases.pixels(cases.generator(shape), shape, "float32")
        monkeypatch.setattr(resize, "PIECE", 1 << 18)
        whole = gridsample.interpolate(image, size, mode=method, threads=1)
        for piece in (64, 1000):
            monkeypatch.setattr(resize, "PIECE", piece)
            for threads in (1, 3):
                out = gridsample.interpolate(image, size, mode=method, threads=threads)
                np.testing.assert_array_equal(out, whole)


def test_modes_for_each_axis_are_in_x_y_z_order() -> None:
    image = cases.pixels(cases.generator("axes"), (1, 1, 4, 5, 6))
    out = gridsample.interpolate(image, (7, 3, 9), mode=("nearest", "cubic", "area"))
    pairs = zip(("area", "cubic", "nearest"), (4, 5, 6), (7, 3, 9), strict=True)
    expected = dense(image, [axis_map(Axis(n, m, name)).dense() for name, n, m in pairs])
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-13)


def test_nothing_outside_a_window_is_read_into_a_sum() -> None:
    image = np.zeros((1, 1, 40, 40))
    image[..., 20, 20] = np.nan
    for method, smooth, reach in (("linear", False, 1), ("cubic", True, 2), ("area", False, 0.5)):
        out = gridsample.interpolate(image, (17, 17), mode=method, antialias=smooth)
        spoiled = np.isnan(out[0, 0]).any(axis=0)
        matrix = axis_map(Axis(40, 17, method, False, smooth)).band
        uses = (matrix.first <= 20) & (matrix.first + matrix.count > 20)
        np.testing.assert_array_equal(spoiled, uses)
        assert uses.sum() <= 2 * reach * max(1, 17 / 40) + 2


def test_bits_of_the_nearest_are_copied() -> None:
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


@pytest.mark.parametrize("mode", LIKE_POINTS, ids=lambda mode: getattr(mode, "name", mode))
def test_resizing_is_sampling_at_its_positions(mode: str | Method) -> None:
    method = gridsample.methods.get(mode) if isinstance(mode, str) else mode
    for (spatial, size), align in itertools.product(SHAPES[2], (False, True)):
        image = cases.pixels(cases.generator(spatial), (2, 3, *spatial))
        out = gridsample.interpolate(image, size, mode=mode, align_corners=align)
        y, x = (Axis(n, m, "", align).positions() for n, m in zip(spatial, size, strict=True))
        grid = np.stack(np.meshgrid(x, y), axis=-1)[np.newaxis]
        outside = ("mirror" if align else "symmetric") if method.prefilter else "border"
        sampled = gridsample.grid_sample(image, grid, mode, outside, coords="pixel")
        # Tables of Lanczos are fits: 1e-9 for each of a few taps along two axes.
        bound = 1e-7 if method.name.startswith("lanczos") else 1e-12
        np.testing.assert_allclose(out, sampled, rtol=0, atol=bound)


@pytest.mark.parametrize("order", range(2, 8))
def test_a_spline_resized_to_its_own_size_is_itself(order: int) -> None:
    for n in (*range(1, 41), 200):
        image = cases.pixels(cases.generator("own size", n), (2, 3, n))
        for align, smooth in itertools.product((False, True), repeat=2):
            how: dict[str, Any] = {"align_corners": align, "antialias": smooth}
            out = gridsample.interpolate(image, n, mode=f"spline{order}", **how)
            np.testing.assert_allclose(out, image, rtol=0, atol=1e-13)


@pytest.mark.parametrize("mode", [SMOOTH, gridsample.methods.keys(-0.6), LOPSIDED, SLOPE])
def test_methods_without_a_name_are_their_matrices_and_transposes(mode: Method) -> None:
    spatial, size = (7, 9), (13, 4)
    rng = cases.generator(mode.name)
    image, values = cases.pixels(rng, (2, 1, *spatial)), cases.pixels(rng, (2, 1, *size))
    for smooth in (False, True)[: 1 + mode.stretches]:
        each = [
            axis_map(Axis(n, m, mode.text, False, smooth)).dense()
            for n, m in zip(spatial, size, strict=True)
        ]
        how: dict[str, Any] = {"mode": (mode, mode), "antialias": smooth}
        out = gridsample.interpolate(image, size, **how)
        np.testing.assert_allclose(out, dense(image, each), rtol=0, atol=1e-12)
        back = gridsample.interpolate_vjp(values, image, size, **how)
        transposed = dense(values, [matrix.T for matrix in each])
        np.testing.assert_allclose(back, transposed, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mode", [LOPSIDED, SLOPE])
def test_weights_that_cannot_be_stretched_are_refused(mode: Method) -> None:
    image = np.zeros((1, 1, 4, 5))
    for given in (image, torch.from_numpy(image)):
        with pytest.raises(ValueError, match=f"mode '{mode.name}' do not; accepted: antialias=Fal"):
            gridsample.interpolate(given, 3, mode=("linear", mode), antialias=True)


@pytest.mark.parametrize("mode", ["area", "gaussian", "nearest-exact"])
def test_modes_that_only_resize_are_refused_by_points(mode: str) -> None:
    image, grid = np.zeros((1, 1, 4, 5)), np.zeros((1, 3, 2))
    for function in (gridsample.grid_sample, gridsample.grid_gradient):
        for arrays in ((image, grid), (torch.from_numpy(image), torch.from_numpy(grid))):
            with pytest.raises(ValueError, match=f"mode '{mode}' only resizes, in interpolate"):
                function(*arrays, mode)
    with pytest.raises(ValueError, match="only resizes"):
        gridsample.splat(np.zeros((1, 1, 3)), grid, (4, 5), mode)


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


# Fixed point ------------------------------------------------------------------------------------


@pytest.mark.sweep(2)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("smooth", [False, True])
def test_bytes_are_within_one_of_the_real_result(method: str, smooth: bool) -> None:
    rng = cases.generator("bytes", method)
    for shape, size in (
        ((1, 64, 48, 3), (23, 90)),
        ((2, 40, 30, 1), (80, 12)),
        ((1, 9, 300, 4), (9, 40)),
        ((1, 12, 11, 10, 2), (7, 15, 21)),
    ):
        # Extremes, where weights below 0 overshoot most.
        image = rng.choice(np.array([0, 0, 255, 255, 1, 97], np.uint8), shape)
        how = {"mode": method, "antialias": smooth, "channel_axis": -1}
        out = gridsample.interpolate(image, size, **how).astype(int)
        exact = gridsample.interpolate(image.astype(float), size, **how)
        assert np.abs(out - np.clip(np.rint(exact), 0, 255)).max() <= 1


@pytest.mark.parametrize("value", [0, 1, 127, 255])
def test_a_constant_byte_stays_what_it_is(value: int) -> None:
    image = np.full((1, 3, 50, 41), value, np.uint8)
    for method, smooth in itertools.product(METHODS, (False, True)):
        out = gridsample.interpolate(image, (19, 97), mode=method, antialias=smooth)
        assert (out == value).all()


PILLOW = {
    "nearest": Image.Resampling.BOX,
    "linear": Image.Resampling.BILINEAR,
    "cubic": Image.Resampling.BICUBIC,
    "lanczos3": Image.Resampling.LANCZOS,
}


@pytest.mark.parametrize("method", PILLOW)
@pytest.mark.parametrize("size", [(20, 31), (64, 200), (129, 17), (1, 1)])
def test_antialiased_bytes_are_those_of_pillow(method: str, size: tuple[int, int]) -> None:
    # Pillow confines the numbers between two axes to 0 ... 255; in this range none is beyond.
    image = cases.generator(size).integers(64, 192, (83, 61, 3), np.uint8)
    theirs = np.array(Image.fromarray(image).resize(size[::-1], PILLOW[method])).astype(int)
    mine = gridsample.interpolate(image[None], size, mode=method, antialias=True, channel_axis=-1)
    assert np.abs(mine[0] - theirs).max() <= 1


# Other libraries --------------------------------------------------------------------------------


def torch_cases() -> list[tuple[int, str, dict[str, Any]]]:
    """What torch.nn.functional.interpolate has."""
    plain: list[tuple[int, str, dict[str, Any]]] = [
        (rank, mode, {}) for rank in (1, 2, 3) for mode in ("nearest", "nearest-exact", "area")
    ]
    for rank, mode in ((1, "linear"), (2, "bilinear"), (3, "trilinear"), (2, "bicubic")):
        plain += [(rank, mode, {"align_corners": align}) for align in (False, True)]
    plain += [(2, mode, {"antialias": True}) for mode in ("bilinear", "bicubic", "lanczos")]
    return plain


@pytest.mark.parametrize(("rank", "mode", "how"), torch_cases())
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_torch_agrees_forward_and_backward(
    rank: int, mode: str, how: dict[str, Any], dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    # Positions of torch are in single precision, but for doubles: off by so much of a pixel.
    eps = torch.finfo(dtype).eps
    if "antialias" in how and eps > 1e-6:
        with pytest.raises(NotImplementedError):  # if it ever has these, they are to be compared
            functional.interpolate(torch.ones(1, 1, 4, 4, dtype=dtype), 2, mode=mode, **how)
        return
    tolerance = 1e-12 if dtype == torch.float64 else 16 * max(eps, 64 * 2.0**-24)
    for spatial, size in SHAPES[rank]:
        scale = [0.6, 1.7, 2.3][:rank]
        for options in ({"size": size}, {"scale_factor": scale}):
            if "scale_factor" in options and min(math.floor(n * 0.6) for n in spatial) < 1:
                continue
            image = torch.randn(2, 3, *spatial, dtype=dtype)
            results = []
            for function in (gridsample.interpolate, functional.interpolate):
                leaf = image.clone().requires_grad_()
                out = function(leaf, mode=mode, **options, **how)
                grad = torch.autograd.grad(out, leaf, torch.ones_like(out))[0]
                # Torch's gradient of this takes the wrong factor for x: it is no adjoint.
                wrong = (rank, mode) == (3, "nearest") and "scale_factor" in options
                results.append((out.detach(), out.detach() if wrong else grad))
            for mine, theirs in zip(*results, strict=True):
                assert mine.dtype == theirs.dtype
                # A gradient sums up as many terms as an input has outputs.
                bound = tolerance * max(1.0, float(theirs.abs().max()))
                torch.testing.assert_close(mine, theirs, rtol=0, atol=bound)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_torch_agrees_on_bytes(mode: str) -> None:
    torch.manual_seed(0)
    image = torch.randint(64, 192, (2, 3, 30, 41), dtype=torch.uint8)
    for last, smooth in itertools.product((False, True), (False, True)):
        if smooth and mode.startswith("nearest"):
            continue
        given = image.contiguous(memory_format=torch.channels_last) if last else image
        for size in ((17, 53), (60, 20), (30, 41)):
            how: dict[str, Any] = {"size": size, "mode": mode, "antialias": smooth}
            mine = gridsample.interpolate(given, **how)
            theirs = functional.interpolate(given, **how)
            # Both are within one of the real result; nearest is the same.
            off = (mine.int() - theirs.int()).abs().max()
            assert off <= (0 if mode.startswith("nearest") else 1)
            assert mine.is_contiguous(memory_format=torch.channels_last) == last


@pytest.mark.parametrize("order", [2, 3, 4, 5])
@pytest.mark.parametrize(("align", "mode"), [(True, "mirror"), (False, "reflect")])
def test_scipy_agrees_on_splines(align: bool, mode: str, order: int) -> None:
    # SciPy's filter for "reflect" leaves out what comes back from the other end: 0.44 ** size.
    image = cases.pixels(cases.generator("zoom"), (47, 51))
    for factor in (2, 0.5, (1.5, 0.7)):
        zoomed = scipy.ndimage.zoom(image, factor, order=order, mode=mode, grid_mode=not align)
        mine = gridsample.interpolate(
            image[None, None], zoomed.shape, mode=f"spline{order}", align_corners=align
        )
        np.testing.assert_allclose(mine[0, 0], zoomed, rtol=0, atol=1e-13)


# Sizes, options, errors ---------------------------------------------------------------------------


def test_sizes_follow_torch() -> None:
    for n, scale in ((7, 1.3), (10, 0.37), (3, 2.5), (5, 1.2), (100, 0.29), (6, 1.1)):
        image = np.zeros((1, 1, n))
        theirs = functional.interpolate(torch.zeros(1, 1, n), scale_factor=scale).shape
        assert gridsample.interpolate(image, scale_factor=scale).shape == tuple(theirs)
        step = gridsample.interpolate(
            np.arange(float(n))[None, None], scale_factor=scale, mode="linear",
            recompute_scale_factor=True,
        )  # fmt: skip
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
        ({"size": (0, 3)}, ValueError, r"at least one pixel .* got \(0, 3\)"),
        ({"scale_factor": 0.1}, ValueError, "at least one pixel .* from scale_factor=0.1"),
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
@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_what_is_refused(
    options: dict[str, Any], error: type[Exception], match: str, kind: str
) -> None:
    image: Any = IMAGE if kind == "array" else torch.from_numpy(IMAGE)
    with pytest.raises(error, match=match):
        gridsample.interpolate(image, **options)


def test_images_that_are_refused() -> None:
    with pytest.raises(ValueError, match="3 to 5 dimensions"):
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
    for given, match in (
        ((tensor, tensor.int()), "input has dtype .* no gradient"),
        ((tensor.int(), tensor), "grad_output has dtype .* no gradient"),
        ((tensor.to(torch.complex64), tensor), "but input is real"),
        ((tensor.numpy(), tensor), "grad_output is a numpy.ndarray, but input is a tensor"),
    ):
        with pytest.raises(TypeError, match=match):
            gridsample.interpolate_vjp(*given, 2)
    with pytest.raises(TypeError, match="but input is real"):
        gridsample.interpolate_vjp(np.ones((1, 1, 2), complex), np.zeros((1, 1, 3)), 2)
    for kind in (np.asarray, torch.from_numpy):
        with pytest.raises(ValueError, match=r"output's shape, \(1, 1, 2\)"):
            gridsample.interpolate_vjp(kind(np.zeros((1, 1, 5))), kind(np.zeros((1, 1, 3))), 2)


# Memory -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["linear", "cubic", "area", "nearest", "lanczos3", "spline3"])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((2, 3, 900, 800), (500, 700)),
        ((2, 3, 900, 800), (1500, 1200)),
        ((1, 900, 800, 3), (1500, 1200)),
        ((1, 1, 130, 140, 150), (160, 100, 170)),
    ],
)
def test_memory_is_the_output_and_one_axis_pass(
    mode: str, dtype: Any, shape: tuple[int, ...], size: tuple[int, ...]
) -> None:
    image = np.ones(shape, dtype)
    axis = -1 if shape[-1] == 3 else 1
    spatial = np.moveaxis(image, axis, 1).shape[2:]

    def call() -> Array:
        return gridsample.interpolate(image, size, mode=mode, channel_axis=axis, threads=1)

    call()  # compiles, and makes the tables
    tracemalloc.start()
    out = call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The smallest that all of the image, in single precision, may be after one axis.
    one_pass = 4 * image.size * min(m / n for m, n in zip(size, spatial, strict=True))
    # A spline's prefilter keeps the image's size; a piece follows after each axis.
    allowed = 4 * (image.size + len(size) * PIECE) if mode == "spline3" else one_pass
    assert peak - out.nbytes < allowed


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_an_image_with_gaps_is_not_copied_whole(mode: str) -> None:
    image = np.ones((2, 3, 1800, 800), np.float32)[:, :, ::-2]
    gridsample.interpolate(image, (450, 400), mode=mode, threads=1)
    tracemalloc.start()
    out = gridsample.interpolate(image, (450, 400), mode=mode, threads=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - out.nbytes < image.nbytes / 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("channels", [2, 3, 4])
def test_two_by_two_pixels_at_once(dtype: str, channels: int) -> None:
    kind = np.dtype(dtype)
    for mode, spatial, size in (
        ("linear", (14, 22), (7, 11)),
        ("area", (14, 22), (7, 11)),
        ("linear", (37, 41), (17, 31)),
        ("linear", (9, 40), (1, 1)),
    ):
        image = cases.pixels(cases.generator(dtype), (2, *spatial, channels), kind)
        # What lies past an array is poisoned, lest it take part.
        room = np.full(image.size + 8, np.nan, kind)
        image = room[: image.size].reshape(image.shape)
        image[...] = cases.pixels(cases.generator(dtype), image.shape, kind)
        first = np.moveaxis(image, -1, 1)
        expected = dense(first, matrices(spatial, size, mode, False, False))
        for threads in (1, 3):
            out = gridsample.interpolate(image, size, mode=mode, channel_axis=-1, threads=threads)
            np.testing.assert_allclose(
                np.moveaxis(out, -1, 1), expected, rtol=0, atol=8 * scale_of(kind)
            )


def test_what_is_stored_past_the_caches_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from gridsample.kernels import resize

    for dtype, channels, size in itertools.product(
        ("float32", "float64", "uint8"), (1, 3, 40), ((61, 29), (9, 7))
    ):
        image = cases.pixels(cases.generator(dtype), (1, channels, 37, 41), dtype)
        whole = gridsample.interpolate(image, size, mode="cubic")
        with monkeypatch.context() as patch:
            patch.setattr(resize, "STREAM", 0)
            for axis in (1, -1):
                given = np.ascontiguousarray(np.moveaxis(image, 1, axis))
                out = gridsample.interpolate(given, size, mode="cubic", channel_axis=axis)
                expected = np.moveaxis(whole, 1, axis)
                # Which axis comes first depends on the layout: two roundings between them.
                kind = image.dtype.kind
                slack = 1 if kind == "u" else 8 * 16 * np.finfo(image.dtype).eps
                assert np.abs(out - expected.astype(float)).max() <= slack


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="protects pages as Linux does it")
@pytest.mark.parametrize("side", [pytest.param("before", marks=pytest.mark.slow), "after"])
def test_nothing_beside_an_array_is_touched(side: str) -> None:
    # Pixels are loaded and stored by vectors that may be longer than they are.
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-m", "guarded_resize", side],
        cwd=here, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "drivers" in done.stdout


# Bands of rows ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["uint8", "float64"])
def test_rows_are_those_of_the_whole(method: str, dtype: str) -> None:
    rng = cases.generator("rows")
    for shape, size in (
        ((200, 31, 3), (90, 40)),
        ((90, 20, 1), (201, 7)),
        ((60, 9, 8, 2), (31, 4, 9)),
    ):
        image = cases.pixels(rng, shape, dtype)
        for smooth, rows in ((False, 7), (True, 64)):
            how: dict[str, Any] = {"mode": method, "antialias": smooth}
            read: list[tuple[int, int]] = []

            def band(begin: int, end: int, image: Array = image, read: Any = read) -> Array:
                read.append((begin, end))
                return image[begin:end]

            made = [*resize_rows(band, shape, size, rows=rows, **how)]
            whole = gridsample.interpolate(image[None], size, channel_axis=-1, **how)[0]
            assert {len(part) for part in made[:-1]} <= {rows}
            off = np.abs(np.concatenate(made).astype(float) - whole.astype(float)).max()
            # Bytes are rounded between two axes, whose order is chosen for each band.
            assert off <= (1e-12 if dtype == "float64" else 1)
            assert read == sorted(read)


def test_nothing_but_numba_is_loaded() -> None:
    script = (
        "import sys, numpy, gridsample\n"
        "assert 'numba' not in sys.modules\n"
        "gridsample.interpolate(numpy.ones((1, 1, 4, 4), 'f4'), 8, mode='bilinear')\n"
        "assert not {'torch', 'PIL', 'scipy.ndimage'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_sizes_that_no_array_can_have_are_refused():
    for size in ((2**40, 2**40), (10**30, 2)):
        with pytest.raises(ValueError, match="which is larger than any array can be"):
            gridsample.interpolate(np.zeros((1, 3, 8, 8), np.float32), size)
        with pytest.raises(ValueError, match="which is larger than any array can be"):
            gridsample.splat(np.zeros((1, 3, 2, 2)), np.zeros((1, 2, 2, 2)), size)
