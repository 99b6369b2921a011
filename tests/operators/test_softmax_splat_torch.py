"""`gridsample.operators.softmax_splat` on tensors."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from fused_tensors import (  # noqa: E402
    check_compilers,
    check_derivatives,
    check_gradients,
    close,
    leaves,
)

from gridsample.operators import softmax_splat, softmax_splat_vjp  # noqa: E402


def inputs(seed: int = 0, items: int = 1) -> list[Any]:
    generator = torch.Generator().manual_seed(seed)
    options = {"generator": generator, "dtype": torch.float64}
    image = torch.randn(items, 3, 3, 4, **options)
    flow = torch.rand(items, 2, 3, 4, **options) * 3 - 1.5
    return [image, flow, torch.randn(items, 1, 3, 4, **options) * 2]


def plain(image: Any, flow: Any, metric: Any) -> Any:
    """The published formula, with exponents relative to the greatest metric of all."""
    items, channels, height, width = image.shape
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    weights = (metric - metric.amax((2, 3), keepdim=True)).exp()
    values = torch.cat([image * weights, weights], 1).flatten(2)
    total = torch.zeros_like(values)
    places = x + flow[:, 0], y + flow[:, 1]
    for dx in (0, 1):
        for dy in (0, 1):
            left, top = (place.floor() for place in places)
            across, down = places[0] - left, places[1] - top
            share = (across if dx else 1 - across) * (down if dy else 1 - down)
            column, row = (left + dx).long(), (top + dy).long()
            inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            index = torch.where(inside, row * width + column, 0).flatten(1)
            added = values * (share * inside).flatten(1)[:, None]
            total = total.scatter_add(2, index[:, None].expand_as(added), added)
    count = total[:, -1:]
    means = total[:, :-1] / torch.where(count == 0, 1, count)
    return means.view(items, channels, height, width)


def test_means_and_their_gradients_are_those_of_the_published_formula() -> None:
    check_gradients(softmax_splat, plain, inputs())


def test_weights_do_not_vanish_beside_greater_ones_elsewhere() -> None:
    image, flow, metric = inputs()
    metric[..., :2] += 1e4
    assert ((plain(image, flow, metric) == 0) & (softmax_splat(image, flow, metric) != 0)).any()
    assert softmax_splat(image, flow, metric).isfinite().all()


@pytest.mark.parametrize("mode", ["sum", "average", "linear", "soft", "maximum"])
def test_gradients_are_those_that_autograd_finds(mode: str) -> None:
    """Of arrays and of tensors; some pixels do not count, or leave the image."""
    image, flow, metric = inputs(items=2)
    metric = metric.sign().exp()  # so that some values share a maximum
    image[0, :, 0, 0] = flow[0, 1, 0, 0] = math.nan
    flow[1, 0, 1, 1] = 1e9
    if mode not in ("sum", "average"):
        image[1, :, 2, 2] = metric[1, 0, 2, 2] = math.nan
    given = [image, flow] if mode in ("sum", "average") else [image, flow, metric]
    tensors = leaves(given)
    result = softmax_splat(*tensors, mode=mode)
    upstream = torch.randn_like(result)
    result.backward(upstream)
    own = softmax_splat_vjp(upstream.numpy(), *[t.numpy() for t in given], mode=mode)
    same = softmax_splat_vjp(upstream, *tensors, mode=mode)
    assert (own[2] is None) == (len(given) == 2)
    for tensor, array, other in zip(tensors, own[: len(given)], same[: len(given)], strict=True):
        assert array.shape == tensor.shape
        close(torch.from_numpy(array), tensor.grad)
        close(other.detach(), tensor.grad)
        assert tensor.grad.isfinite().all()
    arrays = [upstream.numpy(), *[t.numpy() for t in given]]
    only = softmax_splat_vjp(*arrays, mode=mode, need_input=False, need_metric=False)
    assert only[0] is None
    assert only[2] is None
    close(torch.from_numpy(only[1]), tensors[1].grad)


@pytest.mark.parametrize("mode", ["average", "soft"])
def test_gradients_have_derivatives(mode: str) -> None:
    image, flow, metric = inputs()
    given = [image, flow] if mode == "average" else [image, flow, metric]

    def differentiate(upstream: Any, *arrays: Any) -> Any:
        gradients = softmax_splat_vjp(upstream, *arrays, mode=mode)
        return tuple(gradient for gradient in gradients if gradient is not None)

    check = torch.autograd.gradcheck
    assert check(differentiate, leaves([torch.randn_like(image), *given]), fast_mode=True)


@pytest.mark.parametrize("mode", ["soft", "linear"])
def test_derivatives(mode: str) -> None:
    def splat(image: Any, flow: Any, metric: Any) -> Any:
        return softmax_splat(image, flow, metric.exp() if mode == "linear" else metric, mode)

    check_derivatives(splat, inputs())


def test_only_the_values_of_a_maximum_and_their_positions_have_gradients() -> None:
    image, flow, metric = inputs()
    metric = metric.sign()  # so that some values share a maximum
    tensors = leaves([image, flow, metric])
    softmax_splat(*tensors, mode="maximum").square().sum().backward()
    assert tensors[0].grad.any()
    assert tensors[1].grad.any()
    assert not tensors[2].grad.any()
    function = lambda *given: softmax_splat(*given, metric, "maximum")  # noqa: E731
    assert torch.autograd.gradcheck(function, leaves([image, flow]), fast_mode=True)


def test_the_operators_of_torch() -> None:
    values, metric, positions = torch.randn(1, 12, 3), torch.randn(1, 12), torch.rand(1, 12, 2) * 3
    arrays = [values.double(), metric.double(), positions.double()]
    options = [3, 4], ["zeros"] * 2, False, None
    operators = torch.ops.gridsample
    greatest = operators.splat_maximum.default(*arrays[1:], *options)
    torch.library.opcheck(operators.splat_maximum.default, (*arrays[1:], *options))
    total = operators.splat_total.default(*arrays[1:], greatest, *options)
    torch.library.opcheck(operators.splat_total.default, (*arrays[1:], greatest, *options))
    every = [*leaves(arrays), greatest, total]
    torch.library.opcheck(operators.softmax_splat.default, (*every, *options))
    upstream, needed = torch.randn(1, 12, 3).double(), [True, False, True, False, False]
    backward = operators.softmax_splat_backward.default
    torch.library.opcheck(backward, (upstream, *arrays, greatest, total, needed, *options))


@pytest.mark.slow
def test_compilers_see_a_node_for_each_operator() -> None:
    check_compilers(softmax_splat, inputs(), ["splat_maximum", "splat_total", "softmax_splat"])


def test_transforms() -> None:
    pairs = [torch.stack(pair) for pair in zip(inputs(), inputs(1), strict=True)]
    each = [softmax_splat(*[tensor[k] for tensor in pairs]) for k in range(2)]
    close(torch.vmap(softmax_splat)(*pairs), torch.stack(each))

    def loss(*tensors: Any) -> Any:
        return softmax_splat(*tensors).square().sum()

    every = (0, 1, 2)
    gradients = torch.vmap(torch.func.grad(loss, every))(*pairs)
    for k in range(2):
        own = [tensor[k] for tensor in pairs]
        expected = torch.func.grad(lambda *t: plain(*t).square().sum(), every)(*own)
        close([g[k] for g in gradients], [*expected])


def test_other_devices_and_classes() -> None:
    class Marked(torch.Tensor):
        pass

    tensors = inputs()
    assert softmax_splat(*[tensor.to("meta") for tensor in tensors]).shape == (1, 3, 3, 4)
    assert type(softmax_splat(tensors[0], tensors[1].as_subclass(Marked), tensors[2])) is Marked
    narrow = [tensor.bfloat16() for tensor in tensors]
    assert softmax_splat(*narrow).dtype == torch.bfloat16
    tensors[2][0, 0, 0, 0] = math.nan
    assert softmax_splat(*tensors).isfinite().all()
