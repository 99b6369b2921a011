"""Plain tensors take a fast path to the kernels; modes and transforms see operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cases
import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

import gridsample
from gridsample.backends.torch import fast_path
from gridsample.backends.torch.operators import is_eager_on_cpu

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.trace`:DeprecationWarning")
GATHER = torch.ops.gridsample.gather.default


def tensors() -> tuple[Tensor, Tensor]:
    rng = cases.generator("plain")
    image = torch.from_numpy(rng.standard_normal((2, 3, 5, 7)))
    return image, torch.from_numpy(rng.uniform(-1.2, 1.2, (2, 4, 6, 2)))


class Seen(TorchDispatchMode):
    """Records the operators that are dispatched."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[Any] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.operators.append(function)
        return function(*args, **kwargs or {})


class Marked(Tensor):
    """A subclass of tensors without any changes."""


def in_dual_level(check: Callable[[], bool]) -> bool:
    with forward_ad.dual_level():
        return check()


def in_mode(check: Callable[[], Any]) -> Any:
    with Seen():
        return check()


def on_a_device(check: Callable[[], bool]) -> bool:
    with torch.device("cpu"):
        return check()


def test_fast_path_condition() -> None:
    image, grid = tensors()
    assert is_eager_on_cpu(image, torch.nn.Parameter(grid), image[::2])
    assert is_eager_on_cpu(image.bfloat16(), image.to(torch.uint8), image.requires_grad_())
    image, grid = tensors()
    for other in (
        image.to("meta"),
        image.to_sparse(),
        torch.complex(image, image).conj(),
        image.as_subclass(Marked),
        image.numpy(),
        None,
    ):
        assert not is_eager_on_cpu(image, other)
    for place in (in_dual_level, in_mode, on_a_device):
        assert not place(lambda: is_eager_on_cpu(image, grid))
    fast: list[bool] = []
    torch.func.vmap(lambda t: (fast.append(is_eager_on_cpu(t)), t)[1])(image)
    torch.func.grad(lambda t: (fast.append(is_eager_on_cpu(t)), t.sum())[1])(image)
    torch.func.functionalize(lambda t: (fast.append(is_eager_on_cpu(t)), t)[1])(image)
    torch.func.jvp(lambda t: (fast.append(is_eager_on_cpu(grid)), t)[1], (image,), (image,))
    torch.jit.trace(lambda t: (fast.append(is_eager_on_cpu(t)), t)[1], image, check_trace=False)
    assert len(fast) >= 5 and not any(fast)
    with torch.inference_mode():
        assert is_eager_on_cpu(image, image + 1)
    assert is_eager_on_cpu(image, grid)


@pytest.mark.covering
@pytest.mark.parametrize("items", [1, 2])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
def test_fast_path_and_dispatcher_agree_bit_for_bit(
    dtype: torch.dtype, last: bool, items: int
) -> None:
    image, grid = tensors()
    image, grid = image[:items].to(dtype), grid.float()
    if last:
        image = image.contiguous(memory_format=torch.channels_last)
    results = []
    for place in (lambda call: call(), in_mode):
        leaves = image.detach().requires_grad_(), grid.detach().requires_grad_()

        def call(leaves: Any = leaves) -> list[Tensor]:
            out = gridsample.grid_sample(*leaves, "bicubic", "reflection")
            return [out, *torch.autograd.grad(out.abs().square().sum(), leaves)]

        results.append(place(call))
    for short, long in zip(*results, strict=True):
        assert torch.equal(short, long)
        assert (short.dtype, short.stride()) == (long.dtype, long.stride())


@pytest.mark.covering
@pytest.mark.parametrize("mode", ["nearest", "linear", "spline3", "label"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.bfloat16], ids=str)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("size", [(3, 9), (5, 7), 1])
def test_fast_path_and_dispatcher_agree_for_resizing(
    mode: str, dtype: torch.dtype, last: bool, size: Any
) -> None:
    image = tensors()[0].abs().mul(50).to(torch.uint8 if mode == "label" else dtype)
    if last:
        image = image.contiguous(memory_format=torch.channels_last)
    short = gridsample.interpolate(image, size, mode=mode)
    long = in_mode(lambda: gridsample.interpolate(image, size, mode=mode))
    assert torch.equal(short, long)
    assert (short.dtype, short.stride()) == (long.dtype, long.stride())
    if image.is_floating_point():
        recorded = gridsample.interpolate(image.requires_grad_(), size, mode=mode)
        assert recorded.requires_grad and torch.equal(recorded, short)
        (gradient,) = torch.autograd.grad(recorded.sum(), image)
        assert gradient.any()


def test_dispatch_modes_see_operators() -> None:
    image, grid = tensors()
    with Seen() as seen:
        gridsample.grid_sample(image, grid)
        gridsample.interpolate(image, (3, 4))
    assert seen.operators == [GATHER, torch.ops.gridsample.resize.default]


def test_a_fast_path_graph_supports_every_use() -> None:
    image, grid = (t.requires_grad_() for t in tensors())
    out = gridsample.grid_sample(image, grid, "bicubic")
    assert "EagerGather" in out.grad_fn.name()
    upstream = torch.stack([torch.ones_like(out), out.detach()])
    batched = torch.autograd.grad(out, grid, upstream, retain_graph=True, is_grads_batched=True)[0]
    for mine, values in zip(batched, upstream, strict=True):
        torch.testing.assert_close(
            mine,
            torch.autograd.grad(out, grid, values, retain_graph=True)[0],
            rtol=1e-12,
            atol=1e-12,
        )
    (first,) = torch.autograd.grad(out.square().sum(), grid, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), grid)
    assert second.isfinite().all() and second.abs().sum() > 0


@pytest.mark.parametrize("kind", [Tensor.clone, Tensor.numpy], ids=["tensor", "array"])
def test_non_bool_flags_are_rejected_even_after_a_call(kind: Callable[[Tensor], Any]) -> None:
    image, grid = map(kind, tensors())
    gridsample.grid_sample(image, grid, align_corners=True)
    with pytest.raises(TypeError, match="align_corners must be True or False, got 1"):
        gridsample.grid_sample(image, grid, align_corners=1)


def test_a_prepared_call_serves_only_tensors_with_its_layouts() -> None:
    image, grid = torch.rand(2, 3, 6, 6), torch.rand(2, 5, 5, 2) * 2.4 - 1.2
    unpacked = torch.rand(4, 5, 6, 13).as_strided(image.shape, (5 * 6 * 13, 78, 13, 2), 1)
    images = image, image.mT, image.contiguous(memory_format=torch.channels_last), unpacked
    grids = grid, grid.transpose(1, 2), grid[:1].expand(2, -1, -1, -1)
    pairs = [(pixels, points) for pixels in images for points in grids]
    pairs += [(pixels.double(), points) for pixels, points in pairs]
    sizes = {"size": (4, 9), "mode": "bilinear"}
    for pixels, points in 2 * pairs:
        short = gridsample.grid_sample(pixels, points), gridsample.interpolate(pixels, **sizes)
        assert torch.equal(
            short[0], in_mode(lambda p=pixels, q=points: gridsample.grid_sample(p, q))
        )
        assert torch.equal(short[1], in_mode(lambda p=pixels: gridsample.interpolate(p, **sizes)))


def test_a_prepared_gradient_serves_only_upstream_values_with_its_layout() -> None:
    image, grid = (tensor.requires_grad_() for tensor in tensors())
    values = torch.randn(2, 3, 4, 6, dtype=torch.float64)
    whole = torch.randn(2, 3, 8, 6, dtype=torch.float64)
    upstreams = [
        values,
        values.to(memory_format=torch.channels_last),
        values[:1, :1, :1, :1].expand(2, 3, 4, 6),
        whole[:, :, ::2],
        whole[:, :, 4:],
        values.transpose(2, 3).contiguous().transpose(2, 3),
        values._neg_view(),
    ]
    for upstream in (*upstreams, *reversed(upstreams)):
        out = gridsample.grid_sample(image, grid)
        gradients = torch.autograd.grad(out, (image, grid), upstream)
        expected = torch.autograd.grad(
            torch.nn.functional.grid_sample(image, grid, align_corners=False),
            (image, grid),
            upstream.resolve_neg(),
        )
        torch.testing.assert_close(gradients, expected, rtol=1e-12, atol=1e-12)


def test_channels_that_come_last() -> None:
    image, grid = tensors()
    for _ in range(2):
        short = gridsample.grid_sample(image.movedim(1, -1), grid, channel_axis=-1)
        assert torch.equal(short, gridsample.grid_sample(image, grid).movedim(1, -1))
        filled = gridsample.grid_sample(image, grid, "linear", "constant", fill_value=2.0)
        long = in_mode(
            lambda: gridsample.grid_sample(image, grid, "linear", "constant", fill_value=2.0)
        )
        assert torch.equal(filled, long)


@pytest.mark.parametrize("channels", [3, 9])
@pytest.mark.parametrize("axis", [1, -1])
def test_gradients_of_channels_that_come_last_are_prepared(
    axis: int, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = cases.generator("channels last", axis, channels)
    image, grid, upstream = (
        torch.from_numpy(rng.uniform(-1, 1, shape))
        for shape in ((2, 6, 7, channels), (2, 4, 5, 2), (2, 4, 5, channels))
    )
    if axis == 1:
        image, upstream = image.movedim(-1, 1), upstream.movedim(-1, 1)

    def step() -> tuple[Tensor, ...]:
        leaves = image.detach().requires_grad_(), grid.detach().requires_grad_()
        sampled = gridsample.grid_sample(*leaves, "linear", "border", channel_axis=axis)
        return torch.autograd.grad(sampled, leaves, upstream)

    expected = in_mode(step)
    monkeypatch.setattr(fast_path, "backward", None)  # which is for those that are not
    for _ in range(2):
        gradients = step()
        for gradient, exact in zip(gradients, expected, strict=True):
            assert torch.equal(gradient, exact) and gradient.stride() == exact.stride()


def test_a_prepared_call_follows_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    from gridsample.kernels import run

    counts: list[int] = []
    work = run.pool.work
    monkeypatch.setattr(run.pool, "work", lambda *call: (counts.append(call[2]), work(*call))[1])
    image, grid = torch.rand(4, 8, 64, 64), torch.rand(4, 64, 64, 2)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 1, 2):
            torch.set_num_threads(threads)
            gridsample.grid_sample(image, grid)
            gridsample.interpolate(image, (256, 256), mode="bilinear")
            assert counts == ([] if threads == 1 else [2, 2])
            counts.clear()
    finally:
        torch.set_num_threads(before)
    gridsample.grid_sample(image, grid, threads=1)
    assert not counts


@pytest.mark.parametrize("kind", [Tensor.clone, Tensor.numpy], ids=["tensor", "array"])
def test_wrong_sizes_are_rejected_even_after_a_call(kind: Callable[[Tensor], Any]) -> None:
    image = kind(tensors()[0])
    expected = gridsample.interpolate(image, (3, 4))
    assert (gridsample.interpolate(image, [3, 4]) == expected).all()
    assert (gridsample.interpolate(image, torch.Size((3, 4))) == expected).all()
    with pytest.raises(TypeError, match="size must be an integer"):
        gridsample.interpolate(image, (3.0, 4.0))
    gridsample.interpolate(image, scale_factor=(1.0, 2.0))
    with pytest.raises(TypeError, match="scale_factor must be a number"):
        gridsample.interpolate(image, scale_factor=(True, 2.0))
    with pytest.raises(TypeError, match="antialias must be True or False"):
        gridsample.interpolate(image, (3, 4), antialias=0)
