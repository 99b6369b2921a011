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

from gridsample.bindings import torch as binding


def tensor(name: str, array: Any) -> Tensor:
    """An array as a tensor, in the same memory."""
    if not hasattr(array, "__dlpack__") or isinstance(array, np.ndarray):
        kind = type(array)
        raise TypeError(
            f"{name} is a {kind.__module__}.{kind.__qualname__}, but other arguments are CuPy "
            "arrays; accepted: CuPy arrays for all"
        )
    convert: Any = torch.utils.dlpack.from_dlpack
    return convert(array)  # type: ignore[no-any-return]


def array_like(found: Tensor | None, like: Any) -> Any:
    """A tensor as an array of another's library, in the same memory."""
    if found is None:
        return None
    return sys.modules[type(like).__module__.partition(".")[0]].from_dlpack(found.detach())


def grid_sample(image: Any, grid: Any, **options: Any) -> Any:
    """`gridsample.grid_sample` for CuPy arrays."""
    tensors = tensor("input", image), tensor("grid", grid)
    return array_like(binding.grid_sample(*tensors, **options), image)


def grid_sample_vjp(grad_output: Any, image: Any, grid: Any, **options: Any) -> tuple[Any, Any]:
    """`gridsample.grid_sample_vjp` for CuPy arrays."""
    given = {"grad_output": grad_output, "input": image, "grid": grid}
    tensors: list[Any] = [tensor(name, array) for name, array in given.items()]
    first, second = binding.grid_sample_vjp(*tensors, **options)
    return array_like(first, image), array_like(second, image)


def affine_grid(theta: Any, coordinates: Sequence[np.ndarray[Any, Any]]) -> Any:
    """`gridsample.affine_grid` for CuPy arrays."""
    return array_like(binding.affine_grid(tensor("theta", theta), coordinates), theta)
