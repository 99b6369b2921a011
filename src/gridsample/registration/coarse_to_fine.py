"""The registration of one pair of images, from the coarsest level of the pyramid to its pixels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gridsample.registration.losses import Loss
from gridsample.registration.models import FIELDS, Field, Matrix, generators
from gridsample.registration.optimisation import minimize
from gridsample.registration.penalties import Penalty
from gridsample.registration.pyramid import Level, Pair, pixels_of_levels
from gridsample.registration.result import Stage
from gridsample.registration.search import start

Report = Callable[[float], None]

# At the coarsest level, models with few parameters come first.
_GROWTH = {
    "affine": ("similarity", "affine"),
    "homography": ("similarity", "affine", "homography"),
}


@dataclass(frozen=True)
class Settings:
    """How to register.

    Attributes:
        model: the name of the model.
        loss: the loss.
        penalty: the regularization of fields.
        smoothing: the standard deviation of the Gaussian that smooths every step of a field.
        levels: the number of levels; None to derive it from the size.
        iterations: the largest number of steps at each level.
        tolerance: in pixels; steps that are shorter end a level.
        steps: the number of compositions of a velocity's exponential.
    """

    model: str
    loss: Loss
    penalty: Penalty
    smoothing: float
    levels: int | None
    iterations: int
    tolerance: float
    steps: int


class Work:
    """The share of the work that is done; a level costs as much as it has pixels."""

    def __init__(self, levels: list[Level], report: Report) -> None:
        self.costs = [float(math.prod(level.axes.size)) for level in levels]
        self.done, self.share, self.report = 0, 0.0, report

    def within(self, share: float) -> None:
        """Report the share of this level; it never decreases."""
        before, now = sum(self.costs[: self.done]), self.costs[self.done]
        self.share = max(self.share, (before + share * now) / sum(self.costs))
        self.report(self.share)

    def next(self) -> None:
        """End this level."""
        self.within(1.0)
        self.done += 1


def align(
    pair: Pair, initial: Tensor | None, settings: Settings, item: int, report: Report
) -> tuple[Matrix | Field, Tensor, list[Stage]]:
    """Register a pair of images.

    Args:
        pair: the images.
        initial: the matrix of the frame to start from; None to search for it.
        settings: how to register.
        item: the index of the pair.
        report: receives the share of the work that is done.

    Returns:
        The model, the matrix from which it started, and the losses of all levels.

    Raises:
        ValueError: the images hardly overlap at the start.
    """
    pixels = pixels_of_levels(pair.size, pair.spacing, settings.levels)
    levels = [pair.level(pixel) for pixel in pixels]
    is_field = settings.model in FIELDS
    # A field bends at the fine levels, so that its matrix is found at the others.
    first = levels[: max(1, len(levels) - 2)] if is_field and initial is None else []
    work, history = Work([*first, *levels], report), list[Stage]()
    matrix = initial
    growth: tuple[str, ...] = (settings.model,)
    if matrix is None:
        group = "affine" if is_field else settings.model
        matrix, growth = start(pair, group, settings.loss), _GROWTH.get(group, (group,))
    if first:
        matrix = matrices(matrix, growth, first, settings, item, work, history).matrix
    model: Matrix | Field
    if is_field:
        model = fields(matrix, pair, levels, settings, item, work, history)
    else:
        model = matrices(matrix, growth, levels, settings, item, work, history)
    if not math.isfinite(history[-1].losses[-1]):
        raise ValueError(
            "fixed and moving hardly overlap at the initial transform, or loss is not finite there"
        )
    return model, matrix, history


def matrices(
    matrix: Tensor, growth: tuple[str, ...], levels: list[Level], settings: Settings, item: int,
    work: Work, history: list[Stage],
) -> Matrix:  # fmt: skip
    """Find a matrix, at the coarsest level in the groups ``growth``, and then in the last one."""
    for level in levels:
        for name in growth:
            model, losses = minimize(
                Matrix(matrix, generators(name, len(level.axes.size))), settings.loss, level,
                settings.iterations, settings.tolerance, work.within,
            )  # fmt: skip
            matrix = model.matrix
            history.append(Stage(item, name, level.axes.size, tuple(losses)))
        growth = growth[-1:]
        work.next()
    return model


def fields(
    matrix: Tensor, pair: Pair, levels: list[Level], settings: Settings, item: int, work: Work,
    history: list[Stage],
) -> Field:  # fmt: skip
    """Find a field after a matrix."""
    shape = (1, *levels[0].axes.size, len(pair.size))
    zeros = torch.zeros(shape, dtype=pair.fixed.dtype, device=pair.fixed.device)
    unit = min(pair.spacing) / pair.unit
    penalty = settings.penalty
    if penalty.kind == "bending":  # second derivatives are per unit of the frame
        penalty = replace(penalty, weight=penalty.weight / unit**2)
    model = Field(
        matrix, zeros, unit, penalty, settings.smoothing,
        settings.steps if settings.model == "velocity" else None,
    )  # fmt: skip
    for level in levels:
        model, losses = minimize(
            model.at(level), settings.loss, level, settings.iterations, settings.tolerance,
            work.within,
        )  # fmt: skip
        history.append(Stage(item, settings.model, level.axes.size, tuple(losses)))
        work.next()
    return model
