"""Models of transforms: groups of matrices, and fields after a matrix.

A model knows where each pixel of the fixed image comes from, and how to make a Gauss-Newton step:
from the derivatives of the loss along the warped image, to the next model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, Self

import torch
from torch import Tensor

from gridsample.fields.displacements import exp
from gridsample.ops.derivatives import grid_gradient
from gridsample.ops.resizing import interpolate
from gridsample.registration.penalties import Penalty, conjugate_gradients, smoothed
from gridsample.registration.pyramid import Level

MATRICES = ("translation", "rigid", "similarity", "affine", "homography")
FIELDS = ("displacement", "velocity")
MODELS = (*MATRICES, *FIELDS)

_CHUNK = 1 << 18
"""Points whose products are in memory together."""
_RIDGE = 1e-6
"""Added to the diagonal of the normal equations, relative to it."""


class Model(Protocol):
    """A transform from the fixed to the moving image, with its parameters."""

    def positions(self, level: Level) -> Tensor:
        """(1, *spatial, D): the pixels of the moving image at which the fixed ones are shown."""
        ...

    def penalty(self, level: Level) -> Tensor | float:
        """The regularization, which is added to the loss."""
        ...

    def step(self, level: Level, positions: Tensor, gradient: Tensor, curvature: Tensor) -> Tensor:
        """The Gauss-Newton step for the derivatives of the loss along the warped image."""
        ...

    def moved(self, step: Tensor, length: float) -> Self:
        """The model after a step."""
        ...


# Matrices -----------------------------------------------------------------------------------------


def generators(model: str, rank: int) -> Tensor:
    """(P, D + 1, D + 1): the directions in which a group of matrices leaves the identity."""
    found = []

    def unit(*entries: tuple[int, int, float]) -> None:
        one = torch.zeros(rank + 1, rank + 1, dtype=torch.float64)
        for i, j, value in entries:
            one[i, j] = value
        found.append(one)

    for i in range(rank):
        unit((i, rank, 1))
    if model in ("rigid", "similarity"):
        for i in range(rank):
            for j in range(i):
                unit((i, j, 1), (j, i, -1))
    if model == "similarity":
        unit(*((i, i, 1) for i in range(rank)))
    if model in ("affine", "homography"):
        for i in range(rank):
            for j in range(rank):
                unit((i, j, 1))
    if model == "homography":
        for j in range(rank):
            unit((rank, j, 1))
    return torch.stack(found)


@dataclass(frozen=True)
class Matrix:
    """A matrix of the frame, and the group in which it may move.

    The map is x -> matrix @ (x, 1), divided by its last entry.  A step multiplies the matrix from
    the right by the exponential of a sum of generators.
    """

    matrix: Tensor
    directions: Tensor

    def positions(self, level: Level) -> Tensor:
        """See `Model`."""
        return mapped(self.matrix, level, level.axes.coordinates(level.fixed))[0][None]

    def penalty(self, level: Level) -> float:
        """See `Model`."""
        return 0.0

    def step(self, level: Level, positions: Tensor, gradient: Tensor, curvature: Tensor) -> Tensor:
        """See `Model`; the sums are taken over parts of the points, so that memory is bounded."""
        rank = positions.shape[-1]
        slopes = image_slopes(level, positions)
        points = level.axes.coordinates(level.fixed).reshape(-1, rank)
        flat = [one.reshape(len(one), -1) for one in (gradient, curvature)]
        steps = slopes.new_tensor(level.moving_axes.steps)
        along = slopes.reshape(len(gradient), -1, rank) / steps
        whole = (self.matrix).to(slopes)
        directions = self.directions.to(slopes).flatten(1).T
        count = directions.shape[1]
        left = torch.zeros(count, count, dtype=torch.float64, device=slopes.device)
        right = torch.zeros(count, dtype=torch.float64, device=slopes.device)
        for begin in range(0, len(points), _CHUNK):
            part = slice(begin, begin + _CHUNK)
            sources = torch.nn.functional.pad(points[part], (0, 1), value=1.0)
            targets = sources @ whole.T
            depth = targets[:, -1:]
            for channel in range(len(gradient)):
                one = along[channel, part] / depth
                last = -(one * targets[:, :-1]).sum(-1, keepdim=True) / depth
                lever = torch.cat([one, last], -1) @ whole
                columns = (lever[:, :, None] * sources[:, None, :]).flatten(1) @ directions
                left += (columns.T @ (flat[1][channel, part, None] * columns)).double()
                right += (columns.T @ flat[0][channel, part]).double()
        left += torch.diag(left.diagonal() * _RIDGE + 1e-30)
        step: Tensor = torch.linalg.lstsq(left.cpu(), -right.cpu()[:, None]).solution[:, 0]
        return step

    def moved(self, step: Tensor, length: float) -> Self:
        """See `Model`."""
        turn = torch.linalg.matrix_exp((self.directions * step[:, None, None] * length).sum(0))
        matrix = self.matrix @ turn
        return replace(self, matrix=matrix / matrix[-1, -1])


def mapped(matrix: Tensor, level: Level, points: Tensor) -> tuple[Tensor, Tensor]:
    """Apply a matrix of the frame, and convert to the moving image's pixels of this level.

    Points at or behind the horizon of a homography come out far away.
    """
    whole = torch.linalg.inv(level.moving_axes.matrix()) @ matrix
    whole = whole.to(points)
    rank = points.shape[-1]
    targets = points @ whole[:, :rank].T + whole[:, rank]
    depth = targets[..., rank:]
    far = depth <= 1e-6
    return torch.where(far, -1e6, targets[..., :rank] / torch.where(far, 1.0, depth)), depth


def image_slopes(level: Level, positions: Tensor) -> Tensor:
    """(C, *spatial, D): the derivatives of the warped image along the positions."""
    found: Tensor = grid_gradient(level.moving, positions, level.mode, "border", coords="pixel")[0]
    return found


# Fields -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """A displacement field after a matrix: x -> matrix @ (x + u(x)).

    Attributes:
        matrix: the affine matrix of the frame.
        field: (1, *spatial, D): the displacements u, or for ``steps`` the velocity whose
            exponential is u.  The unit is a pixel of the fixed image, the smallest side of it if
            it is not a cube.
        unit: the size of that pixel in the frame.
        penalty_of: the regularization.
        smoothing: the standard deviation of the Gaussian that smooths every step.
        steps: the number of steps of scaling and squaring; None for displacements.
    """

    matrix: Tensor
    field: Tensor
    unit: float
    penalty_of: Penalty
    smoothing: float = 0.0
    steps: int | None = None

    def sides(self, level: Level) -> Tensor:
        """The sides of a pixel of the level, in the unit of the field."""
        return self.field.new_tensor(level.axes.steps) / self.unit

    def displacements(self, level: Level, field: Tensor) -> Tensor:
        """The displacements of a field of parameters."""
        if self.steps is None:
            return field
        sides = self.sides(level)
        found: Tensor = exp(field / sides, self.steps) * sides
        return found

    def positions(self, level: Level) -> Tensor:
        """See `Model`."""
        shift = self.displacements(level, self.field) * self.unit
        return mapped(self.matrix, level, level.axes.coordinates(level.fixed) + shift)[0]

    def penalty(self, level: Level) -> Tensor:
        """See `Model`."""
        return self.penalty_of.energy(self.field, self.sides(level))

    def step(self, level: Level, positions: Tensor, gradient: Tensor, curvature: Tensor) -> Tensor:
        """See `Model`; the equations of all pixels are solved by conjugate gradients."""
        rank = positions.shape[-1]
        scale = torch.linalg.inv(level.moving_axes.matrix())[:-1, :-1]
        turn = (scale @ self.matrix[:-1, :-1]) * self.unit
        slopes = image_slopes(level, positions) @ turn.to(positions)
        force = (gradient[..., None] * slopes).sum(0)[None]
        if self.steps is not None:
            force = self.pulled_back(level, force)
        normal = [
            [(curvature * slopes[..., i] * slopes[..., j]).sum(0) for j in range(i + 1)]
            for i in range(rank)
        ]
        sides = self.sides(level)
        force = force + self.penalty_of.gradient(self.field, sides)

        def product(step: Tensor) -> Tensor:
            parts = step[0].unbind(-1)
            rows = [
                sum(normal[max(i, j)][min(i, j)] * parts[j] for j in range(rank))
                for i in range(rank)
            ]
            return torch.stack(rows, -1)[None] + self.penalty_of.gradient(step, sides)

        means = torch.stack([normal[i][i].mean() for i in range(rank)])
        spectrum = means + self.penalty_of.spectrum(self.field, sides)[..., None]
        step = conjugate_gradients(product, -force, spectrum)
        return smoothed(step, self.smoothing / sides) if self.smoothing else step

    def pulled_back(self, level: Level, force: Tensor) -> Tensor:
        """The gradient of the velocity, for that of the displacements."""
        with torch.enable_grad():
            leaf = self.field.detach().requires_grad_()
            found = self.displacements(level, leaf)
            return torch.autograd.grad(found, leaf, force)[0]

    def moved(self, step: Tensor, length: float) -> Self:
        """See `Model`."""
        return replace(self, field=self.field + step * length)

    def at(self, level: Level) -> Field:
        """The model with its field resized to another level."""
        size = level.axes.size
        if tuple(self.field.shape[1:-1]) == size:
            return self
        field = interpolate(self.field, size, mode="bilinear", channel_axis=-1)
        return replace(self, field=field)
