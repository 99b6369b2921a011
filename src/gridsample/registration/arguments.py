"""The caller's images, checked, as pairs of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gridsample.backends import Backend, backend_of
from gridsample.definitions.methods import Mode
from gridsample.registration.pyramid import MIN_SIZE, Pair
from gridsample.registration.sums import total

_FLAT = 1e-6
"""The smallest standard deviation of an image, relative to its largest value."""
_LARGEST = 1e9
"""The largest values of the moving image, in standard deviations of the fixed one."""


@dataclass(frozen=True)
class Inputs:
    """The images of a call.

    Attributes:
        backend: the backend of the caller's arrays.
        is_unbatched: whether they have spatial axes only.
        channel_axis: 1 or -1.
        fixed: (N or 1, C, *spatial) float32, with NaN for missing pixels.
        moving: likewise.
        fixed_mask: (N or 1, *spatial): 1 where pixels count, else 0.
        moving_mask: likewise.
        original: the caller's moving image, (N or 1, C, *spatial) or channels last.
    """

    backend: Backend
    is_unbatched: bool
    channel_axis: int
    fixed: Tensor
    moving: Tensor
    fixed_mask: Tensor
    moving_mask: Tensor
    original: Any

    @property
    def items(self) -> int:
        """The number of pairs."""
        return max(len(self.fixed), len(self.moving))

    @property
    def rank(self) -> int:
        """The number of spatial axes."""
        return self.fixed.ndim - 2

    def pair(self, item: int, spacing: Any, moving_spacing: Any, mode: Mode) -> Pair:
        """Return one pair of images, shifted and scaled so that the fixed one is standardized."""
        fixed, moving = (batch[item % len(batch)] for batch in (self.fixed, self.moving))
        masks = (batch[item % len(batch)] for batch in (self.fixed_mask, self.moving_mask))
        known, moving_known = (
            mask * torch.isfinite(image).all(0)
            for mask, image in zip(masks, (fixed, moving), strict=True)
        )
        mean, width = _mean_and_deviation(fixed, known, "fixed")
        moving_mean, moving_width = _mean_and_deviation(moving, moving_known, "moving")
        if max(moving_width, abs(moving_mean - mean)) > _LARGEST * width:
            raise ValueError(
                f"moving ({moving_mean:g} +- {moving_width:g}) and fixed ({mean:g} +- {width:g}) "
                "differ too much in scale for single precision; scale one of them first"
            )
        fixed, moving = (
            torch.where(mask > 0, (image - mean) / width, 0.0)
            for image, mask in ((fixed, known), (moving, moving_known))
        )
        return Pair(fixed, known, moving, moving_known, spacing, moving_spacing, mode)


def _mean_and_deviation(image: Tensor, known: Tensor, name: str) -> tuple[float, float]:
    """The mean and the standard deviation of the valid pixels, or an error."""
    count = float(total(known)) * len(image)
    if not count:
        raise ValueError(
            f"{name} has no valid pixels: all of them are NaN, infinite or beyond single "
            f"precision, or excluded by {name}_mask"
        )
    values = torch.where(known > 0, image, 0.0).double()
    mean = float(total(values)) / count
    width = math.sqrt(float(total(known * (values - mean).square())) / count)
    if width <= _FLAT * max(float(values.abs().max()), 1e-30):
        raise ValueError(
            f"{name} is constant ({mean:g}), or varies by less than a millionth of its values, and "
            "cannot be aligned"
        )
    return mean, width


def check_images(
    fixed: Any, moving: Any, fixed_mask: Any, moving_mask: Any, channel_axis: Any
) -> Inputs:
    """Convert the caller's images and masks, or raise an error."""
    named = {"fixed": fixed, "moving": moving}
    masks = {"fixed_mask": fixed_mask, "moving_mask": moving_mask}
    named |= {name: mask for name, mask in masks.items() if mask is not None}
    backend = backend_of(**named)
    arrays = dict(zip(named, backend.asarrays(**named), strict=True))
    if channel_axis not in (1, -1):
        raise ValueError(f"channel_axis must be 1 or -1, got {channel_axis!r}")
    shapes = {name: backend.shape(array) for name, array in arrays.items()}
    is_unbatched = _check_shapes(shapes["fixed"], shapes["moving"], channel_axis)
    fixed_batch, moving_batch = (
        _batched(_real(arrays[name], name), is_unbatched, channel_axis)
        for name in ("fixed", "moving")
    )
    if fixed_batch.shape[1] != moving_batch.shape[1]:
        raise ValueError(
            f"fixed has {fixed_batch.shape[1]} channels and moving {moving_batch.shape[1]}; they "
            f"must have the same number; got shapes {shapes['fixed']} and {shapes['moving']}"
        )
    known = _mask(arrays.get("fixed_mask"), "fixed_mask", fixed_batch)
    moving_known = _mask(arrays.get("moving_mask"), "moving_mask", moving_batch)
    original = arrays["moving"]
    if is_unbatched:
        original, channel_axis = original[None, None], 1
    return Inputs(
        backend,
        is_unbatched,
        channel_axis,
        fixed_batch,
        moving_batch,
        known,
        moving_known,
        original,
    )


def _check_shapes(fixed: Sequence[int], moving: Sequence[int], channel_axis: int) -> bool:
    """Return whether the images have spatial axes only, or raise an error."""
    for name, shape in (("fixed", fixed), ("moving", moving)):
        if not 2 <= len(shape) <= 5:
            raise ValueError(
                f"{name} must be (H, W), (D, H, W), (N, C, H, W) or (N, C, D, H, W), got shape "
                f"{tuple(shape)}"
            )
    if len(fixed) != len(moving):
        raise ValueError(
            "fixed and moving must have the same number of axes; got shapes "
            f"{tuple(fixed)} and {tuple(moving)}"
        )
    is_unbatched = len(fixed) < 4
    for name, shape in (("fixed", fixed), ("moving", moving)):
        spatial = shape if is_unbatched else shape[2:] if channel_axis == 1 else shape[1:-1]
        if min(spatial) < MIN_SIZE:
            hint = ""
            if len(shape) == 3 and shape[-1] < MIN_SIZE:
                hint = "; a colour image (H, W, C) is given as image[None], with channel_axis=-1"
            raise ValueError(
                f"{name} is too small: each spatial axis needs at least {MIN_SIZE} pixels; got "
                f"shape {tuple(shape)}{hint}"
            )
        if not is_unbatched and 0 in shape:
            raise ValueError(f"{name} is empty: shape {tuple(shape)}")
    if not is_unbatched and len({fixed[0], moving[0], 1}) > 2:
        raise ValueError(
            f"fixed and moving must have the same N, or N = 1; got shapes {tuple(fixed)} and "
            f"{tuple(moving)}"
        )
    return is_unbatched


def _real(array: Any, name: str) -> Tensor:
    """Convert an image to a float32 tensor."""
    if isinstance(array, Tensor):
        if array.is_complex():
            raise TypeError(f"{name} must hold real numbers, got {array.dtype}")
        return array.detach().to(torch.float32)
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise TypeError(f"{name} must hold real numbers, got {array.dtype}")
    with np.errstate(over="ignore"):  # what is infinite then counts as missing
        return torch.from_numpy(np.array(array, np.float32))


def _batched(image: Tensor, is_unbatched: bool, channel_axis: int) -> Tensor:
    """Arrange an image as (N, C, *spatial), in order."""
    if is_unbatched:
        return image[None, None].contiguous()
    return image.movedim(channel_axis, 1).contiguous()


def _mask(array: Any, name: str, image: Tensor) -> Tensor:
    """Convert a mask to (N or 1, *spatial), 1 where pixels count."""
    spatial = image.shape[2:]
    if array is None:
        return torch.ones((1, *spatial), device=image.device)
    numbers = _real(array, name)
    if bool(numbers.isnan().any()):
        raise ValueError(f"{name} contains NaN; accepted: 0 for pixels to ignore, other numbers")
    mask = (numbers != 0).float()
    if mask.ndim > len(spatial) and mask.shape[1] == 1:
        mask = mask[:, 0]
    if mask.ndim == len(spatial):
        mask = mask[None]
    if mask.shape[1:] != spatial or len(mask) not in (1, len(image)):
        raise ValueError(
            f"{name} must be {tuple(spatial)}, with N or (N, 1) in front of it if the masks of a "
            f"batch differ; got shape {tuple(array.shape)}"
        )
    return mask.to(image.device)


def check_spacing(spacing: Any, rank: int, name: str) -> tuple[float, ...]:
    """Return the distances between pixels in the order of the axes, or raise an error."""
    if spacing is None:
        return (1.0,) * rank
    try:
        distances = tuple(float(distance) for distance in spacing)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be {rank} numbers, got {spacing!r}") from None
    if len(distances) != rank or not all(math.isfinite(s) and s > 0 for s in distances):
        raise ValueError(f"{name} must be {rank} positive numbers, got {spacing!r}")
    return distances


def check_initial(initial: Any, inputs: Inputs) -> Tensor | None:
    """Return the matrices (N or 1, D + 1, D + 1) to start from, in pixels; None for a search."""
    rank = inputs.rank
    if isinstance(initial, str):
        if initial not in ("search", "identity"):
            raise ValueError(
                f"initial must be 'search', 'identity' or a matrix in pixels, got {initial!r}"
            )
        return None if initial == "search" else torch.eye(rank + 1, dtype=torch.float64)[None]
    try:
        matrices = torch.as_tensor(initial).detach().to("cpu", torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"initial must be 'search', 'identity' or a matrix in pixels, got {initial!r}"
        ) from None
    matrices = matrices[None] if matrices.ndim == 2 else matrices
    shape = tuple(matrices.shape)
    if (
        len(shape) != 3
        or shape[0] not in (1, inputs.items)
        or shape[1] not in (rank, rank + 1)
        or shape[2] != rank + 1
    ):
        raise ValueError(
            f"initial must be ({rank + 1}, {rank + 1}) or ({rank}, {rank + 1}), with N in front if "
            f"the matrices of a batch differ; got shape {shape}"
        )
    if shape[1] == rank:
        last = torch.eye(rank + 1, dtype=torch.float64)[rank:]
        matrices = torch.cat([matrices, last.expand(len(matrices), 1, rank + 1)], 1)
    if not bool(torch.isfinite(matrices).all()) or bool((torch.linalg.det(matrices) == 0).any()):
        raise ValueError("initial must be an invertible matrix of finite numbers")
    return matrices
