"""How the lines of two arrays are filtered: in which layout, groups, windows and tasks."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.dtypes import type_name
from gridsample.definitions.splines import Design, at_pixels, design, reach
from gridsample.kernels.caches import CACHES
from gridsample.kernels.memory import Layout
from gridsample.kernels.run import Launch
from gridsample.kernels.spline import program
from gridsample.kernels.vector import host

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]
# An axis of two arrays of the same shape: its size, and its stride in each, in elements.
Axis = tuple[int, int, int]

# The number of entries that are worth a task.
SHARE = 1 << 16
# The registers that hold an entry of each line of a group.  Contiguous rows are wide, because the
# next row may be on another page of memory.  Other groups stay near.
WIDE, NARROW = 4, 2
# Bytes of scratch memory beyond which lines are filtered in windows, and the entries of a window.
LONGEST, WINDOW = CACHES.own, 2048


class Filter(NamedTuple):
    """The filter along one axis of an array.

    Attributes:
        axis: the axis, nonnegative.
        extended: the boundary, as `gridsample.definitions.splines.extension` returns it.
        order: the order of the spline.
        adjoint: whether it is transposed.
    """

    axis: int
    extended: str
    order: int
    adjoint: bool

    def changes_nothing(self, n: int) -> bool:
        """Whether lines of n entries stay as they are: taps read the only entry, with its sign."""
        return n == 1 and math.isclose(at_pixels(self.order, 1, self.extended).item(), 1)


class Windows(NamedTuple):
    """How each line is cut into windows, which overlap.

    Attributes:
        number: the number of windows.
        step: the distance between neighbouring windows.
        halo: the entries at a window's ends that are not stored.
    """

    number: int
    step: int
    halo: int


class Lines(NamedTuple):
    """The lines of a source and of a target.

    Attributes:
        source: the dtype that is read, as the vector language names it.
        real: the dtype of the result.
        along: the axis of the filter.
        others: the other axes.
    """

    source: str
    real: DType
    along: Axis
    others: list[Axis]

    @property
    def total(self) -> int:
        """The number of lines."""
        return math.prod([size for size, *_ in self.others])


class Pass(NamedTuple):
    """A filter that is ready to run."""

    filter: Filter
    windows: Windows
    launch: Launch


def lines_of(source: Layout, target: Layout, axis: int) -> Lines:
    """Describe the lines along an axis of two arrays of the same shape."""
    (shape, source_strides, read), (_, target_strides, kind) = source, target
    real = np.dtype(f"f{kind.itemsize // 2}") if kind.kind == "c" else kind
    parts = 2 if read.kind == "c" else 1
    size = read.itemsize // parts
    axes = [
        (n, a // size, b // real.itemsize)
        for n, a, b in zip(shape, source_strides, target_strides, strict=True)
    ]
    along = axes.pop(axis)
    if parts == 2:  # the parts of a complex number are one more axis
        axes.append((2, 1, 1))
    name = f"float{8 * size}" if parts == 2 else type_name(read)
    return Lines(name, real, along, merged(axes))


def merged(axes: Sequence[Axis]) -> list[Axis]:
    """Sort axes by the target's strides, and join those that together are like a single one."""
    result: list[Axis] = []
    for size, source, target in sorted(axes, key=lambda axis: (abs(axis[2]), abs(axis[1]))):
        if result:
            n, first, second = result[-1]
            if (source, target) == (n * first, n * second):
                result[-1] = n * size, first, second
                continue
        if size > 1:
            result.append((size, source, target))
    return result


def windows_of(lines: Lines, lanes: int, order: int) -> Windows:
    """Cut lines that are too few to fill the lanes, or too long for scratch memory."""
    n, halo, count = lines.along[0], reach(order, lines.real), 1
    if n * lanes * lines.real.itemsize > LONGEST:
        count = n // WINDOW
    if lines.total * count < lanes:
        count = min(-(-lanes // lines.total), n // (4 * halo))
    return Windows(count, (n - 2 * halo) // count, halo) if count > 1 else Windows(1, 0, 0)


@functools.lru_cache(maxsize=256)
def passes(source: Layout, target: Layout, filters: Sequence[Filter]) -> list[Pass]:
    """Prepare filters for arrays of two layouts; all but the first read the target."""
    result: list[Pass] = []
    for filter_ in filters:
        if not filter_.changes_nothing(target[0][filter_.axis]):
            result.append(prepare(target if result else source, target, filter_))
    return result


def prepare(source: Layout, target: Layout, filter_: Filter) -> Pass:
    """Prepare a filter for arrays of two layouts."""
    lines = lines_of(source, target, filter_.axis)
    real, width = lines.real, host().lanes(lines.real.name)
    windows = windows_of(lines, NARROW * width, filter_.order)
    n = lines.along[0] - (windows.number - 1) * windows.step
    loads, stores = [step == 1 < n for step in lines.along[1:]]
    rows = any(size >= width and 1 in strides for size, *strides in lines.others)
    registers = NARROW if n * NARROW * width * real.itemsize <= 2 * CACHES.near else 1
    if rows and not (loads or stores):
        registers = WIDE
    description = program.Description(lines.source, real.name, loads, stores, registers)
    lanes, count = registers * width, lines.total * windows.number
    groups, share = -(-count // lanes), max(1, SHARE // (n * lanes))
    recursions = design(filter_.order, n, filter_.extended, filter_.adjoint, real)
    numbers = settings(lines, windows, n, recursions, filter_.adjoint)
    packed = program.settings(real.name).pack(groups=groups, share=share, lines=count, **numbers)
    scratch = (n + len(recursions.changed)) * lanes * real.itemsize
    tasks = -(-groups // share)
    launch = Launch(program.compiled(description), packed, tasks, scratch)
    return Pass(filter_, windows, launch)


def settings(
    lines: Lines, windows: Windows, n: int, recursions: Design, adjoint: bool
) -> dict[str, Any]:
    """Return settings of the program, for windows of n entries."""
    _, source_step, target_step = lines.along
    corrected = len(recursions.changed)
    return {
        "count": n,
        "low": windows.halo,
        "high": windows.halo + windows.step if windows.number > 1 else n,
        "windows": windows.number,
        "source_step": source_step,
        "target_step": target_step,
        "source_window": windows.step * source_step,
        "target_window": windows.step * target_step,
        "axes": len(lines.others),
        "gain": recursions.gain,
        "before": recursions.edges[0],
        "after": recursions.edges[1],
        "poles": len(recursions.poles),
        "corrected": 0 if adjoint else corrected,
        "corrected_after": corrected if adjoint else 0,
        "strides": np.array(lines.others, np.int64),
        "roots": recursions.poles,
        "changed": recursions.changed,
        **recursions.sums._asdict(),
    }
