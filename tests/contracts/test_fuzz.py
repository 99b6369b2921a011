"""Arbitrary bytes as a grid: nothing is accessed out of bounds, and nothing warns.

What the results must be is said in words that hold for every coordinate: NaN where a coordinate is
NaN, gradients that are conserved.  Where they lie is checked in processes of their own, with pages
around every array that may not be touched.
"""

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import cases
import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import assert_close
from strategies import examples

import gridsample

RANK = pytest.mark.parametrize("rank", [1, 2, 3])
GRID_TYPE = pytest.mark.parametrize("grid_type", cases.REALS)
SPATIAL = (3, 7, 5)
OPTIONS = [*itertools.product(cases.MODES, cases.BOUNDARIES, [False, True])]


def bits(rng, shape, dtype):
    """Any bit patterns: all exponents alike, NaN payloads, subnormals and infinities too."""
    element_type = np.dtype(dtype)
    return np.frombuffer(
        rng.bytes(int(np.prod(shape)) * element_type.itemsize), element_type
    ).reshape(shape)


def limit_values(rng, shape, dtype):
    """The last number before and the first after each place where something changes, and beyond."""
    kind = np.dtype(dtype)
    with np.errstate(over="ignore"):
        places = np.array(
            [0, 1, 1 / 3, 1 / 5, 1 / 7, 5 / 7, 2, 3, 4, 2.0**31, 2.0**63, 1e300], kind
        )
        ends = [np.finfo(kind).max, np.finfo(kind).tiny, np.finfo(kind).smallest_subnormal]
    chosen = rng.choice(np.concatenate([places, ends]), shape) * rng.choice([-1, 1], shape)
    with np.errstate(over="ignore", under="ignore"):
        return np.nextafter(chosen.astype(kind), rng.choice([-9, 0, 9], shape).astype(kind))


def ordinary(rng, shape, dtype):
    """Ordinary coordinates in and around the image."""
    return rng.uniform(-3, 3, shape).astype(dtype)


def assert_survives(image, grid, values, mode, boundary, align_corners):
    """Sample and take gradients; check properties that hold for every grid."""
    options = (mode, boundary, align_corners)
    out = gridsample.grid_sample(image, grid, *options)
    grad_input, grad_grid = gridsample.grid_sample_vjp(values, image, grid, *options)

    nan = np.isnan(grid).any(axis=-1)
    moderate = (np.abs(grid) < 1e4).all(axis=-1)
    assert np.isnan(out[np.broadcast_to(nan[:, np.newaxis], out.shape)]).all()
    assert np.isfinite(out[np.broadcast_to(moderate[:, np.newaxis], out.shape)]).all()
    assert np.isfinite(grad_input).all()
    assert not grad_grid[nan].any()
    assert np.isfinite(grad_grid[moderate]).all()
    if mode != "cubic":  # weights from 0 to 1: no value is made that was not between pixels'
        largest = np.abs(image).max() * (1 + 16 * oracles.ulp(image.dtype))
        assert np.abs(out[~np.isnan(out)]).max(initial=0) <= largest
    # The weights of a point sum to one, so scattering keeps the sum of the values of valid points;
    # less remains under zeros.
    valid = ~np.isnan(out)
    if boundary != "zeros":
        scale = np.abs(values).sum() * 4
        total = np.where(valid, values, 0).sum(dtype=float)
        assert abs(grad_input.sum(dtype=float) - total) <= 64 * oracles.ulp(image.dtype) * scale


@pytest.mark.covering(ordinary=2, slow=3)
@RANK
@GRID_TYPE
@pytest.mark.parametrize("mode", cases.MODES)
@pytest.mark.parametrize("boundary", cases.BOUNDARIES)
@pytest.mark.parametrize("align_corners", [False, True])
def test_arbitrary_bit_patterns(rank, grid_type, mode, boundary, align_corners):
    points = 300
    rng = cases.generator("fuzz", rank, grid_type)
    image_type = "float64" if grid_type == "float64" else "float32"
    image = cases.pixels(rng, (2, 2, *SPATIAL[:rank]), image_type)
    values = cases.pixels(rng, (2, 2, points), image_type)
    for make in (bits, limit_values, ordinary):
        grid = make(rng, (2, points, rank), grid_type)
        assert_survives(image, grid, values, mode, boundary, align_corners)
    # One coordinate of any kind among ordinary ones.
    mixed = np.where(rng.random(grid.shape) < 0.3, bits(rng, grid.shape, grid_type), grid)
    assert_survives(image, mixed, values, mode, boundary, align_corners)


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(
    st.binary(min_size=16, max_size=160),
    st.sampled_from([*cases.REALS]),
    st.integers(1, 3),
    st.sampled_from(OPTIONS),
)
def test_arbitrary_bytes(data, grid_type, rank, options):
    count = len(data) // np.dtype(grid_type).itemsize // rank
    grid = np.frombuffer(data, grid_type, count * rank).reshape(1, count, rank)
    image_type = "float64" if grid_type == "float64" else "float32"
    image = np.arange(1.0, 1 + np.prod(SPATIAL[:rank])).reshape(1, 1, *SPATIAL[:rank])
    values = np.ones((1, 1, count), image_type)
    with oracles.unchanged(image):
        assert_survives(image.astype(image_type), grid, values, *options)


@RANK
def test_nearby_coordinates_match_the_reference_among_arbitrary_ones(rank):
    rng = cases.generator("among", rank)
    image = cases.pixels(rng, (1, 2, *SPATIAL[:rank]))
    grid = np.where(
        rng.random((1, 300, 1)) < 0.5,
        bits(rng, (1, 300, rank), "float64"),
        rng.uniform(-2, 2, (1, 300, rank)),
    )
    near = (np.abs(grid) < 10).all(axis=-1)[0]
    for options in OPTIONS:
        out = gridsample.grid_sample(image, grid, *options)
        assert_close(out[:, :, near], oracles.reference_output(image, grid[:, near], *options))


# In processes of their own -----------------------------------------------------------------------


def run(code, **environment):
    """Run code that can import these tests; return its output and exit status."""
    root = str(Path(__file__).parents[1])
    path = os.pathsep.join([root, str(Path(gridsample.__file__).parents[1])])
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


# An image that says that it is larger than it is: what the checks below must notice.
LARGER = """
import dataclasses
import numpy as np
from plans import plan_for
from gridsample.kernels import sampling

image, grid, out = make((1, 1, 4, 5)), make((1, 7, 2)), make((1, 1, 7))
grid[...] = 1
plan = plan_for(image.shape, image.dtype, grid.shape, grid.dtype, "linear", "border", True)
sampling.gather(plan, image, grid, out)
print("as it should be", flush=True)
sampling.gather(dataclasses.replace(plan, spatial=(5, 5)), image, grid, out)
"""


guarded = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="protects pages as Linux does it"
)


@pytest.mark.slow
@guarded
def test_memory_beside_arrays_is_not_accessed():
    done = run("import guarded\nguarded.main('after', 'before')")
    assert done.returncode == 0, done.stderr
    assert "drivers" in done.stdout


@guarded
def test_guard_pages_detect_out_of_bounds_access():
    done = run("import guarded\nmake = guarded.maker('before')" + LARGER)
    assert "as it should be" in done.stdout
    assert done.returncode == -signal.SIGSEGV
