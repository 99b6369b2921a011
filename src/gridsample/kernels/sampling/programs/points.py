"""Where the W points of a group come from: a grid or maps; and where their results go."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from gridsample.kernels.sampling.programs.axes import DISPLACEMENT, AxisRule
from gridsample.kernels.sampling.programs.groups import Group, OutputRow, Strip, TaskRange
from gridsample.kernels.sampling.programs.indices import split_index, split_neighbours
from gridsample.kernels.sampling.programs.interleaving import deinterleave, interleave
from gridsample.kernels.sampling.programs.lattices import LatticeRows
from gridsample.kernels.sampling.programs.lookahead import Lookahead
from gridsample.kernels.sampling.settings import STRIP, Call
from gridsample.kernels.vector import Function, Kind, Pointer, Value, host, kind_of

# How a grid's coordinates lie in memory: x, y, z of a point side by side, or z, y, x; one axis
# after the other; or at any distance.  Affine and projective maps have no grid.
INTERLEAVED, REVERSED, PLANAR, STRIDED = "interleaved", "reversed", "planar", "strided"
AFFINE, PROJECTIVE = "affine", "projective"
# A coarse lattice, between whose points coordinates are interpolated.
LATTICE = "lattice"

# How many rows further the points are whose pixels are asked for.
ROWS_AHEAD = 6
# Points are far apart if the distance of neighbours is more than 1 / FAR_APART of the image's size.
FAR_APART = 16


class PointSource(NamedTuple):
    """What a program is compiled for where points come from.

    Attributes:
        grid_layout: how coordinates lie in memory.
        kind: the name of their kind.
        listed: whether groups are lists of points of any items.
        wide: whether distances between points of a list need int64.
        lanes: the number of points of a group.
        prefetches: whether it pays to ask for pixels before they are read.
        asks_at_once: whether it pays to ask for those of points at random places once these are
            located.
        in_blocks: whether planes are processed in blocks if points are far apart.
        taps: on how many points of a lattice along each axis coordinates depend; 0 without one.
    """

    grid_layout: str
    kind: str
    listed: bool
    wide: bool
    lanes: int
    prefetches: bool
    asks_at_once: bool
    in_blocks: bool
    taps: int = 0


class Points:
    """Writes the loops over points, and reads their coordinates.

    Attributes:
        lanes: the number of points of a group.
        contiguous: whether the values of neighbouring points are neighbours in memory, in a list
            also those of two items; where pixels have several channels, all of these.
        singly: the same for values of a single channel.
        maps: whether coordinates are computed by affine or projective maps.
        lattice: what interpolates those of a lattice, or None.
        lookahead: which pixels points that come later will read.
    """

    def __init__(
        self,
        function: Function,
        source: PointSource,
        rules: Sequence[AxisRule],
        contiguous: bool,
        channels: int,
        call: Call,
    ) -> None:
        self.function, self.source, self.rules, self.call = function, source, rules, call
        self.contiguous, self.singly = contiguous, contiguous and channels == 1
        self.lanes = function.lanes
        self.rank = len(rules)
        self.offset_kind = offset_kind(source.wide)
        self.maps = source.grid_layout in (AFFINE, PROJECTIVE)
        self.lattice = None
        if source.grid_layout == LATTICE:
            self.lattice = LatticeRows(function, self.rank, source.taps, call)
        self.lookahead = Lookahead(function, call, self.rank, source.prefetches)
        # Whether coordinates depend on the indices of points in the output.
        self.indexed = self.maps or any(rule.units == DISPLACEMENT for rule in rules)

    def range_of(self, task: Value) -> TaskRange:
        """Read the range of a task."""
        count = len(TaskRange._fields)
        fields = self.call.ranges.at(task * count)
        return TaskRange(*(fields.load(k) for k in range(count)))

    @contextlib.contextmanager
    def strips(self, part: TaskRange) -> Iterator[Strip]:
        """Loop over the strips of a range: along blocks of rows, downwards, then over blocks."""
        function = self.function
        if self.source.listed:
            self.lookahead.store(self.lookahead.unknown())
            with function.loop(part.column, part.column_end, STRIP) as column:
                end = (column.index + STRIP).minimum(part.column_end)
                zero = function.constant(0, "int64")
                yield Strip(zero, zero, column.index, end, listed=True)
            return
        with function.loop(part.item, part.item_end) as item:
            length = self.block_length(item.index, part)
            cut = length < part.column_end - part.column
            with (
                function.loop(part.column, part.column_end, length) as block,
                function.loop(part.row, part.row_end) as row,
            ):
                block_end = (block.index + length).minimum(part.column_end)
                distance = (cut & (row.index + 1 < part.row_end)).select(self.call.columns, STRIP)
                output_row = self.output_row(item.index, row.index)
                with function.loop(block.index, block_end, STRIP) as column:
                    end = (column.index + STRIP).minimum(block_end)
                    strip = Strip(item.index, row.index, column.index, end, distance, output_row)
                    yield self.interpolated(strip)

    def interpolated(self, strip: Strip) -> Strip:
        """Return a strip whose coordinates are in memory, if they are those of a lattice."""
        if self.lattice is None:
            return strip
        columns, lanes = self.call.columns, self.lanes
        begin = strip.begin.minimum(columns - lanes)  # see `group`
        end = strip.end.maximum(begin + lanes)
        outer = split_index(strip.row, self.call.out_sizes[1 : self.rank])
        self.lattice.interpolate(strip.item, outer, begin, end)
        return strip._replace(output_row=strip.output_row._replace(interpolated=begin))

    def far_apart(self, part: TaskRange) -> Value:
        """Whether the first points of a range are far from each other, as those in any order are.

        Neighbours are, on average, more than 1 / `FAR_APART` of the slowest axis apart.
        """
        row, lanes = self.output_row(part.item, part.row), self.lanes
        strip = Strip(part.item, part.row, part.column, part.column, 0, row)
        strip = self.interpolated(strip)
        line = self.coordinates(self.group(strip, part.column))[-1]
        steps = (line - line.shuffle([*range(1, lanes), lanes - 1])).abs().sum().to("float64")
        size: Value = self.call.sizes[-1].to("float64")
        far: Value = steps * self.call.unit[-1].abs() > size * (lanes / FAR_APART)
        return far

    def block_length(self, item: Value, part: TaskRange) -> Value:
        """Return the points of a block of a row: as many as touch no more lines than are cached.

        See `division.cached_share`.  How far apart the ends of the first row are tells how many
        lines a row touches, and where the row some rows below begins, where its pixels are.
        """
        function, columns = self.function, part.column_end - part.column

        def measured() -> list[Value]:
            across, down = self.slopes_of_rows(item, part)
            shares = zip(across, self.call.cached_share, strict=True)
            share = functools.reduce(operator.add, [step.abs() * lines for step, lines in shares])
            cut = (share > 1.0) & (columns > STRIP)  # not so if the row ends in NaN
            length = (columns.to("float64") / cut.select(share, 1.0)).to("int64") // STRIP * STRIP
            length = cut.select(length.maximum(STRIP), columns)
            return [length, *self.lookahead.measured(down)]

        several = part.row + 1 < part.row_end
        length, *lookahead = function.choose(
            several, measured, lambda: [columns, *self.lookahead.unknown()]
        )
        self.lookahead.store(lookahead)
        return length

    def slopes_of_rows(self, item: Value, part: TaskRange) -> tuple[Iterator[Value], ...]:
        """Yield how coordinates change along the first row of a range, and over the rows below."""
        function, span = self.function, part.column_end - part.column - self.lanes
        below = (part.row + ROWS_AHEAD).minimum(part.row_end - 1)
        corners = function.scratch("float64", 3 * self.rank)
        with function.loop(0, 3) as corner:
            column = part.column + (corner.index == 1).select(span, 0)
            row = (corner.index == 2).select(below, part.row)
            strip = Strip(item, row, column, column, 0, self.output_row(item, row))
            strip = self.interpolated(strip)
            group = self.group(strip, column)
            for a, line in enumerate(self.coordinates(group)):
                corners.store(line[0].to("float64"), corner.index * self.rank + a)
        first = [corners.load(a) for a in range(self.rank)]

        def differences(k: int) -> Iterator[Value]:
            for a, x in enumerate(first):
                yield corners.load(k * self.rank + a) - x

        return differences(1), differences(2)

    @contextlib.contextmanager
    def groups(self, strip: Strip) -> Iterator[tuple[Value, Group]]:
        """Loop over the groups of a strip; also yield each group's number in the strip."""
        function, lanes = self.function, self.lanes
        with function.loop(strip.begin, strip.end, lanes) as loop:
            number = (loop.index - strip.begin) >> (lanes.bit_length() - 1)
            yield number, self.group(strip, loop.index)

    def groups_of(self, strip: Strip) -> Value:
        """Return the number of groups of a strip."""
        rounded_up = strip.end - strip.begin + (self.lanes - 1)
        count: Value = rounded_up >> (self.lanes.bit_length() - 1)
        return count

    def group(self, strip: Strip, column: Value) -> Group:
        """Return the group that begins at a column of a strip."""
        if not self.source.listed:
            first = column.minimum(self.call.columns - self.lanes)
            index = strip.row * self.call.columns + first
            lane = self.function.vector(range(self.lanes), "int32")
            fresh = lane >= (column - first).to("int32")
            distance, row = strip.prefetch_distance, strip.output_row
            return Group(strip.item, index, first, fresh, distance, output_row=row)
        lane = self.function.vector(range(self.lanes), self.offset_kind)
        last = (strip.end - 1).to(self.offset_kind)
        number = lane + column.to(self.offset_kind)
        fresh, number = number <= last, number.minimum(last)
        each = self.call.points.to(self.offset_kind)
        item = number // each
        full = column + self.lanes <= strip.end
        return Group(item, number - item * each, column, fresh, full=full)

    def number_of_strip(self, strip: Strip) -> Value:
        """Return the number of a strip among those of all rows of all items."""
        columns, points = self.call.columns, self.call.points
        strips = (columns + (STRIP - 1)) // STRIP
        row = strip.item * (points // columns) + strip.row
        number: Value = row * strips + strip.begin // STRIP
        return number

    # Coordinates ----------------------------------------------------------------------------------

    def coordinates(self, group: Group) -> list[Value]:
        """Read or compute the coordinates of a group's points along each axis."""
        if self.maps:
            return self.mapped(group)
        stored = self.stored(group)
        lines = [line.to(self.function.real) for line in stored]
        if self.indexed:
            own = self.index_in_whole(group)
            with self.function.exactly():
                lines = [line + index for line, index in zip(lines, own, strict=True)]
        return lines

    def stored(self, group: Group) -> list[Value]:
        """Read a group's coordinates as they are stored."""
        call, lanes, rank, layout = self.call, self.lanes, self.rank, self.source.grid_layout
        if self.lattice is not None:
            assert group.output_row.interpolated is not None
            return self.lattice.load(group.column - group.output_row.interpolated)
        if layout == STRIDED:
            distances = call.grid_item, call.grid_point, call.grid_axis
            return self.load_vectors(group, call.grid, *distances)
        # Where the first number of the first point is: the grid begins at x, which may be the last.
        grid, step = (call.grid.at(1 - rank), -1) if layout == REVERSED else (call.grid, 1)
        if group.listed:  # whose items follow each other
            return self.vectors(group, grid)[::step]
        item = grid.at(group.item * call.grid_item)
        if layout == PLANAR:
            lines = [item.at(call.grid_axis * a) for a in range(rank)]
            return [self.load_line(line, group.point, group.prefetch_distance) for line in lines]
        first, distance = item.at(group.point * rank), group.prefetch_distance * rank
        read = [self.load_line(first, k * lanes, distance) for k in range(rank)]
        return deinterleave(read)[::step]

    def load_line(self, memory: Pointer, index: int | Value, distance: int | Value) -> Value:
        """Read coordinates, or values, and ask for those at some distance.

        Processors foresee which memory is read next only as long as it is contiguous.
        """
        memory = memory.at(index)
        memory.prefetch(distance)
        return memory.load(0, self.lanes)

    def load_vectors(
        self, group: Group, memory: Pointer, item: Value, point: Any, axis: Any
    ) -> list[Value]:
        """Read the D numbers of each point, at these distances in memory."""
        read = self.reader(group, memory, item, point)
        return [read(axis * a) for a in range(self.rank)]

    def reader(
        self, group: Group, memory: Pointer, item: Any, point: Any
    ) -> Callable[[int | Value], Value]:
        """Return what reads a number of each point, at some distance from where its place is."""
        if group.listed and memory.gathers_fast:
            offsets = self.offsets_in_list(group, item, point)
            return lambda distance: memory.at(distance).gather(offsets)
        begins = self.places(group, item, point)
        return lambda distance: memory.at(distance).load_each(begins)

    def offsets_in_list(self, group: Group, item: Any, point: Any) -> Value:
        """Return the offset of each listed point, given the distances of items and of points."""
        item, point = (self.function.as_index(n).to(self.offset_kind) for n in (item, point))
        offsets: Value = group.item * item + group.point * point
        return offsets

    def places(self, group: Group, item: Any, point: Any) -> list[Value]:
        """Return the place of each point, given the distances of items and of points."""
        place = self.place(group, item, point)
        return [place(lane) for lane in range(self.lanes)]

    def place(self, group: Group, item: Any, point: Any) -> Callable[[int | Value], Value]:
        """Return what computes the place of the point in some lane; see `places`."""
        if group.listed:
            memory = self.function.spill(self.offsets_in_list(group, item, point), soon=True)
            return lambda lane: memory.load(lane).to("int64")
        item, point = map(self.function.as_index, (item, point))
        first = group.item * item + group.point * point
        return lambda lane: first + point * lane

    def vectors(self, group: Group, memory: Pointer) -> list[Value]:
        """Read a vector of D numbers for each point from a contiguous array (N, points, D)."""
        rank = self.rank
        item = self.call.points * rank
        if group.full is None:
            place = group.item * item + group.point * rank
            return self.load_interleaved(memory.at(place), rank)
        return self.function.choose(
            group.full,
            lambda: self.load_interleaved(memory.at(group.column * rank), rank),
            lambda: self.load_vectors(group, memory, item, rank, 1),
            likely=True,
        )

    def load_interleaved(self, first: Pointer, count: int) -> list[Value]:
        """Read some numbers for each point, all of which are neighbours in memory."""
        lanes = self.lanes
        return deinterleave([first.load(k * lanes, lanes) for k in range(count)])

    def store_vectors(self, group: Group, memory: Pointer, vectors: Sequence[Value]) -> None:
        """Write a vector of D numbers for each point to a contiguous array (N, points, D)."""
        lanes, rank = self.lanes, self.rank

        def store(place: Value) -> None:
            for k, mixed in enumerate(interleave(vectors)):
                memory.at(place).store(mixed, k * lanes)

        if group.full is None:
            store(group.item * (self.call.points * rank) + group.point * rank)
            return
        with self.function.when(group.full):
            store(group.column * rank)
        with self.function.when(~group.full, rare=True):
            begins = self.places_of_vectors(group)
            for a, vector in enumerate(vectors):
                numbers = self.function.spill(vector)
                for lane, begin in enumerate(begins):
                    memory.at(a).store(numbers.load(lane), begin)

    def store_fresh_vectors(self, group: Group, memory: Pointer, vectors: Sequence[Value]) -> None:
        """Write the vectors of the last points of a group, which no group before has."""
        lanes, rank, function = self.lanes, self.rank, self.function
        numbers = function.scratch(memory.kind, rank, lanes)
        for k, mixed in enumerate(interleave(vectors)):
            numbers.store(mixed, k * lanes, aligned=True)
        one = function.constant(1, "int32", lanes)
        begin = group.fresh.select(0, one).sum().to("int64") * rank
        target = memory.at((group.item * self.call.points + group.point) * rank)
        with function.loop(begin, lanes * rank) as loop:
            target.store(numbers.load(loop.index), loop.index)

    def places_of_vectors(self, group: Group) -> list[Value]:
        """Return the place of each point's vector in such an array."""
        return self.places(group, self.call.points * self.rank, self.rank)

    def output_index(self, group: Group) -> list[Value]:
        """Return the index of each point along the output's last axes, x first.

        There are as many of them as the image has; an output may have more axes.
        """
        lanes, call = self.lanes, self.call
        sizes = [call.out_sizes[a].to(self.offset_kind) for a in range(self.rank)]
        lane = self.function.vector(range(lanes), self.offset_kind)
        if group.listed:
            return split_index(group.point, sizes)
        first, column = group.point.to(self.offset_kind), group.column.to(self.offset_kind)

        def flattened() -> list[Value]:
            return self.flattened_index(first, lane, sizes)

        if not self.indexed:
            return flattened()
        return self.function.choose(
            self.rows_are_known,
            lambda: [lane + column, *(index.splat(lanes) for index in group.output_row.outer)],
            flattened,
            likely=True,
        )

    def flattened_index(self, first: Value, lane: Value, sizes: Sequence[Value]) -> list[Value]:
        """Split the indices first + lane of a group into those along axes of these sizes."""
        function, lanes = self.function, self.lanes

        def in_one_row() -> list[Value]:
            x, *outer = split_index(first, sizes)
            return [lane + x, *(index.splat(lanes) for index in outer)]

        def in_any_rows() -> list[Value]:
            return split_index(lane + first, sizes)

        def in_some_rows() -> list[Value]:
            if host().bits == 512:  # dividing lanes takes less time than to find where rows end
                return in_any_rows()
            # A group in rows that are no shorter than itself touches two of them at most.
            long = sizes[0] >= lanes
            return function.choose(long, lambda: split_neighbours(first, lane, sizes), in_any_rows)

        return function.choose(sizes[0] % lanes == 0, in_one_row, in_some_rows)

    @property
    def rows_are_known(self) -> Value:
        """Whether the rows are those of the output, so that each has an `OutputRow`."""
        known: Value = self.call.columns == self.call.out_sizes[0]
        return known

    def output_row(self, item: Value, row: Value) -> OutputRow:
        """Return what the points of a row share."""
        if not self.indexed:
            return OutputRow()
        sizes = [size.to(self.offset_kind) for size in self.call.out_sizes[1 : self.rank]]
        outer = split_index(row.to(self.offset_kind), sizes)
        if not self.maps:
            return OutputRow(tuple(outer))
        positions = [index.to(self.function.real) for index in outer]
        own = [self.output_coordinate(1 + a, x) for a, x in enumerate(positions)]
        first = self.call.grid.at(item * self.map_size)
        terms = self.map_terms(own, self.scaled_entries(first.load))
        return OutputRow(tuple(outer), tuple(terms))

    def output_position(self, group: Group) -> list[Value]:
        """Return `output_index` as real numbers."""
        return [index.to(self.function.real) for index in self.output_index(group)]

    def index_in_whole(self, group: Group) -> list[Value]:
        """Return `output_position` in the whole of which the output is a block."""
        starts = [start.to(self.function.real) for start in self.call.out_start]
        with self.function.exactly():
            return [
                index + start
                for index, start in zip(self.output_position(group), starts, strict=True)
            ]

    @property
    def map_size(self) -> int:
        """The number of entries of a map's matrix."""
        return (self.rank + (self.source.grid_layout == PROJECTIVE)) * (self.rank + 1)

    def mapped(self, group: Group) -> list[Value]:
        """Compute coordinates by the map of the group's item."""
        function, read = self.function, self.entries_of_maps(group)

        def in_any_row() -> list[Value]:
            x, *own = self.output_coordinates(group)
            return [x, *self.map_terms(own, read)]

        def in_known_row() -> list[Value]:
            lane = function.vector(range(self.lanes), self.offset_kind)
            position = (lane + group.column.to(self.offset_kind)).to(function.real)
            terms = (term.splat(self.lanes) for term in group.output_row.map_terms)
            return [self.output_coordinate(0, position), *terms]

        if group.listed:
            x, *lines = in_any_row()
        else:
            x, *lines = function.choose(self.rows_are_known, in_known_row, in_any_row, likely=True)
        with function.exactly():
            lines = [line + read(a * (self.rank + 1)) * x for a, line in enumerate(lines)]
        if self.source.grid_layout == AFFINE:
            return lines
        divisor = lines.pop()
        scale = (divisor == 0.0).select(0.0, 1.0 / divisor)
        return [line * scale for line in lines]

    def map_terms(self, own: Sequence[Value], read: Callable[[int], Value]) -> list[Value]:
        """Sum the terms of each row of a map's matrix but that of x.

        The order of terms is that in which a grid would be made: from the last to the first.

        Args:
            own: the coordinates of points in the output, without x.
            read: reads an entry of the matrix.
        """
        sums = []
        for begin in range(0, self.map_size, self.rank + 1):
            total = read(begin + self.rank)
            with self.function.exactly():
                for a, coordinate in reversed([*enumerate(own, 1)]):
                    total = total + read(begin + a) * coordinate
            sums.append(total)
        return sums

    def entries_of_maps(self, group: Group) -> Callable[[int], Value]:
        """Return what reads an entry of the maps of a group, to positions in pixels."""
        if not group.listed:
            return self.scaled_entries(self.call.grid.at(group.item * self.map_size).load)
        return self.scaled_entries(self.reader(group, self.call.grid, self.map_size, 0))

    def scaled_entries(self, read: Callable[[int], Value]) -> Callable[[int], Value]:
        """Return what reads an entry of maps to positions, given what reads one as it is stored."""
        real, columns = self.function.real, self.rank + 1
        if self.source.grid_layout == PROJECTIVE:  # which are of pixels already
            return lambda k: read(k).to(real)

        def entry(k: int) -> Value:
            stored = read(k).to("float64")
            with self.function.exactly():
                scaled: Value = stored * self.call.map_scale[k]
                if k % columns == self.rank:
                    scaled = scaled + self.call.map_centre[k // columns]
            return scaled.to(real)

        return entry

    def output_coordinates(self, group: Group) -> list[Value]:
        """Return the points' own coordinates, which maps take."""
        return [self.output_coordinate(*axis) for axis in enumerate(self.output_position(group))]

    def output_coordinate(self, axis: int, position: Value) -> Value:
        """Convert positions along an axis of the output to the coordinates that maps take."""
        call, real = self.call, self.function.real
        step, start = (numbers[axis].to(real) for numbers in (call.out_step, call.out_start))
        with self.function.exactly():
            own: Value = position * step + start
        return own

    # Results --------------------------------------------------------------------------------------

    def load_values(self, group: Group, memory: Pointer) -> Value:
        """Read a number of each point: those of an output's plane; see `store_values`.

        Strips of one plane are apart in memory, so that processors do not foresee the next one.
        """
        if not self.singly:
            return memory.load_each(self.places_of_values(group))
        if group.full is None:
            item = memory.at(group.item * self.call.out_item)
            ahead = group.prefetch_distance if self.source.prefetches else 0
            return self.load_line(item, group.point, ahead)
        (values,) = self.function.choose(
            group.full,
            lambda: [memory.load(group.column, self.lanes)],
            lambda: [memory.load_each(self.places_of_values(group))],
            likely=True,
        )
        return values

    def load_channels(self, group: Group, planes: Sequence[Pointer], channels: int) -> list[Value]:
        """Read some numbers of each point: each from its plane, or all from that of the first."""
        if len(planes) == channels:
            return [self.load_values(group, plane) for plane in planes]
        (memory,) = planes
        if group.full is None and self.contiguous:
            first = memory.at(group.item * self.call.out_item + group.point * channels)
            return self.load_interleaved(first, channels)
        places = self.places_of_values(group)
        return [memory.at(channel).load_each(places) for channel in range(channels)]

    def store_channels(
        self, group: Group, planes: Sequence[Pointer], values: Sequence[Value]
    ) -> None:
        """Write some numbers of each point, each to its plane, or all to that of the first."""
        memory = planes[0]
        if len(planes) == len(values):
            for plane, value in zip(planes, values, strict=True):
                self.store_values(group, plane, value)
        elif group.full is None and self.contiguous:
            place = group.item * self.call.out_item + group.point * len(values)
            for k, mixed in enumerate(interleave(values)):
                memory.at(place).store(mixed, k * self.lanes)
        else:
            places = self.places_of_values(group)
            kept = [self.function.spill(value, soon=True) for value in values]
            for lane, place in enumerate(places):
                for channel, numbers in enumerate(kept):
                    memory.at(channel).store(numbers.load(lane), place)

    def store_values(self, group: Group, memory: Pointer, value: Value) -> None:
        """Write a number for each point to the plane of an output that begins at ``memory``."""
        if not self.singly:
            self.store_each(group, memory, value)
        elif group.full is None:
            memory.at(group.item * self.call.out_item).store(value, group.point)
        else:
            with self.function.when(group.full):
                memory.store(value, group.column)
            with self.function.when(~group.full, rare=True):
                self.store_each(group, memory, value)

    def store_each(self, group: Group, memory: Pointer, value: Value) -> None:
        """Write the numbers of points one by one."""
        numbers = self.function.spill(value, soon=True)
        for lane, place in enumerate(self.places_of_values(group)):
            memory.store(numbers.load(lane), place)

    def places_of_values(self, group: Group) -> list[Value]:
        """Return the place of each point's number, from the beginning of a plane."""
        return self.places(group, self.call.out_item, self.call.out_point)

    def place_of_value(self, group: Group) -> Callable[[int | Value], Value]:
        """Return what computes the place of the number of the point in some lane."""
        return self.place(group, self.call.out_item, self.call.out_point)


def offset_kind(wide: bool) -> Kind:
    """Return the kind of offsets."""
    return kind_of("int64" if wide else "int32")
