"""Means over footprints, of pixels whose channels fit into a word: see `words`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gridsample.kernels.sampling.programs.footprints import FootprintMeans
from gridsample.kernels.sampling.programs.states import State
from gridsample.kernels.sampling.programs.words import GatherWords
from gridsample.kernels.vector import Pointer, Value


class FootprintWords(FootprintMeans, GatherWords):
    """Writes the loops that average samples of all channels of a pixel, which are read together."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.run = self.channels
        self.points.contiguous = False  # the means of each channel are stored by themselves

    def values(
        self, state: State, source: Pointer, fills: Sequence[dict[str, Value]]
    ) -> Sequence[Value]:
        """Compute the results of a group's samples in the planes of a run."""
        return self.sums(state, source, fills)
