"""CUDA tensors: all that the kernels do on a GPU, against the CPU.  Run with ``pytest -m gpu``."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import cases
import pytest
import torch
from torch import Tensor

import gridsample
from gridsample.backends.torch import BACKEND, affine, schemas
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.definitions.coords import COORDS
from gridsample.definitions.methods import sampling_names

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
]

SIZES = {1: (63,), 2: (33, 65), 3: (9, 17, 12)}
OPTIONS = [*itertools.product(cases.MODES, cases.BOUNDARIES, (False, True))]


def inputs(
    rank: int,
    dtype: torch.dtype = torch.float64,
    channels: int = 5,
    points: int = 500,
    items: int = 2,
) -> tuple[Tensor, Tensor]:
    rng = cases.generator("cuda", rank, channels, points)
    image = torch.from_numpy(cases.pixels(rng, (items, channels, *SIZES[rank])))
    grid = torch.from_numpy(rng.uniform(-1.4, 1.4, (items, points, rank)))
    grid[0, :3] = torch.tensor([torch.nan, torch.inf, -torch.inf]).reshape(3, 1)
    return image.to(dtype), grid.to(torch.promote_types(dtype, torch.float32))


def results(image: Tensor, grid: Tensor, device: str, *options: Any, **more: Any) -> list[Tensor]:
    """The output, both gradients, and theirs, on a device."""
    leaves = [t.detach().to(device).requires_grad_() for t in (image, grid)]
    out = gridsample.grid_sample(*leaves, *options, **more)
    upstream = torch.linspace(-1, 1, out.numel(), dtype=out.dtype, device=device)
    upstream = upstream.reshape(out.shape).requires_grad_()
    first = torch.autograd.grad(out, leaves, upstream, create_graph=True)
    total = sum(gradient.square().sum().to(torch.float64) for gradient in first)
    second = torch.autograd.grad(total, [upstream, *leaves], allow_unused=True)
    results = [out, *first, *(gradient for gradient in second if gradient is not None)]
    return [tensor.detach().cpu() for tensor in results]


def assert_close(mine: list[Tensor], other: list[Tensor], tolerance: float) -> None:
    assert len(mine) == len(other)
    for actual, two in zip(mine, other, strict=True):
        assert (actual.shape, actual.dtype) == (two.shape, two.dtype)
        truth = two.double()
        error = tolerance * max(1.0, float(truth.nan_to_num(0, 0, 0).abs().max()))
        torch.testing.assert_close(actual.double(), truth, rtol=0, atol=error, equal_nan=True)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_values_and_gradients_match_the_cpu(rank: int, last: bool) -> None:
    image, grid = inputs(rank)
    if last:
        image = image.movedim(1, -1).contiguous().movedim(-1, 1)
    for options in OPTIONS:
        mine, other = (results(image, grid, device, *options) for device in ("cuda", "cpu"))
        assert_close(mine, other, 1e-11)


@pytest.mark.parametrize("extrapolate", [True, False])
@pytest.mark.parametrize("coords", COORDS)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_all_boundaries_and_coordinates(rank: int, coords: str, extrapolate: bool) -> None:
    image, grid = inputs(rank, channels=3, points=120)
    if coords != "normalized":
        grid = grid * 9 + 5
    if coords == "displacement":
        grid = grid.reshape(2, *(4, 5, 6)[3 - rank :], -1, rank)[:, ..., 0, :].contiguous()
    for k, boundary in enumerate(BOUNDARIES):
        mode = ("linear", "cubic", "nearest", "mitchell")[k % 4]
        filled = boundary == "constant" or not extrapolate
        more = {
            "coords": coords,
            "extrapolate": extrapolate,
            "fill_value": ((1.5, [0.5, -2.0, 3.0])[k % 2]) if filled else 0,
        }
        mine, other = (results(image, grid, d, mode, boundary, **more) for d in ("cuda", "cpu"))
        assert_close(mine, other, 1e-11)


OTHERS = [name for name in sampling_names() if name not in (*cases.MODES, "label")]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_labels_match_the_cpu(rank: int, dtype: torch.dtype) -> None:
    image, grid = inputs(rank, channels=3, points=120)
    labels = (image * 3).abs().to(dtype)
    for boundary in ("zeros", "mirror"):
        mine, other = (
            gridsample.grid_sample(labels.to(d), grid.to(d), "label", boundary).cpu()
            for d in ("cuda", "cpu")
        )
        assert (mine != other).sum() <= 1  # a tie may be rounded another way


@pytest.mark.parametrize("name", OTHERS)
def test_all_methods(name: str) -> None:
    image, grid = inputs(2, channels=3, points=120)
    for boundary in ("mirror", "antisymmetric"):
        more = {"prefilter": False}
        mine, other = (results(image, grid, d, name, boundary, **more) for d in ("cuda", "cpu"))
        assert_close(mine, other, 1e-11)


@pytest.mark.parametrize("name", ["uint8", "float16", "bfloat16", "complex64"])
def test_fill_values_in_every_storage_dtype(name: str) -> None:
    dtype = getattr(torch, name)
    image = torch.from_numpy(cases.pixels(cases.generator(name), (2, 3, 9, 7))).to(dtype)
    _, grid = inputs(2)
    for mode, fill in itertools.product(("nearest", "linear"), (300.5, [1.0, -7.25, 3.0])):
        more: dict[str, Any] = {"fill_value": fill, "extrapolate": False}
        mine = gridsample.grid_sample(image.cuda(), grid.float().cuda(), mode, **more).cpu()
        other = gridsample.grid_sample(image, grid.float(), mode, **more)
        wide = torch.complex128 if dtype.is_complex else torch.float64
        slack = 1.0 if name == "uint8" else 300 * max(2e-7, torch.finfo(dtype).eps)
        torch.testing.assert_close(
            mine.to(wide), other.to(wide), rtol=0, atol=slack, equal_nan=True
        )


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_affine_maps(rank: int, last: bool) -> None:
    image, _ = inputs(rank)
    if last:
        image = image.movedim(1, -1).contiguous().movedim(-1, 1)
    theta = torch.linspace(-1, 1, 2 * rank * (rank + 1), dtype=torch.float64)
    size = (2, 5, *(40, 30, 9)[:rank])
    options = ("linear",) * rank, ("border",) * rank, False
    results = []
    for by_maps in (True, False):
        leaves = [t.cuda().requires_grad_() for t in (image, theta.reshape(2, rank, rank + 1))]
        if by_maps:
            record = schemas.options_of(*options, (0,) * rank)
            call = affine.call_of_maps(BACKEND, *leaves, size[2:], record)
            out = affine.sample(call, *leaves)
        else:
            grid = gridsample.affine_grid(leaves[1], size)
            out = gridsample.grid_sample(leaves[0], grid, *options)
        first = torch.autograd.grad(out, leaves, out.detach().cos(), create_graph=True)
        total = sum(gradient.square().sum() for gradient in first)
        results.append([out, *first, *torch.autograd.grad(total, leaves)])
    assert_close(*([tensor.detach().cpu() for tensor in each] for each in results), 1e-10)


def shrinking(rank: int, coords: str) -> Tensor:
    """A grid that shrinks an image two to six times, with a hole."""
    rng = cases.generator("cuda shrinking", rank)
    axes = [torch.linspace(-1, 1, 1 + n // 4, dtype=torch.float64) for n in SIZES[rank]]
    grid = torch.stack(torch.meshgrid(*axes, indexing="ij")[::-1], -1)
    grid = grid + 0.1 * torch.from_numpy(rng.standard_normal((2, *grid.shape)))
    if coords != "normalized":
        grid = (grid + 1) * torch.tensor(SIZES[rank][::-1]) / 2
    grid.view(2, -1, rank)[0, 2] = torch.nan
    return grid


@pytest.mark.parametrize("coords", COORDS)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_antialiased_warps(rank: int, coords: str) -> None:
    image, _ = inputs(rank)
    grid = shrinking(rank, coords)
    for mode, most in itertools.product(("bilinear", "bicubic"), (2, 16)):
        more = {"coords": coords, "antialias": True, "max_samples": most}
        mine, other = (
            results(image, grid, device, mode, "reflection", **more) for device in ("cuda", "cpu")
        )
        assert_close(mine, other, 1e-10)


@pytest.mark.parametrize("coords", ["normalized", "pixel"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_antialiased_affine_maps(rank: int, coords: str) -> None:
    image, _ = inputs(rank)
    # No sample lies on a pixel, where the derivative jumps.
    theta = 0.2043 * torch.eye(rank, rank + 1, dtype=torch.float64).repeat(2, 1, 1) + 0.6017
    theta = 4 * theta if coords == "pixel" else theta
    size = (2, 5, *(7, 1, 5)[:rank])
    results = []
    for device in ("cuda", "cpu"):
        leaves = [tensor.detach().to(device).requires_grad_() for tensor in (image, theta)]
        out = gridsample.affine_sample(*leaves, size, coords=coords, antialias=True, max_samples=3)
        upstream = torch.linspace(-1, 1, out.numel(), dtype=out.dtype, device=device)
        first = torch.autograd.grad(out, leaves, upstream.reshape(out.shape))
        results.append([tensor.detach().cpu() for tensor in (out, *first)])
    assert_close(*results, 1e-10)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_storage_dtypes(dtype: torch.dtype) -> None:
    image, grid = inputs(2, dtype)
    grid = torch.where(grid.isfinite(), (grid * 64).round() / 64, grid)  # exact in single precision
    for mode in cases.MODES:
        mine, other = (results(image, grid, device, mode)[:3] for device in ("cuda", "cpu"))
        assert_close(mine, other, 4 * max(torch.finfo(dtype).eps, 2e-5))


@pytest.mark.parametrize("name", [*cases.INTEGERS, "bool", *cases.COMPLEXES])
def test_integers_and_complex_numbers(name: str) -> None:
    rng = cases.generator(name)
    image = torch.from_numpy(cases.pixels(rng, (2, 3, 9, 7), name))
    _, grid = inputs(2)
    for mode, boundary in (("nearest", "zeros"), ("linear", "border"), ("cubic", "zeros")):
        mine = gridsample.grid_sample(image.cuda(), grid.cuda(), mode, boundary).cpu()
        other = gridsample.grid_sample(image, grid, mode, boundary)
        if image.is_complex():
            mine, other = torch.view_as_real(mine), torch.view_as_real(other)
            torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5, equal_nan=True)
        else:  # next to a half, sums may round to either side; floats hold 53 bits of 64
            scale = max(1.0, 1e-15 * float(other.double().abs().max()))
            assert (mine.double() - other.double()).abs().max() <= scale


@pytest.mark.parametrize("channels", [1, 3, 64, 500])
@pytest.mark.parametrize("points", [1, 7, 63, 500])
def test_awkward_sizes(points: int, channels: int) -> None:
    image, grid = inputs(2, torch.float64, channels, points=max(points, 3))
    grid = grid[:, -points:]
    for items in (slice(None), slice(1)):
        mine, other = (results(image, grid[items], d, "linear") for d in ("cuda", "cpu"))
        assert_close(mine, other, 1e-11)


def test_strided_and_broadcast_tensors() -> None:
    image, grid = (t.cuda() for t in inputs(2))
    wide = torch.full((2, 5, 66, 130), torch.nan, dtype=torch.float64, device="cuda")
    wide[..., ::2, ::2] = image
    for sliced in (wide[..., ::2, ::2], image.transpose(2, 3).contiguous().transpose(2, 3)):
        for other in (grid, grid[:1], grid.flip(0)):
            torch.testing.assert_close(
                gridsample.grid_sample(sliced, other).cpu(),
                gridsample.grid_sample(image.cpu(), other.cpu()),
                rtol=0,
                atol=1e-12,
                equal_nan=True,
            )


def test_arbitrary_bits_as_a_grid() -> None:
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**31), 2**31, (1, 5000, 2), dtype=torch.int64, generator=generator)
    grid = bits.to(torch.int32).view(torch.float32).cuda()
    image = torch.randn(1, 3, 7, 5, device="cuda")
    others = itertools.product(cases.MODES, BOUNDARIES.keys() - {*cases.BOUNDARIES}, (False,))
    for options in (*OPTIONS, *others):
        out = gridsample.grid_sample(image, grid, *options)
        assert out[:, :, grid.isnan().any(-1)[0]].isnan().all()
        first, second = gridsample.grid_sample_vjp(torch.ones_like(out), image, grid, *options)
        assert first.isfinite().all() and not second[grid.isnan().any(-1)].any()
    torch.cuda.synchronize()


def test_offsets_beyond_32_bits() -> None:
    if torch.cuda.mem_get_info()[0] < 12e9:
        pytest.skip("takes 12 GB")
    image = torch.zeros(1, 1, 2, 2**31 + 64, dtype=torch.uint8, device="cuda")
    image[..., -1] = 7
    grid = torch.tensor([[[1.0, 1.0], [1.0, -1.0], [-1.0, 0.0]]], dtype=torch.float64)
    out = gridsample.grid_sample(image, grid.cuda(), "nearest", "zeros", True)
    assert out.flatten().tolist() == [7, 7, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_deterministic_algorithms_are_honoured(dtype: torch.dtype) -> None:
    image, grid = (t.to(dtype).cuda() for t in inputs(2, dtype, points=200_000))
    values = torch.randn(2, 5, 200_000, dtype=dtype, device="cuda")
    expected = gridsample.grid_sample_vjp(values.cpu(), image.cpu(), grid.cpu())[0]
    before = torch.are_deterministic_algorithms_enabled()
    try:
        torch.use_deterministic_algorithms(True)
        runs = [gridsample.grid_sample_vjp(values, image, grid)[0] for _ in range(5)]
    finally:
        torch.use_deterministic_algorithms(before)
    assert all(torch.equal(runs[0], run) for run in runs)
    assert runs[0].isfinite().all()
    error = 200 * torch.finfo(dtype).eps * float(expected.abs().max())
    torch.testing.assert_close(runs[0].cpu(), expected, rtol=0, atol=error)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_deterministic_gradients_are_accurate_at_any_magnitude(dtype: torch.dtype) -> None:
    reach, size = 30.0 if dtype == torch.float32 else 200.0, torch.tensor([64, 32])
    generator = torch.Generator().manual_seed(0)
    image = torch.randn(2, 5, 32, 64, dtype=dtype, generator=generator)
    # On eighths of a pixel, so that positions and weights are exact.
    eighths = torch.rand(2, 20_000, 2, generator=generator).mul(8 * size).floor()
    grid = ((eighths / 4 + 1) / size - 1).to(dtype)
    values = torch.randn(2, 5, 20_000, dtype=dtype, generator=generator)
    # From left to right, so that each pixel's share is of its own size.
    values *= (10 ** (reach * grid[..., 0]).clamp(-reach, reach)).unsqueeze(1)
    before = torch.are_deterministic_algorithms_enabled()
    try:
        torch.use_deterministic_algorithms(True)
        tensors = (t.cuda() for t in (values, image, grid))
        result = gridsample.grid_sample_vjp(*tensors)[0].cpu().double()
    finally:
        torch.use_deterministic_algorithms(before)
    exact, sizes = (
        gridsample.grid_sample_vjp(v.double(), image.double(), grid.double())[0]
        for v in (values, values.abs())
    )
    slack = 20 * torch.finfo(dtype).eps * sizes + torch.finfo(dtype).tiny
    assert ((result - exact).abs() <= slack).all()


def test_streams_and_threads() -> None:
    image, grid = (t.cuda() for t in inputs(2))
    expected = gridsample.grid_sample(image, grid)
    torch.cuda.synchronize()
    results: list[Tensor] = []

    def work() -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(20):
                out = gridsample.grid_sample(image, grid)
        stream.synchronize()
        results.append(out)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(results) == 4
    for out in results:
        torch.testing.assert_close(out, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("deterministic", [False, True])
def test_cuda_graphs(deterministic: bool) -> None:
    image, grid = (t.cuda() for t in inputs(2))
    values = torch.ones(2, 5, 500, dtype=torch.float64, device="cuda")
    before = torch.are_deterministic_algorithms_enabled()
    try:
        torch.use_deterministic_algorithms(deterministic)
        gridsample.grid_sample_vjp(values, image, grid)  # compiles
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = gridsample.grid_sample_vjp(values, image, grid)
        image.mul_(2)
        grid.mul_(0.5)
        graph.replay()
        torch.cuda.synchronize()
        expected = gridsample.grid_sample_vjp(values, image, grid)
    finally:
        torch.use_deterministic_algorithms(before)
    for actual, two in zip(result, expected, strict=True):
        torch.testing.assert_close(actual, two, rtol=0, atol=1e-10)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_several_devices() -> None:
    image, grid = inputs(2)
    expected = gridsample.grid_sample(image, grid)
    for number in range(torch.cuda.device_count()):
        out = gridsample.grid_sample(*(t.to(f"cuda:{number}") for t in (image, grid)))
        assert out.device.index == number
        torch.testing.assert_close(out.cpu(), expected, rtol=0, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_without_graph_breaks(dynamic: bool) -> None:
    def warp(image: Tensor, grid: Tensor) -> Tensor:
        return gridsample.grid_sample(image * 2, grid + 0.1, "bicubic").sin()

    image, grid = (t.cuda().requires_grad_() for t in inputs(2))
    compiled = torch.compile(warp, fullgraph=True, dynamic=dynamic)
    outs = [function(image, grid) for function in (compiled, warp)]
    torch.testing.assert_close(*outs, rtol=1e-10, atol=1e-10, equal_nan=True)
    gradients = [torch.autograd.grad(out.nansum(), (image, grid)) for out in outs]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-9)


def test_transforms() -> None:
    image, grid = (t[..., 3:, :] if t.dim() == 3 else t for t in inputs(2))

    def total(image: Tensor, grid: Tensor) -> Tensor:
        return gridsample.grid_sample(image[None], grid[None]).sum()

    gradients = torch.func.vmap(torch.func.grad(total))
    mine, other = (gradients(image.to(d), grid.to(d)).cpu() for d in ("cuda", "cpu"))
    torch.testing.assert_close(mine, other, rtol=0, atol=1e-11)


def test_cupy_arrays() -> None:
    cupy = pytest.importorskip("cupy")
    image, grid = inputs(2)
    arrays = cupy.asarray(image.numpy()), cupy.asarray(grid.numpy())
    out = gridsample.grid_sample(*arrays)
    assert isinstance(out, cupy.ndarray)
    expected = gridsample.grid_sample(image, grid)
    torch.testing.assert_close(
        torch.from_numpy(out.get()), expected, rtol=0, atol=1e-12, equal_nan=True
    )
