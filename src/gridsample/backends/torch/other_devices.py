"""Tensors on devices without kernels, such as Apple's GPUs.

If torch's own operators support a call on such a device, including the derivatives that it needs,
they compute it.  Everything else is computed by the CPU kernels: tensors are copied to the CPU, and
results back.  Autograd records both copies, so derivatives of any order are available.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gridsample.backends.torch import cuda, onnx
from gridsample.backends.torch.internals import constant_in_graphs, has_kernel
from gridsample.definitions.boundaries import check_boundary
from gridsample.definitions.methods import find_method
from gridsample.definitions.options import Options

# The types of devices that have kernels; tensors on "meta" have a shape but no data.
DEVICES_WITH_KERNELS = ("cpu", "meta", *cuda.DEVICES)

# Torch's codes of modes and boundaries.
TORCH_MODES = {"linear": 0, "nearest": 1, "cubic": 2}
TORCH_BOUNDARIES = {"zeros": 0, "border": 1, "reflection": 2}

# Apple's GPUs do not support 64-bit numbers.
NARROWED = {torch.float64: torch.float32, torch.complex128: torch.complex64}

# The types of devices for which a warning has been issued.
WARNED: set[str] = set()


def lacks_kernels(tensor: Tensor) -> bool:
    """Whether a tensor is on a device without kernels, and is not part of an ONNX export."""
    return tensor.device.type not in DEVICES_WITH_KERNELS and not onnx.exporting()


def call_on_cpu(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function for tensors on another device with copies of them on the CPU."""
    device = next(argument.device for argument in arguments if isinstance(argument, Tensor))
    warn_once(device.type)
    result = function(
        *[argument.cpu() if isinstance(argument, Tensor) else argument for argument in arguments]
    )
    is_tuple = isinstance(result, tuple)
    results = [back(entry, device) for entry in (result if is_tuple else (result,))]
    return tuple(results) if is_tuple else results[0]


def back(value: Any, device: torch.device) -> Any:
    """Copy a result to the device of the arguments."""
    if not isinstance(value, Tensor):
        return value
    return value.to(device, NARROWED.get(value.dtype) if device.type == "mps" else None)


def warn_once(device: str) -> None:
    """Warn, once per process, that a type of device has no kernels."""
    if device in WARNED or torch.compiler.is_compiling():
        return
    WARNED.add(device)
    warnings.warn(
        f"neither gridsample nor torch has a kernel on {device} for this call: it is computed "
        "on the CPU, and tensors are copied there and back; this warning is shown only once",
        stacklevel=5,
    )


@constant_in_graphs
def has_kernels(device: str, *names: str) -> bool:
    """Whether torch has kernels for operators on a device, without falling back to others."""
    return all(has_kernel(device, name) for name in names)


def try_torch(
    operator: Callable[..., Tensor], image: Tensor, *names: str, with_gradient: bool
) -> Tensor | None:
    """Call an operator of torch; return None if it does not exist or raises an error.

    ``names`` are torch's names of the operator; if ``with_gradient``, the operators with the suffix
    "_backward" must exist, too.
    """
    needed = (*names, *(f"{name}_backward" for name in names if with_gradient))
    if not has_kernels(image.device.type, *needed):
        return None
    if torch.compiler.is_compiling():
        return operator()
    try:
        return operator()
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:  # such as "border" on Apple's GPUs
        return None


def grid_sample(image: Tensor, grid: Tensor, options: Options) -> Tensor | None:
    """Sample with torch's own operator; return None if that does not support the call."""
    last = options.channel_axis == -1
    planes = image.movedim(-1, 1) if last else image
    codes = torch_codes(planes, grid, options)
    if codes is None:
        return None
    items = grid.shape[0] if image.shape[0] == 1 else image.shape[0]
    planes, points = (array.expand(items, *array.shape[1:]) for array in (planes, grid))
    sampled = try_torch(
        lambda: torch.grid_sampler(planes, points, *codes, options.align_corners),
        image,
        f"grid_sampler_{len(options.mode)}d",
        with_gradient=torch.is_grad_enabled() and (image.requires_grad or grid.requires_grad),
    )
    return sampled.movedim(1, -1) if last and sampled is not None else sampled


def torch_codes(image: Tensor, grid: Tensor, options: Options) -> tuple[int, int] | None:
    """Return torch's codes of a mode and a boundary, or None if torch does not support the call."""
    rank = len(options.mode)
    methods = {find_method(name).name for name in options.mode}
    boundaries = {check_boundary(name) for name in options.padding_mode}
    if not (
        len(methods) == len(boundaries) == 1
        and methods <= TORCH_MODES.keys()
        and boundaries <= TORCH_BOUNDARIES.keys()
        and rank in ((2,) if "cubic" in methods else (2, 3))
        and grid.dim() == image.dim()
        and image.is_floating_point()
        and image.dtype == grid.dtype
        and options.coords == "normalized"
        and options.extrapolates()
        and options.footprint is None
    ):
        return None
    return TORCH_MODES[methods.pop()], TORCH_BOUNDARIES[boundaries.pop()]
