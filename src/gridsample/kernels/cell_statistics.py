"""Statistics of the pixels in quadrilaterals: `gridsample.geo.cell_statistics`.

The share of a pixel's area that is in a cell follows from the edges of the cell.  With g(x) the
length of the part of the pixel that is left of x, Green's theorem makes it

    share = the integral of g(x) dy along the outline of the cell, where that is in the pixel's row

exactly.  Lanes are cells.  Rows of pixels are taken one after the other, and in each row the pixels
between the first and the last place of the outline.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.statistics import LEAST, Statistic
from gridsample.kernels import threads as pool
from gridsample.kernels.memory import native
from gridsample.kernels.run import Launch, entry
from gridsample.kernels.sampling.layouts import element
from gridsample.kernels.vector import Function, Program, Record, Value, compile, host

Array = np.ndarray[Any, Any]

# The cells of a task.
SHARE = 256
REAL = "float64"
# A sum of weights reaches a part of the total up to this share of it, which is rounding.
ROUNDING = 1e-9
FAR = float(2**62)

SETTINGS = Record(
    cells="int64",  # of an item
    columns="int64",  # of cells
    shares="int64",  # tasks of an item
    channels="int64",
    size=("float64", 2),  # the width and the height of the image
    image_steps=("int64", 4),  # the distances of items, channels, rows and pixels
    weight_steps=("int64", 4),
    corner_step="int64",  # the distance of items
    period="float64",  # of x
    part="float64",  # of a quantile
    min_weight="float64",
    fill="float64",
)


class Description(NamedTuple):
    """What a program is compiled for.

    Attributes:
        image, weights, result: the kinds of the arrays; weights are None if there are none.
        name: the statistic.
        turns: whether x has a period.
        around: whether that is the width of the image.
        ignores_nan: whether pixels that are NaN are left out.
    """

    image: str
    weights: str | None
    result: str
    name: str
    turns: bool
    around: bool
    ignores_nan: bool


def compute(
    image: Array, corners: Array, weights: Array | None, statistic: Statistic, threads: int | None
) -> Array:
    """Compute a statistic of cells, (N, C, rows, columns).

    Args:
        image: (N or 1, C, height, width), real.
        corners: (N or 1, rows + 1, columns + 1, 2) in pixels, x first.
        weights: (N or 1, C or 1, height, width), bool or real; None for none.
        statistic: what is computed.
        threads: the maximum number of threads.
    """
    items = max(len(array) for array in (image, corners, weights) if array is not None)
    rows, columns = (n - 1 for n in corners.shape[1:3])
    result = np.empty((items, image.shape[1], rows, columns), statistic.result_type(image.dtype))
    if not result.size:
        return result
    image, corners = native(image), np.ascontiguousarray(corners, np.float64)
    weights = None if weights is None else native(weights)
    description = Description(
        element(image.dtype),
        None if weights is None else element(weights.dtype),
        element(result.dtype),
        statistic.name,
        statistic.period is not None,
        statistic.period == image.shape[3],
        statistic.ignores_nan,
    )
    shares = -(-rows * columns // SHARE)
    settings = SETTINGS.pack(
        cells=rows * columns,
        columns=columns,
        shares=shares,
        channels=image.shape[1],
        size=[float(n) for n in image.shape[:1:-1]],
        image_steps=steps(image),
        weight_steps=[0] * 4 if weights is None else steps(weights),
        corner_step=corners[0].size if len(corners) > 1 else 0,
        period=statistic.period or 0.0,
        part=statistic.part,
        min_weight=statistic.min_weight,
        fill=float(statistic.fill),
    )
    scratch = list_bytes(corners, statistic, image.shape[2:]) if statistic.is_quantile else 0
    launch = Launch(program_for(description), settings, items * shares, scratch)
    arrays = {"image": image, "corners": corners, "weights": weights, "result": result}
    launch.run(arrays, threads or pool.cores())
    return result


def steps(array: Array) -> list[int]:
    """Return the distances of an array's entries; 0 along axes of one entry."""
    pairs = zip(array.shape, array.strides, strict=True)
    return [stride // array.itemsize if n > 1 else 0 for n, stride in pairs]


def list_bytes(corners: Array, statistic: Statistic, size: Sequence[int]) -> int:
    """Return the memory for the values of a group of cells, and for their weights.

    An entry of the list is a pixel of at least one cell of the group.
    """
    lanes = host().lanes(REAL)
    columns = extents(corners[..., 0], size[1], statistic.period)
    rows = extents(corners[..., 1], size[0], None)
    most = min(columns.max() * rows.max(), lanes * (columns * rows).max())
    return 2 * 8 * lanes * int(most)


def extents(places: Array, n: int, period: float | None) -> Array:
    """Return how many pixels of an axis of n cells may span, given corners along it."""
    ends = [places[:, :-1, 1:], places[:, 1:, 1:], places[:, 1:, :-1]]
    with np.errstate(all="ignore"):
        away = [end - places[:, :-1, :-1] for end in ends]
        if period is not None:
            away = [x - period * np.rint(x / period) for x in away]
        last = functools.reduce(np.maximum, away).clip(0)
        pixels = last - functools.reduce(np.minimum, away).clip(None, 0) + 2
    return np.asarray(np.floor(np.where(pixels <= n, pixels, n)))


@functools.lru_cache(maxsize=64)
def program_for(description: Description) -> Program:
    """Write and compile the program of a description."""
    lanes = host().lanes(REAL)
    function = Function("cell_statistics", lanes, REAL)
    arrays = {"image": description.image, "corners": REAL, "result": description.result}
    if description.weights is not None:
        arrays["weights"] = description.weights
    with entry(function, arrays, SETTINGS) as (task, call):
        writer = Writer(function, description, call)
        item, first = task // call.shares, task % call.shares * SHARE
        end = (first + SHARE).minimum(call.cells)
        with function.loop(first, end, lanes) as loop:
            writer.process(item, loop.index, (end - loop.index).minimum(lanes))
    return compile(function)


class Edge(NamedTuple):
    """An edge of each cell, in pixels from the corner of the cell's first pixel.

    Attributes:
        xa, ya: where it begins.
        yb: the height where it ends.
        slope: the change of x with y; 0 if the edge is horizontal.
    """

    xa: Value
    ya: Value
    yb: Value
    slope: Value


class Cell(NamedTuple):
    """The cells of a group.

    Attributes:
        edges: their edges.
        area: their areas.
        sign: -1 where the outline goes round the other way, otherwise 1.
        column, row: the first pixel.
        columns, rows: the most pixels from it on that are in the cell and in the image.
    """

    edges: Sequence[Edge]
    area: Value
    sign: Value
    column: Value
    row: Value
    columns: Value
    rows: Value


class Part(NamedTuple):
    """The part of an edge in a row of pixels.

    Attributes:
        begin, end: x where it begins and ends.
        rate: its height for each pixel of x; 0 if x does not change.
        upright: its height if x does not change, otherwise 0.
    """

    begin: Value
    end: Value
    rate: Value
    upright: Value

    def covered(self, column: Value) -> Value:
        """Return the integral of g(x) dy in the pixel of a column."""
        begin, end = self.begin - column, self.end - column
        a, b = clamped(begin), clamped(end)
        # The integral of g from 0 to x: half a square in the pixel, and a straight line beyond it.
        inside = (b - a) * (a + b) * 0.5
        beyond = end.maximum(1.0) - begin.maximum(1.0)
        return (inside + beyond) * self.rate + a * self.upright


class Fold:
    """Writes how the pixels of cells are put together; each statistic has a class.

    What the fold carries from pixel to pixel begins with the sum of weights and that of pixels that
    are NaN and not left out.
    """

    def __init__(self, function: Function, call: SimpleNamespace) -> None:
        self.function, self.call = function, call

    def number(self, number: Any) -> Value:
        """Return a real number for each lane."""
        return self.function.constant(number, REAL, self.function.lanes)

    def first(self) -> list[Value]:
        """Return what is carried to the first pixel."""
        return []

    def add(
        self, carried: Sequence[Value], value: Value, weight: Value, ranks: Value
    ) -> list[Value]:
        """Add a pixel, given its value, its weight, and whether it is ranked."""
        return []

    def result(self, carried: Sequence[Value], weight: Value, area: Value) -> tuple[Value, Value]:
        """Return the results, and whether cells have any if their weight suffices."""
        return weight, weight == weight


class Share(Fold):
    """The share of the cell that is covered."""

    def result(self, carried: Sequence[Value], weight: Value, area: Value) -> tuple[Value, Value]:
        """Divide the weight by the area."""
        return weight / area, area > 0.0


class Sum(Fold):
    """The sum of the pixels' parts."""

    def first(self) -> list[Value]:
        """Begin with no sum."""
        return [self.number(0.0)]

    def add(
        self, carried: Sequence[Value], value: Value, weight: Value, ranks: Value
    ) -> list[Value]:
        """Add the product of weight and value."""
        return [value.mul_add(weight, carried[0])]

    def result(self, carried: Sequence[Value], weight: Value, area: Value) -> tuple[Value, Value]:
        """Return the sum."""
        return carried[0], weight > 0.0


class Mean(Sum):
    """The mean of the pixels, weighted."""

    def result(self, carried: Sequence[Value], weight: Value, area: Value) -> tuple[Value, Value]:
        """Divide the sum by the weight."""
        return carried[0] / weight, weight > 0.0


class Extremes(Fold):
    """The least and the greatest pixel."""

    def first(self) -> list[Value]:
        """Begin with what every number replaces."""
        return [self.number(np.inf), self.number(-np.inf), self.number(0.0)]

    def add(
        self, carried: Sequence[Value], value: Value, weight: Value, ranks: Value
    ) -> list[Value]:
        """Replace what a pixel exceeds."""
        low, high, known = carried
        return [
            (ranks & (value < low)).select(value, low),
            (ranks & (value > high)).select(value, high),
            ranks.select(1.0, known),
        ]


class Least(Extremes):
    """The least pixel."""

    def result(self, carried: Sequence[Value], weight: Value, area: Value) -> tuple[Value, Value]:
        """Return the first of both."""
        return carried[0], carried[2] > 0.0


class Greatest(Extremes):
    """The greatest pixel."""

    def result(self, carried: Sequence[Value], weight: Value, area: Value) -> tuple[Value, Value]:
        """Return the second of both."""
        return carried[1], carried[2] > 0.0


class Quantile(Extremes):
    """The least pixel such that those up to it have a part of all weights.

    Pixels are listed in scratch memory: entry k of all cells is a vector of values and one of
    weights.  The interval in which the quantile is begins with the extremes.  Each round looks at
    the pixels below its middle, and leaves an interval between two pixels, so that it ends.
    """

    def first(self) -> list[Value]:
        """Begin with an empty list."""
        return [*super().first(), self.number(0.0), self.function.constant(0, "int64")]

    def add(
        self, carried: Sequence[Value], value: Value, weight: Value, ranks: Value
    ) -> list[Value]:
        """List the pixel, unless it is one of no cell."""
        *extremes, total, count = carried
        weight = ranks.select(weight, 0.0)

        def append() -> list[Value]:
            self.store(count, value, weight)
            return [count + 1]

        (longer,) = self.function.choose(ranks.any(), append, lambda: [count])
        return [*super().add(extremes, value, weight, ranks), total + weight, longer]

    def store(self, k: Value, value: Value, weight: Value) -> None:
        """Store entry k of the list."""
        numbers, lanes = self.call.scratch.cast(REAL), self.function.lanes
        numbers.store(value, k * (2 * lanes))
        numbers.store(weight, k * (2 * lanes) + lanes)

    def result(self, carried: Sequence[Value], weight: Value, area: Value) -> tuple[Value, Value]:
        """Narrow the interval until only one value is in it."""
        function, (least, greatest, known, total, count) = self.function, carried
        low, high = function.spill(least), function.spill(greatest)
        lanes = function.lanes
        wanted = total * (self.call.part * (1.0 - ROUNDING))

        def bounds() -> tuple[Value, Value]:
            return low.load(0, lanes, aligned=True), high.load(0, lanes, aligned=True)

        def is_found() -> Value:
            a, b = bounds()
            return ~(a < b).any()

        with function.until(is_found):
            a, b = bounds()
            middle = a * 0.5 + b * 0.5
            middle = ((middle >= a) & (middle < b)).select(middle, a)  # also if one is infinite
            below, last, following = self.division(middle, count)
            reached = below >= wanted
            is_open = a < b
            high.store((is_open & reached).select(last, b), aligned=True)
            low.store((is_open & ~reached).select(following, a), aligned=True)
        return high.load(0, lanes, aligned=True), known > 0.0

    def division(self, middle: Value, count: Value) -> tuple[Value, Value, Value]:
        """Return the weight of the pixels up to a value, the last of them, and the next pixel."""
        numbers, lanes = self.call.scratch.cast(REAL), self.function.lanes
        start = [self.number(number) for number in (0.0, -np.inf, np.inf)]
        with self.function.loop(0, count, carry=start) as loop:
            total, last, following = loop.carried
            value = numbers.load(loop.index * (2 * lanes), lanes)
            weight = numbers.load(loop.index * (2 * lanes) + lanes, lanes)
            below, counts = value <= middle, weight > 0.0
            loop.carry(
                total + below.select(weight, 0.0),
                (counts & below & (value > last)).select(value, last),
                (counts & ~below & (value < following)).select(value, following),
            )
        total, last, following = loop.carried
        return total, last, following


FOLDS: dict[str, type[Fold]] = {
    "count": Fold,
    "share": Share,
    "sum": Sum,
    "mean": Mean,
    "min": Least,
    "max": Greatest,
    "quantile": Quantile,
}


class Writer:
    """Writes what happens to a group of cells."""

    def __init__(self, function: Function, description: Description, call: SimpleNamespace) -> None:
        self.function, self.description, self.call = function, description, call
        self.fold = FOLDS[description.name](function, call)
        self.number = self.fold.number

    def process(self, item: Value, first: Value, count: Value) -> None:
        """Compute and store the results of some cells, in all channels."""
        function, call = self.function, self.call
        cell = self.cell(item, first)
        rounds = cell.rows.reduce(Value.maximum).to("int64")
        with function.loop(0, call.channels) as channel:
            memory = [(call.image, call.image_steps)]
            if self.description.weights is not None:
                memory.append((call.weights, call.weight_steps))
            planes = [
                (pointer.at(item * step[0] + channel.index * step[1]), *step[2:])
                for pointer, step in memory
            ]
            start = [self.number(0.0), self.number(0.0), *self.fold.first()]
            with function.loop(0, rounds, carry=start) as loop:
                loop.carry(*self.row(cell, loop.index, planes, loop.carried))
            result = self.result(loop.carried, cell)
            place = (item * call.channels + channel.index) * call.cells + first
            self.store(result, place, count)

    def store(self, result: Value, place: Value, count: Value) -> None:
        """Store the results of the first ``count`` cells."""
        function, target, lanes = self.function, self.call.result, self.function.lanes
        values = result.round_to(self.description.result)
        with function.when(count == lanes):
            target.store(values, place)
        with function.when(count < lanes, rare=True):
            memory = function.spill(values)
            with function.loop(0, count) as loop:
                target.store(memory.load(loop.index), place + loop.index)

    def result(self, carried: Sequence[Value], cell: Cell) -> Value:
        """Return the results of cells, or the fill value."""
        weight, bad, *rest = carried
        result, exists = self.fold.result(rest, weight, cell.area)
        if self.description.name in ("count", "share"):
            return exists.select(result, 0.0)
        if not self.description.ignores_nan:
            result = (bad > 0.0).select(np.nan, result)
            weight, exists = weight + bad, exists | (bad > 0.0)
        # A comparison with NaN, the share of a cell without an area, is false.
        least, fill = (
            self.number(0.0) + number for number in (self.call.min_weight, self.call.fill)
        )
        chosen: Value = (exists & (weight / cell.area > least)).select(result, fill)
        return chosen

    # Cells ----------------------------------------------------------------------------------------

    def corners(self, item: Value, first: Value) -> list[tuple[Value, Value]]:
        """Read the corners of cells, in the order of the outline."""
        call, lanes = self.call, self.function.lanes
        index = first.splat(lanes) + self.function.vector(range(lanes), "int64")
        last = (call.cells - 1).splat(lanes)
        index = (index < last).select(index, last)
        columns = call.columns.splat(lanes)
        # A row of corners has one more than a row of cells.
        place = (index + index // columns) * 2
        memory, row = call.corners.at(item * call.corner_step), (columns + 1) * 2
        places = place, place + 2, place + row + 2, place + row
        return [(memory.gather(at), memory.at(1).gather(at)) for at in places]

    def cell(self, item: Value, first: Value) -> Cell:
        """Find the cells of a group."""
        corners = self.corners(item, first)
        valid = functools.reduce(operator.and_, [x - x == y - y for x, y in corners])
        xs, ys = ([valid.select(z, 0.0) for z in line] for line in zip(*corners, strict=True))
        if self.description.turns:
            xs = [xs[0], *(x - self.turns(x - xs[0]) for x in xs[1:])]
        width, height = (n.splat(self.function.lanes) for n in self.call.size)
        row, rows = self.extent(ys, height)
        column, columns = self.extent(xs, None if self.description.around else width)
        if self.description.around:
            columns = columns.minimum(width)
        xs = [x - (column - 0.5) for x in xs]
        ys = [y - (row - 0.5) for y in ys]
        edges, total = [], self.number(0.0)
        for (xa, xb), (ya, yb) in zip(around(xs), around(ys), strict=True):
            height = yb - ya
            flat = height == 0.0
            slope = flat.select(0.0, (xb - xa) / flat.select(1.0, height))
            edges.append(Edge(xa, ya, yb, slope))
            total = total + (xa + xb) * height * 0.5
        sign = (total < 0.0).select(-1.0, self.number(1.0))
        rows = valid.select(rows, 0.0)
        area = valid.select(total * sign, 0.0)
        return Cell(edges, area, sign, column, row, columns, rows)

    def turns(self, distance: Value) -> Value:
        """Return the whole turns in a distance."""
        period: Value = self.call.period.splat(self.function.lanes)
        whole: Value = (distance / period).rint() * period
        return whole

    def extent(self, places: Sequence[Value], size: Value | None) -> tuple[Value, Value]:
        """Return the first pixel that some places span, and the number of pixels, in the image."""
        first = (functools.reduce(Value.minimum, places) + 0.5).floor()
        end = (functools.reduce(Value.maximum, places) + 0.5).floor() + 1.0
        if size is not None:
            first, end = first.maximum(0.0).minimum(size), end.minimum(size)
        return first, (end - first).maximum(0.0).minimum(FAR)

    # Pixels ---------------------------------------------------------------------------------------

    def row(
        self,
        cell: Cell,
        index: Value,
        planes: Sequence[tuple[Any, Any, Any]],
        carried: Sequence[Value],
    ) -> list[Value]:
        """Add the pixels of a row; its index counts from the first row of each cell."""
        function, lanes = self.function, self.function.lanes
        top = index.to(REAL).splat(lanes)
        parts = [self.part(edge, top, cell.sign) for edge in cell.edges]
        lows, highs = zip(*[extent for _, extent in parts], strict=True)
        first = functools.reduce(Value.minimum, lows).maximum(0.0).floor()
        last = functools.reduce(Value.maximum, highs).minimum(cell.columns)
        count = (top < cell.rows).select((last - first).maximum(0.0), 0.0)
        rounds = (-((-count.reduce(Value.maximum)).floor())).to("int64")
        row = (cell.row + top).minimum(self.last(1)).to("int32").to("int64")
        planes = [(pointer, row * down.splat(lanes), along) for pointer, down, along in planes]
        with function.loop(0, rounds, carry=carried) as loop:
            along = loop.index.to(REAL).splat(lanes)
            column = first + along
            terms = [part.covered(column) for part, _ in parts]
            share = clamped(functools.reduce(operator.add, terms))
            share = (along < count).select(share, 0.0)
            pixel = cell.column + column
            if self.description.around:
                width = self.call.size[0].splat(lanes)
                pixel = pixel - (pixel / width).floor() * width
            place = pixel.maximum(0.0).minimum(self.last(0)).to("int32")
            loop.carry(*self.pixel(place, share, cell, planes, loop.carried))
        return loop.carried

    def last(self, axis: int) -> Value:
        """Return the last index of the image along an axis, x first."""
        last: Value = self.call.size[axis] - 1.0
        return last.splat(self.function.lanes)

    def part(self, edge: Edge, top: Value, sign: Value) -> tuple[Part, tuple[Value, Value]]:
        """Return the part of an edge in a row, and the least and the greatest x of it."""
        bottom = top + 1.0
        ya, yb = (y.maximum(top).minimum(bottom) for y in (edge.ya, edge.yb))
        begin = (ya - edge.ya).mul_add(edge.slope, edge.xa)
        end = (yb - edge.ya).mul_add(edge.slope, edge.xa)
        height, width = (yb - ya) * sign, end - begin
        upright = width == 0.0
        rate = upright.select(0.0, height / upright.select(1.0, width))
        absent = ya == yb
        low = absent.select(FAR, begin.minimum(end))
        high = absent.select(-FAR, begin.maximum(end))
        return Part(begin, end, rate, upright.select(height, 0.0)), (low, high)

    def pixel(
        self,
        place: Value,
        share: Value,
        cell: Cell,
        planes: Sequence[tuple[Any, Any, Any]],
        carried: Sequence[Value],
    ) -> list[Value]:
        """Add a pixel of each cell, of which a share is in the cell."""
        covered = share > 0.0
        numbers = []
        for pointer, row, step in planes:
            offset = row + (place * step.to("int32").splat(place.lanes)).to("int64")
            numbers.append(pointer.gather(offset, covered).to(REAL))
        value, weight = numbers[0], share
        if len(numbers) > 1:
            weight = (numbers[1] > 0.0).select(share * numbers[1], 0.0)
        missing = (value != value) & (weight > 0.0)
        counted = missing.select(0.0, weight)
        value = (counted > 0.0).select(value, 0.0)
        total, bad, *rest = carried
        is_in = share >= cell.area.minimum(1.0) * LEAST
        if not self.description.ignores_nan:
            bad = bad + (missing & is_in).select(weight, 0.0)
        ranks = (counted > 0.0) & is_in
        return [total + counted, bad, *self.fold.add(rest, value, counted, ranks)]


def clamped(x: Value) -> Value:
    """Move numbers into the interval from 0 to 1."""
    return x.maximum(0.0).minimum(1.0)


def around(places: Sequence[Value]) -> list[tuple[Value, Value]]:
    """Return each place with the next one, round the outline."""
    return [*itertools.pairwise([*places, places[0]])]
