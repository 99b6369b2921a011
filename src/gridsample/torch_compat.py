"""Try gridsample in a PyTorch project that is not changed.

`patch` puts our `grid_sample` and `affine_grid` in the place of those of `torch.nn.functional`,
with torch's signatures and torch's types of errors.  What only we accept (one spatial axis, cubic
in three, integers, a grid of another dtype, a mode for each axis) is accepted there too.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from types import TracebackType

from torch import Tensor
from torch.nn import functional

from gridsample import api, fields
from gridsample.plan import Mode, check_boundary, find_method, listed

__all__ = ["patch"]


def given_corners(align_corners: bool | None, function: str) -> bool:
    """``align_corners`` as it was given, or False with torch's warning."""
    if align_corners is None:
        warnings.warn(
            f"{function}: align_corners is not given and taken to be False, as in PyTorch since "
            "1.3; say align_corners=True if that is what you mean",
            stacklevel=3,
        )
    return bool(align_corners)


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


class patch:
    """Use our functions in the place of torch's: from here on, or in a ``with`` block.

    It holds for every thread, and for all code that calls ``torch.nn.functional.grid_sample`` by
    that name; who had imported the function itself before keeps torch's.

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
        self.before = functional.grid_sample, functional.affine_grid
        functional.grid_sample, functional.affine_grid = grid_sample, affine_grid

    def undo(self) -> None:
        """Put back what was there."""
        functional.grid_sample, functional.affine_grid = self.before

    def __enter__(self) -> patch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.undo()
