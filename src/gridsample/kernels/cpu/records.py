"""What the CPU's drivers take: records, whose fields machine code takes one by one.

`gridsample.kernels.cpu.calls` makes them by field name, and `gridsample.kernels.cpu.entry` writes
them to rows; see `gridsample.kernels.compile.records`.  Distances are counted in numbers, and are 0
where an item is broadcast.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Array = Any  # kept with a plan
Memory = Any  # the caller's, whose address each call tells
Scratch = Any  # lent to a task

# The caller's arrays, in the order in which calls tell where they are.
MEMORIES = (
    *(f"{name}_memory" for name in ("image", "upstream", "grid", "moves", "out", "values")),
    *("results_memory", "shadow_memory", "gradient_memory"),
    *("around_outside", "around_dropped", "around_holes", "dropped"),
)


class Planes(NamedTuple):
    """An image, or what is scattered to, as planes or as runs of channels."""

    memory: Memory
    starts: Array  # where each plane, or run, starts
    item: int  # the distance from one item of the batch to the next


class Points(NamedTuple):
    """A grid, or affine maps."""

    memory: Memory
    begin: int  # where the first coordinate is
    item: int
    axis: int  # the distance from one axis to the next
    point: int  # and from one point to the next


class Line(NamedTuple):
    """The coordinates of some points, from the first one on."""

    memory: Array
    axis: int
    point: int


class First(NamedTuple):
    """What is the same for all points of a block about the first of their taps."""

    begin: int  # its offset from the base index's
    corner: int  # its offset for the first inside point
    rounding: int  # how positions are rounded, two bits for each axis


class Values(NamedTuple):
    """What goes out of gather, or comes in to its gradients."""

    memory: Memory
    starts: Array
    item: int
    step: int  # the distance from one point to the next


class Gradient(NamedTuple):
    """The gradient of a grid, (item, point, axis), or of maps."""

    memory: Memory
    item: int


class Outside(NamedTuple):
    """What each plane has where there is no pixel."""

    outside: Memory  # at points that are out
    dropped: Memory  # under dropped taps
    holes: Memory  # at points that are nowhere


class Lattice(NamedTuple):
    """How far apart pixels are in memory."""

    strides: Array  # along each axis, x first
    shifts: Array  # of each tap from the first one
    far: bool  # whether images are too large for the second-level cache


class Tiling(NamedTuple):
    """How planes become tiles: pixels of a few channels, side by side."""

    lines: Array  # where each line of pixels begins in a tile
    many: int  # how many lines there are
    pixels: int  # of a line
    whole: int  # pixels of a tile, with its margins
    channels: int  # of all tiles


class Needs(NamedTuple):
    """Which gradients are worked out."""

    image: bool
    grid: bool


class SecondNeeds(NamedTuple):
    """Whether there is an upstream image, and which second derivatives are worked out."""

    upstream: bool
    values: bool
    image: bool
    grid: bool


class Block(NamedTuple):
    """The block of points that is worked on: what describes it, and room to work in."""

    table: Array  # see `gridsample.kernels.cpu.taps`
    axes: Array  # (axis, column): see `gridsample.kernels.axes`
    measures: Array  # (axis, measure)
    tables: Array  # (axis, order; tap, power): the coefficients of weights
    indices: Scratch
    reals: Scratch


class Task(NamedTuple):
    """One call's part of the work."""

    first_item: int
    last_item: int
    first: int  # the first point of each item
    last: int
    planes: int  # the first plane, run or tile
    end: int


class BandedTask(NamedTuple):
    """As `Task`, of a driver that scatters."""

    first_item: int
    last_item: int
    first: int
    last: int
    planes: int
    end: int
    banded: bool  # whether a plane is shared with other tasks, each of which has a band of it
    low: int  # the first offset in a plane that is written to
    high: int  # and the last one's successor


class Span(NamedTuple):
    """The points of a block."""

    item: int
    start: int  # the first, counted from the task's first
    ahead: int  # from it to the next block's first
    inside: int  # how many points are inside
    listed: int  # how many are edges, which are listed for later
    n: int  # how many there are


class Gather(NamedTuple):
    """What gather works on."""

    image: Planes
    out: Values
    around: Outside


class GatherRuns(NamedTuple):
    """As `Gather`, where pixels' channels may lie side by side."""

    image: Planes
    out: Values
    around: Outside
    length: int  # how many channels do; 0 where none do


class Votes(NamedTuple):
    """What gather works on where pixels are labels, all of them as bits."""

    image: Planes
    out: Values
    around: Outside
    flip: int  # the bit in which a key differs from a pixel, or 0


class Backward(NamedTuple):
    """What backward works on."""

    image: Planes
    values: Values
    shadow: Planes
    gradient: Gradient
    dropped: Memory  # what each plane has under dropped taps
    needs: Needs


class BackwardRuns(NamedTuple):
    """As `Backward`, where pixels' channels lie side by side."""

    image: Planes
    values: Values
    shadow: Planes
    gradient: Gradient
    dropped: Memory
    needs: Needs
    length: int  # how many channels there are


class Second(NamedTuple):
    """What the backward of backward works on."""

    image: Planes
    upstream: Planes  # the upstream image
    moves: Points  # the upstream grid
    values: Values
    results: Values  # what becomes of the values
    shadow: Planes
    gradient: Gradient
    needs: SecondNeeds
