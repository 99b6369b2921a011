"""Samples, and their means over the pixels that count, on arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.options import Averaging
from gridsample.definitions.plan import Plan
from gridsample.kernels.memory import layout_of, native
from gridsample.kernels.sampling.division import Averages, Layouts, reads_of
from gridsample.kernels.sampling.levels import plan_at
from gridsample.kernels.sampling.preparing import (
    CallArrays,
    fills_of_planes,
    readable,
    readable_points,
)
from gridsample.kernels.sampling.steps import gather_steps

Array = np.ndarray[Any, Any]
Order = tuple[int, ...]


class Swept(NamedTuple):
    """What a sweep reports.

    Attributes:
        invalid_weights: whether some weight that was read may be negative or not finite.
        footprints: the bits that tasks report of footprints.
    """

    invalid_weights: bool
    footprints: int


class Gathering(NamedTuple):
    """How points are sampled.

    Attributes:
        order: the order of derivatives along each axis, x first.
        threads: the maximum number of threads.
        averaging: which pixels count, for means; None for plain samples.
    """

    order: Order
    threads: int
    averaging: Averaging | None = None

    def sample(self, plan: Plan, arrays: CallArrays) -> bool:
        """Store samples without footprints; return whether some weight that was read is invalid."""
        arrays = arrays._replace(image=self.readable(plan, arrays.image))
        return self.sweep(plan, arrays).invalid_weights

    def readable(self, plan: Plan, image: Array) -> Array:
        """Return an image that programs should read: itself, or else a copy."""
        # Those of means read both parts of a complex number at once.
        whole = self.averaging is not None and plan.dtype.kind == "c"
        return native(image) if whole else readable(plan, image, self.threads)

    def sweep(
        self, plan: Plan, arrays: CallArrays, level: int | None = None, multiplied: bool = False
    ) -> Swept:
        """Run programs on a readable image.

        Args:
            plan: the plan.
            arrays: the arrays.
            level: the number of the image's level, over footprints.
            multiplied: whether pixels are already multiplied by their weights.
        """
        image, out, averaging = arrays.image, arrays.values, self.averaging
        at_level = plan if level is None else plan_at(plan, level)
        weights, means = plain_weights(at_level, arrays.weights, image, True), None
        if averaging is not None:
            means = Averages(averaging, None if weights is None else layout_of(weights), multiplied)
        grid, filled = readable_points(plan, arrays.grid), arrays.fill is not None
        layouts = Layouts(layout_of(image), layout_of(grid), layout_of(out), filled, means=means)
        steps = gather_steps(plan, self.order, layouts, level)
        wrong = np.zeros(1, np.int64)
        report = None if level is None else np.zeros(steps.tasks, np.int64)
        places = {
            "image": image, "grid": grid, "out": out, "weights": weights, "invalid_weights": wrong,
            "shares": arrays.shares, "report": report,
            **fills_of_planes(plan, self.order, image.dtype, arrays.fill, averaging),
        }  # fmt: skip
        steps.run(places, self.threads)
        return Swept(bool(wrong[0]), 0 if report is None else int(np.bitwise_or.reduce(report)))


def plain_weights(
    plan: Plan, weights: Array | None, image: Array, gathers: bool = False
) -> Array | None:
    """Return weights as a kernel reads them: (N or 1, C, *spatial), copied only if necessary.

    If rows of the image are contiguous, so are those of the weights.  Nothing is copied if a few
    points are sampled.
    """
    if weights is None:
        return None
    few = gathers and reads_of(plan) <= weights.size and plan.dtype.kind != "c"
    weights = weights if few else native(weights)
    beside = image.strides[-1] == image.itemsize
    if beside and weights.strides[-1] != weights.itemsize and not few:
        weights = np.ascontiguousarray(weights)
    return np.broadcast_to(weights, (len(weights), plan.channels, *plan.spatial))
