"""SciPy's own functions, for calls that are passed to SciPy."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from typing import Any

from gridsample.backends import backend_of
from gridsample.definitions.shapes import MAX_RANK


def scipy_function(name: str, reason: str) -> Any:
    """Return SciPy's own function, for calls that are not supported here."""
    try:
        return getattr(scipy_originals(), name)
    except ImportError:
        raise ImportError(f"{reason} requires SciPy, which is not installed") from None


@functools.cache
def scipy_originals() -> Any:
    """Load SciPy's original functions in a separate module object.

    The names in `scipy.ndimage` may have been replaced by our functions or wrappers of them, and
    calling those would cause infinite recursion.  The module that defines the originals is
    therefore executed again, without registering it, so other code is not affected.
    """
    spec = importlib.util.find_spec("scipy.ndimage._interpolation")
    if spec is None or spec.loader is None:  # this version defines them elsewhere
        return importlib.import_module("scipy.ndimage")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def goes_to_scipy(image: Any) -> bool:
    """Whether an image has more axes than we support, so that SciPy must process it."""
    if image.ndim > MAX_RANK and not backend_of(image=image).is_host:
        raise TypeError(f"input has {image.ndim} axes; accepted: tensors with up to {MAX_RANK}")
    return bool(image.ndim > MAX_RANK)
