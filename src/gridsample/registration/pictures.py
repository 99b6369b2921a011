"""A report of a registration, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample.definitions.arrays import ArrayT
from gridsample.io.image import require
from gridsample.registration.files import as_numpy
from gridsample.registration.result import Registration

_TILES = 8
"""The number of tiles of the checkerboard, along the longest side."""
_LINES = 24
"""The number of lines of the drawn grid, along the longest side."""


def draw_report(result: Registration, fixed: ArrayT, moving: ArrayT, path: str | Path) -> Any:
    """Draw a registration: before, after, a checkerboard, the field, and the loss.

    The fixed image is red and the other one cyan in the first two panels, so that grey means
    agreement.  The tiles of the checkerboard are taken from both images alternately.  The field is
    drawn as a regular grid of the fixed image, mapped onto the moving image.  For volumes, the
    panels show the middle slice; for a batch, the first pair.

    Args:
        result: the result of `register`.
        fixed: the fixed image, as it was given to `register`.
        moving: the moving image, as it was given to `register`.
        path: the file to write; its extension determines the format, such as `.png` or `.pdf`.

    Returns:
        The figure.

    Raises:
        ImportError: Matplotlib is not installed.
        ValueError: the images do not match the result.

    Example:
        >>> import numpy as np, tempfile
        >>> from gridsample import register
        >>> from gridsample.registration import draw_report
        >>> x, y = np.meshgrid(np.arange(24.0), np.arange(24.0))
        >>> fixed, moving = (np.exp(-((x - c) ** 2 + (y - 11) ** 2) / 20) for c in (9, 13))
        >>> result = register(fixed, moving, "translation")
        >>> with tempfile.NamedTemporaryFile(suffix=".png") as file:
        ...     figure = draw_report(result, fixed, moving, file.name)
    """
    require("matplotlib")
    from matplotlib.figure import Figure

    fixed_grey, moving_grey, warped = (
        _grey(as_numpy(image), result) for image in (fixed, moving, result.warped)
    )
    field = as_numpy(result.field)[0]
    if fixed_grey.shape != field.shape[:-1]:
        raise ValueError(
            f"fixed has the spatial shape {fixed_grey.shape}, and the result {field.shape[:-1]}"
        )
    fixed_grey, moving_grey, warped = (
        image if image.ndim == 2 else image[len(image) // 2]
        for image in (fixed_grey, moving_grey, warped)
    )
    flat = field[..., :2] if field.ndim == 3 else field[len(field) // 2][..., :2]
    figure = Figure(figsize=(15, 9.5), layout="constrained")
    axes = figure.subplots(2, 3).ravel()
    inside = np.isfinite(as_numpy(result.grid)[0]).all(-1) & (
        np.abs(as_numpy(result.grid)[0]) <= 1
    ).all(-1)
    inside = inside if inside.ndim == 2 else inside[len(inside) // 2]
    pictures = (
        (
            "Before: fixed red, moving cyan",
            _overlay(fixed_grey, _cropped_or_extended(moving_grey, fixed_grey.shape)),
        ),
        ("After: fixed red, warped cyan", _overlay(fixed_grey, warped)),
        ("Checkerboard of fixed and warped", _checkerboard(fixed_grey, warped)),
        (
            "Absolute difference after",
            np.where(inside, np.abs(_to_unit_range(fixed_grey) - _to_unit_range(warped)), 0),
        ),
    )
    for panel, (title, picture) in zip(axes, pictures, strict=False):
        style = {"cmap": "gray", "vmin": 0, "vmax": 1} if picture.ndim == 2 else {}
        panel.imshow(picture, interpolation="nearest", **style)
        panel.set_title(title)
        panel.set_axis_off()
    _draw_field(axes[4], flat, moving_grey)
    _draw_losses(axes[5], result)
    figure.savefig(path, dpi=80)
    return figure


def _grey(image: NDArray[Any], result: Registration) -> NDArray[np.float64]:
    """The first image of a batch without channels, as (*spatial)."""
    rank = result.field.shape[-1]
    image = image.astype(np.float64)
    if image.ndim == rank:
        return image
    spatial = tuple(result.field.shape[1:-1])
    image = image[0]
    last = image.shape[:-1] == spatial or (image.shape[1:] != spatial and image.shape[-1] <= 4)
    grey: NDArray[np.float64] = image.mean(-1 if last else 0)
    return grey


def _to_unit_range(image: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale an image to 0 to 1, without the few darkest and brightest pixels; missing ones to 0."""
    known = image[np.isfinite(image)]
    low, high = np.percentile(known, [0.5, 99.5]) if known.size else (0.0, 1.0)
    scaled = np.clip((image - low) / max(high - low, 1e-12), 0, 1)
    return np.nan_to_num(scaled)


def _cropped_or_extended(image: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Cut or extend an image at its right and lower edges."""
    fitted = np.full(shape, np.nan)
    height, width = np.minimum(shape, image.shape)
    fitted[:height, :width] = image[:height, :width]
    return fitted


def _overlay(red: NDArray[np.float64], cyan: NDArray[np.float64]) -> NDArray[np.float64]:
    green_and_blue = _to_unit_range(cyan)
    return np.stack([_to_unit_range(red), green_and_blue, green_and_blue], -1)


def _checkerboard(fixed: NDArray[np.float64], warped: NDArray[np.float64]) -> NDArray[np.float64]:
    side = max(1, -(-max(fixed.shape) // _TILES))
    rows, columns = np.indices(fixed.shape) // side
    return np.where((rows + columns) % 2 == 0, _to_unit_range(fixed), _to_unit_range(warped))


def _draw_field(axes: Any, field: NDArray[Any], moving: NDArray[np.float64]) -> None:
    height, width = field.shape[:2]
    rows, columns = np.indices((height, width))
    x, y = columns + field[..., 0], rows + field[..., 1]
    step = max(1, max(height, width) // _LINES)
    axes.imshow(_to_unit_range(moving), cmap="gray", interpolation="nearest", alpha=0.45)
    for k in range(0, height, step):
        axes.plot(x[k], y[k], color="tab:red", linewidth=0.8)
    for k in range(0, width, step):
        axes.plot(x[:, k], y[:, k], color="tab:red", linewidth=0.8)
    axes.set_xlim(-0.5, moving.shape[1] - 0.5)
    axes.set_ylim(moving.shape[0] - 0.5, -0.5)
    longest = float(np.sqrt((field**2).sum(-1)).max())
    axes.set_title(f"Grid of the fixed image on the moving one (up to {longest:.4g} px)")
    axes.set_axis_off()


def _draw_losses(axes: Any, result: Registration) -> None:
    done = 0
    for stage in result.history:
        if stage.item:
            break
        steps = done + np.arange(len(stage.losses))
        size = " x ".join(map(str, stage.size[::-1]))
        axes.plot(steps, stage.losses, marker=".", label=f"{stage.model}, {size}")
        done = int(steps[-1]) + 1
    axes.set_title("Loss at each level")
    axes.set_xlabel("step")
    axes.legend(fontsize="small")
    axes.grid(alpha=0.3)
