"""The operators over the GPU kernels, in Triton's interpreter: types, fill values, derivatives."""

from __future__ import annotations

import dataclasses
from typing import Any

import cases
import numpy as np
import oracles
import plans
import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from interpreted import DOUBLE, SINGLE, inputs, operator_options

import gridsample
from gridsample.backends.torch import cuda, cuda_calls, derivatives, operators, schemas
from gridsample.definitions.dtypes import BFLOAT16
from gridsample.kernels import gpu, reference

# The interpreter's NumPy warns where a GPU does not.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")

TYPES = ("float16", "bfloat16", "complex64", "uint8", "int64", "uint64", "bool")


def typed(name: str) -> Tensor:
    if name == "bfloat16":
        return typed("float32").bfloat16()
    return torch.from_numpy(cases.pixels(cases.generator(name), (2, 2, 4, 5), name))


def stored(tensor: Tensor, exact: np.ndarray) -> None:
    """Assert that a tensor holds exact numbers, rounded to its dtype."""
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


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("name", TYPES)
def test_storage_dtypes(name: str, mode: str) -> None:
    image, (_, grid, _) = typed(name), inputs(2, 9)
    grid = (grid * 64).round() / 64  # exact in single precision
    numbers = (image.float() if name == "bfloat16" else image).numpy()
    options, names = operator_options(2, mode, "zeros"), (mode, "zeros", False)
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


@pytest.mark.covering
@pytest.mark.parametrize("extrapolate", [True, False])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("name", TYPES)
def test_fill_values_in_every_storage_dtype(name: str, mode: str, extrapolate: bool) -> None:
    image, (_, grid, _) = typed(name), inputs(2, 9)
    grid = (grid * 64).round() / 64
    numbers = (image.float() if name == "bfloat16" else image).numpy()
    names = (mode,) * 2, ("border" if not extrapolate else "constant",) * 2
    dtype = np.dtype("float32") if name == "bfloat16" else numbers.dtype
    plan = plans.plan_for(
        tuple(image.shape),
        dtype,
        tuple(grid.shape),
        np.dtype("float32"),
        *names,
        extrapolate=extrapolate,
    )
    if name == "bfloat16":
        plan = dataclasses.replace(plan, dtype=BFLOAT16)
    fill: Any = [300.5 + 2.25j, -1.75j] if image.is_complex() else [300.5, -7.25]
    parts = np.array(fill).view(float).tolist()
    call = operators.OperatorCall(plan, (0, 0), False, image.dtype)
    out = cuda.run_gather(call, image, grid.float(), parts)
    exact = reference.gather(
        numbers, grid.numpy(), *names, False, extrapolate=extrapolate, fill=fill
    )
    if plan.dtype.kind not in "biu":
        stored(out, exact)
        return
    # What the reference has rounded: sums next to a half may have gone to the other side.
    error = np.abs(out.numpy().astype(float) - exact.astype(float))
    assert error.max() <= max(1.0, DOUBLE * np.abs(exact.astype(float)).max())
    assert (error[..., grid.isnan().any(-1)[0].numpy()][0] == 0).all()


@pytest.mark.covering(ordinary=0, slow=1)
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
def test_double_backward_matches_the_reference(
    mode: str, boundary: str, coords: str, extrapolate: bool
) -> None:
    image, grid, values = inputs(1, 9)
    grid = grid if coords == "normalized" else 5 * grid + 2
    fill, counts = 1.5, {"coords": coords, "extrapolate": extrapolate}
    plan = plans.plan_for(
        tuple(image.shape),
        np.dtype(float),
        tuple(grid.shape),
        np.dtype(float),
        (mode,),
        (boundary,),
        **counts,
    )
    rng = cases.generator("directions", mode)
    u, m = (cases.pixels(rng, shape) for shape in (image.shape, grid.shape))
    call = operators.OperatorCall(plan, (0,), False, image.dtype)
    result = cuda.run_double_backward(
        call, values, image, grid, torch.from_numpy(u), torch.from_numpy(m), (True,) * 3, [fill]
    )

    known = grid.isfinite() if boundary not in reference.ENDS and extrapolate else ~grid.isnan()
    invalid = ~known.all(-1).numpy()

    def sample(pixels: Any, order: int, fill: float = 0) -> Any:
        names = (mode,), (boundary,), False, (order,)
        result = reference.gather(pixels, grid.numpy(), *names, **counts, fill=fill)
        return np.where(invalid[:, np.newaxis], 0, result)

    v, g, along = image.numpy(), values.numpy(), np.moveaxis(m, -1, 1)
    expected = (
        sample(u, 0) + along * sample(v, 1, fill),
        reference.scatter(
            g * along, grid.numpy(), image.shape[2:], (mode,), (boundary,), False, (1,), **counts
        ),
        (g * (sample(u, 1) + along * sample(v, 2, fill))).sum(1)[..., np.newaxis],
    )
    for actual, other in zip(result, expected, strict=True):
        oracles.assert_close(actual.numpy(), other, 64 * DOUBLE)


def test_derivatives_match_the_cpu() -> None:
    image, grid, values = inputs(2, 9)
    options = operator_options(2, ("cubic", "linear"), "reflection", 1, 0)
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
    beyond = operator_options(2, "linear", "zeros", 2, 0)
    assert not cuda.cuda_gather(image, grid, *beyond).any()
    assert not any(t.any() for t in cuda.cuda_backward(values, image, grid, True, True, *beyond))


@pytest.mark.parametrize(("items", "grids"), [(0, 1), (2, 0)])
def test_empty_batches(items: int, grids: int) -> None:
    image, grid, values = (
        t[:1].expand(n, *t.shape[1:])
        for t, n in zip(inputs(2), (1, grids, 0) if not items else (1, 0, 0), strict=True)
    )
    options = operator_options(2, "linear", "zeros")
    assert cuda.cuda_gather(image, grid[:0], *options).shape == (0, 3, 11)
    by_image, by_grid = cuda.cuda_backward(values, image, grid[:0], True, True, *options)
    assert not by_image.any() and by_grid.shape == (0, 11, 2)


class Context:
    """The context that autograd passes to the formulas."""

    def __init__(self, tensors: tuple[Tensor, ...], options: tuple[Any, ...]) -> None:
        self.saved_tensors, self.options = tensors, schemas.options_of(*options)
        self.needs_input_grad = (True,) * 3


@pytest.mark.parametrize(
    ("rank", "mode", "order"),
    [
        pytest.param(1, "cubic", (), marks=pytest.mark.slow),
        pytest.param(2, "linear", (), marks=pytest.mark.slow),
        (2, ("cubic", "nearest"), (1, 0)),
        pytest.param(2, ("linear", "cubic"), (), marks=pytest.mark.slow),
        pytest.param(3, "linear", (), marks=pytest.mark.slow),
        pytest.param(2, "cubic", (1, 0), marks=pytest.mark.slow),
        pytest.param(3, "cubic", (), marks=pytest.mark.slow),
    ],
)
def test_double_backward_matches_the_formulas(
    monkeypatch: pytest.MonkeyPatch, rank: int, mode: Any, order: tuple[int, ...]
) -> None:
    monkeypatch.setattr(derivatives, "fuses_double_backward", lambda *tensors: False)
    image, grid, values = inputs(rank)
    image[0, 0].view(-1)[0] = torch.nan  # where there is no derivative, it does not matter
    rng = cases.generator("upstream", rank)
    u = torch.from_numpy(cases.pixels(rng, image.shape))
    w = torch.from_numpy(cases.pixels(rng, grid.shape))
    options = operator_options(rank, mode, "border", *order)
    for up, along in ((u, w), (None, w), (u, None)):
        context = Context((values, image, grid), options)
        with torch.no_grad():
            expected = derivatives.Backward.backward(context, up, along)[:3]
        mine = cuda.cuda_double_backward(values, image, grid, up, along, True, True, True, *options)
        for actual, other in zip(mine, expected, strict=True):
            truth = torch.zeros_like(actual) if other is None else other.clone()
            if actual is mine[0]:  # 0 at invalid points
                truth.masked_fill_(grid.isnan().any(-1).unsqueeze(1), 0)
            torch.testing.assert_close(actual, truth, rtol=1e-11, atol=1e-11, equal_nan=True)


@pytest.mark.parametrize(
    ("channels", "items", "out", "dtype"),
    cases.slow_after(
        2,
        [
            *((2, 1, (3, 67), torch.float64), (9, 2, (40,), torch.float64)),
            *((9, 2, (3, 35), torch.float16), (3, 1, (5, 67), torch.float64)),
        ],
    ),
    ids=str,
)
def test_blocks_of_rows_and_interleaved_copies(
    channels: int,
    items: int,
    out: tuple[int, ...],
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Dense grids are divided into blocks of rows, and images with many channels are transposed."""
    monkeypatch.setattr(gpu, "WORTH", 0)
    image, _, _ = inputs(2, channels=channels, items=items)
    rng = cases.generator("interleaved", channels)
    grid = torch.from_numpy(rng.integers(-80, 80, (items, *out, 2)) / 64)
    values = torch.from_numpy(cases.pixels(rng, (items, channels, *out)))
    u, w = image.flip(-1), grid.flip(1) * 0.5
    image, values, u = (tensor.to(dtype) for tensor in (image, values, u))
    points = grid.to(torch.promote_types(dtype, torch.float32))
    options = operator_options(2, "linear", "border")
    needed = True, True, True
    mine = [cuda.cuda_gather(image, points, *options)]
    mine += cuda.cuda_backward(values, image, points, *needed[:2], *options)
    mine += cuda.cuda_double_backward(values, image, points, u, w.to(points), *needed, *options)
    call = torch.ops.gridsample
    other = [call.gather(image, points, *options)]
    other += call.backward(values, image, points, *needed[:2], *options)
    other += call.backward_twice(values, image, points, u, w.to(points), *needed, *options)
    for actual, expected in zip(mine, other, strict=True):
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        assert actual.is_contiguous()
        scale = 1e-12 if dtype == torch.float64 else 4e-3
        scale *= max(1.0, float(expected.double().abs().max()))
        torch.testing.assert_close(actual.double(), expected.double(), rtol=0, atol=scale)


def test_plain_tensors_skip_the_dispatcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tensors that seem to be on a GPU, public calls and their gradients run its kernels."""
    image, grid, values = inputs(2)
    results = []
    for on_gpu in (False, True):
        if on_gpu:
            monkeypatch.setattr(Tensor, "is_cuda", True)
            for name in ("is_eager_on_cpu", "have_eager_cpu_keys"):
                monkeypatch.setattr(operators, name, lambda *tensors: False)
            monkeypatch.setattr(cuda_calls, "eager_gpu_keys", lambda: operators.EAGER_KEYS)
            monkeypatch.setattr(derivatives, "is_eager", lambda *tensors: True)
        leaves = [tensor.clone().requires_grad_() for tensor in (image, grid)]
        out = gridsample.grid_sample(*leaves, "linear", "border")
        assert type(out.grad_fn).__name__ == "EagerGatherBackward"
        results.append([out, *torch.autograd.grad(out, leaves, values)])
    for mine, other in zip(*results, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-11, atol=1e-11, equal_nan=True)
        assert not torch.equal(mine.nan_to_num(), other.nan_to_num()) or mine is results[0][0]
