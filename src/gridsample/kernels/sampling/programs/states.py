"""What the points of a strip need for every plane: their `State`, which waits in scratch memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from gridsample.kernels.sampling.settings import STRIP
from gridsample.kernels.vector import Function, Pointer, Value, host


class Offsets(NamedTuple):
    """An offset of each point of a group, in elements of an array.

    Attributes:
        value: the offsets.
        memory: where they are in memory, if they have been loaded from a state.
        spilled: where they have been stored, if they have been computed since.
        each: one by one, if they have been read from there.
    """

    value: Value
    memory: Pointer | None = None
    spilled: Pointer | None = None
    each: tuple[Value, ...] = ()

    def in_memory(self) -> Pointer:
        """Return where they are in memory, to read each by itself."""
        return self.memory or self.spilled or self.value.function.spill(self.value, soon=True)

    def in_register(self) -> Value:
        """Return them all; those of a state are loaded again, as registers are few."""
        if self.memory is None:
            return self.value
        return self.memory.load(0, self.value.lanes, aligned=True)

    def kept(self) -> Offsets:
        """Store them if they are not in memory, so that they can be read there several times."""
        return self if self.memory else self._replace(spilled=self.in_memory())

    def one_by_one(self) -> Offsets:
        """Read each of them, so that it can be used several times in this part of a program."""
        return self._replace(each=tuple(self.places()))

    def places(self) -> Sequence[Value]:
        """Return each of them as an index."""
        return self.each or load_offsets(self.in_memory(), self.value.lanes)

    def part(self, first: int, count: int) -> Offsets:
        """Return those of some of the points."""
        value, last = self.value.shuffle(range(first, first + count)), first + count
        memory, spilled = (place and place.at(first) for place in (self.memory, self.spilled))
        return Offsets(value, memory, spilled, self.each[first:last])


def load_offsets(memory: Pointer, count: int) -> list[Value]:
    """Read one offset, or an even number of them, as indices; two short ones are one load."""
    if memory.kind.bits == 64 or count == 1:
        return [memory.load(k).to("int64") for k in range(count)]
    words = [memory.cast("int64").load(k) for k in range(count // 2)]
    # Shifts extend the sign of the low half, and of the high half.
    return [offset for word in words for offset in (word << 32 >> 32, word >> 32)]


def further(offsets: Offsets | None, by: Value) -> Offsets:
    """Add to offsets, which are None for 0."""
    return Offsets(added(value_of(offsets), by))


def value_of(offsets: Offsets | None) -> Value | None:
    """Return offsets as a value; None for 0."""
    return None if offsets is None else offsets.value


def added(a: Value | None, b: Value) -> Value:
    """Add two offsets, of which the first may be None for 0."""
    return b if a is None else a + b


class FirstTaps(NamedTuple):
    """Where the first tap of each point of a group is, where neighbours along x are read at once.

    Attributes:
        inside: whether all taps of the point are in the image.
        some: whether the point must be sampled, as some taps are; None if all points must.
        offset: the offset of the first of them; for other points, that of the image's first pixel.
        weight_offset: the same in the weights of pixels; None if there are none.
    """

    inside: Value
    some: Value | None
    offset: Offsets
    weight_offset: Offsets | None


class State(NamedTuple):
    """What the points of a group need for every plane.

    Attributes:
        valid: whether the point has a result: otherwise it is NaN, or the fill value, as one of its
            coordinates is NaN or infinite.
        outside: whether the result is the fill value, because the point is outside the image; None
            if no point can be.
        dropped: where pixels are copied, whether the point's is dropped, and its value is that of
            dropped taps; None if that is the fill value, or no pixel is dropped.
        along: where points are along each axis, x first: positions; or, where pixels are read as
            pairs, the distances to the first pixel; empty where pixels are copied.
        slopes: d position / d coordinate along each axis, None where it is the same everywhere;
            empty unless a sweep differentiates.
        offset: the offset to add to those of the taps, or that of the first pixel of a pair; None
            for 0.
        weight_offset: the same in the weights of pixels.
        first_taps: where rows of taps are read.
        between: where pixels are read as pairs, whether the point is between the two along each
            axis; None if that makes no difference.
        row_weights: where rows of taps are read, the weights of each axis's taps; empty if each
            plane computes them.
        tangents: the directions in which points move, for second derivatives.
        fractions: where a sample is along each of its footprint's sides, from -1/2 to 1/2, for
            derivatives over footprints.
    """

    valid: Value
    outside: Value | None = None
    dropped: Value | None = None
    along: tuple[Value, ...] = ()
    slopes: tuple[Value | None, ...] = ()
    offset: Offsets | None = None
    weight_offset: Offsets | None = None
    first_taps: FirstTaps | None = None
    between: Value | None = None
    row_weights: tuple[tuple[Value, ...], ...] = ()
    tangents: tuple[Value, ...] = ()
    fractions: tuple[Value, ...] = ()

    @property
    def first(self) -> Offsets:
        """The offset, where there is one: of the first pixel of a pair, or of a copied one."""
        assert self.offset is not None
        return self.offset


class States:
    """Scratch memory for the states of a strip's groups."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.groups = STRIP // function.lanes
        # A state with memory in place of each value.
        self.memory: Any = None
        # The integer whose bits hold a condition, if there is one: memory in cache is scarce.
        self.bits = f"uint{function.lanes}" if function.lanes >= 8 else None
        self.condition_kind = self.bits or "int32"

    def save(self, number: Value, state: State) -> None:
        """Store the state of a group of the strip."""
        packed = map_values(self.packed, state)
        if self.memory is None:
            self.memory = map_values(self.reserved, packed)
        first = self.first_of(number)
        for memory, value in zip(values_of(self.memory), values_of(packed), strict=True):
            if value.kind.name in ("int32", "int64"):  # offsets, which are read lane by lane
                memory.store_in_parts(value, first[value.lanes])
            else:
                memory.store(value, first[value.lanes], aligned=True)

    def first_of(self, number: Value) -> dict[int, Value]:
        """Return the index of a group's first number in memory, by the lanes of a group."""
        return {lanes: number * lanes for lanes in (1, self.function.lanes)}

    def load(self, number: Value) -> State:
        """Read the state of a group of the strip."""
        state: State = self.loaded(self.first_of(number), self.memory)
        return state

    def loaded(self, first: dict[int, Value], memory: Any) -> Any:
        """Read the values of a group for which a state, or a field of it, has memory."""
        if isinstance(memory, Offsets):
            offsets: Any = memory.value  # in memory
            own = offsets.at(first[self.function.lanes])
            return Offsets(own.load(0, self.function.lanes, aligned=True), own)
        if isinstance(memory, tuple):
            parts = [self.loaded(first, part) for part in memory]
            return type(memory)(*parts) if hasattr(memory, "_fields") else tuple(parts)
        return None if memory is None else self.read(first, memory)

    def packed(self, value: Value) -> Value:
        """Return a value as it is stored."""
        value = value.splat(self.function.lanes)
        if value.kind.name != "bool":
            return value
        return value.bitcast(self.bits) if self.bits else value.to("int32")

    def unpacked(self, condition: Value) -> Value:
        """Return a condition from what is stored."""
        if self.bits:
            return condition.unpack(anew=host().bits < 512)
        return condition != 0

    def reserved(self, value: Value) -> Pointer:
        """Reserve memory for a value of all groups."""
        return self.function.scratch(value.kind, self.groups, value.lanes)

    def read(self, first: dict[int, Value], memory: Pointer) -> Value:
        """Read a value of a group: a real number, or a condition."""
        lanes = 1 if memory.kind.name == self.bits else self.function.lanes
        value = memory.load(first[lanes], lanes, aligned=True)
        return self.unpacked(value) if memory.kind.name == self.condition_kind else value


def values_of(field: Any) -> Iterator[Any]:
    """Yield the values that a state, or a field of it, has."""
    if isinstance(field, tuple):
        for part in field:
            yield from values_of(part)
    elif field is not None:
        yield field


def map_values(function: Callable[[Any], Any], field: Any) -> Any:
    """Return a state, or a field of it, with the results of a function in place of its values."""
    if isinstance(field, tuple):
        parts = [map_values(function, part) for part in field]
        return type(field)(*parts) if hasattr(field, "_fields") else tuple(parts)
    return None if field is None else function(field)
