"""Losses between a warped image and the fixed image, as records of functions.

Every function takes the warped and the fixed image, (C, *spatial), and the weight of each pixel,
(*spatial), which is 0 outside the moving image and where a mask excludes the pixel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gridsample.fields.arrays import check_name
from gridsample.registration.sums import broadcast, total

Measure = Callable[[Tensor, Tensor, Tensor], Tensor]

WINDOW = 9
"""The side of the windows of "lncc", in pixels."""
BINS = 32
"""The number of bins of "mi", along each axis of the joint histogram."""
_L1_SMOOTHING = 0.02
"""Below this difference, in standard deviations, "l1" counts as quadratic in the steps."""
_TINY = 1e-6


@dataclass(frozen=True)
class Loss:
    """A loss, and what the optimizer needs to know about it.

    Attributes:
        name: the name for messages.
        value: the loss, a number, differentiable in the warped image.
        curvature: an approximate second derivative for each entry of the warped image, which is
            never negative; None if it is estimated from the gradient.
        any_contrast: whether the search for a start allows for inverted contrast, and compares
            edges, too.
    """

    name: str
    value: Measure
    curvature: Measure | None
    any_contrast: bool = False

    def slopes(self, warped: Tensor, fixed: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient along the warped image, and the curvature."""
        with torch.enable_grad():
            leaf = warped.detach().requires_grad_()
            value = self.value(leaf, fixed, weight)
            (gradient,) = torch.autograd.grad(value, leaf)
        if self.curvature is not None:
            return gradient, self.curvature(warped, fixed, weight)
        # For a negative log-likelihood, the sum of the squared gradients estimates the curvature.
        # A loss that is quadratic near 0 has the curvature g² / (2 loss).
        size = total(gradient.square())
        if self.name != "mi":
            size = size / (2 * value.detach().abs() + _TINY)
        return gradient, (size * weight).expand_as(warped)


def loss_of(loss: Any) -> Loss:
    """Return the loss of a name or of the caller's function, or raise an error."""
    if isinstance(loss, str) or not callable(loss):
        return LOSSES[check_name(loss, tuple(LOSSES), "loss")]

    def value(warped: Tensor, fixed: Tensor, weight: Tensor) -> Tensor:
        result = loss(warped[None], fixed[None], weight[None, None])
        if not isinstance(result, Tensor) or result.numel() != 1 or result.is_complex():
            raise TypeError(
                "loss must return a tensor with one real number, the loss of (warped, fixed, "
                f"weight); got {type(result).__name__}"
                + (f" of shape {tuple(result.shape)}" if isinstance(result, Tensor) else "")
            )
        if torch.is_grad_enabled() and warped.requires_grad and not result.requires_grad:
            raise ValueError("loss does not depend on the warped image, or is not differentiable")
        return result.reshape(())

    return Loss("callable", value, None)


def weight_sum(weight: Tensor, images: Tensor) -> Tensor:
    """The sum of the weights, counted for every channel."""
    return total(weight) * len(images) + _TINY


# Differences --------------------------------------------------------------------------------------


def mse(warped: Tensor, fixed: Tensor, weight: Tensor) -> Tensor:
    """The mean of the squared differences."""
    return total(weight * (warped - fixed).square()) / weight_sum(weight, fixed)


def mse_curvature(warped: Tensor, fixed: Tensor, weight: Tensor) -> Tensor:
    """The second derivative of `mse`."""
    return (2 * weight / weight_sum(weight, fixed)).expand_as(warped)


def l1(warped: Tensor, fixed: Tensor, weight: Tensor) -> Tensor:
    """The mean of the absolute differences."""
    return total(weight * (warped - fixed).abs()) / weight_sum(weight, fixed)


def l1_curvature(warped: Tensor, fixed: Tensor, weight: Tensor) -> Tensor:
    """The weights of iteratively reweighted least squares, which majorize `l1`."""
    return weight / ((warped - fixed).abs() + _L1_SMOOTHING) / weight_sum(weight, fixed)


# Correlations -------------------------------------------------------------------------------------


def centred(image: Tensor, weight: Tensor) -> Tensor:
    """Subtract the mean of each channel."""
    mean = channel_sums(weight * image) / (total(weight) + _TINY)
    return image - broadcast(mean, image)


def channel_sums(images: Tensor) -> Tensor:
    """Sum each channel of (C, *spatial), as (C, 1, ...)."""
    return total(images, images.ndim - 1).reshape(-1, *(1,) * (images.ndim - 1))


def ncc(warped: Tensor, fixed: Tensor, weight: Tensor) -> Tensor:
    """1 minus the correlation coefficient, averaged over the channels."""
    a, b = centred(warped, weight), centred(fixed, weight)
    shared = channel_sums(weight * a * b)
    sizes = channel_sums(weight * a * a) * channel_sums(weight * b * b)
    return 1 - (shared * torch.rsqrt(sizes + _TINY)).mean()


def ncc_curvature(warped: Tensor, fixed: Tensor, weight: Tensor) -> Tensor:
    """The curvature of half the squared distance between normalized images."""
    size = channel_sums(weight * centred(warped, weight).square())
    return weight / (size + _TINY) / len(fixed)


def window_mean(image: Tensor) -> Tensor:
    """The mean over the window around each pixel; what is outside counts as 0."""
    flat = image.reshape(-1, 1, *image.shape[1:])
    rank, half = flat.ndim - 2, WINDOW // 2
    pool = torch.nn.functional.avg_pool2d if rank == 2 else torch.nn.functional.avg_pool3d
    for axis in range(rank):
        kernel = [WINDOW if k == axis else 1 for k in range(rank)]
        edges = [half if k == axis else 0 for k in range(rank)]
        flat = pool(flat, kernel, 1, edges)
    return flat.reshape(image.shape)


def window_moments(
    warped: Tensor, fixed: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The share of known pixels in each window, both variances, and the covariance."""
    known = window_mean(weight[None])
    share = 1 / known.clamp_min(_TINY)
    a, b = (window_mean(weight * image) * share for image in (warped, fixed))
    aa = window_mean(weight * warped * warped) * share - a * a
    bb = window_mean(weight * fixed * fixed) * share - b * b
    ab = window_mean(weight * warped * fixed) * share - a * b
    return known, aa.clamp_min(0), bb.clamp_min(0), ab


_FLAT = 1e-3
"""Added to the variances of windows, so that noise in flat windows counts for little."""


def lncc(warped: Tensor, fixed: Tensor, weight: Tensor) -> Tensor:
    """1 minus the mean of the squared correlation coefficients of all windows."""
    _, aa, bb, ab = window_moments(warped, fixed, weight)
    local = ab * ab / ((aa + _FLAT) * (bb + _FLAT))
    return 1 - total(weight * local) / weight_sum(weight, fixed)


def lncc_curvature(warped: Tensor, fixed: Tensor, weight: Tensor) -> Tensor:
    """The curvature of `ncc` in every window, summed over the windows that hold a pixel."""
    known, aa, bb, ab = window_moments(warped, fixed, weight)
    local = ab * ab / ((aa + _FLAT) * (bb + _FLAT))
    per_pixel = weight * 2 * local / (aa + _FLAT) / known.clamp_min(_TINY)
    return weight * window_mean(per_pixel) / weight_sum(weight, fixed)


# Mutual information -------------------------------------------------------------------------------


def mi(warped: Tensor, fixed: Tensor, weight: Tensor) -> Tensor:
    """Minus the mutual information in nats, averaged over the channels."""
    known = weight > 0
    share = weight[known]
    parts = [_mutual(a[known], b[known], share) for a, b in zip(warped, fixed, strict=True)]
    return -torch.stack(parts).mean()


def histogram_positions(values: Tensor) -> Tensor:
    """Positions in the histogram: the extremes of the values lie within bins 1 to BINS - 3."""
    low, high = torch.aminmax(values.detach())
    return (values - low) / (high - low + _TINY) * (BINS - 4) + 1


def _mutual(warped: Tensor, fixed: Tensor, share: Tensor) -> Tensor:
    """Estimate the mutual information by Parzen windows: cubic B-splines along the warped image."""
    if not len(warped):
        return warped.sum()
    rows = histogram_positions(fixed).round().long()
    positions = histogram_positions(warped)
    base = positions.detach().floor()
    t = positions - base
    bins = rows * BINS + base.long() - 1
    s = 1 - t
    taps = (
        s * s * s / 6,
        (4 - 6 * t * t + 3 * t * t * t) / 6,
        (4 - 6 * s * s + 3 * s * s * s) / 6,
        t * t * t / 6,
    )
    joint = torch.zeros(BINS * BINS, dtype=warped.dtype, device=warped.device)
    for k, tap in enumerate(taps):
        joint = joint.index_add(0, bins + k, tap * share)
    joint = (joint / total(share)).reshape(BINS, BINS)
    independent = joint.sum(0, keepdim=True) * joint.sum(1, keepdim=True)
    ratio = torch.log(joint.clamp_min(1e-12)) - torch.log(independent.clamp_min(1e-12))
    return (joint * ratio).sum()


LOSSES = {
    "mse": Loss("mse", mse, mse_curvature),
    "l1": Loss("l1", l1, l1_curvature),
    "ncc": Loss("ncc", ncc, ncc_curvature),
    "lncc": Loss("lncc", lncc, lncc_curvature),
    "mi": Loss("mi", mi, None, any_contrast=True),
}
