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
from gridsample.definitions.plan import Mode
from gridsample.registration.pyramid import SMALLEST, Pair
from gridsample.registration.sums import total

_FLAT = 1e-6
"""The least standard deviation of an image, relative to its largest value."""


@dataclass(frozen=True)
class Inputs:
    """The images of a call.

    Attributes:
        backend: the backend of the caller's arrays.
        plain: whether they have spatial axes only.
        channel_axis: 1 or -1.
        fixed: (N or 1, C, *spatial) float32, with NaN for missing pixels.
        moving: likewise.
        fixed_mask: (N or 1, *spatial): 1 where pixels count, else 0.
        moving_mask: likewise.
        original: the caller's moving image, (N or 1, C, *spatial) or channels last.
    """

    backend: Backend
    plain: bool
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
        mine, other = (one[item % len(one)] for one in (self.fixed, self.moving))
        masks = (one[item % len(one)] for one in (self.fixed_mask, self.moving_mask))
        known, moving_known = (
            mask * torch.isfinite(image).all(0)
            for mask, image in zip(masks, (mine, other), strict=True)
        )
        mean, width = _moments(mine, known, "fixed")
        _moments(other, moving_known, "moving")
        fixed, moving = (
            torch.where(there > 0, (image - mean) / width, 0.0)
            for image, there in ((mine, known), (other, moving_known))
        )
        return Pair(fixed, known, moving, moving_known, spacing, moving_spacing, mode)


def _moments(image: Tensor, known: Tensor, name: str) -> tuple[float, float]:
    """The mean and the standard deviation of the valid pixels, or an error."""
    count = float(total(known)) * len(image)
    if not count:
        raise ValueError(
            f"{name} has no valid pixels: all of them are NaN or infinite, or excluded by "
            f"{name}_mask"
        )
    values = torch.where(known > 0, image, 0.0).double()
    mean = float(total(values)) / count
    width = math.sqrt(float(total(known * (values - mean).square())) / count)
    if width <= _FLAT * max(float(values.abs().max()), 1e-30):
        raise ValueError(f"{name} is constant ({mean:g}), and cannot be aligned")
    return mean, width


def take_images(
    fixed: Any, moving: Any, fixed_mask: Any, moving_mask: Any, channel_axis: Any
) -> Inputs:
    """Convert the caller's images and masks, or raise an error."""
    given = {"fixed": fixed, "moving": moving}
    masks = {"fixed_mask": fixed_mask, "moving_mask": moving_mask}
    given |= {name: one for name, one in masks.items() if one is not None}
    backend = backend_of(**given)
    taken = dict(zip(given, backend.asarrays(**given), strict=True))
    if channel_axis not in (1, -1):
        raise ValueError(f"channel_axis must be 1 or -1, got {channel_axis!r}")
    shapes = {name: backend.shape(one) for name, one in taken.items()}
    plain = _check_shapes(shapes["fixed"], shapes["moving"], channel_axis)
    mine, other = (
        _first(_real(taken[name], name), plain, channel_axis) for name in ("fixed", "moving")
    )
    if mine.shape[1] != other.shape[1]:
        raise ValueError(
            f"fixed has {mine.shape[1]} channels and moving {other.shape[1]}; they must "
            f"have the same number; got shapes {shapes['fixed']} and {shapes['moving']}"
        )
    known = _mask(taken.get("fixed_mask"), "fixed_mask", mine)
    moving_known = _mask(taken.get("moving_mask"), "moving_mask", other)
    original = taken["moving"]
    if plain:
        original, channel_axis = original[None, None], 1
    return Inputs(backend, plain, channel_axis, mine, other, known, moving_known, original)


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
    plain = len(fixed) < 4
    for name, shape in (("fixed", fixed), ("moving", moving)):
        spatial = shape if plain else shape[2:] if channel_axis == 1 else shape[1:-1]
        if min(spatial) < SMALLEST:
            hint = ""
            if len(shape) == 3 and shape[-1] < SMALLEST:
                hint = "; a colour image (H, W, C) is given as image[None], with channel_axis=-1"
            raise ValueError(
                f"{name} is too small: each spatial axis needs at least {SMALLEST} pixels; got "
                f"shape {tuple(shape)}{hint}"
            )
        if not plain and 0 in shape:
            raise ValueError(f"{name} is empty: shape {tuple(shape)}")
    if not plain and len({fixed[0], moving[0], 1}) > 2:
        raise ValueError(
            f"fixed and moving must have the same N, or N = 1; got shapes {tuple(fixed)} and "
            f"{tuple(moving)}"
        )
    return plain


def _real(array: Any, name: str) -> Tensor:
    """Convert an image to a float32 tensor."""
    if isinstance(array, Tensor):
        if array.is_complex():
            raise TypeError(f"{name} must hold real numbers, got {array.dtype}")
        return array.detach().to(torch.float32)
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise TypeError(f"{name} must hold real numbers, got {array.dtype}")
    return torch.from_numpy(np.array(array, np.float32))


def _first(image: Tensor, plain: bool, channel_axis: int) -> Tensor:
    """Arrange an image as (N, C, *spatial), in order."""
    if plain:
        return image[None, None].contiguous()
    return image.movedim(channel_axis, 1).contiguous()


def _mask(given: Any, name: str, image: Tensor) -> Tensor:
    """Convert a mask to (N or 1, *spatial), 1 where pixels count."""
    spatial = image.shape[2:]
    if given is None:
        return torch.ones((1, *spatial), device=image.device)
    mask = (_real(given, name) != 0).float()
    if mask.ndim > len(spatial) and mask.shape[1] == 1:
        mask = mask[:, 0]
    if mask.ndim == len(spatial):
        mask = mask[None]
    if mask.shape[1:] != spatial or len(mask) not in (1, len(image)):
        raise ValueError(
            f"{name} must be {tuple(spatial)}, with N or (N, 1) in front of it if the masks of a "
            f"batch differ; got shape {tuple(given.shape)}"
        )
    return mask.to(image.device)


def take_spacing(given: Any, rank: int, name: str) -> tuple[float, ...]:
    """Return the distances between pixels in the order of the axes, or raise an error."""
    if given is None:
        return (1.0,) * rank
    try:
        found = tuple(float(one) for one in given)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be {rank} numbers, got {given!r}") from None
    if len(found) != rank or not all(math.isfinite(one) and one > 0 for one in found):
        raise ValueError(f"{name} must be {rank} positive numbers, got {given!r}")
    return found


def take_initial(given: Any, inputs: Inputs) -> Tensor | None:
    """Return the matrices (N or 1, D + 1, D + 1) to start from, in pixels; None for a search."""
    rank = inputs.rank
    if isinstance(given, str):
        if given not in ("search", "identity"):
            raise ValueError(
                f"initial must be 'search', 'identity' or a matrix in pixels, got {given!r}"
            )
        return None if given == "search" else torch.eye(rank + 1, dtype=torch.float64)[None]
    try:
        found = torch.as_tensor(given).detach().to("cpu", torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"initial must be 'search', 'identity' or a matrix in pixels, got {given!r}"
        ) from None
    found = found[None] if found.ndim == 2 else found
    shape = tuple(found.shape)
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
        found = torch.cat([found, last.expand(len(found), 1, rank + 1)], 1)
    if not bool(torch.isfinite(found).all()) or bool((torch.linalg.det(found) == 0).any()):
        raise ValueError("initial must be an invertible matrix of finite numbers")
    return found
