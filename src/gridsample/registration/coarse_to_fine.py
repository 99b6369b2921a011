"""The registration of one pair of images, from the coarsest level of the pyramid to its pixels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gridsample.registration.assessment import assess
from gridsample.registration.losses import Loss
from gridsample.registration.models import FIELDS, FieldModel, Matrix, generators
from gridsample.registration.optimisation import AnyModel, Descent, minimize, overlaps
from gridsample.registration.penalties import Penalty
from gridsample.registration.pyramid import Pair, PyramidLevel, pixels_of_levels
from gridsample.registration.result import Stage
from gridsample.registration.search import start
from gridsample.registration.verdict import Verdict

Report = Callable[[float], None]

# At the coarsest level, models with few parameters come first.
_MODELS_OF = {
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


@dataclass(frozen=True)
class Alignment:
    """The outcome for one pair of images.

    Attributes:
        model: the model that was found.
        start: the matrix of the frame from which it started.
        stages: the losses of all levels.
        verdict: whether the images agree.
    """

    model: Matrix | FieldModel
    start: Tensor
    stages: tuple[Stage, ...]
    verdict: Verdict


class Progress:
    """The progress of a registration; the cost of a level is its number of pixels."""

    def __init__(self, levels: list[PyramidLevel], report: Report) -> None:
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
) -> Alignment:
    """Register a pair of images.

    Args:
        pair: the images.
        initial: the matrix of the frame to start from; None to search for it.
        settings: how to register.
        item: the index of the pair.
        report: receives the share of the work that is done.

    Raises:
        ValueError: the images hardly overlap at the start.
    """
    pixels = pixels_of_levels(pair.size, pair.spacing, settings.levels)
    levels = [pair.level(pixel) for pixel in pixels]
    is_field = settings.model in FIELDS
    # The matrix of a field is optimized at the coarse levels; the fine ones bend the field.
    coarse = levels[: max(1, len(levels) - 2)] if is_field and initial is None else []
    optimization = CoarseToFine(settings, item, Progress([*coarse, *levels], report))
    matrix = initial
    models: tuple[str, ...] = (settings.model,)
    if matrix is None:
        group = "affine" if is_field else settings.model
        matrix, models = start(pair, group, settings.loss), _MODELS_OF.get(group, (group,))
    if coarse:
        matrix = optimization.matrices(matrix, models, coarse).model.matrix
    descent: Descent[Matrix] | Descent[FieldModel]
    if is_field:
        descent = optimization.fields(matrix, pair, levels)
    else:
        descent = optimization.matrices(matrix, models, levels)
    if not math.isfinite(descent.losses[-1]):
        weight = descent.state.weight
        if overlaps(weight, levels[-1]):
            raise ValueError(
                f"loss is not finite at the initial transform, for {int(weight.sum())} valid pixels"
            )
        raise ValueError("fixed and moving hardly overlap at the initial transform")
    verdict = assess(descent.model, levels, descent.converged, descent.last_step)
    return Alignment(descent.model, matrix, tuple(optimization.stages), verdict)


class CoarseToFine:
    """The optimization from the coarsest to the finest level, which records the losses."""

    def __init__(self, settings: Settings, item: int, progress: Progress) -> None:
        self.settings, self.item, self.progress = settings, item, progress
        self.stages = list[Stage]()

    def descend(self, model: AnyModel, name: str, level: PyramidLevel) -> Descent[AnyModel]:
        """Optimize a model at a level."""
        settings = self.settings
        descent = minimize(
            model,
            settings.loss,
            level,
            settings.iterations,
            settings.tolerance,
            self.progress.within,
        )
        self.stages.append(Stage(self.item, name, level.axes.size, descent.losses))
        return descent

    def matrices(
        self, matrix: Tensor, models: tuple[str, ...], levels: list[PyramidLevel]
    ) -> Descent[Matrix]:
        """Find a matrix: at the coarsest level with each of the models, then with the last."""
        for level in levels:
            for name in models:
                model = Matrix(matrix, generators(name, len(level.axes.size)))
                descent = self.descend(model, name, level)
                matrix = descent.model.matrix
            models = models[-1:]
            self.progress.next()
        return descent

    def fields(self, matrix: Tensor, pair: Pair, levels: list[PyramidLevel]) -> Descent[FieldModel]:
        """Find a field after a matrix."""
        shape = (1, *levels[0].axes.size, len(pair.size))
        zeros = torch.zeros(shape, dtype=pair.fixed.dtype, device=pair.fixed.device)
        unit = min(pair.spacing) / pair.unit
        penalty = self.settings.penalty
        if penalty.name == "bending":  # second derivatives are per unit of the frame
            penalty = replace(penalty, weight=penalty.weight / unit**2)
        steps = self.settings.steps if self.settings.model == "velocity" else None
        model = FieldModel(matrix, zeros, unit, penalty, self.settings.smoothing, steps)
        for level in levels:
            descent = self.descend(model.at(level), self.settings.model, level)
            model = descent.model
            self.progress.next()
        return descent
