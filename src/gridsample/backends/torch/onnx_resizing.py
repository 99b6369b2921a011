"""ONNX: resizing with the standard operator Resize, where that supports the call.

Resize has one mode for all axes, and runtimes implement cubic only for two axes.  Since resizing
processes one axis after the other, other cases become several nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gridsample.backends.torch.onnx import node
from gridsample.backends.torch.schemas import resizing_of
from gridsample.definitions.cells import AxisMethod
from gridsample.definitions.methods import AREA, CUBIC, LINEAR, NEAREST, NEAREST_EXACT
from gridsample.definitions.options import Resizing
from gridsample.definitions.tables import Axis, aligns, copies, rounded_order

# Resize supports antialiasing since this opset; the exporter converts it to others.
OPSET = 18
COPYING = {NEAREST, NEAREST_EXACT}
# Torch's positions and weights, which are also ours, as attributes of Resize.
ATTRIBUTES: dict[AxisMethod, dict[str, Any]] = {
    NEAREST: {
        "mode": "nearest",
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    },
    NEAREST_EXACT: {
        "mode": "nearest",
        "coordinate_transformation_mode": "half_pixel",
        "nearest_mode": "round_prefer_ceil",
    },
    LINEAR: {"mode": "linear"},
    CUBIC: {"mode": "cubic", "cubic_coeff_a": -0.75},
}
# The most spatial axes that runtimes resize.
MAX_RANK = 3
# The dtypes that float32 represents exactly, because runtimes resize in float32.
CARRIED = (
    *(torch.float32, torch.float16, torch.bfloat16),
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16),
)


def check_expressible(image: Tensor, resizing: Resizing, transposed: bool) -> None:
    """Raise an error if Resize does not support a call.

    Raises:
        ValueError: the call is a gradient, or Resize or its runtimes lack the mode or the dtype.
    """
    if transposed:
        raise ValueError("ONNX has no operator for the gradient of resizing, only for resizing")
    methods, smooths = set(resizing.methods), resizing.antialias
    aligned = resizing.align_corners and any(map(aligns, methods))
    known = methods <= ATTRIBUTES.keys() and not (smooths and (aligned or methods & COPYING))
    few_axes = len(resizing.methods) <= MAX_RANK
    known = few_axes and (known or is_pooling(image, resizing))
    if not known or image.dtype not in CARRIED:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in CARRIED)
        modes = tuple([str(getattr(m, "name", m)) for m in resizing.methods[::-1]])
        raise ValueError(
            "ONNX's Resize has the modes nearest, nearest-exact, linear and cubic, and antialias "
            "for linear and cubic without align_corners; area must divide fixed sizes; and "
            f"runtimes resize up to {MAX_RANK} axes, in float32 (accepted: {names}); got mode "
            f"{modes} (x, y, z), antialias={resizing.antialias}, "
            f"align_corners={resizing.align_corners}, input {image.dtype}, sizes "
            f"{tuple(image.shape[2:])} to {tuple(resizing.size)}"
        )


def is_pooling(image: Tensor, resizing: Resizing) -> bool:
    """Whether each output is the mean of pixels that belong to no other output."""
    sizes: list[tuple[Any, Any]] = list(zip(image.shape[2:], resizing.size, strict=True))
    return set(resizing.methods) == {AREA} and all(
        isinstance(n, int) and isinstance(m, int) and n % m == 0 for n, m in sizes
    )


def stages(image: Tensor, resizing: Resizing) -> list[tuple[int, ...]]:
    """The axes that each node resizes: as many at once as runtimes support."""
    rank, methods = len(resizing.methods), set(resizing.methods)
    if resizing.rounding != "exact" or len(methods) > 1:
        order = rounded_order(image.shape[2:], resizing.size, resizing.rounding)
        return [(axis,) for axis in order]
    if methods == {CUBIC} and rank == 3:
        return [(1, 2), (0,)]
    return [tuple(range(rank))]


def resize_as_node(image: Tensor, *options: Any) -> Tensor:
    """Express resize as nodes of an ONNX model; the result is zeros until the model runs."""
    resizing, transposed = resizing_of(*options)
    check_expressible(image, resizing, transposed)
    is_integer = not image.is_floating_point()
    resizing = resizing._replace(rounding=resizing.rounding if is_integer else "exact")
    values = image.to(torch.float32)
    for axes in stages(image, resizing):
        values = resize_axes(values, axes, resizing)
        if resizing.rounding != "exact":
            values = rounded_to(values, image.dtype, halves_up=image.dtype == torch.uint8)
    copied = set(resizing.methods) <= COPYING
    if is_integer and not copied and resizing.rounding == "exact":
        values = rounded_to(values, image.dtype)
    return values.to(image.dtype)


def rounded_to(values: Tensor, dtype: torch.dtype, halves_up: bool = False) -> Tensor:
    """Round numbers to integers, half to even or half up, and clip them to the range of a dtype."""
    low, high = (0, 1) if dtype == torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    result = torch.floor(values + 0.5) if halves_up else torch.round(values)
    return torch.clamp(result, low, high)


def resize_axes(values: Tensor, axes: Sequence[int], resizing: Resizing) -> Tensor:
    """Resize adjacent axes of (N, C, *spatial) with the same method."""
    method, shape = resizing.methods[axes[0]], list(values.shape)
    if method == AREA:
        pool = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)
        rank = len(resizing.methods)
        steps = [shape[k + 2] // resizing.size[k] if k in axes else 1 for k in range(rank)]
        pooled: Tensor = pool[rank - 1](values, steps, steps)
        return pooled
    if method in COPYING and not all(
        runtimes_agree(axis, shape[axis + 2], resizing) for axis in axes
    ):
        for axis in axes:
            values = select(values, axis, resizing)
        return values
    if len(axes) == len(resizing.methods) and (method != CUBIC or len(axes) == 2):
        return resize_node(values, axes, resizing)
    # Two axes, or one axis and all those after it, become the height and width of planes.
    first, end = axes[0] + 2, axes[-1] + 3
    inside = [math.prod(shape[end:])] if len(axes) == 1 else []
    image = values.reshape((1, math.prod(shape[:first]), *shape[first:end], *inside))
    size = [resizing.size[axis] for axis in axes]
    return resize_node(image, axes, resizing).reshape((*shape[:first], *size, *shape[end:]))


def resize_node(values: Tensor, axes: Sequence[int], resizing: Resizing) -> Tensor:
    """Add a node that resizes axes of an image from the third on; later axes are unchanged."""
    method, shape, end = resizing.methods[axes[0]], list(values.shape), 2 + len(axes)
    size = [*shape[:2], *(resizing.size[axis] for axis in axes), *shape[end:]]
    attributes = dict(ATTRIBUTES[method])
    if method not in COPYING:
        positions = "align_corners" if resizing.align_corners else "half_pixel"
        attributes["coordinate_transformation_mode"] = positions
    if resizing.antialias:
        # Weights outside the image are left out, and the others are normalised to sum to one.
        attributes |= {"antialias": 1, "exclude_outside": 1}
        if method == CUBIC:
            attributes["cubic_coeff_a"] = -0.5
    scales = [resizing.scales[axis] for axis in axes]
    ends: tuple[Tensor | None, Tensor | None]
    if any(scales):  # the positions follow from the scales
        exact = map(single, scales, shape[2:end], size[2:end])
        scale_tensor = constant(
            "value_floats", [1.0, 1.0, *map(float, exact), *[1.0] * len(shape[end:])]
        )
        ends = scale_tensor, None
    elif all(isinstance(n, int) for n in size):
        ends = None, constant("value_ints", size)
    else:
        ends = None, torch.stack([torch.scalar_tensor(n, dtype=torch.int64) for n in size])
    return node(
        "Resize", (values, None, *ends), attributes, dtype=torch.float32, shape=size, version=OPSET
    )


def constant(attribute: str, numbers: Sequence[Any]) -> Tensor:
    """Add a list of numbers to the model, of the kind "value_ints" or "value_floats"."""
    dtype = torch.int64 if attribute == "value_ints" else torch.float32
    options = {"dtype": dtype, "shape": (len(numbers),), "version": OPSET}
    return node("Constant", (), {attribute: list(numbers)}, **options)


def single(factor: float, inputs: Any, outputs: Any) -> Any:
    """Round a factor to single precision so that it still gives the required number of outputs.

    Runtimes compute the floor of inputs times factor, in single or double precision.
    """
    scale = np.float32(factor)
    if float(scale) < factor:
        scale = np.nextafter(scale, np.float32(np.inf))
    if isinstance(inputs, int) and isinstance(outputs, int):
        while math.floor(min(float(np.float32(inputs) * scale), inputs * float(scale))) < outputs:
            scale = np.nextafter(scale, np.float32(np.inf))
    return scale


def runtimes_agree(axis: int, inputs: Any, resizing: Resizing) -> bool:
    """Whether a runtime selects the same pixels along an axis as we do.

    A runtime divides by a scale in single precision, whereas torch and we multiply by a step.  If
    the exact result is an integer, the two may round to different sides.  For symbolic sizes, the
    result is True without a check.
    """
    outputs, method, factor = resizing.size[axis], resizing.methods[axis], resizing.scales[axis]
    if not (isinstance(inputs, int) and isinstance(outputs, int)):
        return True
    scale = single(factor, inputs, outputs) if factor else np.float32(outputs / inputs)
    index = np.arange(outputs, dtype=np.float32)
    if method == NEAREST:
        theirs = np.floor(index / scale)
    else:
        half = np.float32(0.5)
        theirs = np.floor((index + half) / scale - half + half)
    ours = copies(Axis(inputs, outputs, method, scale=factor)).first
    return bool((np.clip(theirs, 0, inputs - 1) == ours).all())


def select(values: Tensor, axis: int, resizing: Resizing) -> Tensor:
    """Select our pixels along an axis of fixed size, by their indices."""
    inputs, outputs = values.shape[axis + 2], resizing.size[axis]
    ours = copies(Axis(inputs, outputs, resizing.methods[axis], scale=resizing.scales[axis])).first
    return values.index_select(axis + 2, constant("value_ints", ours.tolist()))
