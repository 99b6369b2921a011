"""Sampling labels: the taps of a point vote for the values of their pixels.

A tap votes with its weight, which is that of linear interpolation.  The value with the greatest sum
of weights wins, and the smallest such value if there are several.

The total of a tap is the sum of the weights of all taps from it on that have the same value.  The
first tap with a value has thus the sum for that value, and the others have no more.  So the value
of the tap with the greatest total wins, and it does not matter that values are counted several
times.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence

from gridsample.kernels.sampling.programs.loads import read_neighbours
from gridsample.kernels.sampling.programs.operation import Order
from gridsample.kernels.sampling.programs.singles import SinglePixels
from gridsample.kernels.sampling.programs.states import State, value_of
from gridsample.kernels.sampling.programs.sums import GroupTaps
from gridsample.kernels.sampling.programs.sweep import PlaneMemory, Sweep
from gridsample.kernels.vector import Function, Kind, Pointer, Value, kind_of


class Labels(Sweep):
    """Writes the loops that sample labels; sums are votes, and numbers of planes are keys."""

    def numbers_of(self, plane: Value) -> dict[str, Value]:
        """Read the numbers of a plane."""
        return {name: as_key(number) for name, number in super().numbers_of(plane).items()}

    def sum_taps(
        self, state: State, memory: PlaneMemory
    ) -> tuple[GroupTaps | None, dict[str, list[dict[Order, Value]]]]:
        """Return the winners of a group in place of the sums of taps."""
        dropped = memory.numbers[0]["dropped"]
        winner = self.winner(state, memory.pixels["image"], dropped)
        return None, {"image": [{self.orders.value: winner}]}

    def winner(self, state: State, source: Pointer, dropped: Value) -> Value:
        """Hold the votes of a group's points."""

        def by_singles() -> list[Value]:
            return [elect(*self.single_votes(state, source, dropped))]

        if not self.all_vote:
            return by_singles()[0]
        cells = self.sampler.at_cells(self.sampler.axis_positions(state), state)
        choose, distances = self.function.choose, cells.along

        def by_cells() -> list[Value]:
            return self.vote_in_cells(self.keys_of_cells(cells, source), distances)

        def elsewhere() -> list[Value]:
            if not all(axis.rule.drops for axis in self.sampler.axes):
                return by_singles()
            beyond = [(distance <= -1.0) | (distance >= 2.0) for distance in distances]
            all_beyond = functools.reduce(operator.or_, beyond).all()
            return choose(all_beyond, lambda: [dropped], by_singles)

        return choose(self.all_in_cells(distances), by_cells, elsewhere, likely=True)[0]

    @property
    def all_vote(self) -> bool:
        """Whether taps vote along all axes; along the others, points copy the nearest pixel."""
        return all(rule.method.votes for rule in self.description.axes)

    def all_in_cells(self, distances: Sequence[Value]) -> Value:
        """Whether every point is between pixels of the image, given the distances to the first."""
        inside = [(distance >= 0.0) & (distance <= 1.0) for distance in distances]
        inside += [axis.last >= 1.0 for axis in self.sampler.axes]
        return functools.reduce(operator.and_, inside).all()

    def vote_in_cells(self, keys: Sequence[Value], distances: Sequence[Value]) -> list[Value]:
        """Hold the votes of points whose taps are the corners of a cell; most of them agree."""
        differ = functools.reduce(operator.or_, [keys[0] ^ key for key in keys[1:]])

        def by_votes() -> list[Value]:
            return [elect(keys, weights_in_cells(distances))]

        return self.function.choose((differ != 0).any(), by_votes, lambda: [keys[0]])

    def keys_of_cells(self, cells: State, source: Pointer) -> list[Value]:
        """Read the pixels at the corners of each point's cell, x fastest."""
        strides, keys = self.sampler.strides, list[Value]()
        offsets = cells.first.kept()
        for corner in itertools.product((0, 1), repeat=len(strides.others)):
            row = source
            for upper, stride in zip(corner, reversed(strides.others), strict=True):
                row = row.at(stride) if upper else row
            keys += [as_key(pixel) for pixel in read_neighbours(row, offsets, strides.x)]
        return keys

    def single_votes(
        self, state: State, source: Pointer, dropped: Value
    ) -> tuple[list[Value], list[Value]]:
        """Read the pixel of every tap by itself; return keys and weights, x fastest."""
        taps = self.sampler.taps(state, 0)
        offset = value_of(state.offset)
        reader = SinglePixels(source, offset, True, converted=as_key, dropped=dropped)
        keys: list[Value] = []
        for outer in itertools.product(*reversed(taps[1:])):
            keys += [key for (key,) in reader.row(outer, taps[0])]
        shares = [tuple(tap.weights[0] for tap in axis_taps) for axis_taps in taps]
        return keys, products(self.function, shares)


def key_kind(pixels: Kind) -> Kind:
    """Return the kind in which pixels are compared."""
    return kind_of("int32") if pixels.bits < 32 else pixels


def as_key(pixels: Value) -> Value:
    """Convert pixels to the kind in which they are compared."""
    return pixels.to(key_kind(pixels.kind))


def weights_in_cells(distances: Sequence[Value]) -> list[Value]:
    """Return the weights of the corners of each point's cell, x fastest."""
    return products(distances[0].function, [(1.0 - d, d) for d in distances])


def products(function: Function, shares: Sequence[Sequence[Value]]) -> list[Value]:
    """Multiply the weights of one tap of each axis, for all combinations, x fastest.

    They are rounded before they are added, so that equal sums are equal.
    """
    with function.exactly():
        weights = [*shares[0]]
        for axis_shares in shares[1:]:
            weights = [weight * share for share in axis_shares for weight in weights]
    return weights


def elect(keys: Sequence[Value], weights: Sequence[Value]) -> Value:
    """Return the key with the greatest sum of weights; of several, the least."""
    winner = keys[0]
    with winner.function.exactly():
        totals = [total_from(t, keys, weights) for t in range(len(keys))]
    highest = totals[0]
    for key, total in zip(keys[1:], totals[1:], strict=True):
        wins = (total > highest) | ((total == highest) & (key < winner))
        winner, highest = wins.select(key, winner), wins.select(total, highest)
    return winner


def total_from(t: int, keys: Sequence[Value], weights: Sequence[Value]) -> Value:
    """Return the sum of the weights of all taps from ``t`` on that have its key."""
    total = weights[t]
    for key, weight in zip(keys[t + 1 :], weights[t + 1 :], strict=True):
        total = total + (key == keys[t]).select(weight, 0.0)
    return total
