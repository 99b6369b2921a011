"""One axis of W points: from coordinates to positions, and to the taps' offsets and weights.

W is the number of lanes of a register: each value below holds a number of each of W points.
The formulas are those of `gridsample.definitions.axis`, applied to values of the vector language.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from gridsample.definitions import axis as formulas
from gridsample.definitions.boundaries import BOUNDARIES, Boundary
from gridsample.definitions.caches import cached_call
from gridsample.definitions.knots import Axes, Knots
from gridsample.definitions.methods import Method
from gridsample.definitions.plan import Plan
from gridsample.kernels.sampling.programs.loads import read_numbers
from gridsample.kernels.sampling.programs.searches import KnotsInMemory, search
from gridsample.kernels.sampling.programs.states import Offsets
from gridsample.kernels.vector import Function, Value

# The units of coordinates: -1 and 1 are the outer edges, or the centres, of the corner pixels;
# pixels; pixels from the output's own position; those of the axis's own coordinates, which are
# equidistant, or not.
EDGES, CENTRES, PIXELS, DISPLACEMENT = "edges", "centres", "pixel", "displacement"
EVEN, UNEVEN = "even", "uneven"
# How many pixels there are along an axis: one; fewer than the method has taps; as many, or more.
SINGLE, SHORT, LONG = "single", "short", "long"


class AxisRule(NamedTuple):
    """What a program is compiled for along one axis.

    Attributes:
        method: the method.
        order: the order of the derivative.
        boundary: the boundary.
        edge: where its mirrors are: 0 at the edge pixels' centres, 1 at their outer edges, 2 at
            pixels of 0 next to the image; see `gridsample.definitions.axis`.
        folds: whether the position is folded, rather than each tap.
        units: the units of coordinates.
        margin: how far the image extends beyond its outermost pixel centres; None if positions
            outside have taps.
        continues: whether positions outside are those of the first or the last interval, unless
            they have the fill value.
        fill_is_exact: whether points without any tap in the image have exactly the fill value.
        fill_is_constant: whether the value of points without any tap in the image is constant, so
            that they count for nothing in gradients, and that of points outside.
        length: how many pixels the image has along the axis: SINGLE, SHORT or LONG.
    """

    method: Method
    order: int
    boundary: Boundary
    edge: int
    folds: bool
    units: str
    margin: float | None
    continues: bool
    fill_is_exact: bool
    fill_is_constant: bool
    length: str

    @property
    def has_knots(self) -> bool:
        """Whether the pixels along the axis have coordinates of their own."""
        return self.units in (EVEN, UNEVEN)

    @property
    def slope_varies(self) -> bool:
        """Whether d position / d coordinate depends on the point."""
        return self.folds or self.units == UNEVEN

    @property
    def interval_taps(self) -> int:
        """The number of pixels of an interval of the axis: those at its ends, or coefficients."""
        return self.method.taps if self.method.by_interval else 2

    @property
    def single(self) -> bool:
        """Whether the image has one pixel along the axis."""
        return self.length == SINGLE

    @property
    def drops(self) -> bool:
        """Whether all taps outside the image are dropped."""
        return self.boundary.drops

    @property
    def may_drop(self) -> bool:
        """Whether some taps outside the image are dropped."""
        return self.boundary.may_drop

    @property
    def reach(self) -> float:
        """A distance from the image at which every tap is outside, in pixels."""
        first, last = self.method.first, self.method.first + self.method.taps - 1
        return float(max(abs(first), abs(last)) + 2)

    @property
    def allows_pairs(self) -> bool:
        """Whether the taps are two neighbouring pixels of the image wherever the point is.

        This holds for linear interpolation if the position is folded, taps outside count for 0,
        neighbours outside are mirrored, or the intervals at the ends continue.
        """
        neighbours = self.folds or self.drops or self.mirrors_pairs or self.continues
        return self.is_linear and neighbours

    @property
    def is_linear(self) -> bool:
        """Whether the method is linear interpolation."""
        return self.method.is_linear

    @property
    def mirrors_pairs(self) -> bool:
        """Whether two neighbouring taps are mirrored to neighbours, or to one pixel at an edge."""
        return self.is_linear and self.boundary.mirrors_neighbours and not self.folds


# The rules of all axes, x first.
Rules = Sequence[AxisRule]


@cached_call(1024)
def rules_of(plan: Plan, order: tuple[int, ...], filled: bool) -> tuple[AxisRule, ...]:
    """Return the rules of a plan's axes, x first, for a derivative order along each.

    ``filled`` says whether dropped taps have a fill value other than 0.
    """
    sizes = plan.spatial[::-1]
    continues = [
        method.by_interval or (plan.continues(a) and method.is_linear and sizes[a] > 1)
        for a, method in enumerate(plan.methods)
    ]
    return tuple(
        AxisRule(
            method=plan.methods[a],
            order=order[a],
            boundary=BOUNDARIES[plan.boundaries[a]],
            edge=plan.edges[a],
            folds=plan.folds[a] and not continues[a],
            units=units_along(plan, a),
            margin=plan.margins[a],
            continues=continues[a],
            fill_is_exact=filled and BOUNDARIES[plan.boundaries[a]].filled and plan.sums_to_one,
            fill_is_constant=plan.fill_is_constant(a),
            length=length_of(plan.spatial[-1 - a], plan.methods[a].taps),
        )
        for a in range(len(plan.spatial))
    )


def units_along(plan: Plan, a: int) -> str:
    """Return the units of coordinates along an axis."""
    own = plan.coords.entries[a] if isinstance(plan.coords, Axes) else plan.coords
    if isinstance(own, Knots):
        return EVEN if own.is_even else UNEVEN
    if own == "normalized":
        return CENTRES if plan.align_corners else EDGES
    return own


def have_knots(rules: Rules) -> bool:
    """Whether some axis has coordinates of its own."""
    return any(rule.has_knots for rule in rules)


def length_of(pixels: int, taps: int) -> str:
    """Return how many pixels there are: SINGLE, SHORT or LONG."""
    if pixels == 1:
        return SINGLE
    return SHORT if pixels < taps else LONG


class AxisPosition(NamedTuple):
    """Where W points are along one axis.

    Attributes:
        position: in pixels, folded into the image or moved close to it; a number even if the
            coordinate is NaN.
        valid: whether the coordinate is valid (a bool).
        outside: whether the position is so far outside that the result is the fill value, or None
            if no position is.
        slope: d position / d coordinate, with the sign of the fold.
    """

    position: Value
    valid: Value
    outside: Value | None
    slope: Value


class Tap(NamedTuple):
    """One tap of W points along one axis, or of all axes.

    Attributes:
        offset: the distance of its pixel, in elements.  For taps that may be anywhere
            (`Axis.resolve_boundary`): from the image's first pixel, 0 if it is dropped.  For
            neighbours of runs (`Axis.placed`): from the first tap's pixel.  For pairs and rows,
            which only need the number of the tap: 0.
        present: whether it is not dropped (a bool); None if no tap is ever dropped.
        weights: its weight, or the derivatives of several orders of it.
        number: its number along its axis; a value in a loop over taps.
        pixel_weight_offset: the same in the weights of pixels, if they have weights.
    """

    offset: Value
    present: Value | None
    weights: tuple[Value, ...]
    number: int | Value = 0
    pixel_weight_offset: Value | None = None

    def offset_in(self, weighs: bool) -> Value:
        """Return the offset of its pixel, or the one in the weights of pixels if ``weighs``."""
        if not weighs:
            return self.offset
        assert self.pixel_weight_offset is not None
        return self.pixel_weight_offset


class Pair(NamedTuple):
    """Two neighbouring pixels of the image, for each of W positions along one axis.

    Attributes:
        first: the index of the first pixel.
        distance: from the first pixel to the position.
        between: whether the position is between the pixels, and these are its taps; None if the
            pixels count in the same way wherever the position is.
        sign: the sign of the mirrors between the position and the pixels; None if there are none.
    """

    first: Value
    distance: Value
    between: Value | None
    sign: Value | None


class AxisPixels(NamedTuple):
    """The pixels along an axis, in all lanes.

    Attributes:
        size: the number of pixels, of the kind of offsets: int32, or int64 for large images.
        stride: the distance of neighbours, of that kind.
        last: the position of the last pixel.
        weight_stride: the distance of neighbours in the weights of pixels; None if there are none.
    """

    size: Value
    stride: Value
    last: Value
    weight_stride: Value | None = None


class Axis:
    """Writes what happens along one axis.

    Attributes:
        rule: what it is compiled for.
        offset_kind: the kind of offsets.
        size, stride, last, pixel_weight_stride: see `AxisPixels`.
        knots: the coordinates of the axis's pixels, if they have their own.
        unit_stride: whether the stride is known to be 1.
        merges: whether all taps are one, as they have the same pixel, and none counts if dropped
            (``counts_dropped``).
        notes_missed: whether points whose taps are all dropped are outside, because they have the
            fill value or need not be processed (``skips_missed``); `Copies` decide otherwise.
    """

    def __init__(
        self,
        function: Function,
        rule: AxisRule,
        pixels: AxisPixels,
        *,
        knots: KnotsInMemory | None = None,
        unit_stride: bool,
        skips_missed: bool,
        counts_dropped: bool,
    ) -> None:
        self.function, self.rule, self.offset_kind = function, rule, pixels.size.kind
        self.size, self.stride, self.last, self.pixel_weight_stride = pixels
        self.knots, self.unit_stride = knots, unit_stride
        drops = rule.may_drop and counts_dropped
        self.merges = rule.single and not (drops or rule.method.votes)
        skips = skips_missed and rule.drops and rule.fill_is_constant
        self.notes_missed = rule.fill_is_exact or skips

    # Positions ------------------------------------------------------------------------------------

    def locate(self, coordinate: Value) -> AxisPosition:
        """Convert coordinates to positions."""
        rule, last = self.rule, self.last
        # Here, products and sums may be fused, which PyTorch does as well: at a pixel's centre,
        # rounding decides which neighbour is the next.  In `exactly`, they are not.
        position, per_unit = self.unnormalize(coordinate)
        with self.function.exactly():
            code = rule.boundary.code
            valid = formulas.known(position, code if rule.margin is None else formulas.ZEROS)
            outside = self.outside(position, coordinate)
            usable = valid if outside is None else valid & ~outside
            if rule.folds or code >= formulas.REFLECTION or outside is not None:
                position = usable.select(position, 0.0)  # elsewhere, `confine` replaces NaN
            sign: Any = 1.0
            if rule.continues:
                # NaN would be no index of a pixel.
                position = valid.select(position, 0.0)
            elif rule.folds and rule.margin == 0 and not rule.drops:
                # Positions are between the centres of the outermost pixels, where nothing folds.
                sign = ((position > 0.0) & (position < last)).select(1.0, 0.0)
            elif code >= formulas.REFLECTION and not (rule.folds and rule.edge):
                position, sign = self.fold_if_outside(position)
            else:
                position, sign = self.folded(position)
        return AxisPosition(position, valid, outside, per_unit * sign)

    def fold_if_outside(self, position: Value) -> tuple[Value, Value]:
        """Fold or confine positions, unless all of a group are inside, where that changes no bit.

        PyTorch's "reflection" at outer edges must not come here: it changes the last bits of all
        positions, which decide on which side of a pixel those of an identity grid are.  Also return
        the slope's sign.
        """
        last, unit_slope = self.last, position.like(1.0)

        def inside() -> list[Value]:
            between = (position > 0.0) & (position < last)
            return [position, between.select(unit_slope, 0.0) if self.rule.folds else unit_slope]

        def anywhere() -> list[Value]:
            folded, sign = self.folded(position)
            return [folded, sign if self.rule.folds else unit_slope]

        all_inside = ((position >= 0.0) & (position <= last)).all()
        folded, sign = self.function.choose(all_inside, inside, anywhere, likely=True)
        return folded, sign

    def folded(self, position: Value) -> tuple[Value, Any]:
        """Fold positions, or move distant ones close to the image; also return the slope's sign."""
        rule = self.rule
        bounds = self.last, rule.reach, rule.boundary.code, rule.edge
        if rule.folds:
            return formulas.fold(position, *bounds)
        return formulas.confine(position, *bounds), 1.0

    def unnormalize(self, coordinate: Value) -> tuple[Value, Any]:
        """Return positions that may be anywhere, and their derivatives, before any fold."""
        if self.knots is not None and self.rule.units == UNEVEN:
            return search(self.knots, coordinate)
        position, per_unit = coordinate, self.pixels_per_unit()
        if self.knots is not None:
            position = (coordinate - self.knots.low.to(coordinate.kind)) * per_unit
        elif self.rule.units not in (PIXELS, DISPLACEMENT):
            position = formulas.position(coordinate, self.last, self.rule.units == CENTRES)
        return position, per_unit

    def pixels_per_unit(self) -> Any:
        """The derivative of the position with respect to the coordinate, if it does not vary."""
        one = self.function.constant(1.0, self.function.real, self.function.lanes)
        if self.knots is not None and self.rule.units == EVEN:
            return one * self.knots.scale.to(one.kind)
        if self.rule.units in (EDGES, CENTRES):
            return formulas.slope(self.last, self.rule.units == CENTRES)
        return one

    def outside(self, position: Value, coordinate: Value) -> Value | None:
        """Whether the result is the fill value, because no tap counts."""
        rule, method = self.rule, self.rule.method
        if rule.margin == 0 and self.knots is not None:
            # The position of a coordinate next to an end may be that of the end, by rounding.
            ends = self.knots.least, self.knots.greatest
            least, greatest = (end.to(coordinate.kind) for end in ends)
            return (coordinate < least) | (coordinate > greatest)
        if rule.margin is not None:
            return (position < -rule.margin) | (position > self.last + rule.margin)
        if not self.notes_missed:
            return None
        base, _ = formulas.split(position, method.rounding)
        first, last = base + float(method.first), base + float(method.first + method.taps - 1)
        missed: Value = (last < 0.0) | (first > self.last)
        return missed

    # Taps -----------------------------------------------------------------------------------------

    def split(self, located: AxisPosition) -> tuple[Value, Value]:
        """Split positions into base indices, as integers, and fractions.

        Those of an image that wraps around are in it, so that taps are neighbours but at its ends.
        """
        floor, t = formulas.split(located.position, self.rule.method.rounding)
        if self.rule.continues:
            floor = self.first_of_interval(floor)
            t = located.position - floor
        base = floor.to(self.offset_kind)
        if self.rule.boundary.code == formulas.WRAP:
            base = (base < 0).select(base + self.size, base)  # see `confine`
        return base, t

    def weights(
        self, base: Value, t: Value, slope: Value, derivatives: int
    ) -> list[tuple[Value, ...]]:
        """Compute each tap's weight and its derivatives up to an order with respect to ``t``."""
        first, own = self.rule.order, self.own_weights(base)
        factors: list[Any] = [None]
        for _ in range(first + derivatives):
            factors.append(slope if factors[-1] is None else factors[-1] * slope)
        columns = []
        for order in range(first, first + derivatives + 1):
            column = [polynomial(t, row) for row in self.derivative(own, order)]
            factor = factors[order]
            columns.append(column if factor is None else [weight * factor for weight in column])
        return [*zip(*columns, strict=True)]

    def own_weights(self, base: Value) -> list[list[Value]] | None:
        """Read the polynomials of the taps on each point's interval, if intervals differ."""
        method = self.rule.method
        if not method.by_interval:
            return None
        assert self.knots is not None
        taps, powers = method.taps, method.powers
        place = Offsets(base * (taps * powers))
        numbers = read_numbers(self.knots.weights, place, taps * powers)
        numbers = [number.to(self.function.real) for number in numbers]
        return [numbers[k * powers : (k + 1) * powers] for k in range(taps)]

    def derivative(self, own: Sequence[Sequence[Value]] | None, order: int) -> Sequence[Any]:
        """Return the polynomials of the taps' weights, or of their derivatives of an order."""
        if own is None:
            return self.rule.method.derivative(order)
        powers = range(order, self.rule.method.powers)
        return [[row[p] * float(math.perm(p, order)) for p in powers] or [0.0] for row in own]

    def taps(self, located: AxisPosition) -> list[Tap]:
        """Compute all taps of W points, wherever the points are."""
        base, t = self.split(located)
        return self.resolve_boundary(base, self.weights(base, t, located.slope, 0))

    def copied(self, located: AxisPosition) -> tuple[Value, Value | None]:
        """Return the offset of each point's only pixel, and whether it has none; None if all have.

        Where it has none, the offset may be outside the image.
        """
        if self.rule.drops:
            index, _ = self.split(located)
            return self.offset(index), self.misses(index)
        (tap,) = self.taps(located)
        return tap.offset, None if tap.present is None else ~tap.present

    def resolve_boundary(self, base: Value, weights: Sequence[tuple[Value, ...]]) -> list[Tap]:
        """Return the taps with the pixels that the boundary gives them, wherever the points are.

        Taps outside are folded or dropped; those of an image of one pixel are merged.
        """
        rule, weight_stride, taps = self.rule, self.pixel_weight_stride, []
        code = rule.boundary.code
        for k, magnitudes in enumerate(weights):
            index, signed = base + (rule.method.first + k), magnitudes
            pixel, present = self.pixel(index, rule.folds and k > 0)
            if rule.boundary.odd:
                sign = formulas.fold_sign(index, self.size, code, rule.edge)
                signed = tuple(weight * sign for weight in magnitudes)
            weight_offset = None if weight_stride is None else pixel * weight_stride
            taps.append(Tap(self.offset(pixel), present, signed, k, weight_offset))
        return [merged(taps)] if self.merges else taps

    def pixel(self, index: Value, beyond: bool = False) -> tuple[Value, Value | None]:
        """Return the index of each tap's pixel, and whether it is present if taps may be dropped.

        A dropped tap has the index 0.  ``beyond`` says that the tap is outside only if the position
        has been folded onto the last pixel: its weight is 0, and a pixel in its place may be NaN.
        """
        rule = self.rule
        if rule.drops or beyond:
            missed = self.misses(index)
            return missed.select(0, index), ~missed
        if rule.folds:
            # Positions near the end of a huge image may have been rounded up, beyond its end.
            return index.minimum(self.size - 1), None
        fold = formulas.fold_nearby if rule.length == LONG else formulas.fold_index
        pixel = fold(index, self.size, rule.boundary.code, rule.edge)
        if not rule.may_drop:
            return pixel, None
        present = pixel >= 0
        return present.select(pixel, 0), present

    def misses(self, index: Value) -> Value:
        """Whether there is no pixel of each index."""
        # An index is not negative, and less than the size, if its bits are: one comparison.
        bits = f"uint{self.offset_kind.bits}"
        return index.bitcast(bits) >= self.size.bitcast(bits)

    def inside(self, base: Value, width: int) -> Value:
        """Whether ``width`` pixels from the first tap on are in the image, for each point."""
        first = base + self.rule.method.first
        # Not first + width <= size, as that sum wraps around where positions are huge.
        return (first >= 0) & (first <= self.size - width)

    def offset(self, index: Value) -> Value:
        """Convert pixel indices to offsets."""
        return index if self.unit_stride else index * self.stride

    # Two neighbouring pixels ----------------------------------------------------------------------

    def placed(self, tap: Tap) -> Tap:
        """Return a tap of a pair with its offset from the first pixel of the pair."""
        weight_stride = self.pixel_weight_stride
        weight_offset = None if weight_stride is None else weight_stride * tap.number
        return tap._replace(offset=self.stride * tap.number, pixel_weight_offset=weight_offset)

    def pair_at(self, located: AxisPosition) -> Pair:
        """Return two pixels, both in the image, that are next to positions."""
        position = located.position
        if self.rule.mirrors_pairs:
            return self.mirrored_pair(position)
        base = position.floor()
        pixel = self.first_of_interval(base)
        between = None
        if self.rule.may_drop:
            between = pixel == base
            if self.rule.single:
                between = between & (self.last > 0.0)  # there is no second pixel
        return Pair(pixel.to(self.offset_kind), position - pixel, between, None)

    def first_of_interval(self, base: Value) -> Value:
        """Return the first pixel of the interval of the image that is nearest to a base index."""
        return base.minimum(self.last - (self.rule.interval_taps - 1.0)).maximum(0.0)

    def mirrored_pair(self, position: Value) -> Pair:
        """Mirror the two neighbours of positions into the image.

        Where both are mirrored to the pixel at an edge, the sign is 0, and the distance -2 if that
        pixel is the first one, otherwise 2.
        """
        edge, last = float(self.rule.edge), self.last
        base = position.floor()
        before = base < 0.0
        first = before.select(-1.0 - edge - base, base)
        beyond = first >= last
        first = beyond.select((last - (1.0 - edge)) - (first - last), first)
        turned = before ^ beyond
        distance, sign = position - base, turned.select(-1.0, 1.0)
        distance = turned.select(1.0 - distance, distance)
        pixel, between = first.minimum(last - 1.0).maximum(0.0), None
        if edge:
            between = pixel == first
            beside = first - pixel
            distance = between.select(distance, beside + beside)
            sign = between.select(sign, 0.0)
        return Pair(pixel.to(self.offset_kind), distance, between, sign)

    def taps_of_pair(
        self,
        distance: Value,
        slope: Value,
        derivatives: int = 0,
        partition: bool = False,
        between: bool = False,
    ) -> list[Tap]:
        """Compute the two taps from the distance d of the position to the first pixel.

        Both pixels are in the image, and the position may be up to a pixel away from them:

            d in [-1, 0)    the first pixel is the right tap; the left one is outside
            d in [0, 1)     the pixels are the two taps
            d in [1, 2)     the second pixel is the left tap; the right one is outside

        Outside [0, 1), one of the two pixels is no tap.  It stands for the tap outside, which has
        the fill value, and the weight of that tap if the fill value may be nonzero, or if the
        weights must be a ``partition`` of one.  For neighbours that are mirrored, see
        `mirrored_pair`.  All this is left out if d is known to be ``between``, which is never known
        of axes without `Pair.between`.
        """
        may_drop = self.rule.drops and not between
        partition = may_drop and (partition or self.rule.boundary.filled)
        order, d = self.rule.order, distance
        zero = self.function.constant(0, self.offset_kind, self.function.lanes)
        present: tuple[Value | None, Value | None] = None, None
        if self.rule.mirrors_pairs:
            if self.rule.edge and not between:
                present, d = (d <= 1.0, d >= 0.0), d.maximum(0.0).minimum(1.0)
        elif self.rule.drops:
            if may_drop:
                second = (d >= 0.0) & (d < 2.0)
                if self.rule.single:
                    second = second & (self.last > 0.0)
                present = (d >= -1.0) & (d < 1.0), second
        elif order + derivatives == 0 and not self.rule.continues:
            # On the last pixel, the one before is no tap: it may be NaN.
            present = d < 1.0, None
        if partition:
            # They sum to one everywhere.
            weights: tuple[Any, Any] = (
                (d < 0.0).select(1.0 + d, (1.0 - d).abs()),
                (d < 1.0).select(d.abs(), 2.0 - d),
            )
        elif may_drop:
            weights = 1.0 - d.abs(), d.minimum(2.0 - d)
        else:
            weights = 1.0 - d, d
        rising: tuple[Any, Any] = -1.0, 1.0
        if partition:
            beside = (d >= 0.0) & (d < 1.0)
            rising = beside.select(-1.0, 1.0), beside.select(1.0, -1.0)
        elif may_drop:
            rising = (d < 0.0).select(1.0, -1.0), (d < 1.0).select(1.0, -1.0)
        columns: list[Sequence[Any]] = []
        for n in range(order, order + derivatives + 1):
            if n == 0:
                columns.append(weights)
            elif n == 1:
                columns.append([slope * weight for weight in rising])
            else:
                columns.append([0.0 * slope] * 2)
        taps = [Tap(zero, present[k], tuple(column[k] for column in columns), k) for k in range(2)]
        return [merged(taps)] if self.merges else taps


def merged(taps: Sequence[Tap]) -> Tap:
    """Return one tap in place of several of the same pixel, with the sum of their weights.

    Dropped ones count for nothing.
    """
    present, weights = taps[0].present, [list[Value]() for _ in taps[0].weights]
    for tap in taps:
        here = tap.present
        present = None if present is None or here is None else present | here
        for column, weight in zip(weights, tap.weights, strict=True):
            column.append(weight if here is None else here.select(weight, 0.0))
    return taps[0]._replace(
        present=present, weights=tuple([functools.reduce(operator.add, w) for w in weights])
    )


def polynomial(t: Value, coefficients: Sequence[Any]) -> Value:
    """Evaluate a polynomial, lowest power first; zeros at its end cost nothing."""
    coefficients = list(coefficients)
    while len(coefficients) > 1 and not (isinstance(coefficients[-1], Value) or coefficients[-1]):
        coefficients.pop()
    if len(coefficients) == 1:
        (constant,) = coefficients
        return constant if isinstance(constant, Value) else t.like(constant)
    weight: Value = formulas.weight(t, coefficients, len(coefficients))
    return weight
