"""Resizing as PyTorch modules; `gridsample.nn` has their public names."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gridsample.definitions.checks import check_dense
from gridsample.definitions.plan import AXES, Mode, listed
from gridsample.ops.resizing import Factor, interpolate, plan_resizing

__all__ = ["CenterPool", "Downsample", "PatchDownsample", "Pyramid", "Upsample"]

Size = int | Sequence[int]


def shown(**options: Any) -> str:
    """Options as they are typed; those that are None are left out."""
    return ", ".join(f"{name}={value!r}" for name, value in options.items() if value is not None)


class Resize(nn.Module):
    """`interpolate` with fixed options: what `Upsample` and `Downsample` are made of."""

    def __init__(
        self,
        size: Size | None,
        scale_factor: Factor | None,
        mode: Mode,
        align_corners: bool | None,
        recompute_scale_factor: bool | None,
        antialias: bool,
    ) -> None:
        super().__init__()
        lists = [given for given in (size, scale_factor) if isinstance(given, (tuple, list))]
        rank = len(lists[0]) if lists else len(listed(mode))
        large = (2**20,) * rank  # options are to be refused now, and not for the first input's size
        plan_resizing(
            large, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
        )
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
        """The options that were given."""
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
        scale_factor: outputs per input, one number or one an axis; instead of size.
        mode: as in `gridsample.interpolate`.
        align_corners: see there.
        recompute_scale_factor: see there.

    Shapes:
        input (N, C, *spatial) gives (N, C, *size).

    Raises:
        TypeError: an option of a wrong type.
        ValueError: options that contradict each other, or a name that is unknown.

    Example:
        >>> import torch, gridsample.nn
        >>> double = gridsample.nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        >>> double
        Upsample(scale_factor=2, mode='bilinear', align_corners=True)
        >>> double(torch.tensor([[[0.0, 3.0]]]))
        tensor([[[0., 1., 2., 3.]]])
    """

    def __init__(
        self,
        size: Size | None = None,
        scale_factor: Factor | None = None,
        mode: Mode = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__(size, scale_factor, mode, align_corners, recompute_scale_factor, False)


class Downsample(Resize):
    """Make images smaller and skip nothing: every pixel has its share in the output.

    Args:
        size: the output's spatial shape, slowest axis first, or one number for all axes.
        scale_factor: outputs per input, one number or one an axis; instead of size.
        mode: "area", the mean of the pixels that an output overlaps, or another mode of
            `gridsample.interpolate`, which is then antialiased.

    Shapes:
        input (N, C, *spatial) gives (N, C, *size).

    Raises:
        TypeError: an option of a wrong type.
        ValueError: options that contradict each other, or a name that is unknown.

    Example:
        >>> import torch, gridsample.nn
        >>> gridsample.nn.Downsample(scale_factor=0.5, mode="lanczos3")
        Downsample(scale_factor=0.5, mode='lanczos3', antialias=True)
        >>> gridsample.nn.Downsample(scale_factor=0.5)(torch.arange(6.0).reshape(1, 1, 6))
        tensor([[[0.5000, 2.5000, 4.5000]]])
    """

    def __init__(
        self,
        size: Size | None = None,
        scale_factor: Factor | None = None,
        mode: Mode = "area",
    ) -> None:
        super().__init__(size, scale_factor, mode, None, None, mode != "area")


class PatchDownsample(nn.Module):
    """A learned image of patches: one strided convolution, as networks of patches begin with.

    Args:
        in_channels: C of the input.
        out_channels: C of the output: the length of a patch's embedding.
        patch_size: a patch's size, one number or one for each axis, slowest first.
        stride: the distance between patches; None for patches that touch.
        padding: zeros around the input, one number or one for each axis.
        rank: how many spatial axes there are, 1 to 3.
        bias: whether a learned bias is added.

    Shapes:
        input (N, in_channels, *spatial) gives (N, out_channels, *out), with
        floor((n + 2 * padding - patch_size) / stride) + 1 along each axis.

    Raises:
        ValueError: a rank that is not 1 to 3, or a size of another number of axes.

    Example:
        >>> import torch, gridsample.nn
        >>> embed = gridsample.nn.PatchDownsample(3, 96, patch_size=7, stride=4, padding=3)
        >>> embed
        PatchDownsample(3, 96, patch_size=(7, 7), stride=(4, 4), padding=(3, 3))
        >>> embed(torch.zeros(2, 3, 64, 64)).shape
        torch.Size([2, 96, 16, 16])
    """

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
        kinds: dict[int, Any] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
        if rank not in kinds:
            raise ValueError(f"rank must be 1, 2 or 3, got {rank!r}")
        patch, step, around = (
            self.each(given, rank, name)
            for given, name in (
                (patch_size, "patch_size"),
                (patch_size if stride is None else stride, "stride"),
                (padding, "padding"),
            )
        )
        self.project = kinds[rank](in_channels, out_channels, patch, step, around, bias=bias)

    @staticmethod
    def each(given: Size, rank: int, name: str) -> tuple[int, ...]:
        """A number for each axis."""
        sizes = (given,) * rank if isinstance(given, int) else tuple(given)
        if len(sizes) != rank:
            raise ValueError(f"{name} needs one number, or {rank}, got {given!r}")
        return sizes

    def forward(self, input: Tensor) -> Tensor:
        """The image of patches."""
        result: Tensor = self.project(input)
        return result

    def __repr__(self) -> str:
        own = self.project
        options = shown(
            patch_size=own.kernel_size,
            stride=own.stride,
            padding=own.padding if any(own.padding) else None,
            bias=None if own.bias is not None else False,
        )
        return f"PatchDownsample({own.in_channels}, {own.out_channels}, {options})"


@functools.lru_cache(maxsize=64)
def cell_means(centers: tuple[float, ...], n: int) -> np.ndarray[Any, Any]:
    """The matrix (centers, n) of the means over cells, see `CenterPool`."""
    places = (np.array(centers) + 1) / 2 * n  # the first pixel reaches from 0 to 1
    borders = np.concatenate([[0.0], (places[1:] + places[:-1]) / 2, [float(n)]])
    pixels = np.arange(n)
    overlap = np.minimum(borders[1:, np.newaxis], pixels + 1) - np.maximum(
        borders[:-1, np.newaxis], pixels
    )
    weights = np.maximum(overlap, 0)
    means: np.ndarray[Any, Any] = weights / weights.sum(axis=1, keepdims=True)
    return means


class CenterPool(nn.Module):
    """Means of an image around given centres, whatever the image's size.

    Along each axis the image is cut half-way between neighbouring centres, and each output is the
    mean of a cell, in which a pixel that is cut counts by its share.  Centres that are evenly
    spaced, from 1/m - 1 in steps of 2/m, give the cells of equal size of adaptive pooling.

    Args:
        centers: for each axis, in x, y, z order, the centres' coordinates: from -1 to 1, which
            are the outer edges of the image, and rising.

    Shapes:
        input (N, C, *spatial), floating or complex, gives (N, C, ..., len(y), len(x)).

    Raises:
        ValueError: centres that are none, do not rise, or lie outside; or another number of axes
            in the input.

    Example:
        >>> import torch, gridsample.nn
        >>> pool = gridsample.nn.CenterPool([[-0.5, 0.5], [0.0]])
        >>> pool
        CenterPool(x=(-0.5, 0.5), y=(0.0,))
        >>> pool(torch.arange(8.0).reshape(1, 1, 2, 4))
        tensor([[[[2.5000, 4.5000]]]])
    """

    def __init__(self, centers: Sequence[Sequence[float]]) -> None:
        super().__init__()
        self.centers = tuple(tuple(float(c) for c in axis) for axis in centers)
        if not 1 <= len(self.centers) <= 3:
            raise ValueError(f"centers must be given for 1 to 3 axes, got {len(self.centers)}")
        for name, axis in zip(AXES, self.centers, strict=False):
            if (
                not axis
                or not -1 <= axis[0] <= axis[-1] <= 1
                or any(a >= b for a, b in itertools.pairwise(axis))
            ):
                raise ValueError(f"centers along {name} must rise from -1 to 1, got {axis}")

    def forward(self, input: Tensor) -> Tensor:
        """The means."""
        check_dense(input=input)
        if input.dim() != 2 + len(self.centers):
            raise ValueError(
                f"input must be (N, C, *spatial) with {len(self.centers)} spatial axes, as there "
                f"are centers for, got shape {tuple(input.shape)}"
            )
        for axis, centers in enumerate(self.centers, start=1):
            matrix = torch.from_numpy(cell_means(centers, input.shape[-axis]))
            matrix = matrix.to(input.device, input.dtype)
            input = (input.movedim(-axis, -1) @ matrix.T).movedim(-1, -axis)
        return input

    def extra_repr(self) -> str:
        """The centres of each axis."""
        return shown(**dict(zip(AXES, self.centers, strict=False)))


class Pyramid(nn.Module):
    """An image at ever half the size: the images themselves, or what each adds to the next.

    With G_0 the image, down to half the size (rounded up) and up to the size of the one before:

        Gaussian    G_k = down(G_{k - 1})
        Laplacian   L_k = G_k - up(G_{k + 1}), and last the smallest G

    `inverse` undoes either, for whatever is done to the levels in between: the Laplacian's is
    G_k = L_k + up(G_{k + 1}), exact but for rounding.
    Source: P. Burt, E. Adelson, "The Laplacian pyramid as a compact image code", 1983.

    Args:
        levels: how many times the size is halved.
        kind: "gaussian" or "laplacian".
        down: the mode that the smaller images are made with, antialiased; "gaussian" has a
            deviation of one pixel, as Burt and Adelson's five taps.
        up: the mode that they are enlarged with.

    Shapes:
        input (N, C, *spatial) gives a list of levels + 1 tensors, the largest first.

    Raises:
        ValueError: a name that is unknown, or a number of levels below 0.

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

    def __init__(
        self, levels: int, kind: str = "laplacian", *, down: Mode = "gaussian", up: Mode = "cubic"
    ) -> None:
        super().__init__()
        if levels < 0:
            raise ValueError(f"levels must be 0 or more, got {levels!r}")
        if kind not in ("gaussian", "laplacian"):
            raise ValueError(f"kind must be 'gaussian' or 'laplacian', got {kind!r}")
        for mode in (down, up):
            plan_resizing((1,) * len(listed(mode)), 1, None, mode, None, None, False)
        self.levels, self.kind, self.down, self.up = levels, kind, down, up

    def forward(self, input: Tensor) -> list[Tensor]:
        """The levels, the largest first."""
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
        """The image of which these are the levels."""
        if len(levels) != self.levels + 1:
            raise ValueError(f"levels must be {self.levels + 1} tensors, got {len(levels)}")
        if self.kind == "gaussian":
            return levels[0]
        *details, image = levels
        for detail in details[::-1]:
            image = detail + self.enlarge(image, detail)
        return image

    def enlarge(self, small: Tensor, large: Tensor) -> Tensor:
        """A tensor at the size of another."""
        result: Tensor = interpolate(small, tuple(large.shape[2:]), mode=self.up)
        return result

    def extra_repr(self) -> str:
        """The options."""
        return shown(levels=self.levels, kind=self.kind, down=self.down, up=self.up)
