"""What every format reads and writes: an image, page by page; and what goes wrong, in one line."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample.alpha import Alpha


class FileError(ValueError):
    """A file that cannot be read, or cannot hold what it is asked to; one clear line."""


class MissingExtraError(ImportError):
    """A file format or drawing needs a package that is not installed."""


@dataclass(frozen=True)
class Image:
    """Pixels and what is known about them.

    Attributes:
        array: `(H, W, C)` or `(D, H, W, C)`.
        format: Name of the format it was read from, `"PNG"`, ...
        has_channel_axis: Whether the file has an axis for channels. Without, C is 1 and the axis is
            left off again in formats that can tell the two apart.
        extras: What the format keeps beside the pixels, by name.
        alpha: Which channel the file calls alpha; None if it calls none so.
    """

    array: NDArray[Any]
    format: str
    has_channel_axis: bool
    extras: Mapping[str, Any] = field(default_factory=dict)
    alpha: Alpha | None = None

    @property
    def size(self) -> tuple[int, ...]:
        """The size in pixels, x first: `(W, H)` or `(W, H, D)`."""
        return self.array.shape[-2::-1]

    @property
    def channels(self) -> int:
        """How many channels each pixel has."""
        return int(self.array.shape[-1])

    @property
    def stored(self) -> NDArray[Any]:
        """The array as files keep it: without the channel axis if there was none."""
        return self.array if self.has_channel_axis else self.array[..., 0]

    def resampled(self, array: NDArray[Any], voxels: NDArray[np.float64]) -> Image:
        """Give the image new pixels, on voxels that lie elsewhere in the world.

        Args:
            array: The new pixels, channels last, as many channels as before.
            voxels: `(D + 1, D + 1)` affine, new voxel -> old voxel, in x, y, z order. A NIfTI
                header's affines are multiplied by it, so that each new voxel is where it says.
        """
        extras = dict(self.extras)
        if "nifti" in extras:
            extras["nifti"] = extras["nifti"].moved(voxels)
        return Image(array, self.format, self.has_channel_axis, extras, self.alpha)


Rows = Callable[[int, int], NDArray[Any]]
"""Gives some rows of an image: (begin, end) -> (end - begin, ..., C)."""

Bands = Iterable[NDArray[Any]]
"""The pixels of an image from its first row (in a volume, slice) to its last, some at a time."""


@dataclass(frozen=True)
class Page:
    """One image of a file, whose pixels may not have been read yet.

    Attributes:
        image: What is known of it. Its array has the right shape and dtype, and perhaps nothing
            but zeros in it.
        open: Gives a function that reads rows (in a volume, slices), to be called with bands that
            go down the image and may overlap. What it keeps in memory goes when it does.
    """

    image: Image
    open: Callable[[], Rows]

    def pixels(self) -> NDArray[Any]:
        """All pixels of the page, as in `Image.array`."""
        return self.open()(0, self.image.array.shape[0])


def whole_page(image: Image) -> Page:
    """The page of an image whose pixels have been read."""
    return Page(image, lambda: lambda begin, end: image.array[begin:end])


def zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array of zeros that takes no memory: it stands for pixels that are not there yet."""
    return np.broadcast_to(np.zeros((), dtype.newbyteorder("=")), shape)


def collected(image: Image, bands: Bands) -> NDArray[Any]:
    """The pixels of an image as one array, whose memory is asked for before the first band is."""
    pixels = np.empty(image.array.shape, image.array.dtype)
    done = 0
    for band in bands:
        if len(band) == len(pixels):
            return band
        pixels[done : done + len(band)] = band
        done += len(band)
    return pixels


def require(module: str) -> Any:
    """Import a module that the core does without.

    Raises:
        MissingExtraError: With the command that installs it.

    >>> require("no_such_module")
    Traceback (most recent call last):
    gridsample.io.image.MissingExtraError: this needs no_such_module: pip install "gridsample[cli]"
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(f'this needs {package}: pip install "gridsample[cli]"') from error


@contextmanager
def one_line(doing: str) -> Iterator[None]:
    """Turn whatever a codec raises over bad content into one line that names the file."""
    try:
        yield
    except (FileError, MissingExtraError, MemoryError):
        raise
    except Exception as error:
        raise FileError(f"{doing}: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """Say in one line what an exception is about, without the numbers of the operating system."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split()) or type(error).__name__
