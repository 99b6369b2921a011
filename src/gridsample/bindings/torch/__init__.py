"""PyTorch tensors: differentiable to any order, in every transform that torch has.

Three operators are registered with torch (`operators`), each with rules for derivatives
(`derivatives`) and for batches (`batching`).  Here is how the public functions call them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gridsample.bindings.torch import batching, cuda, derivatives, onnx, operators  # noqa: F401
from gridsample.plan import (
    Mode,
    Shape,
    channels_last,
    check_boundary,
    check_flag,
    check_shapes,
    check_threads,
    find_method,
    hashable,
    per_axis,
)

# What the operators take: names for each axis, whether corners are aligned, derivative orders.
Options = tuple[tuple[str, ...], tuple[str, ...], bool, tuple[int, ...]]


def check_tensors(**given: Any) -> None:
    """Refuse what is no tensor, and tensors that are not on one device."""
    for name, one in given.items():
        if not isinstance(one, Tensor):
            raise TypeError(
                f"{name} is a {type(one).__module__}.{type(one).__qualname__}, "
                "but other arguments are tensors; accepted: torch.Tensor for all"
            )
    first, *others = given.items()
    for name, one in others:
        if one.device != first[1].device:
            raise ValueError(
                f"{first[0]} and {name} must be on one device, "
                f"got {first[1].device} and {one.device}"
            )


def check_call(
    image: Shape,
    grid: Shape,
    mode: Mode,
    padding_mode: Mode,
    align_corners: bool,
    channel_axis: int,
) -> tuple[bool, Options]:
    """Whether channels come last, and the options as the operators take them, but for threads."""
    # Of an image of a wrong rank, the shape is what the error is to be about.
    last = channels_last(channel_axis if 3 <= len(image) <= 5 else 1, len(image))
    rank = check_shapes(image, grid, last)
    return last, (
        per_axis(mode, rank, "mode"),
        per_axis(padding_mode, rank, "padding_mode"),
        check_flag(align_corners, "align_corners"),
        (0,) * rank,
    )


def grid_sample(
    image: Tensor,
    grid: Tensor,
    mode: Mode,
    padding_mode: Mode,
    align_corners: bool,
    channel_axis: int,
    out: Any,
    threads: int | None,
) -> Tensor:
    """`gridsample.grid_sample` for tensors."""
    check_threads(threads)
    if out is not None:
        raise TypeError("out is taken with NumPy arrays only; tensors get a new tensor")
    if operators.is_plain(image, grid):
        last, options, call = prepare(
            image.shape, image.dtype, grid.shape, grid.dtype,
            hashable(mode), hashable(padding_mode), align_corners, channel_axis,
        )  # fmt: skip
        planes = image.movedim(-1, 1) if last else image
        result = derivatives.plain_gather(planes, grid, (*options, threads), call)
    else:
        check_tensors(input=image, grid=grid)
        last, options = check_call(
            tuple(image.shape), tuple(grid.shape), mode, padding_mode, align_corners, channel_axis
        )
        planes = image.movedim(-1, 1) if last else image
        result = find_sampler(image)(planes, grid, *options, threads)
    return result.movedim(1, -1) if last else result


@functools.lru_cache(maxsize=1024, typed=True)
def prepare(
    image: torch.Size,
    image_type: torch.dtype,
    grid: torch.Size,
    grid_type: torch.dtype,
    mode: Mode,
    padding_mode: Mode,
    align_corners: bool,
    channel_axis: int,
) -> tuple[bool, Options, operators.Call]:
    """All that is checked and worked out before tensors of plain memory are sampled."""
    given = tuple(image)
    last, options = check_call(given, tuple(grid), mode, padding_mode, align_corners, channel_axis)
    size = (given[0], given[-1], *given[1:-1]) if last else given
    return last, options, operators.find_call(size, image_type, tuple(grid), grid_type, *options)


def find_sampler(image: Tensor) -> Callable[..., Tensor]:
    """What samples an image: where its memory is, or whatever a model is being written to."""
    if onnx.exporting():
        return onnx.gather_as_node
    sampler: Callable[..., Tensor] = operators.gather
    return sampler if image.device.type in HERE else sample_elsewhere


def grid_sample_vjp(
    grad_output: Tensor,
    image: Tensor,
    grid: Tensor,
    mode: Mode,
    padding_mode: Mode,
    align_corners: bool,
    need_input: bool,
    need_grid: bool,
    channel_axis: int,
    threads: int | None,
) -> tuple[Tensor | None, Tensor | None]:
    """`gridsample.grid_sample_vjp` for tensors; the gradients can be differentiated again."""
    check_threads(threads)
    check_tensors(grad_output=grad_output, input=image, grid=grid)
    last, options = check_call(
        tuple(image.shape), tuple(grid.shape), mode, padding_mode, align_corners, channel_axis
    )
    if image.device.type not in HERE:
        raise ValueError(f"input is on {image.device}; accepted: {', '.join(HERE)}")
    if grad_output.dim() != grid.dim():
        raise ValueError(
            f"grad_output must have the output's {grid.dim()} dimensions, "
            f"got shape {tuple(grad_output.shape)}"
        )
    if image.is_complex() and grad_output.is_floating_point():
        grad_output = grad_output.to(grad_output.dtype.to_complex())
    values, planes = (tensor.movedim(-1, 1) if last else tensor for tensor in (grad_output, image))
    first, second = derivatives.backward(
        values, planes, grid, bool(need_input), bool(need_grid), *options, threads
    )
    if last and need_input:
        first = first.movedim(1, -1)
    return first if need_input else None, second if need_grid else None


def affine_grid(theta: Tensor, coordinates: Sequence[np.ndarray[Any, Any]]) -> Tensor:
    """`gridsample.affine_grid` for tensors: differentiable in theta.

    The slowest axis comes first, so that nothing as large as the grid is made before the last sum.
    """
    if not theta.is_floating_point():
        raise TypeError(
            f"theta has dtype {theta.dtype}; accepted: float16, bfloat16, float32, float64"
        )
    rank = len(coordinates)
    real = torch.float64 if theta.dtype == torch.float64 else torch.float32
    *columns, grid = theta.to(real).reshape(-1, *(1,) * rank, rank, rank + 1).unbind(-1)
    for a, (column, steps) in enumerate(zip(columns[::-1], coordinates, strict=True)):
        along = torch.from_numpy(steps).to(theta.device, real)
        grid = grid + column * along.reshape(-1, *(1,) * (rank - a))
    return grid.to(theta.dtype)


# Devices that there are no kernels for ------------------------------------------------------------

# Those that there are some for; on the second, tensors have a shape alone.
HERE = ("cpu", "meta", *cuda.DEVICES)
# The numbers by which torch calls what it knows.
TORCH_MODES = {"linear": 0, "nearest": 1, "cubic": 2}
TORCH_BOUNDARIES = {"zeros": 0, "border": 1, "reflection": 2}


def sample_elsewhere(
    image: Tensor,
    grid: Tensor,
    mode: Sequence[str],
    padding_mode: Sequence[str],
    align_corners: bool,
    order: Sequence[int],
    threads: int | None,
) -> Tensor:
    """Sample as torch does, on a device that only torch has kernels for."""
    rank = len(mode)
    methods = {find_method(name).name for name in mode}
    boundaries = {check_boundary(name) for name in padding_mode}
    if not (
        len(methods) == len(boundaries) == 1
        and methods <= TORCH_MODES.keys()
        and boundaries <= TORCH_BOUNDARIES.keys()
        and rank in ((2,) if "cubic" in methods else (2, 3))
        and grid.dim() == image.dim()
        and image.is_floating_point()
        and image.dtype == grid.dtype
    ):
        raise ValueError(
            f"input is on {image.device}, where only what torch.nn.functional.grid_sample does is "
            "available: one mode and one padding_mode of torch's for all axes, two or three axes, "
            "cubic in two, floating input and grid of the same dtype and rank; "
            f"got mode {tuple(mode)}, padding_mode {tuple(padding_mode)}, "
            f"input {image.dtype} {tuple(image.shape)}, grid {grid.dtype} {tuple(grid.shape)}"
        )
    items = grid.shape[0] if image.shape[0] == 1 else image.shape[0]
    return torch.grid_sampler(
        image.expand(items, *image.shape[1:]),
        grid.expand(items, *grid.shape[1:]),
        TORCH_MODES[methods.pop()],
        TORCH_BOUNDARIES[boundaries.pop()],
        align_corners,
    )
