"""Pixels that count differently: those that are NaN not at all, the others by their weights.

With m the weight of a pixel v, and 0 if it is missing, each tap is read as the numbers m v and m,
so that one sweep sums both.  A third number is v as it is, where it matters whether any pixel of a
point is missing.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from gridsample.kernels.sampling.layouts import storage_of
from gridsample.kernels.sampling.programs.axes import Tap
from gridsample.kernels.sampling.programs.points import STRIP, Strip
from gridsample.kernels.sampling.programs.reading import (
    PAIRS,
    Image,
    Numbers,
    PixelPairs,
    Reader,
    SinglePixels,
    both,
)
from gridsample.kernels.sampling.programs.rows import Blocks, Row, RowInMemory
from gridsample.kernels.vector import Function, Pointer, Value, kind_of

if TYPE_CHECKING:
    from gridsample.kernels.sampling.programs.sampler import Description, State

# The numbers of a pixel: m v, m, and v.
COUNTED, WEIGHT, PIXEL = 0, 1, 2


class Counting(NamedTuple):
    """How the pixels of a plane count, for a group of points.

    Attributes:
        plane: the weights of the plane's pixels, or None for 1.
        offset: the place of the group in it, like `State.offset`.
        steps: the distance of neighbours along each axis, x first.
        dropped_weight: the weight of dropped taps: 1 if what is outside is known, otherwise 0.
        ignores: whether NaN counts for nothing.
        weight_check: notes whether any weight is invalid; None if none can be.
        kept: the weights of the group's taps, if they have been read before; see `Counts.keep`.
        offset_memory: where ``offset`` is in memory, if it is.
    """

    plane: Pointer | None
    offset: Value | None
    steps: Sequence[Value]
    dropped_weight: float
    ignores: bool
    weight_check: WeightCheck | None = None
    kept: Pointer | None = None
    offset_memory: Pointer | None = None

    def numbers(self, pixels: Sequence[Value], weights: Sequence[Value]) -> list[Numbers]:
        """Return the numbers of pixels, given their weights."""
        if self.weight_check is not None:
            self.weight_check.check(weights)
        return [*map(self.numbers_of_one, pixels, weights)]

    def numbers_of_one(self, pixel: Value, weight: Value) -> Numbers:
        """Return the numbers of one pixel of each point."""
        if self.ignores:
            weight = (pixel == pixel).select(weight, 0.0)
        # A pixel without weight may be infinite.
        return (weight > 0.0).select(pixel * weight, 0.0), weight, pixel

    def numbers_of_dropped(self, dropped: Value | None) -> Sequence[Value | float | None]:
        """Return what is added for dropped taps, given their value: nothing to sums of weights."""
        return dropped if self.dropped_weight else None, None, dropped

    # Readers --------------------------------------------------------------------------------------

    def singles(self, pixels: SinglePixels) -> Counted:
        """Return a reader of single pixels as numbers."""
        if self.plane is None:
            return Counted(pixels, Ones(self.dropped_weight), self)
        weights = SinglePixels(self.plane, self.offset, pixels.gathers, dropped=self.dropped_weight)
        weights.reads_pixel_weights = True
        return Counted(pixels, weights, self)

    def pairs(self, pixels: PixelPairs) -> Counted:
        """Return a reader of pairs of pixels as numbers."""
        if self.kept is not None:
            return Counted(pixels, Kept(self.kept), self)
        if self.plane is None or self.offset is None:
            return Counted(pixels, Ones(self.dropped_weight), self)
        offsets = self.offset_memory or self.plane.function.spill(self.offset)
        return Counted(pixels, self.weights_of_pairs(self.plane, offsets), self)

    def weights_of_pairs(self, plane: Pointer, offsets: Pointer) -> PixelPairs:
        """Return a reader of the weights of pairs."""
        return PixelPairs(plane, offsets, self.steps[1:], self.dropped_weight)

    def rows(self, pixels: RowInMemory) -> CountedRow:
        """Return a row of pixels as numbers."""
        if self.plane is None or self.offset is None:
            return CountedRow(pixels, None, self)
        places = self.plane.function.spill(self.offset)
        offsets = [places.load(lane).to("int64") for lane in range(pixels.function.lanes)]
        return CountedRow(pixels, RowInMemory(self.plane, offsets, self.steps), self)


class Counted:
    """Reads the numbers of pixels."""

    def __init__(self, pixels: Reader, weights: Reader, counting: Counting) -> None:
        self.pixels, self.weights, self.counting = pixels, weights, counting

    def row(self, outer: tuple[Tap, ...], taps: Sequence[Tap]) -> Sequence[Value | Numbers]:
        """Read the numbers of all taps along x."""
        pixels, weights = self.pixels.row(outer, taps), self.weights.row(outer, taps)
        return self.counting.numbers(pixels, weights)  # type: ignore[arg-type]


class Ones:
    """The weights of pixels that have none."""

    def __init__(self, dropped_weight: float) -> None:
        self.dropped_weight = dropped_weight

    def row(self, outer: tuple[Tap, ...], taps: Sequence[Tap]) -> Sequence[Value | Numbers]:
        """Return the weights of all taps along x."""
        present, ones = None, []
        for tap in outer:
            present = both(present, tap.present)
        for tap in taps:
            here, one = both(present, tap.present), tap.weights[0].like(1.0)
            ones.append(one if here is None else here.select(one, self.dropped_weight))
        return ones


class Kept:
    """The weights of pairs of pixels, in memory."""

    def __init__(self, memory: Pointer) -> None:
        self.memory, self.lanes = memory, memory.function.lanes

    def row(self, outer: tuple[Tap, ...], taps: Sequence[Tap]) -> Sequence[Value | Numbers]:
        """Return the weights of both taps along x."""
        places = [place_of_pair((*outer, tap)) * self.lanes for tap in taps]
        return [self.memory.load(place, self.lanes, aligned=True) for place in places]


def place_of_pair(taps: Sequence[Tap]) -> int:
    """Return the number of a tap among all of a point that has two along each axis."""
    return functools.reduce(lambda place, tap: 2 * place + tap.number, taps, 0)


class CountedRow(NamedTuple):
    """A row of pixels as numbers.

    Attributes:
        pixels: the pixels.
        weights: their weights, or None for 1.
        counting: how they count.
    """

    pixels: Row
    weights: Row | None
    counting: Counting

    @property
    def function(self) -> Function:
        """The function that reads."""
        return self.pixels.function

    def at(self, axis: int, k: int | Value) -> Row:
        """Return the row that is ``k`` pixels further along another axis than x."""
        weights = None if self.weights is None else self.weights.at(axis, k)
        return self._replace(pixels=self.pixels.at(axis, k), weights=weights)

    def blocks(self, length: int) -> Blocks:
        """Read the blocks of the row, of each number."""
        pixels = self.pixels.blocks(length)[()]
        if self.weights is None:
            weights = [block.like(1.0) for block in pixels]
        else:
            weights = self.weights.blocks(length)[()]
        each = [*zip(*self.counting.numbers(pixels, weights), strict=True)]
        return {(number,): [*each[number]] for number in (COUNTED, WEIGHT, PIXEL)}


class WeightCheck:
    """Notes whether a weight may be negative or not finite, so that it must be looked at.

    These have the greatest bits, as integers without a sign.
    """

    def __init__(self, function: Function) -> None:
        self.kind = kind_of(f"uint{function.real.bits}")
        self.lanes = function.lanes
        self.memory = function.scratch(self.kind, 1, function.lanes)

    def clear(self) -> None:
        """Forget all weights."""
        zero = self.memory.function.constant(0, self.kind, self.lanes)
        self.memory.store(zero, aligned=True)

    def check(self, weights: Sequence[Value]) -> None:
        """Note some weights."""
        bits = [weight.bitcast(self.kind) for weight in weights if not weight.is_constant]
        for lanes in {value.lanes for value in bits}:
            alike = [value for value in bits if value.lanes == lanes]
            noted = self.memory.load(0, lanes)
            self.memory.store(functools.reduce(Value.maximum, alike, noted))

    def report(self, memory: Pointer) -> None:
        """Store 1 if some weight is invalid."""
        infinity = 0x7F800000 if self.kind.bits == 32 else 0x7FF0000000000000
        noted = self.memory.load(0, self.lanes, aligned=True)
        with memory.function.when((noted >= infinity).any(), rare=True):
            memory.store(memory.function.constant(1, "int64"))


class Counts:
    """How the pixels of an image count: what is the same for all planes and points.

    Attributes:
        dropped_weight: the weight of dropped taps.
    """

    def __init__(self, function: Function, description: Description, call: SimpleNamespace) -> None:
        self.call, self.ignores = call, description.tap_rule.ignores
        self.dropped_weight = float(not description.tap_rule.drops)
        self.weights, self.weight_check, self.kept = None, None, None
        self.taps = 1 << len(description.axes)
        if description.tap_rule.weight_kind:
            self.weights = Image(call.weights, call.weights_item, call.weights_planes)
        known = description.known
        if description.tap_rule.shared and known.channels == 1 and description.reading == PAIRS:
            groups = STRIP // function.lanes
            self.kept = function.scratch(function.real, groups * self.taps, function.lanes)
        if kind_of(description.tap_rule.weight_kind or "bool").family not in ("bool", "unsigned"):
            self.weight_check = WeightCheck(function)

    @staticmethod
    def arrays(description: Description) -> dict[str, str]:
        """Return the kinds of the arrays of weights, by name."""
        if not description.tap_rule.weight_kind:
            return {}
        return {"weights": storage_of(description.tap_rule.weight_kind), "invalid_weights": "int64"}

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Report invalid weights after the body."""
        if self.weight_check is None:
            yield
            return
        self.weight_check.clear()
        yield
        self.weight_check.report(self.call.invalid_weights)

    def plane(self, item: Value | None, number: Value) -> Pointer | None:
        """The weights of a plane's pixels, of an item unless None."""
        return None if self.weights is None else self.weights.plane(item, number)

    def of(self, state: State, plane: Pointer | None, number: Value | None = None) -> Counting:
        """Return how the pixels of a plane count for a group, given its state.

        If its number in the strip is given, its weights may have been kept.
        """
        offset, steps = state.weight_offset, self.call.weights_strides
        counting = Counting(
            plane,
            offset,
            steps,
            self.dropped_weight,
            self.ignores,
            self.weight_check,
            offset_memory=state.weight_offset_memory,
        )
        if self.kept is None or number is None:
            return counting
        return counting._replace(weight_check=None, kept=self.home(self.kept, number))

    def home(self, memory: Pointer, number: Value) -> Pointer:
        """Return where the weights of a group are kept."""
        return memory.at(number * (self.taps * memory.function.lanes))

    def keep(self, body: Any, strip: Strip) -> None:
        """Read the weights of a strip's taps once, if all planes of an item share them."""
        if self.kept is None:
            return
        function, item = body.function, None if body.description.points.listed else strip.item
        plane = self.plane(item, function.constant(0, "int64"))
        with body.points.groups(strip) as (number, _):
            state, memory = body.states.load(number), self.home(self.kept, number)
            assert plane is not None and state.weight_offset_memory is not None
            reader = self.of(state, plane).weights_of_pairs(plane, state.weight_offset_memory)
            *others, across = reversed(body.sampler.pair_taps(state, 0, True))
            for outer in itertools.product(*others):
                weights = reader.row(outer, across)
                if self.weight_check is not None:
                    self.weight_check.check(weights)
                for tap, weight in zip(across, weights, strict=True):
                    place = place_of_pair((*outer, tap)) * function.lanes
                    memory.store(weight.splat(function.lanes), place, aligned=True)
