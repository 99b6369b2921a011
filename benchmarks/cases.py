"""What is timed: shapes, grids, methods and directions.  Inputs are made as in the tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests import cases

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """One call to time.

    Attributes:
        shape: the image, (N, C, *spatial); channels first or last in memory as ``last`` says.
        mode: "nearest", "bilinear" or "bicubic".
        grid: "rotation" (smooth) or "random".
        direction: "forward", or "backward" for both gradients.
        last: whether the channels of a pixel lie side by side.
        required: whether it is one that must not be slower than torch.
    """

    shape: tuple[int, ...]
    mode: str = "bilinear"
    grid: str = "rotation"
    direction: str = "forward"
    last: bool = False
    required: bool = False

    @property
    def name(self) -> str:
        """A short name, the same in every run."""
        size = "x".join(map(str, self.shape))
        layout = " channels-last" if self.last else ""
        return f"{size}{layout} {self.mode} {self.grid} {self.direction}"

    @property
    def bytes(self) -> int:
        """Input, grid and output, touched once; twice that with their gradients."""
        items, channels, *spatial = self.shape
        points = items * int(np.prod(spatial))
        touched = 4 * points * (2 * channels + len(spatial))
        return touched if self.direction == "forward" else 2 * touched

    def inputs(self) -> tuple[Array, Array, Array]:
        """Image, grid and upstream gradient, float32."""
        rng = cases.generator(self.name)
        items, _, *spatial = self.shape
        image = rng.random(self.shape, dtype=np.float32)
        upstream = rng.random(self.shape, dtype=np.float32)
        if self.grid == "random":
            grid = rng.uniform(-1, 1, (items, *spatial, len(spatial)))
        else:
            grid = cases.rotation(spatial, False, items)
        if self.last:
            image, upstream = (
                np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1)
                for a in (image, upstream)
            )
        return image, np.ascontiguousarray(grid, np.float32), upstream


REQUIRED = ((1, 3, 1024, 1024), (8, 64, 128, 128), (1, 1, 128, 128, 128))
OTHERS = ((1, 1, 2048, 2048), (32, 3, 224, 224), (1, 256, 64, 64), (2, 16, 64, 64, 64))


def every_case() -> Iterator[Case]:
    """All cases, those that must hold first."""
    for shape in REQUIRED:
        yield Case(shape, required=True)
    for shape in OTHERS:
        yield Case(shape)
    for shape in REQUIRED + OTHERS:
        yield Case(shape, grid="random")
    for shape in (REQUIRED[0], OTHERS[0]):
        yield Case(shape, "nearest")
        yield Case(shape, "bicubic")
    yield Case(REQUIRED[1], last=True)
    yield Case(OTHERS[2], last=True)
    for shape in REQUIRED + OTHERS:
        yield Case(shape, direction="backward")
    yield Case(REQUIRED[1], direction="backward", last=True)
