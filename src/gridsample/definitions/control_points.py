"""Lattices of control points: coarse grids of coordinates, between which those of a grid follow."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.bands import Band, collect
from gridsample.definitions.methods import METHODS, Method
from gridsample.definitions.names import LatticeName
from gridsample.definitions.shapes import Shape, axis_names, check_output
from gridsample.messages.links import unknown_name

Array = np.ndarray[Any, Any]

# The names of methods that interpolate lattices.
INTERPOLATIONS: tuple[LatticeName, ...] = ("linear", "catmull-rom", "spline3")


class ControlAxis(NamedTuple):
    """How the points of one axis of a grid lie among those of a lattice.

    Output i is at the place (i - origin) / spacing.  Beyond its ends, a lattice continues linearly.

    Attributes:
        interpolation: the name of a method.
        points: the number of control points.
        outputs: the number of outputs.
        spacing: the distance of control points, in outputs.
        origin: the index of the output, or between outputs, at the first control point.
    """

    interpolation: str
    points: int
    outputs: int
    spacing: float
    origin: float

    def places(self) -> tuple[Array, Array]:
        """Return the control point at or before each output, and the fraction of the interval."""
        places = (np.arange(self.outputs) - self.origin) / self.spacing
        before = np.floor(places)
        return before.astype(np.int64), places - before

    @property
    def method(self) -> Method:
        """The method, whose table has as many taps as powers."""
        return METHODS[self.interpolation]

    def taps(self) -> tuple[Array, Array]:
        """Return the first tap of each output, and the weights of its taps, (outputs, taps)."""
        before, t = self.places()
        weights = t[:, np.newaxis] ** np.arange(self.method.powers) @ np.array(self.method.table).T
        return before + self.method.first, weights

    def band(self) -> Band:
        """Return the matrix from control points to outputs."""
        first, weights = self.taps()
        taps = first[:, np.newaxis] + np.arange(self.method.taps)
        index, shares = continued(taps, self.points)
        both = (shares * weights[..., np.newaxis]).reshape(self.outputs, -1)
        return collect(index.reshape(self.outputs, -1), both, self.points)


def continued(index: Array, points: int) -> tuple[Array, Array]:
    """Express control points, also beyond the ends of a lattice, by two that exist.

    Returns:
        The indices of both, and their weights: (..., 2).
    """
    last = points - 1
    end = np.clip(index, 0, last)
    # One that exists is itself, whatever its neighbours are.
    inner = np.clip(end + np.sign(end - index), 0, last)
    distance = np.abs(index - end) * float(points > 1)
    return np.stack([end, inner], -1), np.stack([1 + distance, -distance], -1)


class ControlPoints(NamedTuple):
    """How the points of a grid lie among those of a lattice, (N, *points, D).

    Attributes:
        axes: those of all axes, x first.
    """

    axes: tuple[ControlAxis, ...]

    @property
    def points(self) -> Shape:
        """The spatial shape of the lattice."""
        return tuple([axis.points for axis in self.axes[::-1]])

    @property
    def out(self) -> Shape:
        """The spatial shape of the grid."""
        return tuple([axis.outputs for axis in self.axes[::-1]])

    @classmethod
    def checked(
        cls, shape: Shape, size: Any, interpolation: Any, spacing: Any, origin: Any
    ) -> ControlPoints:
        """Check the arguments of `lattice_grid`, of a lattice with this shape.

        Raises:
            TypeError, ValueError: an argument is not accepted.
        """
        batch, _, *out = check_output(size)
        rank = len(out)
        if len(shape) != rank + 2 or shape[-1] != rank or 0 in shape[1:]:
            raise ValueError(
                f"lattice must be (N, *points, {rank}) for size {tuple(size)}, with {rank} axes of "
                f"one or more points, and the coordinates {axis_names(rank)} of each point; got "
                f"shape {shape}"
            )
        if shape[0] != batch:
            raise ValueError(f"size has N = {batch}, but lattice has N = {shape[0]}")
        if 0 in out:
            raise ValueError(f"size must have at least one pixel along each axis, got {out}")
        if interpolation not in INTERPOLATIONS:
            raise unknown_name("interpolation", interpolation, INTERPOLATIONS)
        if origin is not None and spacing is None:
            raise ValueError(
                f"origin={origin!r} needs a spacing; without one, the first and the last control "
                "points are at the centres of the corner pixels"
            )
        lines = [*zip(shape[-2:0:-1], out[::-1], strict=True)]
        steps = [(n - 1) / (points - 1) if min(n, points) > 1 else 1.0 for points, n in lines]
        if spacing is not None:
            steps = numbers_of(spacing, rank, "spacing")
            if not min(steps) > 0:
                raise ValueError(f"spacing must be positive, got {spacing!r}")
        starts = [0.0] * rank if origin is None else numbers_of(origin, rank, "origin")
        numbers = zip(lines, steps, starts, strict=True)
        return cls(tuple([ControlAxis(interpolation, *line, *rest) for line, *rest in numbers]))


def numbers_of(value: Any, rank: int, name: str) -> list[float]:
    """Return a number for each axis, x first, or raise an error if it is none."""
    entries = list(value) if isinstance(value, (tuple, list, np.ndarray)) else [value] * rank
    for entry in entries:
        if isinstance(entry, (bool, np.bool_)) or not isinstance(entry, (int, float, np.number)):
            raise TypeError(f"{name} must be a number, or one for each axis, got {value!r}")
    if len(entries) != rank or not all(map(math.isfinite, entries)):
        raise ValueError(
            f"{name} must be a finite number, or one for each axis ({axis_names(rank)}), got "
            f"{value!r}"
        )
    return [float(entry) for entry in entries]
