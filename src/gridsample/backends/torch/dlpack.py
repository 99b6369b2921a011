"""CuPy arrays, through torch: the same memory is seen as a tensor, and the result as an array.

Both libraries tell where an array lies by DLPack, so that nothing is copied, and torch's current
stream waits for CuPy's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch.utils.dlpack
from torch import Tensor

from gridsample.backends import torch as binding
from gridsample.definitions.options import Options


def tensor(name: str, array: Any) -> Tensor:
    """An array as a tensor, in the same memory."""
    if not hasattr(array, "__dlpack__") or isinstance(array, np.ndarray):
        kind = type(array)
        raise TypeError(
            f"{name} is a {kind.__module__}.{kind.__qualname__}, but other arguments are CuPy "
            f"arrays; accepted: CuPy arrays for all; make it one: {name} = cupy.asarray({name})"
        )
    convert: Any = torch.utils.dlpack.from_dlpack
    return convert(array)  # type: ignore[no-any-return]


def array_like(found: Tensor | None, like: Any) -> Any:
    """A tensor as an array of another's library, in the same memory."""
    if found is None:
        return None
    return sys.modules[type(like).__module__.partition(".")[0]].from_dlpack(found.detach())


def grid_sample(
    image: Any, grid: Any, options: Options, return_mask: bool = False, out: Any = None
) -> Any:
    """`gridsample.grid_sample` for CuPy arrays."""
    tensors = tensor("input", image), tensor("grid", grid)
    found = binding.grid_sample(*tensors, options, return_mask, out)
    if isinstance(found, tuple):
        return tuple(array_like(one, image) for one in found)
    return array_like(found, image)


def grid_sample_vjp(
    grad_output: Any, image: Any, grid: Any, options: Options, need_input: bool, need_grid: bool
) -> tuple[Any, Any]:
    """`gridsample.grid_sample_vjp` for CuPy arrays."""
    given = {"grad_output": grad_output, "input": image, "grid": grid}
    values, planes, points = (tensor(name, array) for name, array in given.items())
    first, second = binding.grid_sample_vjp(values, planes, points, options, need_input, need_grid)
    return array_like(first, image), array_like(second, image)


def grid_derivatives(image: Any, grid: Any, options: Options, degree: int) -> Any:
    """`gridsample.grid_gradient` and `gridsample.grid_hessian` for CuPy arrays."""
    tensors = tensor("input", image), tensor("grid", grid)
    return array_like(binding.grid_derivatives(*tensors, options, degree), image)


def affine_sample(image: Any, theta: Any, out: Sequence[int], options: Options) -> Any:
    """`gridsample.affine_sample` for CuPy arrays."""
    tensors = tensor("input", image), tensor("theta", theta)
    return array_like(binding.affine_sample(*tensors, out, options), image)


def affine_sample_vjp(
    grad_output: Any, image: Any, theta: Any, out: Sequence[int], options: Options,
    need_input: bool, need_theta: bool,
) -> tuple[Any, Any]:  # fmt: skip
    """`gridsample.affine_sample_vjp` for CuPy arrays."""
    given = {"grad_output": grad_output, "input": image, "theta": theta}
    values, planes, maps = (tensor(name, array) for name, array in given.items())
    first, second = binding.affine_sample_vjp(
        values, planes, maps, out, options, need_input, need_theta
    )
    return array_like(first, image), array_like(second, image)


def splat(values: Any, grid: Any, size: Any, options: Options, normalize: bool = False) -> Any:
    """`gridsample.splat` for CuPy arrays."""
    tensors = tensor("values", values), tensor("grid", grid)
    return array_like(binding.splat(*tensors, size, options, normalize), values)


def splat_count(grid: Any, size: Any, options: Options) -> Any:
    """`gridsample.splat_count` for CuPy arrays."""
    return array_like(binding.splat_count(tensor("grid", grid), size, options), grid)


def spline_filter(image: Any, *options: Any) -> Any:
    """`gridsample.spline_filter` for CuPy arrays."""
    return array_like(binding.spline_filter(tensor("input", image), *options), image)


def affine_grid(theta: Any, size: Any, align_corners: bool) -> Any:
    """`gridsample.affine_grid` for CuPy arrays."""
    return array_like(binding.affine_grid(tensor("theta", theta), size, align_corners), theta)
