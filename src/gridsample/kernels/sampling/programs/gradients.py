"""The programs of first and second derivatives: gather and scatter in one sweep.

With upstream values g, weights w of a point's taps and pixels v, gather has the gradients

    of the image    g w, added to each tap's pixel
    of the grid     along axis a: sum over planes of g * (tap sum of v with the order of a raised)

Given upstream gradients u of the image and d of the grid, these two have the gradients

    of g            (tap sum of u) + sum over a of d_a * (tap sum of v with a raised)
    of the image    sum over a of g d_a w_a, added to each tap's pixel; w_a is w with a raised
    of the grid     along b: sum over planes of g * (
                        (tap sum of u with b raised)
                        + sum over a of d_a * (tap sum of v with a and b raised))
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from gridsample.kernels.sampling.programs.body import Body
from gridsample.kernels.sampling.programs.groups import Group, Strip, TaskRange
from gridsample.kernels.sampling.programs.loads import Image, splat_of
from gridsample.kernels.sampling.programs.points import AFFINE
from gridsample.kernels.sampling.programs.sampler import Description, GroupTaps
from gridsample.kernels.sampling.programs.states import State
from gridsample.kernels.sampling.programs.sums import TapSums
from gridsample.kernels.sampling.settings import STRIP, Call
from gridsample.kernels.vector import Function, Kind, Pointer, Value, kind_of

Order = tuple[int, ...]


class Totals:
    """Sums of several numbers for each lane of some groups, in scratch memory."""

    def __init__(self, function: Function, groups: int, count: int, kind: Kind) -> None:
        self.function, self.count = function, count
        self.memory = function.scratch(kind, groups * count, function.lanes)

    def _place(self, number: Value | int, k: int) -> Value | int:
        return (number * self.count + k) * self.function.lanes

    def clear(self, number: Value | int) -> None:
        """Set the sums of a group to zero."""
        zero = self.function.constant(0.0, self.memory.kind, self.function.lanes)
        self.set(number, [zero] * self.count)

    def set(self, number: Value | int, sums: Sequence[Value]) -> None:
        """Set the sums of a group."""
        for k, total in enumerate(sums):
            self.memory.store(total, self._place(number, k), aligned=True)

    def read(self, number: Value | int) -> list[Value]:
        """Return the sums of a group."""
        return [
            self.memory.load(self._place(number, k), self.function.lanes, aligned=True)
            for k in range(self.count)
        ]

    def add(self, number: Value | int, summands: Sequence[Value]) -> None:
        """Add to the sums of a group."""
        for k, (total, summand) in enumerate(zip(self.read(number), summands, strict=True)):
            self.memory.store(total + summand, self._place(number, k), aligned=True)


class Backward(Body):
    """Writes the loops of the sweep of first derivatives."""

    def __init__(self, function: Function, description: Description, call: Call) -> None:
        super().__init__(function, description, call)
        self.need_image, self.need_grid, *_ = description.needs
        self.rank = len(description.axes)
        self.sums = Image(call.sums, call.sums_item, call.sums_planes)
        self.totals = Totals(function, STRIP // function.lanes, self.rank, function.real)
        self.maps = description.points.grid_layout == AFFINE
        # Whether the sums of points begin with what is stored: partial sums of earlier blocks.
        self.resumes = description.points.in_blocks and not self.maps
        if self.maps:
            self.map_totals = Totals(function, 1, self.rank * (self.rank + 1), kind_of("float64"))
        self.value_order = (0,) * self.rank
        self.raised = [tuple(int(a == b) for b in range(self.rank)) for a in range(self.rank)]

    @classmethod
    def arrays(cls, description: Description) -> dict[str, str]:
        """Return the kinds of the arrays, by name, in the order in which calls pass addresses."""
        real = description.real
        return {
            "image": description.image,
            "grid": description.points.kind,
            "values": description.values,
            "sums": real,
            "gradient": "float64" if description.points.grid_layout == AFFINE else real,
            "dropped": real,
        }

    @property
    def images(self) -> list[Image]:
        """The images that are read, or added to."""
        return [self.image] * self.need_grid + [self.sums] * self.need_image

    def write_blocks(self, part: TaskRange) -> None:
        """Write the loops of a range, which has all planes, block by block."""
        near, far = self.call.planes_near, self.call.planes_far
        # Where the sums of maps are rounded must not depend on how points are divided.
        step = near if self.maps else self.points.far_apart(part).select(far, near)
        with self.function.loop(part.plane, part.plane_end, step) as loop:
            end = (loop.index + step).minimum(part.plane_end)
            self.write_range(part._replace(plane=loop.index, plane_end=end))

    def locate(self, strip: Strip) -> None:
        """Convert the coordinates of a strip to states."""
        with self.points.groups(strip) as (number, group):
            state = self.state_at(self.points.coordinates(group), group)
            self.states.save(number, self.with_tangents(state, group))
            if self.need_grid and self.resumes:
                self.totals.set(number, self.points.vectors(group, self.call.gradient))
            elif self.need_grid:
                self.totals.clear(number)

    def state_at(self, coordinates: Sequence[Value], group: Group, interior: bool = False) -> State:
        """Convert the coordinates of a group to its state."""
        state = self.sampler.locate(coordinates, group, interior)
        if state.outside is None:
            return state
        return state._replace(valid=state.valid & ~state.outside, outside=None)

    def with_tangents(self, state: State, group: Group) -> State:
        """Add the directions in which points move to a state, if they are needed."""
        return state

    def process_plane(self, strip: Strip, plane: Value, end: Value) -> None:
        """Process one plane at the points of a strip."""
        memory = self.memory_of(strip, plane)
        with self.prefetch.groups(strip) as (number, group):
            for result in self.add(number, group, self.upstream(group, memory), memory):
                self.points.store_values(group, memory.results, result)

    def memory_of(self, points: Strip | Group, plane: Value) -> SimpleNamespace:
        """Return where a plane is in each array."""
        return SimpleNamespace(
            source=self.image.plane(points, plane),
            sums=self.sums.plane(points, plane),
            dropped=self.dropped_of(plane),
            upstream=self.call.values.at(self.call.out_planes.load(plane)),
        )

    def dropped_of(self, plane: Value) -> Value:
        """Return the value of dropped taps in a plane."""
        function = self.function
        if self.description.tap_rule.filled:
            return splat_of(function, self.call.dropped, plane)
        return function.constant(0.0, function.real, function.lanes)

    def upstream(self, group: Group, memory: SimpleNamespace) -> Value:
        """Read the upstream values of a group."""
        return self.points.load_values(group, memory.upstream).to(self.function.real)

    def add(self, number: Value, group: Group, g: Value, memory: SimpleNamespace) -> list[Value]:
        """Add the gradients of a plane at a group, whose state has a number.

        Returns:
            The gradient of the upstream values if that is needed, otherwise nothing.
        """
        state = self.states.load(number)
        with self.function.when(state.valid.any()):  # otherwise, all are outside
            g = state.valid.select(g, 0.0)
            taps = self.sampler.prepare(state, int(self.need_grid), None)
            if self.need_grid:
                tap_sums = self.sampler.tap_sums(taps, memory.source, memory.dropped, self.raised)
                self.totals.add(number, [self.product(g, tap_sums, o) for o in self.raised])
            if self.need_image:
                share = group.fresh.select(g, 0.0)
                self.sampler.scatter(taps, memory.sums, {self.value_order: share})
        return []

    def product(self, g: Value, tap_sums: TapSums, order: Order) -> Value:
        """Multiply a tap sum by ``g``; it is 0 if it vanishes."""
        if order not in tap_sums:
            return self.function.constant(0.0, self.function.real, self.function.lanes)
        return g * tap_sums[order]

    def finish(self, strip: Strip) -> None:
        """Store the gradient of the grid at the points of a strip, or add to that of the maps."""
        if not self.need_grid:
            return
        if self.maps:
            self.map_totals.clear(0)
        with self.points.groups(strip) as (number, group):
            if self.maps:
                self.add_to_maps(group, self.terms_of_maps(group, self.slopes_of(number)))
            else:
                self.store_gradient(group, self.slopes_of(number))
        if self.maps:
            self.finish_maps(strip)

    def store_gradient(self, group: Group, slopes: Sequence[Value]) -> None:
        """Store the gradient of the grid at the points of a group."""
        if not self.resumes:
            self.points.store_vectors(group, self.call.gradient, slopes)
            return
        # Other points belong to the strip before, perhaps of another thread: their sums began with
        # what may already have included the planes of this block.
        with self.function.when(group.fresh.all()):
            self.points.store_vectors(group, self.call.gradient, slopes)
        with self.function.when(~group.fresh.all(), rare=True):
            self.points.store_fresh_vectors(group, self.call.gradient, slopes)

    def slopes_of(self, number: Value) -> list[Value]:
        """Return the grid's gradient at the points of a group."""
        valid = self.states.load(number).valid
        return [valid.select(total, 0.0) for total in self.totals.read(number)]

    def terms_of_maps(self, group: Group, slopes: Sequence[Value]) -> list[Value]:
        """Return what points with these slopes add to the gradient of their affine map."""
        own = [line.to("float64") for line in self.points.output_coordinates(group)]
        shares = [slope.to("float64") for slope in slopes]
        return [share if x is None else share * x for share in shares for x in (*own, None)]

    def add_to_maps(self, group: Group, terms: Sequence[Value]) -> None:
        """Add terms to the sums of a strip, in double precision; those of listed points, to each.

        The gradient of maps is divided into parts, one for each strip or listed point.
        """
        if not group.listed:
            self.map_totals.add(0, [group.fresh.select(term, 0.0) for term in terms])
            return
        gradient, size = self.call.gradient, len(terms)
        places = self.points.places(group, self.call.points * size, size)
        for k, term in enumerate(terms):
            numbers = self.function.spill(gradient.at(k).load_each(places) + term)
            for lane, place in enumerate(places):
                gradient.at(k).store(numbers.load(lane), place)

    def finish_maps(self, strip: Strip) -> None:
        """Add the sums of a strip to its part of the gradient of maps."""
        if not self.description.points.listed:
            place = self.points.number_of_strip(strip) * self.map_totals.count
            for k, total in enumerate(self.map_totals.read(0)):
                part = self.call.gradient.at(place + k)
                part.store(part.load() + total.sum())


class DoubleBackward(Backward):
    """Writes the loops of the sweep of second derivatives."""

    def __init__(self, function: Function, description: Description, call: Call) -> None:
        super().__init__(function, description, call)
        _, _, self.need_values, self.has_upstream = description.needs
        self.other = Image(call.image, call.image_item, call.image_planes)
        if self.has_upstream:
            self.other = Image(call.upstream, call.image_item, call.image_planes)

    @classmethod
    def arrays(cls, description: Description) -> dict[str, str]:
        """Return the kinds of the arrays, by name, in the order in which calls pass addresses."""
        real = description.real
        return {
            "image": description.image,
            "upstream": real,
            "grid": description.points.kind,
            "tangents": real,
            "values": description.values,
            "results": real,
            "sums": real,
            "gradient": real,
        }

    def with_tangents(self, state: State, group: Group) -> State:
        """Add the directions in which points move to a state."""
        return state._replace(tangents=tuple(self.points.vectors(group, self.call.tangents)))

    def memory_of(self, points: Strip | Group, plane: Value) -> SimpleNamespace:
        """Return where a plane is in each array."""
        return SimpleNamespace(
            source=self.image.plane(points, plane),
            sums=self.sums.plane(points, plane),
            other=self.other.plane(points, plane),
            upstream=self.call.values.at(self.call.out_planes.load(plane)),
            results=self.call.results.at(self.call.out_planes.load(plane)),
        )

    def add(self, number: Value, group: Group, g: Value, memory: SimpleNamespace) -> list[Value]:
        """Add the gradients of a plane at a group, whose state has a number."""
        state, results = self.states.load(number), list[Value]()
        g, tangents = state.valid.select(g, 0.0), state.tangents
        taps = self.sampler.prepare(state, 2 if self.need_grid else 1, None)
        if self.need_values or self.need_grid:
            tap_sums = self.directional(taps, memory.source, memory.other, tangents)
            if self.need_values:
                results = [state.valid.select(tap_sums[self.value_order], 0.0)]
            if self.need_grid:
                self.totals.add(number, [self.product(g, tap_sums, o) for o in self.raised])
        if self.need_image:
            share = group.fresh.select(g, 0.0)
            shares = {o: share * d for o, d in zip(self.raised, tangents, strict=True)}
            self.sampler.scatter(taps, memory.sums, shares)
        return results

    def directional(
        self, taps: GroupTaps, source: Pointer, other: Pointer, tangents: Sequence[Value]
    ) -> TapSums:
        """Compute (tap sum of u) + sum over a of d_a * (tap sum of v with a raised).

        For the order 0, and, if the grid's gradient is needed, with the order of each axis raised.
        """
        zero = self.function.constant(0.0, self.function.real, self.function.lanes)
        orders = [self.value_order] if self.need_values else []
        orders += self.raised if self.need_grid else []
        pairs = {order: [plus(order, raised) for raised in self.raised] for order in orders}
        needed = [*dict.fromkeys(order for some in pairs.values() for order in some)]
        tap_sums = self.sampler.tap_sums(taps, source, zero, needed)
        totals = {}
        if self.has_upstream:
            totals = self.sampler.tap_sums(taps, other, zero, orders)
        for order, some in pairs.items():
            for raised, tangent in zip(some, tangents, strict=True):
                if raised in tap_sums:
                    term = tap_sums[raised] * tangent
                    totals[order] = totals[order] + term if order in totals else term
            totals.setdefault(order, zero)
        return totals


def plus(a: Order, b: Order) -> Order:
    """Add orders of derivatives."""
    return tuple(m + n for m, n in zip(a, b, strict=True))
