"""`gridsample.operators.correlation_lookup` on NumPy arrays, against the reference."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest

from gridsample.backends import backend_of
from gridsample.definitions.operators import LookupOptions
from gridsample.kernels.reference import operators as reference
from gridsample.operators import CorrelationBlock, correlation_lookup, correlation_lookup_vjp
from gridsample.operators.correlation import LOOKUP, composed, composed_vjp

# Rank, radius, channels, levels: windows that fill a register and do not, of a single sample, and
# of several registers; channels that are whole registers, incomplete ones, and several blocks that
# overlap or do not.
CASES = [(2, 4, 33, 3), (1, 20, 1, 2), (3, 1, 3, 2), (2, 0, 128, 1)]
SIZE = 6, 9, 17


def inputs(case: Any, dtype: Any = np.float64, queries: int = 7) -> tuple[list[Any], Any]:
    """The arrays of the operator, and its options; some positions are NaN, infinite, or far."""
    rank, radius, channels, levels = case
    rng = cases.generator("correlation", *case)
    sizes = tuple(n >> level for level in range(levels) for n in SIZE[3 - rank :])
    options = LookupOptions(sizes, rank, radius, None)
    pixels = sum(int(np.prod(size)) for size in options.levels())
    source = rng.standard_normal((2, queries, channels))
    images = rng.standard_normal((2, pixels, channels))
    positions = rng.uniform(-3, 18, (2, queries, rank))
    if queries:
        positions[0, 0, 0] = np.nan
        positions[0, 1, -1] = np.inf
        positions[1, 2, 0] = -6e4
        positions[1, 3] = 3
    return [array.astype(dtype) for array in (source, images, positions)], options


@pytest.mark.parametrize("case", CASES, ids=str)
def test_windows_are_those_of_the_reference(case: Any) -> None:
    arrays, options = inputs(case)
    backend = backend_of(input=arrays[0])
    expected = reference.correlation_lookup(*arrays, options.levels(), options.radius)
    for result in (
        backend.fused(LOOKUP, arrays, options),
        composed(backend, arrays, options),
    ):
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_are_those_of_the_composition(case: Any) -> None:
    arrays, options = inputs(case)
    backend = backend_of(input=arrays[0])
    result = backend.fused(LOOKUP, arrays, options)
    upstream = cases.generator("upstream").standard_normal(result.shape)
    every = (True, True, True)
    expected = composed_vjp(backend, upstream, arrays, options, every)
    gradients = backend.fused_vjp(LOOKUP, upstream, arrays, options, every)
    for gradient, other in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, other, rtol=1e-11, atol=1e-12)
    for k in range(3) if case == CASES[0] else ():
        needed = tuple(n == k for n in range(3))
        alone = backend.fused_vjp(LOOKUP, upstream, arrays, options, needed)
        np.testing.assert_array_equal(alone[k], gradients[k])
        assert [n for n in range(3) if alone[n] is not None] == [k]


def test_gradients_are_slopes_of_the_windows() -> None:
    """The result is linear in the source and in the images."""
    (source, images, positions), options = inputs(CASES[0])
    positions = np.where(np.abs(positions) < 20, positions, 2.3)
    arrays, rng = [source, images, positions], cases.generator("slopes")
    backend = backend_of(input=source)
    upstream = rng.standard_normal(backend.fused(LOOKUP, arrays, options).shape)
    gradients = backend.fused_vjp(LOOKUP, upstream, arrays, options, (True, True, True))
    for k, step in enumerate((1.0, 1.0, 1e-6)):
        direction = rng.standard_normal(arrays[k].shape)
        if k == 2:
            direction[1, 3] = 0  # its position is on a pixel, where slopes jump
        ends = [[*arrays[:k], arrays[k] + s * direction, *arrays[k + 1 :]] for s in (step, -step)]
        high, low = (backend.fused(LOOKUP, end, options) for end in ends)
        slope = np.sum((high - low) * upstream) / (2 * step)
        expected = np.sum(gradients[k] * direction)
        np.testing.assert_allclose(slope, expected, rtol=1e-6 if k == 2 else 1e-10)


def test_narrow_dtypes_are_summed_in_float32() -> None:
    arrays, options = inputs((2, 4, 33, 3), np.float16)
    backend, single = backend_of(input=arrays[0]), [array.astype(np.float32) for array in arrays]
    result = backend.fused(LOOKUP, arrays, options)
    exact = backend.fused(LOOKUP, single, options)
    assert result.dtype == np.float16
    np.testing.assert_array_equal(result, exact.astype(np.float16))
    wide = [array.astype(np.float64) for array in arrays]
    expected = reference.correlation_lookup(*wide, options.levels(), options.radius)
    np.testing.assert_allclose(exact, expected, rtol=1e-4, atol=1e-5)
    every = (True, True, True)
    upstream = np.ones(result.shape, np.float16)
    narrow = backend.fused_vjp(LOOKUP, upstream, arrays, options, every)
    full = backend.fused_vjp(LOOKUP, upstream.astype(np.float32), single, options, every)
    for a, b in zip(narrow, full, strict=True):
        np.testing.assert_array_equal(a, b.astype(np.float16))


def test_layouts_and_threads_change_no_bit() -> None:
    for case in (CASES[0], CASES[3]):
        arrays, options = inputs(case, queries=40)
        backend = backend_of(input=arrays[0])
        result = backend.fused(LOOKUP, arrays, options)
        upstream, every = np.ones_like(result), (True, True, True)
        gradients = backend.fused_vjp(LOOKUP, upstream, arrays, options, every)
        others = [[array[::-1, ::-1].copy()[::-1, ::-1] for array in arrays]]
        others += [[array.astype(">f8") for array in arrays], [*map(np.asfortranarray, arrays)]]
        for threads, other in zip((1, 2, 2), others, strict=True):
            rules = options._replace(threads=threads)
            np.testing.assert_array_equal(backend.fused(LOOKUP, other, rules), result)
            again = backend.fused_vjp(LOOKUP, upstream, other, rules, every)
            for a, b in zip(again, gradients, strict=True):
                np.testing.assert_array_equal(a, b)


def test_pixels_outside_the_windows_are_not_read() -> None:
    (source, images, positions), options = inputs(CASES[0])
    images[...], positions[...] = np.nan, 40.0
    backend = backend_of(input=source)
    result = backend.fused(LOOKUP, [source, images, positions], options)
    assert not result.any()
    upstream = np.full(result.shape, 1e300)
    gradients = backend.fused_vjp(
        LOOKUP, upstream, [source, images, positions], options, (True, True, True)
    )
    assert not any(gradient.any() for gradient in gradients)


def test_levels_are_means_of_neighbours() -> None:
    rng = cases.generator("levels")
    f1, f2 = rng.standard_normal((1, 2, 3, 4)), rng.standard_normal((1, 2, 5, 7))
    positions = rng.uniform(0, 4, (1, 2, 3, 4))
    both = correlation_lookup(f1, f2, positions, 1, 2)
    assert both.shape == (1, 18, 3, 4)
    np.testing.assert_array_equal(both[:, :9], correlation_lookup(f1, f2, positions, 1, 1))
    halved = f2[..., :4, :6].reshape(1, 2, 2, 2, 3, 2).mean((3, 5))
    level = correlation_lookup(f1, halved, positions / 2, 1, 1)
    np.testing.assert_allclose(both[:, 9:], level, rtol=1e-12, atol=1e-14)
    block = CorrelationBlock(f1, f2, 2, 1)
    np.testing.assert_array_equal(block(positions), both)


def test_gradients_are_adjoint_to_the_windows() -> None:
    """The result is linear in both features, whose levels have an odd size, and may be narrow."""
    rng = cases.generator("adjoint")
    f1, f2 = rng.standard_normal((1, 2, 3, 4)), rng.standard_normal((1, 2, 5, 7))
    positions = rng.uniform(0, 4, (1, 2, 3, 4))
    upstream = rng.standard_normal((1, 18, 3, 4))
    gradients = correlation_lookup_vjp(upstream, f1, f2, positions, 1, 2)
    product = np.sum(upstream * correlation_lookup(f1, f2, positions, 1, 2))
    for features, gradient in zip((f1, f2), gradients[:2], strict=True):
        np.testing.assert_allclose(np.sum(features * gradient), product, rtol=1e-12)
    narrow = [array.astype(np.float16) for array in (upstream, f1, f2, positions)]
    halves = correlation_lookup_vjp(*narrow, 1, 2)
    for half, gradient in zip(halves, gradients, strict=True):
        assert half.dtype == np.float16
        np.testing.assert_allclose(half, gradient, rtol=0.02, atol=0.02)


def test_windows_along_the_last_axes() -> None:
    """Each row looks in the same row, as in stereo."""
    rng = cases.generator("rows")
    f1, f2 = rng.standard_normal((2, 2, 5, 3, 8))
    positions = rng.uniform(0, 8, (2, 1, 3, 8))
    result = correlation_lookup(f1, f2, positions, 2, 2)
    assert result.shape == (2, 10, 3, 8)
    for row in range(3):
        own = correlation_lookup(f1[:, :, row], f2[:, :, row], positions[:, :, row], 2, 2)
        np.testing.assert_allclose(result[:, :, row], own, rtol=1e-12, atol=1e-14)


def test_windows_of_a_given_volume() -> None:
    """The correlation itself is an image with one channel for each pixel that looks up."""
    rng = cases.generator("volume")
    f1, f2, positions = (rng.standard_normal((1, n, 3, 4)) for n in (16, 16, 2))
    expected = correlation_lookup(f1, f2, positions, 1, 1)
    volume = np.einsum("ncij,nckl->ijkl", f1, f2).reshape(12, 1, 3, 4) / 4
    places = np.moveaxis(positions, 1, -1).reshape(12, 2, 1, 1)
    result = correlation_lookup(np.ones((12, 1, 1, 1)), volume, places, 1, 1)
    moved = np.moveaxis(result.reshape(1, 3, 4, 9), -1, 1)
    np.testing.assert_allclose(moved, expected, rtol=1e-12, atol=1e-13)


def test_empty_arrays() -> None:
    f2 = np.ones((1, 3, 4, 5))
    for shape in ((1, 3, 0, 5), (0, 3, 2, 2)):
        f1, positions = np.ones(shape), np.zeros((shape[0], 2, *shape[2:]))
        result = correlation_lookup(f1, f2[: shape[0]], positions, 1, 2)
        assert result.shape == (shape[0], 18, *shape[2:])
    none = correlation_lookup(np.ones((1, 0, 2, 2)), f2[:, :0], np.zeros((1, 2, 2, 2)), 1, 1)
    assert none.shape == (1, 9, 2, 2)
    assert not none.any()
    arrays, options = [np.ones((1, 2, 0)), np.ones((1, 4, 0)), np.ones((1, 2, 1))], None
    options = LookupOptions((4,), 1, 1, None)
    assert composed(backend_of(input=f2), arrays, options).tolist() == [[[0.0] * 3] * 2]


def test_errors() -> None:
    f1, f2, positions = np.ones((1, 3, 4, 5)), np.ones((1, 3, 6, 7)), np.ones((1, 2, 4, 5))
    for arguments, words in (
        ((f1, f2, positions[..., 1:], 1, 1), r"positions must have the shape \(1, 2, 4, 5\)"),
        ((f1, f2[:, :2], positions, 1, 1), "f1 and f2 must be equal in all sizes"),
        ((f1, f2, positions[:, :1], 1, 1), "f1 and f2 must be equal in all sizes"),
        ((f1, f2[0], positions, 1, 1), "f1 and f2 must be .* as many spatial axes"),
        ((f1[0, 0], f2, positions, 1, 1), "f1 and f2 must be .* as many spatial axes"),
        ((f1[0], f2[0], positions, 1, 1), "f1 and f2 must be .* at least 2 spatial axes"),
        ((f1[0, 0, 0], f2[0, 0, 0], positions), "f1 and f2 must be .* at least one"),
        ((f1, f2, positions[:, :0]), "positions must be .* with 1 to 3 coordinates D"),
        ((f1, f2, positions, 1, 4), "f2 has 6 x 7 pixels, too few for 4 levels"),
        ((f1, f2, positions, -1, 1), "radius must be at least 0, got -1"),
        ((f1, f2, positions, 1, 0), "levels must be at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=words):
            correlation_lookup(*arguments)
        with pytest.raises(ValueError, match=words):
            correlation_lookup_vjp(np.ones((1, 9, 4, 5)), *arguments)
    expected = r"grad_output must have the output's shape \(1, 9, 4, 5\), got \(1, 9, 4, 4\)"
    with pytest.raises(ValueError, match=expected):
        correlation_lookup_vjp(np.ones((1, 9, 4, 4)), f1, f2, positions, 1, 1)
    with pytest.raises(TypeError, match="need_f2 must be True or False"):
        correlation_lookup_vjp(np.ones((1, 9, 4, 5)), f1, f2, positions, 1, 1, need_f2=1)
    for arguments, words in (
        ((f1.astype(int), f2, positions), "f1 has dtype int64; accepted: float16"),
        ((f1, f2, positions > 0, 1, 1), "positions has dtype bool"),
        ((f1, f2, positions, 1.5), "radius must be an integer, got 1.5"),
    ):
        with pytest.raises(TypeError, match=words):
            correlation_lookup(*arguments)
    with pytest.raises(ValueError, match="threads"):
        correlation_lookup(f1, f2, positions, threads=0)
