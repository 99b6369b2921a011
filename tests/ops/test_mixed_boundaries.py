"""Any boundaries side by side, and fill values that are NaN or infinite: results and gradients.

The means of `gridsample.ops.quotients` are compared with `oracles.mean_output`, tap by tap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cases
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from missing_images import IGNORE, pixels_with_nan
from oracles import Array, directional_difference, mean_output
from strategies import examples

import gridsample
from gridsample.kernels import reference

FILLS = [0, 2.5, np.nan, np.inf, -np.inf]
MIXED = ["border", "mirror", "wrap", "missing"]


@dataclass
class MeanCall:
    """The arguments of a mean with some axis under "missing"; all methods are linear."""

    image: Array
    grid: Array
    weights: Array | None
    padding_mode: tuple[str, ...]
    fill_value: float
    extrapolate: bool

    def options(self) -> dict[str, Any]:
        """The options of the call, without its arrays."""
        options = {"padding_mode": self.padding_mode, "fill_value": self.fill_value}
        return options | {"extrapolate": self.extrapolate, "coords": "pixel", **IGNORE}

    def missing_value(self) -> float:
        """What a missing result is."""
        filled = "constant" in self.padding_mode or not self.extrapolate
        return self.fill_value if self.fill_value or filled else np.nan

    def expected(self) -> tuple[Array, Array]:
        """The means tap by tap, and the sums of weights."""
        result, share = mean_output(
            self.image, self.grid, "linear", self.padding_mode, self.weights, self.fill_value
        )
        result = np.where(share > 1e-9, result, self.missing_value())
        if not self.extrapolate:
            last = np.array(self.image.shape[:1:-1]) - 1
            outside = ((self.grid < 0) | (self.grid > last)).any(-1)[:, np.newaxis]
            result = np.where(outside, self.fill_value, result)
        return result, share


@st.composite
def mean_calls(draw: st.DrawFn, at_pixels: bool = True) -> MeanCall:
    """Means of small images; points are multiples of 1/4 pixel, or between them."""
    rank = draw(st.integers(1, 3))
    spatial = tuple(draw(st.lists(st.integers(1, 5), min_size=rank, max_size=rank)))
    items, grid_items = draw(st.sampled_from([(1, 1), (2, 2), (1, 2), (2, 1)]))
    channels, names = draw(st.integers(1, 2)), ["missing"]
    known = [*MIXED, draw(st.sampled_from(["zeros", "constant"]))]
    names += draw(st.lists(st.sampled_from(known), min_size=rank - 1, max_size=2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    image = pixels_with_nan(rng, (items, channels, *spatial), draw(st.sampled_from([0, 0.3])))
    weights = None
    if draw(st.booleans()):
        shape = draw(st.sampled_from([1, items])), draw(st.sampled_from([1, channels])), *spatial
        weights = rng.uniform(0.5, 2, shape)
    quarters = rng.integers(-8, 4 * np.array(spatial)[::-1] + 5, (grid_items, 7, rank))
    grid = quarters / 4 + (0 if at_pixels else 1 / 8)
    fill = draw(st.sampled_from(FILLS))
    boundaries = tuple(draw(st.permutations(names[:rank])))
    return MeanCall(image, grid, weights, boundaries, fill, draw(st.booleans()))


@settings(max_examples=examples(100))
@given(mean_calls())
def test_mixed_means_match_their_taps(call: MeanCall) -> None:
    expected, share = call.expected()
    result = gridsample.grid_sample(call.image, call.grid, weights=call.weights, **call.options())
    known = (share == 0) | (share > 1e-9)
    np.testing.assert_allclose(result[known], expected[known], rtol=1e-9, atol=1e-11)


@settings(max_examples=examples(60))
@given(mean_calls(at_pixels=False))
def test_gradients_of_mixed_means_are_differences(call: MeanCall) -> None:
    expected, _ = call.expected()
    rng = cases.generator("mixed", str(call.padding_mode))
    finite = np.isfinite(expected)
    upstream = np.where(finite, cases.pixels(rng, expected.shape), 0)

    def total(**arrays: Any) -> Any:
        arrays = {"input": call.image, "grid": call.grid, "weights": call.weights, **arrays}
        result = gridsample.grid_sample(**arrays, **call.options())
        return np.sum(upstream * np.where(finite, result, 0))

    gradients = gridsample.grid_sample_vjp(
        upstream, call.image, call.grid, weights=call.weights, **call.options()
    )
    missing = np.isnan(call.image)
    assert not gradients[0][missing].any()
    # The gradient of a point with a result that is not finite is unspecified.
    known = finite.all(1).all(0)[np.newaxis] if len(call.grid) == 1 else finite.all(1)
    arguments = [
        ("input", call.image, ~missing),
        ("grid", call.grid, known[..., np.newaxis]),
        ("weights", call.weights, True),
    ]
    for (name, array, moves), gradient in zip(arguments, gradients, strict=False):
        assert array is not None
        direction = np.where(moves, rng.normal(size=array.shape), 0)
        difference = directional_difference(
            lambda value, name=name: total(**{name: value}), array, direction
        )
        slope = np.sum(np.where(direction == 0, 0, gradient) * direction)
        np.testing.assert_allclose(slope, difference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("mixed", ["zeros", "constant"])
def test_fill_values_do_not_count_inside(mixed: str, fill: float) -> None:
    image, points = np.ones((1, 1, 4, 4)), np.array([[[1.0, 1.0], [2.5, 0.25]]])
    for boundary in ((mixed, "missing"), ("missing", mixed)):
        options = {"padding_mode": boundary, "coords": "pixel", "extrapolate": False, **IGNORE}
        result = gridsample.grid_sample(image, points, fill_value=fill, **options)
        np.testing.assert_array_equal(result, [[[1, 1]]])
        upstream = np.ones((1, 1, 2))
        for gradient in gridsample.grid_sample_vjp(
            upstream, image, points, fill_value=fill, **options
        ):
            assert np.isfinite(gradient).all()
        tensors = [torch.tensor(array, requires_grad=True) for array in (image, points)]
        result = gridsample.grid_sample(*tensors, fill_value=fill, **options)
        for tensor_gradient in torch.autograd.grad(result.sum(), tensors):
            assert tensor_gradient.isfinite().all()


def test_zeros_beside_missing_stay_zeros_up_to_the_edges() -> None:
    # With the edges as the image's ends, samples between the last centre and the edge blend with 0.
    image, points = np.ones((1, 1, 4, 4)), np.array([[[-0.25, 1.0], [-1.0, 1.0]]])
    options = {"padding_mode": ("zeros", "missing"), "coords": "pixel", "extrapolate": "edges"}
    result = gridsample.grid_sample(image, points, fill_value=7, **options, **IGNORE)
    np.testing.assert_allclose(result, [[[0.75, 7]]])


@pytest.mark.parametrize("boundary", [("zeros", "missing"), ("missing", "constant")])
def test_items_share_one_grid(boundary: tuple[str, str]) -> None:
    image = np.random.default_rng(0).normal(size=(2, 1, 4, 4))
    points, upstream = np.array([[[3.4, 1.3], [1.2, -0.4]]]), np.ones((2, 1, 2))
    options = {"padding_mode": boundary, "coords": "pixel", "fill_value": 2, **IGNORE}
    _, gradient = gridsample.grid_sample_vjp(upstream, image, points, **options)
    each = [
        gridsample.grid_sample_vjp(upstream[:1], item[np.newaxis], points, **options)[1]
        for item in image
    ]
    np.testing.assert_allclose(gradient, sum(each), rtol=1e-12, atol=1e-14)
    if boundary == ("zeros", "missing"):
        np.testing.assert_allclose(gradient[0, 0, 0], -0.6448939, rtol=1e-6)


# Plain sampling -----------------------------------------------------------------------------------


@settings(max_examples=examples(100))
@given(
    st.lists(st.sampled_from(["nearest", "linear", "cubic", "lanczos2", "lanczos3"]), min_size=2),
    st.sampled_from(["constant", "border", "mirror", "wrap", "reflection"]),
    st.booleans(),
    st.sampled_from([1, 3, 8]),
    st.sampled_from([1, -1]),
    st.sampled_from(FILLS),
    st.integers(0, 2**32 - 1),
)
def test_fill_values_count_with_their_weights(
    modes: list[str], name: str, swap: bool, channels: int, axis: int, fill: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    modes, boundaries = modes[:2], (name, "constant") if swap else ("constant", name)
    image = rng.normal(size=(1, channels, *rng.integers(1, 7, 2)))
    grid = rng.integers(-12, 4 * np.array(image.shape[:1:-1]) + 8, (1, 9, 2)) / 4
    upstream = np.ones((1, channels, 9))
    options = {"mode": tuple(modes), "padding_mode": boundaries, "coords": "pixel"}
    options |= {"fill_value": fill, "channel_axis": axis}
    arguments = image, grid, modes, boundaries, False
    expected = reference.gather(*arguments, coords="pixel", fill=fill)
    _, by_grid = reference.gradients(upstream, *arguments, coords="pixel", fill=fill)
    image, upstream = (np.ascontiguousarray(np.moveaxis(a, 1, axis)) for a in (image, upstream))
    result = np.moveaxis(gridsample.grid_sample(image, grid, **options), axis, 1)
    _, gradient = gridsample.grid_sample_vjp(upstream, image, grid, **options)
    # Infinite fills with weights of both signs: their sum may be infinite or NaN.  The gradient is
    # compared where samples are finite, and not for fitted weights, whose derivatives are never 0.
    fitted = any(mode.startswith("lanczos") for mode in modes)
    inside = np.isfinite(expected).all(1) & (not fitted)
    for mine, other in ((result, expected), (gradient[inside], by_grid[inside])):
        finite = np.isfinite(other)
        np.testing.assert_array_equal(np.isfinite(mine), finite)
        np.testing.assert_allclose(mine[finite], other[finite], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("channels", [1, 3, 8])
@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("mode", ["lanczos2", "lanczos3", "lanczos4"])
def test_pixels_at_edges_keep_their_values(mode: str, axis: int, channels: int) -> None:
    image = np.ones((1, 8, 8, channels)) if axis == -1 else np.ones((1, channels, 8, 8))
    grid = np.array([[[0.0, 0.0], [7.0, 7.0], [7.0, 3.0]]])
    result = gridsample.grid_sample(
        image, grid, mode, "constant", coords="pixel", fill_value=np.nan, channel_axis=axis
    )
    assert (result == 1).all()


@pytest.mark.parametrize("make", [np.asarray, torch.asarray, jnp.asarray])
@pytest.mark.parametrize("boundary", ["constant", ("constant", "missing")])
def test_infinite_parts_leave_the_other_part_of_complex_numbers(make: Any, boundary: Any) -> None:
    """Weights are real: they divide real and imaginary parts apart, of fills and of pixels."""
    image, weights = np.ones((1, 1, 4, 4), np.complex64), np.full((1, 1, 4, 4), 0.5, np.float32)
    image[0, 0, 3, 3] = complex(2, -np.inf)
    grid = np.array([[[-0.5, 1], [-3, 1], [2.5, 2.5], [1, 1.5]]], np.float32)
    options = {"coords": "pixel", "fill_value": np.inf}
    arrays = make(image), make(grid)
    result = gridsample.grid_sample(*arrays, "linear", boundary, weights=make(weights), **options)
    expected = [complex(np.inf, 0), complex(np.inf, 0), complex(1.25, -np.inf), 1]
    np.testing.assert_array_equal(np.asarray(result).ravel(), expected)
