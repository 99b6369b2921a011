"""Which copies of arrays pay: they take time for each pixel, and save time for each tap."""

from __future__ import annotations

import math

from gridsample.definitions.caches import cached_call
from gridsample.definitions.plan import Plan
from gridsample.kernels.caches import CACHES
from gridsample.kernels.memory import Layout, dense_order, is_dense, is_native
from gridsample.kernels.sampling.division import cost_of, fit_together, reads_of
from gridsample.kernels.sampling.layouts import are_runs, channels_together, element

# The largest image that is copied for its layout, and what a task copies of it, in bytes.
LARGEST_COPY, COPIED_AT_ONCE = 1 << 25, 1 << 20
# The most bytes of a number that `copies.prepare_transposition` moves.
MAX_MOVED = 8
# The most channels of a pixel whose lanes are points, if they are read, and if they are added to.
MAX_READ, MAX_ADDED = 8, 4
# The fewest channels that are made neighbours.
MIN_CHANNELS = 8
# The fewest samples for which only one of the two, the image or the samples, is copied.
FEW_SAMPLES = 1 << 12
# The fewest taps for each pixel for which an image is copied, if they are read, and if they are
# added to.
TAPS_READ, TAPS_ADDED = 16, 4
# The fewest if these are read from planes of so many pixels, or two along each axis are added to
# planes: such planes are processed in blocks, and stay in the cache (`division.Blocks`).
TAPS_READ_IN_BLOCKS, PLANE_IN_BLOCKS, TAPS_ADDED_IN_BLOCKS = 64, 1 << 15, 16


def max_short(adds: bool) -> int:
    """Return the most channels of a pixel whose lanes are points; ``adds`` if it is added to."""
    return MAX_ADDED if adds else MAX_READ


@cached_call(256)
def is_readable(plan: Plan, image: Layout) -> bool:
    """Whether programs that gather should read an image of this layout.

    If it is not native, they read single bytes in order, which is slower.  It is still faster than
    to copy the image if they read few of its pixels.
    """
    shape, strides, dtype = image
    pixels = math.prod([n for n, stride in zip(shape, strides, strict=True) if stride])
    if pays_contiguous(plan, image):
        return False
    return is_native(strides, dtype) or reads_of(plan) <= pixels


@cached_call(256)
def pays_contiguous(plan: Plan, image: Layout) -> bool:
    """Whether to copy an image in which neither columns nor channels are neighbours in memory.

    If points are nearly as many as pixels, reading rows of the copy saves more time than the copy
    takes, for methods of more than two taps.  For two, this is so if the image is large, or its
    columns are pages apart, of which caches hold few.
    """
    shape, strides, dtype = image
    pixels, taps = math.prod(plan.spatial), max(method.taps for method in plan.methods)
    large = math.prod(shape) * dtype.itemsize >= CACHES.own or strides[-1] % CACHES.page == 0
    few = plan.points * plan.items < pixels * plan.image_items
    pays_for_two = large and not few and dense_order(image) is not None
    return (
        (taps > 2 or (taps == 2 and pays_for_two))
        and dtype.isnative
        and strides[-1] != dtype.itemsize
        and channels_together(image) == 1
        and all(stride or n == 1 for n, stride in zip(shape, strides, strict=True))
        and 4 * plan.points * plan.items >= pixels * plan.image_items
        and math.prod(shape) * dtype.itemsize <= LARGEST_COPY
    )


@cached_call(256)
def pays_channels_last(plan: Plan, image: Layout, values: Layout, adds: bool) -> bool:
    """Whether to copy those of these arrays that are planes, so that all channels are neighbours.

    Runs save time for each tap, most if they are added to, and copies take time for each pixel.  Of
    two taps along an axis, reading takes less time in planes.  Samples of short pixels may be
    planes (`KnownPixels.apart`), unless numbers are complex.

    Args:
        plan: the plan.
        image, values: the layouts of both.
        adds: whether pixels are added to, as for the image's gradient.
    """
    image_runs, values_run = are_runs(image), are_runs(values)
    sum_size = plan.real.itemsize * (2 if plan.dtype.kind == "c" else 1)
    if max(image[2].itemsize, values[2].itemsize, sum_size) > MAX_MOVED:
        return False
    fits = plan.image_items == plan.items and not plan.votes
    fits = fits and (plan.footprint is None or plan.channels > MAX_READ)
    copyable = (image_runs or is_dense(image)) and (values_run or is_dense(values))
    if plan.channels == 1 or not (fits and copyable) or (image_runs and values_run):
        return False
    many, numbers = max(method.taps for method in plan.methods) > 2, plan.channels * plan.points
    enough = numbers >= FEW_SAMPLES or not (image_runs or values_run)
    pays = enough and numbers * values[2].itemsize <= LARGEST_COPY
    if image_runs:
        apart = plan.dtype.kind != "c" and plan.channels <= max_short(adds)
        copies = many or plan.channels >= MIN_CHANNELS
        return pays and copies and not (plan.nearest or apart)
    pixels, taps = math.prod(plan.spatial), max(cost_of(plan), TAPS_ADDED)
    if adds:
        blocks = not many and len(plan.spatial) < 3 and fit_together(plan, element(plan.real))
        min_taps = TAPS_ADDED_IN_BLOCKS if blocks else TAPS_ADDED
    else:
        min_taps = TAPS_READ_IN_BLOCKS if pixels >= PLANE_IN_BLOCKS else TAPS_READ
    return (
        pays
        and plan.channels >= MIN_CHANNELS
        and (many or adds)
        and min(plan.points, pixels) >= MIN_CHANNELS
        and taps * plan.points >= min_taps * pixels
        and plan.channels * pixels * plan.real.itemsize <= LARGEST_COPY
    )
