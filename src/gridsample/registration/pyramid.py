"""Pyramids: both images at several resolutions, and the coordinates that these share.

The frame is the coordinate system of the transforms: the origin is the centre of an image, and the
unit is half of the fixed image's longest side.  Angles are true where voxels are not cubes, and
numbers are small.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gridsample.definitions.methods import Mode
from gridsample.ops.resizing import interpolate
from gridsample.ops.sampling import grid_sample

MIN_SIZE = 5
"""The smallest number of pixels along an axis, of images and of levels."""
_INSIDE = 0.01
"""By how many pixels a point may be outside the moving image, so that rounding loses none."""


@dataclass(frozen=True)
class LevelGrid:
    """The grid of an image at a level of the pyramid, in the frame.

    Attributes:
        size: the spatial shape at this level.
        spacings: the distance between pixels in the frame along x, y, z.
        origin: the coordinates of the first pixel's centre.
    """

    size: tuple[int, ...]
    spacings: tuple[float, ...]
    origin: tuple[float, ...]

    def matrix(self) -> Tensor:
        """(D + 1, D + 1): the map from pixels of this level to the frame, x first."""
        matrix = torch.diag(torch.tensor([*self.spacings, 1.0], dtype=torch.float64))
        matrix[:-1, -1] = torch.tensor(self.origin, dtype=torch.float64)
        return matrix

    def lines(self, like: Tensor) -> list[Tensor]:
        """The coordinates of the pixels in the frame, x first, in shapes that broadcast."""
        return _lines(self, like.dtype, like.device)


@functools.lru_cache(maxsize=32)
def _lines(axes: LevelGrid, dtype: torch.dtype, device: torch.device) -> list[Tensor]:
    sizes = zip(axes.size[::-1], axes.spacings, axes.origin, strict=True)
    return [
        (torch.arange(n, dtype=dtype, device=device) * spacing + start).reshape(-1, *(1,) * axis)
        for axis, (n, spacing, start) in enumerate(sizes)
    ]


def axes_of(
    full: Sequence[int], spacing: Sequence[float], unit: float, size: Sequence[int]
) -> LevelGrid:
    """Describe a level with the shape ``size`` of an image with the shape ``full``."""
    spacings = [s * n / m / unit for n, s, m in zip(full, spacing, size, strict=True)][::-1]
    origin = [-s * (m - 1) / 2 for s, m in zip(spacings, size[::-1], strict=True)]
    return LevelGrid(tuple(size), tuple(spacings), tuple(origin))


@dataclass(frozen=True)
class PyramidLevel:
    """Both images at one resolution.

    Attributes:
        fixed: (C, *spatial).
        weight: (*spatial): 1 where the fixed image counts, else 0.
        moving: (1, C, *spatial), with 0 for missing pixels.
        known: (1, 1, *spatial): 1 where the moving image counts, else 0; None if it does
            everywhere.
        axes: the grid of the fixed image.
        moving_axes: that of the moving image.
        mode: the method that interpolates the moving image.
    """

    fixed: Tensor
    weight: Tensor
    moving: Tensor
    known: Tensor | None
    axes: LevelGrid
    moving_axes: LevelGrid
    mode: Mode

    def sample(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Sample the moving image at pixels of its level, and find the weights of the results."""
        warped = grid_sample(self.moving, positions, self.mode, "border", coords="pixel")[0]
        weight = self.weight
        for part, n in zip(positions[0].unbind(-1), self.moving_axes.size[::-1], strict=True):
            half = (n - 1) / 2  # one comparison for both edges
            weight = weight * ((part - half).abs_() <= half + _INSIDE)
        if self.known is not None:
            share = grid_sample(self.known, positions, "bilinear", "border", coords="pixel")
            weight = weight * (share[0, 0] > 0.99)
        return warped, weight


@dataclass(frozen=True)
class Pair:
    """The two images of a registration.

    Attributes:
        fixed: (C, *spatial), standardized, with 0 for missing pixels.
        fixed_known: (*spatial): 1 where the fixed image counts, else 0.
        moving: (C, *spatial), likewise.
        moving_known: (*spatial).
        spacing: the distances between the fixed image's pixels, in the order of its axes.
        moving_spacing: those of the moving image.
        mode: the method that interpolates the moving image.
    """

    fixed: Tensor
    fixed_known: Tensor
    moving: Tensor
    moving_known: Tensor
    spacing: tuple[float, ...]
    moving_spacing: tuple[float, ...]
    mode: Mode = "bilinear"

    @property
    def size(self) -> tuple[int, ...]:
        """The spatial shape of the fixed image."""
        return tuple(self.fixed.shape[1:])

    @property
    def moving_size(self) -> tuple[int, ...]:
        """The spatial shape of the moving image."""
        return tuple(self.moving.shape[1:])

    @property
    def unit(self) -> float:
        """The unit of the frame: half of the fixed image's longest side."""
        return max(n * s for n, s in zip(self.size, self.spacing, strict=True)) / 2

    def axes(self, size: Sequence[int] | None = None) -> LevelGrid:
        """The grid of the fixed image at a level; by default, of all its pixels."""
        return axes_of(self.size, self.spacing, self.unit, size or self.size)

    def moving_axes(self, size: Sequence[int] | None = None) -> LevelGrid:
        """The grid of the moving image at a level; by default, of all its pixels."""
        return axes_of(self.moving_size, self.moving_spacing, self.unit, size or self.moving_size)

    def level(self, pixel: float) -> PyramidLevel:
        """Both images with pixels about ``pixel`` times the smallest spacing of the fixed one."""
        target = pixel * min(self.spacing)
        fixed, weight = reduced(self.fixed, self.fixed_known, self.spacing, target)
        moving, known = reduced(self.moving, self.moving_known, self.moving_spacing, target)
        return PyramidLevel(
            fixed,
            weight,
            moving[None],
            None if bool((known == 1).all()) else known[None, None],
            self.axes(fixed.shape[1:]),
            self.moving_axes(moving.shape[1:]),
            self.mode,
        )


def reduced(
    image: Tensor, known: Tensor, spacing: Sequence[float], target: float
) -> tuple[Tensor, Tensor]:
    """Resize an image so that its pixels are about ``target`` wide; axes never grow."""
    full = tuple(image.shape[1:])
    size = [
        min(n, max(math.ceil(n * s / target - 1e-6), min(n, MIN_SIZE)))
        for n, s in zip(full, spacing, strict=True)
    ]
    if tuple(size) == full:
        return image, known
    if bool(known.all()):
        return resize(image[None], size)[0], torch.ones(size).to(image)
    share = resize(known[None, None], size)[0]
    values = resize((image * known)[None], size)[0] / share.clamp_min(1e-3)
    counts = (share[0] > 0.5).to(image.dtype)
    return values * counts, counts


def resize(image: Tensor, size: Sequence[int]) -> Tensor:
    """Resize (N, C, *spatial) with antialiasing."""
    resized: Tensor = interpolate(image, tuple(size), mode="bilinear", antialias=True)
    return resized


def pixels_of_levels(
    size: Sequence[int], spacing: Sequence[float], levels: int | None
) -> list[float]:
    """The sizes of the pixels of all levels, from the coarsest to 1.

    By default, the coarsest level has 24 to 48 pixels along the shortest axis with cubes, or 12 to
    24 in a volume.
    """
    finest = min(spacing)
    shortest = min(n * s / finest for n, s in zip(size, spacing, strict=True))
    if levels is None:
        smallest = 24 if len(size) == 2 else 12
        levels = 1 + max(0, math.floor(math.log2(max(shortest / smallest, 1))))
    return [2.0**k for k in reversed(range(levels))]
