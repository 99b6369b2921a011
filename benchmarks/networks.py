"""Small networks that sample or resize, which `benchmarks.models` trains.

Each is written in plain torch, and calls `grid_sample`, `affine_grid` and `interpolate` as
attributes of `torch.nn.functional`, so `gridsample.torch_compat.patch` can replace them.  Called on
a batch, a network returns its loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional


def pixel_centres(*sizes: int) -> Tensor:
    """The pixels' own coordinates as `grid_sample` counts them (align_corners=False), x first."""
    axes = [(2 * torch.arange(size) + 1) / size - 1 for size in sizes]
    return torch.stack(torch.meshgrid(*axes, indexing="ij")[::-1], dim=-1)


def convolution(rank: int, inputs: int, outputs: int, stride: int = 1) -> nn.Module:
    """A convolution with a kernel of 3 and a leaky ReLU."""
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[rank - 1]
    return nn.Sequential(kind(inputs, outputs, 3, stride, 1), nn.LeakyReLU(0.2))


class Lookups(nn.Module):
    """Optical flow by lookups in a pyramid of correlations, as RAFT does it.

    Every pixel of the first frame has an image of its own, its correlation with all pixels of the
    second: B*H*W images of H x W, and three coarser levels of each.  In each iteration 9 x 9 points
    are read from each level around where the flow leads, and a recurrent cell updates the flow.
    """

    def __init__(self, features: int, hidden: int, iterations: int, radius: int = 4) -> None:
        super().__init__()
        self.iterations, self.hidden, levels = iterations, hidden, 4
        self.encoder = nn.Sequential(
            convolution(2, 3, features // 2, 4), nn.Conv2d(features // 2, features, 3, 2, 1)
        )
        offsets = torch.arange(-radius, radius + 1.0)
        window = torch.stack(torch.meshgrid(offsets, offsets, indexing="ij")[::-1], dim=-1)
        self.register_buffer("window", window, persistent=False)
        self.motion = nn.Conv2d(levels * offsets.numel() ** 2 + 2, hidden, 1)
        self.gates = nn.Conv2d(3 * hidden, 2 * hidden, 3, padding=1)
        self.candidate = nn.Conv2d(3 * hidden, hidden, 3, padding=1)
        self.context = nn.Conv2d(features, 2 * hidden, 1)
        self.delta = nn.Conv2d(hidden, 2, 3, padding=1)

    def look_up(self, pyramid: list[Tensor], positions: Tensor) -> Tensor:
        """Correlations around `places` (B, H, W, 2), in pixels: (B, levels * points, H, W)."""
        batch, height, width, _ = positions.shape
        values_of_levels = []
        for level, images in enumerate(pyramid):
            centre = (positions.reshape(-1, 1, 1, 2) + 0.5) / 2**level - 0.5
            scale = torch.tensor([2 / size for size in images.shape[:-3:-1]])
            grid = ((centre + 0.5) * scale - 1) + self.window * scale
            values = functional.grid_sample(images, grid, align_corners=False)
            values_of_levels.append(values.reshape(batch, height, width, -1))
        return torch.cat(values_of_levels, dim=-1).movedim(-1, 1)

    def forward(self, frames: Tensor, flow: Tensor) -> Tensor:
        """The loss, given two frames (2, B, 3, 8H, 8W) and the flow (B, 2, H, W) in pixels."""
        first, second = self.encoder(frames.flatten(0, 1)).unflatten(0, frames.shape[:2])
        batch, features, height, width = first.shape
        scaled = first.flatten(2).transpose(1, 2) / features**0.5
        pyramid = [(scaled @ second.flatten(2)).reshape(-1, 1, height, width)]
        for _ in range(3):
            pyramid.append(functional.avg_pool2d(pyramid[-1], 2))
        state, context = self.context(first).split(self.hidden, 1)
        state, context = torch.tanh(state), torch.relu(context)
        ys, xs = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        start = torch.stack([xs, ys], dim=-1).float()
        estimate, loss = torch.zeros(batch, 2, height, width), torch.zeros(())
        for _ in range(self.iterations):
            correlations = self.look_up(pyramid, start + estimate.detach().movedim(1, -1))
            motion = torch.relu(self.motion(torch.cat([correlations, estimate], dim=1)))
            inputs = torch.cat([motion, context], dim=1)
            update, reset = torch.sigmoid(self.gates(torch.cat([state, inputs], 1))).chunk(2, 1)
            new = torch.tanh(self.candidate(torch.cat([reset * state, inputs], 1)))
            state = (1 - update) * state + update * new
            estimate = estimate + self.delta(state)
            loss = 0.8 * loss + (estimate - flow).abs().mean()
        return loss


class Registration(nn.Module):
    """A velocity from a U-Net, integrated by scaling and squaring, and a warp, as in VoxelMorph."""

    def __init__(self, rank: int, widths: tuple[int, ...], steps: int = 7) -> None:
        super().__init__()
        self.rank, self.steps = rank, steps
        pairs = list(pairwise((2, *widths)))
        self.down = nn.ModuleList([convolution(rank, a, b, 2) for a, b in pairs])
        skips, channels = [2, *widths[:-1]][::-1], widths[-1]
        self.up = nn.ModuleList()
        for skip, out in zip(skips, [*widths[:-1][::-1], widths[0]], strict=True):
            self.up.append(convolution(rank, channels + skip, out))
            channels = out
        self.velocity = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[rank - 1](channels, rank, 3, padding=1)
        # About a pixel, as in the middle of a training.  With nearly zero, all points would lie on
        # pixels, where the derivative jumps and rounding selects a side.
        nn.init.normal_(self.velocity.weight, std=0.3)

    def warp(self, image: Tensor, flow: Tensor) -> Tensor:
        """Sample the image at each pixel's position plus the flow, in pixels with x last."""
        spatial = image.shape[2:]
        scale = torch.tensor([2.0 / size for size in spatial[::-1]])
        grid = pixel_centres(*spatial) + flow.flip(1).movedim(1, -1) * scale
        return functional.grid_sample(image, grid, align_corners=False)

    def forward(self, moving: Tensor, fixed: Tensor) -> Tensor:
        """The loss, given images (B, 1, *spatial)."""
        skips = [torch.cat([moving, fixed], dim=1)]
        for down in self.down:
            skips.append(down(skips[-1]))
        features, mode = skips.pop(), ("linear", "bilinear", "trilinear")[self.rank - 1]
        for up in self.up:
            skip = skips.pop()
            larger = functional.interpolate(
                features, skip.shape[2:], mode=mode, align_corners=False
            )
            features = up(torch.cat([larger, skip], dim=1))
        velocity = self.velocity(features)
        flow = velocity / 2**self.steps
        for _ in range(self.steps):
            flow = flow + self.warp(flow, flow)
        return (self.warp(moving, flow) - fixed).square().mean() + 0.01 * velocity.square().mean()


class Transformer(nn.Module):
    """A spatial transformer before a classifier: it predicts an affine map, and samples once."""

    def __init__(self, channels: int, side: int, corners: bool = False) -> None:
        super().__init__()
        self.localisation = nn.Sequential(
            nn.Conv2d(channels, 8, 7), nn.MaxPool2d(2), nn.ReLU(),
            nn.Conv2d(8, 10, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(),
        )  # fmt: skip
        side_of_features = ((side - 6) // 2 - 4) // 2
        self.theta = nn.Sequential(
            nn.Linear(10 * side_of_features**2, 32), nn.ReLU(), nn.Linear(32, 6)
        )
        nn.init.normal_(self.theta[2].weight, std=0.03)
        self.theta[2].bias.data.copy_(torch.tensor([0.9, 0.1, 0.03, -0.1, 0.9, -0.03]))
        self.classifier = nn.Sequential(
            nn.Conv2d(channels, 10, 5), nn.MaxPool2d(2), nn.ReLU(),
            nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(),
            nn.Linear(20 * (((side - 4) // 2 - 4) // 2) ** 2, 50), nn.ReLU(), nn.Linear(50, 10),
        )  # fmt: skip

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """The loss, given images (B, C, side, side) and their classes."""
        theta = self.theta(self.localisation(images)).reshape(-1, 2, 3)
        grid = functional.affine_grid(theta, images.shape, align_corners=False)
        aligned = functional.grid_sample(images, grid, align_corners=False)
        return functional.cross_entropy(self.classifier(aligned), labels)


class DeformableAttention(nn.Module):
    """One layer of attention in which each query reads a few points of each level's map."""

    def __init__(self, heads: int, width: int, levels: int = 4, points: int = 4) -> None:
        super().__init__()
        self.shape, channels = (heads, levels, points), heads * width
        self.values = nn.Linear(channels, channels)
        self.offsets = nn.Linear(channels, heads * levels * points * 2)
        self.weights = nn.Linear(channels, heads * levels * points)
        self.output = nn.Linear(channels, channels)
        self.forth = nn.Sequential(
            nn.Linear(channels, 2 * channels), nn.ReLU(), nn.Linear(2 * channels, channels)
        )
        nn.init.normal_(self.offsets.bias, std=2.0)  # pixels

    def forward(self, maps: list[Tensor], target: Tensor) -> Tensor:
        """The loss, given the levels' maps (B, heads * width, h, w); every pixel is a query."""
        (heads, levels, points), batch = self.shape, target.shape[0]
        queries = torch.cat([level_map.flatten(2) for level_map in maps], dim=2).transpose(1, 2)
        centres = torch.cat(
            [pixel_centres(*level_map.shape[2:]).flatten(0, 1) for level_map in maps]
        )
        offsets = self.offsets(queries).reshape(batch, -1, heads, levels, points, 2)
        weights = self.weights(queries).reshape(batch, -1, heads, levels * points).softmax(-1)
        values = self.values(queries).split([level_map[0, 0].numel() for level_map in maps], dim=1)
        samples = []
        for level, (value, level_map) in enumerate(zip(values, maps, strict=True)):
            image = value.transpose(1, 2).reshape(batch * heads, -1, *level_map.shape[2:])
            step = torch.tensor([2.0 / size for size in level_map.shape[:1:-1]])
            grid = centres[:, None, None] + offsets[:, :, :, level] * step
            grid = grid.transpose(1, 2).flatten(0, 1)  # (B * heads, queries, points, 2)
            samples.append(functional.grid_sample(image, grid, align_corners=False))
        stacked = torch.stack(samples, dim=-2).flatten(
            -2
        )  # (B * heads, width, queries, all points)
        factors = weights.transpose(1, 2).flatten(0, 1)[:, None]
        mixed = (stacked * factors).sum(-1).reshape(batch, -1, queries.shape[1]).transpose(1, 2)
        features = queries + self.output(mixed)
        return (features + self.forth(features) - target).square().mean()


class UNet(nn.Module):
    """A U-Net whose decoder enlarges by bilinear interpolation."""

    def __init__(self, widths: tuple[int, ...], classes: int = 4) -> None:
        super().__init__()
        pairs = list(pairwise((3, *widths)))
        self.down = nn.ModuleList(
            [nn.Sequential(convolution(2, a, b), convolution(2, b, b)) for a, b in pairs]
        )
        self.up = nn.ModuleList(
            [
                nn.Sequential(convolution(2, a + b, a), convolution(2, a, a))
                for a, b in list(pairwise(widths))[::-1]
            ]
        )
        self.larger = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.classes = nn.Conv2d(widths[0], classes, 1)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """The loss, given images (B, 3, H, W) and the class of each pixel."""
        skips, features = [], images
        for number, down in enumerate(self.down):
            features = down(functional.max_pool2d(features, 2) if number else features)
            skips.append(features)
        features = skips.pop()
        for up in self.up:
            features = up(torch.cat([self.larger(features), skips.pop()], dim=1))
        return functional.cross_entropy(self.classes(features), labels)


class Rays(nn.Module):
    """A renderer that samples other views at points on rays, which are projected to each view."""

    def __init__(self, features: int, hidden: int = 32) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            convolution(2, 3, features // 2, 2), nn.Conv2d(features // 2, features, 3, 2, 1)
        )
        self.seen = nn.Sequential(nn.Linear(features + 3, hidden), nn.ReLU())
        self.weight = nn.Linear(hidden, 1)
        self.density = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, views: Tensor, cameras: Tensor, points: Tensor, colours: Tensor) -> Tensor:
        """The loss.

        Given views (V, 3, H, W), cameras (V, 3, 4) from the world to normalized coordinates,
        points (rays, samples, 3), and the rays' colours (rays, 3).
        """
        projected = torch.einsum("vij,rsj->vrsi", cameras[:, :, :3], points)
        projected = projected + cameras[:, None, None, :, 3]
        grid = projected[..., :2] / projected[..., 2:].clamp(min=1e-3)
        maps = self.encoder(views)
        features = functional.grid_sample(maps, grid, align_corners=True).movedim(1, -1)
        sampled_colours = functional.grid_sample(views, grid, align_corners=True).movedim(1, -1)
        states = self.seen(
            torch.cat([features, sampled_colours], dim=-1)
        )  # (V, rays, samples, hidden)
        shares = self.weight(states).softmax(0)
        density = functional.softplus(self.density((shares * states).sum(0))[..., 0])
        light = torch.exp(-torch.cumsum(density, dim=1))
        opacity = (light * (1 - torch.exp(-density)))[..., None]
        return ((opacity * (shares * sampled_colours).sum(0)).sum(1) - colours).square().mean()


# The table ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """A network to train.

    Attributes:
        network: makes the network.
        batch: makes the arguments of one step.
        tiny: makes a network and a batch that run in a moment.
    """

    network: Callable[[], nn.Module]
    batch: Callable[[], tuple[object, ...]]
    tiny: tuple[Callable[[], nn.Module], Callable[[], tuple[object, ...]]]


def smooth(*shape: int) -> Tensor:
    """Smoothed random images, whose gradients are much larger than rounding."""
    noise = torch.rand(*shape)
    pool = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)[len(shape) - 3]
    return pool(noise, 3, 1, 1)


def frames(batch: int, height: int, width: int) -> tuple[object, ...]:
    """Two frames and the flow between them."""
    images = torch.stack([smooth(batch, 3, 8 * height, 8 * width) for _ in range(2)])
    return images, 3 * torch.randn(batch, 2, height, width)


def scans(batch: int, *spatial: int) -> tuple[object, ...]:
    """A moving and a fixed image."""
    return smooth(batch, 1, *spatial), smooth(batch, 1, *spatial)


def crops(batch: int, channels: int, side: int) -> tuple[object, ...]:
    """Images with a class each."""
    return smooth(batch, channels, side, side), torch.randint(10, (batch,))


def maps(batch: int, channels: int, *sides: int) -> tuple[object, ...]:
    """Feature maps of several levels, and a target."""
    levels = [torch.randn(batch, channels, side, side) for side in sides]
    return levels, torch.randn(batch, sum(side**2 for side in sides), channels)


def scenes(batch: int, side: int) -> tuple[object, ...]:
    """Images with a class for each pixel."""
    return smooth(batch, 3, side, side), torch.randint(4, (batch, side, side))


def views(count: int, height: int, width: int, rays: int, samples: int) -> tuple[object, ...]:
    """Views with their cameras, points on rays in front of them, and the rays' colours."""
    rotations = 0.1 * torch.randn(count, 3, 3) + torch.eye(3)
    cameras = torch.cat([rotations, 0.1 * torch.randn(count, 3, 1)], dim=2)
    corners = torch.rand(rays, 1, 2) * 1.6 - 0.8
    depths = torch.linspace(1, 3, samples)[:, None]
    points = torch.cat([corners * depths, depths.expand(rays, -1, -1)], dim=2)
    return smooth(count, 3, height, width), cameras, points, torch.rand(rays, 3)


TASKS = {
    "RAFT-like lookups, 2 x 24 x 32, 8 iterations": Task(
        lambda: Lookups(64, 32, 8), lambda: frames(2, 24, 32),
        (lambda: Lookups(8, 4, 2), lambda: frames(1, 8, 9)),
    ),
    "VoxelMorph 2-D, 4 x 128 x 128": Task(
        lambda: Registration(2, (8, 16, 16)), lambda: scans(4, 128, 128),
        (lambda: Registration(2, (2, 3), 3), lambda: scans(2, 16, 12)),
    ),
    "VoxelMorph 3-D, 2 x 40 x 40 x 40": Task(
        lambda: Registration(3, (8, 16, 16)), lambda: scans(2, 40, 40, 40),
        (lambda: Registration(3, (2, 3), 3), lambda: scans(1, 8, 12, 8)),
    ),
    "spatial transformer, 256 x 1 x 28 x 28": Task(
        lambda: Transformer(1, 28), lambda: crops(256, 1, 28),
        (lambda: Transformer(1, 28), lambda: crops(3, 1, 28)),
    ),
    "spatial transformer, 64 x 3 x 64 x 64": Task(
        lambda: Transformer(3, 64), lambda: crops(64, 3, 64),
        (lambda: Transformer(3, 36), lambda: crops(2, 3, 36)),
    ),
    "deformable attention, 8 heads x 32, 4 levels": Task(
        lambda: DeformableAttention(8, 32), lambda: maps(1, 256, 40, 20, 10, 5),
        (lambda: DeformableAttention(2, 4, 2, 3), lambda: maps(2, 8, 7, 4)),
    ),
    "deformable attention, 16 heads x 16, 4 levels": Task(
        lambda: DeformableAttention(16, 16), lambda: maps(1, 256, 40, 20, 10, 5),
        (lambda: DeformableAttention(3, 2, 2, 1), lambda: maps(1, 6, 7, 4)),
    ),
    "U-Net with bilinear upsampling, 2 x 3 x 128 x 128": Task(
        lambda: UNet((16, 32, 64, 128)), lambda: scenes(2, 128),
        (lambda: UNet((2, 3, 4)), lambda: scenes(1, 16)),
    ),
    "GNT-like rays, 8 views, 256 x 48 points": Task(
        lambda: Rays(32), lambda: views(8, 252, 336, 256, 48),
        (lambda: Rays(4, 8), lambda: views(3, 24, 20, 5, 7)),
    ),
}  # fmt: skip
