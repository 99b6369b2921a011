"""Images that known maps register, and the error of a result."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gridsample.registration import Registration

SIDE = 64


def blobs(*size: int, count: int = 40, seed: int = 0) -> np.ndarray:
    """A smooth image with structure everywhere, as a function of positions in pixels."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(-0.2, 1.2, (count, len(size))) * size[::-1]
    heights, widths = rng.uniform(-1, 1, count), rng.uniform(0.04, 0.12, count) * max(size)

    def at(positions: np.ndarray) -> np.ndarray:
        total = np.zeros(positions.shape[:-1])
        for place, height, width in zip(places, heights, widths, strict=True):
            total += height * np.exp(-((positions - place) ** 2).sum(-1) / (2 * width**2))
        return total

    return at


def pixels(*size: int) -> np.ndarray:
    """The positions of all pixels, x first."""
    return np.stack(np.meshgrid(*map(np.arange, size), indexing="ij")[::-1], -1).astype(float)


def moved(matrix: np.ndarray, points: np.ndarray) -> np.ndarray:
    targets = points @ matrix[:, :-1].T + matrix[:, -1]
    return targets[..., :-1] / targets[..., -1:]


def about_centre(part: Any, shift: Any, size: tuple[int, ...], last: Any = None) -> np.ndarray:
    """The matrix of x -> part (x - c) + shift + c, and a last row in units of 1 / pixel."""
    centre = (np.array(size[::-1]) - 1) / 2
    rank = len(size)
    to, back, matrix = np.eye(rank + 1), np.eye(rank + 1), np.eye(rank + 1)
    to[:rank, rank], back[:rank, rank] = -centre, centre
    matrix[:rank, :rank], matrix[:rank, rank] = part, shift
    if last is not None:
        matrix[rank, :rank] = last
    composed = back @ matrix @ to
    return composed / composed[rank, rank]


def rotation(degrees: float) -> np.ndarray:
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return np.array([[c, -s], [s, c]])


SHIFT = (0.2 * SIDE, -0.12 * SIDE)
MAPS = {
    "translation": about_centre(np.eye(2), SHIFT, (SIDE, SIDE)),
    "rigid": about_centre(rotation(25), SHIFT, (SIDE, SIDE)),
    "similarity": about_centre(0.9 * rotation(-20), SHIFT, (SIDE, SIDE)),
    "affine": about_centre([[1.1, 0.1], [-0.15, 0.92]], SHIFT, (SIDE, SIDE)),
    "homography": about_centre(rotation(8), SHIFT, (SIDE, SIDE), (1.5e-3, -1e-3)),
}


def images(matrix: np.ndarray, *size: int) -> tuple[np.ndarray, np.ndarray]:
    """A fixed and a moving image, such that the matrix maps pixels of the first to the second."""
    at = blobs(*size)
    points = pixels(*size)
    return at(moved(matrix, points)), at(points)


def error(result: Registration, matrix: np.ndarray) -> float:
    """The largest distance between found and true positions, where these are on the image."""
    field = np.asarray(result.field)[0]
    points = pixels(*field.shape[:-1])
    true = moved(matrix, points)
    inside = ((true >= 0) & (true <= np.array(field.shape[-2::-1]) - 1)).all(-1)
    return float(np.sqrt(((points + field - true) ** 2).sum(-1))[inside].max())
