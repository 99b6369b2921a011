"""`gridsample.operators` on tensors: derivatives, transforms and compilers of torch."""

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

import gridsample  # noqa: E402
from gridsample.operators import deformable_attention, weighted_sum, weighted_sum_vjp  # noqa: E402

SIZES = ((3, 4), (2, 3), (1, 1))
# The heads, their channels, and the points of each level.
HEADS, CHANNELS, POINTS = 2, 3, 2


def inputs(queries: int = 3, batch: int = 1, dtype: Any = None, seed: int = 0) -> list[Any]:
    generator = torch.Generator().manual_seed(seed)
    pixels, levels = sum(h * w for h, w in SIZES), len(SIZES)
    shape = batch, queries, HEADS, levels, POINTS
    value = torch.randn(batch, pixels, HEADS, CHANNELS, generator=generator, dtype=torch.float64)
    places = torch.rand(*shape, 2, generator=generator, dtype=torch.float64) * 1.2 - 0.1
    weights = torch.rand(shape, generator=generator, dtype=torch.float64)
    weights = weights.flatten(3).softmax(-1).view(shape)
    return [tensor.to(dtype or torch.float64) for tensor in (value, places, weights)]


def plain(value: Any, locations: Any, weights: Any, sample: Any = F.grid_sample) -> Any:
    """Deformable attention by sampling, level by level; by default, torch's own."""
    batch, queries = locations.shape[:2]
    samples = []
    for k, part in enumerate(value.split([h * w for h, w in SIZES], 1)):
        image = part.permute(0, 2, 3, 1).reshape(batch * HEADS, CHANNELS, *SIZES[k])
        grid = 2 * locations[:, :, :, k].transpose(1, 2).flatten(0, 1) - 1
        samples.append(sample(image, grid, align_corners=False))
    shares = weights.transpose(1, 2).reshape(batch * HEADS, 1, queries, -1)
    total = (torch.stack(samples, -2).flatten(-2) * shares).sum(-1)
    return total.view(batch, -1, queries).transpose(1, 2)


def attend(*tensors: Any) -> Any:
    value, locations, weights = tensors
    return deformable_attention(value, SIZES, locations, weights)


def test_attention_and_its_gradients_are_those_of_the_plain_version() -> None:
    check_gradients(attend, plain, inputs())


def test_derivatives() -> None:
    check_derivatives(attend, inputs(2))
    tensors = leaves(inputs())
    tensors[0].requires_grad_(False)  # only some need gradients
    first, second = torch.autograd.grad(attend(*tensors).square().sum(), tensors[1:])
    reference = leaves(inputs())
    expected = plain(*reference).square().sum()
    close([first, second], [*torch.autograd.grad(expected, reference[1:])])


def test_the_operators_of_torch() -> None:
    flat = [n for size in SIZES for n in size]
    options = flat, 2, ["bilinear"] * 2, ["zeros"] * 2, False, "unit", None
    operator = torch.ops.gridsample.weighted_sum.default
    torch.library.opcheck(operator, (*leaves(inputs()), *options))
    upstream = torch.randn(1, 3, HEADS, CHANNELS, dtype=torch.float64)
    backward = torch.ops.gridsample.weighted_sum_backward.default
    needed = [True, False, True]
    torch.library.opcheck(backward, (upstream, *inputs(), needed, *options))


@pytest.mark.slow
def test_compilers_see_one_node() -> None:
    check_compilers(attend, inputs(), ["weighted_sum"])


def test_transforms() -> None:
    pairs = [torch.stack(pair) for pair in zip(inputs(), inputs(seed=1), strict=True)]
    each = [attend(*[tensor[k] for tensor in pairs]) for k in range(2)]
    close(torch.vmap(attend)(*pairs), torch.stack(each))
    shared = torch.vmap(attend, (None, 0, 0))(inputs()[0], *pairs[1:])
    close(shared[1], attend(inputs()[0], *[tensor[1] for tensor in pairs[1:]]))

    def loss(*tensors: Any) -> Any:
        return attend(*tensors).square().sum()

    def expected_loss(*tensors: Any) -> Any:
        return plain(*tensors, gridsample.grid_sample).square().sum()

    every = (0, 1, 2)
    gradients = torch.vmap(torch.func.grad(loss, every))(*pairs)
    for k in range(2):
        own = [tensor[k] for tensor in pairs]
        close([g[k] for g in gradients], [*torch.func.grad(expected_loss, every)(*own)])
    tangents = [torch.randn_like(tensor) for tensor in inputs()]
    along = torch.func.jvp(loss, tuple(inputs()), tuple(tangents))
    close(along, torch.func.jvp(expected_loss, tuple(inputs()), tuple(tangents)))

    value, points, weights = inputs()
    for outer in (torch.func.jacrev, torch.func.jacfwd):
        own, other = (
            outer(lambda shares, f=f: torch.func.grad(f, 2)(value, points, shares))(weights)
            for f in (loss, expected_loss)
        )
        close(own, other)


def test_narrow_tensors_are_summed_in_float32() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        value, places, weights = inputs(40, dtype=dtype)
        result = attend(value, places, weights)
        exact = attend(value.float(), places.float(), weights.float())
        assert result.dtype == dtype
        assert torch.equal(result, exact.to(dtype))
        mixed = attend(value, places.float(), weights.float())
        assert torch.equal(mixed, result)
        upstream = torch.randn_like(result).view(1, 40, HEADS, CHANNELS)
        options = {"coords": "unit"}
        narrow = weighted_sum_vjp(upstream, value, places, weights, SIZES, **options)
        tensors = [tensor.float() for tensor in (upstream, value, places, weights)]
        for a, b in zip(narrow, weighted_sum_vjp(*tensors, SIZES, **options), strict=True):
            assert torch.equal(a, b.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_gradients_have_the_strides_of_their_tensors(dtype: Any) -> None:
    """Also those of images whose channels come first, which are transposed by a program."""
    generator = torch.Generator().manual_seed(0)
    planes = torch.randn(2, 6, 45, 40, generator=generator, dtype=torch.float64).to(dtype)
    first = planes.flatten(2).permute(0, 2, 1)[:, :, None]
    points = torch.rand(2, 3, 1, 1, 2, 2, generator=generator, dtype=torch.float64).to(dtype)
    weights = torch.ones(2, 3, 1, 1, 2, dtype=dtype)
    results, gradients = [], []
    for images in (first, first.contiguous()):
        leaf = images.detach().requires_grad_()
        result = weighted_sum(leaf, points, weights, [(45, 40)], coords="unit")
        (gradient,) = torch.autograd.grad(result.square().sum(), leaf)
        assert gradient.stride() == images.stride()
        results.append(result)
        gradients.append(gradient)
    assert torch.equal(*results)
    assert torch.equal(*gradients)
    assert gradients[0].any()


def test_modes_without_a_program_are_composed() -> None:
    def spline(*tensors: Any) -> Any:
        return weighted_sum(*tensors, SIZES, "spline3", "mirror", coords="unit")

    tensors = inputs(2)
    assert torch.autograd.gradcheck(spline, leaves(tensors), fast_mode=True)
    meta = [tensor.to("meta") for tensor in tensors]
    assert attend(*meta).shape == (1, 2, HEADS * CHANNELS)


def test_subclasses_override_the_functions() -> None:
    class Marked(torch.Tensor):
        pass

    value, places, weights = inputs()
    marked = [value, places.as_subclass(Marked), weights]
    assert type(attend(*marked)) is Marked
    gradients = weighted_sum_vjp(value.new_ones(1, 3, HEADS, CHANNELS), *marked, SIZES)
    assert all(type(gradient) is Marked for gradient in gradients)
