"""The records that kernels take.  Each field becomes a separate argument.

A launch makes them by field name; see `gridsample.kernels.gpu.flattening`.  Distances in memory
count elements, and are 0 along broadcast items and axes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Static = Any  # known when the kernel is compiled


class Planes(NamedTuple):
    """An image (N, C, *spatial): its memory, and the distances between neighbours."""

    memory: Any
    item: Any
    channel: Any
    x: Any
    y: Any
    z: Any


class GradImage(NamedTuple):
    """An image to which values are added, and the buffers for exact sums; see `sums.add`."""

    memory: Any
    item: Any
    channel: Any
    x: Any
    y: Any
    z: Any
    bounds: Any  # the greatest magnitude of the values added to each pixel, as bits
    limbs: Any  # the sums, as integers
    limb: Any  # the number of integers in a limb
    room: Any  # the bits of a limb that one addition may use


class Grid(NamedTuple):
    """A grid (N, points, D), or affine maps (N, D, D + 1), whose columns replace the points."""

    memory: Any
    item: Any
    point: Any
    axis: Any


class Values(NamedTuple):
    """Values (N, C, points)."""

    memory: Any
    item: Any
    channel: Any
    point: Any


class SumPoints(NamedTuple):
    """The points of weighted sums, and their weights, of which each query has several."""

    grid: Grid
    weights: Values  # the points of a query are channels


class Heads(NamedTuple):
    """The heads and the points of weighted sums, whose other axes are those of other records."""

    count: Any  # heads of an item
    points: Any  # of a query
    image: Any  # distances between heads: of images, coordinates, weights, and values
    grid: Any
    weights: Any
    values: Any
    grid_point: Any  # between the coordinates of the points of a query
    UNIT: Static  # whether coordinates are from 0 to 1
    WEIGHTS: Static  # whether the gradient of the weights is needed


class Windows(NamedTuple):
    """The windows of correlation lookups in a level; queries are the points of `Work`."""

    shrink: Any  # the pixels of the level for each pixel of the first one, along an axis
    RADIUS: Static  # how many pixels a window extends from its centre
    SCALE: Static  # the factor of dot products


class SplatPoints(NamedTuple):
    """Points that are splatted: their positions, metrics and values."""

    grid: Grid
    metric: Values
    values: Values


class SplatPixels(NamedTuple):
    """The pixels to which points are splatted: greatest metrics, and sums of weights."""

    greatest: Planes
    total: Planes


class Splat(NamedTuple):
    """What determines the weights of splatted values."""

    HARD: Static  # whether only values of the greatest metric of a pixel count
    DIVIDED: Static  # whether weights are divided by their sums; otherwise, these are computed
    TINY: Static  # the least normal number


class SplatNeeds(NamedTuple):
    """What `splat_gradients` computes."""

    VALUES: Static
    METRIC: Static
    GRID: Static


class WindowNeeds(NamedTuple):
    """What `window_gradients` computes, and how it adds to pixels."""

    IMAGE: Static  # the gradient of the images
    GRID: Static  # that of the positions
    VALUES: Static  # that of the source
    SUMS: Static  # how values are added to pixels


class Fill(NamedTuple):
    """The fill value of each channel, or one for all channels."""

    memory: Any
    channel: Any


class Work(NamedTuple):
    """The size of the work, and how it is divided among programs."""

    size_x: Any  # pixels along each axis of the image
    size_y: Any
    size_z: Any
    out_x: Any  # points along each axis of the output
    out_y: Any
    out_z: Any
    channels: Any
    points: Any  # per item
    grid_items: Any
    units: Any  # chunks of channels, counted over all items if one grid serves the whole batch
    splits: Any  # the number of programs that share the chunks of a block of points


class Tile(NamedTuple):
    """What every kernel is compiled for."""

    X: Static  # the axes: see `gridsample.kernels.gpu.choices.Axis`
    Y: Static
    Z: Static
    RANK: Static
    SOURCE: Static  # where coordinates come from
    LAST: Static  # whether channels are contiguous in memory, and therefore in a tile
    REAL: Static  # the dtype of positions, weights and sums
    INDEX: Static  # the integer type of offsets within an item
    BLOCK: Static  # the points of a program
    WIDTH: Static  # how many of them are side by side in the output: BLOCK, or fewer of each row
    DEPTH: Static  # the channels of a tile
    FILLED: Static  # whether dropped taps contribute the fill value
    UNITS: Static  # the units of the coordinates that are given; those of samples are the axes'
    SPREAD: Static  # whether points have footprints, over which samples are spread


class FootprintParams(NamedTuple):
    """The footprints of points, if they have any; see `gridsample.kernels.gpu.footprints`."""

    level: Any  # how often the image has been halved: only points of this level are processed
    levels: Any  # how often it can be halved
    max_samples: Any  # the maximum number of samples along a side
    full_x: Any  # pixels along each axis of the image before it was halved
    full_y: Any
    full_z: Any
    SCALED: Static  # whether samples have other coordinates in the halved image
    ATTACHED: Static  # whether the sides have a gradient
    WRAPPED: Static  # the sum of 2**a over the axes (x is 0) whose positions are a circle


class Outputs(NamedTuple):
    """What `gather` stores."""

    COPY: Static  # each point has one tap, of weight one, whose value is copied
    VOTE: Static  # numbers are labels, for which taps vote
    BACKED: Static  # points without taps have the fill value
    NAN: Static  # invalid points become NaN; otherwise they have no taps
    ROUND: Static  # the output holds integers
    LOW: Static  # the least integer
    HIGH: Static  # and the greatest


class Needs(NamedTuple):
    """What `backward` computes, and how it adds to pixels."""

    IMAGE: Static  # the image's gradient
    GRID: Static  # the grid's gradient
    JOIN: Static  # whether values of successive points for the same pixel are summed first
    SUMS: Static  # how values are added to pixels


class SecondNeeds(NamedTuple):
    """What `double_backward` receives and computes, and how it adds to pixels."""

    FROM_IMAGE: Static  # whether there is an upstream image
    FROM_GRID: Static  # whether there is an upstream grid
    VALUES: Static
    IMAGE: Static
    GRID: Static
    JOIN: Static
    SUMS: Static
