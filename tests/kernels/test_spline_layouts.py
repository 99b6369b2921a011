"""The prefilter in any layout: strides, orders of axes, few and many lines, processors."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import sys
from pathlib import Path

import cases
import numpy as np
import pytest
import scipy.ndimage
from hypothesis import given
from hypothesis import strategies as st

from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.kernels.reference import splines
from gridsample.kernels.spline import coefficients, planning

Array = np.ndarray
HERE = Path(__file__).parent
NAMES = tuple(name for name in BOUNDARIES if name not in ("reflection", "constant"))
DTYPES = ("bool", "uint8", "int16", "int64", "float16", "float32", "float64", "complex128")


@functools.lru_cache(maxsize=512)
def matrix(n: int, order: int, boundary: str) -> Array:
    """The values at the pixels of a line, by the reference."""
    return splines.at_pixels((n,), (f"spline{order}",), (boundary,), False)[0]


def filtered(image: Array, order: int, boundary: str, axis: int, adjoint: bool = False) -> Array:
    """Filter along one axis, into an array like the image."""
    dtype = np.result_type(image.dtype, np.float32)
    out = np.full_like(image, 7, dtype)
    coefficients(image, order, [boundary], [axis], out, adjoint=adjoint, threads=1)
    return out


@st.composite
def laid_out(draw: st.DrawFn, pixels: Array) -> Array:
    """A copy of an array with its axes in any order, with gaps between entries, and reversed."""
    order = draw(st.permutations(range(pixels.ndim)))
    steps = [draw(st.sampled_from([1, 1, 1, 2, 3, -1, -2])) for _ in order]
    size = [pixels.shape[a] * abs(step) for a, step in zip(order, steps, strict=True)]
    memory = np.zeros(size, pixels.dtype)[tuple([slice(None, None, step) for step in steps])]
    view = np.moveaxis(memory, range(pixels.ndim), order)
    view[...] = pixels
    return view


sizes = st.sampled_from([1, 2, 3, 4, 5, 8, 13, 17, 33, 66])
shapes = st.lists(sizes, min_size=1, max_size=4).filter(lambda shape: np.prod(shape) < 40_000)


@given(data=st.data())
def test_any_memory_layout(data: st.DataObject) -> None:
    shape = data.draw(shapes)
    axis = data.draw(st.integers(0, len(shape) - 1))
    order, boundary = data.draw(st.integers(2, 7)), data.draw(st.sampled_from(NAMES))
    adjoint, dtype = data.draw(st.booleans()), data.draw(st.sampled_from(DTYPES))
    pixels = cases.pixels(cases.generator(shape, axis, order, boundary), shape, dtype)
    image = data.draw(laid_out(pixels))
    wide = np.complex128 if image.dtype.kind == "c" else np.float64
    out = data.draw(laid_out(np.full(shape, 7, wide)))
    coefficients(image, order, [boundary], [axis], out, adjoint=adjoint, threads=1)
    np.testing.assert_array_equal(image, pixels)
    values = matrix(shape[axis], order, boundary)
    lines = np.moveaxis(pixels.astype(wide), axis, 0)
    flat = lines.reshape(shape[axis], -1)
    expected = np.linalg.solve(values.T if adjoint else values, flat).reshape(lines.shape)
    slack = 1e-12 * np.abs(expected).max()
    np.testing.assert_allclose(np.moveaxis(out, axis, 0), expected, rtol=0, atol=slack)
    # The results are bit for bit the same.
    contiguous = np.empty(shape, wide)
    coefficients(pixels, order, [boundary], [axis], contiguous, adjoint=adjoint, threads=1)
    np.testing.assert_array_equal(out, contiguous)


@pytest.mark.covering
@pytest.mark.parametrize("boundary", NAMES)
@pytest.mark.parametrize(("order", "dtype"), [(3, "float32"), (2, "float64"), (7, "float64")])
def test_windows_of_long_lines_match_the_full_line(order: int, dtype: str, boundary: str) -> None:
    """Few lines are cut into windows, and many are not."""
    rng = cases.generator(order, dtype, boundary)
    for n, lines in ((777, 1), (2000, 3), (40_001, 2)):
        pixels = cases.pixels(rng, (n, lines), dtype)
        many = np.tile(pixels, (1, -(-128 // lines)))
        for adjoint in (False, True):
            few = filtered(pixels, order, boundary, 0, adjoint)
            limit = planning.LONGEST
            planning.LONGEST = 1 << 40
            planning.passes.cache_clear()
            expected = filtered(many, order, boundary, 0, adjoint)[:, :lines]
            planning.LONGEST = limit
            planning.passes.cache_clear()
            slack = 16 * np.finfo(dtype).eps * np.abs(expected).max()
            np.testing.assert_allclose(few, expected, rtol=0, atol=slack)
            turned = filtered(pixels.T.copy(), order, boundary, 1, adjoint)
            np.testing.assert_array_equal(turned.T, few)


@pytest.mark.parametrize("shape", [(20_000, 2), (2, 20_000), (30_000,), (3, 300, 300)])
@pytest.mark.parametrize(("boundary", "mode"), [("mirror", "mirror"), ("wrap", "grid-wrap")])
def test_long_lines_equal_scipy(shape: tuple[int, ...], boundary: str, mode: str) -> None:
    image = cases.pixels(cases.generator(shape, mode), shape)
    out, axes = np.empty(shape), range(len(shape))
    coefficients(image, 3, [boundary] * len(shape), axes, out)
    expected = scipy.ndimage.spline_filter(image, 3, mode=mode)
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize("shape", [(300_000, 2), (40_000, 3, 3), (70, 70, 70)])
def test_results_do_not_depend_on_threads(shape: tuple[int, ...]) -> None:
    image = cases.pixels(cases.generator(shape), shape)
    names, axes = ["wrap"] * len(shape), range(len(shape))
    alone, together = np.empty(shape), np.empty(shape)
    coefficients(image, 3, names, axes, alone, threads=1)
    coefficients(image, 3, names, axes, together, threads=3)
    np.testing.assert_array_equal(alone, together)


@pytest.mark.skipif(os.name != "posix", reason="needs mprotect")
@pytest.mark.parametrize(
    ("processor", "every"),
    cases.slow_after(1, [("", 7), ("", 1), ("x86-64-v3", 1), ("x86-64", 1)]),
)
def test_memory_outside_arrays_is_not_accessed(processor: str, every: int) -> None:
    """For this processor, and for others with shorter registers; ordinary runs make a few calls."""
    if processor and platform.machine() not in ("x86_64", "AMD64"):
        return
    path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "GRIDSAMPLE_CPU": processor}
    done = subprocess.run(
        [sys.executable, str(HERE / "guarded_spline.py"), str(every)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("runs\n")
