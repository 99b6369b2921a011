"""Optical flow: warps, and the consistency of two flows."""

from __future__ import annotations

from typing import Any, NamedTuple

from gridsample.backends import overridable
from gridsample.definitions.arrays import ArrayT, Fill
from gridsample.definitions.methods import Mode, Padding
from gridsample.definitions.names import FieldCoordsName
from gridsample.fields.arrays import (
    check_field_coords,
    components,
    norm,
    restore_dtype,
    squared_norm,
    to_positions,
)
from gridsample.fields.displacements import as_pair, sampled
from gridsample.ops.sampling import grid_sample


class Consistency(NamedTuple):
    """The result of `consistency`.

    Attributes:
        error: the distance in pixels between the start and the end of each pixel: (N, *spatial).
        consistent: whether the error is small and the pixel stays in the image, a bool for each.
    """

    error: Any
    consistent: Any


def flow_warp(
    input: ArrayT,
    flow: ArrayT,
    mode: Mode = "bilinear",
    padding_mode: Padding = "zeros",
    *,
    coords: FieldCoordsName = "displacement",
    fill_value: Fill = 0,
    return_mask: bool = False,
    channel_axis: int = 1,
) -> ArrayT:
    """Warp an image by an optical flow: each output pixel p shows the image at p + flow(p).

    This is backward warping: with the flow from frame 1 to frame 2, it moves the pixels of
    *frame 2* onto frame 1.  It is `grid_sample` with coords="displacement", whose other options and
    gradients (`grid_sample_vjp`) apply.

    Args:
        input: the image, (N, C, *spatial), as in `grid_sample`.
        flow: (N, *spatial, D) in pixels, components in x, y, z order.  A flow whose components come
            second, as most networks return it, is passed as ``flow.movedim(1, -1)``.
        coords: what the flow holds, as in `compose`.
        return_mask: whether to also return the share of each point's weight that is on the image,
            as in `grid_sample`.
        mode, padding_mode, fill_value, channel_axis: as in `grid_sample`.

    Returns:
        (N, C, *spatial) in the input's dtype, or a tuple of that and the mask.

    Raises:
        TypeError: a dtype or the type of an option is not accepted.
        ValueError: the shapes do not match, or a name is unknown.

    Example:
        >>> import numpy as np
        >>> from gridsample.fields import flow_warp
        >>> frame = np.array([[[[1.0, 2.0, 3.0]]]])
        >>> right = np.array([1.0, 0.0]) * np.ones((1, 1, 3, 1))
        >>> flow_warp(frame, right)
        array([[[[2., 3., 0.]]]])
    """
    return grid_sample(
        input,
        flow,
        mode,
        padding_mode,
        coords=check_field_coords(coords),
        fill_value=fill_value,
        return_mask=return_mask,
        channel_axis=channel_axis,
    )


@overridable(arrays=2)
def consistency(
    forward: ArrayT,
    backward: ArrayT,
    mode: Mode = "bilinear",
    *,
    relative: float = 0.01,
    absolute: float = 0.5,
    coords: FieldCoordsName = "displacement",
) -> Consistency:
    """Check whether two flows are inverse to each other; they are not where a pixel is occluded.

    With the displacement f of a pixel p by the forward flow, and the displacement b of p + f by the
    backward flow, the error is |f + b|.  A pixel is consistent if p + f is in the image and

        |f + b|^2 < relative * (|f|^2 + |b|^2) + absolute

    (Sundaram, Brox and Keutzer 2010).

    Args:
        forward: the flow from frame 1 to frame 2, (N, *spatial, D) in pixels, components in x, y, z
            order.
        backward: the flow from frame 2 to frame 1, of the same shape.
        mode: the method that interpolates the backward flow, as in `grid_sample`.
        relative: the factor of the squared lengths of the flows.
        absolute: the squared error, in square pixels, that is always accepted.
        coords: what the flows hold, as in `compose`.

    Returns:
        The error in pixels and the flags, as a `Consistency`; for tensors, the error is
        differentiable.

    Raises:
        TypeError: a flow does not hold real numbers.
        ValueError: the shapes do not match, or a name is unknown.

    Example:
        >>> import numpy as np
        >>> from gridsample.fields import consistency
        >>> flow = np.full((1, 4, 1), 1.0)  # one pixel to the right
        >>> error, consistent = consistency(flow, -flow)
        >>> consistent  # the last pixel leaves the image
        array([[ True,  True,  True, False]])
    """
    backend, (forward_flow, back) = as_pair(coords, forward=forward, backward=backward)
    rank = backend.shape(forward_flow)[-1]
    returned = sampled(back, forward_flow, mode, "border")
    missed = forward_flow + returned
    bound = (squared_norm(forward_flow, rank) + squared_norm(returned, rank)) * relative + absolute
    consistent = squared_norm(missed, rank) < bound
    sizes = backend.shape(back)[1:-1]
    for component, n in zip(
        components(to_positions(backend, forward_flow), rank), sizes[::-1], strict=True
    ):
        consistent = consistent & (component >= -0.5) & (component <= n - 0.5)
    error = norm(backend, missed, rank)
    return Consistency(
        restore_dtype(backend, error, forward, backward), backend.restore(consistent, forward)
    )
