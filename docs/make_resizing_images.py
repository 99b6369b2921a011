"""Draw the pictures of docs/resizing.md: ``python docs/make_resizing_images.py [--update]``."""

from pathlib import Path
from typing import Any

import numpy as np
import pictures
from matplotlib.figure import Figure

import gridsample
from gridsample.definitions import tables
from gridsample.definitions.methods import LINEAR

INK, BLUE, ORANGE = "#1e293b", "#2563eb", "#ea580c"
Array = np.ndarray[Any, Any]


def resize(image: Array, size: tuple[int, int], **options: Any) -> Array:
    """Resize a grey picture."""
    result: Array = gridsample.interpolate(image[None, None], size, **options)[0, 0]
    return result


def bare(ax: Any) -> None:
    """Remove the ticks of axes."""
    ax.set_xticks([])
    ax.set_yticks([])


def save(figure: Figure, path: Path) -> None:
    """Write a picture."""
    pictures.save(figure, path, dpi=130, bbox_inches="tight", pad_inches=0.15)


def align_corners(folder: Path) -> None:
    """A 2 x 2 image enlarged to 8 x 8, both ways, and a row of the same as numbers."""
    image = np.array([[0.0, 3.0], [6.0, 9.0]])
    figure = Figure((10, 7), layout="constrained")
    drawing = figure.subplots(2, 3, height_ratios=(2, 1.3))
    top, bottom = drawing
    shown = {"cmap": "viridis", "vmin": 0, "vmax": 9}
    top[0].imshow(image, extent=(-0.5, 1.5, 1.5, -0.5), **shown)
    top[0].set_title("2 x 2")
    line = np.array([0.0, 3.0])
    for k, aligned in enumerate((False, True), start=1):
        out = resize(image, (8, 8), mode="bilinear", align_corners=aligned)
        # Each output is drawn where it lies among the inputs.
        low, high = (-1 / 14, 15 / 14) if aligned else (-0.5, 1.5)
        top[k].imshow(out, extent=(low, high, high, low), **shown)
        top[k].set_xlim(-0.5, 1.5)
        top[k].set_ylim(1.5, -0.5)
        top[k].set_title(f"8 x 8, align_corners={aligned}")
        axis = tables.Axis(2, 8, LINEAR, aligned)
        values = gridsample.interpolate(line[None, None], 8, mode="linear", align_corners=aligned)
        ax = bottom[k]
        ax.plot((0, 1), (0, 3), "s", ms=13, mfc="none", mec=INK, label="inputs")
        ax.plot(axis.positions(), values[0, 0], "o", color=BLUE, label="outputs")
        ax.set_xlim(-0.6, 1.6)
        ax.set_ylim(-0.6, 3.6)
        ax.set_xlabel("position among the inputs")
        ax.axvspan(-0.5, 1.5, color="#eef2f7", zorder=0)
        if k == 1:
            ax.legend(frameon=False)
    for ax in top:
        bare(ax)
        for x in (0, 1):
            ax.plot((x, x), (0, 1), "+", color="white", ms=9)
    bottom[0].axis("off")
    bottom[0].text(
        0,
        0.95,
        "False: outputs cut the same area\n(shaded) in equal parts; the outer\nones lie past the "
        "centres, and\nrepeat the edge.\n\nTrue: the first and last centres\n(+) stay where they "
        "are; the step\nis 1/7 rather than 1/4.",
        va="top",
        color=INK,
    )
    save(figure, folder / "resizing-align-corners.png")


def zone_plate(n: int) -> Array:
    """Rings that grow finer outwards, to a period of two pixels and a half at the edge."""
    x = (np.arange(n) + 0.5) / n * 2 - 1
    squared = x[:, None] ** 2 + x[None] ** 2
    rings: Array = 0.5 + 0.5 * np.cos(np.pi * n / 5 * squared)
    return rings


def aliasing(folder: Path) -> None:
    """Fine rings made smaller, with and without antialiasing."""
    image = zone_plate(400)
    figure = Figure((12, 3.5), layout="constrained")
    axes = figure.subplots(1, 4)
    grey = {"cmap": "gray", "vmin": 0, "vmax": 1, "interpolation": "nearest"}
    axes[0].imshow(image, **grey)
    axes[0].set_title("400 x 400")
    for ax, mode, smooth in zip(
        axes[1:], ("bilinear", "bilinear", "lanczos3"), (False, True, True), strict=True
    ):
        ax.imshow(resize(image, (100, 100), mode=mode, antialias=smooth), **grey)
        ax.set_title(f"100 x 100, {mode}" + (", antialias" if smooth else ""))
    for ax in axes:
        bare(ax)
    save(figure, folder / "resizing-antialias.png")


def modes(folder: Path) -> None:
    """Several modes: an enlarged small picture, and the result for a single pixel of 1."""
    image = np.array(
        [
            [0, 0, 0, 0, 0, 0, 0, 0],
            [0, 2, 2, 2, 0, 0, 5, 0],
            [0, 2, 0, 0, 0, 5, 0, 0],
            [0, 2, 2, 0, 5, 0, 0, 0],
            [0, 2, 0, 5, 0, 0, 9, 0],
            [0, 2, 5, 0, 0, 9, 9, 0],
            [0, 0, 0, 0, 0, 9, 0, 0],
            [0, 0, 0, 0, 0, 0, 0, 0],
        ],
        float,
    )
    single = np.zeros((1, 1, 9))
    single[..., 4] = 1
    figure = Figure((13, 3.6), layout="constrained")
    names = "nearest", "linear", "cubic", "area", "lanczos3", "mitchell", "gaussian", "spline3"
    axes = figure.subplots(2, len(names), height_ratios=(1.5, 1), sharey="row")
    for k, name in enumerate(names):
        axes[0, k].imshow(resize(image, (160, 160), mode=name), cmap="magma", vmin=-1, vmax=10)
        axes[0, k].set_title(name, fontsize=10)
        bare(axes[0, k])
        fine = gridsample.interpolate(single, 9 * 40, mode=name)[0, 0]
        places = tables.Axis(9, 360, LINEAR).positions()
        axes[1, k].axhline(0, color="#c3cddb", lw=0.8)
        axes[1, k].plot(places, fine, color=BLUE)
        axes[1, k].plot(np.arange(9), single[0, 0], "o", color=ORANGE, ms=3)
        axes[1, k].set_xticks([0, 4, 8])
        axes[1, k].tick_params(labelsize=8)
    save(figure, folder / "resizing-modes.png")


if __name__ == "__main__":
    folder = pictures.folder(__doc__)
    for draw in (align_corners, aliasing, modes):
        draw(folder)
