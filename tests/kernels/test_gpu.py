"""The GPU kernels without a GPU: in Triton's interpreter, judged by the reference, and compiled."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import cases
import numpy as np
import oracles
import pytest
import torch
from torch import Tensor
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)

from gridsample.kernels.gpu import parts

pytest.importorskip("triton")

from benchmarks import gpu as benchmarks_of_gpu
from benchmarks import registers
from gridsample.backends.torch import cuda, derivatives, operators, schemas
from gridsample.definitions.footprints import Footprint
from gridsample.definitions.methods import keys
from gridsample.definitions.plan import BFLOAT16, COORDS, make_plan
from gridsample.kernels import gpu, reference
from gridsample.kernels.reference import BOUNDARIES, MODES
from gridsample.kernels.reference.labels import vote

# Of the interpreter: NumPy's, where a GPU's arithmetic is silent.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")

SIZES = {1: (7,), 2: (5, 6), 3: (3, 4, 5)}
# A sum of up to 64 products whose factors are at most about 2 and rounded some ten times each.
SINGLE, DOUBLE = 64 * oracles.ulp(np.float32), 64 * oracles.ulp(np.float64)
EDGES = ("zeros", "border", "reflection")


def inputs(
    rank: int, points: int = 11, channels: int = 3, spatial: tuple[int, ...] = (), items: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """An image, a grid in which all kinds of coordinates occur, and values for its points."""
    rng = cases.generator("gpu", rank, points, channels, spatial)
    image = cases.pixels(rng, (items, channels, *(spatial or SIZES[rank])))
    grid = rng.uniform(-1.6, 1.6, (items, points, rank))
    odd = [np.nan, np.inf, -np.inf, -1.0, 1.0, 0.0, 30.0, -30.25]
    for number, value in enumerate(odd[: grid.shape[1] - 1]):
        grid[number % items, number, number % rank] = value
    values = cases.pixels(rng, (items, channels, points))
    return torch.from_numpy(image), torch.from_numpy(grid), torch.from_numpy(values)


def rolled(image: Tensor) -> Tensor:
    """Channels last in memory."""
    return image.movedim(1, -1).contiguous().movedim(-1, 1)


def spaced(tensor: Tensor) -> Tensor:
    """Every second entry of memory that nobody may read."""
    whole = torch.full([2 * n + 1 for n in tensor.shape], torch.nan, dtype=tensor.dtype)
    view = whole[tuple(slice(1, None, 2) for _ in tensor.shape)]
    return view.copy_(tensor)


def poisoned(tensor: Tensor, like: Tensor) -> Tensor:
    """The tensor's shape and layout, full of what must be written over."""
    return torch.empty_like(like, memory_format=torch.preserve_format).fill_(torch.nan)


def check(
    image: Tensor, grid: Tensor, values: Tensor, mode: Any, boundary: Any, corners: bool,
    tolerance: float = DOUBLE, fill: Any = None, **counts: Any,
) -> None:  # fmt: skip
    """Values and both gradients against the reference's; outputs start out poisoned.

    ``counts`` are coords and extrapolate.
    """
    rank = grid.shape[-1]
    modes = tuple(mode) if isinstance(mode, tuple | list) else (mode,) * rank
    names = modes, oracles.per_axis(boundary, rank)
    arrays = image.numpy(), grid.numpy(), values.numpy()
    plan = make_plan(
        tuple(image.shape), arrays[0].dtype, tuple(grid.shape), arrays[1].dtype,
        tuple(map(method, modes)), names[1], corners, False, **counts,
    )  # fmt: skip
    flat = grid.reshape(grid.shape[0], -1, rank)
    order = (0,) * rank
    backdrop = None if fill is None else torch.tensor(fill, dtype=image.dtype).reshape(-1)
    how = gpu.How(interpreted=True)
    out = torch.full((*plan.shape[:2], plan.points), torch.nan, dtype=image.dtype)
    gpu.gather(plan, image, flat, out, order, fill=backdrop, how=how)
    outside = {**counts, "fill": 0 if fill is None else fill}
    wide = [array.astype(float) for array in arrays]
    expected = reference.gather(*wide[:2], *names, corners, **outside)
    oracles.assert_close(out.reshape(plan.shape).numpy(), expected, tolerance)

    shadow = torch.zeros_like(image)
    gradient = gpu.backward(
        plan, values.reshape(*plan.shape[:2], -1), image, flat, shadow, order, fill=backdrop,
        empty=lambda shape: torch.full(shape, torch.nan, dtype=image.dtype), how=how,
    )  # fmt: skip
    upstream = wide[2].reshape(plan.shape)
    by_image, by_grid = reference.gradients(upstream, *wide[:2], *names, corners, **outside)
    oracles.assert_close(shadow.numpy(), by_image, tolerance)
    assert gradient is not None
    oracles.assert_close(gradient.sum(0).reshape(grid.shape).numpy(), by_grid, 8 * tolerance)


# The kernels against the reference ----------------------------------------------------------------


# 64 taps are slow in the interpreter: once is enough, and the rest is among the slow ones.
ONES = [*itertools.product([1, 2, 3], cases.MODES, [False, True])]
ONES.remove((3, "cubic", True))


@pytest.mark.parametrize(("rank", "mode", "corners"), ONES)
def test_values_and_gradients_are_the_reference_s(rank: int, mode: str, corners: bool) -> None:
    turn = cases.MODES.index(mode) + corners
    check(*inputs(rank), mode, [EDGES[(turn + a) % 3] for a in range(rank)], corners)


@pytest.mark.slow
@pytest.mark.parametrize("boundary", EDGES)
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("mode", cases.MODES)
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("last", [False, True])
def test_every_mode_boundary_rank_and_layout(
    rank: int, mode: str, corners: bool, boundary: str, last: bool
) -> None:
    image, grid, values = inputs(rank)
    check(rolled(image) if last else image, grid, values, mode, boundary, corners)


def test_modes_and_boundaries_differ_by_axis_and_channels_come_last() -> None:
    image, grid, values = inputs(3)
    check(rolled(image), grid, values, ("linear", "nearest", "cubic"), EDGES, False)


@pytest.mark.parametrize("points", [1, 63])
def test_single_precision_of_awkward_sizes(points: int) -> None:
    image, grid, values = (t.float() for t in inputs(2, points, 5, (1, 7)))
    # Far points are folded in single precision: a position of 1e9 has no fraction there.
    grid = grid.clamp(-3, 3)
    check(rolled(image), grid, values, "linear", ("reflection", "border"), True, SINGLE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("points", "channels"),  # all but those that take the interpreter minutes
    [pair for pair in itertools.product((1, 7, 63, 500), repeat=2) if math.prod(pair) <= 4000],
)
@pytest.mark.parametrize("last", [False, True])
def test_every_awkward_size(points: int, channels: int, last: bool) -> None:
    image, grid, values = inputs(2, points, channels, (7, 3), 1)
    check(rolled(image) if last else image, grid, values, "linear", "zeros", False)


def test_any_strides_are_read_as_they_lie() -> None:
    image, grid, values = inputs(2)
    check(spaced(image), spaced(grid), spaced(values), "linear", "border", False)


@pytest.mark.parametrize(("items", "grids"), [(1, 3), (3, 1)])
def test_items_are_broadcast_and_gradients_summed(items: int, grids: int) -> None:
    image, grid, values = inputs(2, 9, items=3)
    check(image[:items], grid[:grids], values, "linear", "zeros", False)


def test_offsets_of_64_bits_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = gpu.gather_call, gpu.backward_call
    monkeypatch.setattr(gpu, "FAR", 0)
    for calls in kept:
        calls.cache_clear()
    check(*inputs(2), "linear", "reflection", False)
    for calls in kept:
        assert calls.cache_info().currsize == 1
        calls.cache_clear()


def test_neighbours_are_joined_before_they_are_added() -> None:
    image, _, _ = inputs(1, spatial=(3,), items=1)
    grid = torch.linspace(-1.3, 1.3, 61, dtype=torch.float64).reshape(1, -1, 1)
    values = torch.linspace(-1, 2, 3 * 61, dtype=torch.float64).reshape(1, 3, 61)
    values[:, :, 0] = torch.nan  # of a point outside, whose taps are dropped
    grid[:, 30] = torch.nan
    assert grid.shape[1] > gpu.CROWDED * 3
    check(image, grid, values, "linear", "zeros", False)


def test_channels_are_split_among_programs() -> None:
    launch = gpu.shape_launch(8, 1024, 1, 1, False, 4, 4)
    assert launch.splits == launch.units > 1
    check(*inputs(2, 9, 40, (2, 3), 1), "linear", "zeros", False)


@pytest.mark.parametrize(
    ("points", "channels", "grids", "last"),
    [(1, 1, 1, False), (262144, 64, 64, False), (10000, 1024, 1, True), (4_000_000, 32, 3, True)],
)
def test_launches_fill_a_gpu_and_stay_in_its_limits(
    points: int, channels: int, grids: int, last: bool
) -> None:
    for visits in (1, 4, 8, 32, 256):
        launch = gpu.shape_launch(points, channels, grids, 1, last, visits, 4)
        assert launch.block & (launch.block - 1) == launch.depth & (launch.depth - 1) == 0
        assert 1 <= launch.warps <= 4 and launch.block * launch.depth <= 4096
        assert launch.units == -(-channels // launch.depth) >= launch.splits
        programs = -(-points // launch.block) * grids * launch.splits
        assert programs >= gpu.FULL or launch.splits == launch.units


# Boundaries, coordinates and methods that are not PyTorch's ---------------------------------------

REPEATING = [name for name in BOUNDARIES if name not in reference.ENDS]
FOREIGN = ("spline2", "mitchell", "nearest", "lanczos2", "linear", ("cubic", 0, 0.5), "spline5")


def method(name: Any) -> Any:
    """The method that the reference calls so."""
    return keys(-name[2]) if isinstance(name, tuple) else name


def check_outside(rank: int, turn: int, boundary: Any, **counts: Any) -> None:
    """A mix of methods, whose grids reach as far as others."""
    image, grid, values = inputs(rank, 9 if rank < 3 else 5)
    if counts.get("coords", "normalized") != "normalized":
        grid = grid * 5 + 2
    if counts.get("coords") == "displacement":
        shape = (1,) * (rank - 1) + (grid.shape[1],)
        grid = grid.reshape(2, *shape, rank)
    names = oracles.per_axis(boundary, rank)
    fill = None
    if "constant" in names or not counts.get("extrapolate", True):
        fill = [0.5, -2.0, 3.0][: 3 if turn % 2 else 1]
        fill = fill[0] if len(fill) == 1 else fill
    modes = tuple(FOREIGN[(turn + a) % len(FOREIGN)] for a in range(rank))
    # The weights of Lanczos are fitted, to within 1e-9; their derivatives, to 1e-7.
    tolerance = 1e-7 if any("lanczos" in mode for mode in modes) else 8 * DOUBLE
    check(image, grid, values, modes, names, bool(turn % 2), tolerance, fill, **counts)


@pytest.mark.parametrize("extrapolate", [True, False])
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_every_boundary_with_some_method_and_coordinates(boundary: str, extrapolate: bool) -> None:
    turn = list(BOUNDARIES).index(boundary) + 3 * extrapolate
    check_outside(1, turn, boundary, coords=COORDS[turn % 3], extrapolate=extrapolate)


@pytest.mark.parametrize(
    ("turn", "boundary", "coords", "extrapolate"),
    [
        (3, ("antimirror", "constant"), "pixel", True),
        (4, ("wrap", "symmetric"), "displacement", False),
        (2, ("antisymmetric", "mirror"), "normalized", True),
        (1, ("dst1", "constant"), "pixel", True),
    ],
)
def test_boundaries_of_two_axes(turn: int, boundary: Any, coords: str, extrapolate: bool) -> None:
    check_outside(2, turn, boundary, coords=coords, extrapolate=extrapolate)


@pytest.mark.slow
@pytest.mark.parametrize("extrapolate", [True, False])
@pytest.mark.parametrize("coords", COORDS)
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_every_boundary_rank_and_kind_of_coordinates(
    rank: int, boundary: str, coords: str, extrapolate: bool
) -> None:
    for turn in range(len(FOREIGN)) if rank == 1 else (2, 4):
        check_outside(rank, turn, boundary, coords=coords, extrapolate=extrapolate)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MODES if name not in ("spline0", "spline1")])
def test_every_method(name: str) -> None:
    image, grid, values = inputs(2, 5)
    tolerance = 1e-6 if "lanczos" in name else 8 * DOUBLE
    check(image, grid, values, name, ("antisymmetric", "wrap"), False, tolerance)


# Affine maps --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rank", "corners"), [(1, True), (2, False), (3, False)])
def test_affine_maps_are_as_their_grids(rank: int, corners: bool) -> None:
    import gridsample

    image, _, _ = inputs(rank)
    rng = cases.generator("theta", rank)
    theta = torch.from_numpy(rng.uniform(-1, 1, (2, rank, rank + 1))).requires_grad_()
    size = (2, 3, *(4, 3, 5)[:rank])
    grid = gridsample.affine_grid(theta, size, corners)
    leaf = image.clone().requires_grad_()
    expected = gridsample.grid_sample(leaf, grid, "linear", "border", corners)
    upstream = torch.linspace(-1, 1, expected.numel(), dtype=torch.float64).reshape(size)
    by_theta, by_image = torch.autograd.grad(expected, (theta, leaf), upstream)

    kind = np.dtype(float)
    names = ("linear",) * rank, ("border",) * rank
    plan = make_plan(tuple(image.shape), kind, tuple(grid.shape), kind, *names, corners, False)
    how = gpu.How(affine=True, interpreted=True)
    out = torch.full((2, 3, plan.points), torch.nan, dtype=torch.float64)
    gpu.gather(plan, image, theta.detach(), out, (0,) * rank, how=how)
    torch.testing.assert_close(out.reshape(size), expected.detach(), rtol=0, atol=DOUBLE)
    shadow = torch.zeros_like(image)
    partial = gpu.backward(
        plan, upstream.reshape(2, 3, -1), image, theta.detach(), shadow, (0,) * rank, how=how,
        empty=lambda shape: torch.full(shape, torch.nan, dtype=torch.float64),
    )  # fmt: skip
    assert partial is not None
    torch.testing.assert_close(shadow, by_image, rtol=0, atol=DOUBLE)
    torch.testing.assert_close(partial.sum((0, 2)), by_theta, rtol=0, atol=60 * DOUBLE)


@pytest.mark.parametrize(
    "name",
    [
        "complex128",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("float64", "float16")),
    ],
)
def test_the_affine_function_and_its_derivatives(name: str) -> None:
    import gridsample

    kind = getattr(torch, name)
    real = torch.float64 if name != "float16" else torch.float32
    rng = cases.generator("affine", name)
    image = torch.from_numpy(cases.pixels(rng, (1, 2, 4, 5), name)).requires_grad_()
    theta = torch.from_numpy(rng.uniform(-1, 1, (2, 2, 3))).to(real).requires_grad_()
    size, options = (2, 2, 3, 4), (("cubic", "linear"), ("border", "zeros"), True)
    grid = gridsample.affine_grid(theta, size, True)
    upstream = torch.from_numpy(cases.pixels(rng, size, name)).requires_grad_()
    leaves = image, theta
    outs = [
        cuda.affine(image, theta, size, schemas.record(*options, (0, 0))),
        gridsample.grid_sample(image, grid, *options),
    ]  # fmt: skip
    firsts = [torch.autograd.grad(out, leaves, upstream, retain_graph=True) for out in outs]
    eps = 64 * max(float(torch.finfo(kind).eps), DOUBLE / 8)
    torch.testing.assert_close(outs[0], outs[1], rtol=eps, atol=eps)
    torch.testing.assert_close(firsts[0], firsts[1], rtol=eps, atol=20 * eps)
    if name == "float16":
        return
    seconds = []
    for out in outs:
        first = torch.autograd.grad(out, leaves, upstream, create_graph=True)
        total = sum(one.abs().square().sum() for one in first)
        seconds.append(torch.autograd.grad(total, (*leaves, upstream)))
    torch.testing.assert_close(seconds[0], seconds[1], rtol=1e-10, atol=1e-10)


def test_the_affine_function_refuses_what_does_not_go_together() -> None:
    image, theta = torch.zeros(1, 1, 4, 4), torch.zeros(2, 2, 3)
    how = schemas.record(["linear"] * 2, ["zeros"] * 2, False, (0, 0))
    for bad, size in ((theta, (1, 1, 3, 3)), (theta[:, :, :2], (2, 1, 3, 3)), (theta, (2, 1, 3))):
        with pytest.raises(ValueError, match="theta"):
            cuda.affine(image, bad, size, how)


# The operators: types, derivatives, exact sums ----------------------------------------------------


def how(rank: int, mode: Any, boundary: Any, *order: int) -> tuple[Any, ...]:
    return (
        oracles.per_axis(mode, rank), oracles.per_axis(boundary, rank), False,
        order or (0,) * rank,
    )  # fmt: skip


NEAREST = how(1, "nearest", "zeros")
TYPES = ("float16", "bfloat16", "complex64", "uint8", "int64", "uint64", "bool")


def typed(name: str) -> Tensor:
    if name == "bfloat16":
        return typed("float32").bfloat16()
    return torch.from_numpy(cases.pixels(cases.generator(name), (2, 2, 4, 5), name))


def stored(tensor: Tensor, exact: np.ndarray) -> None:
    """What the tensor's type makes of exact numbers."""
    if tensor.is_complex():
        stored(tensor.real, exact.real)
        stored(tensor.imag, exact.imag)
        return
    scale = oracles.magnitude(exact)
    if tensor.dtype == torch.bfloat16:  # which the interpreter truncates
        slack = 2 * torch.finfo(torch.bfloat16).eps * scale
        np.testing.assert_allclose(tensor.double(), exact, rtol=0, atol=slack, equal_nan=True)
        return
    wide = tensor.dtype in (torch.float64, torch.int64, torch.uint64)
    oracles.assert_stored(tensor.numpy(), exact, DOUBLE if wide else SINGLE, scale)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("name", TYPES)
def test_types_of_storage(name: str, mode: str) -> None:
    image, (_, grid, _) = typed(name), inputs(2, 9)
    grid = (grid * 64).round() / 64  # exact in single precision
    numbers = (image.float() if name == "bfloat16" else image).numpy()
    options, names = how(2, mode, "zeros"), (mode, "zeros", False)
    out = cuda.cuda_gather(image, grid.float(), *options)
    stored(out, oracles.reference_output(numbers, grid.numpy(), *names))
    assert out.dtype == image.dtype
    values = torch.ones(2, 2, 9, dtype=image.dtype if image.dtype.is_complex else torch.float32)
    needed = operators.differentiable(image), True
    first, second = cuda.cuda_backward(values, image, grid.float(), *needed, *options)
    by_image, by_grid = oracles.reference_gradients(values.numpy(), numbers, grid.numpy(), *names)
    stored(second, by_grid)
    if needed[0]:
        assert first.dtype == image.dtype
        stored(first, by_image)


@pytest.mark.parametrize("extrapolate", [True, False])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("name", TYPES)
def test_the_fill_in_types_of_storage(name: str, mode: str, extrapolate: bool) -> None:
    image, (_, grid, _) = typed(name), inputs(2, 9)
    grid = (grid * 64).round() / 64
    numbers = (image.float() if name == "bfloat16" else image).numpy()
    names = (mode,) * 2, ("border" if not extrapolate else "constant",) * 2
    kind = np.dtype("float32") if name == "bfloat16" else numbers.dtype
    plan = make_plan(
        tuple(image.shape), kind, tuple(grid.shape), np.dtype("float32"), *names, False, False,
        extrapolate=extrapolate,
    )  # fmt: skip
    if name == "bfloat16":
        plan = dataclasses.replace(plan, dtype=BFLOAT16)
    fill: Any = [300.5 + 2.25j, -1.75j] if image.is_complex() else [300.5, -7.25]
    parts = np.array(fill).view(float).tolist()
    call = operators.Call(plan, (0, 0), False, image.dtype, {})
    out = cuda.run_gather(call, image, grid.float(), parts)
    exact = reference.gather(
        numbers, grid.numpy(), *names, False, extrapolate=extrapolate, fill=fill
    )
    if plan.dtype.kind not in "biu":
        stored(out, exact)
        return
    # What the reference has rounded: sums next to a half may have gone to the other side.
    off = np.abs(out.numpy().astype(float) - exact.astype(float))
    assert off.max() <= max(1.0, DOUBLE * np.abs(exact.astype(float)).max())
    assert (off[..., grid.isnan().any(-1)[0].numpy()][0] == 0).all()


@pytest.mark.parametrize(
    ("mode", "boundary", "coords", "extrapolate"),
    [
        ("cubic", "constant", "pixel", True),
        ("spline3", "antimirror", "normalized", True),
        ("cubic", "dst1", "pixel", True),
        ("linear", "wrap", "displacement", False),
        ("linear", "reflection", "normalized", False),
    ],
)
def test_the_backward_of_backward_is_the_reference_s(
    mode: str, boundary: str, coords: str, extrapolate: bool
) -> None:
    image, grid, values = inputs(1, 9)
    grid = grid if coords == "normalized" else 5 * grid + 2
    fill, counts = 1.5, {"coords": coords, "extrapolate": extrapolate}
    plan = make_plan(
        tuple(image.shape), np.dtype(float), tuple(grid.shape), np.dtype(float), (mode,),
        (boundary,), False, False, **counts,
    )  # fmt: skip
    rng = cases.generator("directions", mode)
    u, m = (cases.pixels(rng, shape) for shape in (image.shape, grid.shape))
    call = operators.Call(plan, (0,), False, image.dtype, {})
    found = cuda.run_twice(
        call, values, image, grid, torch.from_numpy(u), torch.from_numpy(m), (True,) * 3, [fill]
    )

    known = grid.isfinite() if boundary in REPEATING and extrapolate else ~grid.isnan()
    nowhere = ~known.all(-1).numpy()

    def sample(pixels: Any, order: int, fill: float = 0) -> Any:
        names = (mode,), (boundary,), False, (order,)
        found = reference.gather(pixels, grid.numpy(), *names, **counts, fill=fill)
        return np.where(nowhere[:, np.newaxis], 0, found)

    v, g, along = image.numpy(), values.numpy(), np.moveaxis(m, -1, 1)
    expected = (
        sample(u, 0) + along * sample(v, 1, fill),
        reference.scatter(
            g * along, grid.numpy(), image.shape[2:], (mode,), (boundary,), False, (1,), **counts
        ),
        (g * (sample(u, 1) + along * sample(v, 2, fill))).sum(1)[..., np.newaxis],
    )
    for one, other in zip(found, expected, strict=True):
        oracles.assert_close(one.numpy(), other, 64 * DOUBLE)


def test_derivatives_are_those_of_the_cpu() -> None:
    image, grid, values = inputs(2, 9)
    options = how(2, ("cubic", "linear"), "reflection", 1, 0)
    for mine, other in (
        (cuda.cuda_gather(image, grid, *options), operators.cpu_gather(image, grid, *options)),
        *zip(
            cuda.cuda_backward(values, image, grid, True, True, *options),
            operators.cpu_backward(values, image, grid, True, True, *options),
            strict=True,
        ),
        (
            cuda.cuda_scatter(values, grid, image.shape, *options),
            operators.cpu_scatter(values, grid, image.shape, *options),
        ),
    ):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12, equal_nan=True)
    beyond = how(2, "linear", "zeros", 2, 0)
    assert not cuda.cuda_gather(image, grid, *beyond).any()
    assert not any(t.any() for t in cuda.cuda_backward(values, image, grid, True, True, *beyond))


@pytest.mark.parametrize(("items", "grids"), [(0, 1), (2, 0)])
def test_empty_batches(items: int, grids: int) -> None:
    image, grid, values = (t[:1].expand(n, *t.shape[1:]) for t, n in zip(
        inputs(2), (1, grids, 0) if not items else (1, 0, 0), strict=True
    ))  # fmt: skip
    options = how(2, "linear", "zeros")
    assert cuda.cuda_gather(image, grid[:0], *options).shape == (0, 3, 11)
    by_image, by_grid = cuda.cuda_backward(values, image, grid[:0], True, True, *options)
    assert not by_image.any() and by_grid.shape == (0, 11, 2)


class Context:
    """What the formulas look at, as autograd gives it."""

    def __init__(self, tensors: tuple[Tensor, ...], options: tuple[Any, ...]) -> None:
        self.saved_tensors, self.how = tensors, schemas.record(*options)
        self.needs_input_grad = (True,) * 3


@pytest.mark.parametrize(
    ("rank", "mode", "order"),
    [
        pytest.param(1, "cubic", (), marks=pytest.mark.slow),
        (2, "linear", ()),
        (2, ("cubic", "nearest"), (1, 0)),
        pytest.param(2, ("linear", "cubic"), (), marks=pytest.mark.slow),
        pytest.param(3, "linear", (), marks=pytest.mark.slow),
        pytest.param(2, "cubic", (1, 0), marks=pytest.mark.slow),
        pytest.param(3, "cubic", (), marks=pytest.mark.slow),
    ],
)
def test_the_backward_of_backward_is_that_of_the_formulas(
    monkeypatch: pytest.MonkeyPatch, rank: int, mode: Any, order: tuple[int, ...]
) -> None:
    monkeypatch.setattr(derivatives, "fuses", lambda *tensors: False)
    image, grid, values = inputs(rank)
    image[0, 0].view(-1)[0] = torch.nan  # where there is no derivative, it does not matter
    rng = cases.generator("upstream", rank)
    u = torch.from_numpy(cases.pixels(rng, image.shape))
    w = torch.from_numpy(cases.pixels(rng, grid.shape))
    options = how(rank, mode, "border", *order)
    for up, along in ((u, w), (None, w), (u, None)):
        context = Context((values, image, grid), options)
        with torch.no_grad():
            expected = derivatives.Backward.backward(context, up, along)[:3]
        mine = cuda.cuda_twice(values, image, grid, up, along, True, True, True, *options)
        for one, other in zip(mine, expected, strict=True):
            truth = torch.zeros_like(one) if other is None else other.clone()
            if one is mine[0]:  # 0 at points that are nowhere
                truth.masked_fill_(grid.isnan().any(-1).unsqueeze(1), 0)
            torch.testing.assert_close(one, truth, rtol=1e-11, atol=1e-11, equal_nan=True)


# Sums that do not depend on the order -------------------------------------------------------------


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    """Torch's switch, turned on for a while."""
    before = torch.are_deterministic_algorithms_enabled()
    try:
        torch.use_deterministic_algorithms(True)
        yield
    finally:
        torch.use_deterministic_algorithms(before)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.float16], ids=str)
def test_exact_sums_do_not_depend_on_the_order_at_any_magnitude(kind: torch.dtype) -> None:
    _, grid, values = inputs(2, 40, 2)
    wide = torch.promote_types(kind, torch.float32)
    grid = grid.to(wide)
    # Each quarter of the points goes to a row of its own, and the rows differ in size by far.
    rows = torch.arange(4).repeat_interleave(10)
    grid[..., 1] = (2 * rows + 1) / 4 - 1
    reach = 2 if kind == torch.float16 else 40 if kind == torch.float32 else 300
    values = (values * torch.logspace(-reach, 0.9 * reach, 4, dtype=torch.float64)[rows]).to(kind)
    options = how(2, "linear", "border")
    size, turned = (2, 2, 4, 3), torch.randperm(40, generator=torch.Generator().manual_seed(1))
    with deterministic():
        results = [
            cuda.cuda_scatter(values[..., p].contiguous(), grid[:, p].contiguous(), size, *options)
            for p in (torch.arange(40), turned)
        ]
    assert torch.equal(results[0].view(torch.uint8), results[1].view(torch.uint8))
    exact, sizes = (
        operators.cpu_scatter(v.double(), grid.double(), size, *options)
        for v in (values, values.abs())
    )
    # Coordinates, weights and products are rounded some ten times, relative to each pixel's own.
    slack = 10 * torch.finfo(wide).eps * sizes + torch.finfo(kind).eps * exact.abs()
    slack += torch.finfo(wide).tiny + (1e-7 if kind == torch.float16 else 0)
    assert ((results[0].double() - exact).abs() <= slack).all()


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
def test_exact_sums_lose_nothing_where_they_cancel(kind: torch.dtype) -> None:
    large = 2.0 ** (30 if kind == torch.float32 else 60)
    values = torch.tensor([large, 1.0, -large], dtype=kind).reshape(1, 1, 3)
    with deterministic():
        found = cuda.cuda_scatter(values, torch.zeros(1, 3, 1, dtype=kind), (1, 1, 1), *NEAREST)
    assert found.item() == 1.0


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
def test_exact_sums_of_what_is_not_finite_and_of_what_is_nearly_nothing(kind: torch.dtype) -> None:
    inf, nan, tiny = torch.inf, torch.nan, torch.finfo(kind).smallest_normal
    most = torch.finfo(kind).max
    pairs = [(inf, 1), (inf, -inf), (nan, 2), (-inf, most), (tiny / 8, tiny / 4), (most, most / 2)]
    values = torch.tensor(pairs, dtype=kind).reshape(1, 1, -1)
    grid = ((2 * torch.arange(6, dtype=kind) + 1) / 6 - 1).repeat_interleave(2).reshape(1, -1, 1)
    with deterministic():
        found = cuda.cuda_scatter(values, grid, (1, 1, 6), *NEAREST)
    expected = torch.tensor([sum(pair) for pair in pairs], dtype=kind)
    torch.testing.assert_close(found[0, 0], expected, rtol=0, atol=0, equal_nan=True)


def test_gradients_and_theirs_have_exact_sums() -> None:
    image, grid, values = inputs(2, 9)
    grid[:, :3] = 0.1
    options = how(2, ("linear", "cubic"), "border")
    upstream = image.flip(-1), grid.nan_to_num(0, 0, 0)
    calls = (
        lambda: cuda.cuda_backward(values, image, grid, True, True, *options),
        lambda: cuda.cuda_twice(values, image, grid, *upstream, True, True, True, *options),
    )
    for call in calls:
        expected = call()
        with deterministic():
            found = call()
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=64 * DOUBLE, equal_nan=True)


def test_plain_sums_do_depend_on_it() -> None:  # or the test above could not fail
    values = torch.tensor([1e8, 1.0, -1e8], dtype=torch.float32).reshape(1, 1, 3)
    grid = torch.zeros(1, 3, 1)
    options = how(1, "nearest", "zeros")
    turned = values[..., [0, 2, 1]].contiguous()
    results = [cuda.cuda_scatter(v, grid, (1, 1, 1), *options) for v in (values, turned)]
    assert not torch.equal(*results)


# Labels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "bool"])
def test_labels_are_the_reference_s(dtype: str, last: bool) -> None:
    rng = cases.generator("labels", dtype, last)
    low, high = {"uint8": (0, 4), "bool": (0, 2)}.get(dtype, (-3, 4))
    for rank, boundary, fill, extrapolate in (
        (1, "zeros", [], True), (2, "constant", [1.0], True), (3, "mirror", [], True),
        (2, "zeros", [1.0], False),
    ):  # fmt: skip
        pixels = rng.integers(low, high, (2, 3, *(5, 1, 4)[:rank])).astype(dtype)
        image = rolled(torch.from_numpy(pixels)) if last else torch.from_numpy(pixels)
        grid = torch.from_numpy(rng.integers(-100, 100, (2, 9, rank)) / 64)
        grid[0, 0, 0] = torch.nan
        modes = ("label",) * rank if rank < 3 else ("label", "nearest", "label")
        options = (list(modes), [boundary] * rank, False, [0] * rank, "normalized", extrapolate)
        found = cuda.cuda_gather(image, grid, *options, fill, None)
        expected = vote(
            pixels, grid.numpy(), modes, (boundary,) * rank, False, extrapolate=extrapolate,
            fill=fill[0] if fill else 0,
        )  # fmt: skip
        assert np.array_equal(found.numpy(), expected)


# Compiled for two generations ---------------------------------------------------------------------

FEW = [
    registers.Build(kernel, 2, "linear", "reflection", last)
    for kernel, last in itertools.product(("gather", "backward", "twice"), (False, True))
]
FEW += [
    registers.Build("gather", 3, "cubic"),
    registers.Build("gather", 2, "nearest", "constant"),
    registers.Build("backward", 2, flags=(("needs_SUMS", parts.EXACT),)),
    registers.Build("backward", 2, flags=(("needs_SUMS", parts.MEASURED), ("needs_GRID", False))),
    registers.Build("backward", 2, spread=True),
    registers.Build("survey", 2, spread=True),
    registers.Build("collect"),
    registers.Build("backward", 2, "linear", "constant"),
    registers.Build("gather", 2, "spline3", "antimirror"),
    registers.Build("gather", 2, coords="displacement", extrapolate=False, spread=True),
    registers.Build("gather", 2, storage="bf16", last=True),
    registers.Build("gather", 3, "label", "constant", storage="i16"),
]
REST = [build for build in registers.builds() if build not in FEW]


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize(
    "build", [*FEW, *(pytest.param(build, marks=pytest.mark.slow) for build in REST)], ids=str
)
def test_kernels_compile_without_spilling_and_in_their_precision(
    build: registers.Build, capability: int
) -> None:
    ptx, _ = registers.compile_(build, capability)
    if build.storage != "fp64":
        assert ".f64" not in ptx
    # Nothing but a register or two, which ptxas gives up where one more block then fits; a few more
    # of those that hold the sides of footprints, which are used once for each sample.
    assert registers.resources(ptx, capability)["spilled"] <= (64 if build.spread else 16)


def test_channels_that_lie_side_by_side_are_loaded_four_at_a_time() -> None:
    ptx, _ = registers.compile_(registers.Build("gather", last=True), 80)
    assert ptx.count(".v4.b32") >= 4


class Still:
    """Triton's driver for a GPU that is not there: all that a launch asks before it starts."""

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)


class Warmed:
    """A kernel that is compiled where it would be launched."""

    made: ClassVar[list[Any]] = []

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def warm(*arguments: Any, **options: Any) -> None:
            self.made.append(self.kernel.warmup(*arguments, grid=grid, **options))

        return warm


@pytest.mark.parametrize("last", [False, True])
def test_calls_lead_to_kernels_as_they_would_on_a_gpu(
    last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton.runtime import driver

    monkeypatch.setattr(driver, "_active", Still())
    monkeypatch.setattr(Warmed, "made", [])
    image, grid, values = (t.float() for t in inputs(2, channels=64))
    image = rolled(image) if last else image
    kind = np.dtype("float32")
    names = oracles.per_axis("linear", 2), oracles.per_axis("border", 2)
    plan = make_plan(tuple(image.shape), kind, tuple(grid.shape), kind, *names, False, False)
    out = rolled(torch.empty_like(values)) if last else torch.empty_like(values)
    how, sums = gpu.How(wrap=Warmed), cuda.exact_sums(plan, image)
    gpu.gather(plan, image, grid, out, (0, 0), how=how)
    gpu.backward(plan, values, image, grid, image, (0, 0), empty=torch.empty, how=how)
    gpu.twice(
        plan, values, image, grid, gpu.Upstream(image, grid), out, image, (0, 0),
        empty=torch.empty, how=how,
    )  # fmt: skip
    gpu.gather(plan, image.to(torch.uint8), grid, out.to(torch.uint8), (0, 0), how=how)
    gpu.backward(plan, values, image, grid, image, (0, 0), sums=sums, how=how)
    gpu.collect(sums, image, image.half(), how=how)
    assert len(Warmed.made) == 7
    ptx = [made.asm["ptx"] for made in Warmed.made]
    assert not any(".f64" in one for one in ptx)
    assert (".v4.b32" in ptx[0]) == last
    # Other sizes and counts, the same kernel; strides make another.
    gpu.gather(plan, image[:, :, :4, :5], grid, out, (0, 0), how=how)
    assert Warmed.made[-1] is Warmed.made[0]


def test_calls_over_footprints_lead_to_one_kernel_for_all_levels_and_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from triton.runtime import driver

    monkeypatch.setattr(driver, "_active", Still())
    monkeypatch.setattr(Warmed, "made", [])
    image, grid, values = (t.float() for t in inputs(1))
    kind, how = np.dtype("float32"), gpu.How(wrap=Warmed)
    for size, most in ((7, 2), (6, 16)):
        plan = make_plan(
            (2, 3, size), kind, tuple(grid.shape), kind, ("linear",), ("border",), False, False,
            footprint=Footprint(most),
        )  # fmt: skip
        gpu.survey(plan, grid, torch.zeros(2, dtype=torch.int32), how=how)
        for level in (0, 1):
            source = image[..., : size if level == 0 else (size + 1) // 2].contiguous()
            gpu.gather(plan, source, grid, values, (0,), level=level, how=how)
            gpu.backward(
                plan, values, source, grid, source, (0,), empty=torch.zeros, level=level, how=how
            )
    assert len(Warmed.made) == 10
    assert len({id(made) for made in Warmed.made}) == 3
    assert not any(".f64" in made.asm["ptx"] for made in Warmed.made)


# In graphs of torch.compile -----------------------------------------------------------------------


def traced(function: Any, *shapes: tuple[int, ...], symbolic: bool = False) -> Any:
    """The graph that torch.compile's first half makes of a function of CUDA tensors."""
    from torch._functorch.aot_autograd import aot_export_module

    class Model(torch.nn.Module):
        def forward(self, *tensors: Tensor) -> Any:
            return function(*tensors)

    mode, sizes = FakeTensorMode(shape_env=ShapeEnv()), list(shapes)
    if symbolic:
        sizes = [
            mode.from_tensor(
                torch.empty(shape), source=ConstantSource(f"input{number}"),
                symbolic_context=StatelessSymbolicContext([DimDynamic.DYNAMIC] * len(shape)),
            ).shape
            for number, shape in enumerate(shapes)
        ]  # fmt: skip
    with mode:
        tensors = [torch.empty(size, device="cuda") for size in sizes]
    with torch.no_grad(), mode:
        graph, _ = aot_export_module(Model(), tuple(tensors), trace_joint=False)
    return graph


def sampled_and_back(image: Tensor, grid: Tensor) -> tuple[Tensor, ...]:
    import gridsample

    out = gridsample.grid_sample(image * 2, grid)
    return (out.sin(), *gridsample.grid_sample_vjp(out, image, grid))


@pytest.mark.parametrize("sure", [False, True])
def test_graphs_hold_the_kernels_and_know_what_they_write_to(
    sure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton.runtime import driver

    monkeypatch.setattr(driver, "_active", Still())
    with deterministic() if sure else contextlib.nullcontext():
        graph = traced(sampled_and_back, (2, 3, 8, 9), (2, 5, 5, 2))
    nodes = [node for node in graph.graph.nodes if "triton_kernel" in str(node.target)]
    written = [set(node.kwargs["tensors_to_clone"]) for node in nodes]
    if sure:
        assert written == [
            {"out_memory"},
            {"shadow_bounds"},
            {"shadow_memory", "shadow_limbs", "gradient"},
            {"out"},
        ]
    else:
        assert written == [{"out_memory"}, {"shadow_memory", "gradient"}]
    assert not any("gridsample" in str(node.target) for node in graph.graph.nodes)


def test_graphs_of_symbolic_sizes_hold_the_operators() -> None:
    graph = traced(sampled_and_back, (2, 3, 8, 9), (2, 5, 5, 2), symbolic=True)
    found = [str(node.target) for node in graph.graph.nodes]
    assert {"gridsample.gather.default", "gridsample.backward.default"} <= set(found)
    assert not any("triton_kernel" in name for name in found)


@pytest.mark.parametrize(
    "build",
    [registers.Build("backward"), registers.Build("gather", 3, "cubic", "antimirror")],
    ids=str,
)
def test_the_sources_that_a_graph_s_program_holds_are_the_kernels(
    build: registers.Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._inductor.codegen import wrapper

    closure = wrapper.user_defined_triton_kernel_transitive_closure_source_code
    kernel = getattr(registers.kernels(build.visits > gpu.MANY), build.kernel)
    path = tmp_path / "program.py"
    path.write_text(f"import triton\nimport triton.language as tl\n@triton.jit\n{closure(kernel)}")
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None and spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    instructions = []
    for source in (registers.kernels, lambda rolled: program):
        monkeypatch.setattr(registers, "kernels", source)
        lines = registers.compile_(build, 90)[0].splitlines()
        instructions.append(
            Counter(re.findall(r"^\t(?!\.)(?:@\S+ )?(\S+)", "\n".join(lines), re.M))
        )
    assert instructions[0] == instructions[1] and instructions[0].total() > 100


# The benchmarks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("only", ["10000 points bilinear float32 backward random deterministic"])
def test_the_benchmarks_run_on_toys(
    only: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "folder" / "gpu.json"
    benchmarks_of_gpu.main(only, 0.0, target, "cpu")
    (row,) = json.loads(target.read_text())["rows"]
    assert row["other"] == "ours by default" and row["difference"] < 1e-6 and row["ratio"] > 0
    printed = capsys.readouterr().out
    assert row["case"] in printed and "deterministic: at most" in printed


@pytest.mark.slow
def test_every_case_of_the_benchmarks_runs_on_toys(capsys: pytest.CaptureFixture[str]) -> None:
    benchmarks_of_gpu.main("", 0.0, None, "cpu")
    cases_of_it = list(benchmarks_of_gpu.every_case())
    assert len({case.name for case in cases_of_it}) == len(cases_of_it)
    assert capsys.readouterr().out.count(" float") >= len(cases_of_it)
