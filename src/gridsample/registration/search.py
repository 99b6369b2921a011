"""The start: the rotation, scale and translation at which the images agree best.

If the images agree without a motion, or after a small one, there is nothing to search.  Otherwise,
for every rotation and scale, the moving image is resampled at a low resolution, and correlated with
the fixed image at all translations at once by Fourier transforms, with the normalization of D.
Padfield, "Masked object registration in the Fourier domain", IEEE Transactions on Image Processing
21 (2012).  The best candidates are refined, from one resolution to the next, until one of them
agrees.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gridsample.ops.sampling import grid_sample
from gridsample.registration.assessment import relation
from gridsample.registration.losses import Loss
from gridsample.registration.models import Matrix, generators
from gridsample.registration.optimisation import minimize
from gridsample.registration.pyramid import Pair, PyramidLevel
from gridsample.registration.sums import total

_SIDES = {2: (48, 96, 192), 3: (20, 40)}
"""The longest sides of the images that are compared, in pixels."""
_DEGREES = {2: (15.0, 5.0), 3: (20.0,)}
"""The steps of rotations, in the first search and in one at twice the resolution."""
_REFINED = (16, 5, 2)
"""The numbers of candidates that are refined at each resolution."""
_PEAKS, _PEAK_DISTANCE = 4, 3
"""The number of translations that are kept for each rotation and scale; how far they are apart."""
_MIN_OVERLAP = 0.3
"""The smallest overlap of candidates, relative to the smaller image."""
_SMALLEST_SCALE = 0.8
"""The smallest factor by which distances in the fixed image are multiplied."""
_TRUSTED_RELATION = 0.6
"""The relation from which no other candidate is tried."""
_TRUSTED_OVERLAP = 0.5
"""The overlap, in the fixed image, from which it is trusted: small parts agree by chance."""
_CLEAR_DIFFERENCE = 0.1
"""The difference of relations above which the loss does not matter."""
_LARGEST_CANVAS = 1 << 25
"""The most pixels of a correlation: about 3 GB."""


@dataclass(frozen=True)
class Candidate:
    """A start, with its loss, relation and overlap at the resolution at which it was refined."""

    matrix: Tensor
    loss: float
    relation: float
    overlap: float

    @property
    def is_trusted(self) -> bool:
        """Whether no other candidate needs to be tried."""
        return self.relation >= _TRUSTED_RELATION and self.overlap >= _TRUSTED_OVERLAP


def start(pair: Pair, model: str, loss: Loss) -> Tensor:
    """Search for a matrix of the frame to start from."""
    rank = len(pair.size)
    longest = max(n * s for n, s in zip(pair.size, pair.spacing, strict=True))
    pixels = [max(longest / min(pair.spacing) / side, 1.0) for side in _SIDES[rank]]
    levels = [pair.level(pixel) for pixel in dict.fromkeys(pixels)]
    group = generators(model if model in ("translation", "rigid") else "similarity", rank)
    eye = torch.eye(rank + 1, dtype=torch.float64)
    with torch.no_grad():
        best = refined(eye, group, loss, levels[0])
        for number, degrees in enumerate(_DEGREES[rank]):
            if best.is_trusted or number >= len(levels) or (number and model == "translation"):
                break
            linear = list(rotations(model, rank, degrees))
            for _ in range(2):  # again, with rotations and scales that were refined
                starts = candidates(levels[number], linear, loss)
                pool = tournament(
                    itertools.chain([best.matrix], starts), group, loss, levels[number:]
                )
                best = better_of(best, pool[0])
                if best.is_trusted or model == "translation":
                    break
                linear = [candidate.matrix[:rank, :rank] for candidate in pool]
    return best.matrix


def tournament(
    starts: Iterable[Tensor], group: Tensor, loss: Loss, levels: Sequence[PyramidLevel]
) -> list[Candidate]:
    """Refine candidates from one level to the next, fewer at each, until one is trusted.

    Returns:
        The candidates of the last level, the best first.
    """
    for level, count in zip(levels, _REFINED, strict=False):
        pool = list[Candidate]()
        for matrix in itertools.islice(starts, count + 1):
            pool.append(refined(matrix, group, loss, level))
            if pool[-1].is_trusted:
                return pool[-1:]
        by_loss = sorted(pool, key=lambda candidate: candidate.loss)
        by_relation = sorted(pool, key=lambda candidate: -candidate.relation)
        best = better_of(by_loss[0], by_relation[0])
        mixed = itertools.chain.from_iterable(zip(by_relation, by_loss, strict=True))
        pool = without_duplicates([best, *mixed], level)
        starts = [candidate.matrix for candidate in pool]
    return pool


def better_of(left: Candidate, right: Candidate) -> Candidate:
    """The candidate with the clearly higher relation, or else with the smaller loss."""
    if abs(left.relation - right.relation) > _CLEAR_DIFFERENCE:
        return max(left, right, key=lambda candidate: candidate.relation)
    return min(left, right, key=lambda candidate: candidate.loss)


def without_duplicates(pool: Sequence[Candidate], level: PyramidLevel) -> list[Candidate]:
    """Leave out candidates that move all corners to nearly the same points as a better one."""
    rank = len(level.axes.size)
    corners = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=rank)), dtype=torch.float64)
    kept, targets = list[Candidate](), list[Tensor]()
    for candidate in pool:
        moved = corners @ candidate.matrix[:rank, :rank].T + candidate.matrix[:rank, rank]
        if all(
            float((moved - target).abs().max()) > max(level.axes.spacings) for target in targets
        ):
            kept.append(candidate)
            targets.append(moved)
    return kept


def refined(matrix: Tensor, group: Tensor, loss: Loss, level: PyramidLevel) -> Candidate:
    """Optimize a candidate at a level."""
    descent = minimize(Matrix(matrix, group), loss, level, 10, 0.05)
    state = descent.state
    if not math.isfinite(state.loss):
        return Candidate(state.model.matrix, math.inf, 0.0, 0.0)
    agreement = relation(state.warped, level.fixed, state.weight, level.weight)
    overlap = float(total(state.weight) / total(level.weight))
    return Candidate(state.model.matrix, state.loss, agreement, overlap)


def rotations(model: str, rank: int, degrees: float) -> Iterator[Tensor]:
    """The rotations and scales to try, as matrices (D, D); the identity comes first."""
    eye = torch.eye(rank, dtype=torch.float64)
    yield eye
    if model == "translation":
        return
    step = math.radians(degrees)
    scales = (1.0,) if model == "rigid" or rank == 3 else scales_for(step)
    if rank == 2:
        angles: list[tuple[float, ...]] = [(step * k,) for k in range(round(360 / degrees))]
    else:
        angles = list(itertools.product((-step, 0.0, step), repeat=3))
    planes = list(itertools.combinations(range(rank), 2))
    for rotation_angles in angles:
        rotation = eye
        for angle, (i, j) in zip(rotation_angles, planes, strict=True):
            factor = eye.clone()
            factor[i, i] = factor[j, j] = math.cos(angle)
            factor[j, i], factor[i, j] = math.sin(angle), -math.sin(angle)
            rotation = rotation @ factor
        for scale in scales:
            if scale != 1 or any(rotation_angles):
                yield rotation * scale


def scales_for(step: float) -> tuple[float, ...]:
    """Scales from the smallest one to its inverse: a step moves points by up to twice an angle."""
    count = math.ceil(-math.log(_SMALLEST_SCALE) / (2 * step))
    return tuple(_SMALLEST_SCALE ** (k / count) for k in range(count, -count - 1, -1))


def edges(image: Tensor) -> Tensor:
    """The length of the gradient of (*spatial), the same for inverted contrast."""
    return torch.stack([part * part for part in torch.gradient(image)]).sum(0).sqrt()


def features(level: PyramidLevel, use_edges: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What is correlated: one channel of each image, and where it is known."""
    fixed, moving = level.fixed.mean(0), level.moving[0].mean(0)
    known = torch.ones_like(moving) if level.known is None else level.known[0, 0]
    if use_edges:
        fixed, moving = edges(fixed), edges(moving)
    return fixed * level.weight, level.weight, moving * known, known


def candidates(level: PyramidLevel, linear: Sequence[Tensor], loss: Loss) -> Iterator[Tensor]:
    """The best matrices of these rotations and scales, at their most significant translations.

    If the contrast may be inverted, half of them are those at which edges correlate best.
    """
    count = _REFINED[0] // 2 if loss.any_contrast else _REFINED[0]
    yield from correlated(level, linear, loss.any_contrast, False)[:count]
    if loss.any_contrast:
        yield from correlated(level, linear, True, True)[:count]


def correlated(
    level: PyramidLevel, linear: Sequence[Tensor], any_contrast: bool, use_edges: bool
) -> list[Tensor]:
    """Correlate the images, or their edges, at all translations for each linear map.

    Returns:
        A matrix for each peak of the correlations, the most significant first.
    """
    fixed, weight, moving, known = features(level, use_edges)
    extent = canvas(level, linear)
    check_extent(extent, level)
    min_pixels = _MIN_OVERLAP * float(min(weight.sum(), known.sum()))
    shape = cyclic(fixed.shape, extent, min_pixels)
    fixed_spectra = spectra(fixed, weight, shape).conj()
    spacings = torch.tensor(level.axes.spacings[::-1], dtype=torch.float64)
    corner = -spacings * (torch.tensor(extent, dtype=torch.float64) - 1) / 2
    lines = [
        torch.arange(n).to(fixed) * s + c
        for n, s, c in zip(extent, spacings.tolist(), corner.tolist(), strict=True)
    ]
    points = torch.stack(torch.meshgrid(*lines, indexing="ij")[::-1], -1)
    to_pixels = torch.linalg.inv(level.moving_axes.matrix())
    both = torch.stack([moving, known])[None]
    candidates = list[tuple[float, Tensor, list[int]]]()
    for rotation in linear:
        positions = points @ (to_pixels[:-1, :-1] @ rotation).T.to(fixed)
        positions += to_pixels[:-1, -1].to(fixed)
        image, share = grid_sample(both, positions[None], "bilinear", "zeros", coords="pixel")[0]
        inside = (share > 0.99).to(image)
        score = correlations(
            fixed_spectra, spectra(image * inside, inside, shape), shape, min_pixels
        )
        if any_contrast and not use_edges:
            score = score.abs_()
        candidates += [(value, rotation, index) for value, index in peaks(score)]
    candidates.sort(key=lambda peak: -peak[0])
    origin = torch.tensor(level.axes.origin[::-1], dtype=torch.float64)
    first = corner - origin
    matrices = []
    for _, rotation, index in candidates:
        # Entry k pairs pixel 0 of the fixed image with pixel k of the canvas.
        offset = [k - n if k >= m else k for k, n, m in zip(index, shape, extent, strict=True)]
        shift = (first + spacings * torch.tensor(offset, dtype=torch.float64)).flip(0)
        matrices.append(affine(rotation, rotation @ shift))
    return matrices


def affine(linear: Tensor, shift: Tensor) -> Tensor:
    """The homogeneous matrix of x -> linear x + shift."""
    rank = len(shift)
    matrix = torch.eye(rank + 1, dtype=torch.float64)
    matrix[:rank, :rank], matrix[:rank, rank] = linear, shift
    return matrix


def peaks(score: Tensor) -> Iterator[tuple[float, list[int]]]:
    """The highest local maxima above 0, and where they are."""
    highest = score
    for axis in range(score.ndim):
        before, highest = highest, highest.clone()
        for k in range(1, _PEAK_DISTANCE):
            n = score.shape[axis] - k
            for left, right in ((0, k), (k, 0)):
                target = highest.narrow(axis, left, n)
                torch.maximum(target, before.narrow(axis, right, n), out=target)
    maxima = ((score == highest) & (score > 0)).flatten().nonzero()[:, 0]
    values = score.flatten()[maxima]
    values, order = values.topk(min(_PEAKS, len(values)))
    for value, index in zip(values.tolist(), maxima[order].tolist(), strict=True):
        yield value, [int(k) for k in np.unravel_index(index, score.shape)]


def canvas(level: PyramidLevel, linear: Sequence[Tensor]) -> list[int]:
    """The pixels of the fixed image's size that hold the moving image under all linear maps."""
    moving = level.moving_axes
    lengths = [n * s for n, s in zip(moving.size[::-1], moving.spacings, strict=True)]
    boxes = torch.linalg.inv(torch.stack(list(linear))).abs()
    across = (boxes @ torch.tensor(lengths, dtype=torch.float64)).amax(0).tolist()
    return [
        math.ceil(a / s - 1e-6)
        for a, s in zip(across[::-1], level.axes.spacings[::-1], strict=True)
    ]


def check_extent(extent: Sequence[int], level: PyramidLevel) -> None:
    """Raise an error if the moving image is so large that it cannot be searched."""
    if math.prod(extent) > _LARGEST_CANVAS:
        ratio = max(a / n for a, n in zip(extent, level.axes.size, strict=True))
        raise ValueError(
            f"moving is about {ratio:.3g} times as long as fixed, by spacing and moving_spacing, "
            "and too large for a search; give both spacings in the same units, crop moving, or "
            "pass initial='identity' or a matrix"
        )


def cyclic(size: Sequence[int], extent: Sequence[int], min_pixels: float) -> list[int]:
    """The lengths of cyclic correlations, in which only overlaps below ``min_pixels`` wrap."""
    pixels, shape = math.prod(size), []
    for a, b in zip(size, extent, strict=True):
        wrapped = math.ceil(min_pixels * a / pixels) - 2  # of m lines that wrap, m + 1 overlap
        shape.append(fast_length(a + b - 1 - max(wrapped, 0)))
    return shape


def fast_length(n: int) -> int:
    """The next multiple of 8 without prime factors above 5, for fast Fourier transforms."""
    while True:
        rest = n
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1 and n % 8 == 0:
            return n
        n += 1


def spectra(image: Tensor, known: Tensor, shape: Sequence[int]) -> Tensor:
    """The Fourier transforms of the known pixels, the image, and its square."""
    planes = torch.stack([known, image, image * image])
    transforms: Tensor = torch.fft.rfftn(planes, s=tuple(shape), dim=tuple(range(1, planes.ndim)))
    return transforms


def correlations(fixed: Tensor, moving: Tensor, shape: Sequence[int], min_pixels: float) -> Tensor:
    """The significance of the correlation at all translations; 0 where they overlap less.

    Args:
        fixed: the conjugate of the fixed image's `spectra`.
        moving: the moving image's spectra.
        shape: the lengths of the correlations.
        min_pixels: the smallest number of pixels that must overlap.
    """
    products = torch.stack([*(fixed * moving[0]), *(fixed[0] * moving[1:]), fixed[1] * moving[1]])
    sums = torch.fft.irfftn(products, s=tuple(shape), dim=tuple(range(1, products.ndim)))
    count, a, aa, b, bb, ab = sums
    number = count.clamp_min(1)
    shared = ab - a * b / number
    sizes = (aa - a * a / number).clamp_min(0) * (bb - b * b / number).clamp_min(0)
    floor = 1e-4 * float(sizes.max()) + 1e-12
    correlation = shared * torch.rsqrt(sizes.clamp_min(floor))
    # Fisher's transform times the root of the number of samples: large overlaps count for more.
    score = torch.atanh(correlation.clamp(-0.999, 0.999)) * number.sqrt()
    significant: Tensor = score * (count >= min_pixels)
    return significant
