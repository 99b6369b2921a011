"""Interpolation methods: those that ``mode`` accepts, and how to add one.

A method is a table of polynomials, one row per tap (`Method`).  Every name in this list is accepted
as ``mode`` for sampling and resizing, for every rank and boundary, including derivatives:

    nearest, linear             one and two taps
    cubic, catmull-rom          Keys' convolution with a = -3/4 and a = -1/2; `keys` makes others
    mitchell                    Mitchell and Netravali's with B = C = 1/3; `bc_spline` makes others
    spline2 ... spline7         B-splines, applied to coefficients (`gridsample.spline_filter`)
    lanczos2, lanczos3, lanczos4
    label                       for labels: the taps of linear vote for the values of their pixels

These only resize (`gridsample.interpolate`), because a point covers no pixels:

    nearest-exact               the nearest pixel, like PyTorch's mode of that name
    area                        the mean of the pixels that an output pixel covers
    gaussian                    exp(-2 s^2)

A `Method` itself is also accepted as ``mode``, without a name.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from gridsample.definitions.methods import (
    ALIASES,
    METHODS,
    Method,
    bc_spline,
    bspline,
    keys,
    lanczos,
    sampling_names,
)

__all__ = ["Method", "bc_spline", "bspline", "get", "keys", "lanczos", "names", "register"]


def names(resizing: bool = False) -> tuple[str, ...]:
    """List the names of all methods, without aliases; registered methods come last.

    Args:
        resizing: whether to include methods that only `gridsample.interpolate` accepts.

    Returns:
        The names, each of which is accepted as ``mode``.

    Example:
        >>> import gridsample
        >>> gridsample.methods.names()[:5]
        ('nearest', 'linear', 'cubic', 'catmull-rom', 'mitchell')
        >>> set(gridsample.methods.names(resizing=True)) - set(gridsample.methods.names()) == {
        ...     "nearest-exact", "area", "gaussian"
        ... }
        True
    """
    return tuple(METHODS) if resizing else sampling_names()


def get(name: str) -> Method:
    """Return the method that has a name or an alias.

    Args:
        name: a name or an alias, such as "bicubic".

    Returns:
        The `Method`.

    Raises:
        KeyError: there is no method of that name.

    Example:
        >>> import gridsample
        >>> gridsample.methods.get("bicubic").name
        'cubic'
    """
    return METHODS[ALIASES.get(name, name)]


def register(
    name: str,
    table: Sequence[Sequence[float]],
    first: int,
    rounds: bool = False,
    normalized: bool = True,
    ties_up: bool = False,
) -> Method:
    """Register a method under a name, which ``mode`` accepts for the rest of the process.

    Args:
        name: a new name.
        table: one row per tap: the coefficients of its weight as a polynomial in the fraction t,
            lowest power first.  All rows have the same length.
        first: the index of the first tap relative to the base index.
        rounds: whether the base index is the rounded position, with t in [-1/2, 1/2]; otherwise
            it is the floor of the position, with t in [0, 1).
        normalized: False to accept weights that do not sum to one, such as those of a derivative.
        ties_up: whether a position halfway between two pixels is rounded up; otherwise it is
            rounded to the even one.

    Returns:
        The method.  If its weights depend only on the distance between a tap and the position
        (`Method.stretches`), `gridsample.interpolate` can use it with antialias=True.

    Raises:
        TypeError: the type of an argument is not accepted.
        ValueError: the name is taken, or the table is empty, ragged or not finite, or its weights
            do not sum to one.

    Example:
        >>> import numpy as np, gridsample
        >>> smooth = gridsample.methods.register(  # a step with the slope 0 at both ends
        ...     "smoothstep", [[1, 0, -3, 2], [0, 0, 3, -2]], first=0
        ... )
        >>> smooth.taps, smooth.powers
        (2, 4)
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {name!r}")
    if name in METHODS or name in ALIASES:
        raise ValueError(f"name {name!r} is taken; accepted: any except {known_names()}")
    if isinstance(first, bool) or not hasattr(first, "__index__"):
        raise TypeError(f"first must be an integer, got {first!r}")
    table = as_table(table)
    method = Method(
        name,
        table,
        operator.index(first),
        bool(rounds),
        normalized=bool(normalized),
        ties_up=bool(ties_up),
    )
    return METHODS.setdefault(name, method)


def as_table(table: Any) -> tuple[tuple[float, ...], ...]:
    """Convert a table to tuples of floats, which are hashable."""
    try:
        return tuple(tuple(float(number) for number in row) for row in table)
    except (TypeError, ValueError):
        raise TypeError(
            f"table must hold a row of numbers for each tap, lowest power first, got {table!r}"
        ) from None


def known_names() -> str:
    """List all names and aliases, for a message."""
    return ", ".join(repr(name) for name in (*METHODS, *ALIASES))
