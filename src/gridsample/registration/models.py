"""Models of transforms: groups of matrices, and fields after a matrix.

A model knows where each pixel of the fixed image comes from, and how to make a Gauss-Newton step:
from the derivatives of the loss along the warped image, to the next model.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gridsample.fields.displacements import exp
from gridsample.ops.derivatives import grid_gradient
from gridsample.ops.resizing import interpolate
from gridsample.registration.penalties import Penalty, conjugate_gradients, smoothed
from gridsample.registration.pyramid import PyramidLevel
from gridsample.registration.sums import total

MATRICES = ("translation", "rigid", "similarity", "affine", "homography")
FIELDS = ("displacement", "velocity")
MODELS = (*MATRICES, *FIELDS)

_RIDGE = 1e-6
"""Added to the diagonal of the normal equations, relative to it."""


class Model(Protocol):
    """A transform from the fixed to the moving image, with its parameters."""

    def positions(self, level: PyramidLevel) -> Tensor:
        """(1, *spatial, D): the pixels of the moving image at which the fixed ones are shown."""
        ...

    def penalty(self, level: PyramidLevel) -> Tensor | float:
        """The regularization, which is added to the loss."""
        ...

    def step(
        self, level: PyramidLevel, positions: Tensor, gradient: Tensor, curvature: Tensor
    ) -> Tensor:
        """The Gauss-Newton step for the derivatives of the loss along the warped image."""
        ...

    def moved(self, step: Tensor, length: float) -> Self:
        """The model after a step."""
        ...


# Matrices -----------------------------------------------------------------------------------------


def generators(model: str, rank: int) -> Tensor:
    """(P, D + 1, D + 1): the directions in which a group of matrices leaves the identity."""
    matrices = []

    def add(*entries: tuple[int, int, float]) -> None:
        matrix = torch.zeros(rank + 1, rank + 1, dtype=torch.float64)
        for i, j, value in entries:
            matrix[i, j] = value
        matrices.append(matrix)

    for i in range(rank):
        add((i, rank, 1))
    if model in ("rigid", "similarity"):
        for i in range(rank):
            for j in range(i):
                add((i, j, 1), (j, i, -1))
    if model == "similarity":
        add(*((i, i, 1) for i in range(rank)))
    if model in ("affine", "homography"):
        for i in range(rank):
            for j in range(rank):
                add((i, j, 1))
    if model == "homography":
        for j in range(rank):
            add((rank, j, 1))
    return torch.stack(matrices)


@dataclass(frozen=True)
class Matrix:
    """A matrix of the frame, and the group in which it may move.

    The map is x -> matrix @ (x, 1), divided by its last entry.  A step multiplies the matrix from
    the right by the exponential of a sum of generators.
    """

    matrix: Tensor
    generators: Tensor

    def positions(self, level: PyramidLevel) -> Tensor:
        """See `Model`."""
        return mapped(self.matrix, level, level.axes.lines(level.fixed))

    def at(self, level: PyramidLevel) -> Self:
        """The model for another level: a matrix of the frame fits all of them."""
        return self

    def penalty(self, level: PyramidLevel) -> float:
        """See `Model`."""
        return 0.0

    def step(
        self, level: PyramidLevel, positions: Tensor, gradient: Tensor, curvature: Tensor
    ) -> Tensor:
        """See `Model`.

        A parameter moves the homogeneous target by matrix @ generator @ (x, y, 1), so that the
        normal equations consist of sums of products of two slopes and two source coordinates.
        """
        rank = positions.shape[-1]
        slopes = self.homogeneous_slopes(level, positions)
        lines = level.axes.lines(level.fixed)
        count = len(slopes)
        linear = np.zeros((count, rank + 1))
        quadratic = np.zeros((count, rank + 1, count, rank + 1))
        first_moments, second_moments = monomials(rank)
        for i in range(count):
            linear[i] = moments((gradient * slopes[i]).sum(0), lines, 1)[first_moments]
            weighted = curvature * slopes[i]
            for j in range(i + 1):
                products = moments((weighted * slopes[j]).sum(0), lines, 2)[second_moments]
                quadratic[i, :, j] = quadratic[j, :, i] = products
        # (P, count * (D + 1)): how the parameters move the homogeneous target, for (x, y, 1).
        jacobian = (self.matrix @ self.generators)[:, :count].flatten(1).numpy()
        left = jacobian @ quadratic.reshape(linear.size, linear.size) @ jacobian.T
        right = jacobian @ linear.ravel()
        left[np.diag_indices_from(left)] += left.diagonal() * _RIDGE + 1e-30
        if not np.isfinite(left).all():
            return torch.full((len(right),), math.nan, dtype=torch.float64)
        return torch.from_numpy(np.linalg.lstsq(left, -right, rcond=None)[0])

    def homogeneous_slopes(self, level: PyramidLevel, positions: Tensor) -> list[Tensor]:
        """(C, *spatial): the derivatives along the entries of the homogeneous target in the frame.

        The last entry of an affine map's target is always 1, and is left out.
        """
        rank = positions.shape[-1]
        slopes = image_slopes(level, positions)
        spacings = level.moving_axes.spacings
        parts = [slopes[..., k] / spacings[k] for k in range(rank)]
        if is_affine(self.matrix) and not bool(self.generators[:, rank].any()):
            return parts
        lines = level.axes.lines(level.fixed)
        targets = [row_of(row, lines) for row in self.matrix.tolist()]
        depth = targets.pop()
        parts = [part / depth for part in parts]
        last = sum(part * target for part, target in zip(parts, targets, strict=True)) / depth
        return [*parts, -last]

    def moved(self, step: Tensor, length: float) -> Self:
        """See `Model`."""
        exponent = (self.generators * step[:, None, None] * length).sum(0)
        matrix = self.matrix @ torch.linalg.matrix_exp(exponent)
        return replace(self, matrix=matrix / matrix[-1, -1])


def moments(values: Tensor, lines: Sequence[Tensor], order: int) -> NDArray[np.float64]:
    """(order + 1, ...): the sums of values times x^i y^j z^k, for all powers up to ``order``."""
    for axis, line in enumerate(line.flatten() for line in lines):
        powers = [values.contiguous().sum(-1)]
        for _ in range(order):
            values = values * line
            powers.append(values.sum(-1))
        values = torch.stack(powers, axis).double()
    return values.cpu().numpy()


@functools.cache
def monomials(rank: int) -> tuple[Any, Any]:
    """The indices in moments of (x, y, z, 1), and of the products of two of these."""
    exponents = np.eye(rank + 1, dtype=int)[:, :rank]
    return tuple(exponents.T), tuple(np.moveaxis(exponents[:, None] + exponents, -1, 0))


def is_affine(matrix: Tensor) -> bool:
    """Whether the last row of a matrix is (0, ..., 0, 1)."""
    return bool((matrix[-1, :-1] == 0).all()) and float(matrix[-1, -1]) == 1


def row_of(row: Sequence[float], components: Sequence[Tensor]) -> Tensor:
    """One entry of a product of a matrix with homogeneous points, given by their components."""
    products = [factor * part for factor, part in zip(row[:-1], components, strict=True)]
    products[-1] = products[-1] + row[-1]
    result = products.pop()
    while products:
        result = result + products.pop()
    return result


def mapped(matrix: Tensor, level: PyramidLevel, components: Sequence[Tensor]) -> Tensor:
    """(1, *spatial, D): apply a matrix of the frame, in the moving image's pixels of this level.

    Points at or behind the horizon of a homography come out far away.

    Args:
        matrix: (D + 1, D + 1).
        level: the level.
        components: x, y, z of the points; they may broadcast.
    """
    rows = (torch.linalg.inv(level.moving_axes.matrix()) @ matrix).tolist()
    targets = [row_of(row, components) for row in rows[:-1]]
    if not is_affine(matrix):
        depth = row_of(rows[-1], components)
        behind = depth <= 1e-6
        depth = torch.where(behind, 1.0, depth)
        targets = [torch.where(behind, -1e6, target / depth) for target in targets]
    return torch.stack(targets).movedim(0, -1)[None]


def image_slopes(level: PyramidLevel, positions: Tensor) -> Tensor:
    """(C, *spatial, D): the derivatives of the warped image along the positions."""
    slopes: Tensor = grid_gradient(level.moving, positions, level.mode, "border", coords="pixel")[0]
    return slopes


# Fields -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FieldModel:
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

    def spacings(self, level: PyramidLevel) -> Tensor:
        """The spacings of the level's pixels, in the unit of the field."""
        return self.field.new_tensor(level.axes.spacings) / self.unit

    def displacements(self, level: PyramidLevel, field: Tensor) -> Tensor:
        """The displacements of a field of parameters."""
        if self.steps is None:
            return field
        spacings = self.spacings(level)
        displacements: Tensor = exp(field / spacings, self.steps) * spacings
        return displacements

    def positions(self, level: PyramidLevel) -> Tensor:
        """See `Model`."""
        shift = self.displacements(level, self.field)[0] * self.unit
        lines = level.axes.lines(level.fixed)
        components = [line + part for line, part in zip(lines, shift.unbind(-1), strict=True)]
        return mapped(self.matrix, level, components)

    def penalty(self, level: PyramidLevel) -> Tensor:
        """See `Model`."""
        return self.penalty_of.energy(self.field, self.spacings(level))

    def step(
        self, level: PyramidLevel, positions: Tensor, gradient: Tensor, curvature: Tensor
    ) -> Tensor:
        """See `Model`; the equations of all pixels are solved by conjugate gradients."""
        rank = positions.shape[-1]
        to_pixels = torch.linalg.inv(level.moving_axes.matrix())[:-1, :-1]
        jacobian = (to_pixels @ self.matrix[:-1, :-1]) * self.unit
        slopes = image_slopes(level, positions) @ jacobian.to(positions)
        force = (gradient[..., None] * slopes).sum(0)[None]
        if self.steps is not None:
            force = self.pulled_back(level, force)
        normal = [
            [(curvature * slopes[..., i] * slopes[..., j]).sum(0) for j in range(i + 1)]
            for i in range(rank)
        ]
        spacings = self.spacings(level)
        force = force + self.penalty_of.gradient(self.field, spacings)

        def product(step: Tensor) -> Tensor:
            parts = step[0].unbind(-1)
            rows = [
                sum(normal[max(i, j)][min(i, j)] * parts[j] for j in range(rank))
                for i in range(rank)
            ]
            return torch.stack(rows, -1)[None] + self.penalty_of.gradient(step, spacings)

        means = torch.stack([total(normal[i][i]) / normal[i][i].numel() for i in range(rank)])
        spectrum = means + self.penalty_of.spectrum(self.field, spacings)[..., None]
        step = conjugate_gradients(product, -force, spectrum)
        return smoothed(step, self.smoothing / spacings) if self.smoothing else step

    def pulled_back(self, level: PyramidLevel, force: Tensor) -> Tensor:
        """The gradient of the velocity, for that of the displacements."""
        with torch.enable_grad():
            leaf = self.field.detach().requires_grad_()
            displacements = self.displacements(level, leaf)
            return torch.autograd.grad(displacements, leaf, force)[0]

    def moved(self, step: Tensor, length: float) -> Self:
        """See `Model`."""
        return replace(self, field=self.field + step * length)

    def at(self, level: PyramidLevel) -> FieldModel:
        """The model with its field resized to another level."""
        size = level.axes.size
        if tuple(self.field.shape[1:-1]) == size:
            return self
        field = interpolate(self.field, size, mode="bilinear", channel_axis=-1)
        return replace(self, field=field)
