"""The B-spline prefilter of arrays, forward and transposed, along any axes and in any layout.

    planning    how the lines of an array are grouped
    program     the program that filters lines

`gridsample.definitions.splines` defines the filter as numbers.

Each line is filtered by itself, with the same operations in the same order.  So the result depends
neither on the memory layout nor on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.kernels import threads as pool
from gridsample.kernels.memory import as_float, layout_of

if TYPE_CHECKING:  # the compiler is imported on first use
    from gridsample.kernels.spline.planning import Pass

Array = np.ndarray[Any, Any]


def coefficients(
    image: Array,
    order: int,
    extended: Sequence[str],
    axes: Sequence[int],
    out: Array,
    *,
    adjoint: bool = False,
    threads: int | None = None,
) -> None:
    """Compute the coefficients of an image's interpolating spline, or the adjoint.

    extended: the boundary for each of ``axes``, as `splines.extension` returns it.  The axes are
        nonnegative and all different.
    out: stores the result: an array of the image's shape in any layout, which shares no memory with
        it.  Its dtype is that of the sums, float32 or float64, or complex if the image is.
    """
    source, filters = image, tuple(zip(axes, extended, strict=True)) if order > 1 else ()
    if not image.size:
        return
    if filters and not (image.flags.aligned and image.dtype.isnative):
        source = np.array(image, image.dtype.newbyteorder("="), order="K")
    if not run(source, out, order, filters, adjoint, threads):
        out[...] = as_float(image)


def filter_axis(
    data: Array, axis: int, order: int, extended: str, adjoint: bool, threads: int | None
) -> None:
    """Filter a real array along one axis, in place."""
    if data.size:
        run(data, data, order, ((axis, extended),), adjoint, threads)


def run(
    source: Array,
    target: Array,
    order: int,
    filters: tuple[tuple[int, str], ...],
    adjoint: bool,
    threads: int | None,
) -> bool:
    """Filter along axes, each with its boundary; return False if no filter changes anything."""
    from gridsample.kernels.spline.planning import Filter, passes

    read, written = layout_of(source), layout_of(target)
    along_axes = tuple([Filter(axis, extended, order, adjoint) for axis, extended in filters])
    prepared = passes(read, written, along_axes)
    for step in prepared:
        if step.windows.number == 1:
            launch(step, source, target, threads)
        elif source is target:  # windows read entries that their neighbours store
            source = source.copy(order="K")
            (from_copy,) = passes(layout_of(source), written, (step.filter,))
            run_windows(from_copy, source, target, threads)
        else:
            run_windows(step, source, target, threads)
        source = target
    return bool(prepared)


def launch(step: Pass, source: Array, target: Array, threads: int | None) -> None:
    """Run a filter on arrays, on threads if there is enough work."""
    count = 1 if step.launch.tasks == 1 else threads or pool.cores()
    step.launch.run({"source": source, "target": target}, count)


def run_windows(step: Pass, source: Array, target: Array, threads: int | None) -> None:
    """Filter along one axis, whose lines are cut into windows."""
    axis, extended, order, adjoint = step.filter
    if not BOUNDARIES[extended].joins_ends:
        launch(step, source, target, threads)
        return
    # A window knows nothing of the line's other end, so both ends are filtered together.
    halo = step.windows.halo
    around = np.take(source, np.arange(-2 * halo, 2 * halo), axis, mode="wrap")
    ends = np.empty(around.shape, target.dtype)
    launch(step, source, target, threads)
    run(around, ends, order, ((axis, extended),), adjoint, threads)
    lines, ends = np.moveaxis(target, axis, 0), np.moveaxis(ends, axis, 0)
    lines[:halo], lines[-halo:] = ends[2 * halo : 3 * halo], ends[halo : 2 * halo]
