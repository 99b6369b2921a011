"""Lattices: voxels, or pixels, that have positions in a world."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Lattice:
    """The voxels of an image, and where they are in the world.

    It can be unpacked as the pair (shape, affine).

    Attributes:
        shape: the spatial shape.
        affine: (D + 1, D + 1), or (N, D + 1, D + 1), from the indices of a voxel to the world.
        names: the names of the axes of the world, in the order of the affine's rows; () if unknown.
        units: their units, such as "millimeter"; () if unknown.

    Example:
        >>> import numpy as np, gridsample
        >>> from gridsample.world import Lattice
        >>> each_mm = Lattice((4,), [[1.0, 1.0], [0.0, 1.0]], ("x",), ("millimeter",))
        >>> gridsample.resample(np.array([0.0, 10.0, 20.0]), [[2.0, 0.0], [0.0, 1.0]], each_mm)
        array([ 5., 10., 15., 20.])
    """

    shape: Sequence[int]
    affine: Any
    names: tuple[str, ...] = ()
    units: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Any]:
        """Yield the shape and the affine."""
        return iter((self.shape, self.affine))

    @classmethod
    def of(cls, like: Any) -> Lattice:
        """Return an argument ``like``, which may be a pair (shape, affine), as a lattice.

        Raises:
            TypeError: it is neither.
        """
        if isinstance(like, cls):
            return like
        try:
            shape, affine = like
            if isinstance(affine, int):  # a shape alone
                raise TypeError
        except (TypeError, ValueError):
            raise TypeError(
                "like must be (shape, affine): the spatial shape of the output, and the affine of "
                f"its voxels; got {type(like).__name__}"
            ) from None
        return cls(shape, affine)
