"""Copies of the rows of an image that is not contiguous, to where they are.

Pixels that are near each other in memory are read in whole registers, whose lanes are then
permuted: those of a flipped image, one channel of three, colours in reverse.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

from gridsample.kernels.vector import Function, Pointer, Value, host

# The greatest distance of neighbouring pixels that are read in registers.
MAX_DISTANCE = 8


class Packing(NamedTuple):
    """How the pixels of a row lie in memory.

    Attributes:
        numbers: the numbers of a pixel.
        pixel_step: the distance of neighbouring pixels, which may be negative.
        number_step: the distance of the numbers of a pixel, likewise.
    """

    numbers: int
    pixel_step: int
    number_step: int

    @property
    def span(self) -> int:
        """The distance between the first and the last number of a pixel in memory."""
        return (self.numbers - 1) * abs(self.number_step)

    def pixels_in(self, lanes: int) -> int:
        """Return of how many neighbouring pixels a register has, and holds, all numbers.

        These are two counts if pixels share numbers, as those of a broadcast image do.
        """
        read = (lanes - self.span - 1) // abs(self.pixel_step) + 1
        return min(read, lanes // max(1, self.numbers))

    def lanes_of(self, pixels: int) -> list[int]:
        """Return the lane of each number of some pixels, of which the register has no others."""
        lanes = [
            pixel * self.pixel_step + number * self.number_step
            for pixel in range(pixels)
            for number in range(self.numbers)
        ]
        first = min(lanes)
        return [lane - first for lane in lanes]


def packing_of(numbers: int, pixel_step: int, number_step: int, bits: int) -> Packing | None:
    """Return how the pixels of rows lie in memory, whose numbers have so many bits.

    None if they are contiguous, or not near each other: a register then has less than two of them.
    """
    packing = Packing(numbers, pixel_step, number_step)
    if (pixel_step, number_step) == (numbers, 1) or not 0 < abs(pixel_step) <= MAX_DISTANCE:
        return None
    return packing if packing.pixels_in(host().bits // bits) > 1 else None


def copied(
    function: Function,
    call: SimpleNamespace,
    planes: tuple[Value, Value],
    rows: tuple[Value, Value],
    packing: Packing | None,
) -> Pointer:
    """Copy rows of some planes to scratch memory, where they are contiguous."""
    (first, count), (low, high) = planes, rows
    word = f"uint{call.source.kind.bits}"
    image, memory = call.source.cast(word), call.scratch.at(call.copy).cast(word)
    length = call.pixels * call.numbers
    step = call.lines * length
    with function.loop(0, count) as plane, function.loop(0, call.lines) as line:
        item = (first + plane.index) // call.channels
        channel = first + plane.index - item * call.channels
        source = image.at(item * call.item_step + channel * call.channel_step)
        source = source.at(line.index * call.line_step)
        target = memory.at((plane.index * (high - low) * call.lines + line.index) * length)
        if packing is not None:
            with function.loop(low, high) as row:
                start = source.at(row.index * call.row_step)
                copy_row(function, call, packing, start, target.at((row.index - low) * step))
        else:
            contiguous = (call.number_step == 1) & (call.pixel_step == call.numbers)
            with function.when(contiguous), function.loop(low, high) as row:
                place = target.at((row.index - low) * step)
                place.copy(source.at(row.index * call.row_step), length, function.lanes)
            with function.when(~contiguous):
                copy_columns(function, call, source, target, rows)
    copy: Pointer = memory.cast(call.source.kind)
    return copy


def copy_row(
    function: Function, call: SimpleNamespace, packing: Packing, source: Pointer, target: Pointer
) -> None:
    """Copy a row of pixels that are near each other.

    Whole registers are read, and written, as long as all of their lanes are in the row: lanes
    behind the pixels of a register are overwritten by the next one.
    """
    lanes, numbers = host().bits // source.kind.bits, packing.numbers
    pixels = packing.pixels_in(lanes)
    picked = packing.lanes_of(pixels)
    steps = (pixels - 1) * packing.pixel_step, (numbers - 1) * packing.number_step
    lowest = sum(min(step, 0) for step in steps)
    # In the direction of increasing addresses, a register may have so many more pixels.
    more = -(-(lanes - packing.span - 1) // abs(packing.pixel_step)) - (pixels - 1)
    begin = more if packing.pixel_step < 0 else 0
    end = call.pixels - max(pixels + more * (packing.pixel_step > 0), -(-lanes // numbers)) + 1

    def copy_pixels(start: Value | int, stop: Value) -> None:
        with function.loop(start, stop) as pixel:
            for k in range(numbers):
                offset = pixel.index * packing.pixel_step + k * packing.number_step
                target.store(source.load(offset), pixel.index * numbers + k)

    copied_pixels = call.pixels.like(begin)
    copy_pixels(0, copied_pixels.minimum(call.pixels))
    with function.loop(begin, end, pixels, carry=[copied_pixels]) as loop:
        register = source.load(loop.index * packing.pixel_step + lowest, lanes)
        rest = [None] * (lanes - len(picked))
        target.store(register.shuffle([*picked, *rest]), loop.index * numbers)
        loop.carry(loop.index + pixels)
    copy_pixels(loop.carried[0], call.pixels)


def copy_columns(
    function: Function,
    call: SimpleNamespace,
    source: Pointer,
    target: Pointer,
    rows: tuple[Value, Value],
) -> None:
    """Copy a few rows at a time, pixel after pixel: the image may be transposed."""
    low, high = rows
    step = call.lines * call.pixels * call.numbers
    with (
        function.loop(low, high, function.lanes) as group,
        function.loop(0, call.pixels) as pixel,
        function.loop(0, call.numbers) as k,
    ):
        number = source.at(pixel.index * call.pixel_step + k.index * call.number_step)
        place = target.at(pixel.index * call.numbers + k.index)
        last = (group.index + function.lanes).minimum(high)
        with function.loop(group.index, last) as row:
            value = number.load(row.index * call.row_step)
            place.store(value, (row.index - low) * step)
