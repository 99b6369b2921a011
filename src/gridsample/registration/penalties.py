"""Regularization of fields, and the solver for their Gauss-Newton steps.

A penalty is a quadratic form: half the weight times the mean of the squares of differences.  So its
gradient is linear in the field, and is what the solver needs, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gridsample.fields.arrays import check_name
from gridsample.registration.sums import total

PENALTIES = ("diffusion", "bending")


@dataclass(frozen=True)
class Penalty:
    """A regularization of fields (1, *spatial, D).

    Attributes:
        name: "diffusion", the sum of the squared first derivatives, or "bending", of the second.
        weight: its factor in the loss.
    """

    name: str
    weight: float

    def __post_init__(self) -> None:
        check_name(self.name, PENALTIES, "regularization")

    def operators(self, rank: int) -> Iterator[tuple[tuple[int, ...], float]]:
        """Yield derivatives: the axes along which differences are taken, and how often each counts.

        Mixed derivatives count twice.
        """
        for i in range(rank):
            if self.name == "diffusion":
                yield (i,), 1.0
                continue
            for j in range(i + 1):
                yield (i, j), 1.0 if i == j else 2.0

    def energy(self, field: Tensor, spacings: Tensor) -> Tensor:
        """The penalty of a field on pixels with these spacings along x, y, z."""
        return total(field * self.gradient(field, spacings)) / 2

    def gradient(self, field: Tensor, spacings: Tensor) -> Tensor:
        """The derivative of `energy`."""
        rank = field.shape[-1]
        gradient = torch.zeros_like(field)
        points = field[0, ..., 0].numel()
        for axes, count in self.operators(rank):
            differences, factor = field, count * self.weight / points
            for axis in axes:
                differences = torch.diff(differences, dim=rank - axis)
                factor = factor / float(spacings[axis]) ** 2
            for axis in reversed(axes):
                differences = adjoint_difference(differences, rank - axis)
            gradient = gradient + differences * factor
        return gradient

    def spectrum(self, field: Tensor, spacings: Tensor) -> Tensor:
        """(*spatial): the factors by which `gradient` multiplies the cosines of `cosines`.

        This is exact for diffusion, and an approximation near the edges for bending.
        """
        rank = field.shape[-1]
        size = field.shape[1:-1]
        along = []
        for axis in range(rank):
            n = size[rank - 1 - axis]
            angle = torch.arange(n, dtype=field.dtype, device=field.device) * (math.pi / n)
            line = (2 - 2 * torch.cos(angle)) / float(spacings[axis]) ** 2
            along.append(line.reshape(-1, *(1,) * axis))
        spectrum = torch.zeros(size, dtype=field.dtype, device=field.device)
        for axes, count in self.operators(rank):
            product = torch.full_like(spectrum, count)
            for axis in axes:
                product = product * along[axis]
            spectrum = spectrum + product
        return spectrum * (self.weight / math.prod(size))


def adjoint_difference(differences: Tensor, dim: int) -> Tensor:
    """The transpose of `torch.diff` along an axis."""
    shape = [*differences.shape]
    shape[dim] = 1
    edge = differences.new_zeros(shape)
    return -torch.diff(torch.cat([edge, differences, edge], dim), dim=dim)


_LONG = 1024
"""Axes up to this length are transformed by a product with a matrix, which is faster."""


def cosines(field: Tensor) -> Tensor:
    """The discrete cosine transform (DCT-II) along the spatial axes of (1, *spatial, D).

    Long axes are transformed by Fourier transforms of the same length: J. Makhoul, "A fast cosine
    transform in one and two dimensions", IEEE Transactions on Acoustics, Speech, and Signal
    Processing 28 (1980).
    """
    for dim in range(1, field.ndim - 1):
        if field.shape[dim] <= _LONG:
            field = multiply_lines(field, cosine_matrix(field, field.shape[dim]), dim)
            continue
        lines = field.movedim(dim, -1)
        lines = torch.cat([lines[..., ::2], lines[..., 1::2].flip(-1)], -1)
        rotated = torch.fft.fft(lines) * _quarter_turns(lines)
        field = rotated.real.movedim(-1, dim)
    return field


def inverse_cosines(field: Tensor) -> Tensor:
    """The inverse of `cosines`."""
    for dim in range(1, field.ndim - 1):
        n = field.shape[dim]
        if n <= _LONG:
            matrix = cosine_matrix(field, n).T * (2 / n)
            matrix[:, 0] /= 2
            field = multiply_lines(field, matrix, dim)
            continue
        lines = field.movedim(dim, -1)
        reversed_lines = torch.nn.functional.pad(lines[..., 1:].flip(-1), (1, 0))
        rotated = torch.complex(lines, -reversed_lines) * _quarter_turns(lines).conj()
        permuted = torch.fft.ifft(rotated).real
        half = (n + 1) // 2
        lines = torch.empty_like(lines)
        lines[..., ::2], lines[..., 1::2] = permuted[..., :half], permuted[..., half:].flip(-1)
        field = lines.movedim(-1, dim)
    return field


def multiply_lines(field: Tensor, matrix: Tensor, dim: int) -> Tensor:
    """Multiply the lines along an axis by a matrix."""
    if dim < field.ndim - 2:  # products of small matrices do not depend on the number of threads
        lead = field.shape[:dim].numel()
        lines = field.reshape(lead, field.shape[dim], -1)
        return torch.bmm(matrix.expand(lead, -1, -1), lines).reshape(field.shape)
    product: Tensor = torch.tensordot(field, matrix, ([dim], [1]))
    return product.movedim(-1, dim)


def cosine_matrix(like: Tensor, n: int) -> Tensor:
    """(n, n): row k holds the cosine of k half turns over the axis, at the pixels' centres."""
    index = torch.arange(n, dtype=torch.float64, device=like.device)
    return torch.cos(index[:, None] * (2 * index + 1) * (math.pi / (2 * n))).to(like.dtype)


def _quarter_turns(lines: Tensor) -> Tensor:
    n = lines.shape[-1]
    angle = torch.arange(n, dtype=lines.dtype, device=lines.device) * (-math.pi / (2 * n))
    return torch.polar(torch.ones_like(angle), angle)


def conjugate_gradients(
    product: Callable[[Tensor], Tensor],
    right: Tensor,
    spectrum: Tensor,
    iterations: int = 12,
    reduction: float = 0.1,
) -> Tensor:
    """Solve product(x) = right roughly, from 0.

    Args:
        product: the symmetric positive matrix of the equations.
        right: their right side, (1, *spatial, D).
        spectrum: (*spatial, D): what the matrix multiplies the cosines by, approximately.
        iterations: the largest number of iterations.
        reduction: the iteration ends when the norm of the residual has shrunk by this factor.
    """

    def inverse(residual: Tensor) -> Tensor:
        return inverse_cosines(cosines(residual) / spectrum)

    solution, residual = torch.zeros_like(right), right
    preconditioned = direction = inverse(residual)
    energy = initial_energy = float(total((residual * preconditioned).double()))
    for _ in range(iterations):
        if energy <= reduction**2 * initial_energy or energy <= 0:
            break
        image = product(direction)
        slope = float(total((direction * image).double()))
        if slope <= 0:
            break
        solution = solution + direction * (energy / slope)
        residual = residual - image * (energy / slope)
        preconditioned = inverse(residual)
        last, energy = energy, float(total((residual * preconditioned).double()))
        direction = preconditioned + direction * (energy / last)
    return solution


def smoothed(field: Tensor, sigma: Tensor) -> Tensor:
    """Convolve a field with a Gaussian of these standard deviations along x, y, z, in pixels."""
    rank = field.shape[-1]
    for axis in range(rank):
        width = float(sigma[axis])
        half = min(int(3 * width + 0.5), field.shape[rank - axis] - 1)
        if half < 1:
            continue
        reach = torch.arange(-half, half + 1, dtype=field.dtype, device=field.device)
        weights = torch.exp(-0.5 * (reach / width) ** 2)
        weights = (weights / weights.sum())[None, None]
        lines = field.movedim(rank - axis, -1)
        flat = torch.nn.functional.pad(
            lines.reshape(-1, 1, lines.shape[-1]), (half, half), mode="replicate"
        )
        flat = torch.nn.functional.conv1d(flat, weights)
        field = flat.reshape(lines.shape).movedim(-1, rank - axis)
    return field
