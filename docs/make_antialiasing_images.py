"""Draw the pictures of docs/antialiasing.md: ``python docs/make_antialiasing_images.py``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pictures
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from skimage import data

import gridsample

INK, BLUE, ORANGE = "#1e293b", "#2563eb", "#ea580c"
Array = np.ndarray[Any, Any]


def output(height: int, width: int) -> Array:
    """Normalized coordinates (x, y) of output pixels."""
    lines = ((2 * np.arange(n) + 1) / n - 1 for n in (width, height))
    return np.stack(np.meshgrid(*lines), -1)


def floor(at: Array) -> Array:
    """A floor that is seen up to the horizon."""
    depth = 0.35 / (at[..., 1] + 1.03)
    return np.stack([3 * at[..., 0] * depth, 2 * depth], -1)


def fisheye(at: Array) -> Array:
    """A lens that shows the middle large and the rim small."""
    radius = np.linalg.norm(at, axis=-1, keepdims=True)
    return at * (0.35 + 1.3 * radius**4)


def shrunk(at: Array) -> Array:
    """A rotation that shrinks a little."""
    angle = np.deg2rad(20)
    return at @ (1.3 * np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]))


def both(image: Array, grid: Array, padding: str) -> tuple[Array, Array]:
    """An image (H, W, C) warped without and with antialiasing."""
    bilinear, mean = (
        gridsample.grid_sample(
            image[None], grid[None], padding_mode=padding, channel_axis=-1, antialias=antialias
        )[0]
        for antialias in (False, True)
    )
    return bilinear, mean


def warps(folder: Path) -> None:
    """Draw warps with and without antialiasing."""
    tiles = np.kron(np.indices((16, 16)).sum(0) % 2, np.ones((24, 24)))
    tiles = (40 + 190 * tiles).astype(np.uint8)[..., None].repeat(3, -1)
    bricks = data.brick()[..., None].repeat(3, -1)
    text = data.page()[..., None].repeat(3, -1)
    rows: list[tuple[str, Array, Callable[[Array], Array], str]] = [
        ("floor to the horizon", tiles, floor, "wrap"),
        ("fisheye", bricks, fisheye, "symmetric"),
        ("page, turned and shrunk", text, shrunk, "border"),
    ]
    figure = Figure((9, 10), layout="constrained")
    drawing = figure.subplots(3, 2)
    for (name, image, warp, padding), pair in zip(rows, drawing, strict=True):
        results = both(image, warp(output(140, 200)), padding)
        for ax, result, kind in zip(pair, results, ("plain", "antialias=True"), strict=True):
            ax.imshow(result, interpolation="nearest")
            ax.set_title(f"{name}: {kind}", fontsize=10)
            ax.set_axis_off()
    pictures.save(figure, folder / "antialiasing-warps.png", dpi=110)


def volume(folder: Path) -> None:
    """A slice of a volume that is turned and shrunk by three."""
    z, y, x = np.meshgrid(*[np.linspace(-1, 1, 120)] * 3, indexing="ij")
    shells = 0.5 + 0.5 * np.sin(125 * np.sqrt(x**2 + y**2 + 0.6 * z**2))
    angle = np.deg2rad(25)
    matrix = np.array(
        [[np.cos(angle), 0, -np.sin(angle), 0], [0, 1, 0, 0], [np.sin(angle), 0, np.cos(angle), 0]]
    )[None]
    figure = Figure((9, 3.4), layout="constrained")
    drawing = figure.subplots(1, 3)
    shown: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": 1, "interpolation": "nearest"}
    drawing[0].imshow(shells[60], **shown)
    drawing[0].set_title("slice of the volume, 120 pixels", fontsize=10)
    for ax, antialias in zip(drawing[1:], (False, True), strict=True):
        small = gridsample.affine_sample(
            shells[None, None],
            matrix,
            (1, 1, 40, 40, 40),
            padding_mode="border",
            antialias=antialias,
        )
        ax.imshow(small[0, 0, 20], **shown)
        ax.set_title(
            "turned, 40 pixels: " + ("antialias=True" if antialias else "plain"), fontsize=10
        )
    for ax in drawing:
        ax.set_axis_off()
    pictures.save(figure, folder / "antialiasing-volume.png", dpi=110)


def footprints(folder: Path) -> None:
    """Grid points, one of their footprints, and its samples."""
    angle, sides = np.deg2rad(25), (2.6, 1.7)
    axes = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    right, down = sides[0] * axes[0], sides[1] * axes[1]
    middle = np.array([4.4, 3.4])
    figure = Figure((6.4, 5), layout="constrained")
    ax = figure.subplots()
    for i in range(-1, 3):
        for j in range(-1, 3):
            ax.plot(*(middle + i * right + j * down), "o", color=INK, ms=5)
    corners = [
        middle + a * right + b * down
        for a, b in ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))
    ]
    ax.add_patch(Polygon(np.array(corners), color=BLUE, alpha=0.15))
    n = [int(np.ceil(side)) for side in sides]
    for i in range(n[0]):
        for j in range(n[1]):
            place = ((i + 0.5) / n[0] - 0.5) * right + ((j + 0.5) / n[1] - 0.5) * down
            ax.plot(*(middle + place), "x", color=ORANGE, ms=9, mew=2)
    ax.set(xlim=(-0.5, 8.5), ylim=(7.5, -0.5), aspect="equal", xlabel="pixels of the input")
    ax.set_xticks(np.arange(-0.5, 9), minor=True)
    ax.set_yticks(np.arange(-0.5, 8), minor=True)
    ax.grid(which="minor", color="#cbd5e1")
    ax.tick_params(which="minor", length=0)
    ax.set_title("a footprint: sides of 2.6 and 1.7 pixels, 3 x 2 samples", fontsize=10)
    pictures.save(figure, folder / "antialiasing-footprint.png", dpi=110)


def main() -> None:
    """Draw all pictures."""
    folder = pictures.folder(__doc__)
    warps(folder)
    volume(folder)
    footprints(folder)


if __name__ == "__main__":
    main()
