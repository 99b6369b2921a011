"""The program of the greatest metric of each pixel: see `softmax_splat`."""

from __future__ import annotations

import functools

from gridsample.kernels.operators.softmax_splat import prepare_constant

# How many axes at the end of each array must be in C order, without gaps.
CONTIGUOUS = {"metric": 1, "positions": 2, "upstream": 1}

# See `gridsample.kernels.operators`.
prepare = functools.partial(prepare_constant, name="write_maximum")
