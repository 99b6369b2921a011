"""The records that CPU drivers take; machine code takes their fields one by one.

`gridsample.kernels.cpu.calls` makes them by field name, and `gridsample.kernels.cpu.entry` writes
them to rows; see `gridsample.kernels.compile.records`.  Distances count elements, and are 0 for a
broadcast item.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Array = Any  # stored with a plan
Memory = Any  # owned by the caller; each call passes its address
Scratch = Any  # lent to a task

# The caller's arrays, in the order in which calls pass their addresses.
MEMORIES = (
    *(f"{name}_memory" for name in ("image", "upstream", "grid", "moves", "out", "values")),
    *("results_memory", "shadow_memory", "gradient_memory"),
    *("around_outside", "around_dropped", "around_holes", "around_least", "around_absent"),
    "dropped",
)


class Planes(NamedTuple):
    """An image, or the target of a scatter, as planes or as runs of channels."""

    memory: Memory
    starts: Array  # where each plane, or run, starts
    item: int  # the distance from one item of the batch to the next


class Points(NamedTuple):
    """A grid, or affine maps."""

    memory: Memory
    begin: int  # the offset of the first coordinate
    item: int
    axis: int  # the distance from one axis to the next
    point: int  # and from one point to the next


class Line(NamedTuple):
    """The coordinates of some points, from the first one on."""

    memory: Array
    axis: int
    point: int


class First(NamedTuple):
    """The first tap of a block's points: what all points have in common."""

    begin: int  # its offset from the base index
    corner: int  # its offset at the first inside point
    rounding: int  # how positions are rounded, two bits for each axis


class Values(NamedTuple):
    """The output of gather, or the upstream values of its gradients."""

    memory: Memory
    starts: Array
    item: int
    step: int  # the distance from one point to the next


class Gradient(NamedTuple):
    """The gradient of a grid, (item, point, axis), or of maps."""

    memory: Memory
    item: int


class Outside(NamedTuple):
    """The values of each plane where there is no pixel."""

    outside: Memory  # at points that are out
    dropped: Memory  # of dropped taps
    holes: Memory  # at points that are nowhere


class Surroundings(NamedTuple):
    """`Outside` where NaN pixels do not count: see `gridsample.kernels.cpu.means`."""

    outside: Memory
    dropped: Memory
    holes: Memory
    least: Memory  # one number: the weight that a result must exceed
    absent: Memory  # of results that do not


class Lattice(NamedTuple):
    """The distances between pixels in memory."""

    strides: Array  # along each axis, x first
    shifts: Array  # from the first tap to each tap
    far: bool  # whether images are too large for the second-level cache


class Tiling(NamedTuple):
    """How planes are copied to tiles: pixels of a few channels, which are contiguous."""

    lines: Array  # the pixel of a tile at which each line starts
    many: int  # the number of lines
    pixels: int  # of a line
    whole: int  # pixels of a tile, including its margins
    channels: int  # of all tiles


class Needs(NamedTuple):
    """Which gradients to compute."""

    image: bool
    grid: bool


class SecondNeeds(NamedTuple):
    """Whether there is an upstream image, and which second derivatives to compute."""

    upstream: bool
    values: bool
    image: bool
    grid: bool


class Block(NamedTuple):
    """The block of points that is processed: its description, and its scratch memory."""

    table: Array  # see `gridsample.kernels.cpu.taps`
    axes: Array  # (axis, column): see `gridsample.kernels.axes`
    measures: Array  # (axis, measure)
    tables: Array  # (axis, order; tap, power): the coefficients of weights
    indices: Scratch
    reals: Scratch


class Task(NamedTuple):
    """The part of the work that one call does."""

    first_item: int
    last_item: int
    first: int  # the first point of each item
    last: int
    planes: int  # the first plane, run or tile
    end: int


class BandedTask(NamedTuple):
    """The part of the work that one call of a driver that scatters does."""

    first_item: int
    last_item: int
    first: int
    last: int
    planes: int
    end: int
    banded: bool  # whether a plane is shared with other tasks, each of which has a band of it
    low: int  # the first offset in a plane that this task writes to
    high: int  # and the end of its band


class Span(NamedTuple):
    """The points of a block."""

    item: int
    start: int  # the first point, relative to the task's first
    ahead: int  # the distance to the next block's first point
    inside: int  # how many points are inside
    listed: int  # how many are edge points, which are listed and processed later
    n: int  # how many there are


class Gather(NamedTuple):
    """The arrays of gather."""

    image: Planes
    out: Values
    around: Outside


class GatherRuns(NamedTuple):
    """The arrays of gather if the channels of a pixel may be contiguous."""

    image: Planes
    out: Values
    around: Outside
    length: int  # the number of contiguous channels; 0 if they are not contiguous


class GatherMeans(NamedTuple):
    """`Gather` where NaN pixels do not count."""

    image: Planes
    out: Values
    around: Surroundings


class GatherMeansRuns(NamedTuple):
    """`GatherRuns` where NaN pixels do not count."""

    image: Planes
    out: Values
    around: Surroundings
    length: int


class Votes(NamedTuple):
    """What gather works on where pixels are labels, all of them as bits."""

    image: Planes
    out: Values
    around: Outside
    flip: int  # the bit in which a key differs from a pixel, or 0


class Backward(NamedTuple):
    """The arrays of backward."""

    image: Planes
    values: Values
    shadow: Planes
    gradient: Gradient
    dropped: Memory  # the value of dropped taps in each plane
    needs: Needs


class BackwardRuns(NamedTuple):
    """The arrays of backward if the channels of a pixel are contiguous."""

    image: Planes
    values: Values
    shadow: Planes
    gradient: Gradient
    dropped: Memory
    needs: Needs
    length: int  # the number of channels


class Second(NamedTuple):
    """The arrays of the double backward."""

    image: Planes
    upstream: Planes  # the upstream image
    moves: Points  # the upstream grid
    values: Values
    results: Values  # the gradient of the values
    shadow: Planes
    gradient: Gradient
    needs: SecondNeeds
