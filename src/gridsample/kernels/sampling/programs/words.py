"""Samples of pixels whose channels fit into a word of the processor, such as RGB in bytes.

One load reads all channels of a pixel or, for linear interpolation, of two neighbours along x:

    bits of a word of eight bytes:   R0 G0 B0 R1 G1 B1 .. ..

Lanes are points, as for single planes, so that weights need not be repeated for channels.  A word
may be longer than what it is read for.  At the end of the image it is therefore read a few elements
earlier, and shifted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gridsample.definitions.plan import Plan
from gridsample.kernels.sampling.layouts import Planes, reach_of
from gridsample.kernels.sampling.programs.axes import Tap
from gridsample.kernels.sampling.programs.counting import sum_counted
from gridsample.kernels.sampling.programs.gather import Gather
from gridsample.kernels.sampling.programs.groups import Group, Strip
from gridsample.kernels.sampling.programs.loads import read_words
from gridsample.kernels.sampling.programs.pairs import Pairs, row_of
from gridsample.kernels.sampling.programs.sampler import KnownStrides, Sampler
from gridsample.kernels.sampling.programs.states import Offsets, State
from gridsample.kernels.sampling.programs.sums import both
from gridsample.kernels.vector import Kind, Pointer, Value, kind_of

# The bits of the longest word.
MOST = 64


def word_of(kind: Kind, elements: int) -> Kind:
    """Return the kind of the shortest word for so many elements."""
    return kind_of(f"uint{1 << (kind.bits * elements - 1).bit_length()}")


def reads_words(plan: Plan, source: Planes, known: KnownStrides, way: type[Sampler]) -> bool:
    """Whether the pixels of a run are read as words."""
    kind, elements = kind_of(source.kind), known.channels * way.pixels_of_word
    fits = known.channels > 1 and 0 < elements * kind.bits <= MOST and not kind.packed
    if not (fits and known.x_contiguous and known.contiguous) or min(source.strides) < 0:
        return False
    return last_word(plan, source, known.channels, way) >= 0


def last_word(plan: Plan, source: Planes, channels: int, way: type[Sampler]) -> int:
    """Return the last place in an item at which words may be read, in all rows of a point's taps.

    It is negative if the image is too small for words.
    """
    pixels = way.pixels_of_word
    end = reach_of(plan.spatial[::-1], source.strides) + channels
    kind = kind_of(source.kind)
    last = end - word_of(kind, pixels * channels).bits // kind.bits
    return last - sum(source.strides[1:]) if pixels == 2 else last


class WordPairs:
    """Reads one channel of two neighbouring pixels along x, for linear interpolation.

    Attributes:
        pixels: the elements of both pixels, for each row that has been read.
        channel: the number of the channel that is read next.
        channels: how many channels a pixel has.
    """

    def __init__(self, reader: GatherWords, state: State, source: Pointer) -> None:
        self.reader, self.source, self.channel = reader, source, 0
        offset = state.first.value
        last = reader.call.last_load.to(offset.kind)
        first = offset.minimum(last)
        self.offsets = Offsets(first).kept()
        self.late = (offset - first).to(reader.word) * reader.kind.bits
        self.rows: dict[tuple[int, ...], tuple[list[Value], Value | None]] = {}

    def row(self, outer: tuple[Tap, ...], taps: Sequence[Tap]) -> list[Value]:
        """Read the channel of both pixels in one row."""
        key = tuple(tap.number for tap in outer)
        if key not in self.rows:
            self.rows[key] = self.read(outer)
        elements, present = self.rows[key]
        pixels = []
        for tap in taps:
            pixel = elements[tap.number * self.reader.channels + self.channel]
            here = both(present, tap.present)
            pixels.append(pixel if here is None else here.select(pixel, 0.0))
        return pixels

    def read(self, outer: tuple[Tap, ...]) -> tuple[list[Value], Value | None]:
        """Read all channels of both pixels in one row, as real numbers."""
        reader = self.reader
        row, present = row_of(self.source, outer, reader.call.strides[1:])
        words = read_words(row, self.offsets, reader.word) >> self.late
        return [
            number.to(reader.function.real)
            for number in elements_of(words, reader.kind, 2 * reader.channels)
        ], present


class GatherWords(Gather):
    """Writes the loops of a gather that reads words.

    Attributes:
        kind: the kind of the elements of a pixel.
        channels: how many elements a pixel has.
        word: the kind of words that are read.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        description = self.description
        self.kind, self.channels = kind_of(description.image), description.known.channels
        self.word = word_of(self.kind, self.channels * description.way.pixels_of_word)

    def process_plane(self, strip: Strip, plane: Value, end: Value) -> None:
        """Sample the pixels of which a plane is the first channel at the points of a strip."""
        source = self.image.plane(strip, plane)
        target = self.call.out.at(self.call.out_planes.load(plane))
        fills = [self.fills(plane + c) for c in range(self.channels)]
        with self.prefetch.groups(strip) as (number, group):
            state = self.states.load(number)
            write = self.summed if isinstance(self.sampler, Pairs) else self.copied
            words = write(state, source, fills)
            self.store(group, target, words)

    def copied(self, state: State, source: Pointer, fills: list[dict[str, Value]]) -> Value:
        """Copy the pixels of a group, as words."""
        offset = state.first.value
        first = offset.minimum(self.call.last_load.to(offset.kind))
        words = read_words(source, Offsets(first), self.word)
        words = words >> (offset - first).to(self.word) * self.kind.bits
        around = {name: self.packed([fill[name] for fill in fills], self.word) for name in fills[0]}
        return self.filled(state, words, around)

    def summed(self, state: State, source: Pointer, fills: list[dict[str, Value]]) -> Value:
        """Sum the taps of a group, all channels; return the results as words."""
        results = [self.stored(value) for value in self.sums(state, source, fills)]
        return self.packed(results, word_of(results[0].kind, self.channels))

    def sums(self, state: State, source: Pointer, fills: Sequence[dict[str, Value]]) -> list[Value]:
        """Sum the taps of a group in each channel; see `Pairs.choose_between`."""
        assert isinstance(self.sampler, Pairs)
        totals = self.sampler.choose_between(
            state, self.channels, lambda between: self.sums_of_pairs(state, source, fills, between)
        )
        return [self.filled(state, total, fill) for total, fill in zip(totals, fills, strict=True)]

    def sums_of_pairs(
        self, state: State, source: Pointer, fills: Sequence[dict[str, Value]], between: bool
    ) -> list[Value]:
        """Sum the taps of a group in each channel; see `Axis.taps_of_pair`."""
        assert isinstance(self.sampler, Pairs)
        taps = self.sampler.pairs(state, 0, False, between)
        order, totals = (0,) * len(self.description.axes), []
        pairs = WordPairs(self, state, source)
        for channel, fill in enumerate(fills):
            pairs.channel = channel
            totals.append(sum_counted(pairs, None, None, taps, fill["dropped"], [order])[order])
        return totals

    def packed(self, numbers: Sequence[Value], word: Kind) -> Value:
        """Combine the channels of pixels to words."""
        bits, total = numbers[0].kind.bits, None
        for c, number in enumerate(numbers):
            part = number.bitcast(f"uint{bits}").to(word) << c * bits
            total = part if total is None else total | part
        assert total is not None
        return total

    def store(self, group: Group, target: Pointer, words: Value) -> None:
        """Write the channels of a group's points, which are neighbours in memory."""
        place = group.item * self.call.out_item + group.point * self.channels
        elements = words.bitcast(target.kind)
        each = elements.lanes // words.lanes
        kept = [k for k in range(elements.lanes) if k % each < self.channels]
        target.store(elements if each == self.channels else elements.shuffle(kept), place)


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
