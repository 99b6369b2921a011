"""Loads from the memory of planes: for each point of a group, a number or several neighbours.

`read_numbers` is the one primitive: lanes of what it returns are points, however many neighbours
in memory are read, whether these are two pixels of a plane, the channels of a pixel, or all of the
channels of all taps along x.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import NamedTuple

from gridsample.kernels.sampling.programs.groups import Group, Strip
from gridsample.kernels.sampling.programs.interleaving import interleave
from gridsample.kernels.sampling.programs.states import Offsets
from gridsample.kernels.vector import Function, Kind, Pointer, Value, joined, kind_of, transpose

# The bits of the longest word.
MAX_WORD = 64
# The most numbers of a load, which are transposed in registers, and the bits of the shortest ones.
MAX_NUMBERS, MIN_BITS = 4, 32


def read_each(plane: Pointer, offsets: Offsets) -> Value:
    """Read one pixel for each offset."""
    if plane.gathers_fast:
        return plane.gather(offsets.in_register())
    return plane.load_each(offsets.places())


def read_pairs(row: Pointer, offsets: Offsets) -> tuple[Value, Value]:
    """Read two neighbouring elements at each offset: one load for both."""
    kind, lanes = row.kind, offsets.value.lanes
    if kind.bits == 64:
        pairs = joined([row.load(offset, 2) for offset in offsets.places()])
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
    return load_words(row, offsets.places(), word)


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


def read_numbers(row: Pointer, offsets: Offsets, count: int, longer: bool = False) -> list[Value]:
    """Read ``count`` neighbouring elements at each offset; the lanes of each are points.

    Loads have a power of two of elements.  Where the count is none, two loads overlap, so that no
    other memory is touched.

    Args:
        row: the memory.
        offsets: the offset of each point's first element.
        count: the number of elements.
        longer: whether rows are at least as long as a word, and follow each other upwards in
            memory (`KnownPixels.fills_words`).  A word may then begin some elements earlier.
    """
    if count == 1:
        return [read_each(row, offsets)]
    word_length = 1 << (count - 1).bit_length()
    if longer and word_length * row.kind.bits <= MAX_WORD and word_length > count:
        return elements_of(read_word(row, offsets, count, longer), row.kind, count)
    length, numbers = load_length(row, count, offsets.value.lanes), list[Value]()
    for begin in [*range(0, count - length + 1, length), *[count - length] * (count % length > 0)]:
        part = read_block(row.at(begin), offsets, length)
        numbers += part[len(numbers) - begin :]
    return numbers


def load_length(row: Pointer, count: int, lanes: int) -> int:
    """Return how many of ``count`` elements a load reads: a power of two."""
    bits = row.kind.bits
    most = MAX_NUMBERS * max(bits, MIN_BITS) if lanes >= MAX_NUMBERS else MAX_WORD
    return min(1 << (count.bit_length() - 1), most // bits)


def read_block(row: Pointer, offsets: Offsets, length: int) -> list[Value]:
    """Read a power of two of elements at each offset: a word, or a vector that is transposed."""
    lanes, bits = offsets.value.lanes, length * row.kind.bits
    if length == 1:
        return [read_each(row, offsets)]
    if length == 2:
        return [*read_pairs(row, offsets)]
    if bits <= MAX_WORD:
        return elements_of(read_words(row, offsets, kind_of(f"uint{bits}")), row.kind, length)
    # Register k has the numbers of the points k, k + count, ...; once it is transposed, number k of
    # all points in their order.
    narrow = row.kind.bits < MIN_BITS
    number = kind_of(f"uint{MIN_BITS}") if narrow else row.kind
    count = bits // number.bits
    places = [row.at(place).cast(number) for place in offsets.places()]
    registers = [
        joined([places[k + begin].load(0, count) for begin in range(0, lanes, count)])
        for k in range(count)
    ]
    numbers = transpose(registers)
    if not narrow:
        return numbers
    each = number.bits // row.kind.bits
    return [element for word in numbers for element in elements_of(word, row.kind, each)]


def read_word(row: Pointer, offsets: Offsets, count: int, longer: bool) -> Value:
    """Read ``count`` neighbouring elements at each offset as the lowest bits of a word.

    The bits above them are any.  ``longer`` as in `read_numbers`.
    """
    length = 1 << (count - 1).bit_length()
    word = kind_of(f"uint{length * row.kind.bits}")
    if length == count:
        return read_words(row, offsets, word)
    if not longer:
        return joined_in_words(read_numbers(row, offsets, count), word)
    # The word begins some elements earlier, except close to the beginning of the image.
    earlier = offsets.value.minimum(length - count)
    words = read_words(row, Offsets(offsets.value - earlier), word)
    return words >> earlier.to(word) * row.kind.bits


def joined_in_words(elements: Sequence[Value], word: Kind) -> Value:
    """Return words with some elements as their lowest bits, the first one lowest."""
    bits = elements[0].kind.bits
    parts = [
        element.bitcast(f"uint{bits}").to(word) << k * bits for k, element in enumerate(elements)
    ]
    return functools.reduce(operator.or_, parts)


def elements_of(words: Value, kind: Kind, count: int) -> list[Value]:
    """Split words into their first elements."""
    halves, bits = [words], kind.bits
    if words.kind.bits == 64:
        parts, lanes = words.bitcast("uint32"), words.lanes
        halves = [parts.shuffle(range(half, 2 * lanes, 2)) for half in range(2)]
    elements = []
    for k in range(count):
        half, place = divmod(k * bits, halves[0].kind.bits)
        part = halves[half] >> place if place else halves[half]
        if kind.family == "unsigned":
            # Conversions of signed numbers are faster, and these are not negative.
            elements.append((part & (1 << bits) - 1).bitcast(f"int{part.kind.bits}"))
        else:
            elements.append(part.to(f"uint{bits}").bitcast(kind))
    return elements


def spill_numbers(numbers: Sequence[Value]) -> tuple[Pointer, int]:
    """Store the numbers of each point side by side; also return the distance of two points."""
    function, lanes, count = numbers[0].function, numbers[0].lanes, len(numbers)
    if count == 1:
        return function.spill(numbers[0]), 1
    length = 1 << (count - 1).bit_length()
    memory = function.scratch(numbers[0].kind, length, lanes)
    padded = [*numbers, *[numbers[0].like(0)] * (length - count)]
    for k, mixed in enumerate(interleave(padded)):
        memory.store(mixed, k * lanes, aligned=True)
    return memory, length


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


class NeighbourLayout(NamedTuple):
    """Where the neighbours of a pixel are in memory.

    Attributes:
        steps: the distances of neighbours.
        channels: the channels of a pixel.
        fills_words: whether words may be read that begin before a row; see `read_numbers`.
    """

    steps: Strides
    channels: int = 1
    fills_words: bool = False


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
