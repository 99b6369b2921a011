"""Resizing by a dense matrix for each axis, and the cases of its tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import gridsample
from gridsample.definitions import tables
from gridsample.definitions.methods import find_method
from gridsample.definitions.tables import Axis, axis_map

Array = np.ndarray[Any, Any]

# Labels vote, which is not linear: see test_labels.py.
METHODS = tuple(name for name in gridsample.methods.names(resizing=True) if name != "label")
# Up and down at once; primes; ones; planes that are cut, and lines that are not whole blocks.
SHAPES: dict[int, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {
    1: [((7,), (13,)), ((1,), (5,)), ((37,), (1,)), ((131,), (67,))],
    2: [((5, 7), (3, 11)), ((1, 9), (4, 1)), ((17, 33), (34, 19)), ((19, 1), (7, 3))],
    3: [((3, 5, 7), (4, 2, 11)), ((1, 6, 4), (2, 1, 9)), ((5, 4, 3), (5, 9, 3))],
}


@contextlib.contextmanager
def planned_with(module: Any, name: str, value: int) -> Iterator[None]:
    """Change a constant of the kernels for calls that are prepared anew."""
    from gridsample.backends import base
    from gridsample.kernels import resize
    from gridsample.kernels.resize import chains, copies, planning

    caches: Any = [planning.prepare, copies.prepare, chains.route_of, chains.chain_of]
    caches += [resize.direct_run, base.prepared_call]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, value)
        for cached in caches:
            cached.cache_clear()
        yield
    for cached in caches:
        cached.cache_clear()


def pieces_of(numbers: int) -> contextlib.AbstractContextManager[None]:
    """Cut images into pieces of at most so many numbers."""
    from gridsample.kernels.resize import planning

    return planned_with(planning, "PIECE", numbers)


def scale_of(dtype: np.dtype[Any]) -> float:
    """The rounding of sums in their dtype, and of results."""
    real = dtype.type(0).real.dtype
    sums = np.float64 if real.itemsize == 8 else np.float32
    return 64 * float(np.finfo(sums).eps) + float(np.finfo(real).eps)


def dense(image: Array, matrices: Sequence[Array]) -> Array:
    """Each axis multiplied by its matrix, in double precision."""
    out = image.astype(complex if image.dtype.kind == "c" else float)
    for axis, matrix in enumerate(matrices, start=2):
        out = np.moveaxis(np.tensordot(matrix, out, axes=(1, axis)), 0, axis)
    return out


def described(inputs: int, outputs: int, mode: Any, *options: Any, **more: Any) -> Axis:
    """An axis to resize by a method, or by its name."""
    return Axis(inputs, outputs, find_method(mode, resizing=True), *options, **more)


def matrices(
    spatial: Sequence[int], size: Sequence[int], method: str, align: bool, smooth: bool
) -> list[Array]:
    align = align and tables.aligns(find_method(method, resizing=True))
    return [
        axis_map(described(n, m, method, align, smooth)).dense()
        for n, m in zip(spatial, size, strict=True)
    ]


def corners(method: str, align: bool) -> dict[str, Any]:
    aligns = tables.aligns(find_method(method, resizing=True))
    return {"align_corners": align} if aligns else {}
