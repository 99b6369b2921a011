"""Images and pages, as every format reads and writes them, and errors in one line."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gridsample.alpha import Alpha


class FileError(ValueError):
    """A file cannot be read, or cannot store the given pixels. The message is one line."""


class MissingExtraError(ImportError):
    """A file format or drawing needs a package that is not installed."""


@dataclass(frozen=True)
class Image:
    """Pixels and their metadata.

    Attributes:
        array: `(H, W, C)` or `(D, H, W, C)`.
        format: The name of the format that it was read from, such as `"PNG"`.
        has_channel_axis: Whether the file has an axis for channels. If not, C is 1, and the axis is
            omitted again in formats that distinguish the two cases.
        extras: The metadata of the format, by name.
        alpha: The channel that the file marks as alpha; None if there is none.
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
    def is_overview(self) -> bool:
        """Whether a TIFF file marks it as a reduced copy of the page before."""
        return bool(self.extras.get("subfiletype", 0) & 1)

    @property
    def channels(self) -> int:
        """The number of channels."""
        return int(self.array.shape[-1])

    @property
    def stored(self) -> NDArray[Any]:
        """The array as stored in files: without the channel axis if the file has none."""
        return self.array if self.has_channel_axis else self.array[..., 0]

    @property
    def scaling(self) -> tuple[float, float]:
        """The slope and the intercept of a NIfTI header: value = slope * stored + intercept."""
        return self.extras["nifti"].scaling if "nifti" in self.extras else (1.0, 0.0)

    @property
    def spacing(self) -> tuple[float, ...] | None:
        """The distance between pixels, x first; None if unknown.

        It is in millimetres for NIfTI files, and in the units of the map for GeoTIFFs.
        """
        if "geotiff" in self.extras:
            spacing = self.extras["geotiff"].spacing
        elif "nifti" in self.extras:
            spacing = self.extras["nifti"].spacing[: self.array.ndim - 1]
        else:
            return None
        return spacing if min(spacing) > 0 else None

    def scaled(self) -> Image:
        """Return the image with an empty array for its values, which `scaled_bands` computes."""
        dtype = np.dtype(np.complex128 if self.array.dtype.kind == "c" else np.float64)
        extras = {name: extra for name, extra in self.extras.items() if name != "nifti"}
        if "nodata" in extras:
            slope, inter = self.scaling
            extras["nodata"] = float(extras["nodata"]) * slope + inter
        return replace(self, array=zeros(self.array.shape, dtype), extras=extras)

    def scaled_bands(self, bands: Bands) -> Bands:
        """Convert the stored numbers of bands to values, in double precision, as nibabel does."""
        slope, inter = self.scaling
        dtype = self.scaled().array.dtype
        return (band.astype(dtype) * slope + inter for band in bands)

    def values(self) -> Image:
        """Return the image with its values in place of the stored numbers."""
        (array,) = self.scaled_bands([self.array])
        return replace(self.scaled(), array=array)

    def resampled(self, array: NDArray[Any], voxels: NDArray[np.float64]) -> Image:
        """Return the image with new pixels, on a new grid of voxels.

        Args:
            array: The new pixels, channels last, with the same number of channels.
            voxels: `(D + 1, D + 1)` affine, new voxel -> old voxel, in x, y, z order. The affines
                of a NIfTI header and a GeoTIFF's georeference are multiplied by it, so that they
                describe the new voxels.  A GeoTIFF's is dropped if the map is not affine.
        """
        extras = dict(self.extras)
        if "nifti" in extras:
            extras["nifti"] = extras["nifti"].resampled(voxels)
        if "geotiff" in extras:
            extras["geotiff"] = extras["geotiff"].resampled(voxels)
            if extras["geotiff"] is None:
                del extras["geotiff"]
        return Image(array, self.format, self.has_channel_axis, extras, self.alpha)

    def placed(self, like: Any) -> Image:
        """Return the image with the affines of another NIfTI header, whose voxels it now has."""
        header = self.extras["nifti"].with_affines_of(like)
        return replace(self, extras={**self.extras, "nifti": header})


Rows = Callable[[int, int], NDArray[Any]]
"""Returns a range of rows of an image: (begin, end) -> (end - begin, ..., C)."""

Bands = Iterable[NDArray[Any]]
"""The pixels of an image in bands, from its first row (in a volume, slice) to its last."""


@dataclass(frozen=True)
class Page:
    """One image of a file, whose pixels may not have been read yet.

    Attributes:
        image: The metadata. Its array has the right shape and dtype, but may contain only zeros.
        open: Returns a function that reads rows (in a volume, slices). Call it with bands from the
            top of the image to the bottom; they may overlap. Its memory is released with it.
    """

    image: Image
    open: Callable[[], Rows]

    def pixels(self) -> NDArray[Any]:
        """Read all pixels of the page, as in `Image.array`."""
        return self.open()(0, self.image.array.shape[0])


def whole_page(image: Image) -> Page:
    """Return the page of an image whose pixels have been read."""
    return Page(image, lambda: lambda begin, end: image.array[begin:end])


def zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array of zeros that takes no memory: a placeholder for pixels not yet read."""
    return np.broadcast_to(np.zeros((), dtype.newbyteorder("=")), shape)


def collected(images: Sequence[Image], bands: Iterable[Bands]) -> Image:
    """Return the only image with its pixels, for formats that are not written in bands.

    Memory is allocated before the first band is requested.
    """
    (image,), (rows,) = images, bands
    pixels = np.empty(image.array.shape, image.array.dtype)
    done = 0
    for band in rows:
        if len(band) == len(pixels):
            return replace(image, array=band)
        pixels[done : done + len(band)] = band
        done += len(band)
    return replace(image, array=pixels)


def require(module: str, extra: str = "cli") -> Any:
    """Import an optional dependency, which is in one of the package's extras.

    Raises:
        MissingExtraError: It is not installed. The message has the command that installs it.

    >>> require("no_such_module")
    Traceback (most recent call last):
    gridsample.io.image.MissingExtraError: this needs no_such_module: pip install "gridsample[cli]"
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f'this needs {package}: pip install "gridsample[{extra}]"'
        ) from error


@contextmanager
def as_file_error(action: str) -> Iterator[None]:
    """Turn every exception of a codec into an error of one line that names the file.

    Raises:
        FileError: The codec cannot read or write the file.
        MemoryError: The memory does not suffice.
    """
    try:
        yield
    except (FileError, MissingExtraError):
        raise
    except MemoryError as error:  # of a file that is large, or says so
        raise MemoryError(f"{action}: {str(error) or 'it does not fit into memory'}") from error
    except Exception as error:
        raise FileError(f"{action}: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """Describe an exception in one line, without the error codes of the operating system."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split()) or type(error).__name__


# The number of pixels above which Pillow refuses a picture as a "decompression bomb".
MAX_PIXELS = 178_956_970
# Files with fewer pixels per byte hold what they say: a bomb has a thousand.
BOMB_RATIO = 50


def check_pixels(path: Path, size: Sequence[int], limit: int | None) -> None:
    """Raise an error, before pixels are decoded, if a file has too many for its size.

    Args:
        path: the file.
        size: the number of pixels along each axis, and of frames.
        limit: the number of pixels above which there may be no more than `BOMB_RATIO` per byte;
            None for no limit.

    Raises:
        FileError: the file may be an attack that fills the memory.
    """
    count = math.prod(size)
    if limit is None or count <= max(limit, BOMB_RATIO * path.stat().st_size):
        return
    raise FileError(
        f"{path} has {' x '.join(map(str, size))} pixels in {path.stat().st_size} bytes, which may "
        f"be an attack that fills the memory; accepted: up to {limit} pixels, or {BOMB_RATIO} per "
        f"byte; --max-pixels {count} (in Python, max_pixels) lifts the limit"
    )


@dataclass(frozen=True)
class NamedFormat:
    """A file format: its name for messages, and the ends of its files' names, in lower case."""

    name: str
    suffixes: tuple[str, ...]


F = TypeVar("F", bound=NamedFormat)


def by_suffix(path: Path, formats: Sequence[F], content: str) -> F:
    """Return the format whose suffix ends the name of a file.

    Raises:
        FileError: No format has the suffix; the message says of which ``content`` the file is.
    """
    for candidate in formats:
        if path.name.lower().endswith(candidate.suffixes):
            return candidate
    accepted = [suffix for known in formats for suffix in known.suffixes]
    raise unknown_suffix(path, content, accepted)


def unknown_suffix(path: Path, content: str, accepted: Iterable[str]) -> FileError:
    """Create the error for a file whose name does not tell what it is."""
    return FileError(
        f"{path}: unknown kind of {content}; the name must end in one of {', '.join(accepted)}"
    )
