"""`gridsample.operators.correlation_lookup` on tensors, and against RAFT's way to compute it."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from fused_tensors import (  # noqa: E402
    check_compilers,
    check_derivatives,
    check_gradients,
    close,
    leaves,
)

from gridsample.operators import (  # noqa: E402
    CorrelationBlock,
    correlation_lookup,
    correlation_lookup_vjp,
)

RADIUS, LEVELS = 2, 2


def inputs(queries: tuple[int, int] = (2, 3), dtype: Any = torch.float64, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    shapes = (1, 5, *queries), (1, 5, 4, 6)
    f1, f2 = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    positions = torch.rand(1, 2, *queries, generator=generator, dtype=torch.float64) * 7 - 1
    return [tensor.to(dtype) for tensor in (f1, f2, positions)]


def all_pairs(f1: Any, f2: Any, positions: Any, radius: int = RADIUS, levels: int = LEVELS) -> Any:
    """As RAFT: the correlation of all pairs, its halved levels, and windows of torch's samples."""
    batch, channels, height, width = f1.shape
    size = f2.shape[2:]
    products = torch.einsum("ncq,ncs->nqs", f1.flatten(2), f2.flatten(2)) / channels**0.5
    volume = products.reshape(batch * height * width, 1, *size)
    along = torch.linspace(-radius, radius, 2 * radius + 1, dtype=f1.dtype)
    # Pairs of offsets along y and x are added to x and y: the x of windows is slowest.
    delta = torch.stack(torch.meshgrid(along, along, indexing="ij"), -1)
    results = []
    for level in range(levels):
        places = positions.permute(0, 2, 3, 1).reshape(-1, 1, 1, 2) / 2**level + delta
        extent = torch.tensor([volume.shape[-1], volume.shape[-2]], dtype=f1.dtype) - 1
        samples = F.grid_sample(volume, 2 * places / extent - 1, align_corners=True)
        results.append(samples.view(batch, height, width, -1))
        volume = F.avg_pool2d(volume, 2)
    return torch.cat(results, -1).permute(0, 3, 1, 2)


def look_up(*tensors: Any) -> Any:
    return correlation_lookup(*tensors, RADIUS, LEVELS)


def test_windows_and_their_gradients_are_those_of_raft() -> None:
    check_gradients(look_up, all_pairs, inputs())


def test_gradients_are_those_that_autograd_finds() -> None:
    """Of arrays and of tensors; levels of odd sizes leave out pixels; also for fewer axes."""
    f1, f2, positions = inputs()
    f2 = torch.nn.functional.pad(f2, (0, 1, 0, 1), value=0.5)
    for places, first in ((positions, f1), (positions[:, :1], f2 * f2)):
        tensors = leaves([first, f2, places if first is f1 else places.new_ones(1, 1, 5, 7)])
        result = look_up(*tensors)
        upstream = torch.randn_like(result)
        result.backward(upstream)
        arrays = [tensor.detach().numpy() for tensor in tensors]
        own = correlation_lookup_vjp(upstream.numpy(), *arrays, RADIUS, LEVELS)
        same = correlation_lookup_vjp(upstream, *tensors, RADIUS, LEVELS)
        for tensor, array, other in zip(tensors, own, same, strict=True):
            close(torch.from_numpy(array), tensor.grad)
            close(other.detach(), tensor.grad)
        only = correlation_lookup_vjp(upstream.numpy(), *arrays, 2, 2, need_f1=False, need_f2=False)
        assert only[:2] == (None, None)
        close(torch.from_numpy(only[2]), tensors[2].grad)


def test_rows_are_those_of_raft_stereo() -> None:
    """One coordinate: the correlation of each row with itself, halved along it."""
    f1, f2, positions = inputs((4, 6))
    products = torch.einsum("nchq,nchs->nhqs", f1, f2) / 5**0.5
    volume = products.reshape(24, 1, 1, 6)
    along = torch.linspace(-RADIUS, RADIUS, 2 * RADIUS + 1, dtype=f1.dtype)
    results = []
    for level in range(LEVELS):
        x = positions[:, :1].reshape(24, 1, 1, 1) / 2**level + along.view(1, 1, -1, 1)
        grid = torch.cat([2 * x / (volume.shape[-1] - 1) - 1, torch.zeros_like(x)], -1)
        samples = F.grid_sample(volume, grid, align_corners=True)
        results.append(samples.view(1, 4, 6, -1))
        volume = F.avg_pool2d(volume, (1, 2))
    expected = torch.cat(results, -1).permute(0, 3, 1, 2)
    close(look_up(f1, f2, positions[:, :1]), expected)
    close(CorrelationBlock(f1, f2, LEVELS, RADIUS, axes=1)(positions[:, :1]), expected)


def test_derivatives() -> None:
    check_derivatives(look_up, inputs((1, 2)))


def test_the_operators_of_torch() -> None:
    source, images = torch.randn(1, 3, 5).double(), torch.randn(1, 30, 5).double()
    positions = torch.rand(1, 3, 2).double() * 6
    options = [4, 6, 2, 3], 2, RADIUS, None
    operator = torch.ops.gridsample.correlation_lookup.default
    torch.library.opcheck(operator, (*leaves([source, images, positions]), *options))
    backward = torch.ops.gridsample.correlation_lookup_backward.default
    upstream = torch.randn(1, 3, 50).double()
    needed = [True, False, True]
    torch.library.opcheck(backward, (upstream, source, images, positions, needed, *options))


@pytest.mark.slow
def test_compilers_see_one_node() -> None:
    check_compilers(look_up, inputs(), ["correlation_lookup"])


def test_transforms() -> None:
    pairs = [torch.stack(pair) for pair in zip(inputs(), inputs(seed=1), strict=True)]
    each = [look_up(*[tensor[k] for tensor in pairs]) for k in range(2)]
    close(torch.vmap(look_up)(*pairs), torch.stack(each))

    def loss(*tensors: Any) -> Any:
        return look_up(*tensors).square().sum()

    every = (0, 1, 2)
    gradients = torch.vmap(torch.func.grad(loss, every), (0, None, 0))(
        pairs[0], pairs[1][0], pairs[2]
    )
    for k in range(2):
        own = pairs[0][k], pairs[1][0], pairs[2][k]
        expected = torch.func.grad(lambda *t: all_pairs(*t).square().sum(), every)(*own)
        close([g[k] for g in gradients], [*expected])


def test_narrow_tensors_and_other_devices() -> None:
    tensors = inputs(dtype=torch.bfloat16)
    result = look_up(*tensors)
    assert result.dtype == torch.bfloat16
    close(result.float(), all_pairs(*[tensor.float() for tensor in tensors]), 2e-2)
    assert look_up(*[tensor.to("meta") for tensor in tensors]).shape == (1, 50, 2, 3)


def test_subclasses_override_the_function() -> None:
    class Marked(torch.Tensor):
        pass

    f1, f2, positions = inputs()
    assert type(look_up(f1, f2, positions.as_subclass(Marked))) is Marked
