"""What happens to W points between their coordinates and their sums.

A sampler has two steps.  `Sampler.locate` turns coordinates into a *state*: a few values for each
point that all planes share.  `Sampler.moments` reads the pixels of one plane at these points and
sums them.  Between the two, states wait in scratch memory (`States`) while the planes take turns.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import NamedTuple

from gridsample.definitions import axis as formulas
from gridsample.kernels.sampling.axes import Axis, AxisRule, Place, Tap
from gridsample.kernels.sampling.counting import Counting
from gridsample.kernels.sampling.points import STRIP, Group, PointSource, index_kind
from gridsample.kernels.sampling.reading import (
    PAIRS,
    Moments,
    Orders,
    both,
    tabulate,
)
from gridsample.kernels.sampling.rows import Weights, row_length
from gridsample.kernels.sampling.ways import Anywhere, Either, InPairs, InRows, Way
from gridsample.kernels.vector import Function, Pointer, Value, kind_of

State = dict[str, Value]

# How pixels are read: copied; as pairs, which are in the image wherever the points are; one by one;
# as rows, or pairs, where all taps of a group are in the image.
COPIES, SINGLES, ROWS = "copies", "singles", "rows"
# The most taps of a point that are added to from scratch memory at once.
MOST_SPILLED = 64


class Description(NamedTuple):
    """What a program is compiled for.

    Attributes:
        sweep: what is computed: "gather", ...
        axes: what happens along each axis, x first.
        points: where points come from.
        image: the name of the kind of the pixels.
        values: the name of the kind of the results, or of the upstream gradients.
        real: the name of the kind of positions, weights and sums.
        reading: how pixels are read.
        layout: what is known of strides.
        filled: whether there is a fill value other than 0.
        needs: what a sweep computes, if it has a choice.
    """

    sweep: str
    axes: tuple[AxisRule, ...]
    points: PointSource
    image: str
    values: str
    real: str
    reading: str
    layout: KnownStrides
    filled: bool
    needs: tuple[bool, ...] = ()

    @property
    def weights(self) -> str:
        """The name of the kind of the weights of pixels, or empty if there are none."""
        return self.layout.weights

    @property
    def counts(self) -> tuple[bool, bool]:
        """Whether NaN counts for nothing, and whether dropped taps do."""
        if self.sweep not in ("means", "mean backward"):
            return False, False
        ignores, drops = self.needs[:2] if self.sweep == "means" else self.needs[3:5]
        return ignores, drops

    @property
    def folds(self) -> bool:
        """Whether taps count differently: by the weights of pixels, or because they are dropped."""
        return bool(self.weights) or self.counts[1]


class KnownStrides(NamedTuple):
    """What is known of arrays when a program is compiled: strides, mostly.

    Attributes:
        beside: whether neighbours along x are neighbours in memory, one after the other or pixel
            after pixel.
        contiguous: whether the values of neighbouring points are neighbours in memory.
        wide: whether offsets of pixels need int64.
        channels: how many channels, which are neighbours in memory, are processed together: all, or
            a multiple of the lanes.
        parts: whether channels are the parts of complex numbers.
        weights: the name of the kind of the weights of pixels, or empty if there are none.
        shared: whether all channels of a run share the weights of pixels, or several planes, which
            are all of an item.
    """

    beside: bool
    contiguous: bool
    wide: bool
    channels: int = 1
    parts: bool = False
    weights: str = ""
    shared: bool = False


class Sampler:
    """Writes how W points are sampled.

    Attributes:
        axes: the axes, x first.
    """

    def __init__(self, function: Function, description: Description, call: SimpleNamespace) -> None:
        self.function, self.description, self.call = function, description, call
        layout = description.layout
        self.index = index_kind(layout.wide)
        self.real = kind_of(description.real)
        self.axes = [
            Axis(function, rule, call.sizes[a], call.strides[a], self.index)
            for a, rule in enumerate(description.axes)
        ]
        self.axes[0].unit_stride = layout.beside and layout.channels == 1
        if description.weights:
            for along, stride in zip(self.axes, call.weights_strides, strict=True):
                along.counting = stride.to(self.index).splat(function.lanes)
        # Upstream values of points without taps count for nothing; means of none are not divided;
        # runs of none are not read, point by point.
        if self.scatters or description.sweep == "means" or layout.channels > 1:
            for along in self.axes:
                zeros = along.rule.boundary.code == formulas.ZEROS
                along.notes_missed |= zeros and along.rule.constant

    # First step -----------------------------------------------------------------------------------

    def locate(self, coordinates: Sequence[Value], group: Group) -> State:
        """Convert the coordinates of a group to its state."""
        places = [
            along.place(coordinate)
            for along, coordinate in zip(self.axes, coordinates, strict=True)
        ]
        state: State = {}
        state["valid"] = functools.reduce(lambda a, b: a & b, [place.valid for place in places])
        outside = [place.outside for place in places if place.outside is not None]
        if outside:
            state["outside"] = functools.reduce(lambda a, b: a | b, outside)
        if group.listed:
            state["begin"] = group.item.to(self.index) * self.call.image_item.to(self.index)
            if self.description.weights:
                item = self.call.weights_item.to(self.index)
                state["counting"] = group.item.to(self.index) * item
        if self.description.reading == COPIES:
            self.locate_pixel(places, state)
        elif self.description.reading == PAIRS:
            self.locate_pairs(places, state)
        else:
            for a, place in enumerate(places):
                state[f"position{a}"] = place.position
        for a, place in enumerate(places):
            if self.axes[a].rule.folds and self.differentiates:
                state[f"slope{a}"] = place.slope
        return state

    @property
    def differentiates(self) -> bool:
        """Whether slopes are needed."""
        return self.scatters or any(rule.order for rule in self.description.axes)

    @property
    def scatters(self) -> bool:
        """Whether the sweep computes gradients."""
        return self.description.sweep.endswith("backward")

    def locate_pixel(self, places: Sequence[Place], state: State) -> None:
        """Add the offset of the pixel that each point copies, and which points copy none."""
        offset, present = None, None
        for along, place in zip(self.axes, places, strict=True):
            (tap,) = along.taps(place)
            offset = tap.offset if offset is None else offset + tap.offset
            present = both(present, tap.present)
        assert offset is not None
        if present is not None:
            # Those outside all read one pixel, which is in cache.
            offset = present.select(offset, 0)
            state["outside"] = ~present if "outside" not in state else ~present | state["outside"]
        state["begin"] = offset if "begin" not in state else offset + state["begin"]

    def locate_pairs(self, places: Sequence[Place], state: State) -> None:
        """Add the offset of each point's first pixel, and the distances to it."""
        for a, place in enumerate(places):
            index, state[f"distance{a}"] = self.axes[a].first_of_pair(place)
            self.move(state, self.axes[a], index)

    def move(self, state: State, along: Axis, index: Value) -> None:
        """Move the places of a state, in the image and in the weights, along an axis."""
        offset = along.offset(index)
        state["begin"] = state["begin"] + offset if "begin" in state else offset
        if along.counting is not None:
            offset = index * along.counting
            state["counting"] = state["counting"] + offset if "counting" in state else offset

    # Second step ----------------------------------------------------------------------------------

    def way(self, state: State, derivatives: int = 0, counting: Counting | None = None) -> Way:
        """Prepare the taps of a state, with the derivatives of weights up to an order.

        With ``counting``, the weights of all taps sum to one, those of dropped taps included.
        """
        slopes = self.slopes(state)
        if self.description.reading == PAIRS:
            taps = self.pairs(state, derivatives, counting is not None)
            begins = self.function.spill(state["begin"])
            return InPairs(taps, begins, self.call.strides[1:], counting)
        bases, weights = list[Value](), list[Weights]()
        for a, along in enumerate(self.axes):
            place = Place(state[f"position{a}"], state["valid"], None, slopes[a])
            base, t = along.split(place)
            bases.append(base)
            weights.append(along.weights(t, slopes[a], derivatives))

        def anywhere() -> Way:
            taps = [
                along.folded(base, some)
                for along, base, some in zip(self.axes, bases, weights, strict=True)
            ]
            few = self.description.reading == ROWS
            return Anywhere(tabulate(taps), state.get("begin"), few, counting)

        if self.description.reading == SINGLES:
            return anywhere()
        taps_of_point = math.prod(len(some) for some in weights)
        return Either(
            self.all_inside(bases),
            lambda: self.in_rows(state, bases, weights, counting),
            anywhere,
            taps_of_point <= MOST_SPILLED,
        )

    def pairs(self, state: State, derivatives: int, partition: bool) -> list[list[Tap]]:
        """Return the taps of pairs along each axis; see `Axis.pair`."""
        slopes = self.slopes(state)
        return [
            along.pair(state[f"distance{a}"], slopes[a], derivatives, partition)
            for a, along in enumerate(self.axes)
        ]

    def slopes(self, state: State) -> list[Value]:
        """Return the derivatives of positions along each axis with respect to coordinates."""
        return [
            state.get(f"slope{a}", along.pixels_per_unit()) for a, along in enumerate(self.axes)
        ]

    def taps(self, state: State, derivatives: int) -> list[list[Tap]]:
        """Return the taps of a state along each axis, with the derivatives of weights."""
        taps, slopes = list[list[Tap]](), self.slopes(state)
        for a, (along, slope) in enumerate(zip(self.axes, slopes, strict=True)):
            if self.description.reading == PAIRS:
                partition = self.description.sweep in ("means", "mean backward")
                pair = along.pair(state[f"distance{a}"], slope, derivatives, partition)
                taps.append([along.placed(tap) for tap in pair])
            else:
                place = Place(state[f"position{a}"], state["valid"], None, slope)
                taps.append(along.taps(place, derivatives))
        return taps

    def neighbours(self, state: State, derivatives: int) -> tuple[list[list[Tap]], Value]:
        """Return the taps as neighbouring pixels, and whether they are in the image.

        Pairs always are, but some of their taps may be dropped.
        """
        if self.description.reading == PAIRS:
            return self.taps(state, derivatives), self.function.constant(True, "bool")
        taps, conditions = list[list[Tap]](), list[Value]()
        for a, (along, slope) in enumerate(zip(self.axes, self.slopes(state), strict=True)):
            base, t = along.split(Place(state[f"position{a}"], state["valid"], None, slope))
            weights, first = along.weights(t, slope, derivatives), base + along.rule.method.first
            taps.append([
                Tap(along.offset(first + k), None, some, k) for k, some in enumerate(weights)
            ])  # fmt: skip
            conditions.append(along.inside(base, len(weights)))
        return taps, functools.reduce(lambda a, b: a & b, conditions).all()

    @property
    def paired(self) -> bool:
        """Whether rows are pairs: there are two taps along x, and at most two along others."""
        widths = [along.rule.method.taps for along in self.axes]
        return widths[0] == 2 and max(widths) == 2

    def all_inside(self, bases: Sequence[Value]) -> Value:
        """Whether all taps of all points are in the image, a condition with one lane."""
        widths = [along.rule.method.taps for along in self.axes]
        if not self.paired:
            widths[0] = row_length(widths[0])
        inside = [
            along.inside(base, width)
            for along, base, width in zip(self.axes, bases, widths, strict=True)
        ]
        return functools.reduce(lambda a, b: a & b, inside).all()

    def in_rows(
        self, state: State, bases: Sequence[Value], weights: Sequence[Weights],
        counting: Counting | None,
    ) -> Way:  # fmt: skip
        """Prepare taps that are neighbouring pixels of the image."""
        places: State = {name: state[name] for name in ("begin", "counting") if name in state}
        for along, base in zip(self.axes, bases, strict=True):
            self.move(places, along, base + along.rule.method.first)
        begins = self.function.spill(places["begin"])
        if counting is not None:
            counting = counting._replace(begin=places.get("counting"))
        if not self.paired:
            return InRows(weights, begins, self.call.strides, counting)
        zero = self.function.constant(0, self.index, self.function.lanes)
        taps = [[Tap(zero, None, w, k) for k, w in enumerate(some)] for some in weights]
        return InPairs(taps, begins, self.call.strides[1:], counting)

    def moments(self, way: Way, plane: Pointer, dropped: Value, orders: Orders) -> Moments:
        """Sum the taps of one plane, for several orders of derivatives; some may vanish."""
        orders = [order for order in orders if not self.vanishes(order)]
        return way.moments(plane, dropped, orders) if orders else {}

    def scatter(self, way: Way, plane: Pointer, shares: Moments) -> None:
        """Add to the taps of one plane; the transpose of `moments`."""
        shares = {order: share for order, share in shares.items() if not self.vanishes(order)}
        if shares:
            way.scatter(plane, shares)

    def vanishes(self, order: tuple[int, ...]) -> bool:
        """Whether the weights' derivatives of an order are all zero."""
        return any(
            along.rule.order + n >= along.rule.method.powers > 0 and along.rule.order + n > 0
            for along, n in zip(self.axes, order[-len(self.axes) :], strict=True)
        )


class States:
    """Scratch memory for the states of a strip's groups."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.groups = STRIP // function.lanes
        self.memory: dict[str, tuple[Pointer, bool]] = {}
        # The integer whose bits hold a condition, if there is one: memory in cache is scarce.
        self.bits = f"uint{function.lanes}" if function.lanes >= 8 else None

    def save(self, number: Value, state: State) -> None:
        """Store the state of a group of the strip."""
        for name, value in state.items():
            condition = value.kind.name == "bool"
            stored = value.splat(self.function.lanes)
            if condition:
                stored = stored.bitcast(self.bits) if self.bits else stored.to("int32")
            if name not in self.memory:
                memory = self.function.scratch(stored.kind, self.groups, stored.lanes)
                self.memory[name] = memory, condition
            self.memory[name][0].store(stored, number * stored.lanes, aligned=True)

    def load(self, number: Value) -> State:
        """Read the state of a group of the strip."""
        lanes = self.function.lanes
        state = {}
        for name, (memory, condition) in self.memory.items():
            if condition and self.bits:
                state[name] = memory.load(number).bitcast("bool", lanes)
                continue
            home = memory.at(number * lanes)
            value = home.load(0, lanes, aligned=True)
            value.home = home
            state[name] = value != 0 if condition else value
        return state
