"""The kernels of resizing: their memory accesses, and the programs that are compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import cases
import numpy as np
import pytest
from resized import described

import gridsample
from gridsample.definitions.tables import axis_map
from gridsample.kernels.resize import program
from gridsample.kernels.resize.planning import best_order

HERE = Path(__file__).parent


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program of this folder in a process of its own."""
    path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, str(HERE / program), *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs mprotect")
@pytest.mark.parametrize(
    ("dtype", "every"),
    cases.slow_after(
        1,
        [("float32", 61), *((name, 37) for name in ("float32", "float64", "uint8", "float16"))],
    ),
)
def test_memory_outside_arrays_is_not_accessed(dtype: str, every: int) -> None:
    """Vectors that load and store pixels may be longer than a row."""
    done = run("guarded_resize.py", dtype, str(every))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("runs\n")


@pytest.mark.slow
def test_memory_outside_views_is_not_accessed() -> None:
    done = run("guarded_packing.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("checked")


@pytest.mark.parametrize("numbers", [1, 3])
@pytest.mark.parametrize(("pixel_step", "number_step"), [(1, -1), (-1, 1), (2, 1), (-3, -1)])
def test_pixels_near_each_other_are_picked(numbers: int, pixel_step: int, number_step: int) -> None:
    shape = 3, 150 * abs(pixel_step), numbers
    image = cases.pixels(cases.generator(shape, number_step), shape, "uint8")
    view = image[:, ::pixel_step, ::number_step]
    for mode, width in (("nearest", 300), ("nearest", 40), ("linear", 300)):
        options = {"mode": mode, "channel_axis": -1}
        results = [
            gridsample.interpolate(pixels[np.newaxis], (5, width), **options)
            for pixels in (view, view.copy())
        ]
        np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("dtype", ["uint8", "float64"])
@pytest.mark.parametrize("numbers", [2, 3, 8, 70])
def test_pixels_that_share_numbers_are_copied(numbers: int, dtype: str) -> None:
    plane = cases.pixels(cases.generator(numbers), (3, 250), dtype)
    windows = np.lib.stride_tricks.sliding_window_view(plane, numbers, 1)
    repeated = np.broadcast_to(plane[..., np.newaxis], (3, 250, numbers))
    for view in (windows, windows[:, ::-1], windows[..., ::-1], repeated, repeated[:, ::-2]):
        for mode, slack in (("nearest", 0.0), ("linear", 1.0 if dtype == "uint8" else 1e-12)):
            resized = [
                gridsample.interpolate(image[np.newaxis], (2, 90), mode=mode, channel_axis=-1)
                for image in (view, view.copy())
            ]
            np.testing.assert_allclose(*resized, rtol=0, atol=slack)


def test_axes_of_which_one_pixel_is_copied_are_resized() -> None:
    image = cases.generator("one pixel").random((1, 3, 12, 7, 8))
    modes = ("nearest-exact", "nearest", "linear")  # in x, y, z order
    expected = image
    for axis, size in enumerate((1, 1, 5)):
        sizes, same = [*expected.shape[2:]], ["nearest"] * 3
        sizes[2 - axis], same[axis] = size, modes[axis]
        expected = gridsample.interpolate(expected, tuple(sizes), mode=tuple(same))
    for layout in (image, np.asfortranarray(image)):
        result = gridsample.interpolate(layout, (5, 1, 1), mode=modes)
        np.testing.assert_allclose(result, expected, rtol=1e-13)


def test_the_cheapest_axis_comes_first() -> None:
    def order(spatial: tuple[int, ...], size: tuple[int, ...], inner: int = 1) -> tuple[int, ...]:
        pairs = zip(spatial, size, strict=True)
        bands = tuple(axis_map(described(n, m, "linear")).band for n, m in pairs)
        axes = [axis for axis, band in enumerate(bands) if not band.is_identity]
        return best_order(bands, axes, inner, 16)

    assert order((64, 64), (128, 128)) == (
        1,
        0,
    )  # enlarged: the expensive axis first, while the image is small
    assert order((64, 64), (16, 16)) == (
        0,
        1,
    )  # reduced: the expensive axis last, when the image is small
    assert order((64, 64), (64, 32)) == (1,)
    assert order((9, 64, 64), (90, 64, 16)) == (2, 0)


@pytest.mark.parametrize("dtype", ["uint8", ">i2", "float16", "float64", "complex64"])
@pytest.mark.parametrize("channels", [2, 3, 4, 5])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_lines_that_skip_most_of_their_pixels(mode: str, channels: int, dtype: str) -> None:
    """Of images that are not contiguous, the pixels that are read are copied first."""
    shape, native = (2, 90, 1100, channels), np.dtype(dtype).newbyteorder("=")
    image = cases.pixels(cases.generator("sparse", channels), shape, native).astype(dtype)
    size = 70, 64
    planes = [image[..., c : c + 1].copy() for c in range(channels)]
    expected = [gridsample.interpolate(plane, size, mode=mode, channel_axis=-1) for plane in planes]
    result = gridsample.interpolate(image, size, mode=mode, channel_axis=-1)
    whole = image.dtype.kind in "iu"
    slack = 1 if whole else 64 * np.finfo(image.dtype).eps * np.abs(image).max()
    assert_close = np.testing.assert_allclose
    assert_close(result.astype(complex), np.concatenate(expected, -1), rtol=0, atol=slack)
    # The order of sums does not depend on whether pixels are copied.
    wide = np.zeros((2, 90, 1100, channels + 2), image.dtype)
    wide[..., :channels] = image
    for view in (wide[..., :channels], image[:, ::-1].copy()[:, ::-1]):
        again = gridsample.interpolate(view, size, mode=mode, channel_axis=-1)
        np.testing.assert_array_equal(again, result)


def test_few_programs_serve_all_sizes() -> None:
    import gridsample

    image = np.ones((1, 1, 40, 50), np.float32)
    program.compiled.cache_clear()
    for size in ((90, 70), (41, 51), (200, 300)):
        for mode in ("cubic", "catmull-rom"):
            gridsample.interpolate(image, size, mode=mode)
    assert program.compiled.cache_info().currsize <= 2  # by the registers of a window


@pytest.mark.parametrize("size", [(30000, 3), (30000, 2), (80000, 2)])
def test_parts_of_narrow_images_are_those_of_lines(size: tuple[int, int]) -> None:
    """A plane is processed in parts, whose lanes read inputs of the parts beside them."""
    import gridsample

    image = cases.generator(size).random((3, 6, 40000, 2), np.float32)
    for view in (image, np.repeat(image, 2, axis=3)[..., ::2]):
        result = gridsample.interpolate(view, size, mode="linear")
        rows = gridsample.interpolate(
            np.ascontiguousarray(image.swapaxes(2, 3)), size[::-1], mode="linear"
        ).swapaxes(2, 3)
        np.testing.assert_allclose(result, rows, rtol=0, atol=4e-7)
