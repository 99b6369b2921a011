"""Image files: read page by page, ask what a format can hold, write one whole or not at all.

Whatever the file, an `Image` is channels-last: `(H, W, C)` for a picture, `(D, H, W, C)` for a
volume. Pixels keep the dtype they are stored with.

| format | files | holds |
|---|---|---|
| PNG | `.png` | bool (grey), uint8, uint16; grey or colour, with or without alpha |
| JPEG | `.jpg`, `.jpeg` | uint8; grey or colour |
| TIFF | `.tif`, `.tiff` | every dtype; any channels; any number of pages |
| NumPy | `.npy` | every dtype; `(H, W)`, `(H, W, C)`, `(D, H, W)`, `(D, H, W, C)` |
| NIfTI | `.nii`, `.nii.gz` | numbers of 8 to 64 bits; 2-D, 3-D, and 4-D as channels |

What reading does beyond copying values:

- An array of three axes is `(H, W, C)` if the last is 1 to 4 long, else a volume `(D, H, W)`.
- A TIFF file of several pages is as many images, or with `volume` the slices of one.
- A palette becomes RGB, or RGBA if it has transparency; CMYK and YCbCr become RGB; an image whose
  zero means white is inverted.
- A picture that carries an orientation (EXIF) is turned upright, as OpenCV and Pillow's
  `exif_transpose` do, and the tag is dropped, so that no viewer turns it again.
- NIfTI voxels `(i, j, k)` are x, y, z. Their *stored* numbers are sampled, and the header's scaling
  (`scl_slope`, `scl_inter`) is handed on with them.
- Of an animation, the first frame is read.

Kept among PNG, JPEG and TIFF files: the ICC colour profile, the resolution (DPI), and the tags of
EXIF, without the thumbnail; those that tell the size in pixels tell the new one. Kept from TIFF to
TIFF, for each page: the meaning of extra channels and of the page. From NIfTI to NIfTI: the header
with its affines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample.alpha import Alpha
from gridsample.io import arrays, nifti, pictures, tiff
from gridsample.io.arrays import load_npy
from gridsample.io.image import (
    Bands,
    FileError,
    Image,
    MissingExtraError,
    Page,
    Rows,
    one_line,
    reason,
    require,
    zeros,
)
from gridsample.io.output import check_output, check_room, replacing

__all__ = [
    "FORMATS",
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
class Format:
    """One file format, as data: its names, what it holds, how it is read and written.

    Attributes:
        name: What people call it.
        suffixes: How its files' names end.
        holds: For each dtype it can store, the numbers of channels.
        ranks: Spatial ranks: 2 for pictures, 3 for volumes.
        read: `(path, volume, stack) -> pages`. What it opens, the stack closes.
        write: `(images, bands, path)`, to a path that may be overwritten: bands of each image.
        longest: How many pixels an axis can have.
        many: Whether it holds several pages.
        packs: Whether its files are compressed, so that their size is not known before.
        alpha: Which channel of an image the file written calls alpha.
    """

    name: str
    suffixes: tuple[str, ...]
    holds: Mapping[str, Container[int]]
    ranks: tuple[int, ...]
    read: Callable[[Path, bool, ExitStack], list[Page]]
    write: Callable[[Sequence[Image], Iterable[Bands], Path], None]
    longest: Callable[[Image], int] = lambda image: 2**63 - 1
    many: bool = False
    packs: bool = False
    alpha: Callable[[Image], Alpha | None] = lambda image: None

    def fits(self, dtype: np.dtype[Any], channels: int, rank: int) -> bool:
        """Tell whether the format can store such pixels without changing them."""
        return rank in self.ranks and channels in self.holds.get(dtype.name, ())


def format_of(path: Path) -> Format:
    """Find a file's format by the end of its name.

    Raises:
        FileError: No format has such files.

    >>> format_of(Path("brain.NII.gz")).name
    'NIfTI'
    """
    for candidate in FORMATS:
        if path.name.lower().endswith(candidate.suffixes):
            return candidate
    accepted = ", ".join(suffix for candidate in FORMATS for suffix in candidate.suffixes)
    raise FileError(f"{path}: unknown kind of file; the name must end in one of {accepted}")


@contextmanager
def pages(path: Path, *, volume: bool = False) -> Iterator[list[Page]]:
    """Open an image file, page by page.

    Only what is asked for of a page is in memory: of `.npy` files, and of TIFF pages that are not
    planar, turned or of a palette, some rows at a time; of others, the page.

    Args:
        path: A file in one of the formats above.
        volume: Take the pages of a TIFF file as the slices of one volume, and a `.npy` array of
            three axes as a volume `(D, H, W)` whatever its last axis.

    Yields:
        The pages; there is at least one. They can be read until the block ends.

    Raises:
        FileError: A name, content or pixel type that is not understood; also while rows are read.
        MissingExtraError: The package that reads the format is not installed.
        OSError: The file is missing or may not be read.
    """
    kind = format_of(path)
    doing = f"cannot read {path} as {kind.name}"

    def guarded(page: Page) -> Page:
        def opened() -> Rows:
            with one_line(doing):
                pixels = page.open()

            def rows(begin: int, end: int) -> NDArray[Any]:
                with one_line(doing):
                    return pixels(begin, end)

            return rows

        return Page(page.image, opened)

    with ExitStack() as stack:
        with path.open("rb"), one_line(doing):
            found = kind.read(path, volume, stack)
            for page in found:
                _check_pixels(path, page.image.array)
        yield [guarded(page) for page in found]


def read(path: Path, *, volume: bool = False) -> Image:
    """Read an image file of one page.

    Args:
        path: As in `pages`.
        volume: As in `pages`.

    Raises:
        FileError: As `pages`; also a file of several pages.
        MissingExtraError: As `pages`.
        OSError: As `pages`.
    """
    with pages(path, volume=volume) as found:
        if len(found) > 1:
            raise FileError(
                f"{path} has {len(found)} pages where one image is needed; "
                "--volume takes them as the slices of one"
            )
        image = found[0].image
        return Image(
            found[0].pixels(), image.format, image.has_channel_axis, image.extras, image.alpha
        )


def describe(image: Image) -> list[tuple[str, str]]:
    """List what there is to know about an image, as names and values to print.

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
    if "nifti" in image.extras:
        _, header = image.extras["nifti"]
        slope, inter = header.get_slope_inter()
        rows = [" ".join(f"{number:9.4g}" for number in row) for row in header.get_best_affine()]
        zooms = header.get_zooms()[: image.array.ndim - 1]
        space_unit = header.get_xyzt_units()[0]
        facts += [
            ("voxel", " x ".join(f"{zoom:g}" for zoom in zooms) + f" ({space_unit})"),
            ("affine", "\n".join(rows)),
            ("scaling", f"value = {slope:g} * stored + {inter:g}"),
        ]
    return facts


def check_writable(path: Path, images: Sequence[Image]) -> None:
    """Refuse, before any work is done, what the file at `path` could not hold.

    Args:
        path: The file to write.
        images: Its pages. Of their pixels, shape and dtype matter.

    Raises:
        FileError: The format has no room for such pixels, so many or so many pages, or the disk
            has none; the message says what does.
    """
    kind = format_of(path)
    if len(images) > 1 and not kind.many:
        others = " and ".join(other.name for other in FORMATS if other.many)
        raise FileError(
            f"cannot write {path}: {kind.name} holds one page, and there are {len(images)}; "
            f"{others} holds all of them"
        )
    for image in images:
        dtype, channels, rank = image.array.dtype, image.channels, image.array.ndim - 1
        if not kind.fits(dtype, channels, rank):
            pixels = f"{dtype.name} {'pictures' if rank == 2 else 'volumes'} of {_count(channels)}"
            names = [other.name for other in FORMATS if other.fits(dtype, channels, rank)]
            raise FileError(
                f"cannot write {path}: {kind.name} does not hold {pixels}"
                + (f"; {' and '.join(names)} do" if names else "")
            )
        if max(image.size) > kind.longest(image):
            size = "x".join(map(str, image.size))
            raise FileError(
                f"cannot write {path}: {kind.name} holds {kind.longest(image)} pixels along an "
                f"axis, and the image is {size}"
            )
    if not kind.packs:
        check_room(path, sum(_size(image) for image in images))


def alpha_of(image: Image, path: Path) -> Alpha | None:
    """Which channel of an image is alpha.

    It is the one that the file it comes from calls so, or else the file at `path` will.
    """
    return image.alpha if image.alpha is not None else format_of(path).alpha(image)


def write(image: Image, path: Path, *, overwrite: bool = False) -> None:
    """Write an image file of one page, whole or not at all.

    Args:
        image: The pixels, with the extras of the file they came from.
        path: As in `write_pages`.
        overwrite: As in `write_pages`.

    Raises:
        FileError: As `write_pages`.
        MissingExtraError: As `write_pages`.
        OSError: As `write_pages`.
    """
    write_pages([image], [[image.array]], path, overwrite=overwrite)


def write_pages(
    images: Sequence[Image], bands: Iterable[Bands], path: Path, *, overwrite: bool = False
) -> None:
    """Write an image file page by page, whole or not at all.

    TIFF and `.npy` files are written as the bands come; for others they are collected.

    Args:
        images: What to write, with the extras of the files they came from. Of their arrays, shape
            and dtype matter.
        bands: The pixels of each: from the first row (in a volume, slice) to the last, channels
            last. They are asked for page after page.
        path: Where to; the end of its name decides the format. JPEG is written at quality 95 with
            full colour resolution, TIFF and NIfTI without and `.nii.gz` with compression.
        overwrite: Whether a file that is there already may be replaced.

    Raises:
        FileError: The format cannot hold the pixels, the writing failed, or the file exists.
        MissingExtraError: The package that writes the format is not installed.
        OSError: The folder may not be written.
    """
    check_writable(path, images)
    with replacing(path, overwrite=overwrite) as beside:
        format_of(path).write(images, bands, beside)


def _check_pixels(path: Path, array: NDArray[Any]) -> None:
    if array.dtype.name not in _EVERY_DTYPE:
        raise FileError(f"{path} has pixels of dtype {array.dtype}; numbers and bool are read")
    if 0 in array.shape:
        raise FileError(f"{path} is empty: its shape is {array.shape}")


def _value_range(array: NDArray[Any]) -> str:
    """Give the least and the greatest value, of magnitudes for complex pixels, NaN set apart."""
    values = np.abs(array) if array.dtype.kind == "c" else array
    missing = int(np.isnan(values).sum())
    if missing == values.size:
        return "all NaN"
    low, high = np.nanmin(values), np.nanmax(values)
    kind = "magnitudes " if array.dtype.kind == "c" else ""
    return f"{kind}{low} to {high}" + (f", and {missing} NaN" if missing else "")


def _count(channels: int) -> str:
    return "1 channel" if channels == 1 else f"{channels} channels"


def _size(image: Image) -> int:
    return math.prod(image.array.shape) * image.array.dtype.itemsize


_ANY = range(1, 1 << 16)
_WHOLE = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
_WIDE = ["float32", "float64", "complex64", "complex128"]
_EVERY_DTYPE = ["bool", *_WHOLE, "float16", *_WIDE]

FORMATS = (
    Format(
        "PNG",
        (".png",),
        {"bool": (1,), "uint8": (1, 2, 3, 4), "uint16": (1, 2, 3, 4)},
        (2,),
        pictures.read_pages,
        pictures.write_png,
        longest=lambda image: 2**31 - 1,
        packs=True,
        alpha=lambda image: pictures.png_alpha(image.channels),
    ),
    Format(
        "JPEG",
        (".jpg", ".jpeg"),
        {"uint8": (1, 3)},
        (2,),
        pictures.read_pages,
        pictures.write_jpeg,
        longest=lambda image: 65500,  # of libjpeg
        packs=True,
    ),
    Format(
        "TIFF",
        (".tif", ".tiff"),
        {**dict.fromkeys(_EVERY_DTYPE, _ANY), "bool": (1,)},
        (2, 3),
        tiff.read_pages,
        tiff.write_pages,
        longest=lambda image: 2**32 - 1,
        many=True,
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
        "NIfTI",
        (".nii", ".nii.gz"),
        dict.fromkeys([*_WHOLE, *_WIDE], _ANY),
        (2, 3),
        nifti.read_pages,
        nifti.write_pages,
        longest=nifti.longest,
        packs=True,  # .nii.gz
    ),
)
"""Every format, in the order in which messages name them."""
