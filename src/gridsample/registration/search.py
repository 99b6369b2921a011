"""The start: the rotation, scale and translation with the most significant correlation.

For every candidate of a rotation and a scale, the moving image is resampled at a low resolution,
and correlated with the fixed image at all translations at once by Fourier transforms, with the
normalization of D. Padfield, "Masked object registration in the Fourier domain", IEEE Transactions
on Image Processing 21 (2012).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from gridsample.ops.sampling import grid_sample
from gridsample.registration.losses import Loss
from gridsample.registration.models import Matrix, generators
from gridsample.registration.optimisation import minimize, evaluate
from gridsample.registration.pyramid import Level, Pair

_SIDE = {2: 48, 3: 20}
"""The longest side of the images that are compared, in pixels."""
_LEAST_OVERLAP = 0.3
"""The least overlap of candidates, relative to the smaller image."""
_SMALLEST_SCALE = 0.8
"""The smallest factor by which distances in the fixed image are multiplied."""
_KEPT = 6
"""The number of candidates that are refined."""


def turns(model: str, rank: int) -> Iterator[Tensor]:
    """The rotations and scales to try, as matrices (D, D); the identity comes first."""
    eye = torch.eye(rank, dtype=torch.float64)
    yield eye
    if model == "translation":
        return
    scales = (1.0,) if model == "rigid" or rank == 3 else (_SMALLEST_SCALE, 1.0, 1.25)
    if rank == 2:
        angles: list[tuple[float, ...]] = [(math.radians(15 * k),) for k in range(24)]
    else:
        some = [math.radians(degrees) for degrees in (-20, 0, 20)]
        angles = list(itertools.product(some, repeat=3))
    planes = list(itertools.combinations(range(rank), 2))
    for several in angles:
        turn = eye
        for angle, (i, j) in zip(several, planes, strict=True):
            one = eye.clone()
            one[i, i] = one[j, j] = math.cos(angle)
            one[j, i], one[i, j] = math.sin(angle), -math.sin(angle)
            turn = turn @ one
        for scale in scales:
            if scale != 1 or any(several):
                yield turn * scale


def edges(image: Tensor) -> Tensor:
    """The length of the gradient of (*spatial), the same for inverted contrast."""
    parts = torch.gradient(image)
    return torch.stack([one * one for one in parts]).sum(0).sqrt()


def features(level: Level, compare_edges: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What is correlated: one channel of each image, and where it is known."""
    fixed, moving = level.fixed.mean(0), level.moving[0].mean(0)
    known = torch.ones_like(moving) if level.known is None else level.known[0, 0]
    if compare_edges:
        fixed, moving = edges(fixed), edges(moving)
    return fixed * level.weight, level.weight, moving * known, known


def candidates(level: Level, model: str, compare_edges: bool) -> list[tuple[float, Tensor]]:
    """The best translation of each rotation and scale: significance and matrix, best first."""
    fixed, weight, moving, known = features(level, compare_edges)
    rank = fixed.ndim
    reach = canvas(level)
    side = torch.tensor(level.axes.spacings[::-1], dtype=torch.float64)
    shape = [fast_length(a + b - 1) for a, b in zip(fixed.shape, reach, strict=True)]
    mine = spectra(fixed, weight, shape)
    first = torch.tensor(level.axes.origin[::-1], dtype=torch.float64)
    corner = -side * (torch.tensor(reach, dtype=torch.float64) - 1) / 2
    lines = [
        torch.arange(n) * float(s) + float(c) for n, s, c in zip(reach, side, corner, strict=True)
    ]
    points = torch.stack(torch.meshgrid(*lines, indexing="ij")[::-1], -1).to(fixed)
    back = torch.linalg.inv(level.moving_axes.matrix())
    both = torch.stack([moving, known])[None]
    least = _LEAST_OVERLAP * float(min(weight.sum(), known.sum()))
    found = []
    for turn in turns(model, rank):
        places = points @ (back[:-1, :-1] @ turn).T.to(fixed) + back[:-1, -1].to(fixed)
        image, there = grid_sample(both, places[None], "bilinear", "zeros", coords="pixel")[0]
        there = (there > 0.99).to(image)
        best, index = correlate(mine, spectra(image * there, there, shape), shape, least)
        # Entry k of the correlation pairs pixel 0 of the fixed image with pixel k of the canvas.
        offset = [k - n if k >= m else k for k, n, m in zip(index, shape, reach, strict=True)]
        shift = (corner + side * torch.tensor(offset, dtype=torch.float64) - first).flip(0)
        matrix = torch.eye(rank + 1, dtype=torch.float64)
        matrix[:rank, :rank], matrix[:rank, rank] = turn, turn @ shift
        found.append((best, matrix))
    return sorted(found, key=lambda one: -one[0])


def canvas(level: Level) -> list[int]:
    """The pixels of the fixed image's size that hold the moving image in every rotation."""
    sides = zip(level.moving_axes.size[::-1], level.moving_axes.spacings, strict=True)
    across = math.sqrt(sum((n * s) ** 2 for n, s in sides))
    if len(level.axes.size) == 2:
        across /= _SMALLEST_SCALE
    return [math.ceil(across / s) for s in level.axes.spacings[::-1]]


def fast_length(n: int) -> int:
    """The next number without prime factors above 5, for which Fourier transforms are fast."""
    while True:
        left = n
        for prime in (2, 3, 5):
            while left % prime == 0:
                left //= prime
        if left == 1:
            return n
        n += 1


def spectra(image: Tensor, known: Tensor, shape: Sequence[int]) -> Tensor:
    """The Fourier transforms of the known pixels, the image, and its square."""
    planes = torch.stack([known, image, image * image])
    found: Tensor = torch.fft.rfftn(planes, s=tuple(shape), dim=tuple(range(1, planes.ndim)))
    return found


def correlate(
    fixed: Tensor, moving: Tensor, shape: Sequence[int], least: float
) -> tuple[float, list[int]]:
    """The most significant correlation over all translations, and its place."""
    pairs = [(0, 0), (1, 0), (2, 0), (0, 1), (0, 2), (1, 1)]
    products = torch.stack([fixed[i].conj() * moving[j] for i, j in pairs])
    sums = torch.fft.irfftn(products, s=tuple(shape), dim=tuple(range(1, products.ndim)))
    count, a, aa, b, bb, ab = sums
    number = count.clamp_min(1)
    shared = ab - a * b / number
    sizes = (aa - a * a / number).clamp_min(0) * (bb - b * b / number).clamp_min(0)
    floor = 1e-4 * float(sizes.max()) + 1e-12
    correlation = shared * torch.rsqrt(sizes.clamp_min(floor))
    # Fisher's transform times the root of the number of samples: large overlaps count for more.
    score = torch.atanh(correlation.clamp(-0.999, 0.999)) * number.sqrt()
    score = torch.where(count >= least, score, -math.inf)
    place = int(score.argmax())
    index = [int(k) for k in torch.unravel_index(torch.tensor(place), score.shape)]
    return float(score.flatten()[place]), index


def start(pair: Pair, model: str, loss: Loss) -> Tensor:
    """Search for a matrix of the frame to start from, by correlation and then by the loss."""
    rank = len(pair.size)
    longest = max(n * s for n, s in zip(pair.size, pair.spacing, strict=True))
    level = pair.level(max(longest / min(pair.spacing) / _SIDE[rank], 1.0))
    group = model if model in ("translation", "rigid") else "similarity"
    directions = generators(group, rank)
    eye = torch.eye(rank + 1, dtype=torch.float64)
    best, smallest = eye, math.inf
    with torch.no_grad():
        several = [one for score, one in candidates(level, model, loss.edges) if score > 0]
        for matrix in [*several[:_KEPT], eye]:
            found, _ = minimize(Matrix(matrix, directions), loss, level, 10, 0.05)
            value = evaluate(found, loss, level).loss
            if value < smallest:
                best, smallest = found.matrix, value
    return best
