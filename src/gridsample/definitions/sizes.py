"""Sizes of outputs, as callers give them: converted to integers, and checked."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

Shape = tuple[int, ...]


def as_whole(n: Any) -> Any:
    """Convert an entry of a size to int; a SymInt, which is symbolic, is returned unchanged.

    Integers of Python and NumPy are accepted, and arrays and tensors that hold a single integer.

    Raises:
        TypeError: it is not an integer.
    """
    if type(n) is int:
        return n
    if isinstance(n, (bool, np.bool_)):
        raise TypeError(f"expected an integer, got {n!r}")
    if type(n).__name__ == "SymInt":
        return n
    operator.index(n)  # raises the error
    return int(n)  # when a tensor is traced, torch warns here that it becomes a constant


def check_output(size: Any, fewest: int, most: int) -> Shape:
    """Return an output's shape, or raise an error if it does not have an accepted length."""
    try:
        shape = tuple([as_whole(n) for n in size])
    except TypeError:
        raise TypeError(f"size must be a sequence of integers, got {size!r}") from None
    if any(n < 0 for n in shape):
        raise ValueError(f"size must not hold negative sizes, got {shape}")
    if not fewest <= len(shape) <= most:
        hint = f"; for one image of this size: {(1, 1, *shape)}" if len(shape) < fewest else ""
        raise ValueError(
            f"size must be the output's shape (N, C, H, W), or (N, C, *out), with {fewest} to "
            f"{most} entries, got {len(shape)}: {shape}{hint}"
        )
    return shape


def check_theta(theta: Shape, size: Shape) -> None:
    """Raise an error if the shape of affine maps does not match an output's shape."""
    rank = len(size) - 2
    expected = (size[0], rank, rank + 1)
    if theta != expected:
        hints = {
            (*expected[:1], rank + 1, rank + 1): f"theta[:, :{rank}]",
            (rank + 1, rank + 1): f"theta[None, :{rank}]",
            expected[1:]: "theta[None]",
        }
        hint = f"; pass {hints[theta]}" if theta in hints else ""
        raise ValueError(
            f"theta must be (N, D, D + 1) = {expected} for size {size}, got shape {theta}{hint}"
        )
