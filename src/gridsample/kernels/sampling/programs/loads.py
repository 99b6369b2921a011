"""Loads from the memory of planes: for each point of a group, a pixel, two neighbours or a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gridsample.kernels.sampling.programs.groups import Group, Strip
from gridsample.kernels.sampling.programs.states import Offsets
from gridsample.kernels.vector import Function, Kind, Pointer, Value, joined, kind_of


def read_each(plane: Pointer, offsets: Offsets) -> Value:
    """Read one pixel for each offset."""
    if plane.gathers_fast:
        return plane.gather(offsets.in_register())
    return plane.load_each(load_offsets(offsets.in_memory(), offsets.value.lanes))


def load_offsets(memory: Pointer, count: int) -> list[Value]:
    """Read one offset, or an even number of them, as indices; two short ones are one load."""
    if memory.kind.bits == 64 or count == 1:
        return [memory.load(k).to("int64") for k in range(count)]
    words = [memory.cast("int64").load(k) for k in range(count // 2)]
    # Shifts extend the sign of the low half, and of the high half.
    return [offset for word in words for offset in (word << 32 >> 32, word >> 32)]


def read_pairs(row: Pointer, offsets: Offsets) -> tuple[Value, Value]:
    """Read two neighbouring elements at each offset: one load for both."""
    kind, lanes = row.kind, offsets.value.lanes
    if kind.bits == 64:
        each = load_offsets(offsets.in_memory(), lanes)
        pairs = joined([row.load(offset, 2) for offset in each])
        return pairs.shuffle(range(0, 2 * lanes, 2)), pairs.shuffle(range(1, 2 * lanes, 2))
    word = kind_of(f"uint{2 * kind.bits}")
    if kind.bits < 32:
        words = read_words(row, offsets, word)
        narrow = f"uint{kind.bits}"
        return words.to(narrow).bitcast(kind), (words >> kind.bits).to(narrow).bitcast(kind)
    half = lanes // 2
    low, high = (
        read_words(row, offsets.part(first, half), word).bitcast(kind) for first in (0, half)
    )
    return low.shuffle(range(0, 2 * lanes, 2), high), low.shuffle(range(1, 2 * lanes, 2), high)


def read_words(row: Pointer, offsets: Offsets, word: Kind) -> Value:
    """Read a word at each offset, which counts elements."""
    lanes = offsets.value.lanes
    if row.cast(word).gathers_fast and lanes > 1:
        return row.gather(offsets.in_register(), word=word)
    return load_words(row, load_offsets(offsets.in_memory(), lanes), word)


def load_words(row: Pointer, offsets: Sequence[Value], word: Kind) -> Value:
    """Read a word at the index of each element."""
    if len(offsets) == 1:
        return row.at(offsets[0]).cast(word).load()
    # LLVM reads the upper half of a register at once only if it is a real number.
    number = kind_of("float64") if word.bits == 64 else word
    result = row.function.undefined(number, len(offsets))
    for lane, offset in enumerate(offsets):
        result = result.insert(row.at(offset).cast(number).load(), lane)
    return result.bitcast(word)


class Strides(NamedTuple):
    """The distances of neighbouring pixels, in elements.

    Attributes:
        x: along x; None if neighbours along x are neighbours in memory.
        others: along the other axes, y first.
    """

    x: Value | None
    others: Sequence[Value]

    @classmethod
    def of(cls, steps: Sequence[Value], adjacent: bool) -> Strides:
        """Return the distances ``steps``, x first; ``adjacent`` if that along x is known."""
        return cls(None if adjacent else steps[0], steps[1:])


def read_neighbours(row: Pointer, offsets: Offsets, step: Value | None) -> tuple[Value, Value]:
    """Read two neighbours along x for each offset; ``step`` is their distance; see `Strides`."""
    if step is None:
        return read_pairs(row, offsets)
    return read_each(row, offsets), read_each(row.at(step), offsets)


class Image:
    """The planes of an image, or of its gradient.

    Attributes:
        memory: its memory.
        item: the distance between items, in elements.
        planes: the place of each plane's first element.
    """

    def __init__(self, memory: Pointer, item: Value, planes: Pointer) -> None:
        self.memory, self.item, self.planes = memory, item, planes

    def plane(self, points: Strip | Group, number: Value) -> Pointer:
        """The memory of a plane of the points' item; of the first item if they are a list."""
        begin = self.planes.load(number)
        return self.memory.at(begin if points.listed else begin + points.item * self.item)


def splat_of(function: Function, pointer: Pointer, plane: Value) -> Value:
    """Read the number of a plane into all lanes."""
    return pointer.load(plane).splat(function.lanes)
