"""Lines of numbers as rows: number k of some lines side by side in row k, so that lanes are lines.

Lines are contiguous in memory.  They are read and written in blocks of a few neighbouring numbers,
which are transposed in registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gridsample.kernels.vector import Function, Pointer, Value, joined, transpose

# The numbers of the small blocks at the ends of lines.
SMALL = 4


def blocks(
    function: Function, start: Value, stop: Value, lanes: int
) -> Iterator[tuple[Value, int]]:
    """Yield the beginnings of blocks of numbers, and their sizes; the last ones may overlap.

    Blocks have as many numbers as registers have lanes, then a few; where there are fewer, one.
    """
    small, tail = min(SMALL, lanes), start
    if lanes > small:
        tail = start + (stop - start) // lanes * lanes
        with function.loop(start, tail, lanes) as loop:
            yield loop.index, lanes
    enough = stop - start >= small
    with function.when(enough), function.loop(tail, stop, small) as loop:
        yield loop.index.minimum(stop - small), small
    with function.when(~enough), function.loop(start, stop) as loop:
        yield loop.index, 1


def read_block(memory: Pointer, offsets: Pointer, size: int, lanes: int) -> list[Value]:
    """Read ``size`` neighbouring numbers of each of ``lanes`` lines.

    Args:
        memory: the numbers of the block, if a line began at offset 0.
        offsets: where each line begins.
        size: how many numbers; it divides ``lanes``.
        lanes: how many lines.

    Returns:
        A value for each of the numbers, in which lanes are lines.
    """
    return transpose(
        [
            joined([memory.load(offsets.load(line), size) for line in range(k, lanes, size)])
            for k in range(size)
        ]
    )


def write_block(memory: Pointer, offsets: Pointer, rows: Sequence[Value]) -> None:
    """Write a value for each of some neighbouring numbers, in which lanes are lines."""
    size = len(rows)
    for k, column in enumerate(transpose(rows)):
        for line in range(0, column.lanes, size):
            numbers = column.shuffle(range(line, line + size))
            memory.store(numbers, offsets.load(line + k))
