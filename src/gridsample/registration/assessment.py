"""How well two images agree after a registration, whatever the loss was.

The relation is measured in windows: the share of the fixed image's local variance that a linear
function of the warped image explains, with a slope of its own in each window.  It knows neither
brightness nor contrast, even an inverted one, so that it is comparable between losses: W. Wein et
al., "Automatic CT-ultrasound registration for diagnostic imaging and image-guided intervention",
Medical Image Analysis 12 (2008).  Images that are displaced against each other explain a share by
chance, which is subtracted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gridsample.registration.losses import WINDOW, centred, channel_sums
from gridsample.registration.models import FieldModel, Matrix
from gridsample.registration.pyramid import PyramidLevel
from gridsample.registration.sums import broadcast, total
from gridsample.registration.verdict import Verdict

MIN_RELATION, MIN_RELATION_IF_SMALL = 0.3, 0.9
"""The smallest relation of images that agree: if all pixels overlap, and if few do."""
MIN_OVERLAP = 0.2
"""The overlap below which images do not agree."""
LARGEST_STEP = 0.25
"""The last step, in pixels, above which they do not if the iterations were used up."""
_NOISE = 1e-3
"""Added to the variance of a window, relative to that of the fixed image."""
_SHORTEST, _LONGEST = 40, 200
"""The relation is measured at levels of which the fixed image's longest side is in this range."""


def assess(
    model: Matrix | FieldModel, levels: Sequence[PyramidLevel], converged: bool, last_step: float
) -> Verdict:
    """Judge a model at the levels of the pyramid.

    Args:
        model: the model that was found.
        levels: all levels, from the coarsest to the pixels.
        converged: whether the optimizer reached its tolerance at the last level.
        last_step: the mean motion of its last step, in pixels.
    """
    with torch.no_grad():
        _, weight = levels[-1].sample(model.at(levels[-1]).positions(levels[-1]))
        overlap = float(total(weight) / total(levels[-1].weight))
        relation = max(relation_at(model, level) for level in measured_levels(levels))
    # The best of many transforms makes small parts of unrelated images agree.
    needed = min(MIN_RELATION / max(overlap, MIN_OVERLAP), MIN_RELATION_IF_SMALL)
    if overlap < MIN_OVERLAP:
        reason = f"the images overlap by only {overlap:.0%} of the fixed one"
    elif relation < needed:
        reason = (
            f"the images hardly agree at the best transform found (relation {relation:.2f}, "
            f"overlap {overlap:.0%}; a relation of {needed:.2f} is needed)"
        )
    elif not converged and last_step > LARGEST_STEP:
        reason = (
            f"the iterations were used up; the last step moved points by {last_step:.2g} pixels"
            if math.isfinite(last_step)
            else "the derivatives of the loss are not finite"
        )
    else:
        reason = f"the images agree (relation {relation:.2f}, overlap {overlap:.0%})"
        return Verdict(True, reason, relation, overlap, converged)
    return Verdict(False, reason, relation, overlap, converged)


def measured_levels(levels: Sequence[PyramidLevel]) -> list[PyramidLevel]:
    """The levels at which the relation is measured; coarse ones see through noise."""
    measured = [level for level in levels if _SHORTEST <= max(level.axes.size) <= _LONGEST]
    return measured or [levels[-1]]


def relation_at(model: Matrix | FieldModel, level: PyramidLevel) -> float:
    """Measure the relation of both images at one level, beyond chance."""
    warped, weight = level.sample(model.at(level).positions(level))
    return relation(warped, level.fixed, weight, level.weight)


def relation(warped: Tensor, fixed: Tensor, weight: Tensor, fixed_weight: Tensor) -> float:
    """Measure the share of local variance that is explained, beyond that of displaced images.

    Args:
        warped: (C, *spatial).
        fixed: (C, *spatial).
        weight: (*spatial): the pixels that are valid in both.
        fixed_weight: (*spatial): those that are valid in the fixed image.
    """
    warped = standardized(warped, weight)
    share = explained(warped, fixed, weight)
    if not math.isfinite(share):
        return 0.0
    dims, size = tuple(range(-weight.ndim, 0)), weight.shape
    min_total, chances = float(total(weight)) / 2, list[float]()
    for thirds in itertools.product(range(3), repeat=weight.ndim):
        shifts = [n * k // 3 for n, k in zip(size, thirds, strict=True)]
        if not any(thirds) or (weight.ndim == 3 and sum(thirds) % 2):
            continue
        counted = torch.roll(weight, shifts, dims) * fixed_weight
        if float(total(counted)) >= min_total:
            chances.append(explained(torch.roll(warped, shifts, dims), fixed, counted))
    chance = max(filter(math.isfinite, chances), default=1 / 8)
    return max(0.0, (share - chance) / max(1 - chance, 1e-6))


def standardized(image: Tensor, weight: Tensor) -> Tensor:
    """Shift and scale each channel, so that large offsets do not cancel in sums of squares."""
    centre = centred(image, weight)
    squares = channel_sums(weight * centre.square()) / total(weight).clamp_min(1e-6)
    return centre / broadcast(squares.sqrt().clamp_min(1e-12), centre)


def explained(warped: Tensor, fixed: Tensor, weight: Tensor) -> float:
    """The share of the fixed image's variance in windows that the warped image explains."""
    count, a, b = weight.expand_as(fixed), weight * warped, weight * fixed
    planes = torch.cat([count, a, b, a * warped, b * fixed, a * fixed])
    known, a, b, aa, bb, ab = window_means(planes).chunk(6)
    share = 1 / known.clamp_min(1e-6)
    covariance = ab - a * b * share
    variances = [(square - mean * mean * share).clamp_min(0) for square, mean in ((aa, a), (bb, b))]
    noise = _NOISE * known
    return float(
        total(covariance.square() / (variances[0] + noise).clamp_min(1e-9))
        / total(variances[1] + noise)
    )


def window_means(planes: Tensor) -> Tensor:
    """The means over windows that overlap by half."""
    pool = torch.nn.functional.avg_pool2d if planes.ndim == 3 else torch.nn.functional.avg_pool3d
    window = [min(WINDOW, n) for n in planes.shape[1:]]
    return pool(planes[None], window, [(n + 1) // 2 for n in window])[0]
