"""Copies of pixels whose channels fit into a word of the processor, such as RGB in bytes.

One load reads the channels of a pixel, and they stay together: values are selected, and stored, as
words.  A word may have more bits than a pixel, which are not stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from gridsample.kernels.sampling.programs.groups import Group
from gridsample.kernels.sampling.programs.loads import joined_in_words
from gridsample.kernels.sampling.programs.sweep import Sweep
from gridsample.kernels.vector import Pointer, Value, kind_of


class CopiedWords(Sweep):
    """Writes the loops that copy pixels as words."""

    @property
    def step(self) -> int:
        """The number of planes that are processed together: the channels of a word."""
        return self.description.pixels.channels

    def numbers_of(self, plane: Value) -> dict[str, Value]:
        """Read the numbers of the planes of a word."""
        each = [super(CopiedWords, self).numbers_of(plane + k) for k in range(self.step)]
        bits = kind_of(self.description.image).bits
        word = kind_of(f"uint{bits << (self.step - 1).bit_length()}")
        return {
            name: joined_in_words([numbers[name] for numbers in each], word) for name in each[0]
        }

    def stored(self, value: Value, name: str, lanes: int = 0) -> Value:
        """Return words as they are."""
        return value

    def store_values(
        self, group: Group, planes: Sequence[Pointer], values: Sequence[Value]
    ) -> None:
        """Write the channels of a group's points, which are neighbours in memory."""
        (memory,), (words,), channels = planes, values, self.step
        elements = words.bitcast(memory.kind)
        length = elements.lanes // words.lanes
        if group.full is None and self.points.contiguous:
            kept = [k for k in range(elements.lanes) if k % length < channels]
            place = group.item * self.call.out_item + group.point * channels
            memory.store(elements.shuffle(kept), place)
            return
        kept_elements = self.function.spill(elements, soon=True)
        for lane, place in enumerate(self.points.places_of_values(group)):
            memory.store(kept_elements.load(lane * length, channels), place)
