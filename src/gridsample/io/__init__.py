"""Image files: read and write them page by page, and check what a format can store.

For every format, an `Image` is channels-last: `(H, W, C)` for a picture, `(D, H, W, C)` for a
volume. Pixels keep their stored dtype. A file is written completely or not at all.

| format | files | stores |
|---|---|---|
| PNG | `.png` | bool (grey), uint8, uint16; grey or colour, with or without alpha |
| JPEG | `.jpg`, `.jpeg` | uint8; grey or colour |
| WebP | `.webp` | uint8; colour, with or without alpha |
| AVIF | `.avif` | uint8; colour, with or without alpha; where Pillow supports it |
| BMP | `.bmp` | uint8; grey or colour |
| GIF | `.gif` | uint8; grey or colour, with or without alpha, rounded to 256 colours |
| TIFF | `.tif`, `.tiff` | every dtype; any channels; any number of pages |
| NumPy | `.npy` | every dtype; `(H, W)`, `(H, W, C)`, `(D, H, W)`, `(D, H, W, C)` |
| NumPy archive | `.npz` | one array, as in `.npy` |
| MGH | `.mgz` | uint8, int16, int32, float32; 3-D, and 4-D with channels |
| NIfTI | `.nii`, `.nii.gz` | 8- to 64-bit numbers; 2-D, 3-D, and 4-D with channels |

Reading does more than copying values in these cases:

- An array with three axes is `(H, W, C)` if the last has length 1 to 4, otherwise `(D, H, W)`.
- The pages of a TIFF file are separate images, or with `volume` the slices of one volume.
- A palette is converted to RGB, or to RGBA if it has transparency. CMYK and YCbCr are converted to
  RGB. An image of unsigned integers in which zero means white is inverted. The bits of a bool image
  are kept, as they may be a mask; written as a picture, an image in which zero means white is
  inverted.
- A picture with an EXIF orientation is turned upright, as in OpenCV and Pillow's `exif_transpose`.
  The tag is removed, so that no viewer turns the picture again.
- NIfTI voxels `(i, j, k)` are x, y, z. Their *stored* numbers are read, and the header's scaling
  (`scl_slope`, `scl_inter`) is preserved. Files in other formats get the values, value = slope *
  stored + intercept, in float64, so a scaled file cannot be written as PNG or JPEG.
- The frames of an animation (PNG, WebP, GIF, AVIF) are pages, which these formats store with their
  durations.

Between PNG, JPEG, WebP, AVIF and TIFF files, these are preserved: the ICC colour profile, the
resolution (DPI; not in WebP and AVIF), and the EXIF tags except the thumbnail, with the size in
pixels updated. From TIFF to TIFF: the meaning of extra channels and of each page, tiles, BigTIFF,
and the compression, with zlib in place of one that loses information. From NIfTI to NIfTI: the
header with its affines.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample.alpha import Alpha
from gridsample.io import arrays, nifti, pictures, tiff
from gridsample.io.arrays import load_npy
from gridsample.io.image import (
    MAX_PIXELS,
    Bands,
    FileError,
    Image,
    MissingExtraError,
    NamedFormat,
    Page,
    Rows,
    as_file_error,
    by_suffix,
    reason,
    require,
    zeros,
)
from gridsample.io.output import (
    check_free_space,
    check_image,
    check_output,
    checked_bands,
    replacing,
)

__all__ = [
    "FORMATS",
    "MAX_PIXELS",
    "Bands",
    "FileError",
    "Format",
    "Image",
    "MissingExtraError",
    "Page",
    "Path",
    "Rows",
    "alpha_of",
    "check_output",
    "check_writable",
    "describe",
    "format_of",
    "load_npy",
    "pages",
    "read",
    "reason",
    "replacing",
    "require",
    "write",
    "write_pages",
    "zeros",
]


@dataclass(frozen=True)
class Format(NamedFormat):
    """A file format as data: its names, what it stores, and how it is read and written.

    Attributes:
        name, suffixes: See `NamedFormat`.
        holds: For each dtype that it can store, the numbers of channels.
        ranks: The spatial ranks that it can store: 2 for pictures, 3 for volumes.
        read: `(path, volume, stack, limit) -> pages`. The stack closes the files that it opens. The
            limit is that of `check_pixels`.
        write: `(images, bands, path)`. Writes the bands of each image, and may overwrite the path.
        max_length: The largest number of pixels along an axis.
        several_pages: Whether a file can have several pages.
        animates: Whether a file can have the frames of an animation.
        scales: Whether files hold the scaling of their stored numbers.
        compresses: Whether files are compressed, so that their size is not known in advance.
        alpha: Returns the channel of an image that is alpha in the written file.
    """

    holds: Mapping[str, Container[int]]
    ranks: tuple[int, ...]
    read: Callable[[Path, bool, ExitStack, int | None], list[Page]]
    write: Callable[[Sequence[Image], Iterable[Bands], Path], None]
    max_length: Callable[[Image], int] = lambda image: 2**63 - 1
    several_pages: bool = False
    animates: bool = False
    scales: bool = False
    compresses: bool = False
    alpha: Callable[[Image], Alpha | None] = lambda image: None

    def fits(self, dtype: np.dtype[Any], channels: int, rank: int) -> bool:
        """Return whether the format can store such pixels without conversion."""
        return rank in self.ranks and channels in self.holds.get(dtype.name, ())


def format_of(path: Path) -> Format:
    """Return the format of a file according to its extension.

    Raises:
        FileError: The extension is unknown.

    >>> format_of(Path("brain.NII.gz")).name
    'NIfTI'
    """
    return by_suffix(path, FORMATS, "file")


@contextmanager
def pages(
    path: Path | str, *, volume: bool = False, max_pixels: int | None = MAX_PIXELS
) -> Iterator[list[Page]]:
    """Open an image file as a list of pages.

    Only the requested part of a page is in memory. For `.npy` files, and for TIFF pages that are
    neither planar nor rotated nor in a palette, that is a range of rows; otherwise, the whole page.

    Args:
        path: A file in one of the formats above.
        volume: Treat the pages of a TIFF file as the slices of one volume, and a `.npy` array with
            three axes as a volume `(D, H, W)` for every length of its last axis.
        max_pixels: The number of pixels above which a picture, or a page of a TIFF file, is refused
            if the file has more than 50 of them per byte, as decompression bombs have. None for no
            limit.

    Yields:
        The pages; there is at least one. They can be read until the block ends.

    Raises:
        FileError: The name, content or dtype is not supported. This can also be raised while rows
            are read.
        MissingExtraError: The package that reads the format is not installed.
        OSError: The file does not exist or cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        raise FileError(
            f"{path} is a folder; accepted: a file, or where Zarr is read, a folder with a Zarr "
            "array or OME-Zarr image"
        )
    path.stat()  # a missing file is reported before an unknown extension
    file_format = format_of(path)
    action = f"cannot read {path} as {file_format.name}"

    def with_errors(page: Page) -> Page:
        def opened() -> Rows:
            with as_file_error(action):
                pixels = page.open()

            def rows(begin: int, end: int) -> NDArray[Any]:
                with as_file_error(action):
                    return pixels(begin, end)

            return rows

        return Page(page.image, opened)

    with ExitStack() as stack:
        with path.open("rb"), as_file_error(action):
            opened_pages = file_format.read(path, volume, stack, max_pixels)
            for page in opened_pages:
                _check_pixels(path, page.image.array)
        yield [with_errors(page) for page in opened_pages]


def read(path: Path | str, *, volume: bool = False, max_pixels: int | None = MAX_PIXELS) -> Image:
    """Read an image file with one page.

    Args:
        path: A file in one of the formats above.
        volume, max_pixels: As in `pages`.

    Raises:
        FileError: The file is not supported, or has several pages.
        MissingExtraError: The package that reads the format is not installed.
        OSError: The file does not exist or cannot be read.
    """
    with pages(path, volume=volume, max_pixels=max_pixels) as opened:
        if len(opened) > 1:
            raise FileError(
                f"{path} has {len(opened)} pages, but a single image is required; "
                "--volume treats them as the slices of one volume"
            )
        return replace(opened[0].image, array=opened[0].pixels())


def describe(image: Image) -> list[tuple[str, str]]:
    """List the properties of an image, as names and values to print.

    >>> picture = Image(np.array([[[0], [255]]], np.uint8), "PNG", has_channel_axis=False)
    >>> for name, value in describe(picture):
    ...     print(name, "|", value)
    format | PNG
    size | 2 x 1
    shape | (1, 2) as (H, W)
    dtype | uint8
    channels | 1
    values | 0 to 255
    """
    letters = ["D", "H", "W", "C"][4 - image.array.ndim :][: image.stored.ndim]
    facts = [
        ("format", image.format),
        ("size", " x ".join(map(str, image.size))),
        ("shape", f"{image.stored.shape} as ({', '.join(letters)})"),
        ("dtype", image.array.dtype.name),
        ("channels", str(image.channels)),
        ("values", _value_range(image.array)),
    ]
    if "frame" in image.extras:
        facts.append(("duration", f"{image.extras['frame'].duration:g} ms"))
    if "nodata" in image.extras:
        facts.append(("nodata", f"{image.extras['nodata']}"))
    if "nifti" in image.extras:
        stored = image.extras["nifti"]
        slope, inter = image.scaling
        header, unit = stored.header, stored.unit
        rows = [" ".join(f"{number:9.4g}" for number in row) for row in header.get_best_affine()]
        sizes = [f"{length / unit:g}" for length in stored.spacing[: image.array.ndim - 1]]
        facts += [
            ("voxel", " x ".join(sizes) + f" ({header.get_xyzt_units()[0]})"),
            ("affine", "\n".join(rows)),
        ]
        if stored.disagrees:
            zooms = " x ".join(f"{zoom:g}" for zoom in header.get_zooms()[: image.array.ndim - 1])
            facts.append(("qform", f"disagrees with the sform, which is used; its voxels: {zooms}"))
        facts += [
            ("scaling", f"value = {slope:g} * stored + {inter:g}"),
        ]
    return facts


def check_writable(path: Path | str, images: Sequence[Image]) -> None:
    """Raise an error, before any work is done, if the file at `path` cannot store the images.

    Args:
        path: The file to write.
        images: Its pages. Only the shape and dtype of their arrays are used.

    Raises:
        FileError: The format cannot store such pixels, images of this size or several pages, and
            the message names formats that can; or the disk has too little space.
    """
    path = Path(path)
    file_format = format_of(path)
    for image in images:
        check_image(image, path)
    are_frames = all("frame" in image.extras for image in images)
    several = [known for known in FORMATS if known.several_pages or (known.animates and are_frames)]
    if len(images) > 1 and file_format not in several:
        others = ", ".join(other.name for other in several)
        raise FileError(
            f"cannot write {path}: {file_format.name} holds one page, and there are {len(images)}; "
            f"accepted: {others}"
        )
    written = _written(file_format, images)
    for stored, image in zip(images, written, strict=True):
        dtype, channels, rank = image.array.dtype, image.channels, image.array.ndim - 1
        if not file_format.fits(dtype, channels, rank):
            plural = "" if channels == 1 else "s"
            content = "pictures" if rank == 2 else "volumes"
            pixels = f"{dtype.name} {content} of {channels} channel{plural}"
            slope, inter = stored.scaling
            if (slope, inter) != (1, 0):
                pixels += f" (the scaled values {slope:g} * stored + {inter:g})"
            names = [other.name for other in FORMATS if other.fits(dtype, channels, rank)]
            raise FileError(
                f"cannot write {path}: {file_format.name} does not hold {pixels}"
                + (f"; {' and '.join(names)} do" if names else "")
            )
        if max(image.size) > file_format.max_length(image):
            size = "x".join(map(str, image.size))
            raise FileError(
                f"cannot write {path}: {file_format.name} holds {file_format.max_length(image)} "
                f"pixels along an axis, and the image is {size}"
            )
    if not file_format.compresses:
        check_free_space(path, sum(image.array.nbytes for image in written))


def alpha_of(image: Image, path: Path) -> Alpha | None:
    """Return the alpha channel of an image.

    This is the channel that the image's own file marks as alpha, or otherwise the one that is alpha
    in the file at `path`.
    """
    return image.alpha if image.alpha is not None else format_of(path).alpha(image)


def write(image: Image, path: Path | str, *, overwrite: bool = False) -> None:
    """Write an image file with one page, completely or not at all.

    Args:
        image: The pixels, with the metadata of the file that they came from.
        path: The file to write, as in `write_pages`.
        overwrite: Whether an existing file may be replaced.

    Raises:
        FileError: The array is not an image, the format cannot store it, writing failed, or the
            file exists.
        TypeError: An image is not an `Image` of a NumPy array.
        MissingExtraError: The package that writes the format is not installed.
        OSError: The folder is not writable.
    """
    check_image(image, Path(path))
    write_pages([image], [[image.array]], path, overwrite=overwrite)


def write_pages(
    images: Sequence[Image], bands: Iterable[Bands], path: Path | str, *, overwrite: bool = False
) -> None:
    """Write an image file page by page, completely or not at all.

    TIFF and `.npy` files are written one band at a time; for other formats, the bands are collected
    first.

    Args:
        images: The pages, with the metadata of the files that they came from. Only the shape and
            dtype of their arrays are used.
        bands: The pixels of each page, from the first row (in a volume, slice) to the last,
            channels last. They are requested page after page.
        path: The file to write. Its extension determines the format. JPEG is written with quality
            95 and full colour resolution, NIfTI without compression, `.nii.gz` with it, and TIFF
            with that of the file that the image came from.
        overwrite: Whether an existing file may be replaced.

    Raises:
        FileError: The array is not an image, or the bands are not its pixels, the format cannot
            store them, writing failed, or the file exists.
        TypeError: An image is not an `Image` of a NumPy array.
        MissingExtraError: The package that writes the format is not installed.
        OSError: The folder is not writable.
    """
    path = Path(path)
    check_writable(path, images)
    file_format = format_of(path)
    values = (
        checked_bands(image, rows, path, scaled=_loses_scaling(file_format, image))
        for image, rows in zip(images, bands, strict=True)
    )
    with replacing(path, overwrite=overwrite) as temporary:
        file_format.write(_written(file_format, images), values, temporary)


def _loses_scaling(file_format: Format, image: Image) -> bool:
    """Whether values are written in place of the stored numbers of an image."""
    return not file_format.scales and image.scaling != (1, 0)


def _written(file_format: Format, images: Sequence[Image]) -> list[Image]:
    """Return the images whose pixels are written; those that are converted have no pixels yet."""
    native = (image if image.array.dtype.isnative else _native(image) for image in images)
    return [image.scaled() if _loses_scaling(file_format, image) else image for image in native]


def _native(image: Image) -> Image:
    """Return an image without its pixels, in the byte order of the machine."""
    return replace(image, array=zeros(image.array.shape, image.array.dtype))


def _check_pixels(path: Path, array: NDArray[Any]) -> None:
    if array.dtype.name not in _EVERY_DTYPE:
        raise FileError(f"{path} has pixels of dtype {array.dtype}; accepted: numbers and bool")
    if 0 in array.shape:
        raise FileError(f"{path} is empty: its shape is {array.shape}")


def _value_range(array: NDArray[Any]) -> str:
    """Return the smallest and largest value, of magnitudes for complex pixels, without NaN."""
    values = np.abs(array) if array.dtype.kind == "c" else array
    missing = int(np.isnan(values).sum())
    if missing == values.size:
        return "all NaN"
    low, high = np.nanmin(values), np.nanmax(values)
    prefix = "magnitudes " if array.dtype.kind == "c" else ""
    return f"{prefix}{low} to {high}" + (f", and {missing} NaN" if missing else "")


_ANY = range(1, 1 << 16)
_INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
_FLOATS = ["float32", "float64", "complex64", "complex128"]
_EVERY_DTYPE = ["bool", *_INTEGERS, "float16", *_FLOATS]


def _picture(
    name: str,
    suffixes: tuple[str, ...],
    holds: Mapping[str, Container[int]],
    write: Callable[[Sequence[Image], Iterable[Bands], Path], None],
    max_length: int,
    compresses: bool = True,
    animates: bool = False,
) -> Format:
    """Make a format of pictures; if it has 4 channels, the last of 2 or 4 is alpha."""
    has_alpha = any(4 in channels for channels in holds.values())
    return Format(
        name,
        suffixes,
        holds,
        (2,),
        pictures.read_pages,
        write,
        max_length=lambda image: max_length,
        animates=animates,
        compresses=compresses,
        alpha=lambda image: pictures.last_alpha(image.channels) if has_alpha else None,
    )


_PNG = {"bool": (1,), "uint8": (1, 2, 3, 4), "uint16": (1, 2, 3, 4)}
_GREY_OR_RGB = {"uint8": (1, 3)}
_RGB_OR_RGBA = {"uint8": (3, 4)}
_ANY_COLOURS = {"uint8": (1, 2, 3, 4)}

FORMATS = (
    _picture("PNG", (".png",), _PNG, pictures.write_png, 2**31 - 1, animates=True),
    # libjpeg limits the length of an axis.
    _picture("JPEG", (".jpg", ".jpeg"), _GREY_OR_RGB, pictures.write_jpeg, 65500),
    Format(
        "TIFF",
        (".tif", ".tiff"),
        {**dict.fromkeys(_EVERY_DTYPE, _ANY), "bool": (1,)},
        (2, 3),
        tiff.read_pages,
        tiff.write_pages,
        max_length=lambda image: 2**32 - 1,
        several_pages=True,
        alpha=tiff.written_alpha,
    ),
    Format(
        "NumPy",
        (".npy",),
        dict.fromkeys(_EVERY_DTYPE, _ANY),
        (2, 3),
        arrays.read_pages,
        arrays.write_pages,
    ),
    Format(
        "NumPy archive",
        (".npz",),
        dict.fromkeys(_EVERY_DTYPE, _ANY),
        (2, 3),
        arrays.read_pages,
        arrays.write_npz,
        compresses=True,
    ),
    Format(
        "NIfTI",
        (".nii", ".nii.gz"),
        dict.fromkeys([*_INTEGERS, *_FLOATS], _ANY),
        (2, 3),
        nifti.read_pages,
        nifti.write_pages,
        max_length=nifti.max_length,
        scales=True,
        compresses=True,  # .nii.gz
    ),
    Format(
        "MGH",
        (".mgz",),
        dict.fromkeys(["uint8", "int16", "int32", "float32"], _ANY),
        (3,),
        nifti.read_mgh,
        nifti.write_mgh,
        max_length=lambda image: 2**31 - 1,
        compresses=True,
    ),
    _picture("WebP", (".webp",), _RGB_OR_RGBA, pictures.write_webp, 16383, animates=True),
    _picture("AVIF", (".avif",), _RGB_OR_RGBA, pictures.write_avif, 65536, animates=True),
    _picture("BMP", (".bmp",), _GREY_OR_RGB, pictures.write_bmp, 2**31 - 1, compresses=False),
    _picture("GIF", (".gif",), _ANY_COLOURS, pictures.write_gif, 65535, animates=True),
)
"""Every format, in the order in which messages name them."""
