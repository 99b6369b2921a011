"""The order in which the chunks of a result are computed, so that few inputs are in memory at once.

Neighbouring chunks of a result need the same inputs.  A result that is larger than memory is hence
computed in *columns*: it is divided into tiles along all axes but one, and each tile is computed
layer by layer along that axis.  The inputs of two or three layers of a tile are then in memory, and
only those at the sides of tiles are read again.  `schedule_of` finds the widest tiles for which
memory suffices, by simulating which inputs are dropped: those that are needed last.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gridsample.definitions.shapes import Shape

Key = Hashable


class ScheduleStep(NamedTuple):
    """Chunks that are computed together.

    Attributes:
        chunks: the chunks.
        reads: the inputs that are read for them.
        keeps: the inputs that are kept after it.
    """

    chunks: Sequence[Shape]
    reads: frozenset[Key]
    keeps: frozenset[Key]


class Schedule(NamedTuple):
    """The steps of a computation, in order.

    Attributes:
        steps: what is computed, read and kept, in order.
        inputs: the number of inputs.
        reads: the number of reads of inputs.
        held: the most inputs in memory at a time: those that a step reads or was left by the one
            before it, and those that the next step reads, which may begin meanwhile.
    """

    steps: Sequence[ScheduleStep]
    inputs: int
    reads: int
    held: int


def schedule_of(needs: Mapping[Shape, frozenset[Key]], keep: int, size: int) -> Schedule:
    """Return the schedule with the fewest reads, among those with columns of some widths.

    Args:
        needs: the inputs of each chunk of a result, by its index.
        keep: how many inputs are kept from step to step, at most.
        size: the number of chunks of a step.

    Example:
        >>> from gridsample.chunked.schedules import schedule_of
        >>> inputs = {(y, x): frozenset({(y, x), (y, x + 1)}) for y in range(4) for x in range(4)}
        >>> schedule = schedule_of(inputs, 4, 2)
        >>> schedule.inputs, schedule.reads, schedule.steps[0].chunks
        (20, 20, [(0, 0), (0, 1)])
    """
    best, without_gain = None, 0
    for parts in tile_counts(needs):
        schedule = simulate(list(columns(list(needs), parts)), needs, keep, size)
        if best is None or schedule.reads < best.reads:
            best, without_gain = schedule, 0
        else:
            without_gain += 1
        if without_gain == 2 or best.reads == best.inputs:
            break
    return best or Schedule((), 0, 0, 0)


def tile_counts(indices: Mapping[Shape, object]) -> Iterator[int]:
    """Yield into how many tiles an axis may be divided: 1, 2, 3, 4, 6, 8, 12, ..."""
    largest = max((k + 1 for index in indices for k in index), default=0)
    counts = itertools.chain((1,), *((2 << k, 3 << k) for k in range(largest.bit_length())))
    return itertools.takewhile(lambda parts: parts <= largest, counts)


def columns(indices: Sequence[Shape], parts: int) -> Sequence[Shape]:
    """Return indices in the order of columns, which run along the longest axis to and fro.

    Args:
        indices: the indices of chunks.
        parts: the number of tiles along each of the other axes.

    Example:
        >>> from gridsample.chunked.schedules import columns
        >>> columns([(y, x) for y in range(3) for x in range(2)], 2)
        [(0, 0), (1, 0), (2, 0), (2, 1), (1, 1), (0, 1)]
    """
    counts = [max(line) + 1 for line in zip(*indices, strict=True)]
    if not counts:
        return indices
    along = counts.index(max(counts))
    others = [k for k in range(len(counts)) if k != along]

    def rank(index: Shape) -> tuple[object, ...]:
        tile, turns = list[int](), 0
        for k in others:
            part = index[k] * min(parts, counts[k]) // counts[k]
            tile.append(-part if turns % 2 else part)  # tiles to and fro, too
            turns += part
        return tile, -index[along] if turns % 2 else index[along], index

    return sorted(indices, key=rank)


def simulate(
    order: Sequence[Shape], needs: Mapping[Shape, frozenset[Key]], keep: int, size: int
) -> Schedule:
    """Simulate a computation: what is read, and what is kept, in each step."""
    groups = [order[k : k + size] for k in range(0, len(order), size)]
    inputs_of_groups = [
        frozenset[Key]().union(*(needs[index] for index in group)) for group in groups
    ]
    uses: dict[Key, list[int]] = {}
    for step in range(len(groups) - 1, -1, -1):
        for key in inputs_of_groups[step]:
            uses.setdefault(key, []).append(step)
    steps, held, reads = list[ScheduleStep](), frozenset[Key](), 0
    most, before = 0, frozenset[Key]()
    for step, group in enumerate(groups):
        missing = inputs_of_groups[step] - held
        reads += len(missing)
        most = max(most, len(before | held | missing))
        before = held | missing
        for key in inputs_of_groups[step]:
            uses[key].pop()
        later = [key for key in held | missing if uses[key]]
        if len(later) > keep:
            later = heapq.nsmallest(keep, later, key=lambda key: uses[key][-1])
        held = frozenset(later)
        steps.append(ScheduleStep(group, missing, held))
    return Schedule(steps, len(uses), reads, most)
