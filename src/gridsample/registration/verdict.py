"""Whether a registration succeeded, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """Whether a registration succeeded.

    Attributes:
        success: whether the images agree at the transform.
        reason: why it is a success or a failure, in one line.
        relation: how well the warped image explains the fixed one, from 0 (no better than if they
            were displaced) to 1; comparable between losses.
        overlap: the share of the fixed image's valid pixels that show valid pixels of the moving
            image.
        converged: whether the steps became smaller than the tolerance.
    """

    success: bool
    reason: str
    relation: float
    overlap: float
    converged: bool
