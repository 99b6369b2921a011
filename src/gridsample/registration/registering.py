"""The public function `register`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.methods import Mode, find_method, listed
from gridsample.fields.arrays import check_count, check_name, check_positive
from gridsample.fields.conversions import theta_from_matrix, to_displacement
from gridsample.ops.sampling import grid_sample
from gridsample.registration.arguments import Inputs, check_images, check_initial, check_spacing
from gridsample.registration.coarse_to_fine import Alignment, Settings, align
from gridsample.registration.losses import loss_of
from gridsample.registration.models import MODELS, Matrix
from gridsample.registration.penalties import PENALTIES, Penalty
from gridsample.registration.pyramid import Pair
from gridsample.registration.result import Registration, RegistrationWarning

# The weights of the regularizations by default.
_WEIGHTS = {"diffusion": 0.1, "bending": 0.005}


def register(
    fixed: ArrayT,
    moving: ArrayT,
    model: str = "affine",
    loss: str | Callable[[Tensor, Tensor, Tensor], Tensor] = "mse",
    *,
    fixed_mask: ArrayT | None = None,
    moving_mask: ArrayT | None = None,
    initial: Any = "search",
    mode: Mode = "bilinear",
    regularization: str = "bending",
    weight: float | None = None,
    smoothing: float = 0.0,
    levels: int | None = None,
    iterations: int = 30,
    tolerance: float | None = None,
    steps: int = 6,
    spacing: Sequence[float] | None = None,
    moving_spacing: Sequence[float] | None = None,
    channel_axis: int = 1,
    progress: Callable[[float], None] | None = None,
) -> Registration:
    """Find the transform that maps the pixels of a fixed image to those of a moving image.

    The transform T minimizes loss(moving(T(x)), fixed(x)) over the pixels x of the fixed image that
    T maps into the moving image, where neither pixel is NaN, infinite or masked:

    ===============  =============================================================================
    "translation"    T(x) = x + t
    "rigid"          a rotation and a translation
    "similarity"     a rotation, a translation and one scale
    "affine"         T(x) = A x + t
    "homography"     a projective map
    "displacement"   T(x) = A (x + u(x)), with a vector u(x) for each pixel
    "velocity"       T(x) = A (x + exp(v)(x)): smooth and invertible, see `gridsample.fields.exp`
    ===============  =============================================================================

    Both images are first shifted and scaled by the mean and the standard deviation of the fixed
    image, so that losses and weights do not depend on units.  With w for the warped and f for the
    fixed image, the losses are:

    ===============  =============================================================================
    "mse"            mean (w - f)^2
    "l1"             mean |w - f|
    "ncc"            1 - correlation(w, f), for images that differ in brightness and contrast
    "lncc"           1 - mean correlation(w, f)^2 over windows of 9 pixels, for shading
    "mi"             minus the mutual information in nats, for images of different kinds: Mattes et
                     al., IEEE Transactions on Medical Imaging 22 (2003), with 32 x 32 bins
    callable         loss(w, f, weight) of tensors (1, C, *spatial) and (1, 1, *spatial), where the
                     weight is 1 for valid pixels, else 0; returns a tensor with one number
    ===============  =============================================================================

    The start is a search over rotations, scales and all translations by which the images overlap,
    at a low resolution.  Every level of a pyramid of antialiased images is then optimized by
    Gauss-Newton steps that are shortened until the loss decreases.  For fields, an affine map A is
    found first, and the regularization of u or v is added to the loss:

        weight / 2 * mean |D u|^2           "diffusion": D u are the first derivatives
        weight / 2 * mean |L D^2 u|^2       "bending": D^2 u are the second derivatives, and L is
                                            half of the longest side of the fixed image

    Neither depends on the resolution of the images.

    Args:
        fixed: the image to which moving is aligned: (N, C, H, W) or (N, C, D, H, W), or (H, W) or
            (D, H, W) without these axes; real numbers of any dtype, at least 5 pixels along each
            axis.  NaN and infinite pixels count as missing.
        moving: the image that is warped, with the same number of channels and of axes; its size may
            differ.  Each of the N pairs is registered on its own; one of the images may have N = 1.
        model: the name of the model.
        loss: the name of the loss, or a function.
        fixed_mask: (H, W) or (D, H, W), 0 for pixels to ignore, or a batch (N, 1, ...).
        moving_mask: the same for the moving image.
        initial: "search", "identity", or a matrix from fixed to moving pixels, (D + 1, D + 1) or
            (D, D + 1) or a batch, x first, such as `Registration.matrix`.  With the last two, there
            is no search, and fields start without finding A.  The result is a map of the model
            followed by the initial matrix, which may therefore hold a reflection.
        mode: the method that interpolates the moving image, as in `grid_sample`.
        regularization: "bending" or "diffusion", for fields.
        weight: the weight of the regularization; by default 0.005 (bending) or 0.1 (diffusion).
        smoothing: the standard deviation, in pixels, of a Gaussian that smooths each step of a
            field.
        levels: the number of levels of the pyramid, each with half the resolution of the next.
        iterations: the largest number of steps at each level.
        tolerance: a level ends after a step by which pixels move less than this, on average, in
            pixels of the level; by default 0.001, and 0.01 for fields.
        steps: the number of compositions of the exponential, for "velocity".
        spacing: the distances between the pixels of the fixed image in the order of its axes, such
            as (3.0, 0.8, 0.8), so that rotations are true rotations if voxels are not cubes.
        moving_spacing: the distances in the moving image; by default those of the fixed image.
        channel_axis: 1, or -1 for (N, H, W, C) or (N, D, H, W, C).
        progress: a function that is called with the share of the work that is done.

    Returns:
        A `Registration` with the transform, the field, the grid, the warped image and the history.

    Raises:
        ImportError: torch is not installed.
        TypeError: an image does not hold real numbers, or an option has the wrong type.
        ValueError: shapes, channels or options do not match, a name is unknown, an image is too
            small, constant or has no valid pixels, or the images hardly overlap at the start.

    Example:
        >>> import numpy as np
        >>> from gridsample import register
        >>> x, y = np.meshgrid(np.arange(40.0), np.arange(32.0))
        >>> fixed, moving = (np.exp(-((x - a) ** 2 + (y - 15) ** 2) / 30) for a in (15, 21))
        >>> result = register(fixed, moving, "translation")
        >>> bool(np.allclose(result.matrix[0], [[1, 0, 6], [0, 1, 0], [0, 0, 1]], atol=0.01))
        True
        >>> result.field.shape, result.warped.shape
        ((1, 32, 40, 2), (32, 40))
    """
    name = check_name(model, MODELS, "model")
    for method_name in listed(mode):
        method = find_method(method_name)
        if method.taps == 1 or method.votes:
            raise ValueError(f"mode {method.name!r} has no gradient; use 'bilinear', for example")
    penalty = check_name(regularization, PENALTIES, "regularization")
    inputs = check_images(fixed, moving, fixed_mask, moving_mask, channel_axis)
    if weight is not None and weight != 0:
        check_positive(weight, "weight")
    if smoothing != 0:
        check_positive(smoothing, "smoothing")
    is_field = name in ("displacement", "velocity")
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be a function or None, got {progress!r}")
    settings = Settings(
        name,
        loss_of(loss),
        Penalty(penalty, _WEIGHTS[penalty] if weight is None else float(weight)),
        float(smoothing),
        None if levels is None else max(check_count(levels, "levels"), 1),
        check_count(iterations, "iterations"),
        (0.01 if is_field else 0.001)
        if tolerance is None
        else check_positive(tolerance, "tolerance"),
        check_count(steps, "steps"),
    )
    fixed_spacing = check_spacing(spacing, inputs.rank, "spacing")
    other_spacing = fixed_spacing
    if moving_spacing is not None:
        other_spacing = check_spacing(moving_spacing, inputs.rank, "moving_spacing")
    initials = check_initial(initial, inputs)
    transforms = list[Transform]()
    for item in range(inputs.items):
        pair = inputs.pair(item, fixed_spacing, other_spacing, mode)
        matrix = None if initials is None else to_frame(pair, initials[item % len(initials)])
        report = reporter(progress, item, inputs.items)
        transforms.append(to_transform(pair, align(pair, matrix, settings, item, report)))
    result = assemble(name, transforms, inputs, mode)
    if not result.success:
        warnings.warn(f"register failed: {result.reason}", RegistrationWarning, stacklevel=2)
    return result


def reporter(
    progress: Callable[[float], None] | None, item: int, items: int
) -> Callable[[float], None]:
    """Convert the progress of one pair to that of all."""

    def report(share: float) -> None:
        if progress is not None:
            progress((item + share) / items)

    return report


def to_frame(pair: Pair, matrix: Tensor) -> Tensor:
    """Convert a matrix from fixed to moving pixels to one of the frame."""
    return normalized(pair.moving_axes().matrix() @ matrix @ torch.linalg.inv(pair.axes().matrix()))


def to_pixels(pair: Pair, matrix: Tensor) -> Tensor:
    """Convert a matrix of the frame to one from fixed to moving pixels."""
    return normalized(torch.linalg.inv(pair.moving_axes().matrix()) @ matrix @ pair.axes().matrix())


def normalized(matrix: Tensor) -> Tensor:
    """Divide a homogeneous matrix by its last entry."""
    return matrix / matrix[-1, -1]


# Results ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Transform:
    """The transform of one pair, in pixels: a matrix or a velocity, positions, and the start."""

    matrix: Tensor | None
    velocity: Tensor | None
    positions: Tensor
    start: Tensor
    alignment: Alignment


def to_transform(pair: Pair, alignment: Alignment) -> Transform:
    """Convert an alignment to pixels."""
    level, model = pair.level(1.0), alignment.model
    with torch.no_grad():
        positions = model.positions(level).contiguous()
        start = to_pixels(pair, alignment.start)
        if isinstance(model, Matrix):
            return Transform(to_pixels(pair, model.matrix), None, positions, start, alignment)
        velocity = None if model.steps is None else model.field / model.spacings(level)
        return Transform(None, velocity, positions, start, alignment)


def assemble(
    name: str, transforms: Sequence[Transform], inputs: Inputs, mode: Mode
) -> Registration:
    """Assemble the result of all pairs, as arrays of the caller's library."""
    device = inputs.fixed.device
    positions = torch.cat([transform.positions for transform in transforms])
    size = inputs.moving.shape[:1:-1]
    grid = torch.stack(
        [(part * 2 + 1) / n - 1 for part, n in zip(positions.unbind(-1), size, strict=True)], -1
    )
    matrix = stacked([transform.matrix for transform in transforms])
    theta = None
    if matrix is not None and name != "homography" and bool((matrix[:, -1, :-1] == 0).all()):
        fixed, moving = (image.shape[2:] for image in (inputs.fixed, inputs.moving))
        theta = theta_from_matrix(matrix, moving, fixed, convention="pixel")
    velocity = stacked([transform.velocity for transform in transforms])
    start = stacked([transform.start for transform in transforms])

    def as_callers_array(tensor: Tensor | None) -> Any:
        """Convert a tensor to the caller's library and device."""
        if tensor is None:
            return None
        numpy = not isinstance(inputs.original, Tensor)
        placed = tensor.cpu().numpy() if numpy else tensor.to(device)
        return inputs.backend.restore(placed, inputs.original)

    warped = grid_sample(
        inputs.original.detach() if isinstance(inputs.original, Tensor) else inputs.original,
        as_callers_array(grid),
        mode,
        "zeros",
        channel_axis=inputs.channel_axis,
    )
    alignments = [transform.alignment for transform in transforms]
    return Registration(
        model=name,
        matrix=as_callers_array(matrix),
        theta=as_callers_array(theta),
        field=as_callers_array(to_displacement(positions, coords="pixel")),
        grid=as_callers_array(grid),
        velocity=as_callers_array(None if velocity is None else velocity.flatten(0, 1)),
        start=as_callers_array(start),
        warped=warped[0, 0] if inputs.is_unbatched else warped,
        history=tuple(stage for alignment in alignments for stage in alignment.stages),
        verdicts=tuple(alignment.verdict for alignment in alignments),
    )


def stacked(tensors: Sequence[Tensor | None]) -> Tensor | None:
    """Stack the tensors of all pairs, unless the model has none."""
    present = [tensor for tensor in tensors if tensor is not None]
    return torch.stack(present) if present else None
