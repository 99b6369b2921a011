"""Differentiable grid sampling for arrays in one to eight dimensions.

Importing this package loads nothing large.  NumPy and the modules of the package are loaded when
one of its names is first used, llvmlite when something is first sampled, and PyTorch, JAX and
others only if the caller's arrays come from them.

>>> import numpy as np, gridsample
>>> image = np.arange(8.0).reshape(1, 1, 2, 4)
>>> mirror = np.array([[[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
>>> grid = gridsample.affine_grid(mirror, (1, 1, 2, 4))
>>> gridsample.grid_sample(image, grid)[0, 0]
array([[3., 2., 1., 0.],
       [7., 6., 5., 4.]])
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from gridsample._version import __version__
from gridsample.kernels.forks import held as _held

if TYPE_CHECKING:
    from pathlib import Path

    from gridsample import cameras as cameras
    from gridsample import cv as cv
    from gridsample import dask as dask
    from gridsample import doctor as doctor
    from gridsample import fields as fields
    from gridsample import geo as geo
    from gridsample import interpolators as interpolators
    from gridsample import io as io
    from gridsample import jax as jax
    from gridsample import medical as medical
    from gridsample import methods
    from gridsample import ndimage as ndimage
    from gridsample import nn as nn
    from gridsample import onnx as onnx
    from gridsample import operators as operators
    from gridsample import registration as registration
    from gridsample import skimage as skimage
    from gridsample import torch_compat as torch_compat
    from gridsample import world as world
    from gridsample import xarray as xarray
    from gridsample import zarr as zarr
    from gridsample.definitions.cells import CellOverlaps
    from gridsample.definitions.knots import Axes
    from gridsample.explanation.explanation import Explanation
    from gridsample.explanation.tapwise import explain
    from gridsample.fields import affine_grid, identity_grid
    from gridsample.fields.checking import GridCheck, check_grid
    from gridsample.messages.links import help
    from gridsample.ops.affine import affine_sample, affine_sample_vjp
    from gridsample.ops.conservative import regrid_conservative, regrid_conservative_vjp
    from gridsample.ops.derivatives import grid_gradient, grid_hessian
    from gridsample.ops.filtering import spline_filter
    from gridsample.ops.footprints import footprint
    from gridsample.ops.lattices import lattice_grid, lattice_sample, lattice_sample_vjp
    from gridsample.ops.misuse import MisuseWarning
    from gridsample.ops.resizing import interpolate, interpolate_vjp
    from gridsample.ops.sampling import grid_sample, grid_sample_vjp
    from gridsample.ops.splatting import splat, splat_count
    from gridsample.registration.registering import register
    from gridsample.world import resample, resample_vjp

__all__ = [
    "Axes",
    "CellOverlaps",
    "Explanation",
    "GridCheck",
    "MisuseWarning",
    "__version__",
    "affine_grid",
    "affine_sample",
    "affine_sample_vjp",
    "check_grid",
    "explain",
    "footprint",
    "grid_gradient",
    "grid_hessian",
    "grid_sample",
    "grid_sample_vjp",
    "help",
    "identity_grid",
    "interpolate",
    "interpolate_vjp",
    "lattice_grid",
    "lattice_sample",
    "lattice_sample_vjp",
    "methods",
    "register",
    "regrid_conservative",
    "regrid_conservative_vjp",
    "resample",
    "resample_vjp",
    "splat",
    "splat_count",
    "spline_filter",
    "warmup",
]

# The modules of the public names, which are loaded when a name is first used: a command that
# prints its version, or an error, needs none of them.
_MODULES = {
    "Axes": "definitions.knots",
    "affine_grid": "fields",
    "affine_sample": "ops.affine",
    "affine_sample_vjp": "ops.affine",
    "CellOverlaps": "definitions.cells",
    "check_grid": "fields.checking",
    "explain": "explanation.tapwise",
    "Explanation": "explanation.explanation",
    "footprint": "ops.footprints",
    "grid_gradient": "ops.derivatives",
    "grid_hessian": "ops.derivatives",
    "grid_sample": "ops.sampling",
    "grid_sample_vjp": "ops.sampling",
    "GridCheck": "fields.checking",
    "help": "messages.links",
    "identity_grid": "fields",
    "interpolate": "ops.resizing",
    "interpolate_vjp": "ops.resizing",
    "lattice_grid": "ops.lattices",
    "lattice_sample": "ops.lattices",
    "lattice_sample_vjp": "ops.lattices",
    "MisuseWarning": "ops.misuse",
    "register": "registration",
    "regrid_conservative": "ops.conservative",
    "regrid_conservative_vjp": "ops.conservative",
    "resample": "world",
    "resample_vjp": "world",
    "splat": "ops.splatting",
    "splat_count": "ops.splatting",
    "spline_filter": "ops.filtering",
}
# Public modules, which are attributes that are loaded on first use, too.
_SUBMODULES = {
    *(
        "backends",
        "cameras",
        "cv",
        "dask",
        "doctor",
        "fields",
        "geo",
        "interpolators",
        "io",
        "jax",
        "medical",
        "methods",
        "ndimage",
    ),
    *(
        "nn",
        "onnx",
        "operators",
        "registration",
        "skimage",
        "torch_compat",
        "world",
        "xarray",
        "zarr",
    ),
}


class Warmed(NamedTuple):
    """The result of `warmup`: nothing was compiled.

    Attributes:
        folder: None, because kernels are not stored on disk.
        compiled: 0, the number of kernels compiled.
        seconds: 0.0, the elapsed time.
    """

    folder: Path | None = None
    compiled: int = 0
    seconds: float = 0.0


def warmup(*arguments: Any, **options: Any) -> Warmed:
    """Do nothing: a kernel compiles in milliseconds when a call first needs it.

    The function stays for one release, so that programs that call it still run.

    Args:
        arguments: ignored.
        options: ignored.

    Returns:
        A record that says that nothing was compiled.

    Warns:
        DeprecationWarning: always.

    Example:
        >>> import warnings
        >>> import gridsample
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", DeprecationWarning)
        ...     gridsample.warmup("float32", 2, "bilinear").compiled
        0
    """
    warnings.warn(
        "gridsample.warmup does nothing: kernels compile in milliseconds; it will be removed",
        DeprecationWarning,
        stacklevel=2,
    )
    return Warmed()


def __getattr__(name: str) -> Any:
    if name not in _MODULES and name not in _SUBMODULES:
        from gridsample.messages.links import unknown_attribute

        raise unknown_attribute(name, __all__)
    try:
        with _held():  # a child of a fork would wait for an import in another thread for ever
            module = importlib.import_module(f"gridsample.{_MODULES.get(name, name)}")
    except ImportError as error:
        if name in _MODULES:
            raise
        # Of a library that is not installed.
        raise AttributeError(str(error)) from error
    value = getattr(module, name) if name in _MODULES else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
