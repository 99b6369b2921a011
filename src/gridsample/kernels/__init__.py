"""Kernels: two primitives and two fused passes, with one contract.

Sampling is linear in the image: out = A(grid) image.  Everything is therefore made of

    gather(plan, image, grid, out, order)       out = A(grid) image
    scatter(plan, values, grid, order)          A(grid)^T values, the exact transpose

where ``order`` is a derivative order along each axis, x first: order (1, 0) is the derivative of A
along x. d gather / d image is scatter; d gather / d grid_k is gather with order k raised by one;
the same holds for scatter.  `backward` computes both gradients of gather in one sweep:

    backward(plan, arrays, needs, order)              arrays: image, grid and upstream values

`backward_twice` computes the gradients of `backward`, also in one sweep, given the upstream
gradients of the image and of the grid:

    backward_twice(plan, arrays, upstream, grid_tangent, needs, order)

A plan with a ``footprint`` asks for antialiased results of order 0: that of a point is the mean M
of samples that are spread over the point's footprint.  Once the number of samples is known, they
are a linear map E of the grid: a point plus fractions of the differences to its neighbours.  Gather
is then M A(E grid), and the other functions follow.

Shapes: image and upstream (N, C, *spatial), grid and grid_tangent (N, *out, D), values and out
(N, C, *out), as in the plan.
Each target (`gridsample.kernels.sampling`, `gridsample.kernels.gpu`) implements these functions.
`gridsample.kernels.reference` defines their results.
"""

from __future__ import annotations

import functools
from types import ModuleType

from gridsample.kernels import forks


@functools.cache
def on_cpu() -> ModuleType:
    """Return the CPU kernels.  They and llvmlite are imported on first use."""
    with forks.held():
        from gridsample.kernels import sampling

    return sampling


@functools.cache
def of_resizing() -> ModuleType:
    """Return the resizing kernels, which are imported on first use."""
    with forks.held():
        from gridsample.kernels import resize

    return resize


@functools.cache
def of_operators() -> ModuleType:
    """Return the programs of fused operators, which are imported on first use."""
    on_cpu()
    with forks.held():
        from gridsample.kernels import operators
        from gridsample.kernels.operators import (  # noqa: F401
            correlation_lookup,
            softmax_splat,
            splat_maximum,
            splat_total,
            weighted_sum,
        )

    return operators


@functools.cache
def of_colour_tables() -> ModuleType:
    """Return the kernel that looks colours up in tables, which is imported on first use."""
    on_cpu()
    with forks.held():
        from gridsample.kernels import colour_tables

    return colour_tables


@functools.cache
def of_cell_statistics() -> ModuleType:
    """Return the kernel of statistics of cells, which is imported on first use."""
    on_cpu()
    with forks.held():
        from gridsample.kernels import cell_statistics

    return cell_statistics


@functools.cache
def of_positions() -> ModuleType:
    """Return the kernel that searches axes for coordinates, which is imported on first use."""
    on_cpu()
    with forks.held():
        from gridsample.kernels import positions

    return positions


@functools.cache
def of_fixed_point() -> ModuleType:
    """Return the kernel that converts fixed-point maps, which is imported on first use."""
    with forks.held():
        from gridsample.kernels import fixed_point

    return fixed_point


@functools.cache
def of_labels() -> ModuleType:
    """Return the kernels that resize labels, which are imported on first use."""
    with forks.held():
        from gridsample.kernels import label_resizing

    return label_resizing
