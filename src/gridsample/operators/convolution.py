"""Deformable convolution: samples around each pixel, multiplied by a matrix or summed by groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from gridsample.backends import Backend, backend_of, overridable
from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.checks import check_flag, check_number, check_threads
from gridsample.definitions.operators import check_types
from gridsample.definitions.shapes import Shape, as_whole, check_whole
from gridsample.operators.sums import weighted_sum
from gridsample.ops.arrays import Array, sum_type


@overridable(arrays=3)
def deform_conv2d(
    input: ArrayT,
    offset: ArrayT,
    weight: ArrayT,
    bias: ArrayT | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    mask: ArrayT | None = None,
    *,
    threads: int | None = None,
) -> ArrayT:
    """Convolve an image with kernels whose points are moved, as `torchvision.ops.deform_conv2d`.

    For each item n, output channel o and output pixel (i, j), over the points (a, b) of the kernel
    and the input channels c of the weight group of o:

        result[n, o, i, j] = bias[o] + sum over c, a and b of
            weight[o, c, a, b] * mask[n, g, a, b, i, j] * input[n, c](y, x)
        y = i * stride[0] - padding[0] + a * dilation[0] + offset[n, g, a, b, 0, i, j]
        x = j * stride[1] - padding[1] + b * dilation[1] + offset[n, g, a, b, 1, i, j]

    where g is the offset group of c, and input(y, x) a bilinear sample with zeros outside.  With a
    mask, this is version 2 of the operator, and version 1 without: J. Dai et al., "Deformable
    Convolutional Networks", 2017; X. Zhu et al., "Deformable ConvNets v2", 2019.

    The samples times the mask are computed by `weighted_sum`, in an array (N * Ho * Wo, kh * kw *
    C), which is multiplied by a matrix.

    Args:
        input: the image, (N, C, H, W); any floating-point dtype.
        offset: by how many pixels each point of the kernel moves, y and then x:
            (N, G * kh * kw * 2, Ho, Wo) for G groups of C / G channels.
        weight: the kernels, (O, C / groups, kh, kw); the number of groups follows from C.
        bias: (O,).
        stride: how many pixels of the input are between those of the output: (along y, along x),
            or one number for both; at least 1.
        padding: by how many pixels the input is extended by zeros on each side.
        dilation: how many pixels are between the points of the kernel; at least 1.
        mask: the factor of each point of the kernel, (N, G * kh * kw, Ho, Wo); None for 1.
        threads: the maximum number of threads; None for the default.

    Returns:
        (N, O, Ho, Wo), in the dtype of the input; a view whose channels are contiguous.  Half
        precision is summed in float32.  Where an offset is NaN, the result is NaN.  Results of
        tensors and JAX arrays have derivatives of any order, by all five arrays.

    Raises:
        TypeError: an array is not floating-point, or an option is not an integer.
        ValueError: shapes do not match, or an option is out of range.

    Example:
        >>> import numpy as np
        >>> from gridsample.operators import deform_conv2d
        >>> image = np.arange(9.0).reshape(1, 1, 3, 3)
        >>> offset = np.zeros((1, 2, 3, 3))
        >>> offset[:, 1] = 0.5  # half a pixel along x
        >>> deform_conv2d(image, offset, np.full((1, 1, 1, 1), 2.0))
        array([[[[ 1.,  3.,  2.],
                 [ 7.,  9.,  5.],
                 [13., 15.,  8.]]]])
    """
    check_threads(threads)
    arrays = {"input": input, "offset": offset, "weight": weight, "bias": bias, "mask": mask}
    backend, given = floats(arrays)
    shapes = {name: backend.shape(array) for name, array in given.items()}
    steps = pair(stride, "stride", 1), pair(padding, "padding", 0), pair(dilation, "dilation", 1)
    call = check_convolution(shapes, *steps)
    xp, (items, channels, height, width) = backend.xp, shapes["input"]
    (rows, columns), kernel, outputs = call.size, call.kernel, shapes["weight"][0]
    x, y = (kernel_points(backend, given["offset"], call, axis) for axis in (1, 0))
    queries, groups = rows * columns * math.prod(kernel), call.offset_groups
    points = xp.reshape(xp.stack([x, y], -1), (items, queries, groups, 1, 1, 2))
    each = items, groups, *kernel, rows, columns
    if "mask" in given:
        shares = backend.permute(xp.reshape(given["mask"], each), (0, 4, 5, 2, 3, 1))
    else:
        shares = backend.full((items, rows, columns, *kernel, groups), 1, x.dtype, x)
    shares = xp.reshape(shares, (items, queries, groups, 1, 1))
    real = sum_type(backend, *given.values())
    image = backend.astype(given["input"], real)
    pixels = backend.permute(image, (0, 2, 3, 1))
    pixels = xp.reshape(pixels, (items, height * width, groups, channels // groups))
    samples = weighted_sum(
        pixels, points, shares, [(height, width)], coords="pixel", threads=threads
    )
    result = product(backend, samples, backend.astype(given["weight"], real), call)
    if "bias" in given:
        result = result + backend.astype(given["bias"], real)
    result = backend.permute(xp.reshape(result, (items, *call.size, outputs)), (0, 3, 1, 2))
    return backend.restore(backend.astype(result, given["input"].dtype), input)


@overridable(arrays=3)
def deform_sum2d(
    input: ArrayT,
    offset: ArrayT,
    mask: ArrayT,
    kernel_h: int,
    kernel_w: int,
    stride_h: int = 1,
    stride_w: int = 1,
    pad_h: int = 0,
    pad_w: int = 0,
    dilation_h: int = 1,
    dilation_w: int = 1,
    group: int = 1,
    group_channels: int | None = None,
    offset_scale: float = 1.0,
    remove_center: bool = False,
    *,
    threads: int | None = None,
) -> ArrayT:
    """Sum the samples at the moved points of a kernel, with weights given for each pixel.

    It is the core of deformable convolution of versions 3 and 4, with the arguments of
    OpenGVLab's ``dcnv3_core_pytorch``.  For each group g of channels c, over the points (a, b) of
    the kernel, where a counts along x:

        result[n, i, j, g, c] = sum over a and b of
            mask[n, i, j, g, a, b] * input[n, :, :, g, c](y, x)
        x = j * stride_w - pad_w + h + offset_scale * (a * dilation_w - h + offset[..., a, b, 0])

    with h = dilation_w * (kernel_w - 1) // 2, and y likewise.  Samples are bilinear with zeros
    outside.  Unlike in `deform_conv2d`, weights do not mix channels, so that this is one call of
    `weighted_sum`, and no sample is kept.  The sources are W. Wang et al., "InternImage", 2023, and
    Y. Xiong et al., "Efficient Deformable ConvNets", 2024.

    Args:
        input: the image, channels last: (N, H, W, G * C) for G groups of C channels; any
            floating-point dtype.
        offset: by how many pixels, times ``offset_scale``, each of P points moves, x and then y:
            (N, Ho, Wo, G * P * 2).
        mask: the weight of each point, (N, Ho, Wo, G * P): those of version 3 are a softmax over
            the points of a group, those of version 4 are not.
        kernel_h: the number of points along y.
        kernel_w: the number of points along x.  Points are in the order of x: a is the slower
            index.
        stride_h: how many pixels of the input are between those of the output, along y.
        stride_w: the same along x.
        pad_h: by how many pixels the input is extended by zeros above and below.
        pad_w: by how many on the left and on the right.
        dilation_h: how many pixels are between the points of the kernel, along y.
        dilation_w: the same along x.
        group: the number of groups G.
        group_channels: the number of channels C of each group; None for as many as there are.
        offset_scale: the factor of the kernel and of the offsets.
        remove_center: whether to leave out the middle point, of a square kernel of odd size.
        threads: the maximum number of threads; None for the default.

    Returns:
        (N, Ho, Wo, G * C), in the dtype of the input.  Half precision is summed in float32.
        Results of tensors and JAX arrays have derivatives of any order.

    Raises:
        TypeError: an array is not floating-point, or an option has the wrong type.
        ValueError: shapes do not match, or an option is out of range.

    Example:
        >>> import numpy as np
        >>> from gridsample.operators import deform_sum2d
        >>> image = np.arange(9.0).reshape(1, 3, 3, 1)
        >>> offset, mask = np.zeros((1, 1, 1, 18)), np.full((1, 1, 1, 9), 1 / 9)
        >>> deform_sum2d(image, offset, mask, 3, 3).round(9).item()  # the mean
        4.0
    """
    check_threads(threads)
    backend, given = floats({"input": input, "offset": offset, "mask": mask})
    shapes = {name: backend.shape(array) for name, array in given.items()}
    steps = (
        pair((kernel_h, kernel_w), "kernel_h and kernel_w", 1),
        pair((stride_h, stride_w), "stride_h and stride_w", 1),
        pair((pad_h, pad_w), "pad_h and pad_w", 0),
        pair((dilation_h, dilation_w), "dilation_h and dilation_w", 1),
    )
    check_number(offset_scale, "offset_scale")
    remove_center = check_flag(remove_center, "remove_center")
    call = check_sum(shapes, steps, (group, group_channels), remove_center)
    xp, (items, height, width, channels) = backend.xp, shapes["input"]
    (rows, columns), groups = call.size, call.offset_groups
    count = math.prod(call.kernel) - remove_center
    places = []
    real = sum_type(backend, given["offset"])
    moves = xp.reshape(
        backend.astype(given["offset"], real), (items, rows, columns, groups, count, 2)
    )
    for axis in (1, 0):  # x first
        size, half = call.size[axis], call.dilation[axis] * (call.kernel[axis] - 1) // 2
        line = backend.line(size, None, real, moves) * call.stride[axis] + half
        shape = (columns, 1, 1) if axis else (rows, 1, 1, 1)
        base = xp.reshape(line - call.padding[axis], shape)
        along = kernel_line(backend, call, axis, remove_center, moves) - half
        places.append(base + (moves[..., 1 - axis] + along) * offset_scale)
    queries = rows * columns
    points = xp.reshape(xp.stack(places, -1), (items, queries, groups, 1, count, 2))
    shares = xp.reshape(given["mask"], (items, queries, groups, 1, count))
    pixels = xp.reshape(given["input"], (items, height * width, groups, channels // max(groups, 1)))
    result = weighted_sum(
        pixels, points, shares, [(height, width)], coords="pixel", threads=threads
    )
    return backend.restore(xp.reshape(result, (items, rows, columns, channels)), input)


class Kernel(NamedTuple):
    """The kernel of a checked call; pairs are (along y, along x).

    Attributes:
        kernel: the number of its points.
        stride: how many pixels of the input are between those of the output.
        padding: by how many pixels the input is extended on each side.
        dilation: how many pixels are between points.
        size: the output's spatial shape.
        offset_groups: the number of groups of channels with offsets of their own.
        weight_groups: that of groups that are multiplied by matrices of their own.
    """

    kernel: Shape
    stride: Shape
    padding: Shape
    dilation: Shape
    size: Shape
    offset_groups: int
    weight_groups: int = 1


def kernel_points(backend: Backend, offset: Array, call: Kernel, axis: int) -> Array:
    """Return the positions of the points of kernels along an axis: (N, Ho, Wo, kh, kw, G)."""
    real = sum_type(backend, offset)
    shape = offset.shape[0], call.offset_groups, *call.kernel, 2, *call.size
    moves = backend.xp.reshape(backend.astype(offset, real), shape)[:, :, :, :, axis]
    moves = backend.permute(moves, (0, 4, 5, 2, 3, 1))
    starts = backend.line(call.size[axis], None, real, offset) * call.stride[axis]
    along = backend.line(call.kernel[axis], None, real, offset) * call.dilation[axis]
    starts = backend.xp.reshape(starts - call.padding[axis], (-1, *(1,) * (4 - axis)))
    return moves + starts + backend.xp.reshape(along, (-1, *(1,) * (2 - axis)))


def kernel_line(backend: Backend, call: Kernel, axis: int, removed: bool, like: Array) -> Array:
    """Return the coordinates of the points of a kernel along an axis, x slowest: (P,)."""
    xp, (rows, columns) = backend.xp, call.kernel
    line = backend.line(call.kernel[axis], None, like.dtype, like) * call.dilation[axis]
    line = xp.reshape(line, (columns, 1) if axis else (1, rows))
    points = xp.reshape(xp.broadcast_to(line, (columns, rows)), (rows * columns,))
    middle = rows * columns // 2
    return backend.concatenate([points[:middle], points[middle + 1 :]], 0) if removed else points


def product(backend: Backend, samples: Array, weight: Array, call: Kernel) -> Array:
    """Multiply samples (N, Ho * Wo * K, G, C / G) by kernels: (N * Ho * Wo, O)."""
    xp, groups, count = backend.xp, call.weight_groups, math.prod(call.kernel)
    pixels, (outputs, channels) = samples.shape[0] * math.prod(call.size), weight.shape[:2]
    samples = xp.reshape(samples, (pixels, count, groups, channels))
    samples = xp.reshape(backend.permute(samples, (2, 0, 1, 3)), (groups, pixels, count * channels))
    kernels = xp.reshape(weight, (groups, outputs // groups, channels, count))
    kernels = backend.permute(kernels, (0, 3, 2, 1))
    kernels = xp.reshape(kernels, (groups, count * channels, outputs // groups))
    result = backend.permute(xp.matmul(samples, kernels), (1, 0, 2))
    return xp.reshape(result, (pixels, outputs))


# Checks -------------------------------------------------------------------------------------------


def floats(arrays: dict[str, Any]) -> tuple[Backend, dict[str, Array]]:
    """Return the backend and the arrays by name, without those that are None.

    Raises:
        TypeError: an array is not floating-point.
    """
    named = {name: array for name, array in arrays.items() if array is not None}
    backend = backend_of(**named)
    given = dict(zip(named, backend.to_device(**named), strict=True))
    check_types(**{name: backend.type_name(array.dtype, name) for name, array in given.items()})
    return backend, given


def pair(numbers: Any, name: str, least: int) -> tuple[int, int]:
    """Return (along y, along x) of an option that may be one number for both.

    Raises:
        TypeError: it is not one or two integers.
        ValueError: a number is less than ``least``.
    """
    try:
        both = (numbers, numbers) if hasattr(numbers, "__index__") else numbers
        first, second = [as_whole(n) for n in both]
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be an integer or two, got {numbers!r}") from None
    if min(first, second) < least:
        raise ValueError(f"{name} must be at least {least}, got {numbers!r}")
    return first, second


def check_convolution(
    shapes: dict[str, Shape],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
) -> Kernel:
    """Check the shapes of a call of `deform_conv2d`.

    Raises:
        ValueError: they do not match.
    """
    image, offset, weight = shapes["input"], shapes["offset"], shapes["weight"]
    if not len(image) == len(offset) == len(weight) == 4:
        raise ValueError(
            "input must be (N, C, H, W), offset (N, G * kh * kw * 2, Ho, Wo) and weight "
            f"(O, C / groups, kh, kw); got shapes {image}, {offset} and {weight}"
        )
    kernel, channels = weight[2:], image[1]
    if 0 in weight or 0 in image[1:]:
        raise ValueError(f"input and weight must not be empty, got shapes {image} and {weight}")
    weight_groups = channels // weight[1]
    if channels % weight[1] or weight[0] % weight_groups:
        raise ValueError(
            f"weight {weight} does not divide the {channels} channels of the input into groups of "
            f"{weight[1]}, and its {weight[0]} kernels among them"
        )
    count = math.prod(kernel)
    groups = offset[1] // (2 * count)
    if not groups or offset[1] % (2 * count) or channels % groups:
        raise ValueError(
            f"offset must have G * {2 * count} entries on its second axis for a kernel of "
            f"{kernel[0]} x {kernel[1]} points, where G divides {channels} channels; got "
            f"{offset[1]}"
        )
    size = output_size(image[2:], kernel, stride, padding, dilation)
    expected = {"offset": (image[0], 2 * groups * count, *size)}
    expected |= {"mask": (image[0], groups * count, *size), "bias": (weight[0],)}
    check_expected(shapes, expected)
    return Kernel(kernel, stride, padding, dilation, size, groups, weight_groups)


def check_sum(
    shapes: dict[str, Shape],
    steps: Sequence[tuple[int, int]],
    groups: tuple[int, int | None],
    remove_center: bool,
) -> Kernel:
    """Check the shapes of a call of `deform_sum2d`.

    Raises:
        ValueError: they do not match.
    """
    image = shapes["input"]
    if len(image) != 4 or 0 in image[1:]:
        raise ValueError(f"input must be (N, H, W, C) and not empty, got shape {image}")
    kernel, stride, padding, dilation = steps
    if remove_center and (kernel[0] != kernel[1] or kernel[0] % 2 == 0):
        raise ValueError(
            f"remove_center=True needs a square kernel of odd size, got {kernel[0]} x {kernel[1]}"
        )
    count, each = groups
    number = check_whole(count, "group", 1)
    channels = image[3] // number if each is None else check_whole(each, "group_channels", 1)
    if number * channels != image[3]:
        raise ValueError(
            f"input has {image[3]} channels, which are not {number} groups"
            + (f" of {channels}" if each is not None else "")
        )
    size = output_size(image[1:3], kernel, stride, padding, dilation)
    points = number * (math.prod(kernel) - remove_center)
    expected = {"offset": (image[0], *size, 2 * points), "mask": (image[0], *size, points)}
    check_expected(shapes, expected)
    return Kernel(kernel, stride, padding, dilation, size, number)


def check_expected(shapes: dict[str, Shape], expected: dict[str, Shape]) -> None:
    """Check the shapes of arrays that follow from others.

    Raises:
        ValueError: an array has another shape.
    """
    for name, shape in expected.items():
        if name in shapes and tuple(shapes[name]) != tuple(shape):
            raise ValueError(f"{name} must have the shape {tuple(shape)}, got {shapes[name]}")


def output_size(
    image: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Shape:
    """Return the spatial shape of a convolution.

    Raises:
        ValueError: the kernel is larger than the extended image.
    """
    size = []
    for axis in range(2):
        room = image[axis] + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1
        if room < 0:
            raise ValueError(
                f"a kernel of {tuple(kernel)} points with dilation {tuple(dilation)} is larger "
                f"than the image of {tuple(image)} pixels with padding {tuple(padding)}"
            )
        size.append(room // stride[axis] + 1)
    return tuple(size)
