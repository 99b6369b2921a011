"""The classes that write programs, by operation.

Most processes need a few of them, so each module is imported when its first program is written.
"""

from __future__ import annotations

import functools
import importlib

from gridsample.kernels import forks
from gridsample.kernels.sampling.programs.body import Body
from gridsample.kernels.sampling.programs.sampler import Description, KnownStrides

# What is done with the pixels of a group of points: a module of this package, and its class.
BODIES = {
    "gather": "gather.Gather",
    "labels": "labels.Labels",
    "means": "missing.Means",
    "footprints": "footprints.FootprintMeans",
    "footprint labels": "footprint_labels.FootprintLabels",
    "backward": "gradients.Backward",
    "mean backward": "mean_gradients.MeanBackward",
    "double backward": "gradients.DoubleBackward",
    "footprint backward": "footprint_gradients.FootprintBackward",
    "footprint double backward": "footprint_gradients.FootprintDoubleBackward",
}
# The same for runs of channels.
RUNS = {
    "gather": "runs.GatherRuns",
    "means": "mean_runs.MeanRuns",
    "backward": "run_gradients.BackwardRuns",
    "mean backward": "mean_runs.MeanBackwardRuns",
}
# The same for words.
WORDS = {"gather": "words.GatherWords", "footprints": "footprint_words.FootprintWords"}


def bodies_for(known: KnownStrides) -> dict[str, str]:
    """Return the classes for pixels that are read one by one, as runs of channels, or as words."""
    return WORDS if known.words else RUNS if known.channels > 1 else BODIES


def body_of(description: Description) -> type[Body]:
    """Return the class that writes the program of a description."""
    return load_body(bodies_for(description.known)[description.operation])


@functools.cache
def load_body(path: str) -> type[Body]:
    """Import a class, given its module and its name."""
    module, name = path.split(".")
    with forks.held():
        imported = importlib.import_module(f"gridsample.kernels.sampling.programs.{module}")
    body: type[Body] = getattr(imported, name)
    return body
