"""What kernels take: records, each field of which becomes an argument of its own.

A launch makes them by field name; see `gridsample.kernels.compile.records`.  Distances in memory
are counted in numbers, and are 0 where an item or an axis is broadcast.
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


class Shadow(NamedTuple):
    """An image that is added to, and what exact sums take beside it; see `sweeps.add`."""

    memory: Any
    item: Any
    channel: Any
    x: Any
    y: Any
    z: Any
    bounds: Any  # the greatest size of what comes to each pixel, as bits
    limbs: Any  # the sums, as integers
    limb: Any  # how many of them a limb has
    room: Any  # bits of a limb that one addition may use


class Grid(NamedTuple):
    """A grid (N, points, D), or affine maps (N, D, D + 1), whose columns are its points."""

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


class Fill(NamedTuple):
    """The fill value of each channel, or of all."""

    memory: Any
    channel: Any


class Work(NamedTuple):
    """How much there is to do, and how it is shared out to programs."""

    size_x: Any  # pixels along each axis of the image
    size_y: Any
    size_z: Any
    out_x: Any  # points along each axis of the output
    out_y: Any
    out_z: Any
    channels: Any
    points: Any  # of an item
    grid_items: Any
    units: Any  # chunks of channels; those of all items, where one grid serves the whole batch
    splits: Any  # programs that share the chunks of a block of points


class Tile(NamedTuple):
    """What a kernel is compiled for, whatever it does."""

    X: Static  # the axes: see `gridsample.kernels.axes.Axis`
    Y: Static
    Z: Static
    RANK: Static
    SOURCE: Static  # where coordinates are from
    LAST: Static  # whether channels are neighbours in memory, and so in a tile
    REAL: Static  # the type of positions, weights and sums
    INDEX: Static  # the integers that offsets within an item are worked out in
    BLOCK: Static  # points of a program
    DEPTH: Static  # channels of a tile
    FILLED: Static  # whether dropped taps count with the fill value


class Outputs(NamedTuple):
    """What `gather` stores."""

    COPY: Static  # each point has one tap, of weight one: its number is copied as it is
    VOTE: Static  # numbers are labels, for which taps vote
    BACKED: Static  # points without taps have the fill value
    HOLE: Static  # points that are nowhere become NaN; else they are without taps
    ROUND: Static  # the output holds integers
    LOW: Static  # the least of them
    HIGH: Static  # and the greatest


class Needs(NamedTuple):
    """What `backward` works out, and how it adds to pixels."""

    IMAGE: Static  # the image's gradient
    GRID: Static  # the grid's gradient
    JOIN: Static  # whether successive points' values for one pixel are joined before
    SUMS: Static  # how values are added to pixels


class SecondNeeds(NamedTuple):
    """What `twice` is given, what it works out, and how it adds to pixels."""

    FROM_IMAGE: Static  # whether there is an upstream image
    FROM_GRID: Static  # whether there is an upstream grid
    VALUES: Static
    IMAGE: Static
    GRID: Static
    JOIN: Static
    SUMS: Static
