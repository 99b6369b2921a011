"""Pixels of many channels over footprints: lanes are the channels of one sample of a point.

Samples are located as in `samples`, and read as in `channels`: the taps of one sample of each point
of a group are listed, once for all channels, and then read point by point.  Points that have no
such sample are left out.  The sums over the samples of a point wait in scratch memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gridsample.definitions.caches import cached_property
from gridsample.kernels.sampling.programs.channels import ChannelPlanes, Channels
from gridsample.kernels.sampling.programs.footprints import Footprint, Vectors
from gridsample.kernels.sampling.programs.groups import Group
from gridsample.kernels.sampling.programs.listed import Block, Point
from gridsample.kernels.sampling.programs.samples import Samples, Span
from gridsample.kernels.sampling.programs.states import State
from gridsample.kernels.sampling.programs.tap_lists import TapList
from gridsample.kernels.vector import Pointer, Value


class FootprintChannels(Samples, Channels):
    """Writes the loops over the samples of points, and over their channels in registers.

    Attributes:
        totals: the number of samples of each point of a group, in memory.
        sample: the number of the sample that is processed.
    """

    totals: Pointer
    sample: Value

    @property
    def planes_together(self) -> int | Value:
        """The number of planes that are sampled together."""
        return self.step

    @cached_property
    def sums_memory(self) -> Pointer:
        """The sums over samples: of each point, those of the same name side by side."""
        memory: Pointer = self.call.scratch.at(self.bytes_of_lists)
        return memory.cast(self.function.real)

    def begin(self, group: Group, footprint: Footprint) -> None:
        """Do what comes before the samples of a group."""
        super().begin(group, footprint)
        self.totals = self.function.spill(footprint.total)

    def state_of_sample(
        self, group: Group, coordinates: Vectors, fractions: Vectors, waits: Value
    ) -> State:
        """Return the state of a sample; points that wait are left out when it is processed."""
        none = self.function.constant(False, "bool", self.function.lanes)
        return super().state_of_sample(group, coordinates, fractions, none)

    def add_samples(self, group: Group, footprint: Footprint, samples: Span, planes: Span) -> None:
        """Add the samples of some rounds, whose states are known, in the planes of a pixel."""
        memory = self.planes_at(group, *planes)
        with self.function.loop(*samples) as loop:
            self.sample = loop.index.to(self.function.real)
            self.process_group(loop.index - samples[0], group, memory)

    def process_point(
        self, point: Point, reads: TapList, adds: TapList, planes: ChannelPlanes
    ) -> None:
        """Process a sample of one point, if it has that many."""
        self.clear_products(point)
        with self.function.when(self.sample < self.totals.load(point.lane)):
            super().process_point(point, reads, adds, planes)

    def upstream(self, point: Point, block: Block, planes: ChannelPlanes) -> dict[str, list[Value]]:
        """Read the numbers of arrays of points, and divide them among the samples."""
        total = self.totals.load(point.lane)
        return {
            name: [value / total for value in values]
            for name, values in super().upstream(point, block, planes).items()
        }

    def numbers_of_block(
        self, plane: int | Value, block: Block, point: Point
    ) -> dict[str, list[Value]]:
        """Read the numbers of the planes of a block; samples that are not valid are NaN."""
        invalid = block.splat(self.function.constant(math.nan, self.function.real))
        return {**super().numbers_of_block(plane, block, point), "invalid": invalid}

    def store_results(
        self,
        point: Point,
        block: Block,
        results: Sequence[Mapping[str, Value]],
        planes: ChannelPlanes,
    ) -> None:
        """Add the results of a sample to the sums of its point."""
        for k, name in enumerate(self.summed):
            home = self.home(point, k, block, planes)
            for (first, lanes), each in zip(block.registers, results, strict=True):
                before = home.load(first, lanes)
                total = before + each[name]
                if block.fresh is not None:
                    total = block.fresh.select(total, before)
                home.store(total, first)

    def home(self, point: Point, k: int, block: Block, planes: ChannelPlanes) -> Pointer:
        """Return where sum ``k`` of the channels of a block is."""
        number = (point.lane * len(self.summed) + k) * planes.channels
        return self.sums_memory.at(number).at(block.first)

    def store_planes(self, group: Group, footprint: Footprint, planes: Span) -> None:
        """Store the means of the planes of a pixel."""
        if not self.summed:
            return
        function, memory = self.function, self.planes_at(group, *planes)
        place, known = self.points.place_of_value(group), function.constant(True, "bool")
        with function.loop(0, function.lanes) as loop:
            point = Point(loop.index, place(loop.index), known)
            total = self.totals.load(point.lane)
            with function.when(total > 0.0), self.blocks(memory.channels) as block:
                results = self.means_of(point, block, total, memory)
                super().store_results(point, block, results, memory)

    def means_of(
        self, point: Point, block: Block, total: Value, planes: ChannelPlanes
    ) -> list[dict[str, Value]]:
        """Return the results of a point in each register of a block."""
        homes = [self.home(point, k, block, planes) for k in range(len(self.summed))]
        numbers = super().numbers_of_block(planes.first + block.first, block, point)
        return [
            self.results_of(
                [home.load(first, lanes) / total for home in homes],
                {name: each[r] for name, each in numbers.items()},
            )
            for r, (first, lanes) in enumerate(block.registers)
        ]
