"""Linear interpolation in registers, from coordinates to values, for `gather_direct`.

Along each axis two adjacent pixels are read, wherever the position is.  Let d be the distance
from the first of them to the position.  Their weights are

    max(0, 1 - |d|)    and    max(0, min(d, 2 - d))

Between the two pixels these are 1 - d and d.  Beyond the edge of an image they are the weights of
the taps that are left, or 0.  Thus all points are processed alike, without a list of edges: the
outside is 0 ("zeros"), or the position is clamped to the image first ("border").  A NaN coordinate
has NaN weights.

A pixel whose tap does not count has the weight 0, but 0 times NaN or infinity is NaN.  Such pixels
are rare, so instead of the pixels, the results are checked: a block with a result that is not
finite is computed again, with 0 in place of pixels that do not count.

This module emits LLVM vectors, because LLVM itself vectorises loops over pairs of pixels for only
half as many points at a time as a register holds.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numba as nb
from llvmlite import ir
from numba.extending import intrinsic

from gridsample.kernels.axes import BY, GREATEST, LEAST, MEASURES, MINUS, PLUS, STEEP, TIMES, UPMOST
from gridsample.kernels.compile.extending import declare, pointer
from gridsample.kernels.cpu.lanes import read
from gridsample.kernels.cpu.positions import stretch
from gridsample.kernels.cpu.vectors import I32, I64, Numbers, bytes_of, repeat, shuffle

Array = Any
BIT, BYTE = ir.IntType(1), ir.IntType(8)

# The distance between offsets in a volume beyond which pixels are loaded one by one.
FAR = 1 << 16


class Kind(NamedTuple):
    """The parameters of the emitted code.

    Attributes:
        rank: the number of axes.
        grid: NumPy's code of the grid's storage type.
        image: NumPy's code of the image's storage type.
        real: Numba's type of the sums.
        planar: whether coordinates along one axis are contiguous in a grid.
        gathers: whether pixels are read with AVX-512's gather instructions.
    """

    rank: int
    grid: str
    image: str
    real: Any
    planar: bool
    gathers: bool

    @property
    def lanes(self) -> int:
        """The number of points that are processed at once."""
        return 512 // int(self.real.bitwidth)


class Parts(NamedTuple):
    """The contributions of the two pixels along an axis.

    Attributes:
        counts: for each, where it is a tap that counts.
        weights: the weight of each; 0 where it does not count.
        slopes: the derivatives of the weights with respect to the position.
    """

    counts: Sequence[Any]
    weights: Sequence[Numbers]
    slopes: Sequence[Numbers]


class Emitter:
    """Emit code for ``count`` points, from point ``i`` of a block on."""

    def __init__(self, kind: Kind, context: Any, builder: Any, count: int, i: Any) -> None:
        """Set the parameters; ``i`` is a 64-bit LLVM integer."""
        self.kind, self.builder, self.count, self.i = kind, builder, count, i
        self.number = context.get_value_type(kind.real)

    def load(self, data: Any, begin: Any, count: int) -> Any:
        """Load contiguous numbers."""
        stored = data.type.pointee
        place = self.builder.gep(data, [begin])
        place = self.builder.bitcast(place, ir.VectorType(stored, count).as_pointer())
        return self.builder.load(place, align=bytes_of(stored))

    def store(self, value: Any, data: Any, begin: Any) -> None:
        """Store contiguous numbers."""
        place = self.builder.gep(data, [begin])
        place = self.builder.bitcast(place, value.type.as_pointer())
        self.builder.store(value, place, align=bytes_of(value.type.element))

    def entry(self, table: Any, place: int) -> Any:
        """Load an entry of a table, repeated for all points."""
        return self.repeat(self.builder.load(self.builder.gep(table, [I64(place)])))

    def repeat(self, value: Any) -> Any:
        """Repeat a number for all points."""
        many = repeat(self.builder, value, self.count)
        return many if isinstance(value.type, ir.IntType) else Numbers(self.builder, many)

    def coordinates(self, grid: Any, gap: Any) -> list[Numbers]:
        """Load the points' coordinates, axis by axis; in a planar grid axes are ``gap`` apart."""
        builder, count, rank = self.builder, self.count, self.kind.rank
        if self.kind.planar:
            places = [builder.add(self.i, builder.mul(gap, I64(a))) for a in range(rank)]
            lines = [self.load(grid, place, count) for place in places]
        else:
            begin = builder.mul(self.i, I64(rank))
            places = [builder.add(begin, I64(count * k)) for k in range(rank)]
            mixed = [self.load(grid, place, count) for place in places]
            lines = [every(builder, mixed, a) for a in range(rank)]
        kind, number = self.kind.grid, self.number
        return [Numbers(builder, read(builder, line, kind, number)) for line in lines]

    def reach(self, coordinate: Numbers, measures: Any, a: int) -> tuple[Numbers, Any, Numbers]:
        """Return the distance from the first pixel along an axis, its index, and the position."""
        columns = (PLUS, TIMES, MINUS, BY, LEAST, GREATEST, UPMOST)
        measure = {column: self.entry(measures, a * MEASURES + column) for column in columns}
        position = stretch(coordinate, measure, 0)
        near = position.least(measure[GREATEST]).most(measure[LEAST])
        base = near.called("llvm.floor").least(measure[UPMOST])
        base = base.kept(base.holds(">", 0))  # 0 also for NaN
        return near - base, base.truncated(), position

    def place(
        self, grid: Any, gap: Any, measures: Any, strides: Any, group: tuple[Any, Any, Any]
    ) -> tuple[Any, list[Numbers], list[Numbers]]:
        """Return the offset of each point's first pixel, the distances from it, and the positions.

        If points belong to several items, ``group`` contains the number of the first item's points
        before this block, plus one half; the inverse of the number of points per item; and the
        distance between the items' images.
        """
        builder, count = self.builder, self.count
        within, share, apart = group
        lane = ir.Constant(ir.VectorType(I32, count), [*range(count)])
        here = builder.add(repeat(builder, builder.trunc(self.i, I32), count), lane)
        point = Numbers(builder, builder.sitofp(here, ir.VectorType(self.number, count)))
        item = ((point + self.repeat(within)) * self.repeat(share)).truncated()
        at = builder.mul(item, self.repeat(builder.trunc(apart, I32)))
        distances, positions = [], []
        for a, coordinate in enumerate(self.coordinates(grid, gap)):
            distance, index, position = self.reach(coordinate, measures, a)
            distances.append(distance)
            positions.append(position)
            if a:
                stride = builder.load(builder.gep(strides, [I64(a)]))
                index = builder.mul(index, self.repeat(builder.trunc(stride, I32)))
            at = builder.add(at, index)
        return at, distances, positions

    def counts(self, d: Numbers) -> list[Any]:
        """Return where both pixels along an axis count, by the distance from the first one."""
        both = self.builder.and_
        return [both(d.holds(">=", least), d.holds("<", least + 2)) for least in (-1, 0)]

    def outside(self, d: Numbers) -> Numbers:
        """Return the weight of what is outside along an axis: what the pixels' weights lack."""
        return (d - 1).most(0 - d).most(0).least(1)

    def parts(self, distance: Numbers) -> Parts:
        """Compute the contributions of both pixels along an axis."""
        d, builder, counts = distance, self.builder, self.counts(distance)
        weights = (1 - d.called("llvm.fabs")).most(0), d.least(2 - d).most(0)
        inward = d.holds("<", 0), d.holds("<", 1)
        one = Numbers(builder, d.like(1)), Numbers(builder, d.like(-1))
        slopes = [
            Numbers(builder, builder.select(rising, one[0].value, one[1].value)).kept(count)
            for rising, count in zip(inward, counts, strict=True)
        ]
        return Parts(counts, weights, slopes)

    def corners(self, plane: Any, strides: Any, at: Any) -> Any:
        """Load the pixels around each position, as nested pairs: the slowest axis is outermost."""
        pixels = iter(self.pixels(plane, strides, at))

        def along(a: int) -> Any:
            return [along(a - 1) if a else Numbers(self.builder, next(pixels)) for _ in range(2)]

        return along(self.kind.rank - 1)

    def pixels(self, plane: Any, strides: Any, at: Any) -> list[Any]:
        """Load the pixels around each position, x fastest."""
        builder, kind = self.builder, self.kind
        rows = [plane]
        for a in range(1, kind.rank):
            stride = builder.load(builder.gep(strides, [I64(a)]))
            rows += [builder.gep(row, [stride]) for row in rows]

        def load(gathers: bool) -> list[Any]:
            return [one for row in rows for one in self.pairs(row, at, gathers)]

        # A gather instruction needs as many pixels as fill a register.
        gathers = kind.gathers and self.count * bytes_of(plane.type.pointee) >= 32
        if not gathers or kind.rank < 3:
            return load(gathers)
        with builder.if_else(self.far_apart(at)) as (far, near):
            with far:
                singly, first = load(False), builder.block
            with near:
                gathered, second = load(True), builder.block
        found = []
        for one, other in zip(singly, gathered, strict=True):
            phi = builder.phi(one.type)
            phi.add_incoming(one, first)
            phi.add_incoming(other, second)
            found.append(phi)
        return found

    def far_apart(self, at: Any) -> Any:
        """Return whether the offsets of some neighbours are far apart.

        Their pixels are then hardly in the caches, and single loads overlap better than gather
        instructions.  For images that did not pay.
        """
        builder, count = self.builder, self.count
        other = shuffle(builder, at, at, [k ^ 1 for k in range(count)])
        apart = builder.icmp_signed(">", builder.sub(at, other), repeat(builder, I32(FAR), count))
        whole = ir.IntType(count)
        return builder.icmp_unsigned("!=", builder.bitcast(apart, whole), whole(0))

    def present(self, corners: Any, parts: list[Parts]) -> Any:
        """Replace the pixels that do not count by 0."""

        def along(a: int, pixels: Any, among: Any) -> Any:
            found = []
            for one, count in zip(pixels, parts[a].counts, strict=True):
                here = count if among is None else self.builder.and_(among, count)
                found.append(along(a - 1, one, here) if a else one.kept(here))
            return found

        return along(self.kind.rank - 1, corners, None)

    def blend(self, corners: Any, parts: list[Parts], sloping: int = -1) -> Numbers:
        """Return the weighted sum of pixels; weights of the ``sloping`` axis are derivatives."""

        def along(a: int, pixels: Any) -> Numbers:
            first, second = (along(a - 1, one) if a else one for one in pixels)
            weights = parts[a].slopes if a == sloping else parts[a].weights
            return first * weights[0] + second * weights[1]

        return along(self.kind.rank - 1, corners)

    def sum(
        self, plane: Any, strides: Any, at: Any, distances: list[Numbers], careful: bool
    ) -> Numbers:
        """Return the sum of weighted pixels; ``careful`` replaces those that do not count by 0."""
        parts = [self.parts(d) for d in distances]
        corners = self.corners(plane, strides, at)
        return self.blend(self.present(corners, parts) if careful else corners, parts)

    def share(self, g: Numbers, parts: list[Parts]) -> list[Numbers]:
        """Return each pixel's share of a value, x fastest; 0 for those that do not count."""
        shares: list[tuple[Numbers, Any]] = [(g, None)]
        for part in reversed(parts):
            more = []
            for value, among in shares:
                for weight, count in zip(part.weights, part.counts, strict=True):
                    here = count if among is None else self.builder.and_(among, count)
                    more.append((value * weight, here))
            shares = more
        return [value.kept(here) for value, here in shares]

    def pairs(self, plane: Any, at: Any, gathers: bool) -> list[Any]:
        """Load the pixels at some offsets, and the pixels after them."""
        builder, count = self.builder, self.count
        size = bytes_of(plane.type.pointee)
        if count == 1 or size == 8:
            found = [self.insert(plane, at, one) for one in (0, 1)]
        else:
            lines = self.gather(plane, at) if gathers else self.insert_pairs(plane, at)
            found = [every(builder, lines, one) for one in (0, 1)]
        return [read(builder, one, self.kind.image, self.number) for one in found]

    def insert(self, plane: Any, at: Any, further: int) -> Any:
        """Load the pixels ``further`` than some offsets, one by one."""
        builder, stored = self.builder, plane.type.pointee
        count = at.type.count
        line = ir.Constant(ir.VectorType(stored, count), ir.Undefined)
        for k in range(count):
            index = builder.sext(builder.extract_element(at, I32(k)), I64)
            place = builder.gep(plane, [builder.add(index, I64(further))])
            pixel = builder.load(place, align=bytes_of(stored))
            line = builder.insert_element(line, pixel, I32(k))
        return line

    def insert_pairs(self, plane: Any, at: Any) -> list[Any]:
        """Load pairs of pixels, for half of the points each: one load per pair."""
        builder, stored, half = self.builder, plane.type.pointee, self.count // 2
        whole, lines = ir.IntType(16 * bytes_of(stored)), []
        for first in (0, half):
            line = ir.Constant(ir.VectorType(whole, half), ir.Undefined)
            for k in range(half):
                index = builder.sext(builder.extract_element(at, I32(first + k)), I64)
                place = builder.bitcast(builder.gep(plane, [index]), whole.as_pointer())
                pair = builder.load(place, align=bytes_of(stored))
                line = builder.insert_element(line, pair, I32(k))
            lines.append(builder.bitcast(line, ir.VectorType(stored, self.count)))
        return lines

    def gather(self, plane: Any, at: Any) -> list[Any]:
        """Load the same as `insert_pairs`, with gather instructions."""
        builder, stored = self.builder, plane.type.pointee
        size = bytes_of(stored)
        whole, name = {2: (I32, "dpi"), 4: (I64, "dpq")}[size]
        some = 32 // size
        kind, places, bits = (ir.VectorType(one, some) for one in (whole, I32, BIT))
        base, lines = builder.bitcast(plane, BYTE.as_pointer()), []
        function = declare(
            builder.module,
            ir.FunctionType(kind, [kind, base.type, places, bits, I32]),
            f"llvm.x86.avx512.mask.gather.{name}.512",
        )
        nothing, all_of = ir.Constant(kind, None), ir.Constant(bits, [1] * some)
        for first in range(0, self.count, some):
            which = shuffle(builder, at, at, [*range(first, first + some)])
            pairs = builder.call(function, [nothing, base, which, all_of, I32(size)])
            line = builder.bitcast(pairs, ir.VectorType(stored, 2 * some))
            lines += [
                shuffle(builder, line, line, [*range(k, k + self.count)])
                for k in range(0, 2 * some, self.count)
            ]
        return lines

    def any_counts(self, parts: list[Parts]) -> Any:
        """Return where any pixel counts."""
        among = None
        for part in parts:
            here = self.builder.or_(*part.counts)
            among = here if among is None else self.builder.and_(among, here)
        return among

    def slope(
        self, position: Numbers, distance: Numbers, measures: Any, a: int
    ) -> tuple[Numbers, Numbers]:
        """Return d position / d coordinate, 0 where the position is clamped, and the distance.

        A point that is nowhere gets a distance at which no pixel counts.
        """
        builder = self.builder
        lowest, highest, steep = (
            self.entry(measures, a * MEASURES + column) for column in (LEAST, GREATEST, STEEP)
        )
        moves = builder.and_(position.holds(">", lowest), position.holds("<", highest))
        somewhere = position.holds("==", position)
        nowhere = Numbers(builder, distance.like(-2))
        distance = Numbers(builder, builder.select(somewhere, distance.value, nowhere.value))
        return steep.kept(moves), distance

    def all_finite(self, values: Numbers) -> Any:
        """Return whether all values are finite."""
        bits, whole = (values - values).holds("==", 0), ir.IntType(self.count)
        return self.builder.icmp_unsigned(
            "==", self.builder.bitcast(bits, whole), whole(2**self.count - 1)
        )


def every(builder: Any, lines: list[Any], first: int) -> Any:
    """Take every ``len(lines)``-th number of some vectors, as a vector of their length."""
    count, step = lines[0].type.count, len(lines)
    places = [first + step * k for k in range(count)]
    if step == 1:
        return lines[0]
    head = [place for place in places if place < 2 * count]
    both = shuffle(builder, lines[0], lines[1], head + [0] * (count - len(head)))
    if len(head) == count:
        return both
    rest = [place - count for place in places[len(head) :]]
    return shuffle(builder, both, lines[2], [*range(len(head)), *rest])


@functools.cache
def emitted(kind: Kind) -> dict[str, Any]:
    """Make the functions that process LANES points at once, or one (names with ``_one``)."""
    names: dict[str, Any] = {"LANES": kind.lanes}
    for end, count in (("", kind.lanes), ("_one", 1)):
        for kept in ("points", "slopes", "means"):
            names[f"place_{kept}{end}"] = placer(kind, count, kept)
        names["settle_slopes" + end] = settler(kind, count)
        for how, needed in (
            ("image", (True, False)),
            ("grid", (False, True)),
            ("both", (True, True)),
        ):
            names[f"derive_{how}{end}"] = deriver(kind, count, *needed)
        names["sample_plane" + end] = sampler_of_planes(kind, count)
        names["sample_points" + end] = sampler(kind, count, False)
        names["sample_points_carefully" + end] = sampler(kind, count, True)
    return names


def indices(context: Any, builder: Any, kinds: Any, arguments: Any, *places: int) -> list[Any]:
    """Return some arguments as 64-bit integers."""
    return [context.cast(builder, arguments[k], kinds[k], nb.int64) for k in places]


def placer(kind: Kind, count: int, what: str) -> Any:
    """Make what stores points' offsets, and what else is needed: see `place_points`."""

    @intrinsic
    def place_points(
        context: Any, grid: Any, i: Any, gap: Any, measures: Any, strides: Any, within: Any,
        share: Any, apart: Any, at: Any, x: Any, width: Any,
    ) -> Any:  # fmt: skip
        """Store offsets in ``at``, and rows in ``x`` that are ``width`` apart.

        The rows are both weights of each axis for "points"; for "means", the weight of what is
        outside along each axis follows; for "slopes", they are all distances, and then all slopes.
        """
        kinds = grid, i, gap, measures, strides, within, share, apart, at, x, width

        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            data, table, steps, places, first = (
                pointer(context, builder, kinds[k], given[k]) for k in (0, 3, 4, 8, 9)
            )
            i, gap, apart, width = indices(context, builder, kinds, given, 1, 2, 7, 10)
            emit = Emitter(kind, context, builder, count, i)
            group = given[5], given[6], apart
            offsets, distances, positions = emit.place(data, gap, table, steps, group)
            emit.store(offsets, places, i)
            if what == "slopes":
                pairs = [
                    emit.slope(position, distance, table, a)
                    for a, (position, distance) in enumerate(zip(positions, distances, strict=True))
                ]
                kept = [d for _, d in pairs] + [slope for slope, _ in pairs]
            else:
                kept = [weight for d in distances for weight in emit.parts(d).weights]
                kept += [emit.outside(d) for d in distances] if what == "means" else []
            for a, one in enumerate(kept):
                emit.store(one.value, first, builder.add(i, builder.mul(width, I64(a))))
            return context.get_dummy_value()

        real = kind.real
        return nb.void(*kinds[:5], real, real, *kinds[7:]), generate

    return place_points


def sampler_of_planes(kind: Kind, count: int) -> Any:
    """Make the function that samples points of one plane by offsets and weights."""

    @intrinsic
    def sample_plane(
        context: Any, plane: Any, i: Any, strides: Any, at: Any, x: Any, width: Any, numbers: Any
    ) -> Any:
        """Store values; return whether all are finite."""
        kinds = plane, i, strides, at, x, width, numbers

        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            data, steps, places, first, out = (
                pointer(context, builder, kinds[k], given[k]) for k in (0, 2, 3, 4, 6)
            )
            i, width = indices(context, builder, kinds, given, 1, 5)
            emit = Emitter(kind, context, builder, count, i)
            rows = [builder.add(i, builder.mul(width, I64(k))) for k in range(2 * kind.rank)]
            weights = [Numbers(builder, emit.load(first, row, count)) for row in rows]
            parts = [Parts((), weights[2 * a : 2 * a + 2], ()) for a in range(kind.rank)]
            corners = emit.corners(data, steps, emit.load(places, i, count))
            values = emit.blend(corners, parts)
            emit.store(values.value, out, i)
            return emit.all_finite(values)

        return nb.boolean(*kinds), generate

    return sample_plane


def sampler(kind: Kind, count: int, careful: bool) -> Any:
    """Make the function that samples points of one plane by their coordinates."""

    @intrinsic
    def sample_points(
        context: Any, plane: Any, grid: Any, i: Any, gap: Any, measures: Any, strides: Any,
        within: Any, share: Any, apart: Any, numbers: Any,
    ) -> Any:  # fmt: skip
        """Store values; return whether all are finite."""
        kinds = plane, grid, i, gap, measures, strides, within, share, apart, numbers

        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            data, points, table, steps, out = (
                pointer(context, builder, kinds[k], given[k]) for k in (0, 1, 4, 5, 9)
            )
            i, gap, apart = indices(context, builder, kinds, given, 2, 3, 8)
            emit = Emitter(kind, context, builder, count, i)
            group = given[6], given[7], apart
            offsets, distances, _ = emit.place(points, gap, table, steps, group)
            values = emit.sum(data, steps, offsets, distances, careful)
            emit.store(values.value, out, i)
            return emit.all_finite(values)

        real = kind.real
        return nb.boolean(*kinds[:6], real, real, *kinds[8:]), generate

    return sample_points


def deriver(kind: Kind, count: int, need_image: bool, need_grid: bool) -> Any:
    """Make the function that computes gradients of points of one plane, by distances."""

    @intrinsic
    def derive(
        context: Any, plane: Any, i: Any, strides: Any, at: Any, x: Any, width: Any, g: Any,
        sums: Any, shares: Any,
    ) -> Any:  # fmt: skip
        """Add to ``sums``, for each axis, and store the pixels' ``shares`` of the values ``g``."""
        kinds = plane, i, strides, at, x, width, g, sums, shares

        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            data, steps, places, first, values, totals, pixels = (
                pointer(context, builder, kinds[k], given[k]) for k in (0, 2, 3, 4, 6, 7, 8)
            )
            i, width = indices(context, builder, kinds, given, 1, 5)
            emit = Emitter(kind, context, builder, count, i)
            rows = [builder.add(i, builder.mul(width, I64(k))) for k in range(2**kind.rank)]
            parts = [
                emit.parts(Numbers(builder, emit.load(first, rows[a], count)))
                for a in range(kind.rank)
            ]
            upstream = Numbers(builder, emit.load(values, i, count))
            if need_grid:
                corners = emit.corners(data, steps, emit.load(places, i, count))
                corners = emit.present(corners, parts)
                among = emit.any_counts(parts)
                for a in range(kind.rank):
                    before = Numbers(builder, emit.load(totals, rows[a], count))
                    more = (upstream * emit.blend(corners, parts, a)).kept(among)
                    emit.store((before + more).value, totals, rows[a])
            if need_image:
                for one, row in zip(emit.share(upstream, parts), rows, strict=True):
                    emit.store(one.value, pixels, row)
            return context.get_dummy_value()

        return nb.void(*kinds), generate

    return derive


def settler(kind: Kind, count: int) -> Any:
    """Make the function that stores the grid's gradient of points."""

    @intrinsic
    def settle_slopes(context: Any, sums: Any, x: Any, i: Any, width: Any, gradient: Any) -> Any:
        """Store sums times slopes in ``gradient`` (point, axis)."""
        kinds = sums, x, i, width, gradient

        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            totals, first, out = (pointer(context, builder, kinds[k], given[k]) for k in (0, 1, 4))
            i, width = indices(context, builder, kinds, given, 2, 3)
            emit, rank = Emitter(kind, context, builder, count, i), kind.rank
            rows = [builder.add(i, builder.mul(width, I64(a))) for a in range(2 * rank)]
            lines = []
            for a in range(rank):
                total = Numbers(builder, emit.load(totals, rows[a], count))
                slope = Numbers(builder, emit.load(first, rows[rank + a], count))
                lines.append((total * slope).value)
            begin = builder.mul(i, I64(rank))
            for k, line in enumerate(mixed(builder, lines)):
                emit.store(line, out, builder.add(begin, I64(k * count)))
            return context.get_dummy_value()

        return nb.void(*kinds), generate

    return settle_slopes


def mixed(builder: Any, lines: list[Any]) -> list[Any]:
    """Interleave the numbers of some vectors, as vectors of their length; invert `every`."""
    count, step = lines[0].type.count, len(lines)
    if step == 1:
        return lines
    found = []
    for k in range(step):
        places = [divmod(k * count + j, step) for j in range(count)]
        line = shuffle(builder, lines[0], lines[1], [p + count * (a % 2) for p, a in places])
        if step == 3:
            line = shuffle(
                builder, line, lines[2],
                [j if a < 2 else count + p for j, (p, a) in enumerate(places)],
            )  # fmt: skip
        found.append(line)
    return found
