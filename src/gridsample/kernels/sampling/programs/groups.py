"""What is processed together: the ranges of tasks, their strips, and groups of W points.

Work is divided, from the outside to the inside, into

    tasks    one for each call of the program; each has a *range* of items, rows, columns and planes
    strips   at most 256 points of a row; one plane is sampled at all of them before the next
    groups   W points, as many as a register has lanes, or a few times as many; a lane is a point

A row is the output's last axis, or all points of an item.  Where items have few points, all points
of all items are one list instead.  The last group of a row overlaps the group before it, and the
last group of a list repeats its last point, so that every group is full.
"""

from __future__ import annotations

from typing import NamedTuple

from gridsample.kernels.vector import Value


class TaskRange(NamedTuple):
    """A task's part of the work; `division` makes them."""

    item: Value
    item_end: Value
    row: Value
    row_end: Value
    column: Value
    column_end: Value
    plane: Value
    plane_end: Value


class OutputRow(NamedTuple):
    """What the points of one of the output's rows share, if programs need it.

    Attributes:
        outer: the index of the row along the output's axes, x excluded.
        map_terms: for each row of the map's matrix, the sum of its terms but that of x.
        interpolated: the first column whose coordinates are interpolated from a lattice, or None.
    """

    outer: tuple[Value, ...] = ()
    map_terms: tuple[Value, ...] = ()
    interpolated: Value | None = None


class Strip(NamedTuple):
    """Points of one row that are processed together.

    Attributes:
        item: their item.
        row: their row.
        begin: the first column.
        end: the end of the columns.
        prefetch_distance: see `Group`.
        output_row: what the points of the row share.
        listed: whether the points are a list; there is no single item or row then.
    """

    item: Value
    row: Value
    begin: Value
    end: Value
    prefetch_distance: Value | int = 0
    output_row: OutputRow = OutputRow()
    listed: bool = False


class Group(NamedTuple):
    """W points that are processed together.

    Attributes:
        item: the item of all points, an int64; for a list, of each point.
        point: the first point's index within its item, an int64; for a list, of each point.
        column: the first point's index within its row, or within the list.
        fresh: whether no earlier lane or group has the same point, for each lane (a bool).
        prefetch_distance: the distance, in points, to those that are processed some time later: a
            row if rows are cut into blocks, otherwise a strip; 0 for a list.
        full: for a list, whether the points are all different, and neighbours in it; None for
            points of a row.
        output_row: see `Strip`.
    """

    item: Value
    point: Value
    column: Value
    fresh: Value
    prefetch_distance: Value | int = 0
    full: Value | None = None
    output_row: OutputRow = OutputRow()

    @property
    def listed(self) -> bool:
        """Whether the points are a list."""
        return self.full is not None
