"""The memory that interpolate takes, how images lie in it, and bands of rows."""

from __future__ import annotations

import tracemalloc
from typing import Any

import cases
import numpy as np
import pytest
from resized import METHODS, Array, dense, matrices, scale_of

import gridsample
from gridsample.kernels.resize.planning import PIECE
from gridsample.ops.resized_parts import resize_rows

# Memory -----------------------------------------------------------------------------------------


@pytest.mark.covering
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
def test_peak_memory_is_the_output_and_one_axis_pass(
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
    pass_bytes = 4 * image.size * min(m / n for m, n in zip(size, spatial, strict=True))
    # A spline's prefilter keeps the image's size; pieces of the bands follow.
    allowed = 4 * (image.size + 16 * PIECE) if mode == "spline3" else pass_bytes
    assert peak - out.nbytes < allowed


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("dtype", ["<f4", ">f4"])
@pytest.mark.parametrize("step", [1, -2])
def test_images_are_not_copied_in_full(step: int, dtype: str, mode: str) -> None:
    image = np.ones((2, 3, 900 * abs(step), 800), dtype)[:, :, ::step]
    gridsample.interpolate(image, (450, 400), mode=mode, threads=1)
    tracemalloc.start()
    out = gridsample.interpolate(image, (450, 400), mode=mode, threads=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - out.nbytes < image.nbytes / 2


@pytest.mark.covering
@pytest.mark.parametrize("mode", ["nearest", "linear", "lanczos3", "spline3"])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "flipped", "every other"])
@pytest.mark.parametrize("shape", [(2, 3, 41, 29), (1, 2, 3000), (1, 2, 9, 14, 17)])
@pytest.mark.parametrize("dtype", ["uint16", "int64", "float16", "float32", "complex128"])
def test_images_in_the_other_byte_order(
    dtype: str, shape: tuple[int, ...], layout: str, mode: str
) -> None:
    image = cases.pixels(cases.generator(dtype, str(shape)), shape, np.dtype(dtype))
    swapped = image.astype(image.dtype.newbyteorder())
    view = {
        "contiguous": lambda array: array,
        "transposed": lambda array: array.swapaxes(1, -1),
        "flipped": lambda array: array[..., ::-1],
        "every other": lambda array: array[..., ::2],
    }[layout]
    for factor in (0.4, 1.7):
        size = [max(1, int(n * factor)) for n in view(image).shape[2:]]
        expected = gridsample.interpolate(view(image), size, mode=mode)
        result = gridsample.interpolate(view(swapped), size, mode=mode)
        assert result.dtype == image.dtype
        np.testing.assert_array_equal(result, expected)


@pytest.mark.covering
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
        # Memory beyond an array is poisoned, so that reading it would be noticed.
        memory = np.full(image.size + 8, np.nan, kind)
        image = memory[: image.size].reshape(image.shape)
        image[...] = cases.pixels(cases.generator(dtype), image.shape, kind)
        first = np.moveaxis(image, -1, 1)
        expected = dense(first, matrices(spatial, size, mode, False, False))
        for threads in (1, 3):
            out = gridsample.interpolate(image, size, mode=mode, channel_axis=-1, threads=threads)
            np.testing.assert_allclose(
                np.moveaxis(out, -1, 1), expected, rtol=0, atol=8 * scale_of(kind)
            )


# Bands of rows ----------------------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize(("smooth", "rows"), [(False, 7), (True, 64)])
@pytest.mark.parametrize(
    ("shape", "size"),
    [((200, 31, 3), (90, 40)), ((90, 20, 1), (201, 7)), ((60, 9, 8, 2), (31, 4, 9))],
)
@pytest.mark.parametrize("dtype", ["uint8", "float64"])
@pytest.mark.parametrize("method", METHODS)
def test_bands_of_rows_match_the_full_image(
    method: str, dtype: str, shape: tuple[int, ...], size: tuple[int, ...], smooth: bool, rows: int
) -> None:
    image = cases.pixels(cases.generator("rows"), shape, dtype)
    options: dict[str, Any] = {"mode": method, "antialias": smooth}
    read: list[tuple[int, int]] = []

    def band(begin: int, end: int) -> Array:
        read.append((begin, end))
        return image[begin:end]

    result = [*resize_rows(band, shape, size, rows=rows, **options)]
    expected = gridsample.interpolate(image[None], size, channel_axis=-1, **options)[0]
    assert {len(part) for part in result[:-1]} <= {rows}
    error = np.abs(np.concatenate(result).astype(float) - expected.astype(float)).max()
    # Bytes are rounded between two axes, whose order is chosen for each band.
    assert error <= (1e-12 if dtype == "float64" else 1)
    assert read == sorted(read)
