"""The GPU kernels without a GPU: in Triton's interpreter, compared with the reference."""

from __future__ import annotations

import gc
import itertools
import math
import weakref
from types import SimpleNamespace
from typing import Any

import cases
import numpy as np
import oracles
import plans
import pytest
import torch

pytest.importorskip("triton")

from interpreted import DOUBLE, SINGLE, check, inputs, rolled, spaced

from gridsample.backends.torch import BACKEND, affine, cuda, schemas
from gridsample.definitions.coords import COORDS
from gridsample.kernels import gpu, reference
from gridsample.kernels.gpu import launching, triton_jit
from gridsample.kernels.reference import BOUNDARIES, MODES
from gridsample.kernels.reference.labels import vote

# The interpreter's NumPy warns where a GPU does not.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")

EDGES = ("zeros", "border", "reflection")


# The kernels against the reference ----------------------------------------------------------------


# 64 taps are slow in the interpreter: the ordinary run has one such case.
ONES = [*itertools.product([1, 2, 3], cases.MODES, [False, True])]
ONES[ONES.index((3, "cubic", False))] = pytest.param(3, "cubic", False, marks=pytest.mark.slow)
ONES.remove((3, "cubic", True))


@pytest.mark.covering
@pytest.mark.parametrize(("rank", "mode", "corners"), ONES)
def test_values_and_gradients_match_the_reference(rank: int, mode: str, corners: bool) -> None:
    index = cases.MODES.index(mode) + corners
    check(*inputs(rank), mode, [EDGES[(index + a) % 3] for a in range(rank)], corners)


@pytest.mark.covering
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


@pytest.mark.parametrize("points", cases.slow_after(1, [1, 63]))
def test_single_precision_of_awkward_sizes(points: int) -> None:
    image, grid, values = (t.float() for t in inputs(2, points, 5, (1, 7)))
    # Far points are folded in single precision: a position of 1e9 has no fraction there.
    grid = grid.clamp(-3, 3)
    check(rolled(image), grid, values, "linear", ("reflection", "border"), True, SINGLE)


@pytest.mark.covering
@pytest.mark.slow
@pytest.mark.parametrize(
    ("points", "channels"),  # without those that take minutes in the interpreter
    [pair for pair in itertools.product((1, 7, 63, 500), repeat=2) if math.prod(pair) <= 4000],
)
@pytest.mark.parametrize("last", [False, True])
def test_every_awkward_size(points: int, channels: int, last: bool) -> None:
    image, grid, values = inputs(2, points, channels, (7, 3), 1)
    check(rolled(image) if last else image, grid, values, "linear", "zeros", False)


def test_strided_tensors_are_not_copied() -> None:
    image, grid, values = inputs(2)
    check(spaced(image), spaced(grid), spaced(values), "linear", "border", False)


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize(("items", "grids"), [(1, 3), (3, 1)])
def test_items_are_broadcast_and_gradients_summed(items: int, grids: int) -> None:
    image, grid, values = inputs(2, 9, items=3)
    check(image[:items], grid[:grids], values, "linear", "zeros", False)


def test_offsets_of_64_bits_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    original_calls = gpu.gather_call, gpu.backward_call
    monkeypatch.setattr(gpu, "FAR", 0)
    for calls in original_calls:
        calls.cache_clear()
    check(*inputs(2), "linear", "reflection", False)
    for calls in original_calls:
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
    launch = launching.shape_launch(launching.Extent(8, 8, 1024, 1, 1), False, 4, 4, True)
    assert launch.splits == launch.units > 1
    check(*inputs(2, 9, 40, (2, 3), 1), "linear", "zeros", False)


@pytest.mark.parametrize(
    ("points", "row", "channels", "grids", "last"),
    [
        *((1, 1, 1, 1, False), (262144, 262144, 64, 64, False), (262144, 512, 64, 64, False)),
        *((10000, 10000, 1024, 1, True), (4_000_000, 4_000_000, 32, 3, True)),
    ],
)
@pytest.mark.parametrize("plain", [False, True])
def test_launches_fill_a_gpu_and_stay_in_its_limits(
    points: int, row: int, channels: int, grids: int, last: bool, plain: bool
) -> None:
    extent = launching.Extent(points, row, channels, grids, 1)
    for visits in (1, 4, 8, 32, 256):
        launch = launching.shape_launch(extent, last, visits, 4, plain)
        assert launch.block & (launch.block - 1) == launch.depth & (launch.depth - 1) == 0
        assert 1 <= launch.warps <= 4 and launch.block * launch.depth <= 4096
        assert launch.units == -(-channels // launch.depth) >= launch.splits
        programs = -(-points // launch.block) * grids * launch.splits
        assert programs >= launching.FULL or launch.splits == launch.units
        if plain and not last:
            assert -(-launch.units // launch.splits) <= launching.LONGEST


# Boundaries, coordinates and methods that are not PyTorch's ---------------------------------------

REPEATING = [name for name in BOUNDARIES if name not in reference.ENDS]
FOREIGN = ("spline2", "mitchell", "nearest", "lanczos2", "linear", ("cubic", 0, 0.5), "spline5")


def check_outside(rank: int, choice: int, boundary: Any, **counts: Any) -> None:
    """A mix of methods, whose grids reach as far as others."""
    image, grid, values = inputs(rank, 9 if rank < 3 else 5)
    if counts.get("coords", "normalized") != "normalized":
        grid = grid * 5 + 2
    if counts.get("coords") == "displacement":
        shape = (1,) * (rank - 1) + (grid.shape[1],)
        grid = grid.reshape(2, *shape, rank)
    names = oracles.per_axis(boundary, rank)
    fill = None
    if "constant" in names or counts.get("extrapolate", True) is not True:
        fill = [0.5, -2.0, 3.0][: 3 if choice % 2 else 1]
        fill = fill[0] if len(fill) == 1 else fill
    modes = tuple(FOREIGN[(choice + a) % len(FOREIGN)] for a in range(rank))
    # The weights of Lanczos are fitted, to within 1e-9; their derivatives, to 1e-7.
    tolerance = 1e-7 if any("lanczos" in mode for mode in modes) else 8 * DOUBLE
    check(image, grid, values, modes, names, bool(choice % 2), tolerance, fill, **counts)


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("extrapolate", [True, False])
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_every_boundary_with_some_method_and_coordinates(boundary: str, extrapolate: bool) -> None:
    choice = list(BOUNDARIES).index(boundary) + 3 * extrapolate
    check_outside(1, choice, boundary, coords=COORDS[choice % 3], extrapolate=extrapolate)


@pytest.mark.covering(ordinary=0, slow=1)
@pytest.mark.parametrize(
    ("choice", "boundary", "coords", "extrapolate"),
    [
        (3, ("antimirror", "constant"), "pixel", True),
        (4, ("wrap", "symmetric"), "displacement", (True, "edges")),
        (2, ("antisymmetric", "mirror"), "normalized", True),
        (1, ("dst1", "constant"), "pixel", True),
    ],
)
def test_boundaries_of_two_axes(choice: int, boundary: Any, coords: str, extrapolate: Any) -> None:
    check_outside(2, choice, boundary, coords=coords, extrapolate=extrapolate)


@pytest.mark.covering(slow=1)
@pytest.mark.slow
@pytest.mark.parametrize("extrapolate", [True, False])
@pytest.mark.parametrize("coords", COORDS)
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_every_boundary_rank_and_kind_of_coordinates(
    rank: int, boundary: str, coords: str, extrapolate: bool
) -> None:
    first = list(BOUNDARIES).index(boundary) + COORDS.index(coords)
    choices = range(first, first + len(FOREIGN), 3) if rank == 1 else (2, 4)[: 4 - rank]
    for choice in choices:
        check_outside(rank, choice, boundary, coords=coords, extrapolate=extrapolate)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MODES if name not in ("spline0", "spline1")])
def test_every_method(name: str) -> None:
    image, grid, values = inputs(2, 5)
    tolerance = 1e-6 if "lanczos" in name else 8 * DOUBLE
    check(image, grid, values, name, ("antisymmetric", "wrap"), False, tolerance)


# Affine maps --------------------------------------------------------------------------------------


@pytest.mark.covering(ordinary=0, slow=1)
@pytest.mark.parametrize(("rank", "corners"), [(1, True), (2, False), (3, False)])
def test_affine_maps_match_their_grids(rank: int, corners: bool) -> None:
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

    dtype = np.dtype(float)
    names = ("linear",) * rank, ("border",) * rank
    plan = plans.plan_for(tuple(image.shape), dtype, tuple(grid.shape), dtype, *names, corners)
    launch = launching.LaunchOptions(affine=True, interpreted=True)
    out = torch.full((2, 3, plan.points), torch.nan, dtype=torch.float64)
    gpu.gather(plan, image, theta.detach(), out, (0,) * rank, options=launch)
    torch.testing.assert_close(out.reshape(size), expected.detach(), rtol=0, atol=DOUBLE)
    grad_image = torch.zeros_like(image)
    partial = gpu.backward(
        plan,
        upstream.reshape(2, 3, -1),
        image,
        theta.detach(),
        grad_image,
        (0,) * rank,
        options=launch,
        empty=lambda shape: torch.full(shape, torch.nan, dtype=torch.float64),
    )
    assert partial is not None
    torch.testing.assert_close(grad_image, by_image, rtol=0, atol=DOUBLE)
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

    dtype = getattr(torch, name)
    real = torch.float64 if name != "float16" else torch.float32
    rng = cases.generator("affine", name)
    image = torch.from_numpy(cases.pixels(rng, (1, 2, 4, 5), name)).requires_grad_()
    theta = torch.from_numpy(rng.uniform(-1, 1, (2, 2, 3))).to(real).requires_grad_()
    size, options = (2, 2, 3, 4), (("cubic", "linear"), ("border", "zeros"), True)
    grid = gridsample.affine_grid(theta, size, True)
    upstream = torch.from_numpy(cases.pixels(rng, size, name)).requires_grad_()
    leaves, out = (image, theta), size[2:]
    call = affine.call_of_maps(BACKEND, image, theta, out, schemas.options_of(*options, (0, 0)))
    call = call._replace(on_gpu=True)
    outs = [affine.sample(call, image, theta), gridsample.grid_sample(image, grid, *options)]
    firsts = [torch.autograd.grad(out, leaves, upstream, retain_graph=True) for out in outs]
    eps = 64 * max(float(torch.finfo(dtype).eps), DOUBLE / 8)
    torch.testing.assert_close(outs[0], outs[1], rtol=eps, atol=eps)
    torch.testing.assert_close(firsts[0], firsts[1], rtol=eps, atol=20 * eps)
    if name == "float16":
        return
    seconds = []
    for out in outs:
        first = torch.autograd.grad(out, leaves, upstream, create_graph=True)
        total = sum(gradient.abs().square().sum() for gradient in first)
        seconds.append(torch.autograd.grad(total, (*leaves, upstream)))
    torch.testing.assert_close(seconds[0], seconds[1], rtol=1e-10, atol=1e-10)


# Labels -------------------------------------------------------------------------------------------


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "bool"])
def test_labels_match_the_reference(dtype: str, last: bool) -> None:
    rng = cases.generator("labels", dtype, last)
    low, high = {"uint8": (0, 4), "bool": (0, 2)}.get(dtype, (-3, 4))
    for rank, boundary, fill, extrapolate in (
        (1, "zeros", [], True),
        (2, "constant", [1.0], True),
        (3, "mirror", [], True),
        (2, "zeros", [1.0], False),
    ):
        pixels = rng.integers(low, high, (2, 3, *(5, 1, 4)[:rank])).astype(dtype)
        image = rolled(torch.from_numpy(pixels)) if last else torch.from_numpy(pixels)
        grid = torch.from_numpy(rng.integers(-100, 100, (2, 9, rank)) / 64)
        grid[0, 0, 0] = torch.nan
        modes = ("label",) * rank if rank < 3 else ("label", "nearest", "label")
        end = None if extrapolate else "edges"
        options = (list(modes), [boundary] * rank, False, [0] * rank, "normalized", end)
        result = cuda.cuda_gather(image, grid, *options, fill, None)
        expected = vote(
            pixels,
            grid.numpy(),
            modes,
            (boundary,) * rank,
            False,
            extrapolate=extrapolate,
            fill=fill[0] if fill else 0,
        )
        assert np.array_equal(result.numpy(), expected)


class Compiled:
    """A compiled kernel that records the arguments of its launch."""

    def __init__(self, names: list[str]) -> None:
        self.src = SimpleNamespace(fn=SimpleNamespace(arg_names=names))
        self.launched: list[dict[str, Any]] = []

    def __getitem__(self, programs: tuple[int, int, int]) -> Any:
        names = self.src.fn.arg_names
        return lambda *values: self.launched.append(dict(zip(names, values, strict=True)))


def test_a_second_launch_takes_the_addresses_of_its_own_tensors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernels: list[Compiled] = []

    def compile_(name: str, rolled: bool, programs: int, warps: int, known: Any, _: Any) -> Any:
        kernels.append(Compiled(list(known)))
        return kernels[-1]

    monkeypatch.setattr(launching, "launch", compile_)
    monkeypatch.setattr(triton_jit, "current_gpu", lambda: 0)
    gpu.gather_call.cache_clear()
    image, grid, values = inputs(2)
    dtype, names = np.dtype("float64"), (("linear",) * 2, ("border",) * 2)
    plan = plans.plan_for(tuple(image.shape), dtype, tuple(grid.shape), dtype, *names)
    calls = [(image.clone(), grid.clone(), values.clone()) for _ in range(2)]
    for tensors in calls:
        gpu.gather(plan, *tensors, (0, 0))
    (kernel,) = kernels
    (launched,) = kernel.launched
    memories = "image_memory", "grid_memory", "out_memory"
    assert [launched[name] for name in memories] == [tensor.data_ptr() for tensor in calls[1]]
    assert launched["fill_memory"] is None
    # The memory of the first tensors is free again.
    first = weakref.ref(calls.pop(0)[0])
    del tensors
    gc.collect()
    assert first() is None
    # Other dtypes and unaligned memory need other kernels.
    gpu.gather(plan, image.float(), grid, values, (0, 0))
    shifted = torch.cat([image.new_zeros(1), image.flatten()])[1:].reshape(image.shape)
    gpu.gather(plan, shifted, grid, values, (0, 0))
    assert len(kernels) == 3
    gpu.gather_call.cache_clear()
