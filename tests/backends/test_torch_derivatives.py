"""Derivatives of every order, in both modes, and in the transforms of torch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import cases
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import gridsample

Sample = Callable[[Tensor, Tensor], Tensor]
CHECKS = {"fast_mode": True, "atol": 1e-5, "rtol": 1e-4}


def small(
    rank: int, items: int = 1, grids: int = 1, corners: bool = False
) -> tuple[Tensor, Tensor]:
    """A small image, and a grid of which no point lies on a tie or on a fold."""
    spatial = ((5,), (3, 5), (2, 3, 3))[rank - 1]
    rng = cases.generator(rank, items, grids)
    image = torch.from_numpy(cases.pixels(rng, (items, 2, *spatial)))
    pixels = rng.integers(-1, max(spatial) + 1, (grids, 3, 2, rank))
    place = pixels + rng.choice([-1, 1], pixels.shape) * rng.uniform(0.1, 0.4, pixels.shape)
    grid = torch.from_numpy(cases.coordinates(place, spatial, corners))
    return image.requires_grad_(), grid.requires_grad_()


def sampling(mode: Any, boundary: Any, corners: bool = False) -> Sample:
    return lambda image, grid: gridsample.grid_sample(image, grid, mode, boundary, corners)


@pytest.mark.covering
@pytest.mark.parametrize("boundary", cases.BOUNDARIES)
@pytest.mark.parametrize("mode", cases.MODES)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_first_and_second_order(rank: int, mode: str, boundary: str) -> None:
    sample, both = sampling(mode, boundary), small(rank)
    assert gradcheck(sample, both, check_forward_ad=True, **CHECKS)
    assert gradgradcheck(sample, both, check_fwd_over_rev=True, **CHECKS)


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize(
    ("items", "grids", "mode", "boundary"),
    [
        (2, 2, ("linear", "cubic"), ("zeros", "reflection")),
        (2, 1, ("cubic", "nearest"), ("border", "zeros")),
        (1, 2, ("cubic", "linear"), ("reflection", "border")),
    ],
)
def test_mixed_axes_and_broadcast_items(items: int, grids: int, mode: Any, boundary: Any) -> None:
    sample, both = sampling(mode, boundary), small(2, items, grids)
    assert gradcheck(
        sample,
        both,
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
        fast_mode=False,
    )
    assert gradgradcheck(sample, both, check_fwd_over_rev=True, **CHECKS)


MIXED = [
    *itertools.product(itertools.product(cases.MODES, repeat=2), [("zeros", "reflection")]),
    *itertools.product([("linear", "cubic")], itertools.product(cases.BOUNDARIES, repeat=2)),
    (("cubic", "nearest", "linear"), ("reflection", "border", "zeros")),
    (("linear", "cubic", "cubic"), ("border", "zeros", "reflection")),
]


@pytest.mark.covering(slow=1)
@pytest.mark.slow
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize(("items", "grids"), [(1, 1), (1, 2), (2, 1), (2, 2)])
@pytest.mark.parametrize(("mode", "boundary"), MIXED)
def test_second_order_of_every_combination_of_axes(
    mode: Any, boundary: Any, items: int, grids: int, corners: bool
) -> None:
    sample, both = sampling(mode, boundary, corners), small(len(mode), items, grids, corners)
    assert gradcheck(sample, both, check_forward_ad=True, **CHECKS)
    assert gradgradcheck(sample, both, check_fwd_over_rev=True, **CHECKS)


@pytest.mark.covering
@pytest.mark.slow
@pytest.mark.parametrize("boundary", cases.BOUNDARIES)
@pytest.mark.parametrize("mode", cases.MODES)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_second_order_with_aligned_corners(rank: int, mode: str, boundary: str) -> None:
    sample, both = sampling(mode, boundary, True), small(rank, corners=True)
    assert gradcheck(sample, both, check_forward_ad=True, check_batched_grad=True, **CHECKS)
    assert gradgradcheck(sample, both, check_fwd_over_rev=True, check_batched_grad=True, **CHECKS)


def test_complex_images() -> None:
    image, grid = small(2)
    turned = torch.complex(image, image.flip(1)).detach().requires_grad_()
    sample = sampling("bicubic", "border")
    assert gradcheck(sample, (turned, grid), check_forward_ad=True)
    assert gradgradcheck(sample, (turned, grid), check_fwd_over_rev=True)


@pytest.mark.parametrize(
    ("rank", "boundary"),
    cases.slow_after(1, [(1, "zeros"), (1, "reflection"), (2, "border"), (3, "zeros")]),
)
def test_third_order_of_cubic(rank: int, boundary: str) -> None:
    """By finite differences of the second, in the grid and in the image."""
    both, sample = small(rank), sampling("cubic", boundary)

    def second(*moved: Tensor) -> tuple[Tensor, ...]:
        total = sample(*moved).square().sum()
        firsts = torch.autograd.grad(total, moved, create_graph=True)
        return torch.autograd.grad(
            sum(gradient.square().sum() for gradient in firsts), moved, create_graph=True
        )

    # Squares of squares: the numbers are large, and so are the differences' errors.
    scale = max(derivative.detach().abs().max().item() for derivative in second(*both))
    assert gradcheck(second, both, fast_mode=True, atol=1e-5 * scale, rtol=1e-4)


def close(ours: Any, theirs: Any) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_nested_transforms_agree() -> None:
    image, grid = (t.detach() for t in small(2, 1, 2))
    sample = sampling("bicubic", "reflection")

    def loss(image: Tensor, grid: Tensor) -> Tensor:
        return (sample(image, grid) ** 3).sum()

    both = (0, 1)
    expected = torch.autograd.functional.hessian(loss, (image, grid))
    close(hessian(loss, both)(image, grid), expected)
    for outer, inner in itertools.product((jacrev, jacfwd), repeat=2):
        close(outer(inner(loss, both), both)(image, grid), expected)
    close(
        jacrev(sample, both)(image, grid),
        torch.autograd.functional.jacobian(sample, (image, grid)),
    )
    # <u, J v> is one number, whichever side it is worked out from.
    along = torch.ones_like(image), torch.sin(grid)
    out, forward = jvp(sample, (image, grid), along)
    _, back = vjp(sample, image, grid)
    reverse = sum((a * b).sum() for a, b in zip(back(out), along, strict=True))
    close((forward * out).sum(), reverse)


@pytest.mark.covering
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0), (1, 2)])
@pytest.mark.parametrize(("items", "grids"), [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_vmap_matches_a_loop(items: int, grids: int, axes: tuple[int | None, int | None]) -> None:
    batch = 3
    rng = cases.generator("vmap", items, grids)
    total = (
        torch.from_numpy(rng.standard_normal((batch, items, 2, 4, 5))),
        torch.from_numpy(rng.uniform(-1.1, 1.1, (batch, grids, 3, 2, 2))),
    )
    tensors = [t[0] if a is None else t.movedim(0, a) for t, a in zip(total, axes, strict=True)]
    sample = sampling("bicubic", "zeros")

    def loss(image: Tensor, grid: Tensor) -> Tensor:
        return (sample(image, grid) ** 2).sum()

    def penalty(image: Tensor, grid: Tensor) -> Tensor:
        return sum(g.square().sum() for g in grad(loss, (0, 1))(image, grid))

    for function in (
        sample,
        grad(loss, 0),
        grad(loss, 1),
        grad(loss, (0, 1)),
        grad(penalty, (0, 1)),
    ):
        each = [
            function(*(t[0 if a is None else n] for t, a in zip(total, axes, strict=True)))
            for n in range(batch)
        ]
        expected = torch.utils._pytree.tree_map(lambda *parts: torch.stack(parts), *each)
        close(vmap(function, axes)(*tensors), expected)


def test_vmap_in_vmap() -> None:
    image, grid = (t.detach() for t in small(2))
    images, grids = torch.stack([image, 2 * image]), torch.stack([grid, 0.5 * grid, grid / 3])
    sample = sampling("bilinear", "border")
    nested = vmap(vmap(sample, (None, 0)), (0, None))(images, grids)
    assert nested.shape[:2] == (2, 3)
    for (i, a), (j, b) in itertools.product(enumerate(images), enumerate(grids)):
        close(nested[i, j], sample(a, b))


def test_only_what_is_needed_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    from gridsample.backends.torch import fast_path

    calls: list[tuple[bool, bool]] = []
    kernels = fast_path.run_sweeps

    def spy(*arguments: Any) -> Any:
        calls.append(arguments[4])
        return kernels(*arguments)

    monkeypatch.setattr(fast_path, "run_sweeps", spy)
    image, grid = small(2)
    for needed in ((True, False), (False, True), (True, True)):
        out = gridsample.grid_sample(
            image.detach().requires_grad_(needed[0]), grid.detach().requires_grad_(needed[1])
        )
        out.sum().backward()
        assert calls.pop() == needed and not calls


def test_autograd_saves_only_the_arguments() -> None:
    image, grid = small(2)
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        gridsample.grid_sample(image, grid)
    assert [t.data_ptr() for t in saved] == [image.data_ptr(), grid.data_ptr()]


def test_derivatives_past_the_degree_are_zero() -> None:
    image, grid = small(2)
    options = (["linear"] * 2, ["zeros"] * 2, False)
    gather = torch.ops.gridsample.gather
    assert (gather(image, grid, *options, [2, 0]) == 0).all()
    assert (gather(image, grid, *options, [1, 1]) != 0).any()
    with pytest.raises(ValueError, match="order must hold a derivative order"):
        gather(image, grid, *options, [1])


@pytest.mark.parametrize("image_last", [False, True])
def test_upstream_values_may_be_strided(image_last: bool) -> None:
    """As those behind `torch.stack` are, whose points are not evenly spaced."""
    rng = cases.generator("strided upstream")
    image = torch.from_numpy(rng.standard_normal((2, 9, 6, 5)))
    if image_last:
        image = image.movedim(1, -1).contiguous().movedim(-1, 1)
    grid = torch.from_numpy(rng.uniform(-1.2, 1.2, (2, 40, 4, 2)))
    upstream = torch.from_numpy(rng.standard_normal((2, 9, 40, 3, 4)))[:, :, :, 1]
    leaves = image.requires_grad_(), grid.requires_grad_()
    result = gridsample.grid_sample(*leaves)
    strided = torch.autograd.grad(result, leaves, upstream, retain_graph=True)
    expected = torch.autograd.grad(result, leaves, upstream.contiguous())
    for actual, other in zip(strided, expected, strict=True):
        torch.testing.assert_close(actual, other, rtol=1e-13, atol=1e-13)
