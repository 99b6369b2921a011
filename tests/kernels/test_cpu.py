"""What a long-running process asks of the kernels: few compiled drivers, and no growing memory."""

import gc
import itertools

import cases
import numpy as np
import psutil
import pytest
from numba.core.dispatcher import Dispatcher

import gridsample


def compiled():
    """How many functions have been compiled, or loaded, for how many types of arguments."""
    return sum(len(one.overloads) for one in gc.get_objects() if issubclass(type(one), Dispatcher))


def calls(rng, count):
    """Make calls with shapes, options and layouts that change every time."""
    for _ in range(count):
        rank = int(rng.integers(1, 4))
        channels = int(rng.integers(1, 12))
        image = np.ones((1, channels, *rng.integers(1, 12, rank)), np.float32)
        grid = np.zeros((1, int(rng.integers(1, 40)), rank), np.float32)
        modes = tuple(rng.choice(cases.MODES, rank).tolist())
        boundaries = tuple(rng.choice(cases.BOUNDARIES, rank).tolist())
        how = (modes, boundaries, bool(rng.integers(2)))
        axis = int(rng.choice([1, -1]))
        image = image if axis == 1 else np.ascontiguousarray(np.moveaxis(image, 1, -1))
        out = gridsample.grid_sample(image, grid, *how, channel_axis=axis)
        if rng.integers(4) == 0:
            gridsample.grid_sample_vjp(out, image, grid, *how, channel_axis=axis)


def test_options_and_shapes_compile_nothing():
    rng = cases.generator("compiled")
    for rank, mode in itertools.product((1, 2, 3), cases.MODES):
        image = cases.pixels(rng, (1, 2, *(3, 4, 5)[:rank]), "float32")
        grid = rng.uniform(-1, 1, (1, 9, rank)).astype("float32")
        out = gridsample.grid_sample(image, grid, mode)
        gridsample.grid_sample_vjp(out, image, grid, mode)
    before = compiled()
    for rank in (1, 2, 3):
        image = cases.pixels(rng, (1, 2, *(7, 3, 5)[:rank]), "float32")
        grid = rng.uniform(-2, 2, (1, 63, rank)).astype("float32")
        for mode, boundary, align_corners in itertools.product(
            cases.MODES, cases.BOUNDARIES, (False, True)
        ):
            out = gridsample.grid_sample(image, grid, mode, boundary, align_corners)
            gridsample.grid_sample_vjp(out, image, grid, mode, boundary, align_corners)
    assert compiled() == before > 0


def every_kind_of_call():
    """Make calls until all kernels are compiled that `calls` may need."""
    for rank, channels, axis in itertools.product((1, 2, 3), (1, 2, 9), (1, -1)):
        image = np.ones((1, channels, *(3,) * rank), np.float32)
        image = image if axis == 1 else np.ascontiguousarray(np.moveaxis(image, 1, -1))
        grid = np.zeros((1, 5, rank), np.float32)
        for modes in itertools.product(cases.MODES, repeat=rank):
            out = gridsample.grid_sample(image, grid, modes, channel_axis=axis)
            gridsample.grid_sample_vjp(out, image, grid, modes, channel_axis=axis)


@pytest.mark.slow
def test_a_hundred_thousand_calls_leave_nothing_behind():
    every_kind_of_call()
    rng, process = cases.generator("calls"), psutil.Process()
    calls(rng, 3000)
    for _ in range(3):  # a rare kind of call may still come, and compile a kernel
        drivers, before = compiled(), process.memory_info().rss
        calls(rng, 100_000)
        if compiled() == drivers:
            break
    assert compiled() == drivers > 0
    assert process.memory_info().rss - before < 20e6
