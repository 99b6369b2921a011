"""Every option of the public functions, on tensors: values as for arrays, and derivatives.

What the numbers should be is tested with arrays; here tensors must have the same.
"""

from __future__ import annotations

import itertools
from typing import Any

import cases
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.func import hessian, jvp, vmap

import gridsample
from gridsample import methods
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.definitions.coords import COORDS

CHECKS = {"fast_mode": True, "atol": 1e-5, "rtol": 1e-4}
FILL = [1.5, -2.0]
OWN = methods.Method("step", ((1.0, 0.0, -3.0, 2.0), (0.0, 0.0, 3.0, -2.0)), 0)

# Every option occurs with every other option that it might interact with.
CHOSEN: list[tuple[Any, Any, dict[str, Any]]] = [
    ("cubic", "constant", {"fill_value": FILL}),
    ("linear", "constant", {"fill_value": 2.0, "coords": "displacement"}),
    (("linear", "cubic"), ("wrap", "constant"), {"coords": "displacement", "fill_value": FILL}),
    ("cubic", "border", {"coords": "pixel", "extrapolate": False, "fill_value": 3}),
    ("linear", "reflection", {"extrapolate": False, "fill_value": FILL}),
    (("spline2", "linear"), "antisymmetric", {"coords": "displacement", "extrapolate": False}),
    ("spline3", "mirror", {"coords": "pixel"}),
    ("spline3", "constant", {"coords": "pixel", "fill_value": FILL, "extrapolate": False}),
    (("spline3", "spline4"), "wrap", {"prefilter": False}),
    (("spline5", "spline4"), ("border", "constant"), {"coords": "pixel", "fill_value": FILL}),
    (OWN, "symmetric", {"coords": "pixel"}),
    (("mitchell", OWN), "constant", {"coords": "displacement", "fill_value": 1.0}),
]
OPTIONS = pytest.mark.parametrize(("mode", "boundary", "more"), CHOSEN, ids=str)


def inputs(more: dict[str, Any], items: int = 2, grids: int = 2) -> tuple[Tensor, Tensor]:
    """An image, and a grid of which no point lies on a tie or on a fold, some of them outside."""
    rng = cases.generator("options", sorted(more), items, grids)
    spatial = (4, 5)
    image = torch.from_numpy(cases.pixels(rng, (items, 2, *spatial)))
    pixels = rng.integers(-2, 6, (grids, 3, 2, 2))
    place = pixels + rng.choice([-1, 1], pixels.shape) * rng.uniform(0.1, 0.4, pixels.shape)
    coords = more.get("coords", "normalized")
    if coords == "normalized":
        place = cases.coordinates(place, spatial, False)
    return image.requires_grad_(), torch.from_numpy(place).requires_grad_()


def arrays(*tensors: Tensor) -> list[np.ndarray[Any, Any]]:
    return [tensor.detach().numpy() for tensor in tensors]


def close(ours: Any, theirs: Any, tolerance: float = 1e-12) -> None:
    """Numbers near 1, summed in another order at most: a few hundred units in the last place."""
    np.testing.assert_allclose(
        ours.detach().numpy(), theirs, rtol=tolerance, atol=tolerance, equal_nan=True
    )
    assert ours.detach().numpy().dtype == theirs.dtype


# Values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "boundary", "more", "last"),
    [
        pytest.param(*chosen, last, marks=[pytest.mark.slow] * ((i + last) % 6 != 0))
        for i, chosen in enumerate(CHOSEN)
        for last in (False, True)
    ],
    ids=str,
)
def test_all_functions_match_arrays(
    mode: Any, boundary: Any, more: dict[str, Any], last: bool
) -> None:
    image, grid = inputs(more)
    with torch.no_grad():
        grid[0, 0, 0] = torch.nan
    if last:
        image, more = image.movedim(1, -1), {**more, "channel_axis": -1}
    options = (mode, boundary, False)
    out, mask = gridsample.grid_sample(image, grid, *options, **more, return_mask=True)
    expected, share = gridsample.grid_sample(
        *arrays(image, grid), *options, **more, return_mask=True
    )
    close(out, expected)
    close(mask, share)
    values = torch.cos(torch.arange(out.numel(), dtype=out.dtype)).reshape(out.shape)
    for ours, theirs in zip(
        gridsample.grid_sample_vjp(values, image, grid, *options, **more),
        gridsample.grid_sample_vjp(*arrays(values, image, grid), *options, **more),
        strict=True,
    ):
        close(ours, theirs)
    for slope in (gridsample.grid_gradient, gridsample.grid_hessian):
        close(slope(image, grid, *options, **more), slope(*arrays(image, grid), *options, **more))
    splatting = {name: value for name, value in more.items() if name != "fill_value"}
    for normalize in (False, True):
        splat_options = {**splatting, "normalize": normalize}
        ours = gridsample.splat(values, grid, (4, 5), *options, **splat_options)
        theirs = gridsample.splat(*arrays(values, grid), (4, 5), *options, **splat_options)
        if normalize:  # quotients of tiny sums are mostly rounding
            count = gridsample.splat_count(*arrays(grid), (4, 5), *options, **splatting)
            ours, theirs = ours * torch.from_numpy(count), theirs * count
        close(ours, theirs, 1e-11)
    close(
        gridsample.splat_count(grid, (4, 5), *options, **splatting),
        gridsample.splat_count(*arrays(grid), (4, 5), *options, **splatting),
    )


@pytest.mark.parametrize("dtype", ["uint8", "int16", "bool", "int32", "int64", "uint16"])
def test_splines_of_integers_round_and_saturate(dtype: str) -> None:
    rng = cases.generator("integers", dtype)
    image = (
        cases.pixels(rng, (1, 2, 6, 7), dtype) // 2
        if dtype != "bool"
        else cases.pixels(rng, (1, 2, 6, 7), dtype)
    )
    grid = rng.uniform(-1.2, 1.2, (1, 40, 2))
    grid[0, 0] = np.nan
    for fill in ([300, -5], np.inf):
        options = {"mode": "spline3", "padding_mode": "constant", "fill_value": fill}
        result = gridsample.grid_sample(torch.from_numpy(image), torch.from_numpy(grid), **options)
        np.testing.assert_array_equal(
            result.numpy(), gridsample.grid_sample(image, grid, **options), strict=True
        )


def test_splines_of_halves_are_summed_in_float32() -> None:
    image, grid = (t.detach() for t in inputs({}))
    for dtype in (torch.float16, torch.bfloat16):
        low = image.to(dtype)
        result = gridsample.grid_sample(low, grid.float(), "spline3", "mirror")
        exact = gridsample.grid_sample(low.double(), grid, "spline3", "mirror")
        assert result.dtype == dtype
        # One rounding to the type: half a unit in the last place, and float32's beside it.
        error = (result.double() - exact).abs()
        assert (error <= torch.finfo(dtype).eps * exact.abs() / 2 + 1e-5).all()


def test_prefilter_of_tensors() -> None:
    image = inputs({})[0].detach()
    for boundary, adjoint in itertools.product(("mirror", ("wrap", "symmetric")), (False, True)):
        options = (3, boundary, (1, -1))
        ours = gridsample.spline_filter(image, *options, adjoint=adjoint)
        close(ours, gridsample.spline_filter(image.numpy(), *options, adjoint=adjoint))
    for dtype in (torch.float16, torch.bfloat16, torch.uint8, torch.float32):
        narrow = (image * 50).abs().to(dtype)
        ours = gridsample.spline_filter(narrow)
        assert ours.dtype == torch.float32
        close(ours, gridsample.spline_filter(narrow.float().numpy()))
    last = image.contiguous(memory_format=torch.channels_last)
    ours = gridsample.spline_filter(last)
    assert ours.stride() == last.stride()
    assert torch.equal(ours, gridsample.spline_filter(image))
    assert gridsample.spline_filter(image, 1) is not image
    with pytest.raises(ValueError, match="axes must be different axes"):
        gridsample.spline_filter(image, axes=7)
    every = torch.arange(20.0)
    for line in (every[::2], every[:1].expand(10)):  # no neighbours in memory, and no second axis
        ours = gridsample.spline_filter(line, 3, "zeros", 0)
        close(ours, gridsample.spline_filter(line.numpy(), 3, "zeros", 0))


def test_prefilter_by_matrices_matches_the_prefilter() -> None:
    """Tensors on a GPU are filtered by matrices."""
    from gridsample.backends.torch.filtering import prefilter_by_matrices

    image = inputs({})[0].detach()
    pairs = (("mirror", "antisymmetric"), ("border", "zeros"), ("antimirror", "dst1"))
    for adjoint, boundaries in itertools.product((False, True), pairs):
        ours = prefilter_by_matrices(image, 5, list(boundaries), [2, 3], adjoint)
        close(ours, gridsample.spline_filter(image.numpy(), 5, boundaries, adjoint=adjoint))


# Derivatives --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "boundary", "more"), cases.slow_after(3, CHOSEN), ids=str)
def test_first_and_second_order(mode: Any, boundary: Any, more: dict[str, Any]) -> None:
    both = inputs(more)

    def sample(image: Tensor, grid: Tensor) -> Tensor:
        return gridsample.grid_sample(image, grid, mode, boundary, **more)

    assert gradcheck(sample, both, check_forward_ad=True, **CHECKS)
    assert gradgradcheck(sample, both, check_fwd_over_rev=True, **CHECKS)


SWEEP = [
    (mode, boundary, coords, extrapolate)
    for k, (mode, boundary) in enumerate(
        itertools.product(("linear", "cubic", "spline3"), BOUNDARIES)
    )
    for coords in (COORDS[k % len(COORDS)],)
    for extrapolate in (True, False)
]


@pytest.mark.covering(slow=1)
@pytest.mark.slow
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("mode", "boundary", "coords", "extrapolate"), SWEEP)
def test_second_order_of_every_boundary(
    mode: str, boundary: str, coords: str, extrapolate: bool, rank: int
) -> None:
    rng = cases.generator("sweep", mode, boundary, rank)
    spatial = (3, 4, 5)[-rank:]
    image = torch.from_numpy(cases.pixels(rng, (1, 2, *spatial))).requires_grad_()
    pixels = rng.integers(-2, 6, (1, *(2, 3, 1)[:rank], rank))
    # Away from pixels, from the middle between two, and from the image's ends half a pixel out.
    place = pixels + rng.choice([-1, 1], pixels.shape) * rng.uniform(0.1, 0.4, pixels.shape)
    place = place if coords != "normalized" else cases.coordinates(place, spatial, False)
    grid = torch.from_numpy(place).requires_grad_()
    fill = 1.5 if boundary == "constant" or not extrapolate else 0

    def sample(image: Tensor, grid: Tensor) -> Tensor:
        options = {"coords": coords, "extrapolate": extrapolate, "fill_value": fill}
        return gridsample.grid_sample(image, grid, mode, boundary, **options)

    assert gradcheck(sample, (image, grid), check_forward_ad=True, **CHECKS)
    assert gradgradcheck(sample, (image, grid), check_fwd_over_rev=True, **CHECKS)


@pytest.mark.covering(slow=1)
@pytest.mark.slow
@OPTIONS
@pytest.mark.parametrize(("items", "grids"), [(1, 2), (2, 1), (2, 2)])
def test_batched_derivatives(
    mode: Any, boundary: Any, more: dict[str, Any], items: int, grids: int
) -> None:
    both = inputs(more, items, grids)

    def sample(image: Tensor, grid: Tensor) -> Tensor:
        return gridsample.grid_sample(image, grid, mode, boundary, **more)

    assert gradcheck(
        sample,
        both,
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
        **CHECKS,
    )
    assert gradgradcheck(sample, both, check_batched_grad=True, **CHECKS)


@pytest.mark.parametrize(
    ("mode", "boundary", "more"), cases.slow_after(1, [CHOSEN[6], CHOSEN[0], CHOSEN[5]]), ids=str
)
def test_related_operations_are_differentiable(
    mode: Any, boundary: Any, more: dict[str, Any]
) -> None:
    image, grid = inputs(more)
    options = (mode, boundary)
    splatting = {name: value for name, value in more.items() if name != "fill_value"}
    values = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(2, 2, 3, 2).requires_grad_()
    single = image[:, :1].detach().requires_grad_()  # another code path
    alone = {**more, "fill_value": 1.5} if "fill_value" in more else more
    for function, arguments in (
        (lambda i, g: gridsample.grid_gradient(i, g, *options, **more), (image, grid)),
        (lambda i, g: gridsample.grid_gradient(i, g, *options, **alone), (single, grid)),
        (lambda i, g: gridsample.grid_hessian(i, g, *options, **more), (image, grid)),
        (lambda v, g: gridsample.splat(v, g, (4, 5), *options, **splatting), (values, grid)),
        (lambda g: gridsample.splat_count(g, (4, 5), *options, **splatting), (grid,)),
        (
            lambda g: gridsample.grid_sample(image, g, *options, **more, return_mask=True)[1],
            (grid,),
        ),
    ):
        assert gradcheck(function, arguments, check_forward_ad=True, **CHECKS)
    splat = lambda v, g: gridsample.splat(v, g, (4, 5), *options, **splatting)  # noqa: E731
    assert gradgradcheck(splat, (values, grid), **CHECKS)


@pytest.mark.slow
def test_normalized_splats_are_differentiable() -> None:
    values = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(1, 2, 6).requires_grad_()
    grid = torch.tensor([[0.3], [0.8], [1.4], [2.1], [2.6], [0.1]], dtype=torch.float64)[None]

    def splat(values: Tensor, grid: Tensor) -> Tensor:
        return gridsample.splat(values, grid, 9, coords="pixel", normalize=True)

    arguments = values, grid.requires_grad_()
    assert gradcheck(splat, arguments, check_forward_ad=True)
    assert gradgradcheck(splat, arguments)
    assert (splat(*arguments)[..., 4:] == 0).all()  # no contribution there, and no NaN


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("boundaries", [("mirror", "wrap"), ("zeros", "border")])
def test_prefilter_is_linear_for_autograd(boundaries: tuple[str, str]) -> None:
    image = inputs({})[0]

    def coefficients(image: Tensor) -> Tensor:
        return gridsample.spline_filter(image, 5, boundaries)

    assert gradcheck(coefficients, image, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(coefficients, image)
    turned = torch.complex(image, image.flip(1)).detach().requires_grad_()
    assert gradcheck(coefficients, turned, check_forward_ad=True)
    arguments = image.detach(), 5, list(boundaries), [2, 3], False
    results = torch.library.opcheck(torch.ops.gridsample.prefilter.default, arguments)
    assert set(results.values()) == {"SUCCESS"}


def test_gradients_beside_a_constant_fill_value() -> None:
    """Out of the image the fill is constant; beside it, its share of the weight moves."""
    image = torch.full((1, 1, 4), 5.0, dtype=torch.float64, requires_grad=True)
    grid = torch.tensor([[[9.0], [-0.25]]], dtype=torch.float64, requires_grad=True)
    options = {"coords": "pixel", "fill_value": 3.0}
    out = gridsample.grid_sample(image, grid, "linear", "constant", **options)
    by_image, by_grid = torch.autograd.grad(out.sum(), (image, grid))
    assert out.flatten().tolist() == [3.0, 4.5]
    assert by_image.flatten().tolist() == [0.75, 0, 0, 0]
    assert by_grid.flatten().tolist() == [0, 2.0]  # from 3 to 5 over one pixel
    out = gridsample.grid_sample(image, grid, "linear", "border", extrapolate=False, **options)
    by_image, by_grid = torch.autograd.grad(out.sum(), (image, grid))
    assert out.flatten().tolist() == [3.0, 3.0]
    assert not by_image.any() and not by_grid.any()


@pytest.mark.parametrize(
    ("mode", "boundary", "more"),
    [pytest.param(*c, marks=[pytest.mark.slow] * (i % 3 != 0)) for i, c in enumerate(CHOSEN)],
    ids=str,
)
def test_second_order_is_zero_at_invalid_points(
    mode: Any, boundary: Any, more: dict[str, Any]
) -> None:
    """It is zero both in the fused kernel and in the formulas."""
    image, grid = inputs(more)
    with torch.no_grad():
        grid[0, 0, 0, 1] = torch.nan

    def penalty(image: Tensor, grid: Tensor, values: Tensor) -> Tensor:
        sampled = gridsample.grid_sample(image, grid, mode, boundary, **more)
        firsts = torch.autograd.grad(sampled, (image, grid), values, create_graph=True)
        return sum(gradient.square().sum() for gradient in firsts)

    values = torch.ones(2, 2, 3, 2, dtype=torch.float64, requires_grad=True)
    arguments = image, grid, values
    fused = torch.autograd.grad(penalty(*arguments), arguments)
    composed = torch.autograd.grad(penalty(*arguments), arguments, create_graph=True)
    for gradient, other in zip(fused, composed, strict=True):
        assert gradient.isfinite().all()
        torch.testing.assert_close(gradient, other.detach(), rtol=1e-10, atol=1e-10)
    assert not composed[1][0, 0, 0].any() and not composed[2][0, :, 0, 0].any()
    values, size = values.detach().requires_grad_(), (4, 5)
    splatting = {name: value for name, value in more.items() if name != "fill_value"}
    pushed = gridsample.splat(values, grid, size, mode, boundary, **splatting)
    (back,) = torch.autograd.grad(pushed.sum(), values)
    assert back.isfinite().all() and not back[0, :, 0, 0].any()


# Transforms and compilers -------------------------------------------------------------------------


@pytest.mark.parametrize("out", [(3, 4), (2, 40)])
def test_displacements_of_a_batch_of_grids(out: tuple[int, int]) -> None:
    """One image and many grids are one call, whose output has one more axis than the image."""
    generator = torch.Generator().manual_seed(3)
    image = torch.randn(2, 3, 5, 30, generator=generator, dtype=torch.float64)
    grids = torch.randn(3, 2, *out, 2, generator=generator, dtype=torch.float64)

    def sample(grid: Tensor) -> Tensor:
        return gridsample.grid_sample(image, grid, "linear", "reflection", coords="displacement")

    for function in (sample, torch.func.grad(lambda grid: sample(grid).square().sum())):
        expected = torch.stack([function(grid) for grid in grids])
        torch.testing.assert_close(vmap(function)(grids), expected)


@OPTIONS
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
def test_vmap_matches_a_loop(
    mode: Any, boundary: Any, more: dict[str, Any], axes: tuple[int | None, int | None]
) -> None:
    pairs = [tuple(t.detach() * f for t in inputs(more)) for f in (1.0, 0.9, 1.1)]
    stacked = [
        torch.stack([pair[k] for pair in pairs]) if axis == 0 else pairs[0][k]
        for k, axis in enumerate(axes)
    ]

    def loss(image: Tensor, grid: Tensor) -> Tensor:
        return gridsample.grid_sample(image, grid, mode, boundary, **more).square().sum()

    for function in (loss, torch.func.grad(loss, (0, 1))):
        each = [
            function(*(pair[k] if axis == 0 else pairs[0][k] for k, axis in enumerate(axes)))
            for pair in pairs
        ]
        expected = torch.utils._pytree.tree_map(lambda *parts: torch.stack(parts), *each)
        torch.testing.assert_close(vmap(function, axes)(*stacked), expected, rtol=1e-9, atol=1e-9)


def test_transforms_agree() -> None:
    image, grid = (t.detach() for t in inputs({}))

    def loss(grid: Tensor) -> Tensor:
        sampled = gridsample.grid_sample(image, grid, "spline3", "constant", fill_value=FILL)
        return (sampled**3).sum()

    expected = torch.autograd.functional.hessian(loss, grid)
    torch.testing.assert_close(hessian(loss)(grid), expected, rtol=1e-9, atol=1e-9)
    along = torch.sin(grid)
    _, forward = jvp(loss, (grid,), (along,))
    torch.testing.assert_close(forward, (torch.func.grad(loss)(grid) * along).sum())


@pytest.mark.parametrize(
    ("mode", "boundary", "more"), cases.slow_after(1, CHOSEN[2:] + CHOSEN[:2]), ids=str
)
def test_compiles_without_graph_breaks(mode: Any, boundary: Any, more: dict[str, Any]) -> None:
    torch.compiler.reset()

    def loss(image: Tensor, grid: Tensor) -> Tensor:
        sampled, mask = gridsample.grid_sample(
            image, grid, mode, boundary, **more, return_mask=True
        )
        return sampled.sin().sum() + mask.cos().sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    both = inputs(more)
    ours, theirs = (
        (value := function(*both), *torch.autograd.grad(value, both))
        for function in (compiled, loss)
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_related_operations_compile_without_graph_breaks(dynamic: bool) -> None:
    torch.compiler.reset()

    def related(image: Tensor, grid: Tensor) -> tuple[Tensor, ...]:
        c = gridsample.spline_filter(image, 2, "wrap")
        options = ("spline2", "wrap")
        values = gridsample.grid_sample(c, grid, *options, prefilter=False, coords="displacement")
        return (
            gridsample.splat(values, grid, (4, 6), *options, normalize=True),
            gridsample.splat_count(grid, (4, 6), OWN),
            gridsample.grid_gradient(image, grid, *options),
            gridsample.grid_hessian(image, grid, *options),
        )

    compiled = torch.compile(related, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    image, grid = (t.detach() for t in inputs({}))
    for arguments in ((image, grid), (torch.cat([image, image], 2), grid[:, :2])):
        expected = related(*arguments)
        torch.testing.assert_close(compiled(*arguments), expected)
        for result, other in zip(
            related(*(t.to("meta") for t in arguments)), expected, strict=True
        ):
            assert (result.shape, result.dtype, result.is_meta) == (other.shape, other.dtype, True)


def test_exported_programs_are_self_contained(tmp_path: Any) -> None:
    class Sample(torch.nn.Module):
        def forward(self, image: Tensor, grid: Tensor) -> Tensor:
            options = {"coords": "pixel", "fill_value": FILL}
            return gridsample.grid_sample(image, grid, (OWN, "spline2"), "constant", **options)

    arguments = tuple(t.detach() for t in inputs({"coords": "pixel"}))
    torch.export.save(torch.export.export(Sample(), arguments), tmp_path / "sample.pt2")
    program = torch.export.load(tmp_path / "sample.pt2")
    torch.testing.assert_close(program.module()(*arguments), Sample()(*arguments))


# Errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"coords": "pixels"}, ValueError, "did you mean 'pixel'"),
        ({"coords": {"x": 1}}, TypeError, "coords must be one of"),
        ({"coords": "displacement"}, ValueError, "as many axes between its first and its last"),
        ({"extrapolate": 1}, TypeError, "extrapolate must be True, False or one of .*, got 1"),
        ({"prefilter": "no"}, TypeError, "prefilter must be True or False"),
        ({"return_mask": 1}, TypeError, "return_mask must be True or False"),
        ({"fill_value": 2}, ValueError, "has no effect here"),
        ({"fill_value": [1, 2, 3], "extrapolate": False}, ValueError, r"got shape \(3,\)"),
        ({"fill_value": np.ones((1, 2)), "extrapolate": False}, ValueError, r"shape \(1, 2\)"),
        ({"fill_value": "red", "extrapolate": False}, TypeError, "must be a real number"),
        ({"fill_value": 1j, "extrapolate": False}, TypeError, "complex for a complex"),
        ({"fill_value": 2**62 + 1, "extrapolate": False}, ValueError, "exact in float64"),
        (
            {"fill_value": torch.ones((), requires_grad=True), "extrapolate": False},
            TypeError,
            "requires a gradient",
        ),
        ({"padding_mode": ("zeros", "constant")}, ValueError, "mixes 'zeros' and 'constant'"),
        ({"mode": ("linear", 3)}, TypeError, "mode must be a string or a Method"),
    ],
    ids=str,
)
def test_errors_match_arrays(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    image, grid = torch.ones(1, 2, 4, 5), torch.zeros(1, 9, 2)
    with pytest.raises(error, match=message):
        gridsample.grid_sample(image, grid, **changes)
    with torch.autograd.forward_ad.dual_level(), pytest.raises(error, match=message):
        gridsample.grid_sample(image, grid, **changes)  # without the fast path


def test_unsupported_dtypes_are_rejected_by_every_function() -> None:
    image, grid = torch.ones(1, 2, 4, 5), torch.zeros(1, 9, 2)
    odd = torch.float8_e5m2
    for call, name in (
        (lambda: gridsample.spline_filter(image.to(odd)), "input"),
        (lambda: gridsample.grid_sample(image.to(odd), grid, "spline3"), "input"),
        (lambda: gridsample.splat(image[:, :, 0].to(odd), grid[:, :5], (2, 2)), "values"),
        (lambda: gridsample.splat_count(grid.to(odd), (2, 2)), "grid"),
        (lambda: gridsample.grid_gradient(image.to(odd), grid), "input"),
    ):
        with pytest.raises(TypeError, match=rf"{name} has dtype torch\.float8_e5m2"):
            call()


def test_a_fill_may_be_a_tensor_or_an_array() -> None:
    image, grid = torch.ones(1, 2, 4, 5), torch.full((1, 1, 2), 9.0)
    for fill in (torch.tensor(FILL), np.array(FILL), tuple(FILL), FILL):
        result = gridsample.grid_sample(image, grid, padding_mode="constant", fill_value=fill)
        assert result.flatten().tolist() == FILL
    turned = gridsample.grid_sample(image * 1j, grid, "nearest", "constant", fill_value=[1j, 2])
    assert turned.flatten().tolist() == [1j, 2]
