"""SciPy's own functions, for what is left to them."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from typing import Any

from gridsample.backends import backend_of


def scipy_function(name: str, reason: str) -> Any:
    """The function of SciPy's own, for what is not done here."""
    try:
        return getattr(scipy_originals(), name)
    except ImportError:
        raise ImportError(f"{reason} is left to SciPy, which is not installed") from None


@functools.cache
def scipy_originals() -> Any:
    """SciPy's functions as SciPy defines them, in a module object of our own.

    Our functions, or wrappers of them, may have been put over the names in `scipy.ndimage`; to call
    those would never end.  So the module that defines the originals is executed once more, without
    being registered: nothing that others see is changed.
    """
    found = importlib.util.find_spec("scipy.ndimage._interpolation")
    if found is None or found.loader is None:  # a SciPy that keeps them elsewhere
        return importlib.import_module("scipy.ndimage")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def goes_to_scipy(image: Any) -> bool:
    """Whether an image has more axes than are sampled here."""
    if image.ndim > 3 and not backend_of(image=image).plain:
        raise TypeError(f"input has {image.ndim} axes; accepted: tensors with up to three")
    return bool(image.ndim > 3)
