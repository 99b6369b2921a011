"""Arrays that are read box by box: images in parts, and what is derived from them where it is read.

Whoever has an image in parts, in chunks of Dask or in a store, describes it by a subclass of
`Pixels`.  Coefficients and halved copies are subclasses, too: they compute a box from what they
read of another array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.chunked.halving import Halving
from gridsample.chunked.regions import Array, Block, Region, lengths_of
from gridsample.chunked.splines import Line, coefficients_of, with_last_halo
from gridsample.chunked.windows import ImageWindow
from gridsample.definitions.shapes import Shape


class Pixels:
    """An array that is read box by box.

    Attributes:
        shape: the shape; for `window`, (N, C, *spatial), or (N, *spatial, C) for channels last.
        dtype: the dtype, in the machine's order of bytes.
        first_axis: the first spatial axis, 2 or 1.
    """

    def __init__(self, shape: Shape, dtype: np.dtype[Any], first_axis: int = 2) -> None:
        self.shape, self.first_axis = shape, first_axis
        self.dtype: np.dtype[Any] = dtype.newbyteorder("=")

    def read(self, box: Block, out: Array) -> None:
        """Store the pixels of a box, which has slices of all axes, in an array."""
        raise NotImplementedError

    def __getitem__(self, box: Block) -> Array:
        """Return the pixels of a box, which has slices of all axes."""
        out = np.empty(lengths_of(box), self.dtype)
        self.read(box, out)
        return out

    def box(self, spatial: Sequence[slice]) -> Block:
        """Return a box of all items and channels, given slices of the spatial axes."""
        full = [slice(0, n) for n in self.shape]
        full[self.first_axis : self.first_axis + len(spatial)] = spatial
        return tuple(full)

    def window(self, region: Region) -> ImageWindow:
        """Return a window with the pixels of a region."""
        window = self.empty_window(region)
        for box in region.boxes():
            self.read(self.box(box), window.array[window.at(box)])
        return window

    def empty_window(self, region: Region) -> ImageWindow:
        """Return a window with room for a region."""
        return ImageWindow(region, self.shape, self.dtype, 1 if self.first_axis == 2 else -1)


class Coefficients(Pixels):
    """The B-spline coefficients of an image.

    Attributes:
        pixels: the image: `Pixels`, or another object with a shape and a method `read`.
        lines: how its axes are filtered, at least one.
    """

    def __init__(
        self, pixels: Any, lines: Sequence[Line], dtype: np.dtype[Any], first_axis: int = 2
    ) -> None:
        super().__init__(pixels.shape, dtype, first_axis)
        self.pixels, self.lines = pixels, lines

    def read(self, box: Block, out: Array, held: Array | None = None) -> None:
        """Compute the coefficients of a box; ``held`` as in `coefficients_of`."""
        coefficients_of(self.pixels.read, box, self.lines, self.shape, out, held)

    def window(self, region: Region) -> ImageWindow:
        """Return a window with the coefficients of a region, in place where that is possible."""
        spatial = self.shape[self.first_axis : self.first_axis + len(region.axes)]
        settings = self.lines, spatial, self.dtype, self.first_axis
        padded = with_last_halo(region, *settings) if all(region.axes) else None
        if padded is None:
            return super().window(region)
        window = self.empty_window(padded)
        for box, held in zip(region.boxes(), padded.boxes(), strict=True):
            places = [window.array[window.at(each)] for each in (box, held)]
            self.read(self.box(box), *places)
        return window


class Halved(Pixels):
    """A halved copy of an image.

    Attributes:
        pixels: the image: `Pixels`, or another object with a shape that returns boxes.
        halvings: how its axes are halved.
    """

    def __init__(self, pixels: Any, halvings: Sequence[Halving], dtype: np.dtype[Any]) -> None:
        axes = [halving.axis for halving in halvings]
        shape = tuple((n + 1) // 2 if k in axes else n for k, n in enumerate(pixels.shape))
        super().__init__(shape, dtype)
        self.pixels, self.halvings = pixels, halvings

    def read(self, box: Block, out: Array) -> None:
        """Compute a box."""
        source = list(box)
        for each in self.halvings:
            (interval,) = each.intervals(box[each.axis].start, box[each.axis].stop)
            source[each.axis] = slice(*interval)
        values = self.pixels[tuple(source)]
        for each in self.halvings:
            part = box[each.axis]
            values = each.compute(values.astype(each.dtype, copy=False), part.start, part.stop)
        out[...] = values.astype(self.dtype, copy=False)
