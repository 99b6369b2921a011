"""Calls of the operator for property-based tests: any shapes, strides, options and types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cases
import hypothesis
import numpy as np
import oracles
from hypothesis import strategies as st

Array = np.ndarray[Any, Any]

ALIASES = {"nearest": ["nearest"], "linear": ["linear", "bilinear", "trilinear"]}
ALIASES["cubic"] = ["cubic", "bicubic", "tricubic"]


def examples(count: int) -> int:
    """Return how many examples the current profile tries: ``count`` for its 100."""
    return max(1, count * hypothesis.settings().max_examples // 100)


@dataclass
class Call:
    """The arguments of one call; the arrays with channels first."""

    image: Array
    grid: Array
    mode: oracles.Names
    padding_mode: oracles.Names
    align_corners: bool
    channel_axis: int

    @property
    def options(self) -> tuple[oracles.Names, oracles.Names, bool]:
        return self.mode, self.padding_mode, self.align_corners

    @property
    def out_shape(self) -> tuple[int, ...]:
        items = max(len(self.image), len(self.grid)) if len(self.image) and len(self.grid) else 0
        return (items, self.image.shape[1], *self.grid.shape[1:-1])

    def laid_out(self, array: Array) -> Array:
        """An array with its channels at the call's channel axis."""
        return array if self.channel_axis == 1 else np.moveaxis(array, 1, -1)

    def planes(self, array: Array) -> Array:
        """An array as the call has it, with its channels first."""
        return array if self.channel_axis == 1 else np.moveaxis(array, -1, 1)

    def __repr__(self) -> str:
        def message(array: Array) -> str:
            return f"{array.shape} {array.dtype.str} strides {array.strides}"

        return (
            f"Call(image={message(self.image)}, grid={message(self.grid)} {self.grid.tolist()}, "
            f"{self.mode!r}, {self.padding_mode!r}, {self.align_corners}, {self.channel_axis})"
        )


def names(options: Sequence[str], rank: int) -> st.SearchStrategy[oracles.Names]:
    """One name, or one for each axis."""
    name = st.sampled_from(options)
    return st.one_of(name, st.lists(name, min_size=rank, max_size=rank).map(tuple))


# Multiples of 1 / 64: positions, folds and fractions of small images are then exact in single
# precision too, so that every precision takes the same pixels.
COORDINATES = st.integers(-160, 160).map(lambda k: k / 64)
ODD_COORDINATES = st.sampled_from([np.nan, np.inf, -np.inf, 1.0, -1.0, 0.0, 100.0, -1000.0, 9999.0])


@st.composite
def calls(
    draw: st.DrawFn,
    types: Sequence[tuple[str, str]],
    modes: Sequence[str] = cases.MODES,
    most_points: int = 24,
) -> Call:
    """A call with one of the pairs of image and grid types."""
    rank = draw(st.integers(1, 3))
    spatial = tuple(draw(st.lists(st.integers(1, 7), min_size=rank, max_size=rank)))
    out = draw(
        st.lists(st.integers(0, 5), max_size=3).filter(lambda out: np.prod(out) <= most_points)
    )
    items, grid_items = draw(st.sampled_from([(1, 1), (2, 2), (1, 3), (3, 1), (0, 0), (0, 1)]))
    channels = draw(st.sampled_from([0, 1, 2, 3, 8, 9]))
    image_type, grid_type = draw(st.sampled_from(types))

    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    image = cases.pixels(rng, (items, channels, *spatial), image_type)
    some = draw(
        st.lists(st.one_of(COORDINATES, COORDINATES, ODD_COORDINATES), min_size=1, max_size=8)
    )
    grid = rng.choice(np.array(some), (grid_items, *out, rank)).astype(grid_type)
    spellings = [name for mode in modes for name in ALIASES[mode]]
    return Call(
        cases.LAYOUTS[draw(st.sampled_from([*cases.LAYOUTS]))](image),
        cases.LAYOUTS[draw(st.sampled_from([*cases.LAYOUTS]))](grid),
        draw(names(spellings, rank)),
        draw(names(cases.BOUNDARIES, rank)),
        draw(st.booleans()),
        draw(st.sampled_from([1, -1])),
    )
