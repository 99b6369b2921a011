"""Plans and settings for the levels of an image over which footprints are sampled."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from gridsample.definitions import footprints as definitions
from gridsample.definitions.plan import Plan
from gridsample.kernels.sampling.division import lanes_of, taps_of

# Bytes of a label and of the sum of its weights, at most.
LABEL = 16


def plan_at(plan: Plan, number: int) -> Plan:
    """Return the plan for the image of a level."""
    level = definitions.levels(plan.spatial, plan.coords, plan.align_corners, number)[number]
    coords = plan.coords if plan.coords == "displacement" else level.coords
    return replace(plan, spatial=level.spatial, coords=coords)


def footprint_settings(plan: Plan, number: int) -> dict[str, Any]:
    """Return the settings of footprints for the image of a level."""
    assert plan.footprint is not None
    level = definitions.levels(plan.spatial, plan.coords, plan.align_corners, number)[number]
    known = plan.footprint.level is not None
    scale = 0.5**number if known else 1.0
    unit = definitions.pixels_per_unit(plan.spatial, plan.coords, plan.align_corners)
    return {
        "unit": [pixels * scale for pixels in unit],
        "gain": level.gain,
        "shift": level.shift,
        "period": [
            period or 0.0
            for period in definitions.periods(
                plan.spatial, plan.coords, plan.align_corners, plan.boundaries
            )
        ],
        "max_samples": plan.footprint.max_samples,
        "levels": 0 if known or plan.votes else definitions.deepest(plan.spatial),
        "level": 0 if known else number,
        "attached": plan.footprint.attached,
        "tie": definitions.tie(plan.spatial, float(np.finfo(plan.real).eps)),
    }


def scratch_of(plan: Plan) -> int:
    """Return the bytes that the labels of a group's footprints need at most."""
    assert plan.footprint is not None
    taps = taps_of(plan)
    for _ in plan.spatial:
        taps *= plan.footprint.max_samples
    labels = lanes_of(plan) * (math.prod(plan.spatial) + 2)
    return min(taps, labels) * lanes_of(plan) * LABEL
