"""Resizing as SciPy's and scikit-image's users know it, as a band: a Gaussian, then a spline.

Along an axis of n pixels, output o has the position (o + 1/2) * n / outputs - 1/2, and the line
goes on outside the image as its boundary says.  A spline that meets its pixels is a sum over all
pixels, whose weights decrease by the factor of its largest pole from pixel to pixel.  They are cut
off where they no longer count (`Zoom.reach`), so that one narrow band is the prefilter and the
spline at once, and the image is read as it is.  A Gaussian before it only widens the band.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.axis import DROPPED, split
from gridsample.definitions.bands import CACHE_BYTES, Band, collect, copying_band
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.definitions.caches import cached_by_size
from gridsample.definitions.methods import METHODS
from gridsample.definitions.splines import cardinal, decay

Array = np.ndarray[Any, Any]

# SciPy computes coefficients of a line with so many pixels more at each end, where it has no exact
# recursion for a boundary.  That line is filtered under another boundary.
PAD, FILTERS = 12, {"constant": "mirror", "border": "symmetric"}
# Standard deviations after which SciPy cuts off a Gaussian.
TRUNCATE = 4.0


class Zoom(NamedTuple):
    """How an axis is resized, and which part of it.

    Attributes:
        order: the order of the spline, 0 to 5; -1 for means of blocks.
        boundary: "constant", "border", "symmetric", "mirror" or "wrap"; see
            `gridsample.grid_sample`.  Under "constant", the weights of pixels outside are left out
            (see `shares_inside`).
        sigma: the standard deviation in pixels of the Gaussian, or the length of a block.
        digits: the number of decimal digits to which weights are exact.
        inputs: the number of pixels along the axis.
        outputs: the number of outputs along the axis.
        first_input: the first pixel of the part that is passed; negative for pixels before the
            image, which only "wrap" needs.
        first_output: the first output of the part that is computed.
    """

    order: int
    boundary: str
    sigma: float
    digits: int
    inputs: int
    outputs: int
    first_input: int = 0
    first_output: int = 0

    @property
    def reach(self) -> int:
        """The distance from a coefficient at which pixels no longer count."""
        return decay(self.order, 10.0**-self.digits) if self.order > 1 else 0

    @property
    def is_identity(self) -> bool:
        """Whether every output is the pixel of the same index."""
        length = 1 if self.order < 0 else 0
        return self.inputs == self.outputs and self.sigma == length

    @property
    def whole(self) -> Zoom:
        """The zoom of the whole axis."""
        return self._replace(first_input=0, first_output=0)


def zoomed(zoom: Zoom, inputs: int, outputs: int) -> Band:
    """Compute the band of the part of an axis with these sizes."""
    band, _ = full_band(zoom.whole)
    rows = slice(zoom.first_output, zoom.first_output + outputs)
    first, count = band.first[rows] - zoom.first_input, band.count[rows]
    if len(first) and not (first.min() >= 0 and (first + count).max() <= inputs):
        raise ValueError(f"{inputs} inputs from {zoom.first_input} do not suffice for {zoom}")
    return Band(inputs, first, count, band.weights[rows])


def inputs_of(zoom: Zoom, rows: slice) -> slice:
    """The pixels that some outputs need; outside the image only for the boundary "wrap"."""
    band, _ = full_band(zoom.whole)
    first, end = band.first[rows], (band.first + band.count)[rows]
    return slice(int(first.min()), int(end.max()))


def nearest_inputs(zoom: Zoom) -> Array:
    """The pixel that each output copies, for order 0 without a Gaussian."""
    return full_band(zoom.whole)[0].first


def shares_inside(zoom: Zoom) -> Array:
    """The part of each output's weights that is inside the image; exactly 1 where all are."""
    return full_band(zoom.whole)[1]


@cached_by_size(CACHE_BYTES, lambda result: result[0].bytes + result[1].nbytes)
def full_band(zoom: Zoom) -> tuple[Band, Array]:
    """The band of a whole axis, and `shares_inside`.

    Under "wrap", its indices are not folded: those outside are before or after the image.
    """
    if zoom.is_identity:
        return copying_band(np.arange(zoom.inputs), zoom.inputs), np.ones(zoom.inputs)
    if zoom.order < 0:
        return block_means(zoom)
    index, weights = taps_around(zoom)
    band, share = folded_band(index, weights, zoom, padded=zoom.order > 1)
    if zoom.sigma:
        reach = int(TRUNCATE * zoom.sigma + 0.5)
        steps = np.arange(-reach, reach + 1)
        bell = np.exp(-0.5 / zoom.sigma**2 * steps**2)
        low = min(0, int(band.first.min()))
        high = max(zoom.inputs, int((band.first + band.count).max()))
        rows = np.arange(low, high)[:, np.newaxis] + steps
        blur, blur_share = folded_band(rows, np.tile(bell / bell.sum(), (len(rows), 1)), zoom)
        band, share = composed_bands(band, blur, low), composed_shares(band, blur_share, low, share)
    return band, share


def block_means(zoom: Zoom) -> tuple[Band, Array]:
    """Means of blocks of pixels, the last of which may reach beyond the image."""
    length = int(zoom.sigma)
    first = np.arange(zoom.outputs) * length
    count = np.minimum(length, zoom.inputs - first)
    weights = (np.arange(length) < count[:, np.newaxis]) / length
    return Band(zoom.inputs, first, count, weights), np.where(count < length, count / length, 1.0)


def taps_around(zoom: Zoom) -> tuple[Array, Array]:
    """The pixels around each output's position, and their weights, as if there were no edge."""
    step = zoom.inputs / zoom.outputs
    positions = (np.arange(zoom.outputs) + 0.5) * step - 0.5
    if zoom.order == 0:
        index = np.clip(np.floor(positions + 0.5), 0, zoom.inputs - 1).astype(np.int64)
        return index[:, np.newaxis], np.ones((zoom.outputs, 1))
    method = METHODS["linear" if zoom.order == 1 else f"spline{zoom.order}"]
    base, t = split(positions, method.rounding)
    offsets, weights = np.asarray(method.offsets), method.weights(t)
    if zoom.order > 1:
        filter_taps = cardinal(zoom.order, zoom.reach)
        convolved = np.zeros((zoom.outputs, len(offsets) + 2 * zoom.reach))
        for tap in range(len(offsets)):
            convolved[:, tap : tap + len(filter_taps)] += weights[:, tap : tap + 1] * filter_taps
        offsets = np.arange(offsets[0] - zoom.reach, offsets[-1] + zoom.reach + 1)
        weights = convolved / convolved.sum(axis=1, keepdims=True)
    return base.astype(np.int64)[:, np.newaxis] + offsets, weights


def folded_band(
    index: Array, weights: Array, zoom: Zoom, padded: bool = False
) -> tuple[Band, Array]:
    """Fold indices (rows, taps) by the boundary, add the weights of equal ones, and sum all.

    ``padded`` means that the line ends `PAD` pixels after the image, where it is reflected.
    """
    n, ones = zoom.inputs, np.ones(len(index))
    if zoom.boundary == "wrap":
        return collect(index, weights, n), ones
    if padded and zoom.boundary in FILTERS:
        line = BOUNDARIES[FILTERS[zoom.boundary]]
        index = line.fold_index(index + PAD, n + 2 * PAD) - PAD
    if zoom.boundary != "constant":
        return collect(BOUNDARIES[zoom.boundary].fold_index(index, n), weights, n), ones
    inside = BOUNDARIES["constant"].fold_index(index, n) != DROPPED
    share = np.where(inside.all(axis=1), 1.0, (weights * inside).sum(axis=1))
    return collect(BOUNDARIES["border"].fold_index(index, n), weights * inside, n), share


def composed_bands(after: Band, before: Band, low: int) -> Band:
    """The product of two bands, of which ``before`` has rows from ``low`` on."""
    begin = after.first - low
    last = np.minimum(begin + np.maximum(after.count, 1), before.outputs) - 1
    first = before.first[np.minimum(begin, before.outputs - 1)]
    count = (before.first + before.count)[last] - first
    weights = np.zeros((after.outputs, int(count.max())))
    steps = np.arange(before.weights.shape[1])
    for tap in range(after.weights.shape[1]):
        rows = np.flatnonzero(tap < after.count)
        inner = begin[rows] + tap
        columns = (before.first[inner] - first[rows])[:, np.newaxis] + steps
        part = after.weights[rows, tap, np.newaxis] * before.weights[inner]
        valid = steps < before.count[inner, np.newaxis]
        at = np.broadcast_to(rows[:, np.newaxis], columns.shape)
        np.add.at(weights, (at[valid], columns[valid]), part[valid])
    return Band(before.inputs, first, count, weights)


def composed_shares(band: Band, share: Array, low: int, second: Array) -> Array:
    """The part of the weights inside after two bands, given that of the first, and the second."""
    taps = np.arange(band.weights.shape[1])
    index = np.clip((band.first - low)[:, np.newaxis] + taps, 0, len(share) - 1)
    taken = taps < band.count[:, np.newaxis]
    inside = (second == 1) & ((share[index] == 1) | ~taken).all(axis=1)
    total = (band.weights * share[index] * taken).sum(axis=1)
    return np.where(inside, 1.0, total)
