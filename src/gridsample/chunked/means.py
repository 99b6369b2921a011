"""Means over the pixels of a region that count, where no kernel computes them: see `ops.means`.

What is done with an image before it is sampled, such as to lay out its missing pixels, is done for
the region alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gridsample.chunked.regions import Array, Block, Region, Sampling, level_of, whole_shape
from gridsample.chunked.windows import ImageWindow
from gridsample.definitions.options import Options
from gridsample.definitions.request import Request
from gridsample.ops import means
from gridsample.ops.means import CheckedCall
from gridsample.ops.points import SamplePoints


class RegionPoints(SamplePoints):
    """Points at which images are sampled of which only a region is there.

    Attributes:
        call: the call.
        region: the region; images have the size of its hull.
    """

    def __init__(self, points: SamplePoints, call: Sampling, region: Region) -> None:
        super().__init__(points.backend, points.array, points.out)
        self.call, self.region = call, region

    def resolve_options(self, image: Array, request: Request) -> Options:
        """Return the checked options for an image in the caller's layout."""
        full_shape = np.broadcast_to(np.zeros((), image.dtype), whole_shape(self.call, image.shape))
        return super().resolve_options(full_shape, request)

    def gather(
        self, image: Array, options: Options, dtype: Any, result: Array | None = None
    ) -> Array:
        """Sample an image (N, C, *spatial): that of the region, or one that is a single number."""
        full_shape = (*image.shape[:2], *self.call.spatial)
        if not any(image.strides[2:]):
            first = image[(slice(None), slice(None), *[slice(1)] * len(self.call.spatial))]
            pixels = np.broadcast_to(first, full_shape)
        else:
            window = ImageWindow(self.region, full_shape, image.dtype)
            window.write(hull_of(self.region), image)
            pixels = window.array
        samples: Array = super().gather(pixels, options, dtype)
        return samples


def hull_of(region: Region) -> Block:
    """Return the smallest box that covers a region; that of an empty one has a pixel."""
    return tuple(
        slice(min((a for a, _ in intervals), default=0), max((b for _, b in intervals), default=1))
        for intervals in region.axes
    )


def means_of_region(
    checked: CheckedCall, call: Sampling, window: ImageWindow, weights: ImageWindow | None
) -> tuple[Array, Array | None]:
    """Compute the samples of a block as quotients of sums, and the sums of weights.

    Args:
        checked: the call of the block.
        call: the call of the whole result.
        window: the image.
        weights: the weights of pixels, or None.

    Returns:
        The samples, (N, C, *out), and the sums of weights if the rule asks for them, otherwise
        None.
    """
    hull = hull_of(window.region)
    image = window.array[window.at(hull)]
    shares = None if weights is None else weights.array[weights.at(hull)]
    points = RegionPoints(checked.points, call, window.region)
    result, weight, _ = means.sample(points, image, shares, checked.requested, checked.rule)
    return result, weight


def check_means(call: Sampling, dtype: np.dtype[Any], weighted: bool = False) -> None:
    """Raise an error if the means of a call are over pixels of a halved copy, which counts all.

    Args:
        call: the call.
        dtype: the dtype of the image.
        weighted: whether pixels have weights.

    Raises:
        ValueError: some pixels count less than others, and the image is halved.
    """
    ignores = call.keywords.get("missing", "propagate") != "propagate" and dtype.kind in "fc"
    named = call.keywords["padding_mode"]
    drops = "missing" in ([named] if isinstance(named, str) else named)
    if level_of(call) and (ignores or drops or weighted or call.keywords.get("return_weight")):
        raise ValueError(
            "missing pixels, weights and return_weight are not supported in chunks with footprints "
            "that are longer than max_samples; accepted: a greater max_samples (up to 64)"
        )
