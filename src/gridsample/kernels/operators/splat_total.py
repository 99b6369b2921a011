"""The program of the sum of the weights of each pixel: see `softmax_splat`."""

from __future__ import annotations

import functools

from gridsample.definitions.operators import SplatOptions
from gridsample.kernels.memory import Layout
from gridsample.kernels.operators.softmax_splat import launch_of
from gridsample.kernels.run import Launch

# How many axes at the end of each array must be in C order, without gaps.
CONTIGUOUS = {"metric": 1, "positions": 2, "greatest": 1, "upstream": 1}


@functools.lru_cache(maxsize=256)
def prepare(
    layouts: tuple[tuple[str, Layout], ...], options: SplatOptions, needed: frozenset[str]
) -> Launch:
    """Prepare a program; see `gridsample.kernels.operators`.

    All gradients are 0, so that no task writes any.
    """
    launch = launch_of(layouts, options, needed, "write_nothing" if needed else "write_total")
    return launch._replace(tasks=0) if needed else launch
