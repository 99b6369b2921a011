"""The programs of fused operators: one for the result, and one for its first derivatives.

`gridsample.definitions.operators` says what an operator is.  The module of its name in this package
has ``CONTIGUOUS``, how many axes at the end of each array must be in C order, and a function,

    prepare(layouts, options, needed)

which returns a `Launch`.  ``layouts`` are those of the arrays, and of "upstream" for derivatives;
``needed`` are the names of the arrays whose gradients are needed, or is empty for the result.  The
program takes these arrays by name, and stores "result"; or adds to or stores the gradient of each
needed array, "NAME_gradient".  Programs of derivatives may also read the result
(`Operator.reads_result`).  What is stored is in C order, and gradients that are sums
(`Operator.sums`) are in the dtype of sums.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gridsample.definitions.dtypes import BFLOAT16
from gridsample.definitions.operators import Operator
from gridsample.kernels import threads as pool
from gridsample.kernels.memory import Layout, converted, layout_of
from gridsample.kernels.run import Launch
from gridsample.kernels.sampling.copies import transpose_matrices

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]
# The least numbers of an array for which a program that transposes is compiled.
LARGE = 1 << 14


def programs_of(operator: Operator) -> Any:
    """Return the module of an operator's programs."""
    return importlib.import_module(f"gridsample.kernels.operators.{operator.name}")


def real_of(*types: DType) -> DType:
    """Return the dtype in which positions, weights and sums are computed."""
    is_double = any(dtype.itemsize == 8 for dtype in types)
    return np.dtype(np.float64 if is_double else np.float32)


def elements(layout: Layout) -> list[int]:
    """Return the strides of an array in elements; 0 along axes of one entry."""
    shape, strides, dtype = layout
    pairs = zip(shape, strides, strict=True)
    return [stride // dtype.itemsize if size > 1 else 0 for size, stride in pairs]


def readable(array: Array, contiguous: int, threads: int) -> Array:
    """Return an array, or a copy, that is native, with its last axes in C order, without gaps."""
    step, expected = array.itemsize, array.itemsize
    even = all(stride % step == 0 for stride in array.strides)
    last = [*zip(array.shape, array.strides, strict=True)][len(array.shape) - contiguous :]
    for size, stride in reversed(last):
        even, expected = even and (size < 2 or stride == expected), expected * size
    native = array.dtype == BFLOAT16 or array.dtype.isnative
    if even and native:
        return array
    matrices = matrices_of(array) if native else None
    if matrices is None:
        return np.ascontiguousarray(array, native_type(array.dtype))
    count, rows, columns = matrices
    copy = np.empty(array.shape, array.dtype)
    transpose_matrices(array, copy, (count, columns, rows), threads)
    return copy


def copy_into(target: Array, source: Array, threads: int) -> None:
    """Copy an array in C order to one with other strides."""
    matrices = matrices_of(target)
    if matrices is None:
        target[...] = source
    else:
        transpose_matrices(source, target, matrices, threads)


def matrices_of(array: Array) -> tuple[int, int, int] | None:
    """Return how many matrices an array has, their rows and columns, if memory has each transposed.

    The rows are those of an axis whose entries are neighbours in memory, as the pixels of an image
    are whose channels come first; the columns are of all axes after it.  None if the array is
    small, or in any other order.
    """
    sizes, strides = array.shape, array.strides
    long = [axis for axis, size in enumerate(sizes) if size > 1]
    if array.size < LARGE or not long:
        return None
    axis = min(long, key=lambda k: abs(strides[k]))
    columns = math.prod(sizes[axis + 1 :])
    if columns == 1 or not np.moveaxis(array, axis, -1).flags.c_contiguous:
        return None
    return math.prod(sizes[:axis]), sizes[axis], columns


def native_type(dtype: DType) -> DType:
    """Return a dtype in the processor's order of bytes."""
    return dtype if dtype == BFLOAT16 else dtype.newbyteorder("=")


def prepared(
    operator: Operator,
    arrays: Mapping[str, Array],
    options: Any,
    needed: frozenset[str],
    threads: int,
) -> tuple[Launch, dict[str, Array]]:
    """Prepare the program of the result or of gradients, and the arrays that it reads."""
    programs = programs_of(operator)
    inputs = {
        name: readable(array, programs.CONTIGUOUS[name], threads) for name, array in arrays.items()
    }
    layouts = tuple([(name, layout_of(array)) for name, array in inputs.items()])
    return programs.prepare(layouts, options, needed), inputs


def compute(
    operator: Operator, arrays: Mapping[str, Array], options: Any, out: Array, threads: int | None
) -> None:
    """Compute the result of an operator, in an array in C order."""
    if not out.size:
        return
    if any(not array.size for array in arrays.values()):
        out[...] = 0
        return
    threads = threads or pool.cores()
    launch, inputs = prepared(operator, arrays, options, frozenset(), threads)
    launch.run({**inputs, "result": out}, threads)


def differentiate(
    operator: Operator,
    upstream: Array,
    arrays: Mapping[str, Array],
    options: Any,
    needed: Sequence[bool],
    threads: int | None,
) -> list[Array | None]:
    """Compute the needed gradients of an operator, in the dtypes of the arrays."""
    threads = threads or pool.cores()
    names = frozenset([name for name, need in zip(arrays, needed, strict=True) if need])
    real = real_of(*[array.dtype for array in arrays.values()])
    types = {
        name: real if name in operator.sums else native_type(arrays[name].dtype) for name in names
    }
    gradients = {name: np.zeros(arrays[name].shape, dtype) for name, dtype in types.items()}
    if names and all(array.size for array in (upstream, *arrays.values())):
        inputs = {**arrays, "upstream": upstream}
        if operator.reads_result:
            inputs["result"] = np.empty(
                upstream.shape, native_type(next(iter(arrays.values())).dtype)
            )
            compute(operator, arrays, options, inputs["result"], threads)
        launch, inputs = prepared(operator, inputs, options, names, threads)
        results = {f"{name}_gradient": gradient for name, gradient in gradients.items()}
        launch.run({**inputs, **results}, threads)
    return [
        converted(gradients[name], native_type(array.dtype)) if name in names else None
        for name, array in arrays.items()
    ]
