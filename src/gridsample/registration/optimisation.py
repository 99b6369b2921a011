"""The optimizer: Gauss-Newton steps, shortened until the loss decreases."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from gridsample.registration.losses import Loss
from gridsample.registration.models import Model
from gridsample.registration.pyramid import PyramidLevel
from gridsample.registration.sums import total

_LENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01)
"""The lengths of the steps that are tried."""
_MIN_OVERLAP = 0.15
"""The smallest share of the fixed image that must be on the moving image."""
_STEEPEST, _FLATTEST = 64.0, 1 / 64
_MEASURED = 24
"""The number of points along each axis, at least, at which a motion is measured."""

AnyModel = TypeVar("AnyModel", bound=Model)


@dataclass(frozen=True)
class State(Generic[AnyModel]):
    """A model, and what the loss is computed from."""

    model: AnyModel
    positions: Tensor
    warped: Tensor
    weight: Tensor
    loss: float


def overlaps(weight: Tensor, level: PyramidLevel) -> bool:
    """Whether enough of the fixed image is on the moving image to compare them."""
    return float(total(weight)) > _MIN_OVERLAP * float(total(level.weight))


def evaluate(model: AnyModel, loss: Loss, level: PyramidLevel) -> State[AnyModel]:
    """Compute the loss of a model; it is infinite where the images hardly overlap."""
    positions = model.positions(level)
    warped, weight = level.sample(positions)
    value = math.inf
    if overlaps(weight, level):
        value = float(loss.value(warped, level.fixed, weight)) + float(model.penalty(level))
    return State(model, positions, warped, weight, value if math.isfinite(value) else math.inf)


def motion(before: State[AnyModel], after: State[AnyModel]) -> float:
    """The mean distance by which the points moved, in pixels of the level."""
    size = before.weight.shape
    sparse = tuple(slice(None, None, max(1, n // _MEASURED)) for n in size)
    motions = after.positions[0][sparse] - before.positions[0][sparse]
    distances = motions.square().sum(-1).sqrt()
    counted = (before.weight[sparse] > 0).to(distances)
    return float(total(distances * counted) / total(counted).clamp_min(1))


@dataclass(frozen=True)
class Descent(Generic[AnyModel]):
    """What the optimizer did at one level.

    Attributes:
        state: the best model, and its loss.
        losses: the loss before the first and after each step.
        converged: whether it ended because steps were small or could not decrease the loss.
        last_step: the mean motion of the last step, in pixels of the level; infinite if a
            derivative was not finite.
    """

    state: State[AnyModel]
    losses: tuple[float, ...]
    converged: bool
    last_step: float

    @property
    def model(self) -> AnyModel:
        """The best model."""
        return self.state.model


def minimize(
    model: AnyModel,
    loss: Loss,
    level: PyramidLevel,
    iterations: int,
    tolerance: float,
    report: Callable[[float], None] = lambda share: None,
) -> Descent[AnyModel]:
    """Minimize the loss at one level of the pyramid.

    Args:
        model: where to start.
        loss: the loss.
        level: both images at this level.
        iterations: the largest number of steps.
        tolerance: the optimizer stops after a step that moves the points by less, in pixels.
        report: receives the share of the iterations that is done.
    """
    with torch.no_grad():
        state = evaluate(model, loss, level)
        losses, scale, distance, converged = [state.loss], 1.0, 0.0, False
        for iteration in range(iterations):
            gradient, curvature = loss.slopes(state.warped, level.fixed, state.weight)
            step = state.model.step(level, state.positions, gradient, curvature * scale)
            if not bool(torch.isfinite(step).all()):
                distance = math.inf
                break
            accepted = line_search(state, step, loss, level)
            if accepted is None:
                converged = True
                break
            length, after = accepted
            if loss.curvature is None:
                scale = scale * 4 if length < 1 else scale / 2
                scale = min(max(scale, _FLATTEST), _STEEPEST)
            distance, state = motion(state, after), after
            losses.append(state.loss)
            report((iteration + 1) / iterations)
            if distance < tolerance:
                converged = True
                break
    return Descent(state, tuple(losses), converged, distance)


def line_search(
    state: State[AnyModel], step: Tensor, loss: Loss, level: PyramidLevel
) -> tuple[float, State[AnyModel]] | None:
    """Find the first length of a step that decreases the loss; None if none does."""
    for length in _LENGTHS:
        model: AnyModel = state.model.moved(step, length)
        after = evaluate(model, loss, level)
        if after.loss < state.loss:
            return length, after
    return None
