"""Warnings about calls that succeed, but hardly mean what they say."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Any

import numpy as np

from gridsample.backends import Backend, is_traced
from gridsample.definitions.methods import listed
from gridsample.definitions.request import Request
from gridsample.definitions.shapes import Shape, channels_last, is_image
from gridsample.messages.links import about

# The image is from -1 to 1.  A grid whose points are further from it is in other units.
FAR = 11.0
# Images whose last axis has at most this many entries may have their channels there.
MAX_CHANNELS = 4
# Modules whose callers are users; other modules of the package know what they do.
FRONTS = ("gridsample.nn", "gridsample.ops.", "gridsample.backends", "torch.")
# How many looks at tensors raised no doubt, by the shapes; all other calls are looked at closely.
LOOKS: dict[tuple[Any, ...], int] = {}
MAX_LOOKS = 16


class MisuseWarning(UserWarning):
    """A call succeeds, but its arguments are probably not what the caller means.

    `gridsample.grid_sample` warns about

    * an image that seems to have its channels last, without ``channel_axis=-1``, as
      `gridsample.affine_sample` and `gridsample.interpolate` do;
    * a grid without a batch axis, whose rows are read as a batch;
    * a grid that seems to be in pixels, without ``coords="pixel"``.

    It looks at shapes, and at a few points of grids in host memory; for tensors, only in the first
    few calls with the same shapes.  It never warns inside `torch.compile` or under
    ``gridsample.torch_compat.patch(strict=True)``.

    Example:
        >>> import warnings, gridsample
        >>> with warnings.catch_warnings():  # or without this line, for the whole program
        ...     warnings.simplefilter("ignore", gridsample.MisuseWarning)
    """


def check_use(backend: Backend, image: Any, grid: Any, request: Request) -> bool:
    """Warn about arguments of `grid_sample` that are probably a mistake.

    Arrays of NumPy are looked at in every call; a look at a tensor takes a tenth of a small call,
    so that there are only a few for each pair of shapes.  Return whether there will be no more.
    """
    values, is_far = grid, False
    try:
        if type(grid) is not np.ndarray:
            if is_traced():
                return False
            looks = LOOKS.get((image.shape, grid.shape, request.channel_axis), 0)
            if looks >= MAX_LOOKS:
                return True
            values = backend.host_view(grid)
        if values is not None and is_normalized(request):
            # In a grid in pixels, the last point is far outside, and so is one in the middle.
            is_far = abs(values.item(-1)) > FAR or abs(values.item(values.size // 3)) > FAR
        key = image.shape, grid.shape, request.channel_axis
        if not is_far and key in LOOKS:
            if values is not grid:
                LOOKS[key] += 1
            return False
    except (AttributeError, LookupError, TypeError, RuntimeError):
        # Lists, no points at all, and what the call itself rejects, such as nested tensors.
        return False
    level = user_level()
    if not level or not backend.is_concrete(image, grid):
        return False
    if not warned(tuple(image.shape), tuple(grid.shape), values, request, level) and not is_far:
        if len(LOOKS) >= 4096:
            LOOKS.clear()
        LOOKS[key] = 1
    return False


def warned(image: Shape, grid: Shape, values: Any, request: Request, level: int) -> bool:
    """Warn about each suspicious argument; return whether there was any."""
    # Other shapes are an error.
    if not is_image(image) or len(grid) < 2 or grid[-1] != len(image) - 2:
        return False
    last = channels_last(request.channel_axis, len(image))
    spatial = image[1:-1] if last else image[2:]
    messages = []
    if not last and has_channels_last(image):
        messages.append(layout_message(image))
    if is_normalized(request) and lacks_batch(image, grid, spatial, values):
        messages.append(
            f"grid has shape {grid}, which is read as N = {grid[0]} lists of points for one image; "
            "if it is a single grid, pass grid[None]"
        )
    if is_normalized(request) and not repeats(request) and is_far_away(values):
        messages.append(
            "most points of the grid are more than 10 units away from the image, which is from -1 "
            f'to 1; if they are in pixels, pass coords="pixel"{about("coords")}'
        )
    for message in messages:
        warnings.warn(message, MisuseWarning, stacklevel=level)
    return bool(messages)


def check_layout(backend: Backend, image: Any, shape: Shape, last: bool) -> None:
    """Warn about an image without a grid whose channels seem to be last, although they are not."""
    if last or (not backend.is_host and is_traced()):
        return

    def is_network() -> bool:
        return type(image) is not np.ndarray and "float" in backend.type_name(image.dtype)

    suspicious = has_channels_last(shape) or (is_photo(shape) and not is_network())
    if suspicious and backend.is_concrete(image):
        level = user_level()
        if level:
            warnings.warn(layout_message(shape), MisuseWarning, stacklevel=level - 1)


def is_photo(shape: Shape) -> bool:
    """Whether signals (N, C, L) look like an image (H, W, C), if no network has computed them."""
    return len(shape) == 3 and 3 <= shape[2] <= MAX_CHANNELS and min(shape[:2]) > 4 * shape[2]


def has_channels_last(image: Shape) -> bool:
    """Whether an image that is read as (N, C, *spatial) looks like (N, *spatial, C).

    The last axis of (N, C, L, 1) is not taken for channels: it makes a signal an image.  The map of
    features (N, C, 12, 4) is not rare.
    """
    min_channels = 1 if len(image) >= 5 else 2
    if len(image) < 4 or not is_image(image) or not min_channels <= image[-1] <= MAX_CHANNELS:
        return False
    return min(image[1:-1]) > 4 * image[-1]


def layout_message(image: Shape) -> str:
    """Say how an image is read whose channels seem to be last."""
    if len(image) == 3:
        return (
            f"input has shape {image}, which is read as N = {image[0]} signals of C = {image[1]} "
            f"channels and {image[2]} samples; an image (H, W, C) is given as input[None], with "
            "channel_axis=-1"
        )
    return (
        f"input has shape {image}, which is read as C = {image[1]} channels of "
        f"{' x '.join(map(str, image[2:]))} pixels; if its channels are last, pass channel_axis=-1"
    )


def is_normalized(request: Request) -> bool:
    """Whether coordinates are normalized; units that are not checked yet may be an array."""
    return isinstance(request.coords, str) and request.coords == "normalized"


def repeats(request: Request) -> bool:
    """Whether the image is periodic along some axis, so that far points are meant."""
    return "wrap" in listed(request.padding_mode)


def lacks_batch(image: Shape, grid: Shape, spatial: Shape, values: Any) -> bool:
    """Whether a grid (*out, D) is read as N lists of points, for one image.

    It has the image's own size, or its four corners span a parallelogram, as those of a grid do.
    """
    if image[0] != 1 or grid[0] < 2 or len(grid) != len(image) - 1 or len(image) < 4:
        return False
    if grid[:-1] == spatial:
        return True
    if values is None or min(grid[:2]) < 8 or len(grid) != 3:
        return False
    a, b, c, d = (values[i, j].astype(float) for i in (0, -1) for j in (0, -1))
    if not np.isfinite([a, b, c, d]).all():
        return False
    longest = max(float(np.abs(d - a).max()), float(np.abs(c - b).max()))
    return bool(np.abs(a - b - c + d).max() < 0.1 * longest)


def is_far_away(values: Any) -> bool:
    """Whether most of a few points, evenly spaced over a grid, are far outside the image."""
    if values is None or not values.size or values.dtype.kind != "f":
        return False
    points = values.reshape(-1, values.shape[-1])[:: max(1, values.size // 64)]
    # Infinite points are masks, and have no unit.
    distances = np.abs(points[np.isfinite(points).all(-1)]).max(-1)
    return bool(2 * np.count_nonzero(distances > FAR) > len(distances))


def user_level() -> int:
    """The level, for `warnings.warn` in `warned`, of the user's call; 0 if a module calls."""
    frame, level = sys._getframe(1), 2
    caller = frame.f_back
    while caller is not None and name_of(caller).startswith("gridsample.backends"):
        caller = caller.f_back
    asked = caller is not None and name_of(caller) == "gridsample.torch_compat"
    while frame.f_back is not None:
        frame, level = frame.f_back, level + 1
        name = name_of(frame)
        if not name.startswith(FRONTS) and not (asked and name == "gridsample.torch_compat"):
            return 0 if name.startswith("gridsample.") else level
    return 0


def name_of(frame: FrameType) -> str:
    """The name of the module whose code a frame runs."""
    return str(frame.f_globals.get("__name__", ""))
