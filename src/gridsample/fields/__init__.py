"""Grids and fields: where the coordinates of `grid_sample` come from.

Grids are (N, *out, D) arrays of coordinates, in normalized units or in pixels.  A field is a grid
of displacements or positions in pixels.  Components are in x, y, z order, and x runs along the last
spatial axis.  All functions accept NumPy arrays and torch tensors.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gridsample.fields.grids import affine_grid, identity_grid

if TYPE_CHECKING:
    from gridsample.fields.colours import flow_colours
    from gridsample.fields.conversions import (
        homography_grid,
        invert_theta,
        matrix_from_theta,
        theta_from_grid,
        theta_from_matrix,
        to_displacement,
        to_normalized,
        to_pixel,
    )
    from gridsample.fields.displacements import (
        Inverse,
        compose,
        compose_vjp,
        exp,
        exp_vjp,
        invert,
        invert_vjp,
    )
    from gridsample.fields.flows import Consistency, consistency, flow_warp
    from gridsample.fields.jacobians import Regularity, jacobian, jacobian_determinant, regularity
    from gridsample.fields.thin_plates import ThinPlate, thin_plate

__all__ = [
    "Consistency",
    "Inverse",
    "Regularity",
    "ThinPlate",
    "affine_grid",
    "compose",
    "compose_vjp",
    "consistency",
    "exp",
    "exp_vjp",
    "flow_colours",
    "flow_warp",
    "homography_grid",
    "identity_grid",
    "invert",
    "invert_theta",
    "invert_vjp",
    "jacobian",
    "jacobian_determinant",
    "matrix_from_theta",
    "regularity",
    "theta_from_grid",
    "theta_from_matrix",
    "thin_plate",
    "to_displacement",
    "to_normalized",
    "to_pixel",
]

# Their modules are loaded when a name is first used, because `import gridsample` loads this one.
_MODULES = {
    "colours": ("flow_colours",),
    "conversions": (
        "homography_grid",
        "invert_theta",
        "matrix_from_theta",
        "theta_from_grid",
        "theta_from_matrix",
        "to_displacement",
        "to_normalized",
        "to_pixel",
    ),
    "displacements": (
        "Inverse",
        "compose",
        "compose_vjp",
        "exp",
        "exp_vjp",
        "invert",
        "invert_vjp",
    ),
    "flows": ("Consistency", "consistency", "flow_warp"),
    "jacobians": ("Regularity", "jacobian", "jacobian_determinant", "regularity"),
    "thin_plates": ("ThinPlate", "thin_plate"),
}
_LATER = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        module = importlib.import_module(f"gridsample.fields.{_LATER[name]}")
        value = getattr(module, name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'gridsample.fields' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
