"""The keywords of public functions whose results depend on a flag, for type checkers.

A function's own signature says all of them, with their defaults; its overloads, which say what it
returns for which flags, refer to them here.
"""

from __future__ import annotations

from typing import TypedDict

from gridsample.definitions.arrays import AnyArray, Fill
from gridsample.definitions.coords import Extrapolate
from gridsample.definitions.knots import Coords
from gridsample.definitions.names import FootprintName, MapCoordsName, MissingName


class CommonKeywords(TypedDict, total=False):
    """The keywords of all functions that sample."""

    fill_value: Fill
    extrapolate: Extrapolate
    prefilter: bool
    antialias: bool
    max_samples: int
    footprint: FootprintName
    missing: MissingName
    weights: AnyArray | None
    min_weight: float
    threads: int | None


class GridKeywords(CommonKeywords, total=False):
    """The keywords of `grid_sample`, flags excepted."""

    coords: Coords
    channel_axis: int
    out: AnyArray | None


class MapKeywords(CommonKeywords, total=False):
    """The keywords of `affine_sample`, flags excepted."""

    coords: MapCoordsName
    channel_axis: int


class WorldKeywords(CommonKeywords, total=False):
    """The keywords of `resample`, flags excepted."""

    axes: str
