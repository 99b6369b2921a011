"""Operators that are usually composed of sampling, in few passes over the points.

    weighted_sum            sums of the samples of several points, with weights
    deformable_attention    the same with the arguments of multi-scale deformable attention
    deform_conv2d           convolutions whose kernels have moved points
    deform_sum2d            sums over the moved points of a kernel, without mixing channels
    point_features          features of points from planes, or from grids of several resolutions
    roi_align               means over the bins of boxes, and of rotated boxes
    ps_roi_align            the same, where each bin has channels of its own
    correlation_lookup      windows of the correlation of two feature maps, at several scales
    softmax_splat           forward warps, where the values of a pixel have weights of their own
    apply_lut               colours looked up in a table, with linear or tetrahedral interpolation

On the CPU, weighted sums, lookups of correlations and softmax splats have a program for the result
and one for all first derivatives, and no sample is kept; splats first find the greatest metric and
the sum of the weights of each pixel, by a program for each.  Tensors on NVIDIA's GPUs have kernels
for the same.  Everywhere else, and for derivatives of higher order, they are compositions of the
functions of this package, with the same results up to rounding.  The other operators are made of
weighted sums and of sampling; `apply_lut` has a program for NumPy arrays.  All accept NumPy
arrays, torch tensors and JAX arrays.
"""

from gridsample.operators.attention import deformable_attention
from gridsample.operators.convolution import deform_conv2d, deform_sum2d
from gridsample.operators.correlation import (
    CorrelationBlock,
    correlation_lookup,
    correlation_lookup_vjp,
)
from gridsample.operators.planes import point_features
from gridsample.operators.regions import ps_roi_align, roi_align, rotated_roi_align
from gridsample.operators.splatting import softmax_splat, softmax_splat_vjp
from gridsample.operators.sums import weighted_sum, weighted_sum_vjp
from gridsample.operators.tables import apply_lut

__all__ = [
    "CorrelationBlock",
    "apply_lut",
    "correlation_lookup",
    "correlation_lookup_vjp",
    "deform_conv2d",
    "deform_sum2d",
    "deformable_attention",
    "point_features",
    "ps_roi_align",
    "roi_align",
    "rotated_roi_align",
    "softmax_splat",
    "softmax_splat_vjp",
    "weighted_sum",
    "weighted_sum_vjp",
]
