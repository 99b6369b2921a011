"""How to sample, as the caller says it: the options that travel from the api to a binding."""

from __future__ import annotations

from typing import Any, NamedTuple

from gridsample.plan import Mode


class Options(NamedTuple):
    """The options that `gridsample.grid_sample` and its kin share, as they were given, unchecked.

    What they mean stands in the docstring of `gridsample.grid_sample`.
    """

    mode: Mode = "bilinear"
    padding_mode: Mode = "zeros"
    align_corners: bool = False
    coords: str = "normalized"
    fill_value: Any = 0
    extrapolate: bool = True
    prefilter: bool = True
    channel_axis: int = 1
    threads: int | None = None
