"""The loops of a program around the formula of its operation: strips, planes and groups.

`Sweep` writes them for points of one sample whose lanes are points.  Its subclasses write those for
pixels whose channels are lanes (`channels`), for points of several samples (`samples`), for both
(`footprint_channels`), for pixels that are copied as words (`copied_words`), and for labels
(`labels`).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gridsample.kernels import forks
from gridsample.kernels.sampling.layouts import storage_of
from gridsample.kernels.sampling.programs.counting import NUMBERS, PIXEL, Counting, Counts, Tried
from gridsample.kernels.sampling.programs.grid_gradients import GridGradient
from gridsample.kernels.sampling.programs.groups import Group, Strip, TaskRange
from gridsample.kernels.sampling.programs.loads import Image, splat_of
from gridsample.kernels.sampling.programs.operation import (
    ArrayUse,
    Operation,
    Order,
    Orders,
    Results,
    Sums,
    Terms,
)
from gridsample.kernels.sampling.programs.points import AFFINE, Points
from gridsample.kernels.sampling.programs.prefetching import Prefetch
from gridsample.kernels.sampling.programs.sampler import Description
from gridsample.kernels.sampling.programs.states import State, States
from gridsample.kernels.sampling.programs.sums import GroupTaps
from gridsample.kernels.sampling.programs.ways import Copies
from gridsample.kernels.sampling.settings import Call
from gridsample.kernels.vector import Function, Pointer, Value, kind_of


def arrays_of(description: Description) -> dict[str, str]:
    """Return the kinds of the arrays that a program takes, by name.

    Over footprints, these are also the gradients of their sides, and a report for each task.
    """
    arrays, sides = {}, 0
    for name, use in description.operation.uses(description.needs).items():
        arrays[name] = kind_in(description, use)
        if use.access == "total" and is_affine(description):
            arrays[name] = "float64"
        elif use.access == "total":
            sides = len(description.axes)
    if description.footprints:
        arrays |= {f"side{a}": description.real for a in range(sides)} | {"report": "int64"}
    return arrays


def body_of(description: Description) -> type[Sweep]:
    """Return the class that writes the program of a description.

    Most processes need one of them, so each module is imported when its first program is written.
    """
    sampled, votes = description.footprints, description.operation.votes
    if description.pixels.in_lanes:
        path = "footprint_channels.FootprintChannels" if sampled else "channels.Channels"
        return load_body(path)
    if description.way is Copies and description.pixels.channels > 1:
        return load_body("copied_words.CopiedWords")
    paths = {
        (False, False): "sweep.Sweep",
        (True, False): "samples.Samples",
        (False, True): "labels.Labels",
        (True, True): "footprint_labels.FootprintLabels",
    }
    return load_body(paths[sampled, votes])


@functools.cache
def load_body(path: str) -> type[Sweep]:
    """Import a class, given its module and its name."""
    module, name = path.split(".")
    with forks.held():
        imported = importlib.import_module(f"gridsample.kernels.sampling.programs.{module}")
    body: type[Sweep] = getattr(imported, name)
    return body


def is_affine(description: Description) -> bool:
    """Whether the grid is computed by affine maps, whose gradients are summed in float64."""
    return description.points.grid_layout == AFFINE


def kind_in(description: Description, use: ArrayUse) -> str:
    """Return the kind of an array's numbers."""
    if use.place == "grid":
        return description.points.kind
    copied = description.way is Copies or description.operation.votes
    kinds = {
        "real": description.real,
        "image": description.image,
        "values": description.values,
        "results": storage_of(description.values),
        "fill": kind_of(description.image).loaded.name if copied else description.real,
        "weight": storage_of(description.tap_rule.weight_kind),
    }
    return kinds.get(use.kind, use.kind)


def join_parts(sums: Sequence[dict[Order, Value]], plain: Order) -> None:
    """Make the plain sum of each part of a complex number NaN where that of the other part is."""
    for real, imaginary in zip(sums[::2], sums[1::2], strict=True):
        parts = real[plain], imaginary[plain]
        defined = (parts[0] == parts[0]) & (parts[1] == parts[1])
        real[plain], imaginary[plain] = (defined.select(part, math.nan) for part in parts)


class PlaneMemory(NamedTuple):
    """Where a plane, or the planes of a pixel's channels, are in each array.

    Attributes:
        pixels: the memory of arrays of pixels that are read or added to.
        points: that of arrays of points: of each plane if these are apart, otherwise of the first.
        weights: that of the weights of pixels, or None.
        numbers: the numbers of each plane.
    """

    pixels: Mapping[str, Pointer]
    points: Mapping[str, Sequence[Pointer]]
    weights: Pointer | None
    numbers: Sequence[Mapping[str, Value]]


class Sweep:
    """Writes a program: the loops of an operation over points and planes.

    Attributes:
        channels: how many numbers of a pixel are read together, each in registers of its own.
        reads, adds: the orders of derivatives that the formula reads and adds, for each array.
        derivatives: the highest order of derivatives of weights.
        images: the arrays of pixels that are read or added to, by name.
        gradient: what adds up the gradient of the grid; None if it is not needed.
        counts: how pixels count; None if they all count alike.
    """

    def __init__(self, function: Function, description: Description, call: Call) -> None:
        self.function, self.description, self.call = function, description, call
        self.operation: Operation = description.operation
        rank = len(description.axes)
        self.needs, self.orders = description.needs, Orders.of(rank)
        self.uses = self.operation.uses(self.needs)
        self.reads = self.operation.reads(self.orders, self.needs)
        self.adds = self.operation.adds(self.orders, self.needs)
        used = [order for each in (*self.reads.values(), *self.adds.values()) for order in each]
        self.derivatives = max([max(order[-rank:]) for order in used], default=0)
        self.sampler = description.way(function, description, call)
        self.channels, pixels = self.sampler.channels, description.pixels
        together = 1 if pixels.apart else self.channels
        self.points = Points(
            function, description.points, description.axes, pixels.contiguous, together, call
        )
        self.images = {
            **{n: Image(getattr(call, n), call.image_item, call.image_planes) for n in self.reads},
            **{n: Image(getattr(call, n), call.sums_item, call.sums_planes) for n in self.adds},
        }
        self.states = States(function)
        self.prefetch = Prefetch(self.sampler, self.points, self.states, description.footprints)
        self.counts, self.missed = None, None
        if self.operation.counts:
            rule, parts = description.tap_rule, description.pixels.parts
            self.counts = Counts(function, rule, parts, call)
            self.missed = function.scratch("int32", 1)
        self.gradient = None
        if any(use.access == "total" for use in self.uses.values()):
            self.gradient = GridGradient(function, self.points, call)

    def formula(self, terms: Terms) -> Results:
        """Compute what is done with the sums over taps."""
        return self.operation.formula(terms)

    def named(self, place: str, access: str) -> list[str]:
        """Return the names of the arrays of some place and access."""
        return [name for name, use in self.uses.items() if use[:2] == (place, access)]

    # Loops ----------------------------------------------------------------------------------------

    def write(self, task: Value) -> None:
        """Write the program of one task."""
        part = self.points.range_of(task)
        if self.missed is not None:
            self.missed.store(self.function.constant(0, "int32"))
        with self.counts.watch() if self.counts else contextlib.nullcontext():
            self.write_task(part, task)

    def write_task(self, part: TaskRange, task: Value) -> None:
        """Write the loops of a task."""
        if not self.description.points.in_blocks:
            self.write_range(part)
        elif self.operation.fills:
            self.write_block(part)
        else:
            self.write_blocks(part)

    def write_block(self, part: TaskRange) -> None:
        """Write the loops of a range of a block, or of the block that begins with its planes.

        See `division.Blocks`.
        """
        call, far = self.call, self.points.far_apart(part)
        end = far.select(part.plane_end, (part.plane + call.planes_near).minimum(call.planes))
        with self.function.when(far | (part.plane % call.planes_near == 0)):
            self.write_range(part._replace(plane_end=end))

    def write_blocks(self, part: TaskRange) -> None:
        """Write the loops of a range, which has all planes, block by block."""
        near, far = self.call.planes_near, self.call.planes_far
        # Where the sums of maps are rounded must not depend on how points are divided.
        step = (
            near if is_affine(self.description) else self.points.far_apart(part).select(far, near)
        )
        with self.function.loop(part.plane, part.plane_end, step) as loop:
            end = (loop.index + step).minimum(part.plane_end)
            self.write_range(part._replace(plane=loop.index, plane_end=end))

    def write_range(self, part: TaskRange) -> None:
        """Write the loops over the strips and the planes of a range."""
        images = [*self.images.values()]
        self.prefetch.begin(part)
        with self.points.strips(part) as strip:
            with self.points.groups(strip) as (number, group):
                self.states.save(number, self.locate(group, self.points.coordinates(group)))
                if self.gradient:
                    self.gradient.begin(number, group)
                self.prefetch.ask_at_once(strip, number, images)
            self.prefetch.check_distance()
            self.prefetch.aim(strip, images, part.plane, part.plane_end)
            self.prefetch.ask_for_all(self.points.groups_of(strip))
            with self.function.loop(part.plane, part.plane_end, self.step) as loop:
                self.prefetch.aim(strip, images, loop.index + self.step, part.plane_end)
                self.process_planes(strip, loop.index, part.plane_end)
            self.finish(strip)

    @property
    def step(self) -> int | Value:
        """The number of planes that are processed together: the channels of a pixel."""
        return self.channels

    def locate(self, group: Group, coordinates: Sequence[Value]) -> State:
        """Convert the coordinates of a group to its state."""
        state = self.sampler.locate(coordinates, group)
        if self.operation.differentiates and state.outside is not None:
            state = state._replace(valid=state.valid & ~state.outside, outside=None)
        for name in self.named("vectors", "read"):
            vectors = self.points.vectors(group, getattr(self.call, name))
            state = state._replace(tangents=tuple(vectors))
        return state

    def finish(self, strip: Strip) -> None:
        """Store the gradient of the grid at the points of a strip, or add to that of the maps."""
        if self.gradient is None:
            return
        self.gradient.begin_maps()
        with self.points.groups(strip) as (number, group):
            slopes = self.gradient.of_group(number, self.states.load(number).valid)
            if self.gradient.is_affine:
                terms = self.gradient.terms_of_maps(group, slopes)
                self.gradient.add_to_maps(group, terms)
            else:
                self.gradient.store(group, slopes)
        self.gradient.finish_maps(strip)

    # Planes ---------------------------------------------------------------------------------------

    def process_planes(self, strip: Strip, plane: Value, end: Value) -> None:
        """Process the planes of a pixel's channels at the points of a strip.

        The planes of the task are those before ``end``.
        """
        memory = self.memory_of(strip, plane)
        with self.prefetch.groups(strip) as (number, group):
            values = self.load_values(group, memory)
            results = self.compute(number, group, values, memory)
            for name in self.named("points", "store"):
                stored = [self.stored(each.stored[name], name) for each in results]
                self.store_values(group, memory.points[name], stored)

    def memory_of(self, points: Strip | Group, plane: Value) -> PlaneMemory:
        """Return where the planes that begin with one are."""
        count = self.channels if self.description.pixels.apart else 1
        begins = [self.call.out_planes.load(plane + k) for k in range(count)]
        of_points = self.named("points", "read") + self.named("points", "store")
        return PlaneMemory(
            {name: image.plane(points, plane) for name, image in self.images.items()},
            {name: [getattr(self.call, name).at(k) for k in begins] for name in of_points},
            self.counts.plane(points, plane) if self.counts else None,
            [self.numbers_of(plane + channel) for channel in range(self.channels)],
        )

    def numbers_of(self, plane: Value) -> dict[str, Value]:
        """Read the numbers of a plane; those of what is outside are 0 if there is no fill value."""
        numbers = {}
        for name in self.named("planes", "read"):
            memory = getattr(self.call, name)
            if self.is_zero(name):
                numbers[name] = self.function.constant(0, memory.kind, self.function.lanes)
            else:
                numbers[name] = splat_of(self.function, memory, plane)
        return numbers

    def is_zero(self, name: str) -> bool:
        """Whether the numbers of all planes are known to be 0."""
        rule = self.description.tap_rule
        if name == "dropped" and self.operation.fills and rule.ignores_dropped:
            return "plain" not in self.needs  # what is dropped has no weight
        return name in ("outside", "dropped") and not rule.filled

    def compute(
        self,
        number: Value,
        group: Group,
        values: Mapping[str, Sequence[Value]],
        memory: PlaneMemory,
    ) -> list[Results]:
        """Compute the results of a group for each channel, and add to totals and to pixels.

        Args:
            number: the number of the group's state.
            group: the group.
            values: the numbers of arrays of points, for each channel.
            memory: where the planes are.
        """
        state, results = self.states.load(number), list[Results]()
        # Points without taps have nothing to add.
        skips = not (self.operation.fills or self.named("points", "store"))
        some = self.function.when(state.valid.any()) if skips else contextlib.nullcontext()
        with some:
            taps, sums = self.sum_taps(state, memory)
            for channel in range(self.channels):
                terms = self.terms(
                    {name: each[channel] for name, each in sums.items()},
                    {name: state.valid.select(v[channel], 0.0) for name, v in values.items()},
                    memory.numbers[channel],
                    state,
                )
                results.append(self.formula(terms))
                for summands in results[channel].totals:
                    assert self.gradient is not None
                    self.gradient.totals.add(number, summands)
            for name in self.adds:
                assert taps is not None
                shares = {
                    self.key(channel, order): group.fresh.select(share, 0.0)
                    for channel in range(self.channels)
                    for order, share in results[channel].shares[name].items()
                }
                self.sampler.scatter(taps, memory.pixels[name], shares)
        return results

    def terms(
        self,
        sums: Mapping[str, Sums],
        values: Mapping[str, Value],
        numbers: Mapping[str, Value],
        state: State,
    ) -> Terms:
        """Return the terms of the formula for one channel."""
        vectors = {name: state.tangents for name in self.named("vectors", "read")}
        weight = self.counts.dropped_weight if self.counts else 1.0
        return Terms(
            sums, values, vectors, numbers, self.needs, self.orders, state.valid, state.outside,
            weight,
        )  # fmt: skip

    # Taps -----------------------------------------------------------------------------------------

    def sum_taps(
        self, state: State, memory: PlaneMemory
    ) -> tuple[GroupTaps | None, dict[str, list[dict[Order, Value]]]]:
        """Return the taps of a group, if they may be added to, and their sums in each channel."""
        taps = self.prepare(state, memory)
        return taps, {name: self.sums(taps, name, memory) for name in self.reads}

    def prepare(self, state: State, memory: PlaneMemory) -> GroupTaps:
        """Prepare the taps of a group, with the numbers of pixels that count."""
        if self.counts is None:
            return self.sampler.prepare(state, self.derivatives, None)
        counting = Counting(self.counts, memory.weights, state.weight_offset)
        taps = self.sampler.prepare(state, self.derivatives, counting)
        if "plain" not in self.needs or not self.operation.fills:
            return taps
        assert self.missed is not None
        return Tried(self.sampler.prepare(state, self.derivatives, None), taps, self.missed)

    def sums(self, taps: GroupTaps, name: str, memory: PlaneMemory) -> list[dict[Order, Value]]:
        """Sum the taps in each channel of an array of pixels; sums that vanish are constants."""
        function, orders, channels = self.function, self.reads[name], range(self.channels)
        zero = function.constant(0.0, function.real, function.lanes)
        dropped = [numbers.get("dropped", zero) for numbers in memory.numbers]
        keys = [self.key(channel, order) for order in orders for channel in channels]
        sums = self.sampler.tap_sums(taps, memory.pixels[name], dropped, keys)
        each = [
            {order: sums.get(self.key(channel, order), zero) for order in orders}
            for channel in channels
        ]
        if self.description.pixels.parts and "plain" in self.needs:
            join_parts(each, (PIXEL, *self.orders.value))
        return each

    def key(self, channel: int, order: Order) -> Order:
        """Return the order of a sum after the number that it is of; see `sums.Orders`."""
        if len(order) > len(self.description.axes):
            return channel * NUMBERS + order[0], *order[1:]
        return (channel, *order) if self.channels > 1 else order

    # Values of points -----------------------------------------------------------------------------

    def load_values(self, group: Group, memory: PlaneMemory) -> dict[str, list[Value]]:
        """Read the numbers of arrays of points, for each channel."""
        real = self.function.real
        return {
            name: [
                value.to(real)
                for value in self.points.load_channels(group, memory.points[name], self.channels)
            ]
            for name in self.named("points", "read")
        }

    def store_values(
        self, group: Group, planes: Sequence[Pointer], values: Sequence[Value]
    ) -> None:
        """Write the numbers of an array of points, for each channel."""
        self.points.store_channels(group, planes, values)

    def stored(self, value: Value, name: str, lanes: int = 0) -> Value:
        """Convert the numbers of an array to the kind in which they are stored."""
        value = value.splat(lanes or self.function.lanes)
        if self.uses[name].kind != "results":
            return value
        kind = kind_of(self.description.values)
        return value.round_to(kind).to(storage_of(kind.name))
