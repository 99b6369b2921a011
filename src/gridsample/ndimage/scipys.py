"""SciPy's own functions, for calls that are passed to SciPy."""

from __future__ import annotations

from typing import Any

from gridsample.backends import backend_of
from gridsample.definitions.originals import originals
from gridsample.definitions.shapes import MAX_RANK


def scipy_function(name: str, reason: str) -> Any:
    """Return SciPy's own function, for calls that are not supported here."""
    try:
        return getattr(scipy_originals(), name)
    except ImportError:
        raise ImportError(f"{reason} requires SciPy, which is not installed") from None


def scipy_originals() -> Any:
    """Load SciPy's original functions; see `originals`."""
    return originals("scipy.ndimage._interpolation", "scipy.ndimage")


def goes_to_scipy(image: Any) -> bool:
    """Whether an image has more axes than we support, so that SciPy must process it."""
    if image.ndim > MAX_RANK and not backend_of(image=image).is_host:
        raise TypeError(f"input has {image.ndim} axes; accepted: tensors with up to {MAX_RANK}")
    return bool(image.ndim > MAX_RANK)
