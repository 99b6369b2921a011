"""Registration: find the transform that aligns one image with another.

`register` finds it; `Registration` holds it, with a `Verdict` for each pair of images.
`grid_distance` and `rectified_distance` are losses of grids.  All functions accept NumPy arrays and
torch tensors; `register` needs torch for both.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gridsample.registration.files import load_transform
    from gridsample.registration.pictures import draw_report
    from gridsample.registration.rectification import (
        grid_distance,
        grid_distance_vjp,
        rectified_distance,
        rectified_distance_vjp,
    )
    from gridsample.registration.registering import register
    from gridsample.registration.result import Registration, RegistrationWarning, Stage
    from gridsample.registration.verdict import Verdict

__all__ = [
    "Registration",
    "RegistrationWarning",
    "Stage",
    "Verdict",
    "draw_report",
    "grid_distance",
    "grid_distance_vjp",
    "load_transform",
    "rectified_distance",
    "rectified_distance_vjp",
    "register",
]

# Their modules are loaded when a name is first used: some need torch, others files.
_MODULES = {
    "files": ("load_transform",),
    "pictures": ("draw_report",),
    "rectification": (
        "grid_distance",
        "grid_distance_vjp",
        "rectified_distance",
        "rectified_distance_vjp",
    ),
    "registering": ("register",),
    "result": ("Registration", "RegistrationWarning", "Stage"),
    "verdict": ("Verdict",),
}
_LATER = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        try:
            module = importlib.import_module(f"gridsample.registration.{_LATER[name]}")
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise ImportError(
                'registration needs torch: pip install "gridsample[torch]"', name="torch"
            ) from error
        value = getattr(module, name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'gridsample.registration' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
