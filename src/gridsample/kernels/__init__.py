"""Kernels: two primitives, and two fused passes, behind one contract.

Sampling is linear in the image: out = A(grid) image.  So everything is made of

    gather(plan, image, grid, out, order)       out = A(grid) image
    scatter(plan, values, grid, order)          A(grid)^T values, the exact transpose

where ``order`` is a derivative order along each axis, x first: order (1, 0) is the derivative of A
along x. d gather / d image is scatter; d gather / d grid_k is gather with order k raised by one;
the same holds for scatter.  `backward` is both gradients of gather in one sweep:

    backward(plan, values, image, grid, need_image, need_grid, order)

and `backward_twice` the gradients of that, in one sweep too, for an upstream image and grid:

    backward_twice(plan, values, image, grid, upstream, moves, need_values, need_image, need_grid,
                   order)

Shapes: image and upstream (N, C, *spatial), grid and moves (N, *out, D), values and out
(N, C, *out), as in the plan.
Each target (`gridsample.kernels.cpu`) implements the four; `gridsample.kernels.reference` is what
they must equal.
"""

from __future__ import annotations

import functools
from types import ModuleType

from gridsample.kernels.compile import forks


@functools.cache
def on_cpu() -> ModuleType:
    """The CPU's kernels, which are imported, and Numba with them, when they are first needed."""
    with forks.held():
        from gridsample.kernels import cpu

    return cpu


@functools.cache
def of_resizing() -> ModuleType:
    """The kernels that resize, which are imported when they are first needed, as `on_cpu`."""
    with forks.held():
        from gridsample.kernels import resize

    return resize
