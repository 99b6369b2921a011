"""Images, coordinates, options and chunks for tests of chunked computations."""

from __future__ import annotations

from typing import Any

import numpy as np

import gridsample

Array = np.ndarray[Any, Any]


def divided(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[tuple[int, ...], ...]:
    """Random chunks of an array, of up to four along each axis."""
    chunks = []
    for n in shape:
        cuts = sorted({*rng.integers(1, n, 3).tolist()}) if n > 1 else []
        chunks.append(tuple(np.diff([0, *cuts, n]).tolist()))
    return tuple(chunks)


def picture(shape: tuple[int, ...], dtype: Any, rng: np.random.Generator) -> Array:
    return (rng.standard_normal((1, 2, *shape)) * 40 + 100).astype(dtype)


def coordinates(
    shape: tuple[int, ...], out: tuple[int, ...], coords: str, rng: np.random.Generator
) -> Array:
    """A grid that reaches beyond the image, steep in places, with a NaN."""
    index = np.stack(np.indices(out)[::-1], -1)
    sizes, outs = np.array(shape[::-1]), np.array(out[::-1])
    grid = (index + 0.5) / outs * 2.8 - 1.4 + rng.normal(0, 0.05, index.shape)
    if coords != "normalized":
        grid = ((grid + 1) * sizes - 1) / 2
    if coords == "displacement":
        grid = grid - index
    grid.reshape(-1)[rng.integers(grid.size)] = np.nan
    return grid[np.newaxis].astype(np.float32)


def options_of(
    mode: str, boundary: str, coords: str, antialias: bool, align_corners: bool
) -> dict[str, Any]:
    """The options of a call; no image contains the fill value."""
    options: dict[str, Any] = {
        "mode": mode,
        "padding_mode": boundary,
        "coords": coords,
        "antialias": antialias,
        "align_corners": align_corners,
    }
    return options | ({"fill_value": 7} if boundary == "constant" else {})


def is_halved(grid: Array, image: Array, options: dict[str, Any]) -> bool:
    """Whether footprints are so long that a halved copy of the image is made."""
    names = ("align_corners", "coords", "max_samples")
    known = {name: options[name] for name in names if name in options}
    return bool(gridsample.footprint(grid, image.shape[2:], **known).levels.any())
