"""Memory layouts of arrays for property-based tests: any order of axes, any steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cases
import numpy as np
from hypothesis import strategies as st

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """A memory layout of an array.

    Attributes:
        axes: its axes, from the slowest to the fastest.
        steps: along each axis, 1; 2 for gaps between entries; -1 for the reverse order; or 0 if all
            entries are the first one.
    """

    axes: Shape
    steps: Shape

    def of(self, array: Array) -> Array:
        """Lay an array out; one of whose steps is 0 gets other values."""
        first = array[tuple(slice(None if step else 1) for step in self.steps)]
        lengths = [first.shape[axis] * max(1, abs(self.steps[axis])) for axis in self.axes]
        memory = cases.junk(lengths, array.dtype)
        view = memory[tuple(slice(None, None, self.steps[axis] or 1) for axis in self.axes)]
        view = view.transpose(np.argsort(self.axes))
        view[...] = first
        strides = [by if step else 0 for by, step in zip(view.strides, self.steps, strict=True)]
        return np.lib.stride_tricks.as_strided(view, array.shape, strides)


def layouts(rank: int, steps: Sequence[int] = (1, 2, -1, 0)) -> st.SearchStrategy[Layout]:
    """Any order of the axes; half of the arrays are without gaps."""
    dense, any_steps = st.just((1,) * rank), st.tuples(*[st.sampled_from(steps)] * rank)
    return st.builds(Layout, st.permutations(range(rank)).map(tuple), st.one_of(dense, any_steps))


# A tensor has no negative strides, and an array that is written to repeats no entries.
STEPS = {"numpy": (1, 2, -1, 0), "torch": (1, 2, 0)}
WRITABLE = (1, 2, -1)


def shapes(rank: int, longest: int = 6) -> st.SearchStrategy[Shape]:
    """Shapes in which lengths of 1 are frequent, as their strides are arbitrary."""
    return st.tuples(*[st.one_of(st.just(1), st.integers(1, longest))] * rank)


SEEDS = st.integers(0, 2**32 - 1)
