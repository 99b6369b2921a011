"""Displacement fields: closed forms, affine maps, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import ndimage

import gridsample
from gridsample import fields
from gridsample.fields import displacements

Array = np.ndarray[Any, Any]


def smooth(*spatial: int, size: float, width: float, items: int = 1, seed: int = 0) -> Array:
    """A random smooth field whose largest displacement is ``size`` pixels."""
    rng, rank = np.random.default_rng(seed), len(spatial)
    noise = rng.standard_normal((rank, items, *spatial))
    parts = [
        ndimage.gaussian_filter(component, (0, *(width,) * rank), mode="nearest")
        for component in noise
    ]
    field = np.stack(parts, -1)
    scaled: Array = field * (size / np.abs(field).max())
    return scaled


def affine_field(matrix: Array, spatial: tuple[int, ...]) -> Array:
    """The displacements of p -> matrix @ p + shift, exactly."""
    theta = matrix[np.newaxis].astype(float)
    return fields.to_displacement(
        fields.homography_grid(theta, spatial, spatial, convention="pixel", coords="pixel"),
        coords="pixel",
    )  # type: ignore[no-any-return]


FIELDS = {
    1: smooth(63, size=6, width=9),
    2: smooth(40, 47, size=5, width=9),
    3: smooth(16, 20, 18, size=2, width=5),
}


# Composition --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_composition_of_affine_maps_is_their_product(rank: int) -> None:
    spatial = (9, 7, 8)[:rank]
    rng = np.random.default_rng(rank)
    # Both shrink towards the middle, so that nothing is read outside.
    first, second = (
        np.eye(rank, rank + 1) * 0.8 + rng.uniform(0, 0.03, (rank, rank + 1)) for _ in range(2)
    )
    inner, outer = affine_field(first, spatial), affine_field(second, spatial)
    last = np.eye(rank + 1)[-1:]
    product = (np.vstack([second, last]) @ np.vstack([first, last]))[:rank]
    both = affine_field(product, spatial)
    np.testing.assert_allclose(fields.compose(outer, inner), both, rtol=0, atol=1e-12)
    positions = [fields.to_pixel(field, coords="displacement") for field in (outer, inner, both)]
    result = fields.compose(*positions[:2], coords="pixel")
    np.testing.assert_allclose(result, positions[2], rtol=0, atol=1e-12)


def test_composition_is_the_order_of_warps() -> None:
    image = np.stack(np.mgrid[:40, :47])[np.newaxis].astype(float)  # shows positions
    f, g = FIELDS[2], smooth(40, 47, size=4, width=9, seed=7)
    options = "linear", "border"
    chained = fields.flow_warp(fields.flow_warp(image, f, *options), g, *options)
    once = fields.flow_warp(image, fields.compose(f, g), *options)
    other = fields.flow_warp(image, fields.compose(g, f), *options)
    core = (..., slice(12, -12), slice(12, -12))
    np.testing.assert_allclose(once[core], chained[core], rtol=0, atol=1e-12)
    assert np.abs(other - chained)[core].max() > 0.1


def test_batches_are_broadcast_and_sizes_may_differ() -> None:
    many, single = smooth(6, 7, size=1, width=2, items=3), smooth(4, 5, size=1, width=2)
    result = fields.compose(many, single)
    assert result.shape == (3, 4, 5, 2)
    np.testing.assert_array_equal(result[1:2], fields.compose(many[1:2], single))
    result = fields.compose(single, many)
    assert result.shape == (3, 6, 7, 2)
    np.testing.assert_array_equal(result[2:], fields.compose(single, many[2:]))


# Inversion ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_an_inverse_undoes_its_field(rank: int) -> None:
    field = FIELDS[rank]
    assert fields.jacobian_determinant(field).min() > 0.3
    inverse, residual, converged = fields.invert(field)
    assert converged.all()
    assert residual.shape == converged.shape == field.shape[:-1]
    missed = np.linalg.norm(fields.compose(field, inverse), axis=-1)
    np.testing.assert_allclose(missed, residual, rtol=0, atol=1e-13)
    assert missed.max() < 1e-3
    positions = fields.to_pixel(field, coords="displacement")
    other = fields.invert(positions, coords="pixel").field
    np.testing.assert_allclose(fields.to_displacement(other, coords="pixel"), inverse, atol=1e-9)


def test_stretching_fields_are_inverted() -> None:
    # By a factor of 4: the plain fixed-point iteration diverges.
    matrix = np.array([[4.0, 0.0, -9.0], [0.5, 3.0, -7.0]])
    field = affine_field(matrix, (7, 9))
    inverse, _, converged = fields.invert(field)
    assert converged.all()
    exact = fields.homography_grid(matrix, (7, 9), (7, 9), coords="pixel")
    exact = fields.to_displacement(exact, coords="pixel")
    np.testing.assert_allclose(inverse, exact, rtol=0, atol=1e-6)


def test_points_that_do_not_converge_are_marked() -> None:
    field = FIELDS[2]
    inverse, residual, converged = fields.invert(field, iterations=0)
    np.testing.assert_array_equal(inverse, -field)
    missed = np.linalg.norm(fields.compose(field, -field), axis=-1)
    np.testing.assert_allclose(residual, missed, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(converged, residual <= 1e-3)
    assert not converged.all()
    loose = fields.invert(field, iterations=0, tolerance=float(residual.max()))
    assert loose.converged.all()


def test_missing_flow_is_kept() -> None:
    field = FIELDS[2].copy()
    field[0, 20, 20] = np.nan
    inverse, _, converged = fields.invert(field)
    assert np.isnan(inverse).any()
    assert not converged[np.isnan(inverse).any(-1)].any()
    assert 1 <= (~converged).sum() < 20


# Exponentials -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_opposite_velocities_undo_each_other(rank: int) -> None:
    velocity = FIELDS[rank] * 0.6
    forward, back = fields.exp(velocity), fields.exp(-velocity)
    missed = np.linalg.norm(fields.compose(forward, back), axis=-1)
    core = (slice(None), *[slice(4, -4)] * rank)
    assert missed[core].max() < 0.02
    assert np.linalg.norm(forward, axis=-1).max() > 1


@pytest.mark.parametrize(("steps", "worst"), [(3, 2e-3), (7, 1e-5)])
def test_the_exponential_of_a_linear_velocity_is_the_matrix_exponential(
    steps: int, worst: float
) -> None:
    # A rotation that also shrinks, about the middle of 21 x 21 pixels.
    rotation, shrink = 0.7, -0.4
    rate = np.array([[shrink, -rotation], [rotation, shrink]])
    angle = np.array(
        [[np.cos(rotation), -np.sin(rotation)], [np.sin(rotation), np.cos(rotation)]]
    ) * np.exp(shrink)
    middle = np.array([10.0, 10.0])
    velocity = affine_field(np.c_[rate + np.eye(2), -rate @ middle], (21, 21))
    exact = affine_field(np.c_[angle, middle - angle @ middle], (21, 21))
    # The corners leave the image on their way.
    y, x = np.mgrid[-10:11, -10:11]
    inside = np.hypot(x, y) < 10
    result = fields.exp(velocity, steps)
    np.testing.assert_allclose(result[0][inside], exact[0][inside], rtol=0, atol=10 * worst)


# Jacobians ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_jacobian_of_an_affine_map_is_its_matrix(rank: int) -> None:
    rng = np.random.default_rng(rank)
    matrix, spatial = rng.standard_normal((rank, rank + 1)), (5, 3, 2)[:rank]
    field = affine_field(matrix, spatial)
    result = fields.jacobian(field)
    assert result.shape == (1, *spatial, rank, rank)
    np.testing.assert_allclose(result, np.broadcast_to(matrix[:, :rank], result.shape), atol=1e-12)
    truth = np.linalg.det(matrix[:, :rank])
    np.testing.assert_allclose(fields.jacobian_determinant(field), truth, rtol=0, atol=1e-11)
    positions = fields.to_pixel(field, coords="displacement")
    other = fields.jacobian_determinant(positions, coords="pixel")
    np.testing.assert_allclose(other, truth, rtol=0, atol=1e-11)


def test_differences_match_numpy() -> None:
    field = FIELDS[3]
    result = fields.jacobian(field) - np.eye(3)
    for j in range(3):
        theirs = np.gradient(field, axis=3 - j)
        np.testing.assert_allclose(result[..., j], theirs, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(fields.jacobian(field[:, :1, :, :1])[..., 2, 2], 1)


def analytic(n: int) -> tuple[Array, Array]:
    """x + sin, y + cos, and its exact determinant."""
    y, x = np.mgrid[:n, :n] * 0.2
    field = np.stack([np.sin(x + 0.5 * y), np.cos(0.7 * x - y)], -1)[np.newaxis]
    a, b = 0.2 * np.cos(x + 0.5 * y), 0.2 * np.sin(0.7 * x - y)
    return field, ((1 + a) * (1 + b) - 0.5 * a * -0.7 * b)[np.newaxis]


def test_determinants_of_an_analytic_map() -> None:
    field, truth = analytic(40)
    core = (slice(None), slice(12, -12), slice(12, -12))
    by_differences = fields.jacobian_determinant(field)
    assert np.abs(by_differences - truth)[core].max() < 0.2**3
    exact = fields.jacobian_determinant(field, "spline5", "mirror")
    assert np.abs(exact - truth)[core].max() < 2e-5


def test_exact_jacobian_is_the_derivative_of_sampling() -> None:
    field = FIELDS[2]
    result = fields.jacobian(field, "spline3")
    step, still = 1e-6, np.zeros_like(field)
    for j in range(2):
        ends = [
            gridsample.grid_sample(
                field,
                still + sign * step * np.eye(2)[j],
                "spline3",
                "border",
                coords="displacement",
                channel_axis=-1,
            )
            for sign in (1, -1)
        ]
        slope = (ends[0] - ends[1]) / (2 * step) + np.eye(2)[j]
        np.testing.assert_allclose(result[..., j], slope, rtol=0, atol=1e-8)


def test_regularity_of_affine_curved_and_folded_fields() -> None:
    affine = affine_field(np.array([[1.1, 0.2, 3.0], [-0.1, 0.9, 1.0]]), (6, 7))
    result = fields.regularity(np.concatenate([affine, affine * 0]))
    np.testing.assert_array_equal(result.folded, 0)
    np.testing.assert_allclose(result.smallest, [1.1 * 0.9 + 0.02, 1], atol=1e-12)
    np.testing.assert_allclose(result.largest, [1.1 * 0.9 + 0.02, 1], atol=1e-12)
    np.testing.assert_allclose(result.bending, 0, atol=1e-24)
    y, x = np.mgrid[:6, :7].astype(float)
    curved = np.stack([x * x, x * y], -1)[np.newaxis]
    # d2/dx2 of x^2 is 2 at the 5 inner columns; d2/dxdy of x y is 1, twice, everywhere.
    np.testing.assert_allclose(fields.regularity(curved).bending, 4 * 5 / 7 + 2, atol=1e-12)
    flip = np.stack([-2 * x * (x > 2), 0 * y], -1)[np.newaxis]
    share = (fields.jacobian_determinant(flip) <= 0).mean()
    assert 0.3 < share < 1
    np.testing.assert_allclose(fields.regularity(flip).folded, share)


# Flows --------------------------------------------------------------------------------------------


def test_consistency_of_a_field_and_its_inverse() -> None:
    forward = FIELDS[2]
    backward = fields.invert(forward).field
    error, consistent = fields.consistency(backward, forward)
    np.testing.assert_allclose(error, fields.invert(forward).residual, rtol=0, atol=1e-12)
    positions = fields.to_pixel(backward, coords="displacement")
    inside = np.all((positions >= -0.5) & (positions <= np.array([46.5, 39.5])), -1)
    np.testing.assert_array_equal(consistent, inside)
    occluded = backward.copy()
    occluded[0, 20:25, 20:25, 0] += 3
    _, flags = fields.consistency(occluded, forward)
    assert not flags[0, 20:25, 20:25].any()
    everything = fields.consistency(occluded, forward, absolute=100.0).consistent
    assert everything[0, 20:25, 20:25].all()


def test_flow_warp_is_grid_sample() -> None:
    image = smooth(40, 47, size=1, width=3)
    flow = FIELDS[2]
    mine, mask = fields.flow_warp(image, flow, channel_axis=-1, return_mask=True)
    theirs, share = gridsample.grid_sample(
        image, flow, coords="displacement", channel_axis=-1, return_mask=True
    )
    np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(mask, share)


# Types and errors ---------------------------------------------------------------------------------

EVERY: dict[str, Callable[..., Any]] = {
    "compose": lambda f: fields.compose(f, f * 0.5),
    "invert": lambda f: fields.invert(f, iterations=4).field,
    "exp": lambda f: fields.exp(f, 3),
    "jacobian": fields.jacobian,
    "jacobian_determinant": lambda f: fields.jacobian_determinant(f, "bicubic"),
    "regularity": lambda f: fields.regularity(f).bending,
    "consistency": lambda f: fields.consistency(f, f * -0.9).error,
}


def test_inverting_stops_early_unless_derivatives_are_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = list[int]()
    solve = displacements.solve
    monkeypatch.setattr(displacements, "solve", lambda *a: (steps.append(1), solve(*a))[1])

    def count(field: Any) -> int:
        steps.clear()
        fields.invert(field, iterations=12)
        return len(steps)

    field = torch.from_numpy(smooth(5, 6, size=1, width=2))
    assert count(field) == count(field.numpy()) < 6
    assert count(field.clone().requires_grad_()) == 12
    with torch.autograd.forward_ad.dual_level():
        assert count(torch.autograd.forward_ad.make_dual(field, field)) == 12
    torch.vmap(count, in_dims=0, out_dims=None)(field[None])
    assert len(steps) == 12


@pytest.mark.parametrize("name", EVERY)
def test_dtypes_are_kept(name: str) -> None:
    field = smooth(5, 6, size=1, width=2)
    exact = EVERY[name](field)
    for dtype, tolerance in (("float32", 2e-5), ("float16", 2e-2)):
        result = EVERY[name](field.astype(dtype))
        assert result.dtype == dtype
        np.testing.assert_allclose(result, exact, rtol=tolerance, atol=tolerance)
    tensor = EVERY[name](torch.from_numpy(field))
    np.testing.assert_allclose(tensor, exact, rtol=0, atol=1e-12)
    half = EVERY[name](torch.from_numpy(field).bfloat16())
    assert half.dtype == torch.bfloat16


def test_invalid_fields_and_options_are_rejected() -> None:
    field = np.zeros((2, 4, 5, 2))
    with pytest.raises(ValueError, match=r"outer must be \(N, \*spatial, D\)"):
        fields.compose(field[0], field)
    with pytest.raises(ValueError, match="outer and inner must have the same number"):
        fields.compose(field, np.zeros((2, 4, 1)))
    with pytest.raises(ValueError, match="same N or N = 1"):
        fields.compose(field, np.zeros((3, 4, 5, 2)))
    with pytest.raises(ValueError, match=r"field.movedim\(1, -1\)"):
        fields.invert(np.zeros((1, 2, 4, 5)))
    with pytest.raises(ValueError, match="empty spatial axis"):
        fields.jacobian(np.zeros((1, 0, 4, 2)))
    with pytest.raises(TypeError, match="field has dtype bool"):
        fields.jacobian(field > 0)
    with pytest.raises(ValueError, match="coords 'normalized'"):
        fields.invert(field, coords="normalized")
    with pytest.raises(TypeError, match="steps must be an integer"):
        fields.exp(field, 2.5)
    with pytest.raises(ValueError, match="steps must not be negative"):
        fields.exp(field, -1)
    with pytest.raises(ValueError, match="tolerance must be above 0"):
        fields.invert(field, tolerance=0.0)
    with pytest.raises(ValueError, match="grad_output must have the result's shape"):
        fields.exp_vjp(field[:1], field)


# Gradients ----------------------------------------------------------------------------------------


def leaf(*spatial: int, seed: int = 0, items: int = 1) -> torch.Tensor:
    """A small field that reads no point near a kink of the interpolation."""
    rng = np.random.default_rng(seed)
    field = rng.uniform(0.1, 0.3, (items, *spatial, len(spatial)))
    return torch.from_numpy(field).requires_grad_()


OPTIONS = ("catmull-rom", "mirror")

DIFFERENTIABLE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "compose": lambda f: fields.compose(f, f * 1.5, *OPTIONS),
    "invert": lambda f: fields.invert(f, *OPTIONS, iterations=6).field,
    "exp": lambda f: fields.exp(f, 2, *OPTIONS),
    "jacobian": fields.jacobian,
    "determinant": lambda f: fields.jacobian_determinant(f, *OPTIONS),
    "bending": lambda f: fields.regularity(f).bending,
    "consistency": lambda f: fields.consistency(f, f * -0.3, OPTIONS[0]).error,
    "flow_warp": lambda f: fields.flow_warp(f, f, *OPTIONS, channel_axis=-1),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name == "invert")) for name in DIFFERENTIABLE],
)
def test_gradients(name: str) -> None:
    function, field = DIFFERENTIABLE[name], leaf(3, 4)
    assert torch.autograd.gradcheck(function, field, atol=1e-6)
    assert torch.autograd.gradgradcheck(function, field, atol=1e-5)


def test_vjps_match_torchs_gradients() -> None:
    f, g = leaf(4, 5), leaf(4, 5, seed=1, items=2)
    upstream = torch.from_numpy(np.random.default_rng(2).standard_normal((2, 4, 5, 2)))
    theirs = torch.autograd.grad(fields.compose(f, g, *OPTIONS), (f, g), upstream)
    ours = fields.compose_vjp(*[tensor.detach().numpy() for tensor in (upstream, f, g)], *OPTIONS)
    swapped = torch.autograd.grad(fields.compose(g, f, *OPTIONS), (g, f), upstream)
    others = fields.compose_vjp(*[tensor.detach().numpy() for tensor in (upstream, g, f)], *OPTIONS)
    for mine, good in zip((*ours, *others), (*theirs, *swapped), strict=True):
        np.testing.assert_allclose(mine, good, rtol=0, atol=1e-12)
    for steps in (0, 1, 3):
        (good,) = torch.autograd.grad(fields.exp(g, steps, *OPTIONS), g, upstream)
        mine = fields.exp_vjp(upstream.numpy(), g.detach().numpy(), steps, *OPTIONS)
        np.testing.assert_allclose(mine, good, rtol=0, atol=1e-12)
    inverse = fields.invert(g, *OPTIONS)
    (good,) = torch.autograd.grad(inverse.field, g, upstream)
    arrays = [tensor.detach().numpy() for tensor in (upstream, g, inverse.field)]
    np.testing.assert_allclose(fields.invert_vjp(*arrays, *OPTIONS), good, rtol=0, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_compiles_without_graph_breaks(name: str) -> None:
    function, field = DIFFERENTIABLE[name], leaf(3, 4).detach()
    torch.compiler.reset()
    compiled = torch.compile(function, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(field), function(field))
