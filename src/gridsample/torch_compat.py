"""Try gridsample in a PyTorch project that is not changed.

`patch` puts our `grid_sample`, `affine_grid` and `interpolate` in the place of those of
`torch.nn.functional`, with torch's signatures and torch's types of errors.  What only we accept
(one spatial axis, cubic in three, integers, a grid of another dtype, a mode for each axis,
antialiasing of everything) is accepted there too.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from torch import Tensor
from torch.nn import functional

from gridsample import api, fields, resize
from gridsample.checks import check_dense
from gridsample.plan import Mode, check_boundary, check_flag, find_method, listed

# What is on devices that there are no kernels of ours for is left to torch.
TORCHS = functional.interpolate

__all__ = ["patch"]


def given_corners(align_corners: bool | None, function: str) -> bool:
    """``align_corners`` as it was given, or False with torch's warning."""
    if align_corners is None:
        warnings.warn(
            f"{function}: align_corners is not given and taken to be False, as in PyTorch since "
            "1.3; say align_corners=True if that is what you mean",
            stacklevel=3,
        )
    return check_flag(align_corners, "align_corners")


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: Mode = "bilinear",
    padding_mode: Mode = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """`gridsample.grid_sample`, with the signature and the errors of torch's.

    Raises:
        ValueError: an unknown mode or padding_mode.
        RuntimeError: tensors that do not go together.
    """
    for name in listed(mode):
        find_method(name)
    for name in listed(padding_mode):
        check_boundary(name)
    corners = given_corners(align_corners, "grid_sample")
    given: tuple[object, object] = (input, grid)
    if not all(isinstance(one, Tensor) for one in given):
        kinds = " and ".join(type(one).__name__ for one in given)
        raise TypeError(f"input and grid must be tensors, got {kinds}")
    try:
        result: Tensor = api.grid_sample(input, grid, mode, padding_mode, corners)
    except (TypeError, ValueError) as error:
        raise RuntimeError(f"grid_sample: {error}") from error
    return result


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """`gridsample.affine_grid`, with the signature and the errors of torch's.

    Raises:
        ValueError: theta is not floating or does not go with size, or size is not positive.
        NotImplementedError: size has too few or too many entries.
    """
    if not 3 <= len(size) <= 5:
        raise NotImplementedError(
            f"affine_grid: size must have 3 to 5 entries, got {len(size)}: {tuple(size)}"
        )
    if min(size) < 1:
        raise ValueError(f"affine_grid: size must be positive, got {tuple(size)}")
    corners = given_corners(align_corners, "affine_grid")
    try:
        grid: Tensor = fields.affine_grid(theta, size, corners)
    except TypeError as error:
        raise ValueError(f"affine_grid: {error}") from error
    return grid


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: Mode = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """`gridsample.interpolate`, with the signature and the errors of torch's.

    Raises:
        NotImplementedError: an input with too few or too many dimensions, or of a type that has no
            numbers to sum; an unknown mode.
        RuntimeError: a size without pixels.
        ValueError: a size and a scale_factor, or none; or other options that contradict each other.
        TypeError: a size that is not made of integers.
    """
    check_dense(input=input)
    rank = input.dim() - 2
    try:
        for name in listed(mode):
            resize.find_method(name)
        if not 1 <= rank <= 3:
            raise ValueError(f"input must have 3 to 5 dimensions, got {input.dim()}")
    except ValueError as error:
        raise NotImplementedError(f"interpolate: {error}") from error
    options = size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
    if input.device.type not in ("cpu", "meta"):
        elsewhere: Any = TORCHS
        return elsewhere(input, *options)  # type: ignore[no-any-return]
    check_pixels(tuple(input.shape[2:]), size, scale_factor)
    if input.element_size() == 1 and input.is_floating_point():
        raise NotImplementedError(f"interpolate: input has dtype {input.dtype}")
    result: Tensor = resize.interpolate(input, *options)
    return result


def check_pixels(spatial: Sequence[int], size: Any, scale_factor: Any) -> None:
    """Refuse to resize to, or from, nothing; whatever else is wrong is left to others."""
    given = size if scale_factor is None else scale_factor
    each = given if isinstance(given, (tuple, list)) else (given,) * len(spatial)
    if len(each) != len(spatial) or not all(
        isinstance(one, (int, float)) and math.isfinite(one) for one in each
    ):
        return
    sizes = each
    if scale_factor is not None:
        sizes = tuple([math.floor(n * scale) for n, scale in zip(spatial, each, strict=True)])
    if any(n < 1 for n in (*spatial, *sizes)):
        raise RuntimeError(
            f"interpolate: input and output must have pixels along each axis, got {spatial} and "
            f"{tuple(sizes)}"
        )


# Ours, by the names that they have in `torch.nn.functional`.
OURS = {"grid_sample": grid_sample, "affine_grid": affine_grid, "interpolate": interpolate}


class patch:
    """Use our functions in the place of torch's: from here on, or in a ``with`` block.

    It holds for every thread, and for all code that calls ``torch.nn.functional.grid_sample`` by
    that name (``torch.nn.Upsample`` so calls ``interpolate``); who had imported the function itself
    before keeps torch's.

    Example:
        >>> import torch, torch.nn.functional as F, gridsample.torch_compat
        >>> image, grid = torch.ones(1, 1, 2, 2, dtype=torch.uint8), torch.zeros(1, 1, 1, 2)
        >>> with gridsample.torch_compat.patch():
        ...     F.grid_sample(image, grid, align_corners=False)  # torch's takes no uint8
        tensor([[[[1]]]], dtype=torch.uint8)
        >>> F.grid_sample is gridsample.torch_compat.grid_sample
        False
    """

    def __init__(self) -> None:
        """The functions are in place at once."""
        self.before = {name: getattr(functional, name) for name in OURS}
        for name, function in OURS.items():
            setattr(functional, name, function)

    def undo(self) -> None:
        """Put back what was there."""
        for name, function in self.before.items():
            setattr(functional, name, function)

    def __enter__(self) -> patch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.undo()
