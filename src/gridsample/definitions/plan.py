"""The plan of a call: its validated description, without arrays.

A plan is created from shapes, dtypes and checked options (`gridsample.definitions.options`).  It
contains no array, does not depend on a framework, and is cached.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.definitions.caches import cached_property
from gridsample.definitions.control_points import ControlPoints
from gridsample.definitions.coords import CONTINUE, MARGINS
from gridsample.definitions.footprints import Footprint
from gridsample.definitions.knots import Axes
from gridsample.definitions.methods import Method
from gridsample.definitions.shapes import Shape


class OutputBlock(NamedTuple):
    """A part of a larger output, in the order of the output's axes.

    Attributes:
        first: the index of its first point.
        whole: the shape of the whole output without N and C.
    """

    first: Shape
    whole: Shape


@dataclass(frozen=True)
class Plan:
    """One call of the operator, without its arrays.

    Attributes:
        methods: the methods, one per axis, in x, y, z order.
        boundaries: the names of the boundaries, one per axis, in x, y, z order.
        align_corners: whether -1 and 1 are the centres of the corner pixels.
        spatial: the image's spatial shape, in the array's order (z, y, x).
        image_items: N of the image.
        grid_items: N of the grid.  If N of the image or of the grid is 1, it is broadcast.
        channels: C.
        out: the grid's shape between its first and last axes.
        dtype: the dtype of the image and of the output, in native byte order.
        real: the dtype in which positions, weights and sums are computed.
        coords: the units of coordinates, one of COORDS, or `Axes`.  A "pixel" coordinate is a
            position already.  A "displacement" is added to the index of the output point along the
            same axis, if `out` has such an axis, so output pixel (.., z, y, x) with displacement 0
            is at position x, y, z.  Both have the slope 1, and align_corners only determines the
            meaning of "reflection".
        ends: where the image ends along each axis, in x, y, z order: a name in ENDS, or True if a
            boundary extends it; () if one does along all axes.
        footprint: how the footprints of output points are sampled; None to sample points.
        block: which part of a larger output `out` is, for displacements and maps; None for all.
        lattice: how the points of the grid lie among those of a lattice, which is passed in place
            of the grid; None for a grid or maps.
    """

    methods: tuple[Method, ...]
    boundaries: tuple[str, ...]
    align_corners: bool
    spatial: Shape
    image_items: int
    grid_items: int
    channels: int
    out: Shape
    dtype: np.dtype[Any]
    real: np.dtype[Any]
    coords: str | Axes = "normalized"
    ends: tuple[bool | str, ...] = ()
    footprint: Footprint | None = None
    block: OutputBlock | None = None
    lattice: ControlPoints | None = None

    def __hash__(self) -> int:
        """The hash, which is computed only once because plans are keys of many caches."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        sizes = (self.spatial, self.image_items, self.grid_items, self.channels, self.out)
        options = self.boundaries, self.align_corners, self.coords, self.ends, self.footprint
        return hash((self.methods, options, sizes, self.dtype, self.block, self.lattice))

    def are_maps(self, points: Shape) -> bool:
        """Whether points of this shape are affine or projective maps, not a grid of coordinates."""
        return points[-1] != len(self.spatial)

    @property
    def items(self) -> int:
        """N of the output."""
        return self.grid_items if self.image_items == 1 else self.image_items

    @property
    def whole(self) -> Shape:
        """The shape of the output that `out` is all or a part of."""
        return self.out if self.block is None else self.block.whole

    @cached_property
    def points(self) -> int:
        """The number of points of one item."""
        return math.prod(self.out)

    @property
    def shape(self) -> Shape:
        """The shape of the output, with channels first."""
        return (self.items, self.channels, *self.out)

    @cached_property
    def nearest(self) -> bool:
        """Whether every point copies one pixel."""
        copies = all(method.copies for method in self.methods)
        return copies and not any(BOUNDARIES[name].odd for name in self.boundaries)

    @cached_property
    def votes(self) -> bool:
        """Whether the taps vote for the values of their pixels, which are labels."""
        return any(method.votes for method in self.methods)

    @cached_property
    def sums_to_one(self) -> bool:
        """Whether the weights of all taps sum to one.

        If they do, points whose taps are all dropped have exactly the fill value.  Under an odd
        boundary they do not, because some signs change.
        """
        odd = any(BOUNDARIES[name].odd for name in self.boundaries)
        return all(method.normalized for method in self.methods) and not odd

    def vanishes(self, order: Sequence[int]) -> bool:
        """Whether the derivatives of the weights along some axis are all zero."""
        return any(n >= method.powers for n, method in zip(order, self.methods, strict=True))

    @cached_property
    def prefilters(self) -> bool:
        """Whether the method of some axis needs the prefilter."""
        return any(method.prefilter > 1 for method in self.methods)

    @cached_property
    def edges(self) -> tuple[int, ...]:
        """The place of each axis's mirrors (`Boundary.edge`), in x, y, z order."""
        return tuple(BOUNDARIES[name].edge_for(self.align_corners) for name in self.boundaries)

    @cached_property
    def folds(self) -> tuple[bool, ...]:
        """Whether each axis folds the position instead of each tap's index."""
        return tuple(
            method.folds_position and BOUNDARIES[name].folds_position
            for method, name in zip(self.methods, self.boundaries, strict=True)
        )

    @property
    def filled(self) -> bool:
        """Whether a dropped tap has the fill value; otherwise it contributes 0."""
        return any(BOUNDARIES[name].filled for name in self.boundaries)

    @cached_property
    def margins(self) -> tuple[float | None, ...]:
        """How far the image extends beyond its outermost pixel centres along each axis, in pixels.

        A position beyond gives the fill value regardless of its taps.  None if every position has
        taps.  In x, y, z order.
        """
        if not self.ends:
            return (None,) * len(self.spatial)
        return tuple(MARGINS.get(end) if isinstance(end, str) else None for end in self.ends)

    @property
    def extrapolate(self) -> bool:
        """Whether positions outside the image have taps, along every axis."""
        return not any(end in MARGINS for end in self.ends)

    def fill_is_constant(self, a: int) -> bool:
        """Whether points whose taps along an axis are all dropped have the value of those outside.

        Under "zeros" it is 0, but that of a position beyond an end of the image is the fill value.
        """
        return self.sums_to_one if BOUNDARIES[self.boundaries[a]].filled else self.extrapolate

    def continues(self, a: int) -> bool:
        """Whether the end intervals of an axis continue outside, in place of a boundary."""
        return bool(self.ends) and self.ends[a] == CONTINUE
