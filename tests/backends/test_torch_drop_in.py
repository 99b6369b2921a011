"""Torch's own checks of `grid_sample`, applied to ours in its place."""

from __future__ import annotations

import contextlib
import functools
import itertools
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import cases
import pytest
import torch
from torch import Tensor
from torch.nn import functional

import gridsample
from gridsample.torch_compat import patch

TORCHS = functional.grid_sample
DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


# torch's samples ----------------------------------------------------------------------------------


def described(name: str, variant: str = "") -> Any:
    """Torch's description of one of its functions, whose import takes seconds."""
    from torch.testing._internal.common_methods_invocations import op_db

    (info,) = (
        opinfo for opinfo in op_db if (opinfo.name, opinfo.variant_test_name) == (name, variant)
    )
    return info


def samples(sampler: str, dtype: torch.dtype) -> Iterator[tuple[Tensor, Tensor, dict[str, Any]]]:
    """Torch's sample inputs: an image, a grid, and options by name."""
    info = described("nn.functional.grid_sample")
    assert info.dtypes == set(DTYPES)
    for sample in getattr(info, sampler)("cpu", dtype, requires_grad=False):
        grid, *options = sample.args
        names = ("mode", "padding_mode", "align_corners")
        yield sample.input, grid, {**dict(zip(names, options, strict=False)), **sample.kwargs}


def results(image: Tensor, grid: Tensor, options: dict[str, Any]) -> tuple[Tensor, ...]:
    """The output and both gradients of the present `torch.nn.functional.grid_sample`."""
    leaves = image.detach().clone().requires_grad_(), grid.detach().clone().requires_grad_()
    out = functional.grid_sample(*leaves, **options)
    upstream = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
    return out, *torch.autograd.grad(out, leaves, upstream)


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sampling_opinfo_samples_match_torch(dtype: torch.dtype, strict: bool) -> None:
    """In half precision, torch's result of the same numbers in float32 is the reference."""
    wide = torch.promote_types(dtype, torch.float32)
    error, count = 8 * torch.finfo(dtype).eps, 0
    for image, grid, options in samples("sample_inputs", dtype):
        theirs = results(image.to(wide), grid.to(wide), options)
        with patch(strict=strict):
            ours = results(image, grid, options)
        for mine, truth in zip(ours, theirs, strict=True):
            assert mine.dtype == dtype
            scale = max(1.0, truth.abs().max().item())
            assert (mine.to(wide) - truth).abs().max() <= 8 * error * scale
        count += 1
    assert count == 30


@pytest.mark.slow
def test_large_sampling_opinfo_samples_match_torch() -> None:
    for image, grid, options in samples("reference_inputs", torch.float64):
        theirs = results(image, grid, options)
        with patch():
            ours = results(image, grid, options)
        for mine, truth in zip(ours, theirs, strict=True):
            assert ((mine - truth).abs() > 1e-10 * truth.abs().max()).sum() == 0


# What its test-suite checks besides ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "grid"),
    [((0, 1, 5, 5), (0, 3, 3, 2)), ((2, 0, 5, 5), (2, 3, 3, 2)), ((2, 1, 5, 5), (2, 0, 3, 2))],
    ids=["no items", "no channels", "no points"],
)
@pytest.mark.parametrize("mode", cases.MODES)
def test_empty_tensors(mode: str, image: tuple[int, ...], grid: tuple[int, ...]) -> None:
    options = {"mode": {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)}
    call = torch.ones(image), torch.ones(grid), {**options, "align_corners": False}
    theirs = results(*call)
    with patch():
        ours = results(*call)
    assert [tensor.shape for tensor in ours] == [tensor.shape for tensor in theirs]
    assert not any(tensor.any() for tensor in ours[1:])


def test_nearest_rounds_as_in_torch_at_every_tie() -> None:
    size = 8
    image = torch.arange(size, dtype=torch.float64).reshape(1, 1, 1, size)
    x = torch.arange(-1, size + 1, 0.5).double() * 2 / (size - 1) - 1
    grid = torch.stack([x, torch.zeros_like(x)], -1).reshape(1, 1, -1, 2)
    for padding in cases.BOUNDARIES:
        theirs = TORCHS(image, grid, "nearest", padding, align_corners=True)
        ours = gridsample.grid_sample(image, grid, "nearest", padding, True)
        # In float64 a tie may be one rounding away from one: both compute it the same way.
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("rank", [2, 3])
def test_channels_last_gives_the_same_values(rank: int) -> None:
    rng = cases.generator("last", rank)
    form = {2: torch.channels_last, 3: torch.channels_last_3d}[rank]
    image = torch.from_numpy(rng.standard_normal((2, 9, *(5, 7, 6)[:rank])))
    grid = torch.from_numpy(rng.uniform(-1.3, 1.3, (2, *(3, 4, 5)[:rank], rank)))
    options = {"align_corners": True}
    theirs = results(image, grid, options)
    with patch():
        ours = results(image.contiguous(memory_format=form), grid, options)
    for mine, truth in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, truth, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_planes_of_more_than_two_billion_pixels() -> None:
    """Offsets have 64 bits where 32 bits do not suffice."""
    height, width = 2, 2**30 + 8
    image = torch.zeros(1, 1, height, width, dtype=torch.uint8)
    marks = [(0, 0), (0, width - 1), (1, 2**20), (1, width - 1)]
    for n, (y, x) in enumerate(marks, 1):
        image[0, 0, y, x] = n
    places = torch.tensor([(x, y) for y, x in marks], dtype=torch.float64)
    grid = (2 * places + 1) / torch.tensor([width, height]) - 1
    for mode in ("nearest", "bilinear"):
        out = gridsample.grid_sample(image, grid.reshape(1, -1, 2), mode)
        assert out.flatten().tolist() == [1, 2, 3, 4]


def test_tensors_on_several_devices_are_named() -> None:
    image, grid = torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 1, 2)
    for pair in ((image.to("meta"), grid), (image, grid.to("meta"))):
        with patch(), pytest.raises(RuntimeError, match=r"one device, got (meta|cpu) and"):
            functional.grid_sample(*pair, align_corners=False)


@pytest.mark.parametrize("place", ["input", "grid"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64], ids=str)
def test_dtype_errors_have_torchs_exception_type(dtype: torch.dtype, place: str) -> None:
    arguments = {"input": torch.ones(1, 1, 2, 2), "grid": torch.zeros(1, 1, 1, 2)}
    arguments[place] = arguments[place].to(dtype)
    with pytest.raises(RuntimeError):
        functional.grid_sample(**arguments, align_corners=False)
    with patch():
        if place == "grid":
            with pytest.raises(RuntimeError, match="grid has dtype"):
                functional.grid_sample(**arguments, align_corners=False)
        else:  # torch rejects these
            assert functional.grid_sample(**arguments, align_corners=False).dtype == dtype


# Coordinates that are nowhere ---------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("boundary", cases.BOUNDARIES)
@pytest.mark.parametrize("mode", cases.MODES)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_nan_and_infinity_forward_and_backward(
    rank: int, mode: str, boundary: str, corners: bool
) -> None:
    """Every combination of them in a point, among points that must not be affected."""
    odd = (torch.nan, torch.inf, -torch.inf, 3e38, -3e38, 0.3)
    points = torch.tensor([*itertools.product(odd, repeat=rank)]).reshape(1, -1, rank)
    good = points.isfinite().all(-1)[0] & (points.abs() < 1).all(-1)[0]
    image = torch.ones(1, 2, *(5, 6, 7)[:rank], requires_grad=True)
    grid = points.requires_grad_()
    out = gridsample.grid_sample(image, grid, mode, boundary, corners)
    by_image, by_grid = torch.autograd.grad(out.nansum(), (image, grid))
    nan = points.isnan().any(-1)[0]
    assert out[..., nan].isnan().all()
    torch.testing.assert_close(out[..., good], torch.ones_like(out[..., good]))
    assert by_image.isfinite().all() and by_grid.isfinite().all()
    assert (by_grid[:, nan] == 0).all()
    if boundary == "border":
        assert out[..., ~nan].isfinite().all()


# 2-D bilinear backward in torch 2.13.0 on CPU, in a process of its own: seen to end with SIGSEGV.
CRASHES = [("border", "nan"), ("reflection", "nan"), ("reflection", "inf"), ("reflection", "-inf")]

BACKWARD = """
import sys, torch
from torch.nn import functional
import gridsample.torch_compat
gridsample.torch_compat.patch()
for word in sys.argv[1:]:
    print(word, flush=True)
    boundary, value = word.split(",")
    image = torch.rand(1, 2, 5, 6, requires_grad=True)
    grid = torch.zeros(1, 3, 4, 2)
    grid[0, 0, 0, 0] = float(value)
    grid.requires_grad_()
    out = functional.grid_sample(image, grid, padding_mode=boundary, align_corners=False)
    out.nansum().backward()
    assert image.grad.isfinite().all() and grid.grad.isfinite().all()
"""


def test_inputs_that_may_crash_torch_do_not_crash_us() -> None:
    """Torch reads and writes out of bounds for these inputs."""
    words = [",".join(pair) for pair in CRASHES]
    command = [sys.executable, "-c", BACKWARD, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert done.stdout.split() == words


# interpolate --------------------------------------------------------------------------------------

RESIZERS = [
    *(("interpolate", mode) for mode in ("nearest", "nearest-exact", "linear", "bilinear",
                                         "bicubic", "trilinear", "area")),
    ("upsample_bilinear", ""),
    ("upsample_nearest", ""),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:`?nn.functional.upsample:UserWarning")
@pytest.mark.parametrize(("name", "variant"), cases.slow_after(1, RESIZERS))
def test_resizing_opinfo_samples_match_torch(name: str, variant: str) -> None:
    info = described(f"nn.functional.{name}", variant)
    samples = [*info.sample_inputs("cpu", torch.float64, requires_grad=False)]
    assert len(samples) >= 4
    for sample in samples[::2]:
        gradients: list[Any] = []
        for place in (contextlib.nullcontext, patch, functools.partial(patch, strict=True)):
            image = sample.input.detach().clone().requires_grad_()
            with place():
                out = getattr(functional, name)(image, *sample.args, **sample.kwargs)
            upstream = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
            gradients.append([out, *torch.autograd.grad(out, image, upstream)])
        for ours in gradients[1:]:
            torch.testing.assert_close(ours, gradients[0], rtol=1e-11, atol=1e-11)


def test_uint8_bicubic_matches_float() -> None:
    """Torch's result differs by up to 27 from its own result of floats."""
    torch.manual_seed(0)
    image = torch.randint(0, 256, (1, 1, 30, 30), dtype=torch.uint8)
    exact = functional.interpolate(image.double(), (14, 14), mode="bicubic")
    with patch():
        ours = functional.interpolate(image, (14, 14), mode="bicubic")
    assert (ours.double() - exact.round().clamp(0, 255)).abs().max() <= 1
