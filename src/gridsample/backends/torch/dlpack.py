"""CuPy arrays, which are viewed as tensors; results are viewed as arrays.

Both libraries exchange memory by DLPack, so nothing is copied, and torch's current stream waits for
CuPy's.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch.utils.dlpack
from torch import Tensor

from gridsample.backends import torch as binding


def tensor(name: str, array: Any) -> Tensor:
    """View an array as a tensor."""
    if not hasattr(array, "__dlpack__") or isinstance(array, np.ndarray):
        cls = type(array)
        raise TypeError(
            f"{name} is a {cls.__module__}.{cls.__qualname__}, but other arguments are CuPy "
            f"arrays; accepted: CuPy arrays for all; convert it: {name} = cupy.asarray({name})"
        )
    convert: Any = torch.utils.dlpack.from_dlpack
    return convert(array)  # type: ignore[no-any-return]


class CuPy(binding.Torch):
    """`gridsample.backends.base.Backend` for CuPy arrays: torch's backend for views of them."""

    def asarrays(self, **arguments: Any) -> list[Tensor]:
        """View the arrays as tensors."""
        return super().asarrays(**{name: tensor(name, array) for name, array in arguments.items()})

    def restore(self, result: Tensor | None, like: Any) -> Any:
        """View the result as a CuPy array."""
        if result is None:
            return None
        package = sys.modules[type(like).__module__.partition(".")[0]]
        return package.from_dlpack(result.detach())

    def layouts(self, *arrays: Any) -> None:
        """Return None, because calls with views are not prepared."""

    def by_library(self, image: Any, grid: Any, request: Any) -> None:
        """Return None: CuPy's arrays are on devices with kernels."""


BACKEND = CuPy()
