"""Resizing as PyTorch modules; `gridsample.nn` exports them."""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gridsample.backends import constructor
from gridsample.definitions.checks import check_dense
from gridsample.definitions.methods import ResizingMode, listed
from gridsample.definitions.request import ResizeRequest
from gridsample.definitions.shapes import MAX_RANK, axis_name
from gridsample.ops.resizing import Factor, interpolate, plan_resizing

__all__ = ["CenterPool", "Downsample", "PatchDownsample", "Pyramid", "Upsample"]

Size = int | Sequence[int]


def shown(**options: Any) -> str:
    """Format options as keyword arguments; those that are None are omitted."""
    return ", ".join(f"{name}={value!r}" for name, value in options.items() if value is not None)


class Resize(nn.Module):
    """`interpolate` with fixed options: the base class of `Upsample` and `Downsample`."""

    def __init__(
        self,
        size: Size | None,
        scale_factor: Factor | None,
        mode: ResizingMode,
        align_corners: bool | None,
        recompute_scale_factor: bool | None,
        antialias: bool,
    ) -> None:
        super().__init__()
        lists = [
            argument for argument in (size, scale_factor) if isinstance(argument, (tuple, list))
        ]
        rank = len(lists[0]) if lists else len(listed(mode))
        large = (2**20,) * rank  # check the options now, independently of the input's size
        request = ResizeRequest(mode, align_corners, recompute_scale_factor, antialias)
        plan_resizing(large, size, scale_factor, request)
        self.size = size
        self.scale_factor = scale_factor
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor
        self.antialias = antialias

    def forward(self, input: Tensor) -> Tensor:
        """Resize the input."""
        result: Tensor = interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            self.recompute_scale_factor,
            self.antialias,
        )
        return result

    def extra_repr(self) -> str:
        """Return the options that are not None."""
        return shown(
            size=self.size,
            scale_factor=self.scale_factor,
            mode=self.mode,
            align_corners=self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
            antialias=self.antialias or None,
        )


class Upsample(Resize):
    """`gridsample.interpolate` with fixed options; the arguments are those of `torch.nn.Upsample`.

    Args:
        size: the output's spatial shape, slowest axis first, or one number for all axes.
        scale_factor: output size divided by input size, one number or one per axis; used in place
            of size.
        mode: the method, as in `gridsample.interpolate`.
        align_corners: whether the centres or the outer edges of the corner pixels stay in place.
        recompute_scale_factor: whether positions follow from the sizes, not from scale_factor.

    Shapes:
        input (N, C, *spatial) gives (N, C, *size).

    Raises:
        TypeError: an option has the wrong type.
        ValueError: options contradict each other, or a name is unknown.

    Example:
        >>> import torch, gridsample.nn
        >>> double = gridsample.nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        >>> double
        Upsample(scale_factor=2, mode='bilinear', align_corners=True)
        >>> double(torch.tensor([[[0.0, 3.0]]]))
        tensor([[[0., 1., 2., 3.]]])
    """

    @constructor
    def __init__(
        self,
        size: Size | None = None,
        scale_factor: Factor | None = None,
        mode: ResizingMode = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__(size, scale_factor, mode, align_corners, recompute_scale_factor, False)


class Downsample(Resize):
    """Reduce images without aliasing: every input pixel contributes to the output.

    Args:
        size: the output's spatial shape, slowest axis first, or one number for all axes.
        scale_factor: output size divided by input size, one number or one per axis; used in place
            of size.
        mode: "area", the mean of the pixels that an output overlaps, or another mode of
            `gridsample.interpolate`, which is then antialiased.

    Shapes:
        input (N, C, *spatial) gives (N, C, *size).

    Raises:
        TypeError: an option has the wrong type.
        ValueError: options contradict each other, or a name is unknown.

    Example:
        >>> import torch, gridsample.nn
        >>> gridsample.nn.Downsample(scale_factor=0.5, mode="lanczos3")
        Downsample(scale_factor=0.5, mode='lanczos3', antialias=True)
        >>> gridsample.nn.Downsample(scale_factor=0.5)(torch.arange(6.0).reshape(1, 1, 6))
        tensor([[[0.5000, 2.5000, 4.5000]]])
    """

    @constructor
    def __init__(
        self,
        size: Size | None = None,
        scale_factor: Factor | None = None,
        mode: ResizingMode = "area",
    ) -> None:
        super().__init__(size, scale_factor, mode, None, None, mode != "area")


class PatchDownsample(nn.Module):
    """A learned patch embedding: one strided convolution, the first layer of patch-based networks.

    Deprecated: use ``torch.nn.Conv2d(in_channels, out_channels, patch_size, stride=patch_size)``,
    or Conv1d or Conv3d.  Its weights are those of ``project``.

    Args:
        in_channels: C of the input.
        out_channels: C of the output: the length of a patch's embedding.
        patch_size: the size of a patch, one number or one per axis, slowest first.
        stride: the distance between patches; None for adjacent patches.
        padding: the number of zeros around the input, one number or one per axis.
        rank: the number of spatial axes, 1 to 3.
        bias: whether a learned bias is added.

    Shapes:
        input (N, in_channels, *spatial) gives (N, out_channels, *out), with
        floor((n + 2 * padding - patch_size) / stride) + 1 along each axis.

    Raises:
        ValueError: rank is not 1 to 3, or a size has another number of axes.

    Warns:
        DeprecationWarning: always.

    Example:
        >>> import warnings
        >>> import torch, gridsample.nn
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", DeprecationWarning)
        ...     embed = gridsample.nn.PatchDownsample(3, 96, patch_size=7, stride=4, padding=3)
        >>> embed
        PatchDownsample(3, 96, patch_size=(7, 7), stride=(4, 4), padding=(3, 3))
        >>> embed(torch.zeros(2, 3, 64, 64)).shape
        torch.Size([2, 96, 16, 16])
    """

    @constructor
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        patch_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        *,
        rank: int = 2,
        bias: bool = True,
    ) -> None:
        super().__init__()
        warnings.warn(
            "gridsample.nn.PatchDownsample will be removed: use torch.nn.Conv2d with its stride",
            DeprecationWarning,
            stacklevel=2,
        )
        convolutions: dict[int, Any] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
        if rank not in convolutions:
            raise ValueError(f"rank must be 1, 2 or 3, got {rank!r}")
        patch, step, around = (
            self.each(argument, rank, name)
            for argument, name in (
                (patch_size, "patch_size"),
                (patch_size if stride is None else stride, "stride"),
                (padding, "padding"),
            )
        )
        self.project = convolutions[rank](in_channels, out_channels, patch, step, around, bias=bias)

    @staticmethod
    def each(value: Size, rank: int, name: str) -> tuple[int, ...]:
        """Return one number per axis."""
        sizes = (value,) * rank if isinstance(value, int) else tuple(value)
        if len(sizes) != rank:
            raise ValueError(f"{name} needs one number, or {rank}, got {value!r}")
        return sizes

    def forward(self, input: Tensor) -> Tensor:
        """Return the embedding of every patch."""
        result: Tensor = self.project(input)
        return result

    def __repr__(self) -> str:
        projection = self.project
        options = shown(
            patch_size=projection.kernel_size,
            stride=projection.stride,
            padding=projection.padding if any(projection.padding) else None,
            bias=None if projection.bias is not None else False,
        )
        return f"PatchDownsample({projection.in_channels}, {projection.out_channels}, {options})"


@functools.lru_cache(maxsize=64)
def cell_means(centers: tuple[float, ...], n: int) -> np.ndarray[Any, Any]:
    """Return the matrix (centers, n) of the averages over cells; see `CenterPool`."""
    positions = (np.array(centers) + 1) / 2 * n  # the first pixel reaches from 0 to 1
    borders = np.concatenate([[0.0], (positions[1:] + positions[:-1]) / 2, [float(n)]])
    pixels = np.arange(n)
    overlap = np.minimum(borders[1:, np.newaxis], pixels + 1) - np.maximum(
        borders[:-1, np.newaxis], pixels
    )
    weights = np.maximum(overlap, 0)
    means: np.ndarray[Any, Any] = weights / weights.sum(axis=1, keepdims=True)
    return means


class CenterPool(nn.Module):
    """Average an image around given centres, for images of any size.

    Along each axis, the image is divided halfway between neighbouring centres.  Each output is the
    mean over a cell, to which partly covered pixels contribute in proportion.  Evenly spaced
    centres, from 1/m - 1 in steps of 2/m, give the equal cells of adaptive pooling.

    Args:
        centers: for each axis, in x, y, z order, the coordinates of the centres in increasing
            order, from -1 to 1, which are the outer edges of the image.

    Shapes:
        input (N, C, *spatial), floating-point or complex, gives (N, C, ..., len(y), len(x)).

    Raises:
        ValueError: an axis has no centres, they do not increase, or they lie outside the image; or
            the input has another number of axes.

    Example:
        >>> import torch, gridsample.nn
        >>> pool = gridsample.nn.CenterPool([[-0.5, 0.5], [0.0]])
        >>> pool
        CenterPool(x=(-0.5, 0.5), y=(0.0,))
        >>> pool(torch.arange(8.0).reshape(1, 1, 2, 4))
        tensor([[[[2.5000, 4.5000]]]])
    """

    @constructor
    def __init__(self, centers: Sequence[Sequence[float]]) -> None:
        super().__init__()
        self.centers = tuple(tuple(float(c) for c in axis) for axis in centers)
        if not 1 <= len(self.centers) <= MAX_RANK:
            raise ValueError(
                f"centers must be given for 1 to {MAX_RANK} axes, got {len(self.centers)}"
            )
        for number, axis in enumerate(self.centers):
            if (
                not axis
                or not -1 <= axis[0] <= axis[-1] <= 1
                or any(a >= b for a, b in itertools.pairwise(axis))
            ):
                raise ValueError(
                    f"centers along {axis_name(number)} must increase, from -1 to 1, got {axis}"
                )

    def forward(self, input: Tensor) -> Tensor:
        """Return the averages."""
        check_dense(input=input)
        if input.dim() != 2 + len(self.centers):
            raise ValueError(
                f"input must be (N, C, *spatial) with {len(self.centers)} spatial axes, one for "
                f"each list of centers, got shape {tuple(input.shape)}"
            )
        for axis, centers in enumerate(self.centers, start=1):
            matrix = torch.from_numpy(cell_means(centers, input.shape[-axis]))
            matrix = matrix.to(input.device, input.dtype)
            input = (input.movedim(-axis, -1) @ matrix.T).movedim(-1, -axis)
        return input

    def extra_repr(self) -> str:
        """Return the centres of each axis."""
        names = [axis_name(axis).replace(" ", "") for axis in range(len(self.centers))]
        return shown(**dict(zip(names, self.centers, strict=True)))


class Pyramid(nn.Module):
    """A Gaussian or Laplacian pyramid: successively halved images, or their differences.

    Let G_0 be the image, ``down`` a reduction to half the size (rounded up), and ``up`` an
    enlargement to the size of the next larger level.  The levels are

        Gaussian    G_k = down(G_{k - 1})
        Laplacian   L_k = G_k - up(G_{k + 1}); the last level is the smallest G

    `inverse` reconstructs the image, also from modified levels.  For the Laplacian pyramid it
    computes G_k = L_k + up(G_{k + 1}), which is exact up to rounding.
    Source: P. Burt, E. Adelson, "The Laplacian pyramid as a compact image code", 1983.

    Args:
        levels: how many times the size is halved.
        kind: "gaussian" or "laplacian".
        down: the mode for reducing, with antialiasing; "gaussian" has a standard deviation of one
            pixel, like the five taps of Burt and Adelson.
        up: the mode for enlarging.

    Shapes:
        input (N, C, *spatial) gives a list of levels + 1 tensors, the largest first.

    Raises:
        ValueError: a name is unknown, or levels is negative.

    Example:
        >>> import torch, gridsample.nn
        >>> pyramid = gridsample.nn.Pyramid(3)
        >>> pyramid
        Pyramid(levels=3, kind='laplacian', down='gaussian', up='cubic')
        >>> image = torch.rand(1, 3, 50, 37)
        >>> levels = pyramid(image)
        >>> [tuple(level.shape[2:]) for level in levels]
        [(50, 37), (25, 19), (13, 10), (7, 5)]
        >>> torch.testing.assert_close(pyramid.inverse(levels), image)
    """

    @constructor
    def __init__(
        self,
        levels: int,
        kind: str = "laplacian",
        *,
        down: ResizingMode = "gaussian",
        up: ResizingMode = "cubic",
    ) -> None:
        super().__init__()
        if levels < 0:
            raise ValueError(f"levels must be 0 or more, got {levels!r}")
        if kind not in ("gaussian", "laplacian"):
            raise ValueError(f"kind must be 'gaussian' or 'laplacian', got {kind!r}")
        for mode in (down, up):
            plan_resizing((1,) * len(listed(mode)), 1, None, ResizeRequest(mode))
        self.levels, self.kind, self.down, self.up = levels, kind, down, up

    def forward(self, input: Tensor) -> list[Tensor]:
        """Return the levels, the largest first."""
        check_dense(input=input)
        images = [input]
        for _ in range(self.levels):
            half = [math.ceil(n / 2) for n in images[-1].shape[2:]]
            images.append(interpolate(images[-1], half, mode=self.down, antialias=True))
        if self.kind == "gaussian":
            return images
        return [
            *(large - self.enlarge(small, large) for large, small in itertools.pairwise(images)),
            images[-1],
        ]

    def inverse(self, levels: Sequence[Tensor]) -> Tensor:
        """Reconstruct the image from its levels."""
        if len(levels) != self.levels + 1:
            raise ValueError(f"levels must be {self.levels + 1} tensors, got {len(levels)}")
        if self.kind == "gaussian":
            return levels[0]
        *details, image = levels
        for detail in details[::-1]:
            image = detail + self.enlarge(image, detail)
        return image

    def enlarge(self, small: Tensor, large: Tensor) -> Tensor:
        """Enlarge a tensor to the size of another."""
        result: Tensor = interpolate(small, tuple(large.shape[2:]), mode=self.up)
        return result

    def extra_repr(self) -> str:
        """Return the options."""
        return shown(levels=self.levels, kind=self.kind, down=self.down, up=self.up)
