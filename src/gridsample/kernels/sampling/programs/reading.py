"""Loads of the pixels of a group: tap by tap, or in pairs; and sums over taps.

A group has W points, as many as a register has lanes.  Every `Reader` has a method `row`, which
returns the pixels of all taps along x, for one tap along each of the other axes, as real numbers.
`sum_over_taps` sums them over all taps:

    tap sum of order n = sum over taps of pixel * product over axes a of w_a^(n_a)

where w^(n) is the n-th derivative of a tap's weight.  The tap sum of order 0 is the sample; its
derivatives along the grid are the others.  `rows` has the fastest way for more than two taps, with
a sum of its own.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Protocol

from gridsample.kernels.sampling.programs.axes import Tap
from gridsample.kernels.vector import Function, Kind, Pointer, Value, joined, kind_of

# How the pixels of a call are read.  `reading_for` (calls) chooses.  What reads them:
#
#             planes (`Gather`)                       runs of channels (`GatherRuns`)
#   COPIES    `Gather.value`                          a list of one tap; or `GatherWords`
#   SINGLES   `OneByOne`                              a list of taps, or of rows if all are inside
#   ROWS      `InRows`, `InPairs` or `AtEdges`        -
#   PAIRS     `InPairs`                               as for SINGLES; or `GatherWords`
#
# COPIES: one pixel is copied to each point.
# SINGLES: every tap is read by itself, which is always possible.
# ROWS: if all taps of a group are in the image, neighbours along x are read at once, as rows or, if
#   there are two taps along x and no more along others, as pairs.  Otherwise windows are (see
#   `edge_rows`), or taps are read singly where pairs would be, and under "wrap".
# PAIRS: two neighbours along each axis, which are in the image wherever the points are.
COPIES, SINGLES, ROWS, PAIRS = "copies", "singles", "rows", "pairs"
# For each axis, x first.  If pixels are several numbers, the number comes before the axes.
Orders = Sequence[tuple[int, ...]]
TapSums = dict[tuple[int, ...], Value]
# The numbers of a pixel, if they are several.
Numbers = tuple[Value, ...]


class Writer(Protocol):
    """How numbers are added to the pixels of one plane."""

    def add_row(
        self,
        row: int | Value,
        outer: tuple[Tap, ...],
        taps: Sequence[Tap],
        shares: Sequence[Value],
    ) -> None:
        """Add a number for each point to all ``taps`` along x, at ``outer`` of the other axes.

        ``row`` is the number of the tap along y.
        """

    def end_plane(self) -> None:
        """Add what has been kept of a plane of taps, along x and y."""


class Reader(Protocol):
    """How the pixels of one plane are read."""

    def row(self, outer: tuple[Tap, ...], taps: Sequence[Tap]) -> Sequence[Value | Numbers]:
        """Read the pixels of all ``taps`` along x, at the taps ``outer`` of the other axes.

        A pixel may be several numbers, each of which has sums of its own.  Dropped taps have pixels
        of 0; see `with_dropped`.
        """


class TapTable:
    """The taps of one axis in memory, so that a loop of the program can go through them."""

    def __init__(self, taps: Sequence[Tap]) -> None:
        first = taps[0]
        function, lanes = first.offset.function, first.offset.lanes
        self.count, self.lanes = len(taps), lanes
        self.drops = any(tap.present is not None for tap in taps)
        self.offsets = function.scratch(first.offset.kind, len(taps), lanes)
        self.pixel_weight_offsets = None
        if first.pixel_weight_offset is not None:
            self.pixel_weight_offsets = function.scratch(first.offset.kind, len(taps), lanes)
        self.weights = [function.scratch(weight.kind, len(taps), lanes) for weight in first.weights]
        self.dropped = no_pixel(first.offset.kind)
        for k, tap in enumerate(taps):
            offset = tap.offset
            if tap.present is not None:
                offset = tap.present.select(offset, self.dropped)
            self.offsets.store(offset, k * lanes, aligned=True)
            if self.pixel_weight_offsets is not None and tap.pixel_weight_offset is not None:
                self.pixel_weight_offsets.store(tap.pixel_weight_offset, k * lanes, aligned=True)
            for memory, weight in zip(self.weights, tap.weights, strict=True):
                memory.store(weight.splat(lanes), k * lanes, aligned=True)

    def __len__(self) -> int:
        return self.count

    def read(self, k: Value) -> Tap:
        """Read a tap."""
        place = k * self.lanes
        offset = self.offsets.load(place, self.lanes, aligned=True)
        weights = tuple(memory.load(place, self.lanes, aligned=True) for memory in self.weights)
        weight_offset = None
        if self.pixel_weight_offsets is not None:
            weight_offset = self.pixel_weight_offsets.load(place, self.lanes, aligned=True)
        if not self.drops:
            return Tap(offset, None, weights, pixel_weight_offset=weight_offset)
        present = offset != self.dropped
        return Tap(present.select(offset, 0), present, weights, pixel_weight_offset=weight_offset)


def no_pixel(kind: Kind) -> int:
    """Return the offset that stands for no pixel: the least number of a kind."""
    return -(1 << (kind.bits - 1))


Taps = Sequence[Tap] | TapTable
# The most taps of a point that are written out, rather than looped over.
WRITTEN_OUT = 16


def tables_for_loops(taps: Sequence[Sequence[Tap]]) -> list[Taps]:
    """Put taps in memory where loops go through them; few of them, and those along x, are not."""
    written, result = len(taps[0]), list[Taps](taps[:1])
    for axis_taps in taps[1:]:
        written *= len(axis_taps)
        result.append(axis_taps if written <= WRITTEN_OUT else TapTable(axis_taps))
    return result


def sum_over_taps(
    reader: Reader, taps: Sequence[Taps], orders: Orders, outer: tuple[Tap, ...] = ()
) -> TapSums:
    """Sum over the product of all axes' taps, x first, for several orders of derivatives.

    ``outer`` has a tap for each of the outermost axes that are done.
    """
    axis = len(taps) - 1 - len(outer)
    axis_taps = taps[axis]
    if isinstance(axis_taps, TapTable):
        return sum_in_loop(reader, taps, orders, outer, axis_taps)
    totals: TapSums = {}

    def add(order: tuple[int, ...], number: Value, weight: Value) -> None:
        totals[order] = with_product(totals.get(order), number, weight)

    if axis == 0:
        for pixel, tap in zip(reader.row(outer, axis_taps), axis_taps, strict=True):
            for order in orders:
                number = pixel[order[0]] if isinstance(pixel, tuple) else pixel
                add(order, number, tap.weights[order[-1]])
        return totals
    inner_orders = [*dict.fromkeys(order[:-1] for order in orders)]
    for tap in axis_taps:
        inner = sum_over_taps(reader, taps, inner_orders, (*outer, tap))
        for order in orders:
            add(order, inner[order[:-1]], tap.weights[order[-1]])
    return totals


def with_product(total: Value | None, number: Value, weight: Value) -> Value:
    """Add a product to a sum, or begin one with it; sums with `mul_add` have the same bits."""
    return number * weight if total is None else number.mul_add(weight, total)


def sum_in_loop(
    reader: Reader, taps: Sequence[Taps], orders: Orders, outer: tuple[Tap, ...], table: TapTable
) -> TapSums:
    """Sum over the taps of a table, in a loop of the program."""
    weights = table.weights[0]
    function = weights.function
    zero = function.constant(0.0, weights.kind, table.lanes)
    inner_orders = [*dict.fromkeys(order[:-1] for order in orders)]
    with function.loop(0, table.count, carry=[zero] * len(orders)) as loop:
        tap = table.read(loop.index)
        inner = sum_over_taps(reader, taps, inner_orders, (*outer, tap))
        loop.carry(
            *(
                inner[order[:-1]].mul_add(tap.weights[order[-1]], total)
                for total, order in zip(loop.carried, orders, strict=True)
            )
        )
    return dict(zip(orders, loop.carried, strict=True))


def scatter(
    writer: Writer,
    taps: Sequence[Taps],
    shares: TapSums,
    outer: tuple[Tap, ...] = (),
    row: int | Value = 0,
) -> None:
    """Add to the taps' pixels what `sum_over_taps` would read from them: its transpose.

    Args:
        writer: adds to pixels.
        taps: the taps of each axis, x first.
        shares: for each order of derivatives, the factor of the weights' product.
        outer: a tap for each of the outermost axes that are done.
        row: the number of the last of these, along its axis.
    """
    axis_taps = taps[len(taps) - 1 - len(outer)]
    if len(outer) == len(taps) - 1:
        assert not isinstance(axis_taps, TapTable)
        writer.add_row(row, outer, axis_taps, [weighted(shares, tap)[()] for tap in axis_taps])
    elif isinstance(axis_taps, TapTable):
        with axis_taps.offsets.function.loop(0, axis_taps.count) as loop:
            tap = axis_taps.read(loop.index)
            scatter(writer, taps, weighted(shares, tap), (*outer, tap), loop.index)
    else:
        for k, tap in enumerate(axis_taps):
            scatter(writer, taps, weighted(shares, tap), (*outer, tap), k)
    if len(outer) == max(0, len(taps) - 2):
        writer.end_plane()


def weighted(shares: TapSums, tap: Tap) -> TapSums:
    """Multiply shares by the weights of a tap along the last axis of their orders."""
    result: TapSums = {}
    for order, share in shares.items():
        term = share * tap.weights[order[-1]]
        inner = order[:-1]
        result[inner] = result[inner] + term if inner in result else term
    return result


def with_dropped(
    totals: TapSums, taps: Sequence[Sequence[Tap]], dropped: Sequence[Value | float | None]
) -> TapSums:
    """Add dropped taps to sums over taps, given their value, or that of each number; None for 0.

    Their weights sum up to the product of the axes' sums of weights, less that of taps that are not
    dropped.  The same of their magnitudes is 0 exactly where no dropped tap has a weight: the value
    then does not count, not even NaN.
    """
    drops = any(tap.present is not None for axis_taps in taps for tap in axis_taps)
    if not drops or all(value is None for value in dropped):
        return totals
    orders = dict.fromkeys(numbered[-len(taps) :] for numbered in totals)
    shares = {order: dropped_share(taps, order) for order in orders}
    for numbered, total in totals.items():
        share, magnitude = shares[numbered[-len(taps) :]]
        value = dropped[numbered[0] if len(numbered) > len(taps) else 0]
        if value is not None:
            totals[numbered] = (magnitude == 0.0).select(total, share.mul_add(value, total))
    return totals


def dropped_share(taps: Sequence[Sequence[Tap]], order: tuple[int, ...]) -> tuple[Value, Value]:
    """Return the sum of the weights of dropped taps, for some derivatives, and of magnitudes."""
    with taps[0][0].weights[0].function.exactly():
        weighed = [
            [(tap, tap.weights[n]) for tap in axis_taps]
            for axis_taps, n in zip(taps, order, strict=True)
        ]
        sizes = [[(tap, weight.abs()) for tap, weight in axis_taps] for axis_taps in weighed]
        return share_of_dropped(weighed), share_of_dropped(sizes)


def share_of_dropped(weighed: Sequence[Sequence[tuple[Tap, Value]]]) -> Value:
    """Return the sum of the products of numbers of the axes' taps, over taps that are dropped."""
    every, kept = [], []
    for axis_taps in weighed:
        every.append(functools.reduce(operator.add, [number for _, number in axis_taps]))
        here = [
            number if tap.present is None else tap.present.select(number, 0.0)
            for tap, number in axis_taps
        ]
        kept.append(functools.reduce(operator.add, here))
    share: Value = functools.reduce(operator.mul, every) - functools.reduce(operator.mul, kept)
    return share


def both(a: Value | None, b: Value | None) -> Value | None:
    """Whether two conditions hold; None always holds."""
    if a is None or b is None:
        return b if a is None else a
    return a & b


def added(a: Value | None, b: Value) -> Value:
    """Add two offsets, of which the first may be None for 0."""
    return b if a is None else a + b


class SinglePixels:
    """Reads every tap by itself: any stride, any boundary.

    Attributes:
        plane: the memory of the plane.
        offset: the offset to add to those of the taps, or None.
        dropped: what is read for dropped taps.
        gathers: whether to use gather instructions.
        converted: converts pixels to what is summed.
        reads_pixel_weights: whether the plane has weights of pixels, rather than pixels.
    """

    reads_pixel_weights = False

    def __init__(
        self,
        plane: Pointer,
        offset: Value | None,
        compact: bool,
        converted: Callable[[Value], Value] | None = None,
        dropped: Value | float = 0.0,
    ) -> None:
        self.plane, self.offset = plane, offset
        self.converted = converted or (lambda pixels: pixels.to(plane.function.real))
        self.dropped = dropped
        # A gather instruction is no faster, but shorter, and there is none for narrow elements.
        self.gathers = compact and plane.kind.bits >= 32 and not plane.kind.packed

    def row(self, outer: tuple[Tap, ...], taps: Sequence[Tap]) -> list[Value]:
        """Read the pixels of all taps along x."""
        offset, present = self.offset, None
        for tap in outer:
            offset = added(offset, self.offset_of(tap))
            present = both(present, tap.present)
        read = Pointer.gather if self.gathers else read_singles
        row = []
        for tap in taps:
            pixels = self.converted(read(self.plane, added(offset, self.offset_of(tap))))
            here = both(present, tap.present)
            if here is not None:
                pixels = here.select(pixels, self.dropped)
            row.append(pixels)
        return row

    def offset_of(self, tap: Tap) -> Value:
        """Return the offset of a tap."""
        return (
            tap.pixel_weight_offset
            if self.reads_pixel_weights and tap.pixel_weight_offset is not None
            else tap.offset
        )


def read_singles(plane: Pointer, offsets: Value) -> Value:
    """Read one pixel for each offset: one load each, which is faster than a gather instruction."""
    return plane.load_each(load_offsets(plane.function.spill(offsets), offsets.lanes))


def load_offsets(memory: Pointer, count: int) -> list[Value]:
    """Read offsets, an even number of them, as indices; two short ones are one load."""
    if memory.kind.bits == 64:
        return [memory.load(k) for k in range(count)]
    words = [memory.cast("int64").load(k) for k in range(count // 2)]
    return [offset for word in words for offset in (word << 32 >> 32, word >> 32)]


class SingleSums:
    """Adds to every tap by itself; points are taken in order, so that sums are reproducible.

    All rows of a plane of taps are added to for one point, and then for the next.  Neighbouring
    points add to the same pixels, and a processor waits for a sum before it adds to it again.

    Attributes:
        plane: the memory of the sums.
        offset: the offset to add to those of the taps, or None.
        rows, width: the numbers of taps along y and x.
        offsets, numbers: for each of them, where to add what, for each point.
    """

    def __init__(self, plane: Pointer, offset: Value | None, taps: Sequence[Sequence[Tap]]) -> None:
        self.plane, self.offset = plane, offset
        self.width, self.rows = len(taps[0]), len(taps[1]) if len(taps) > 1 else 1
        function, size = plane.function, self.rows * self.width
        self.offsets = function.scratch(taps[0][0].offset.kind, size, function.lanes)
        self.numbers = function.scratch(function.real, size, function.lanes)

    def add_row(
        self,
        row: int | Value,
        outer: tuple[Tap, ...],
        taps: Sequence[Tap],
        shares: Sequence[Value],
    ) -> None:
        """Keep what to add for each point to all taps along x; see `end_plane`."""
        offset, present = self.offset, None
        for tap in outer:
            offset = added(offset, tap.offset)
            present = both(present, tap.present)
        lanes = self.plane.function.lanes
        for k, (tap, share) in enumerate(zip(taps, shares, strict=True)):
            here = both(present, tap.present)
            place = (row * self.width + k) * lanes
            # A dropped tap adds 0 to the first pixel along its axis, which is of the same item:
            # other threads may add to other items.
            self.offsets.store(added(offset, tap.offset), place, aligned=True)
            number = share if here is None else here.select(share, 0.0)
            self.numbers.store(number, place, aligned=True)

    def end_plane(self) -> None:
        """Add to a plane of taps, point after point."""
        lanes, written = self.plane.function.lanes, self.rows * self.width <= WRITTEN_OUT
        with self.plane.function.loop(0, lanes) as point:
            if written:
                for row in range(self.rows):
                    self.add(row, point.index)
            else:
                with self.plane.function.loop(0, self.rows) as loop:
                    self.add(loop.index, point.index)

    def add(self, row: int | Value, point: Value) -> None:
        """Add to a row of taps of a point."""
        lanes = self.plane.function.lanes
        for k in range(self.width):
            place = point + (row * self.width + k) * lanes
            pixel = self.plane.at(self.offsets.load(place).to("int64"))
            pixel.store(pixel.load() + self.numbers.load(place))


class RowSums:
    """Adds to neighbouring pixels along x in each row, where all taps' pixels are in the image.

    Attributes:
        plane: the memory of the sums.
        offsets: the offset of each point's first tap, in memory.
        steps: the distance of neighbours along the other axes, x excluded.
    """

    def __init__(self, plane: Pointer, offsets: Pointer, steps: Sequence[Value]) -> None:
        self.plane, self.offsets, self.steps = plane, offsets, steps
        self.rows: list[tuple[Pointer, list[Pointer]]] = []

    def add_row(
        self,
        row: int | Value,
        outer: tuple[Tap, ...],
        taps: Sequence[Tap],
        shares: Sequence[Value],
    ) -> None:
        """Keep the numbers of a row until those of all rows are known; see `finish`."""
        memory, present = row_of(self.plane, outer, self.steps)
        numbers = []
        for tap, share in zip(taps, shares, strict=True):
            here = both(present, tap.present)
            number = share if here is None else here.select(share, 0.0)
            numbers.append(self.plane.function.spill(number))
        self.rows.append((memory, numbers))

    def end_plane(self) -> None:
        """Keep a plane, too; see `finish`."""

    def finish(self) -> None:
        """Add all rows, point after point."""
        function = self.plane.function
        if sum(len(numbers) for _, numbers in self.rows) <= 4:
            for lane in range(function.lanes):
                self.add_point(lane)
            return
        with function.loop(0, function.lanes) as loop:
            self.add_point(loop.index)

    def add_point(self, lane: int | Value) -> None:
        """Add the numbers of one point."""
        offset = self.offsets.load(lane).to("int64")
        for row, numbers in self.rows:
            first = row.at(offset)
            for k, number in enumerate(numbers):
                pixel = first.at(k)
                pixel.store(pixel.load() + number.load(lane))


def row_of(
    plane: Pointer, outer: tuple[Tap, ...], steps: Sequence[Value]
) -> tuple[Pointer, Value | None]:
    """Return the memory of a row of pixels, and whether its taps are present along other axes."""
    present = None
    # The outermost axis comes first in `outer`.
    for tap, step in zip(outer, reversed(steps), strict=True):
        if tap.number:
            plane = plane.at(step * tap.number)
        present = both(present, tap.present)
    return plane, present


class PixelPairs:
    """Reads two neighbouring pixels along x at once, for linear interpolation.

    The offset of a point's first pixel is the same for all rows of taps: rows differ by the address
    they are read from.

    Attributes:
        plane: the memory of the plane.
        offsets: the offsets of each point's first pixel, in memory.
        steps: the distance of neighbours along the other axes, x excluded.
        dropped: what is read for dropped taps.
    """

    def __init__(
        self, plane: Pointer, offsets: Pointer, steps: Sequence[Value], dropped: float = 0.0
    ) -> None:
        self.plane, self.offsets, self.steps = plane, offsets, steps
        self.function, self.dropped = plane.function, dropped

    def row(self, outer: tuple[Tap, ...], taps: Sequence[Tap]) -> list[Value]:
        """Read the two pixels of each point in one row."""
        row, present = row_of(self.plane, outer, self.steps)
        pixels = []
        for pixel, tap in zip(self.read(row), taps, strict=True):
            here = both(present, tap.present)
            pixels.append(pixel if here is None else here.select(pixel, self.dropped))
        return pixels

    def read(self, row: Pointer) -> tuple[Value, Value]:
        """Read the pixels and their right neighbours, as real numbers."""
        function, lanes = self.function, self.function.lanes
        first, second = read_pairs(row, load_offsets(self.offsets, lanes))
        return first.to(function.real), second.to(function.real)


def read_pairs(row: Pointer, offsets: Sequence[Value]) -> tuple[Value, Value]:
    """Read two neighbouring elements at each index: one load for both."""
    kind, lanes = row.kind, len(offsets)
    if kind.bits == 64:
        pairs = joined([row.load(offset, 2) for offset in offsets])
        return pairs.shuffle(range(0, 2 * lanes, 2)), pairs.shuffle(range(1, 2 * lanes, 2))
    word = kind_of(f"uint{2 * kind.bits}")
    if kind.bits < 32:
        words = load_words(row, offsets, word)
        narrow = f"uint{kind.bits}"
        return words.to(narrow).bitcast(kind), (words >> kind.bits).to(narrow).bitcast(kind)
    half = lanes // 2
    low, high = (
        load_words(row, part, word).bitcast(kind) for part in (offsets[:half], offsets[half:])
    )
    return low.shuffle(range(0, 2 * lanes, 2), high), low.shuffle(range(1, 2 * lanes, 2), high)


def load_words(row: Pointer, offsets: Sequence[Value], word: Kind) -> Value:
    """Read a word at the index of each element."""
    if len(offsets) == 1:
        return row.at(offsets[0]).cast(word).load()
    result = row.function.undefined(word, len(offsets))
    for lane, offset in enumerate(offsets):
        result = result.insert(row.at(offset).cast(word).load(), lane)
    return result


class Image:
    """The planes of an image, or of its gradient.

    Attributes:
        memory: its memory.
        item: the distance between items, in elements.
        planes: the place of each plane's first element.
    """

    def __init__(self, memory: Pointer, item: Value, planes: Pointer) -> None:
        self.memory, self.item, self.planes = memory, item, planes

    def plane(self, item: Value | None, number: Value) -> Pointer:
        """The memory of a plane, of an item unless None."""
        begin = self.planes.load(number)
        return self.memory.at(begin if item is None else begin + item * self.item)


def splat_of(function: Function, pointer: Pointer, plane: Value) -> Value:
    """Read the number of a plane into all lanes."""
    return pointer.load(plane).splat(function.lanes)
