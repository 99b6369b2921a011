"""Array libraries: which one an array is from, and the `Backend` that serves it.

A library is imported only because an array came from it, by the loader that is registered for it.
Nothing above this package asks where an array is from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gridsample.backends.base import Backend
from gridsample.backends.numpy import BACKEND as NUMPY

__all__ = ["Backend", "backend_of", "hand_over", "is_overridden", "register"]

Loader = Callable[[], Backend]


def load_torch() -> Backend:
    """The backend of torch's tensors."""
    from gridsample.backends import torch

    return torch.BACKEND


def load_cupy() -> Backend:
    """The backend of CuPy's arrays, which torch's kernels serve."""
    from gridsample.backends.torch import dlpack

    return dlpack.BACKEND


# By the name of the package that an array's class, or one that it is derived from, is defined in.
LOADERS: dict[str, Loader] = {"torch": load_torch, "cupy": load_cupy}
# Packages whose arrays are refused, rather than copied by NumPy.
FOREIGN = ["jax", "jaxlib", "dask", "tensorflow"]
# Torch's `has_torch_function`, once it is known: to import it takes longer than its answer.
CHECK: list[Callable[..., bool]] = []


def register(package: str, loader: Loader) -> None:
    """Let a backend serve the arrays of a package.

    Args:
        package: the name of the top-level package that the arrays' class is defined in.
        loader: gives the backend; it is called whenever such an array is met.
    """
    LOADERS[package] = loader


def library(array: Any) -> str:
    """The package with a backend, or a foreign one, that an array's type comes from; or "numpy"."""
    if type(array) is np.ndarray:
        return "numpy"
    for kind in type(array).__mro__:
        name: str = kind.__module__.partition(".")[0]
        if name in LOADERS or name in FOREIGN:
            return name
    return "numpy"


def backend_of(**arrays: Any) -> Backend:
    """The backend of the library that the arrays are from; NumPy's for what is from none.

    Raises:
        TypeError: an array is from a library that has no backend.
    """
    found = "numpy"
    for name, array in arrays.items():
        source = library(array)
        if source in LOADERS:
            found = source
        elif source in FOREIGN:
            raise TypeError(
                f"{name} is a {type(array).__module__}.{type(array).__qualname__}; "
                "accepted: NumPy arrays, torch tensors and, where torch is installed, CuPy arrays"
            )
    return NUMPY if found == "numpy" else LOADERS[found]()


def is_overridden(*arrays: Any) -> bool:
    """Whether `__torch_function__`, of an argument or of a mode, is to get a call on tensors."""
    for one in arrays:
        if type(one) is not np.ndarray and hasattr(type(one), "__torch_function__"):
            if not CHECK:
                from gridsample.backends.torch import contacts

                CHECK.append(contacts.has_torch_function)
            return CHECK[0](arrays)
    return False


def hand_over(function: Callable[..., Any], given: dict[str, Any], *arrays: Any) -> Any:
    """Let `__torch_function__` do what was asked of one of our functions.

    Args:
        function: the public function.
        given: its arguments by name, in order: what ``locals()`` is where it begins.
        arrays: those of them that may override it, its first ones.
    """
    from gridsample.backends.torch import contacts

    options = [*given.items()][len(arrays) :]
    return contacts.handle_torch_function(function, arrays, *arrays, **dict(options))
