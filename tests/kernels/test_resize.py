"""The kernels of resizing: where they read and write, and what is compiled for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gridsample.definitions.tables import Axis, axis_map
from gridsample.kernels import resize
from gridsample.kernels.resize import Numbers, best_order, build

HERE = Path(__file__).parent


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs mprotect")
@pytest.mark.parametrize(
    "dtype",
    ["float32", *(pytest.param(one, marks=pytest.mark.slow) for one in ("uint8", "float16"))],
)
@pytest.mark.parametrize("side", [pytest.param("before", marks=pytest.mark.slow), "after"])
def test_nothing_outside_of_arrays_is_touched(side: str, dtype: str) -> None:
    path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(HERE / "guarded_resize.py"), side, dtype]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("runs\n")


def test_a_turn_is_a_transpose() -> None:
    rng = np.random.default_rng(0)
    for dtype in ("f4", "f8", "u1", "i2"):
        for outer, inner, n in ((1, 1, 5), (16, 1, 64), (37, 3, 70), (9, 15, 8)):
            data = (rng.random((outer, n, inner)) * 100).astype(dtype)
            out = np.full_like(data, 77)
            one = resize.make_pass(0, axis_map(Axis(n, n, "nearest")).band, Numbers("f8", "f8"))
            numbers = Numbers("i4", "i2") if dtype in ("u1", "i2") else Numbers(dtype, dtype)
            one = resize.make_pass(0, axis_map(Axis(n, n, "nearest")).band, numbers)
            one.run(numbers, data, slice(0, n), 0, out, False)
            np.testing.assert_array_equal(out, data)


def test_weights_of_fixed_point_sum_to_one() -> None:
    numbers = Numbers("i4", "i2")
    for method in ("linear", "cubic", "lanczos3", "area"):
        for n, m in ((100, 7), (7, 100), (50, 49)):
            band = axis_map(Axis(n, m, method, antialias=True)).band
            weights = numbers.weights(band)
            assert weights.dtype == np.int16
            assert (weights.sum(axis=1) == 1 << resize.WEIGHT_BITS).all()
            exact = band.weights * 2**resize.WEIGHT_BITS
            assert np.abs(weights - exact).max() <= 1


def test_the_cheapest_axis_comes_first() -> None:
    def order(spatial: tuple[int, ...], size: tuple[int, ...], inner: int = 1) -> tuple[int, ...]:
        pairs = zip(spatial, size, strict=True)
        return best_order(tuple(axis_map(Axis(n, m, "linear")).band for n, m in pairs), inner)

    assert order((64, 64), (128, 128)) == (1, 0)  # enlarged: the dear axis while there is little
    assert order((64, 64), (16, 16)) == (0, 1)  # made smaller: the dear axis when little is left
    assert order((64, 64), (64, 32)) == (1,)
    assert order((9, 64, 64), (90, 64, 16)) == (2, 0)


def test_few_drivers_serve_all_types() -> None:
    import gridsample

    build.driver_for.cache_clear()
    for dtype in ("f4", "f2", "i1", "i2", "u2", "c8", "?"):
        image = np.ones((1, 1, 6, 40), dtype)
        for mode in ("linear", "cubic", "area", "lanczos3", "mitchell"):
            gridsample.interpolate(image, (9, 70), mode=mode)
    # Three loops, and two changes of type for each that is not native.
    assert build.driver_for.cache_info().currsize <= 3 + 2 * 5
