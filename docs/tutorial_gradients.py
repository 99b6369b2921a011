"""The code of tutorial_gradients.md.

``python docs/tutorial_gradients.py`` learns, prints what came out, and draws the page's pictures to
a temporary folder; with --update, to the page's own.

All is in double precision: 400 steps of an optimiser make of the last digits of single precision,
which differ between machines, figures that differ.

Coordinates are as everywhere here: -1 and 1 are the image's edges.  Grids are (1, H, W, 2), images
(1, C, H, W), from 0 to 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pictures
import torch
from torch import Tensor

import gridsample

SIZE, STEPS = 128, 400


# A photo, and a warp that is known ----------------------------------------------------------------


def photo(size: int = SIZE) -> Tensor:
    """The astronaut of scikit-image, as means of square blocks of pixels."""
    from skimage.data import astronaut

    pixels = torch.from_numpy(astronaut()).permute(2, 0, 1)[None].double() / 255
    return torch.nn.functional.avg_pool2d(pixels, 512 // size)


def identity(size: int) -> Tensor:
    """The grid that samples every pixel at its own place."""
    return gridsample.affine_grid(torch.eye(2, 3, dtype=torch.float64)[None], (1, 1, size, size))


def rectify(at: Tensor, strength: float = 1.0) -> Tensor:
    """Where the distorted image shows what the photo has at some coordinates: the true warp."""
    x, y = at.unbind(-1)
    wave = torch.stack(
        [0.07 * torch.sin(2.5 * y + 0.5) + 0.03 * x, 0.06 * torch.sin(3 * x) * torch.cos(2 * y)], -1
    )
    return at + strength * wave


def distort(image: Tensor, strength: float = 1.0) -> Tensor:
    """The image whose samples at `rectify` are the given one.

    The inverse warp is the fixed point of at = here - (rectify(at) - at); the warp is gentle, so
    that each round brings it closer.
    """
    grid = identity(image.shape[-1])
    at = grid
    for _ in range(50):
        at = grid - (rectify(at, strength) - at)
    return gridsample.grid_sample(image, at, "bicubic", "border").clamp(0, 1)


# The gradient of the grid -------------------------------------------------------------------------


def grid_gradient(image: Tensor) -> Tensor:
    """What the sum of all samples at their own places gains as a point moves by one pixel.

    grid_sample_vjp counts in coordinates, of which a pixel is 2 / size.
    """
    size = image.shape[-1]
    at = identity(size)
    _, gradient = gridsample.grid_sample_vjp(
        torch.ones_like(image), image, at, "bicubic", "border", need_input=False
    )
    return gradient * 2 / size


# Learning a grid ----------------------------------------------------------------------------------


@dataclass
class Learned:
    """What became of a grid.

    Attributes:
        grid: at the end.
        image_losses: the mean difference of the rectified image from the photo, at each step.
        grid_errors: the mean distance of the grid's points from the true ones in pixels, too.
    """

    grid: Tensor
    image_losses: list[float] = field(default_factory=list)
    grid_errors: list[float] = field(default_factory=list)


class Bent(torch.nn.Module):
    """A grid that is bent by arrows at a few places, between which a cubic goes smoothly.

    The arrows are an image of two channels, and sampled like any other.
    """

    def __init__(self, size: int, places: int = 7) -> None:
        super().__init__()
        self.register_buffer("here", identity(size))
        # Not from 0: at pixels' centres a linear sample has two slopes, and the last bit of a
        # coordinate would choose between them.
        start = torch.full((1, 2, places, places), -1e-6, dtype=torch.float64)
        self.arrows = torch.nn.Parameter(start)

    def forward(self) -> Tensor:
        """The grid as it is now."""
        bend = gridsample.grid_sample(self.arrows, self.here, "bicubic", "border", True)
        return self.here + bend.movedim(1, -1)


def pixels_apart(grid: Tensor, truth: Tensor) -> Tensor:
    """The distance of the points of two grids, in pixels."""
    return (grid - truth).norm(dim=-1) * grid.shape[1] / 2


def learn(
    image: Tensor, kind: str, steps: int = STEPS, strength: float = 1.0, rate: float = 0.01
) -> Learned:
    """Learn the grid that rectifies a distorted image; ``kind`` says what is compared.

    "grids": the mean of |grid - true grid|; "images": the mean of |rectified image - photo|.
    """
    size = image.shape[-1]
    truth, distorted = rectify(identity(size), strength), distort(image, strength)
    net = Bent(size)
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    learned = Learned(net().detach())
    for _ in range(steps):
        optimizer.zero_grad()
        grid = net()
        rectified = gridsample.grid_sample(distorted, grid, padding_mode="border")
        by_image = (rectified - image).abs().mean()
        by_grid = (grid - truth).abs().mean()
        (by_image if kind == "images" else by_grid).backward()
        optimizer.step()
        schedule.step()
        learned.image_losses.append(by_image.item())
        learned.grid_errors.append(pixels_apart(grid, truth).mean().item())
    learned.grid = net().detach()
    return learned


# Pictures -----------------------------------------------------------------------------------------


def shown(image: Tensor) -> np.ndarray:
    """An image as matplotlib takes it."""
    return image[0].movedim(0, -1).clamp(0, 1).numpy()


def draw_gradient(image: Tensor, folder: Path) -> None:
    """The photo and both components of the grid's gradient."""
    from matplotlib.figure import Figure

    gray = image.mean(1, keepdim=True)
    gradient = grid_gradient(gray)[0].float().numpy()
    figure = Figure((11, 3.8))
    axes = figure.subplots(1, 3)
    axes[0].imshow(gray[0, 0].numpy(), cmap="gray")
    limit = 0.3
    for a, (axis, name) in enumerate(zip(axes[1:], "xy", strict=True)):
        axis.imshow(gradient[..., a], cmap="RdBu", vmin=-limit, vmax=limit)
        axis.set_title(f"gradient of the grid along {name}")
    axes[0].set_title("image")
    for axis in axes:
        axis.set_axis_off()
    save(figure, folder / "tutorial-grid-gradient.png")


def draw_losses(runs: dict[str, Learned], folder: Path) -> None:
    """What each loss does to both measures."""
    from matplotlib.figure import Figure

    figure = Figure((11, 3.8))
    left, right = figure.subplots(1, 2)
    for (name, run), color in zip(runs.items(), ("tab:blue", "tab:orange"), strict=True):
        left.plot(run.image_losses, color, label=f"learned from {name}")
        right.plot(run.grid_errors, color, label=f"learned from {name}")
    left.set_title("mean |rectified image - photo|")
    right.set_title("mean distance from the true grid, pixels")
    for axis in (left, right):
        axis.set_yscale("log")
        axis.set_xlabel("step")
        axis.legend()
    save(figure, folder / "tutorial-losses.png")


def draw_results(image: Tensor, runs: dict[str, Learned], folder: Path) -> None:
    """The distorted photo, what each loss made of it, and how far off the grid is where."""
    from matplotlib.figure import Figure

    size = image.shape[-1]
    distorted, truth = distort(image), rectify(identity(size))
    figure = Figure((11, 7.6))
    axes = figure.subplots(2, 3)
    axes[0, 0].imshow(shown(distorted))
    axes[0, 0].set_title("distorted")
    axes[1, 0].imshow(shown(image))
    axes[1, 0].set_title("photo")
    for (name, run), (above, below) in zip(runs.items(), axes[:, 1:].T, strict=True):
        above.imshow(shown(gridsample.grid_sample(distorted, run.grid, padding_mode="border")))
        above.set_title(f"rectified, learned from {name}")
        picture = below.imshow(
            pixels_apart(run.grid, truth)[0].numpy(), vmin=0, vmax=1, cmap="magma"
        )
        below.set_title("distance from the truth, pixels")
        figure.colorbar(picture, ax=below, fraction=0.046)
    for axis in axes.flat:
        axis.set_axis_off()
    save(figure, folder / "tutorial-rectified.png")


def save(figure: object, path: Path) -> None:
    """A picture of the page."""
    pictures.save(figure, path, dpi=110, bbox_inches="tight", pad_inches=0.15)


def inside(grid: Tensor) -> Tensor:
    """Which points lie in the image; what is beyond its edges nobody can know."""
    return (grid.abs() < 1).all(-1)


def table(strength: float, runs: dict[str, Learned]) -> list[str]:
    """What came out of the runs with a warp of some strength: the lines of the page's table."""
    truth = rectify(identity(SIZE), strength)
    start = pixels_apart(identity(SIZE), truth)
    name = {1.0: "as drawn", 3.0: "three times as strong"}[strength]
    lines = []
    for n, (kind, run) in enumerate(runs.items()):
        apart = pixels_apart(run.grid, truth)[inside(truth)]
        warp = (name, f"{start.mean():.2f}, at most {start.max():.2f}") if n == 0 else ("", "")
        cells = (
            *warp,
            kind,
            f"{run.image_losses[0]:.4f} → {run.image_losses[-1]:.4f}",
            f"{apart.mean():.3f}",
            f"{apart.median():.3f}",
            f"{apart.quantile(0.99):.2f}",
        )
        lines.append("".join(f"| {cell} " if cell else "| " for cell in cells) + "|")
    return lines


def main() -> None:
    """Learn with each loss, say what came out, and draw."""
    folder = pictures.folder(__doc__)
    image = photo()
    draw_gradient(image, folder)
    for strength in (1.0, 3.0):
        runs = {kind: learn(image, kind, strength=strength) for kind in ("grids", "images")}
        print(*table(strength, runs), sep="\n")
        if strength == 1.0:
            draw_losses(runs, folder)
            draw_results(image, runs, folder)


if __name__ == "__main__":
    main()
