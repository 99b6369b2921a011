"""The greatest metric of the points around each pixel: see `softmax_splat`."""

from __future__ import annotations

from gridsample.kernels.gpu.operators.softmax_splat import find_maximum, no_additions, no_gradients

FUNCTIONS, KERNELS = (), ()
INITIAL = float("-inf")
additions, compute, differentiate = no_additions, find_maximum, no_gradients
