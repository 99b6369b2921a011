"""`operators.deform_conv2d` and `deform_sum2d`, against their formulas in plain loops."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest

from gridsample.operators import deform_conv2d, deform_sum2d

# Kernels of 3 x 2 points, with all pairs different.
STEPS: dict[str, Any] = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2)}


def bilinear(image: Any, y: float, x: float) -> Any:
    """The sample of an image (..., H, W), with zeros outside."""
    total = np.zeros(image.shape[:-2])
    top, left = int(np.floor(y)), int(np.floor(x))
    for row, column in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
        if 0 <= row < image.shape[-2] and 0 <= column < image.shape[-1]:
            total += image[..., row, column] * (1 - abs(y - row)) * (1 - abs(x - column))
    return total


def convolved(image: Any, offset: Any, weight: Any, bias: Any, mask: Any, groups: int = 1) -> Any:
    """The convolution by its formula, with the kernels of STEPS; groups are those of offsets."""
    (items, channels), (outputs, each, *kernel) = image.shape[:2], weight.shape
    (rows, columns), count = offset.shape[2:], kernel[0] * kernel[1]
    moves = offset.reshape(items, groups, *kernel, 2, rows, columns)
    shares = np.ones((items, groups, *kernel, rows, columns))
    if mask is not None:
        shares = mask.reshape(shares.shape)
    assert offset.shape[1] == 2 * groups * count
    result = np.zeros((items, outputs, rows, columns))
    steps = zip(*STEPS.values(), strict=True)
    down, across = steps
    for n, o, c, a, b, i, j in np.ndindex(items, outputs, each, *kernel, rows, columns):
        channel = o // (outputs // (channels // each)) * each + c
        g = channel // (channels // groups)
        dy, dx = moves[n, g, a, b, :, i, j]
        y = i * down[0] - down[1] + a * down[2] + dy
        x = j * across[0] - across[1] + b * across[2] + dx
        share = shares[n, g, a, b, i, j] * weight[o, c, a, b]
        result[n, o, i, j] += share * bilinear(image[n, channel], y, x)
    return result if bias is None else result + bias[:, None, None]


def inputs(offset_groups: int = 1, weight_groups: int = 1, items: int = 2) -> list[Any]:
    """An image, offsets, kernels, a bias and a mask."""
    rng, size = cases.generator("convolution", offset_groups, weight_groups), (3, 8)
    count = offset_groups * 6
    return [
        rng.standard_normal((items, 4, 5, 6)),
        rng.uniform(-2, 2, (items, 2 * count, *size)),
        rng.standard_normal((6, 4 // weight_groups, 3, 2)),
        rng.standard_normal(6),
        rng.uniform(0, 1, (items, count, *size)),
    ]


def convolve(image: Any, offset: Any, weight: Any, bias: Any = None, mask: Any = None) -> Any:
    return deform_conv2d(image, offset, weight, bias, **STEPS, mask=mask)


@pytest.mark.parametrize(("offset_groups", "weight_groups"), [(1, 1), (2, 1), (1, 2), (4, 2)])
def test_convolution(offset_groups: int, weight_groups: int) -> None:
    arrays = inputs(offset_groups, weight_groups)
    expected = convolved(*arrays, offset_groups)
    np.testing.assert_allclose(convolve(*arrays), expected, rtol=1e-12, atol=1e-12)
    plain = convolved(*arrays[:3], None, None, offset_groups)
    np.testing.assert_allclose(convolve(*arrays[:3]), plain, rtol=1e-12, atol=1e-12)


def test_narrow_numbers_and_missing_positions() -> None:
    arrays = [array.astype(np.float16) for array in inputs(2)]
    result = convolve(*arrays)
    assert result.dtype == np.float16
    expected = convolve(*[array.astype(np.float64) for array in arrays])
    np.testing.assert_allclose(result, expected, rtol=2.0**-11, atol=1e-4)
    image, offset, weight, *_ = inputs()
    offset[0, 0, 1, 2] = np.nan
    missing = np.isnan(convolve(image, offset, weight))
    assert missing[0, :, 1, 2].all() and missing.sum() == weight.shape[0]
    assert convolve(*inputs(items=0)).shape == (0, 6, 3, 8)


def summed(image: Any, offset: Any, mask: Any, groups: int, scale: float, removed: bool) -> Any:
    """The sums by their formula, with 3 x 2 points, or with 3 x 3 but the middle one."""
    (items, rows, columns), channels = offset.shape[:3], image.shape[-1]
    kernel = (3, 3) if removed else (3, 2)
    moves = offset.reshape(items, rows, columns, groups, -1, 2)
    shares = mask.reshape(moves.shape[:-1])
    result = np.zeros((items, rows, columns, groups, channels // groups))
    down, across = zip(*STEPS.values(), strict=True)
    planes = np.moveaxis(image.reshape(*image.shape[:3], groups, -1), (1, 2), (3, 4))
    for n, i, j, g in np.ndindex(items, rows, columns, groups):
        place = 0
        for b in range(kernel[1]):
            for a in range(kernel[0]):
                if removed and (a, b) == (1, 1):
                    continue
                half_y, half_x = down[2] * (kernel[0] - 1) // 2, across[2] * (kernel[1] - 1) // 2
                dx, dy = moves[n, i, j, g, place]
                y = i * down[0] - down[1] + half_y + scale * (a * down[2] - half_y + dy)
                x = j * across[0] - across[1] + half_x + scale * (b * across[2] - half_x + dx)
                result[n, i, j, g] += shares[n, i, j, g, place] * bilinear(planes[n, g], y, x)
                place += 1
    return result.reshape(items, rows, columns, channels)


def sum_inputs(removed: bool = False, items: int = 2) -> list[Any]:
    """An image, offsets and a mask for two groups."""
    rng = cases.generator("kernel sums", removed)
    size, points = ((3, 6), 8) if removed else ((3, 8), 6)
    return [
        rng.standard_normal((items, 5, 6, 4)),
        rng.uniform(-2, 2, (items, *size, 2 * points * 2)),
        rng.uniform(0, 1, (items, *size, 2 * points)),
    ]


def sum_up(*arrays: Any, removed: bool = False) -> Any:
    kernel = (3, 3) if removed else (3, 2)
    steps = [n for pair in STEPS.values() for n in pair]
    return deform_sum2d(*arrays, *kernel, *steps, 2, 2, 0.7, removed)


@pytest.mark.parametrize("removed", [False, True])
def test_sums(removed: bool) -> None:
    arrays = sum_inputs(removed)
    expected = summed(*arrays, 2, 0.7, removed)
    result = sum_up(*arrays, removed=removed)
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    from fused_tensors import check_derivatives, close

    tensors = [torch.from_numpy(array) for array in inputs(2, 2, items=1)]
    close(convolve(*tensors), torch.from_numpy(convolve(*inputs(2, 2, items=1))))
    check_derivatives(convolve, tensors)
    without = [tensor.requires_grad_() for tensor in tensors[:3]]
    assert torch.autograd.gradcheck(convolve, without, fast_mode=True)
    check_derivatives(sum_up, [torch.from_numpy(array) for array in sum_inputs(items=1)])


def test_the_module() -> None:
    torch = pytest.importorskip("torch")
    from gridsample.nn import DeformConv2d

    image, offset, weight, bias, mask = [torch.from_numpy(array) for array in inputs(2, 2)]
    module = DeformConv2d(4, 6, (3, 2), **STEPS, groups=2).double()
    assert [name for name, _ in module.named_parameters()] == ["weight", "bias"]
    assert repr(module).endswith("padding=(1, 2), dilation=(1, 2), groups=2)")
    module.load_state_dict({"weight": weight, "bias": bias})
    result = module(image, offset, mask)
    torch.testing.assert_close(result, convolve(image, offset, weight, bias, mask))
    assert DeformConv2d(4, 6, 3, bias=False).bias is None
    with pytest.raises(ValueError, match="groups must divide in_channels and out_channels"):
        DeformConv2d(4, 6, 3, groups=4)


@pytest.mark.slow
def test_compilers() -> None:
    torch = pytest.importorskip("torch")
    from fused_tensors import check_compilers, close

    from gridsample.nn import DeformConv2d

    module = DeformConv2d(4, 6, 3)  # whose parameters have a class of their own
    image, offset = torch.randn(1, 4, 5, 5), torch.randn(1, 18, 3, 3)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    close(compiled(image, offset), module(image, offset))
    tensors = [torch.from_numpy(array) for array in inputs(2, 2, items=1)]
    check_compilers(convolve, tensors, ["weighted_sum"])
    arrays = sum_inputs(items=1)
    check_compilers(sum_up, [torch.from_numpy(array) for array in arrays], ["weighted_sum"])


def test_jax_arrays() -> None:
    jax = pytest.importorskip("jax")
    numbers = [array.astype(np.float32) for array in inputs(2, 2, items=1)]
    arrays = [jax.numpy.asarray(array) for array in numbers]
    result = jax.jit(convolve)(*arrays)
    np.testing.assert_allclose(result, convolve(*numbers), rtol=1e-5, atol=1e-5)
    torch = pytest.importorskip("torch")
    tensors = [torch.from_numpy(array).requires_grad_() for array in numbers]
    expected = torch.autograd.grad(convolve(*tensors).square().sum(), tensors)
    every = tuple(range(len(arrays)))
    gradients = jax.grad(lambda *a: (convolve(*a) ** 2).sum(), every)(*arrays)
    for gradient, other in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, other, rtol=1e-4, atol=1e-3)
    numbers = [array.astype(np.float32) for array in sum_inputs(True, items=1)]
    result = sum_up(*[jax.numpy.asarray(array) for array in numbers], removed=True)
    np.testing.assert_allclose(result, sum_up(*numbers, removed=True), rtol=1e-5, atol=1e-5)


def test_errors() -> None:
    image, offset, weight, bias, mask = inputs()
    with pytest.raises(ValueError, match=r"offset must have the shape \(2, 12, 3, 5\), got"):
        deform_conv2d(image, offset, weight)
    with pytest.raises(ValueError, match=r"mask must have the shape"):
        convolve(image, offset, weight, bias, mask[:1])
    with pytest.raises(ValueError, match=r"bias must have the shape \(6,\), got \(5,\)"):
        convolve(image, offset, weight, bias[:5])
    with pytest.raises(ValueError, match=r"offset must have G \* 12 entries"):
        convolve(image, offset[:, :6], weight)
    with pytest.raises(ValueError, match="does not divide the 4 channels of the input"):
        convolve(image, offset, weight[:, :3])
    with pytest.raises(ValueError, match="is larger than the image of"):
        deform_conv2d(image[..., :2], offset, weight, dilation=2)
    with pytest.raises(ValueError, match="stride must be at least 1"):
        deform_conv2d(image, offset, weight, stride=0)
    with pytest.raises(TypeError, match="dilation must be an integer or two"):
        deform_conv2d(image, offset, weight, dilation=(1, 1, 1))
    with pytest.raises(TypeError, match="mask has dtype int64"):
        convolve(image, offset, weight, bias, mask.astype(np.int64))
    image, offset, mask = sum_inputs()
    with pytest.raises(TypeError, match="offset_scale must be a number, got 'a'"):
        deform_sum2d(image, offset, mask, 3, 2, offset_scale="a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="remove_center=True needs a square kernel"):
        deform_sum2d(image, offset, mask, 3, 2, remove_center=True)
    for name in ("group", "group_channels"):
        for number in (1.5, (2, 3)):
            with pytest.raises(TypeError, match=f"{name} must be an integer, got "):
                deform_sum2d(image, offset, mask, 3, 2, **{name: number})
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            deform_sum2d(image, offset, mask, 3, 2, **{name: 0})
    with pytest.raises(ValueError, match="input has 4 channels, which are not 3 groups"):
        deform_sum2d(image, offset, mask, 3, 2, group=3)
    with pytest.raises(ValueError, match="offset must have the shape"):
        deform_sum2d(image, offset, mask, 3, 2, group=2)
