"""CuPy arrays, through torch: the same memory is seen as a tensor, and the result as an array.

Both libraries tell where an array lies by DLPack, so that nothing is copied, and torch's current
stream waits for CuPy's.
"""

from __future__ import annotations

import sys
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


class CuPy(binding.Torch):
    """`gridsample.backends.base.Backend` for CuPy arrays: torch's, between two views."""

    def take(self, **given: Any) -> list[Tensor]:
        """The arrays as tensors."""
        return super().take(**{name: tensor(name, array) for name, array in given.items()})

    def give(self, result: Tensor | None, like: Any) -> Any:
        """The result as an array of CuPy's."""
        if result is None:
            return None
        package = sys.modules[type(like).__module__.partition(".")[0]]
        return package.from_dlpack(result.detach())

    def whole(self, image: Any, grid: Any, options: Options) -> None:
        """There is no shorter way."""


BACKEND = CuPy()
