"""Resizing of arrays in host memory, whole or in parts, by the kernels."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.definitions.dtypes import WIDE_TYPES, check_image_type, type_name
from gridsample.definitions.options import Resizing
from gridsample.definitions.tables import AxisMap, axis_maps, votes
from gridsample.kernels import of_labels, of_resizing
from gridsample.kernels import threads as pool
from gridsample.kernels.memory import Layout

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]

# The largest tables, in bytes, of a prepared call that is kept.
MAX_TABLE_BYTES = 1 << 16


def resize(image: Array, result: Array, resizing: Resizing, transposed: bool) -> None:
    """Resize (N, C, *spatial) by one matrix for each axis, or by their transposes."""
    apply(axis_maps(image.shape[2:], resizing, transposed), image, result, resizing)


def apply(maps: Sequence[AxisMap], image: Array, result: Array, resizing: Resizing) -> None:
    """Apply a map to each axis of (N, C, *spatial), which may not be those of the options."""
    if votes(resizing.methods):
        of_labels().resize(maps, image, result, resizing.threads)
    else:
        apply_matrices(maps, image, result, resizing.threads, resizing.rounding)


def apply_matrices(
    maps: Sequence[AxisMap],
    image: Array,
    result: Array,
    threads: int | None = None,
    rounding: str = "exact",
) -> None:
    """Apply a matrix to each axis of (N, C, *spatial), which has no labels."""
    of_resizing().resize(maps, image, result, real_type(image.dtype), threads, rounding)


def ready(
    resizing: Resizing,
    source: Layout,
    target: Layout,
    threads: int | None,
    transposed: bool = False,
) -> Any:
    """Prepare a call for arrays of these layouts that is one run; None for any other.

    Callers keep it, so it is None, too, if it has tables of many numbers.
    """
    if votes(resizing.methods) or max(target[0][2:]) > MAX_TABLE_BYTES:  # before tables are made
        return None
    shape, _, dtype = source
    maps, real = axis_maps(shape[2:], resizing, transposed), type_name(real_type(dtype))
    threads = threads or pool.cores()
    direct = of_resizing().direct_run(maps, source, target, real, threads, resizing.rounding)
    return None if direct is None or direct.nbytes > MAX_TABLE_BYTES else direct


@functools.lru_cache(maxsize=64)
def order_of(resizing: Resizing, spatial: tuple[int, ...], dtype: DType) -> tuple[int, ...]:
    """Return the order in which the axes of a whole image are resized, those that change."""
    maps = axis_maps(spatial, resizing)
    return tuple(of_resizing().order_of_axes(maps, dtype, real_type(dtype)))


@functools.lru_cache
def real_type(dtype: DType) -> DType:
    """The dtype in which sums over an image are computed; an error if it is not supported."""
    check_image_type(dtype)
    return np.dtype(np.float64 if type_name(dtype) in WIDE_TYPES else np.float32)
