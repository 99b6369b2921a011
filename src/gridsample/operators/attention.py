"""Multi-scale deformable attention."""

from __future__ import annotations

from typing import Any

from gridsample.backends import overridable
from gridsample.definitions.arrays import ArrayT
from gridsample.operators.sums import WEIGHTED_SUM, arrays_of, options_for


@overridable(arrays=4)
def deformable_attention(
    value: ArrayT,
    value_spatial_shapes: Any,
    sampling_locations: ArrayT,
    attention_weights: ArrayT,
    *,
    threads: int | None = None,
) -> ArrayT:
    """Multi-scale deformable attention, as Deformable DETR and its successors compute it.

    It is `weighted_sum` of bilinear samples with zeros outside, at locations from 0 to 1, with the
    channels of all heads on one axis.  The function has the arguments of mmcv's
    ``multi_scale_deformable_attn_pytorch`` and of the plain version of `transformers`, and their
    result:

        result[n, q, h * D + c] = sum over l and p of
            attention_weights[n, q, h, l, p] * value_l[n, h, c](sampling_locations[n, q, h, l, p])

    The source is X. Zhu et al., "Deformable DETR", 2021, equation 3.

    Args:
        value: the pixels of all levels, (N, S, H, D) for H heads of D channels; any floating-point
            dtype.
        value_spatial_shapes: (height, width) of each level: a list of L pairs, or an array (L, 2).
        sampling_locations: (N, Q, H, L, P, 2), x and y; 0 and 1 are the outer edges of a level.
        attention_weights: (N, Q, H, L, P).
        threads: the maximum number of threads; None for the default.

    Returns:
        (N, Q, H * D), in the dtype of ``value``.  Half precision is summed in float32.

    Raises:
        TypeError: an array is not floating-point.
        ValueError: shapes do not match.

    Example:
        >>> import numpy as np
        >>> from gridsample.operators import deformable_attention
        >>> value = np.arange(10.0).reshape(1, 5, 1, 2)  # levels of 2 x 2 and of 1 x 1 pixels
        >>> locations = np.full((1, 1, 1, 2, 1, 2), 0.5)
        >>> weights = np.array([0.5, 0.5]).reshape(1, 1, 1, 2, 1)
        >>> deformable_attention(value, [(2, 2), (1, 1)], locations, weights)
        array([[[5.5, 6.5]]])
    """
    arrays = {
        "value": value,
        "sampling_locations": sampling_locations,
        "attention_weights": attention_weights,
    }
    backend, given = arrays_of(arrays)
    known = dict(zip(arrays, given, strict=True))
    sizes = {"value_spatial_shapes": value_spatial_shapes}
    rules: tuple[Any, ...] = "bilinear", "zeros", False, "unit"
    options = options_for(backend, known, sizes, *rules, threads=threads)
    result = backend.fused(WEIGHTED_SUM, given, options)
    items, queries, heads, channels = result.shape
    result = backend.xp.reshape(result, (items, queries, heads * channels))
    return backend.restore(result, value)
